//! The objects of [`crate::objects`], written once for every netmod.
//!
//! A call through a handle is a look-up and a virtual call; what must cost
//! neither is inline in C.

use crate::abi::{rankway_code, rankway_status_t};
use crate::am;
use crate::custom;
use crate::error::Fail;
use crate::objects::*;
use crate::operation::{Matched, Native, Operation, completed};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use transport::av::Transport;
use transport::boot::{Boot, OtherJobs};
use transport::datatype::Layout;
use transport::device;
use transport::msg::{
    self, Active, Completion, Envelope, MatchSpec, Message, Messenger, Request, RequestId, Started,
    Status, Tagged,
};
use transport::netmod::Netmod;
use transport::rankmap::group::Group;
use transport::rankmap::{Lookup, Process, RankMap};
use transport::rma::{Communicator, Window, register_operator};

/// Identifies a context, to compare.
pub(crate) fn context_id<N: Netmod>(context: &Rc<device::Context<N>>) -> usize {
    Rc::as_ptr(context).addr()
}

/// A device and its open contexts.
pub(crate) struct NetmodDevice<N: Native> {
    device: Arc<device::Device<N>>,
    open: Arc<AtomicU32>,
    is_serialized: bool,
}

impl<N: Native> NetmodDevice<N> {
    /// A device by the first of its contexts.
    pub(crate) fn opened(context: Rc<device::Context<N>>, is_serialized: bool) -> DeviceAndContext {
        let open = Arc::new(AtomicU32::new(0));
        let device = Arc::clone(context.device());
        let first = NetmodContext::shared(context, &open);
        (Arc::new(NetmodDevice { device, open, is_serialized }), first)
    }
}

impl<N: Native> Device for NetmodDevice<N> {
    fn boot(&self) -> &Arc<dyn Boot> {
        self.device.boot()
    }

    fn is_serialized(&self) -> bool {
        self.is_serialized
    }

    fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }

    fn context(&self, index: Option<u32>) -> Result<Rc<dyn Context>, Fail> {
        let context = match index {
            Some(index) => self.device.context_at(index)?,
            None => self.device.context()?,
        };
        Ok(NetmodContext::shared(context, &self.open))
    }

    fn add_group(&self, members: &RankMap) -> Result<u32, Fail> {
        Ok(self.device.add_group(members.clone())?)
    }

    fn netmod(&self) -> &'static str {
        N::NAME
    }

    fn provider(&self, transport: Transport) -> Option<(String, usize)> {
        let caps = self.device.provider(transport)?.caps();
        Some((caps.provider.clone(), caps.inject_size))
    }

    fn node(&self) -> (u32, u32) {
        let me = self.device.boot().rank();
        (self.device.node_rank(me).unwrap_or(0), self.device.node_size())
    }
}

struct NetmodContext<N: Native> {
    context: Rc<device::Context<N>>,
    open: Arc<AtomicU32>,
    /// Operations that had ended when they began, for the completion queue.
    ended: RefCell<VecDeque<CqEntry>>,
}

impl<N: Native> NetmodContext<N> {
    fn shared(context: Rc<device::Context<N>>, open: &Arc<AtomicU32>) -> Rc<dyn Context> {
        open.fetch_add(1, Ordering::AcqRel);
        Rc::new(NetmodContext { context, open: Arc::clone(open), ended: RefCell::default() })
    }

    fn tagged(&self) -> Result<Tagged<N>, Fail> {
        Ok(Tagged::open(&self.context)?)
    }

    fn active(&self) -> Result<Active<N>, Fail> {
        Ok(Active::open(&self.context)?)
    }

    /// The rank of this process in a map, of which all are looked up, so that a wrong one is
    /// found here, and one that is there twice.
    fn rank_in(&self, map: &RankMap) -> Result<Option<u32>, Fail> {
        if let Some(Process { pg, lpid }) = map.duplicate() {
            let why = format!(
                "process {lpid} of group {pg} is twice in the map; a communicator has each once"
            );
            return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
        }
        let device = self.context.device();
        let (mut rank, mut numbers) = (None, BTreeSet::new());
        for (at, process) in map.iter().enumerate() {
            let number = device.world_rank(process)?;
            if number == device.boot().rank() {
                rank.get_or_insert(at as u32);
            }
            // (A group may name a process twice.)
            if map.pg() != Some(0) && !numbers.insert(number) {
                let why = format!(
                    "process {number} is twice in the map, under two names; a communicator has each once"
                );
                return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
            }
        }
        Ok(rank)
    }

