//! Sends and receives that are under way together, and over when a scope ends.
//!
//! The library has a borrowed buffer until its request was completed or
//! abandoned ([`Tagged::begin_send`], [`Tagged::begin_recv`]); a provider never
//! has it. Every request of a scope was one or the other before the scope
//! returns. A send is waited for even after a panic: once it was announced, its
//! receiver may read the buffer.

use super::error::MsgError;
use super::messenger::{Messenger, Source, Tag};
use super::tagged::Tagged;
use super::types::{RecvBuffer, Status};
use crate::datatype::Layout;
use crate::device::trace::Recorded;
use crate::netmod::Netmod;
use crate::rma::{Pod, bytes_of, bytes_of_mut};
use crate::track::Kind;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Sends and receives of [`Messenger::scope`].
pub struct Scope<'scope, 'env: 'scope, N: Netmod> {
    messenger: &'env Messenger<'env, N>,
    requests: Requests<N>,
    /// Invariant in both, as in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<N: Netmod> std::fmt::Debug for Scope<'_, '_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("messenger", self.messenger).finish_non_exhaustive()
    }
}

/// The requests of a scope, in the order in which they were begun; those that
/// are left when it is dropped are abandoned.
struct Requests<N: Netmod> {
    tagged: Tagged<N>,
    all: RefCell<Vec<Started>>,
    /// Where calls are recorded, if they are.
    recorded: Option<Recorded>,
}

/// One of them.
struct Started {
    /// `None` when it was waited for.
    at: Option<u32>,
    is_send: bool,
}

impl<N: Netmod> Requests<N> {
    /// Keeps one that was begun. Returns its number.
    fn keep(&self, at: u32, is_send: bool) -> usize {
        let mut all = self.all.borrow_mut();
        all.push(Started { at: Some(at), is_send });
        all.len() - 1
    }

    /// Waits for one and takes its result; `None` if that was done before.
    fn wait(&self, number: usize) -> Option<Result<Status, MsgError>> {
        let (at, is_send) = {
            let started = &mut self.all.borrow_mut()[number];
            (started.at.take()?, started.is_send)
        };
        let result = self.tagged.complete(at);
        if let (Some(recorded), Ok(status), false) = (&self.recorded, &result, is_send) {
            recorded.at_once(status.recorded(Kind::Received));
        }
        Some(result)
    }

    /// Waits for one or for all, and records that where calls are.
    fn recorded<T>(
        &self,
        kind: Kind,
        wait: impl FnOnce() -> Result<T, MsgError>,
    ) -> Result<T, MsgError> {
        match &self.recorded {
            Some(recorded) => recorded.completion(kind, |_| true, wait),
            None => wait(),
        }
    }

    /// Takes back sends to this process itself that have no receive, or receives
    /// that have no message yet.
    fn take_back(&self, sends: bool) {
        let all = self.all.borrow();
        for at in
            all.iter().filter(|started| started.is_send == sends).filter_map(|started| started.at)
        {
            self.tagged.take_back(at);
        }
    }

    /// Waits for all, also where handlers panic. Returns their first error, or
    /// the first panic, after which the scope did not go `well`.
    fn complete(&self, mut well: bool) -> std::thread::Result<Result<(), MsgError>> {
        let mut first = None;
        loop {
            let wait = || self.recorded(Kind::Waitall, || self.wait_all(well));
            match catch_unwind(AssertUnwindSafe(wait)) {
                Ok(completed) => return first.map_or(Ok(completed), Err),
                Err(panic) => {
                    first.get_or_insert(panic);
                    well = false;
                }
            }
        }
    }

    /// Waits for all, whatever becomes of the others. Returns the first error.
    /// Where the scope did not go `well`, receives stay until its sends are over:
    /// a peer whose scope failed too waits for ours to take what it has sent.
    fn wait_all(&self, well: bool) -> Result<(), MsgError> {
        let mut first = None;
        let mut wait = |sends_only: bool| {
            let count = self.all.borrow().len();
            for number in 0..count {
                if sends_only && !self.all.borrow()[number].is_send {
                    continue;
                }
                if let Some(Err(e)) = self.wait(number) {
                    first.get_or_insert(e);
                }
            }
        };
        if !well {
            self.take_back(true);
            wait(true);
            self.take_back(false);
        }
        wait(false);
        first.map_or(Ok(()), Err)
    }
}

