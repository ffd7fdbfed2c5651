//! Writes and reads of several iov entries in one call of the provider.

use super::bindings as sys;
use super::constants::MAX_IOV;
use super::endpoint::{Direction, Endpoint};
use super::slots::Slot;
use crate::netmod::{AGAIN, IovTransfer};
use std::ffi::c_void;
use std::ptr::null_mut;

const INVALID: isize = -(libc::EINVAL as isize);

impl Endpoint {
    /// See [`Netmod::write_iov`](crate::netmod::Netmod::write_iov) and
    /// [`Netmod::read_iov`](crate::netmod::Netmod::read_iov).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn transfer_iov(&self, op: IovTransfer<'_>, direction: Direction) -> isize {
        let count = op.list.len();
        if count == 0 || count > self.owner().caps.iov_limit {
            return INVALID;
        }
        let mut iov = [sys::iovec { iov_base: null_mut(), iov_len: 0 }; MAX_IOV];
        let mut remote = [sys::fi_rma_iov { addr: 0, len: 0, key: 0 }; MAX_IOV];
        let mut desc = [null_mut(); MAX_IOV];
        for (i, b) in op.list.iter().enumerate() {
            iov[i] = sys::iovec { iov_base: b.buf.cast(), iov_len: b.len };
            remote[i] = sys::fi_rma_iov { addr: b.addr, len: b.len, key: op.key };
        }
        let Some((index, slot)) = self.slots.tracked() else { return AGAIN };
        slot.token = op.token;
        slot.dest = op.dest;
        if self.owner().requires_registration(sys::FI_MR_LOCAL) {
            // SAFETY: [BUF]: the buffers stay until the completion.
            let rc = unsafe {
                self.local_iov(slot, index, &mut iov[..count], &mut desc[..count], direction)
            };
            if rc != 0 {
                self.slots.release(index, slot);
                return rc;
            }
        }
        let msg = sys::fi_msg_rma {
            msg_iov: iov.as_ptr(),
            desc: desc.as_mut_ptr(),
            iov_count: count,
            addr: op.dest,
            rma_iov: remote.as_ptr(),
            rma_iov_count: count,
            context: slot.as_context(),
            data: 0,
        };
        // SAFETY: [DEST]; the endpoint is enabled and has RMA; vectors are copied at the
        // call (fi_rma(3)); slot and buffers live until the completion: [BUF].
        let rc = unsafe { self.issue(&msg, direction) };
        if rc != 0 {
            self.slots.release(index, slot);
        }
        rc
    }

    /// The entries as a provider with `FI_MR_LOCAL` needs them: bounced together
    /// where they are short, else registered one by one.
    ///
    /// # Safety
    /// \[BUF\]: the buffers stay until the slot's completion.
    #[cold]
    unsafe fn local_iov(
        &self,
        slot: &mut Slot,
        index: u16,
        iov: &mut [sys::iovec],
        desc: &mut [*mut c_void],
        direction: Direction,
    ) -> isize {
        let total: usize = iov.iter().map(|v| v.iov_len).sum();
        let Some(bounce) = self.bounce.as_ref().filter(|b| total <= b.each) else {
            for (v, desc) in iov.iter().zip(desc) {
                // SAFETY: [BUF]: `v` stays until the completion.
                match unsafe { self.register_for_operation(slot, v.iov_base.cast(), v.iov_len) } {
                    Ok(found) => *desc = found,
                    Err(code) => return code,
                }
            }
            return 0;
        };
        slot.copy_from = 0;
        let mut start = bounce.at(index);
        for (v, desc) in iov.iter_mut().zip(desc) {
            let buf = v.iov_base.cast::<u8>();
            match direction {
                // SAFETY: the slot's part of the bounce memory holds the sum of
                // the lengths, and `buf` its own.
                Direction::Write => unsafe { start.copy_from_nonoverlapping(buf, v.iov_len) },
                Direction::Read => slot.copy_to.push((buf, v.iov_len)),
            }
            v.iov_base = start.cast();
            *desc = bounce.desc();
            start = start.wrapping_add(v.iov_len);
        }
        0
    }
}