    fn others(&self) -> Result<&OtherJobs, Fail> {
        self.context.device().boot().other_jobs().ok_or_else(|| {
            let why = "processes of other jobs are met by a device layer that brings its own \
                       rankway_boot_t";
            Fail::new(rankway_code::RANKWAY_ERR_BOOT, why)
        })
    }

    /// A sender that is not in the job, and was not met, would be waited for for ever.
    fn check(&self, spec: &MatchSpec) -> Result<(), Fail> {
        let boot = self.context.device().boot();
        let size = boot.size();
        let is_met = |rank| boot.other_jobs().is_some_and(|others| others.job_of(rank).is_some());
        match spec.from.filter(|&rank| rank >= size && !is_met(rank)) {
            Some(rank) => Err(device::DeviceError::NoRank { rank, size }.into()),
            None => Ok(()),
        }
    }

    fn operation(&self, request: Request<N>) -> Operation {
        Operation { context_id: context_id(&self.context), what: N::request(request) }
    }
}

impl<N: Native> Drop for NetmodContext<N> {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<N: Native> Context for NetmodContext<N> {
    fn context_id(&self) -> usize {
        context_id(&self.context)
    }

    fn progress(&self) -> Result<(), Fail> {
        Ok(self.context.progress_and_check()?)
    }

    fn finish(&self) -> Result<(), Fail> {
        Ok(self.context.finish()?)
    }

    fn progress_made(&self) -> Result<bool, Fail> {
        let before = self.context.events();
        self.progress()?;
        Ok(self.context.events() != before
            || !self.ended.borrow().is_empty()
            || self.tagged()?.has_completion()
            || self.active()?.has_posted())
    }

    fn index(&self) -> u32 {
        self.context.index()
    }

    fn world(&self) -> Rc<dyn Comm> {
        Rc::new(Communicator::world(&self.context))
    }

    fn comm(&self, map: &RankMap, id: u64) -> Result<Rc<dyn Comm>, Fail> {
        let rank = self.rank_in(map)?.ok_or_else(|| {
            let me = self.context.device().boot().rank();
            let why = format!("this process, rank {me} of the job, is not in the map");
            Fail::new(rankway_code::RANKWAY_ERR_RANK, why)
        })?;
        Ok(Rc::new(Communicator::with_id(&self.context, map.clone(), rank, id)))
    }

    fn intercomm(&self, map: &RankMap, rank: u32, id: u64) -> Result<Rc<dyn Comm>, Fail> {
        if self.rank_in(map)?.is_some() {
            let why = "this process is in the map, which is to be of the other group";
            return Err(Fail::new(rankway_code::RANKWAY_ERR_RANK, why));
        }
        Ok(Rc::new(Communicator::with_id(&self.context, map.clone(), rank, id)))
    }

    fn lookup(&self, map: &RankMap) -> Result<Lookup, Fail> {
        for process in map.iter() {
            self.context.device().world_rank(process)?;
        }
        // SAFETY: every process of the map has an entry, just checked; [LOOKUP].
        Ok(unsafe { Lookup::new(map, self.context.av().directory()) })
    }

    fn connect(&self, process: Process) -> Result<u64, Fail> {
        self.context.device().world_rank(process)?;
        let entry = self.context.av().get(process).map_err(device::DeviceError::from)?;
        if !entry.is_empty() {
            return Ok(entry.to_bits());
        }
        Ok(self.context.connect(process)?.to_bits())
    }

    fn isend(&self, buf: (*const u8, usize), to: Envelope, sync: bool) -> Result<Operation, Fail> {
        let tagged = self.tagged()?;
        // SAFETY: [BUF].
        let request = unsafe {
            match sync {
                true => tagged.issend(to, buf.0, buf.1)?,
                false => tagged.isend(to, buf.0, buf.1)?,
            }
        };
        Ok(self.operation(request))
    }

    fn irecv(&self, buf: (*mut u8, usize), spec: &MatchSpec) -> Result<Operation, Fail> {
        self.check(spec)?;
        // SAFETY: [BUF].
        Ok(self.operation(unsafe { self.tagged()?.irecv(spec, buf.0, buf.1)? }))
    }

    fn isend_type(
        &self,
        data: (*const u8, &Layout),
        to: Envelope,
        sync: bool,
    ) -> Result<Operation, Fail> {
        let tagged = self.tagged()?;
        // SAFETY: [BUF].
        let request = unsafe {
            match sync {
                true => tagged.issend_layout(to, data.0, data.1)?,
                false => tagged.isend_layout(to, data.0, data.1)?,
            }
        };
        Ok(self.operation(request))
    }