impl<N: Netmod> Drop for Requests<N> {
    fn drop(&mut self) {
        for at in self.all.take().into_iter().filter_map(|started| started.at) {
            self.tagged.abandon(at);
        }
    }
}

impl<N: Netmod> Messenger<'_, N> {
    /// Runs `f`, which begins sends and receives, and completes them: when this
    /// returns all buffers are free, whether `f` went well, failed or panicked.
    /// Within `f` the compiler keeps borrowed buffers from being touched.
    ///
    /// Where `f` does not go well, messages to this process itself that have no
    /// receive are taken back, as are receives that have no message when all sends
    /// are over. Sends are waited for: a long one until its receiver has taken it
    /// or died. Two ranks whose scopes fail before they began to receive each
    /// other's long messages wait for each other, so begin receives first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use rankway::msg::Messenger;
    ///
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// # let world = rankway::rma::Communicator::world(&context);
    /// # let (left, right) = (0, 0);
    /// let messages = Messenger::open(&world)?;
    /// let (ours, mut theirs) = ([1.0, 2.0], [0.0; 2]);
    /// messages.scope(|s| {
    ///     s.recv(&mut theirs, left, 7)?;
    ///     s.send(&ours, right, 7)
    /// })?;
    /// assert_eq!(theirs, ours);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A buffer that is received into cannot be read within the scope, unless
    /// its receive was waited for:
    ///
    /// ```compile_fail,E0503
    /// # use rankway::{msg::{Messenger, MsgError}, netmod::Netmod};
    /// fn receive<N: Netmod>(messages: &Messenger<'_, N>) -> Result<u64, MsgError> {
    ///     let mut theirs = [0_u64; 4];
    ///     messages.scope(|s| {
    ///         s.recv(&mut theirs, 1, 7)?;
    ///         Ok(theirs[0])
    ///     })
    /// }
    /// ```
    ///
    /// one that is sent cannot be written to:
    ///
    /// ```compile_fail,E0506
    /// # use rankway::{msg::{Messenger, MsgError}, netmod::Netmod};
    /// fn send<N: Netmod>(messages: &Messenger<'_, N>) -> Result<(), MsgError> {
    ///     let mut ours = [0_u64; 4];
    ///     messages.scope(|s| {
    ///         s.send(&ours, 1, 7)?;
    ///         ours[0] = 1;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    ///
    /// and neither may end before the scope does:
    ///
    /// ```compile_fail,E0597
    /// # use rankway::{msg::{Messenger, MsgError}, netmod::Netmod};
    /// fn short<N: Netmod>(messages: &Messenger<'_, N>) -> Result<(), MsgError> {
    ///     messages.scope(|s| {
    ///         let ours = [0_u64; 4];
    ///         s.send(&ours, 1, 7)
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// That of `f`; else the first of a send or a receive, as [`Messenger::send`]
    /// and [`Messenger::recv`].
    ///
    /// # Panics
    /// When `f` does, after the requests are over.
    pub fn scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, N>) -> Result<R, MsgError>,
    ) -> Result<R, MsgError> {
        let recorded = self.communicator().recorded().cloned();
        let (tagged, all) = (self.tagged().clone(), RefCell::default());
        let requests = Requests { tagged, all, recorded };
        let scope = Scope { messenger: self, requests, scope: PhantomData, env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        let completed = scope.requests.complete(matches!(result, Ok(Ok(_))));
        match (result, completed) {
            (Err(panic), _) | (_, Err(panic)) => resume_unwind(panic),
            (Ok(result), Ok(completed)) => result.and_then(|value| completed.map(|()| value)),
        }
    }
}

