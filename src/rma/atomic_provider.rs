//! Operations on elements that the provider carries out, or that its lock is for.

use super::Error;
use super::access::Access;
use super::atomic::Origin;
use super::cold::STAGED;
use super::request::InFlight;
use super::types::Remote;
use crate::device::Token;
use crate::netmod::compute::is_atomic;
use crate::netmod::{Atomic, ElementLock, Kind, Netmod, PENDING};

impl<N: Netmod> Access<N> {
    /// Has the provider carry the operation out, so many elements a call.
    ///
    /// # Safety
    /// \[BUF\], \[INTO\], as [`Access::elements`]; null ones are not used. `limit` is that of
    /// the provider, not 0.
    pub(super) unsafe fn elements_by_provider(
        &self,
        origin: &Origin,
        remote: &Remote,
        limit: usize,
        in_flight: &mut Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let locks = self.endpoint(remote)?.0.locks_elements();
        let mut from = 0;
        while from < origin.count {
            let piece = origin.piece(from, limit.min(origin.count - from));
            let at = (from * origin.ty.size()) as u64;
            let in_flight = in_flight.as_deref_mut();
            // SAFETY: [BUF]; [INTO] until the operation's end; no more than the limit.
            unsafe {
                match locks {
                    true => self.atomic_under_lock(&piece, remote, at, in_flight)?,
                    false => self.atomic_by_provider(&piece, remote, at, in_flight)?,
                }
            }
            from += piece.count;
        }
        Ok(())
    }

    /// The lock that elements of a rank's memory are changed under, where its peers take
    /// it, too.
    pub(super) fn element_lock(&self, rank: u32) -> Option<ElementLock> {
        let (transport, dest) = self.context().dest_of(self.entry(rank))?;
        let (netmod, endpoint) = self.context().endpoint(transport)?;
        // SAFETY: [DEST]: of this context's own address vector or table.
        unsafe { netmod.element_lock_of(endpoint, dest) }
    }

    /// Returns true if the provider by which a rank is reached changes elements under a
    /// lock of the target's ([`Netmod::locks_elements`]).
    pub(super) fn locks_elements(&self, rank: u32) -> bool {
        let transport = N::unpack(self.entry(rank)).map(|(_, transport)| transport);
        let endpoint = transport.and_then(|transport| self.context().endpoint(transport));
        endpoint.is_some_and(|(netmod, _)| netmod.locks_elements())
    }

    /// How many elements one call of the provider takes; 0 where it must not.
    pub(super) fn provider_atomic_limit(
        &self,
        remote: &Remote,
        origin: &Origin,
        address: u64,
    ) -> usize {
        let Ok((netmod, endpoint)) = self.endpoint(remote) else { return 0 };
        let by_processor = || netmod.caps().cpu_atomics && is_atomic(origin.ty, address as usize);
        if !(netmod.locks_elements() || by_processor()) {
            return 0;
        }
        netmod.atomic_limit(endpoint, origin.kind, origin.ty, origin.op)
    }

    /// Waits for what has staged bytes, if there are many.
    pub(super) fn make_space_staged(&self) -> Result<(), Error> {
        if self.cold.staged_bytes.get() >= STAGED { self.drain(&[]) } else { Ok(()) }
    }

    /// One call of the provider's atomics, `byte` behind the target's address.
    ///
    /// # Safety
    /// \[BUF\]: the buffers hold the elements, no more than the provider takes for
    /// a target so aligned; \[INTO\]: the result until the operation's end.
    unsafe fn atomic_by_provider(
        &self,
        origin: &Origin,
        remote: &Remote,
        byte: u64,
        in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let context = self.context();
        self.make_space_staged()?;
        // SAFETY: [BUF].
        let staged = unsafe { origin.body() }.into_owned().into_boxed_slice();
        let compare = match origin.kind {
            // SAFETY: comparands stand behind the operands.
            Kind::Swap => unsafe { staged.as_ptr().add(origin.bytes()) },
            _ => std::ptr::null(),
        };
        let token = context.token(remote.peer);
        let op = Atomic {
            kind: origin.kind,
            ty: origin.ty,
            op: origin.op,
            operand: if staged.is_empty() { std::ptr::null() } else { staged.as_ptr() },
            compare,
            result: origin.result,
            count: origin.count,
            dest: remote.dest,
            addr: remote.addr + byte,
            key: remote.key.bits(),
            token: token.bits(),
        };
        let mut under_way = true;
        self.issue_with_retry(remote, N::CALLS.atomic, |netmod, endpoint| {
            // SAFETY: the operands are staged until a flush; [INTO] until the
            // token came back; count and alignment were checked.
            let rc = unsafe { netmod.atomic(endpoint, &op) };
            under_way = rc == PENDING;
            if rc == PENDING { 0 } else { rc }
        })?;
        self.mark_issued(remote);
        if !under_way {
            return Ok(());
        }
        context.issued(token, in_flight.is_some());
        self.cold.stage(remote.peer, staged);
        if let Some(in_flight) = in_flight {
            in_flight.push(InFlight::Token(token, remote.peer));
        }
        Ok(())
    }

    /// One call of the provider's, `byte` behind the target's address, where it copies
    /// operands and the flush tells of updates.
    ///
    /// # Safety
    /// As [`Access::atomic_by_provider`], at any alignment; operands until the return.
    unsafe fn atomic_under_lock(
        &self,
        origin: &Origin,
        remote: &Remote,
        byte: u64,
        in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let Origin { kind, ty, op, operand, compare, result, count } = *origin;
        let context = self.context();
        let token = (kind != Kind::Update).then(|| context.token(remote.peer));
        let op = Atomic {
            kind,
            ty,
            op,
            operand,
            compare,
            result,
            count,
            dest: remote.dest,
            addr: remote.addr + byte,
            key: remote.key.bits(),
            token: token.map_or(0, Token::bits),
        };
        self.issue_with_retry(remote, N::CALLS.atomic, |netmod, endpoint| {
            // SAFETY: [DEST], [KEY], [LIMIT]: the caller's; [BUF] until the return; [INTO]
            // until the token came back.
            unsafe { netmod.atomic(endpoint, &op) }.min(0)
        })?;
        self.mark_issued(remote);
        if let Some(token) = token {
            context.issued(token, in_flight.is_some());
            in_flight.into_iter().for_each(|all| all.push(InFlight::Token(token, remote.peer)));
        }
        Ok(())
    }
}
