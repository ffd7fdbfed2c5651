//! What handles stand for: the library's objects without their netmod's name,
//! as traits, and the arguments of their calls.
//!
//! [`crate::native`] and [`crate::window`] have them for every netmod.

use crate::am;
use crate::custom::CustomOp;
use crate::error::Fail;
use crate::operation::{Completed, Matched, Operation};
use std::ffi::c_void;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use transport::av::Transport;
use transport::boot::Boot;
use transport::datatype::Layout;
use transport::msg::{Any, Envelope, MatchSpec, Source, Status, Tag};
use transport::netmod::{Op, Type};
use transport::rankmap::group::Group;
use transport::rankmap::{Lookup, Process, RankMap};
use transport::rma::{Assert, Lock};

/// A device and the first of its contexts.
pub(crate) type DeviceAndContext = (Arc<dyn Device>, Rc<dyn Context>);

pub(crate) trait Device: Send + Sync {
    fn boot(&self) -> &Arc<dyn Boot>;
    fn is_serialized(&self) -> bool;
    /// Contexts that are open.
    fn open(&self) -> u32;
    fn context(&self, index: Option<u32>) -> Result<Rc<dyn Context>, Fail>;
    fn add_group(&self, members: &RankMap) -> Result<u32, Fail>;
    fn netmod(&self) -> &'static str;
    /// Name and longest inject of a provider.
    fn provider(&self, transport: Transport) -> Option<(String, usize)>;
    /// Rank on the node and processes there.
    fn node(&self) -> (u32, u32);
}

pub(crate) trait Context {
    fn context_id(&self) -> usize;
    /// Sends what still waits, as a context that closes.
    fn finish(&self) -> Result<(), Fail>;
    fn progress(&self) -> Result<(), Fail>;
    /// The same; true: something came in or has ended.
    fn progress_made(&self) -> Result<bool, Fail>;
    fn index(&self) -> u32;
    fn world(&self) -> Rc<dyn Comm>;
    fn comm(&self, map: &RankMap, id: u64) -> Result<Rc<dyn Comm>, Fail>;
    /// The same over a map in which this process, `rank` of its own group, is not.
    fn intercomm(&self, map: &RankMap, rank: u32, id: u64) -> Result<Rc<dyn Comm>, Fail>;
    fn lookup(&self, map: &RankMap) -> Result<Lookup, Fail>;
    fn connect(&self, process: Process) -> Result<u64, Fail>;
    fn isend(&self, buf: (*const u8, usize), to: Envelope, sync: bool) -> Result<Operation, Fail>;
    fn irecv(&self, buf: (*mut u8, usize), spec: &MatchSpec) -> Result<Operation, Fail>;
    fn isend_type(
        &self,
        data: (*const u8, &Layout),
        to: Envelope,
        sync: bool,
    ) -> Result<Operation, Fail>;
    fn irecv_type(&self, data: (*mut u8, &Layout), spec: &MatchSpec) -> Result<Operation, Fail>;
    fn probe(&self, spec: &MatchSpec) -> Result<Option<Status>, Fail>;
    fn improbe(&self, spec: &MatchSpec) -> Result<Option<Matched>, Fail>;
    fn am_register(&self, id: u16, handler: am::Handler) -> Result<(), Fail>;
    /// By rank of the job, as [`Comm::am_longest`].
    fn am_longest(&self, peer: u32) -> Result<usize, Fail>;
    /// Custom operations on windows of this process are carried out by [`crate::custom::operator`].
    fn register_operator(&self);
    /// 0: it is done.
    fn cq_isend(
        &self,
        buf: (*const u8, usize),
        to: Envelope,
        sync: bool,
        cookie: NonZeroU64,
    ) -> Result<u64, Fail>;
    /// 0: it has ended.
    fn cq_irecv(
        &self,
        buf: (*mut u8, usize),
        spec: &MatchSpec,
        cookie: NonZeroU64,
    ) -> Result<u64, Fail>;
    fn cq_cancel(&self, id: NonZeroU64) -> Result<bool, Fail>;
    /// Returns true if the payload is the caller's again.
    ///
    /// # Safety
    /// \[BUF\], of the payload.
    unsafe fn am_post(
        &self,
        to: u32,
        id: u16,
        header: &[u8],
        payload: (*const u8, usize),
        cookie: NonZeroU64,
    ) -> Result<bool, Fail>;
    /// Hands out up to `most` operations that have ended; how many.
    fn cq_read(&self, most: usize, take: &mut dyn FnMut(CqEntry)) -> Result<usize, Fail>;
    /// What processes of other jobs meet this one by.
    fn introduction(&self) -> Result<Vec<u8>, Fail>;
    fn meet(&self, introduction: &[u8]) -> Result<u32, Fail>;
    /// Returns true if the job of a process is forgotten.
    fn forget(&self, peer: u32) -> Result<bool, Fail>;
}

