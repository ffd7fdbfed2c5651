//! Operations that answer with a token: issued, tried again, waited for.

use super::Access;
use crate::device::{self, Progress, Token};
use crate::netmod::{Iov, IovTransfer, Netmod, Transfer, UNSUPPORTED};
use crate::rma::Error;
use crate::rma::types::Remote;

impl<N: Netmod> Access<N> {
    /// Moves bytes in pieces the provider takes: writes those at `buf`, or reads
    /// into it. Without `NB` they go through bounce memory, and the buffer is the
    /// caller's on return.
    ///
    /// # Safety
    /// \[TARGET\]: the target holds `len` bytes; \[BUF\], when reading \[INTO\], of
    /// `len` bytes, if `NB` until the flush.
    pub(super) unsafe fn transfer_long<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        remote: &Remote,
        write: bool,
    ) -> Result<(), Error> {
        let caps = self.endpoint(remote)?.0.caps();
        let direct = NB || len > caps.done_at_call;
        let longest = if direct { caps.max_message } else { caps.max_message.min(device::PIECE) };
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(longest);
            let addr = remote.addr + done as u64;
            // SAFETY: done < len.
            let at = unsafe { buf.add(done) };
            if direct {
                let iov = [Iov { buf: at, len: piece, addr }];
                // SAFETY: [TARGET]; [BUF], [INTO]: until the flush, or all is over when
                // the call returns; one entry.
                unsafe { self.transfer(remote, &iov, write, false)? };
            } else {
                let mut bounce = self.cold.bounce_pool.take(piece);
                let start = bounce.start();
                let iov = [Iov { buf: start, len: piece, addr }];
                // SAFETY: [BUF], [INTO]: both hold the piece; the bounce memory is
                // leaked if this fails.
                unsafe {
                    if write {
                        start.copy_from_nonoverlapping(at, piece);
                    }
                    let token = self.transfer(remote, &iov, write, true)?;
                    self.await_token(token, remote.peer)?;
                    if !write {
                        at.copy_from_nonoverlapping(start, piece);
                    }
                }
                self.cold.bounce_pool.put_back(bounce);
            }
            done += piece;
        }
        Ok(())
    }

    /// Writes or reads a list by one call of the provider.
    ///
    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of what the list names, until the
    /// token came back. The provider takes as many entries and bytes by one call.
    pub(in crate::rma) unsafe fn transfer(
        &self,
        remote: &Remote,
        list: &[Iov],
        write: bool,
        awaited: bool,
    ) -> Result<Token, Error> {
        // SAFETY: the caller's.
        let token = unsafe { self.transfer_unmarked(remote, list, write, awaited) }?;
        self.mark_issued(remote);
        Ok(token)
    }

    /// [`Access::transfer`] for what no flush has to ask for.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn transfer_unmarked(
        &self,
        remote: &Remote,
        list: &[Iov],
        write: bool,
        awaited: bool,
    ) -> Result<Token, Error> {
        let (dest, key) = (remote.dest, remote.key.bits());
        let call = if write { N::CALLS.write } else { N::CALLS.read };
        self.issue_tracked(remote, call, awaited, |netmod, endpoint, token| {
            let many = IovTransfer { list, dest, key, token };
            // SAFETY: [TARGET]; [BUF], [INTO]: until the token came back; the
            // target was found, so inserted, and the list is one call's.
            unsafe {
                match (list, write) {
                    (&[Iov { buf, len, addr }], true) => {
                        let buf = buf.cast_const();
                        netmod.write(endpoint, Transfer { buf, len, dest, addr, key, token })
                    }
                    (&[Iov { buf, len, addr }], false) => {
                        netmod.read(endpoint, Transfer { buf, len, dest, addr, key, token })
                    }
                    (_, true) => netmod.write_iov(endpoint, many),
                    (_, false) => netmod.read_iov(endpoint, many),
                }
            }
        })
    }

    /// Issues an operation that answers with a token.
    pub(in crate::rma) fn issue_tracked(
        &self,
        remote: &Remote,
        call: &'static str,
        awaited: bool,
        mut issue: impl FnMut(&N, &N::Endpoint, u64) -> isize,
    ) -> Result<Token, Error> {
        let token = self.context.token(remote.peer);
        self.issue_with_retry(remote, call, |netmod, endpoint| {
            issue(netmod, endpoint, token.bits())
        })?;
        self.context.issued(token, awaited);
        Ok(token)
    }

    /// Issues an operation, again while the provider answers [`AGAIN`], each
    /// time on the endpoint then in use.
    pub(in crate::rma) fn issue_with_retry(
        &self,
        remote: &Remote,
        call: &'static str,
        mut issue: impl FnMut(&N, &N::Endpoint) -> isize,
    ) -> Result<(), Error> {
        let attempt = || match self.context.endpoint(remote.transport) {
            Some((netmod, endpoint)) => issue(netmod, endpoint),
            None => UNSUPPORTED,
        };
        match self.context.until_taken(remote.peer, attempt)? {
            0 => Ok(()),
            rc => Err(self.provider_error(remote, call, rc)),
        }
    }

    pub(super) fn provider_error(&self, remote: &Remote, call: &'static str, rc: isize) -> Error {
        match self.endpoint(remote) {
            Ok((netmod, _)) => self.failed_towards(remote.peer, netmod.explain(call, rc)),
            Err(e) => e,
        }
    }

    pub(super) fn await_token(&self, token: Token, peer: u32) -> Result<(), Error> {
        let mut result = Ok(());
        self.context
            .wait(&[peer], || {
                Ok(match self.context.answer(token) {
                    Some(answer) => {
                        result = answer;
                        Progress::Done
                    }
                    None => Progress::Waiting,
                })
            })
            .inspect_err(|_| self.context.forget(token))?;
        result.map_err(|e| self.failed_towards(peer, e))
    }
}