    fn irecv_type(&self, data: (*mut u8, &Layout), spec: &MatchSpec) -> Result<Operation, Fail> {
        self.check(spec)?;
        // SAFETY: [BUF].
        Ok(self.operation(unsafe { self.tagged()?.irecv_layout(spec, data.0, data.1)? }))
    }

    fn probe(&self, spec: &MatchSpec) -> Result<Option<Status>, Fail> {
        self.check(spec)?;
        Ok(self.tagged()?.iprobe(spec)?)
    }

    fn improbe(&self, spec: &MatchSpec) -> Result<Option<Matched>, Fail> {
        self.check(spec)?;
        let context_id = context_id(&self.context);
        let found = self.tagged()?.improbe(spec)?;
        Ok(found.map(|message| Matched { context_id, what: N::message(message) }))
    }

    fn am_register(&self, id: u16, handler: am::Handler) -> Result<(), Fail> {
        let context_id = context_id(&self.context);
        Ok(self.active()?.register(id, move |call: &mut msg::Call<'_, N>| {
            let (from, header, payload) = (call.from, call.header, call.payload);
            handler.run(context_id, from, (header, payload), call)
        })?)
    }

    fn am_longest(&self, peer: u32) -> Result<usize, Fail> {
        Ok(self.active()?.longest(peer)?)
    }

    fn register_operator(&self) {
        register_operator(&self.context, custom::operator);
    }

    fn cq_isend(
        &self,
        buf: (*const u8, usize),
        to: Envelope,
        sync: bool,
        cookie: NonZeroU64,
    ) -> Result<u64, Fail> {
        // SAFETY: [BUF].
        match unsafe { self.tagged()?.start_send(to, buf.0, buf.1, sync, cookie)? } {
            Started::Pending(id) => Ok(id.number().get()),
            Started::Done(result) => Ok(result.map(|_| 0)?),
        }
    }

    fn cq_irecv(
        &self,
        buf: (*mut u8, usize),
        spec: &MatchSpec,
        cookie: NonZeroU64,
    ) -> Result<u64, Fail> {
        self.check(spec)?;
        // SAFETY: [BUF].
        match unsafe { self.tagged()?.start_recv(spec, buf.0, buf.1, cookie)? } {
            Started::Pending(id) => Ok(id.number().get()),
            Started::Done(result) => {
                let ended = CqEntry { cookie: cookie.get(), result: completed(result) };
                self.ended.borrow_mut().push_back(ended);
                Ok(0)
            }
        }
    }

    fn introduction(&self) -> Result<Vec<u8>, Fail> {
        let others = self.others()?;
        let device = self.context.device();
        let options = device::Options::default().threads(device.has_threads());
        self.context
            .enable_dynamic_processes(|| device::open_network(&**device.boot(), &options))?;
        let none = || {
            let why = "this process has no address for other jobs";
            Fail::new(rankway_code::RANKWAY_ERR_UNREACHABLE, why)
        };
        Ok(others.own().ok_or_else(none)?.encode())
    }

    fn meet(&self, introduction: &[u8]) -> Result<u32, Fail> {
        // Who meets is spoken to, and says who it is then.
        self.introduction()?;
        let met = self.others()?.meet(introduction);
        met.map_err(|why| Fail::new(rankway_code::RANKWAY_ERR_ARG, why.to_string()))
    }

    fn forget(&self, peer: u32) -> Result<bool, Fail> {
        let others = self.others()?;
        // What they sent last is not for those that get their numbers.
        self.context.progress()?;
        Ok(others.forget(peer, |numbers| self.context.forget_ended(numbers)))
    }

    fn cq_cancel(&self, id: NonZeroU64) -> Result<bool, Fail> {
        Ok(self.tagged()?.cancel(RequestId::from_number(id)))
    }

    unsafe fn am_post(
        &self,
        to: u32,
        id: u16,
        header: &[u8],
        payload: (*const u8, usize),
        cookie: NonZeroU64,
    ) -> Result<bool, Fail> {
        // SAFETY: [BUF].
        Ok(unsafe { self.active()?.post(to, id, header, payload.0, payload.1, cookie)? })
    }

