//! Keys that were not told to all members while the window was made: each is asked for its
//! own at its first use.

use super::Access;
use crate::netmod::{Netmod, Op, Type};
use crate::rma::am_fallback::{Answer, Request, error_of, opcode};
use crate::rma::registration::{OwnKeys, Registration};
use crate::rma::state::WindowState;
use crate::rma::types::Status;
use crate::rma::{Error, ErrorKind};
use std::rc::Rc;

impl<N: Netmod> Access<N> {
    /// What a process told of its memory, if it was asked.
    pub(super) fn told(&self, peer: u32) -> Option<Registration> {
        self.cold.asked.borrow().get(&peer).copied()
    }

    /// Asks a process for its keys. Waits for the answer.
    #[cold]
    pub(super) fn query(&self, peer: u32) -> Result<(), Error> {
        let told = self.asked(peer)?;
        self.cold.asked.borrow_mut().insert(peer, told.registration);
        Ok(())
    }

    /// The packed key of a process, if it has memory, and where that begins. As
    /// [`query`](Self::query), each time: handles are kept where they were unpacked.
    pub(super) fn asked_packed(&self, peer: u32) -> Result<(Option<Vec<u8>>, u64), Error> {
        let told = self.asked(peer)?;
        let base = told.registration.base();
        Ok((Some(told.packed.into_vec()).filter(|packed| !packed.is_empty()), base))
    }

    fn asked(&self, peer: u32) -> Result<OwnKeys, Error> {
        let state = self.state()?;
        let mut bytes = [0; OwnKeys::TOLD];
        let packed = if peer == self.context().device().boot().rank() {
            let own = state.exposed_region.keys();
            let told = own.and_then(|own| own.encode(&mut bytes).map(|()| own.packed.len()));
            told.ok_or_else(|| error_of(peer, Status::Unsupported))?
        } else {
            self.query_peer(&state, peer, &mut bytes)?
        };
        let told = OwnKeys::decode(&bytes, packed);
        told.ok_or_else(|| error_of(peer, Status::Malformed))
    }

    /// The length of the packed key among what was told.
    fn query_peer(
        &self,
        state: &WindowState<N>,
        peer: u32,
        bytes: &mut [u8; OwnKeys::TOLD],
    ) -> Result<usize, Error> {
        let longest = self.request_limit(peer)?;
        if longest < bytes.len() {
            let why = format!(
                "packets of {longest} bytes are too short to ask rank {peer} for its keys; set \
                 RANKWAY_WINDOW_KEYS to more bytes than all of them take"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        let answer = Rc::new(Answer::default());
        let request = Request {
            opcode: opcode::KEYS,
            window: state.exposed_region.id,
            place: 0,
            count: bytes.len(),
            ty: Type::U8,
            op: Op::NoOp,
            body: &[],
            result: (bytes.as_mut_ptr(), bytes.len()),
            into: None,
            answer: Some(Rc::clone(&answer)),
        };
        // SAFETY: [INTO]: the bytes stay until the answer came or was given up.
        unsafe { self.request(peer, request)? };
        match self.await_answer(peer, &answer)? {
            (Status::Done, packed) => Ok(packed as usize),
            (status, _) => Err(self.refused(peer, status)),
        }
    }
}