impl<'scope, N: Netmod> Scope<'scope, '_, N> {
    /// Begins a send.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    #[inline]
    pub fn send<T: Pod>(
        &'scope self,
        buf: &'scope [T],
        dest: u32,
        tag: u32,
    ) -> Result<(), MsgError> {
        self.send_mode(bytes_of(buf), dest, tag, false)
    }

    /// Begins a send that is over when a receive took the message.
    ///
    /// # Errors
    /// As [`Messenger::ssend`].
    pub fn ssend<T: Pod>(
        &'scope self,
        buf: &'scope [T],
        dest: u32,
        tag: u32,
    ) -> Result<(), MsgError> {
        self.send_mode(bytes_of(buf), dest, tag, true)
    }

    #[inline]
    fn send_mode(
        &self,
        buf: &'scope [u8],
        dest: u32,
        tag: u32,
        synchronous: bool,
    ) -> Result<(), MsgError> {
        // SAFETY: borrowed until the scope has ended, which completes or
        // abandons the request.
        let sent = unsafe {
            match self.messenger.envelope(dest, tag) {
                Some(to) => self.messenger.tagged().begin_send(to, buf, synchronous)?,
                None => self.messenger.begin_elsewhere(buf, (dest, tag), synchronous)?,
            }
        };
        if let Some(at) = sent {
            self.requests.keep(at, true);
        }
        Ok(())
    }

    /// Begins a send of what a layout takes of `memory`, as
    /// [`Messenger::send_layout`].
    ///
    /// # Errors
    /// As [`Messenger::send_layout`].
    pub fn send_layout<T: Pod>(
        &'scope self,
        memory: &'scope [T],
        origin: usize,
        layout: &Layout,
        dest: u32,
        tag: u32,
    ) -> Result<(), MsgError> {
        let (tagged, at) = (self.messenger.tagged(), (origin, layout));
        let sent = self.messenger.sending(Kind::Isend, layout.size(), (dest, tag), |to| {
            // SAFETY: borrowed until the scope has ended, which completes or
            // abandons the request.
            unsafe { tagged.begin_send_layout(to, bytes_of(memory), at, false) }
        })?;
        if let Some(at) = sent {
            self.requests.keep(at, true);
        }
        Ok(())
    }

    /// Begins a receive. What came is in the buffer when the scope has ended
    /// well, or the receive was waited for.
    ///
    /// # Errors
    /// As [`Messenger::recv`].
    pub fn recv<T: Pod>(
        &'scope self,
        buf: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Receive<'scope, N, T>, MsgError> {
        let (start, len) = (buf.as_mut_ptr(), buf.len());
        let buffer = RecvBuffer::borrowed(start.cast(), size_of_val(buf));
        let at = self.messenger.posting((source.into(), tag.into()), |spec| {
            // SAFETY: borrowed, and by nobody else, until the scope has ended,
            // which completes or abandons the request.
            unsafe { self.messenger.tagged().begin_recv(spec, buffer) }
        })?;
        let number = self.requests.keep(at, false);
        Ok(Receive { requests: &self.requests, number, start, len, buf: PhantomData })
    }

    /// Begins a receive into what a layout takes of `memory`, as
    /// [`Messenger::recv_layout`]; all of it is the receive's until then.
    ///
    /// # Errors
    /// As [`Messenger::recv_layout`].
    pub fn recv_layout<T: Pod>(
        &'scope self,
        memory: &'scope mut [T],
        origin: usize,
        layout: &Layout,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Receive<'scope, N, T>, MsgError> {
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        let (tagged, at) = (self.messenger.tagged(), (origin, layout));
        let at = self.messenger.posting((source.into(), tag.into()), |spec| {
            // SAFETY: borrowed, and by nobody else, until the scope has ended,
            // which completes or abandons the request.
            unsafe { tagged.begin_recv_layout(spec, bytes_of_mut(memory), at) }
        })?;
        let number = self.requests.keep(at, false);
        Ok(Receive { requests: &self.requests, number, start, len, buf: PhantomData })
    }
}

/// A receive of a [`Scope`], which waits for it unless it is waited for here.
pub struct Receive<'scope, N: Netmod, T: Pod> {
    requests: &'scope Requests<N>,
    number: usize,
    start: *mut T,
    len: usize,
    buf: PhantomData<&'scope mut [T]>,
}

impl<N: Netmod, T: Pod> std::fmt::Debug for Receive<'_, N, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receive").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'scope, N: Netmod, T: Pod> Receive<'scope, N, T> {
    /// Waits for the message. Returns what it was, and the buffer.
    ///
    /// # Errors
    /// As [`Messenger::recv`]; the scope goes on.
    pub fn wait(self) -> Result<(Status, &'scope mut [T]), MsgError> {
        let none = Status { peer: 0, bits: 0, length: 0, cancelled: true };
        let wait = || self.requests.wait(self.number).unwrap_or(Ok(none));
        let status = self.requests.recorded(Kind::Wait, wait)?;
        // SAFETY: the borrowed buffer; its request is over.
        Ok((status, unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }))
    }
}
