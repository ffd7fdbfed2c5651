//! Active epochs of groups: post, start, complete, wait, test.

use super::access::Access;
use super::am_fallback::opcode;
use super::node_words::{NodeWords, Signal};
use super::state::WindowState;
use super::types::{Assert, Epoch};
use super::window::Window;
use super::{Error, ErrorKind};
use crate::device::Progress;
use crate::device::trace::Call;
use crate::netmod::Netmod;
use crate::track::Kind;

impl<N: Netmod> Access<N> {
    /// Opens an access epoch to the ranks of a group, once they have all called
    /// [`Window::post`]. The order of the group does not matter.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] when an epoch is open, [`ErrorKind::Rank`],
    /// [`ErrorKind::Arguments`] for a rank named twice, [`ErrorKind::Freed`]; a
    /// member that died: for the others that had posted the epoch is over, as one of no
    /// operations.
    pub fn start(&self, group: &[u32], assert: Assert) -> Result<(), Error> {
        self.recorded_all(Kind::Start, || self.open_start(group, assert))
    }

    fn open_start(&self, group: &[u32], assert: Assert) -> Result<(), Error> {
        self.may_open("start", false)?;
        let (ranks, peers) = self.group(group)?;
        let state = self.state()?;
        if !assert.contains(Assert::NOCHECK) {
            self.context().check_may_wait()?;
            let waited = self.context().wait(&peers, || {
                let posted = self.take_signals(&state, Signal::Posted, &peers);
                Ok(if posted { Progress::Done } else { Progress::Waiting })
            });
            if waited.is_err() {
                self.give_up_start(&state, &peers);
            }
            waited?;
        }
        *self.cold.group.borrow_mut() = ranks;
        self.set_epoch(Epoch::Start);
        Ok(())
    }

    /// An access epoch was not opened, for a death: the living that had posted wait for its end.
    fn give_up_start(&self, state: &WindowState<N>, peers: &[u32]) {
        for &peer in peers.iter().filter(|&&peer| self.context().check_alive(peer).is_ok()) {
            if self.take_signals(state, Signal::Posted, &[peer]) {
                // (One that dies now hears of nothing any more.)
                let _ = self.notify(peer, Signal::Completed);
            }
        }
    }

    /// Closes the epoch that start opened; everything issued in it is done at
    /// the targets when their [`Window::wait`] returns.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] without start, [`ErrorKind::Freed`]; a peer that
    /// died or an operation that failed, after which the epoch is closed too
    /// and the other targets have been notified.
    pub fn complete(&self) -> Result<(), Error> {
        self.recorded_all(Kind::Complete, || self.close_start())
    }

    fn close_start(&self) -> Result<(), Error> {
        match self.epoch() {
            Epoch::Start => {}
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            _ => {
                let (open, remedy) = ("no start epoch is open", "call start first");
                return Err(ErrorKind::Epoch { call: "complete", open, remedy }.into());
            }
        }
        self.context().check_may_wait()?;
        let group = self.cold.group.borrow().clone();
        let mut result = self.flush_group(&group);
        for rank in group {
            let notified =
                self.world_rank(rank).and_then(|peer| self.notify(peer, Signal::Completed));
            result = result.and(notified);
        }
        self.cold.group.borrow_mut().clear();
        self.set_epoch(Epoch::Closed);
        result
    }

    /// Sends a signal to a world rank.
    fn notify(&self, peer: u32, signal: Signal) -> Result<(), Error> {
        let state = self.state()?;
        let context = self.context();
        let me = context.device().boot().rank();
        if peer == me {
            state.exposed_region.signals().came(me, signal);
            return Ok(());
        }
        if let Some((words, [from, to])) = self.shared_signals(&state, [me, peer]) {
            context.check_alive(peer)?;
            words.send(from, to, signal);
            return Ok(());
        }
        self.request_limit(peer)?;
        let opcode = match signal {
            Signal::Posted => opcode::POST,
            Signal::Completed => opcode::COMPLETE,
        };
        self.cold.rma_handler.notify(context, peer, opcode, state.exposed_region.id, 0)
    }

    /// Takes one signal from each of these world ranks, when all have sent one.
    fn take_signals(&self, state: &WindowState<N>, signal: Signal, peers: &[u32]) -> bool {
        let me = self.context().device().boot().rank();
        let shared = |peer| match self.shared_signals(state, [peer, me]) {
            Some((words, [from, to])) => words.sent(from, to, signal),
            None => 0,
        };
        state.exposed_region.signals().take_all(signal, peers, shared)
    }