    fn cq_read(&self, most: usize, take: &mut dyn FnMut(CqEntry)) -> Result<usize, Fail> {
        let (tagged, active) = (self.tagged()?, self.active()?);
        let ended = || self.ended.borrow_mut().pop_front();
        let message = || {
            let Completion { cookie, result } = tagged.next_completion()?;
            Some(CqEntry { cookie: cookie.get(), result: completed(result.map_err(|e| *e)) })
        };
        let posted = || {
            let (cookie, result) = active.next_posted()?;
            let result = result.map(|()| rankway_status_t::default());
            let result = result.map_err(|e| (None, Fail::from(*e)));
            Some(CqEntry { cookie: cookie.get(), result })
        };
        let all = std::iter::from_fn(|| ended().or_else(message).or_else(posted));
        Ok(all.take(most).map(take).count())
    }
}

impl<N: Native> am::Call for msg::Call<'_, N> {
    fn reply(&mut self, message: am::OutgoingAm<'_>) -> Option<Result<(), Fail>> {
        let sent = self.reply()?.send(message.id, message.header, message.payload);
        Some(sent.map_err(|why| message.refused(why)))
    }
}

fn operation<N: Native>(comm: &Communicator<N>, request: Request<N>) -> Operation {
    Operation { context_id: context_id(comm.context()), what: N::request(request) }
}

fn matched<N: Native>(comm: &Communicator<N>, message: Message<N>) -> Matched {
    Matched { context_id: context_id(comm.context()), what: N::message(message) }
}

fn messages<N: Native>(comm: &Communicator<N>) -> Result<Messenger<'_, N>, Fail> {
    Ok(Messenger::open(comm)?)
}

/// Refuses what all members call together where the communicator is between two groups: its map
/// is the other one's then, in which this process has no rank. And where members are of another
/// job, which the set-up channel does not reach.
fn check_one_group<N: Native>(comm: &Communicator<N>, call: &str) -> Result<(), Fail> {
    let boot = comm.device().boot();
    let between = comm.world_rank(comm.rank()).ok() != Some(boot.rank());
    let number = |process: Process| comm.device().world_rank(process);
    let elsewhere = |process| number(process).is_ok_and(|number| number >= boot.size());
    let only = match between {
        true => "of one group, and this one is between two",
        false if boot.has_met() && comm.map().iter().any(elsewhere) => {
            "of one job's processes, and this one has some of another job"
        }
        false => return Ok(()),
    };
    let why = format!("{call} is for communicators {only}");
    Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why))
}

impl<N: Native> Comm for Communicator<N> {
    fn context_id(&self) -> usize {
        context_id(self.context())
    }

    fn rank(&self) -> u32 {
        self.rank()
    }

    fn map(&self) -> &RankMap {
        self.map()
    }

    fn id(&self) -> u64 {
        self.id()
    }

    fn world_rank(&self, rank: u32) -> Result<u32, Fail> {
        Ok(self.world_rank(rank)?)
    }

    fn node_of(&self, rank: u32) -> Result<(u32, u32), Fail> {
        let (peer, device) = (self.world_rank(rank)?, self.device());
        let node = device.nodes().get(peer).map_or(0, |node| node.lpid);
        Ok((node, device.node_rank(peer).unwrap_or(0)))
    }

    fn is_local(&self, rank: u32) -> Result<bool, Fail> {
        Ok(self.device().on_node(self.world_rank(rank)?))
    }

    fn dup(&self) -> Rc<dyn Comm> {
        Rc::new(self.dup())
    }

    fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Rc<dyn Comm>>, Fail> {
        check_one_group(self, "a split")?;
        Ok(self.split(color, key)?.map(|c| Rc::new(c) as Rc<dyn Comm>))
    }

    fn create(&self, ranks: &[u32]) -> Result<Option<Rc<dyn Comm>>, Fail> {
        check_one_group(self, "a communicator of some ranks")?;
        Ok(self.create(ranks.iter().copied())?.map(|c| Rc::new(c) as Rc<dyn Comm>))
    }

    fn create_group(&self, group: &Group) -> Result<Option<Rc<dyn Comm>>, Fail> {
        check_one_group(self, "a communicator of a group")?;
        Ok(self.create_group(group)?.map(|c| Rc::new(c) as Rc<dyn Comm>))
    }

    fn barrier(&self) -> Result<(), Fail> {
        check_one_group(self, "a barrier")?;
        Ok(self.barrier()?)
    }

    fn lookup(&self) -> Lookup {
        // SAFETY: a communicator's processes are all in the directory; [LOOKUP].
        unsafe { Lookup::new(self.map(), self.context().av().directory()) }
    }

