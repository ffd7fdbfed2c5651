//! Writes and reads of several iov entries, each by a call of its own.

use super::bindings as sys;
use super::domain::return_code;
use super::endpoint::Worker;
use super::slots::{self, CallStatus};
use crate::netmod::{AGAIN, IovTransfer};

impl Worker {
    /// Writes or reads several iov entries, each by a call of its own; the token
    /// comes back behind the last.
    ///
    /// # Safety
    /// As [`Netmod::write_iov`](crate::netmod::Netmod::write_iov).
    pub(super) unsafe fn transfer_iov(&self, op: IovTransfer<'_>, write: bool) -> isize {
        let Some(slot) = self.inner().take(Some(op.token), op.dest) else { return AGAIN };
        let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
        let param = slots::tracked(slot);
        for (at, iov) in op.list.iter().enumerate() {
            // SAFETY: [DEST]; [KEY], [BUF] for every entry; the slot lives until `calls_left`
            // is 0, which it is not before the last line.
            unsafe {
                let pointer = if write {
                    let buf = iov.buf.cast_const().cast();
                    (self.f().ucp_put_nbx)(ep, buf, iov.len, iov.addr, rkey, &param)
                } else {
                    (self.f().ucp_get_nbx)(ep, iov.buf.cast(), iov.len, iov.addr, rkey, &param)
                };
                match slots::decode(pointer) {
                    CallStatus::Done => {}
                    CallStatus::InProgress(_) => (*slot).calls_left += 1,
                    CallStatus::Refused(status) if at == 0 => {
                        self.inner().release(slot);
                        return return_code(status);
                    }
                    CallStatus::Refused(status) => {
                        (*slot).failed = status;
                        break;
                    }
                }
            }
        }
        // SAFETY: ends the count of 1 that kept the slot.
        unsafe { self.inner().end_call(slot, sys::UCS_OK) };
        0
    }
}