/// What a completion queue has of an operation.
pub(crate) struct CqEntry {
    pub(crate) cookie: u64,
    pub(crate) result: Completed,
}

pub(crate) trait Comm {
    fn context_id(&self) -> usize;
    fn rank(&self) -> u32;
    fn map(&self) -> &RankMap;
    fn id(&self) -> u64;
    fn world_rank(&self, rank: u32) -> Result<u32, Fail>;
    /// The node of a rank, by the order in which nodes have their first ranks, and its rank
    /// there.
    fn node_of(&self, rank: u32) -> Result<(u32, u32), Fail>;
    fn is_local(&self, rank: u32) -> Result<bool, Fail>;
    fn dup(&self) -> Rc<dyn Comm>;
    fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Rc<dyn Comm>>, Fail>;
    fn create(&self, ranks: &[u32]) -> Result<Option<Rc<dyn Comm>>, Fail>;
    fn create_group(&self, group: &Group) -> Result<Option<Rc<dyn Comm>>, Fail>;
    fn barrier(&self) -> Result<(), Fail>;
    fn lookup(&self) -> Lookup;
    fn connect(&self, rank: u32) -> Result<u64, Fail>;
    fn isend(
        &self,
        buf: (*const u8, usize),
        to: u32,
        tag: u32,
        sync: bool,
    ) -> Result<Operation, Fail>;
    fn irecv(&self, buf: (*mut u8, usize), from: SourceAndTag) -> Result<Operation, Fail>;
    /// To a rank, with a tag.
    fn isend_type(
        &self,
        data: (*const u8, &Layout),
        to: (u32, u32),
        sync: bool,
    ) -> Result<Operation, Fail>;
    fn irecv_type(&self, data: (*mut u8, &Layout), from: SourceAndTag) -> Result<Operation, Fail>;
    fn iprobe(&self, from: SourceAndTag) -> Result<Option<Status>, Fail>;
    fn probe(&self, from: SourceAndTag) -> Result<Status, Fail>;
    fn improbe(&self, from: SourceAndTag) -> Result<Option<Matched>, Fail>;
    fn mprobe(&self, from: SourceAndTag) -> Result<Matched, Fail>;
    /// Returns true if the message was sent, waiting for that if `mode` says
    /// so.
    fn am_send(&self, to: u32, am: am::OutgoingAm<'_>, mode: am::SendMode) -> Result<bool, Fail>;
    fn am_longest(&self, to: u32) -> Result<usize, Fail>;
    fn win_allocate(&self, bytes: usize, unit: usize) -> Result<Rc<dyn Win>, Fail>;
    fn win_shared(&self, bytes: usize, unit: usize) -> Result<Rc<dyn Win>, Fail>;
    fn win_dynamic(&self) -> Result<Rc<dyn Win>, Fail>;
    /// # Safety
    /// As [`Window::create`].
    unsafe fn win_create(
        &self,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Rc<dyn Win>, Fail>;
}

/// The source and tag of a receive or a probe.
#[derive(Clone, Copy)]
pub(crate) struct SourceAndTag {
    pub(crate) source: Option<u32>,
    pub(crate) tag: Option<u32>,
}

impl SourceAndTag {
    pub(crate) fn source(self) -> Source {
        self.source.map_or_else(|| Any.into(), Source::from)
    }

    pub(crate) fn tag(self) -> Tag {
        self.tag.map_or_else(|| Any.into(), Tag::from)
    }
}

/// # Safety
/// Of the operations \[BUF\], of `attach` \[MEM\].
pub(crate) trait Win {
    fn context_id(&self) -> usize;
    fn free(&mut self) -> Result<(), Fail>;
    fn local(&self) -> Result<(*mut u8, usize), Fail>;
    fn query(&self, rank: u32) -> Result<(*mut u8, usize, usize), Fail>;
    unsafe fn attach(&self, start: *mut u8, bytes: usize) -> Result<(), Fail>;
    fn detach(&self, start: *const u8) -> Result<(), Fail>;
    unsafe fn put(&self, buf: *const u8, len: usize, rank: u32, disp: usize) -> Result<(), Fail>;
    unsafe fn get(&self, buf: *mut u8, len: usize, rank: u32, disp: usize) -> Result<(), Fail>;
    unsafe fn accumulate(&self, of: &Elements, rank: u32, disp: usize) -> Result<(), Fail>;
    unsafe fn get_accumulate(&self, of: &Elements, rank: u32, disp: usize) -> Result<(), Fail>;
    unsafe fn compare_and_swap(
        &self,
        of: &Elements,
        compare: *const u8,
        rank: u32,
        disp: usize,
    ) -> Result<(), Fail>;
    unsafe fn rput(
        self: Rc<Self>,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail>;
    unsafe fn rget(
        self: Rc<Self>,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail>;
    unsafe fn rget_accumulate(
        self: Rc<Self>,
        of: &Elements,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail>;
    unsafe fn put_layout(self: Rc<Self>, of: &Laid<*const u8>) -> Result<Operation, Fail>;
    unsafe fn get_layout(self: Rc<Self>, of: &Laid<*mut u8>) -> Result<Operation, Fail>;
    /// With results where there is memory for them.
    unsafe fn accumulate_layout(
        self: Rc<Self>,
        of: &Laid<*const u8>,
        results: Option<(*mut u8, Layout)>,
        op: Op,
    ) -> Result<Operation, Fail>;
    unsafe fn custom(self: Rc<Self>, of: &CustomOp<'_>) -> Result<Operation, Fail>;
    /// The longest operand and result.
    fn custom_limit(&self, rank: u32) -> Result<usize, Fail>;
    fn epoch(&self, what: Epoch<'_>) -> Result<(), Fail>;
    fn test(&self) -> Result<bool, Fail>;
    /// Returns true if the key is one that is known.
    fn set_hint(&self, key: &str, value: &str) -> Result<bool, Fail>;
    /// The memory that the inline put reads.
    fn access(&self) -> *const c_void;
    fn take_error(&self) -> Option<Fail>;
}

/// The origin of an operation on elements.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) operands: *const u8,
    pub(crate) results: *mut u8,
    pub(crate) count: usize,
    pub(crate) ty: Type,
    pub(crate) op: Op,
}

/// An operation with a layout at either end.
pub(crate) struct Laid<P> {
    pub(crate) buf: P,
    pub(crate) here: Layout,
    pub(crate) rank: u32,
    pub(crate) disp: usize,
    pub(crate) there: Layout,
}

/// Closes or opens an epoch.
#[derive(Clone, Copy)]
pub(crate) enum Epoch<'a> {
    Fence(Assert),
    LockAll(Assert),
    UnlockAll,
    Lock(Lock, u32, Assert),
    Unlock(u32),
    Flush(u32),
    FlushAll,
    FlushLocal(u32),
    FlushLocalAll,
    Sync,
    Start(&'a [u32], Assert),
    Complete,
    Post(&'a [u32], Assert),
    Wait,
}
