//! A network that the bytes of a fuzzer play: what comes in, in which order
//! operations end, and how.

use rankway::netmod::{
    AGAIN, Bulk, Caps, Completion, HEAD, NetError, Netmod, OpenParams, PENDING, Providers, Transfer,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// The bytes of a case, taken from the front; zeros when they are used up.
#[derive(Default)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front
    }
}

/// What is under way: memory that the network may use until it says so.
enum Held {
    Out(*const u8, usize),
    In(*mut u8, usize),
}

#[derive(Default)]
struct Script {
    arriving: VecDeque<([u8; HEAD], Vec<u8>)>,
    /// What the next sends answer.
    answers: VecDeque<u8>,
    /// Tokens under way, and with what memory.
    held: Vec<(u64, Held)>,
    ended: Vec<(u64, bool)>,
    /// Heads that were sent.
    sent: Vec<[u8; HEAD]>,
}

// SAFETY: the pointers are used by the one thread that runs a case.
unsafe impl Send for Script {}

/// A netmod that plays a script: made from [`rankway::netmod::null`], the template,
/// which cannot serve itself. There every operation ends at once and well, and
/// there are no packets; what is played here is the order of ends, refusals, and
/// what peers send.
pub struct ScriptedNetwork {
    caps: Caps,
    script: Mutex<Script>,
}

impl ScriptedNetwork {
    pub fn open() -> Arc<ScriptedNetwork> {
        let caps = Caps {
            inject_size: 64,
            packet_size: 2048 + HEAD,
            packet_inject: 64 + HEAD,
            max_bulk: 700,
            ..Caps::none("script")
        };
        Arc::new(ScriptedNetwork { caps, script: Mutex::default() })
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// A packet comes in with the next poll.
    pub fn bring(&self, head: [u8; HEAD], body: Vec<u8>) {
        self.script().arriving.push_back((head, body));
    }

    /// What the next sends answer: at once, later, no space, an error.
    pub fn answer(&self, answers: &[u8]) {
        self.script().answers.extend(answers);
    }

    /// One of the operations under way ends, well or not.
    pub fn end(&self, which: usize, well: bool) {
        let mut script = self.script();
        let count = script.held.len();
        if count > 0 {
            let (token, held) = script.held.swap_remove(which % count);
            touch(held);
            script.ended.push((token, well));
        }
    }

    /// One of the heads sent so far, for answers that fit.
    pub fn sent(&self, which: usize) -> Option<[u8; HEAD]> {
        let script = self.script();
        let count = script.sent.len();
        (count > 0).then(|| script.sent[which % count])
    }
}

/// Uses the memory of an operation, as a network does until it ends.
fn touch(held: Held) {
    match held {
        Held::Out(_, 0) | Held::In(_, 0) => {}
        // SAFETY: what is under test: whoever began it has to keep it.
        Held::Out(at, len) => drop(unsafe { std::slice::from_raw_parts(at, len) }.to_vec()),
        // SAFETY: as above.
        Held::In(at, len) => unsafe { at.write_bytes(0xa5, len) },
    }
}

/// Tokens of transfers, which end at once.
#[derive(Default)]
pub struct Endpoint(RefCell<Vec<u64>>);

impl Netmod for ScriptedNetwork {
    type Endpoint = Endpoint;
    type InjectHandle = ();
    type Region = u64;

    const NAME: &'static str = "script";

    fn open_providers(_: &OpenParams) -> Result<Providers<Self>, NetError> {
        Ok(Providers { network: Some(ScriptedNetwork::open()), node: None })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        Ok(Endpoint::default())
    }

    fn address(&self, _: &Endpoint) -> Result<Vec<u8>, NetError> {
        Ok(b"script".to_vec())
    }

    fn insert(&self, _: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        if raw.first() != Some(&b's') {
            let reason = "does not begin with s".to_owned();
            return Err(NetError::Address { provider: "script".into(), reason });
        }
        Ok(1)
    }

    unsafe fn register(
        self: &Arc<Self>,
        _: &Endpoint,
        _: *mut u8,
        _: usize,
        key: u64,
    ) -> Result<u64, NetError> {
        Ok(key)
    }

    fn key(&self, region: &u64) -> u64 {
        *region
    }

    fn inject_handle(_: &Endpoint) {}

    unsafe fn inject(_: (), _: *const u8, _: usize, _: u64, _: u64, _: u64) -> isize {
        0
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        endpoint.0.borrow_mut().push(op.token);
        0
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        endpoint.0.borrow_mut().push(op.token);
        0
    }

    unsafe fn send(
        &self,
        _: &Endpoint,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        _: u64,
        token: u64,
    ) -> isize {
        assert!(len <= self.caps.packet_size - HEAD, "a packet of {len} bytes");
        let mut script = self.script();
        let later = match script.answers.pop_front().unwrap_or(0) % 8 {
            6 => return AGAIN,
            7 => return -5,
            answer => answer > 3 && len + HEAD > self.caps.packet_inject,
        };
        script.sent.push(*head);
        if later {
            script.held.push((token, Held::Out(body, len)));
            return PENDING;
        }
        touch(Held::Out(body, len));
        0
    }

    unsafe fn send_bulk(&self, _: &Endpoint, op: Bulk<*const u8>) -> isize {
        assert!(op.len <= self.caps.max_bulk);
        self.script().held.push((op.token, Held::Out(op.buf, op.len)));
        PENDING
    }

    unsafe fn recv_bulk(&self, _: &Endpoint, op: Bulk<*mut u8>) -> isize {
        assert!(op.len <= self.caps.max_bulk);
        self.script().held.push((op.token, Held::In(op.buf, op.len)));
        PENDING
    }

    fn cancel(&self, _: &Endpoint, token: u64) {
        let mut script = self.script();
        if let Some(at) = script.held.iter().position(|(held, _)| *held == token) {
            script.held.swap_remove(at);
            script.ended.push((token, false));
        }
    }

    fn poll(
        &self,
        endpoint: &Endpoint,
        mut done: impl FnMut(Completion),
        mut arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        let tokens = std::mem::take(&mut *endpoint.0.borrow_mut());
        tokens.into_iter().for_each(|token| done(Completion { token, result: Ok(()) }));
        loop {
            let ended = self.script().ended.pop();
            let Some((token, well)) = ended else { break };
            let result = if well { Ok(()) } else { Err(self.explain("an operation", -5)) };
            done(Completion { token, result });
        }
        loop {
            let next = self.script().arriving.pop_front();
            let Some((head, body)) = next else { return Ok(false) };
            arrived(&head, &body);
        }
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        let text = "as the script has it".to_owned();
        NetError::Call { provider: "script".into(), call, code: code as i64, text }
    }
}