    fn connect(&self, rank: u32) -> Result<u64, Fail> {
        self.world_rank(rank)?;
        let process = self.map().get(rank).unwrap_or_default();
        let entry = self.context().av().get(process).map_err(device::DeviceError::from)?;
        if !entry.is_empty() {
            return Ok(entry.to_bits());
        }
        Ok(self.context().connect(process)?.to_bits())
    }

    fn isend(
        &self,
        buf: (*const u8, usize),
        to: u32,
        tag: u32,
        sync: bool,
    ) -> Result<Operation, Fail> {
        let messages = messages(self)?;
        // SAFETY: [BUF].
        let request = unsafe {
            match sync {
                true => messages.issend(buf.0, buf.1, to, tag)?,
                false => messages.isend(buf.0, buf.1, to, tag)?,
            }
        };
        Ok(operation(self, request))
    }

    fn irecv(&self, buf: (*mut u8, usize), from: SourceAndTag) -> Result<Operation, Fail> {
        let (source, tag) = (from.source(), from.tag());
        // SAFETY: [BUF].
        let request = unsafe { messages(self)?.irecv(buf.0, buf.1, source, tag)? };
        Ok(operation(self, request))
    }

    fn isend_type(
        &self,
        data: (*const u8, &Layout),
        (to, tag): (u32, u32),
        sync: bool,
    ) -> Result<Operation, Fail> {
        let messages = messages(self)?;
        // SAFETY: [BUF].
        let request = unsafe {
            match sync {
                true => messages.issend_layout(data.0, data.1, to, tag)?,
                false => messages.isend_layout(data.0, data.1, to, tag)?,
            }
        };
        Ok(operation(self, request))
    }

    fn irecv_type(&self, data: (*mut u8, &Layout), from: SourceAndTag) -> Result<Operation, Fail> {
        let (source, tag) = (from.source(), from.tag());
        // SAFETY: [BUF].
        let request = unsafe { messages(self)?.irecv_layout(data.0, data.1, source, tag)? };
        Ok(operation(self, request))
    }

    fn iprobe(&self, from: SourceAndTag) -> Result<Option<Status>, Fail> {
        Ok(messages(self)?.iprobe(from.source(), from.tag())?)
    }

    fn probe(&self, from: SourceAndTag) -> Result<Status, Fail> {
        Ok(messages(self)?.probe(from.source(), from.tag())?)
    }

    fn improbe(&self, from: SourceAndTag) -> Result<Option<Matched>, Fail> {
        let found = messages(self)?.improbe(from.source(), from.tag())?;
        Ok(found.map(|m| matched(self, m)))
    }

    fn mprobe(&self, from: SourceAndTag) -> Result<Matched, Fail> {
        Ok(matched(self, messages(self)?.mprobe(from.source(), from.tag())?))
    }

    fn am_send(&self, to: u32, am: am::OutgoingAm<'_>, mode: am::SendMode) -> Result<bool, Fail> {
        let active = Active::open(self.context())?;
        let (peer, am::OutgoingAm { id, header, payload }) = (self.world_rank(to)?, am);
        let sent = match mode {
            am::SendMode::Try => active.try_send(peer, id, header, payload),
            am::SendMode::TryRequest => active.try_request(peer, id, header, payload),
            am::SendMode::Wait => active.send(peer, id, header, payload).map(|()| true),
            am::SendMode::WaitRequest => active.request(peer, id, header, payload).map(|()| true),
        };
        sent.map_err(|why| am.refused(why))
    }

    fn am_longest(&self, to: u32) -> Result<usize, Fail> {
        Ok(Active::open(self.context())?.longest(self.world_rank(to)?)?)
    }

    fn win_allocate(&self, bytes: usize, unit: usize) -> Result<Rc<dyn Win>, Fail> {
        check_one_group(self, "a window")?;
        Ok(Rc::new(Window::allocate(self, bytes, unit)?))
    }

    fn win_shared(&self, bytes: usize, unit: usize) -> Result<Rc<dyn Win>, Fail> {
        check_one_group(self, "a window")?;
        Ok(Rc::new(Window::shared(self, bytes, unit)?))
    }

    fn win_dynamic(&self) -> Result<Rc<dyn Win>, Fail> {
        check_one_group(self, "a window")?;
        Ok(Rc::new(Window::dynamic(self)?))
    }

    unsafe fn win_create(
        &self,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Rc<dyn Win>, Fail> {
        check_one_group(self, "a window")?;
        // SAFETY: [MEM].
        Ok(Rc::new(unsafe { Window::create(self, start, bytes, unit)? }))
    }
}