    /// The words of signals from one world rank to another, one of which is this
    /// process, and their ranks on the node.
    fn shared_signals(
        &self,
        state: &WindowState<N>,
        peers: [u32; 2],
    ) -> Option<(NodeWords, [u32; 2])> {
        let words = state.node_words?;
        let device = self.context().device();
        let node_rank = |peer| device.node_rank(peer).filter(|_| device.on_node(peer));
        Some((words, [node_rank(peers[0])?, node_rank(peers[1])?]))
    }

    /// A group sorted, and the world rank of each.
    fn group(&self, group: &[u32]) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let mut ranks = group.to_vec();
        ranks.sort_unstable();
        if let Some(twice) = ranks.windows(2).find(|pair| pair[0] == pair[1]) {
            let why = format!("rank {} is named twice in a group", twice[0]);
            return Err(ErrorKind::Arguments(why).into());
        }
        let peers = ranks.iter().map(|&rank| self.world_rank(rank)).collect::<Result<_, _>>()?;
        Ok((ranks, peers))
    }
}

impl<N: Netmod> Window<N> {
    /// Opens this process's memory to the ranks of a group, which may be
    /// beginning their epochs with [`Access::start`]. Does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] when an exposure epoch is open, [`ErrorKind::Rank`],
    /// [`ErrorKind::Arguments`] for a rank named twice, [`ErrorKind::Freed`]; a
    /// member that died.
    pub fn post(&self, group: &[u32], assert: Assert) -> Result<(), Error> {
        self.recorded_all(Kind::Post, || self.expose(group, assert))
    }

    fn expose(&self, group: &[u32], assert: Assert) -> Result<(), Error> {
        self.state()?;
        if self.exposed.borrow().is_some() {
            let (open, remedy) = ("an exposure epoch is open", "call wait first");
            return Err(ErrorKind::Epoch { call: "post", open, remedy }.into());
        }
        let (_, peers) = self.group(group)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if !assert.contains(Assert::NOCHECK) {
            // (Either all are told or none.)
            peers.iter().try_for_each(|&peer| self.context().check_alive(peer))?;
            for &peer in &peers {
                self.notify(peer, Signal::Posted)?;
            }
        }
        *self.exposed.borrow_mut() = Some(peers);
        Ok(())
    }

    /// Waits until all ranks that were posted to have completed, and closes the
    /// exposure epoch.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] without post, [`ErrorKind::Freed`]; a member that
    /// died before it completed, after which the epoch is closed too.
    pub fn wait(&self) -> Result<(), Error> {
        self.recorded_all(Kind::WinWait, || self.await_completed())
    }

    fn await_completed(&self) -> Result<(), Error> {
        self.context().check_may_wait()?;
        let peers = self.posted("wait")?;
        let state = self.state()?;
        let waited = self.context().wait(&peers, || {
            let completed = self.take_signals(&state, Signal::Completed, &peers);
            Ok(if completed { Progress::Done } else { Progress::Waiting })
        });
        *self.exposed.borrow_mut() = None;
        if waited.is_err() {
            self.give_up_completed(&state, &peers);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(waited?)
    }

    /// Makes progress; whether all ranks that were posted to have completed,
    /// in which case the exposure epoch is closed.
    ///
    /// # Errors
    /// As [`Window::wait`].
    pub fn test(&self) -> Result<bool, Error> {
        let call = Call::new(Kind::WinTest);
        self.recorded_where(call, |&completed| completed, || self.has_completed())
    }

    fn has_completed(&self) -> Result<bool, Error> {
        let peers = self.posted("test")?;
        let state = self.state()?;
        self.context().progress_and_check()?;
        let completed = self.take_signals(&state, Signal::Completed, &peers);
        let watched = if completed {
            Ok(())
        } else {
            peers.iter().for_each(|&peer| self.context().note_awaited(peer));
            self.context().check_liveness(&peers)
        };
        if completed || watched.is_err() {
            *self.exposed.borrow_mut() = None;
        }
        if watched.is_err() {
            self.give_up_completed(&state, &peers);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        watched?;
        Ok(completed)
    }

    /// An exposure epoch ended with a death: what the living complete of it, then or later, is not
    /// the next one's.
    fn give_up_completed(&self, state: &WindowState<N>, peers: &[u32]) {
        let living = peers.iter().filter(|&&peer| self.context().check_alive(peer).is_ok());
        let signals = || state.exposed_region.signals();
        living.for_each(|&peer| signals().give_up(peer, Signal::Completed));
    }

    fn posted(&self, call: &'static str) -> Result<Vec<u32>, Error> {
        self.state()?;
        let (open, remedy) = ("no exposure epoch is open", "call post first");
        let posted = self.exposed.borrow().clone();
        posted.ok_or_else(|| ErrorKind::Epoch { call, open, remedy }.into())
    }
}
