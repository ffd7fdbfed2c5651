//! PMIx: Open MPI's `mpirun`, PRRTE's `prterun`, Slurm's `srun --mpi=pmix`.
//!
//! libpmix is opened at run time. A fence exchanges nothing but the news that
//! everyone has committed; values are fetched when somebody asks for them
//! (direct modex), so that no process holds what it does not use.
//!
//! Asking for a key that nobody published takes up to ten seconds to fail,
//! because PMIx waits for it.
//!
//! When a rank dies, these launchers end the job themselves unless told
//! otherwise (`--enable-recovery`); a fence that can no longer complete ends
//! with the launcher's error or after `RANKWAY_TIMEOUT` seconds.

mod ffi;
mod library;

use super::placement::{Dealt, Mapping, Placement, parse_local_peers};
use super::{Boot, BootError, check_rank, os, sweep};
use ffi::{ByteObject, Data, Info, Proc, Status, Value};
use library::Library;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Key under which rank 0 names the job.
const JOB_KEY: &str = "rankway-job";

/// [`Boot`] of a process started by a PMIx launcher.
pub struct Pmix {
    library: Library,
    me: Proc,
    size: u32,
    job: u64,
    one_machine: bool,
    /// Ranks of this node, rising, where the launcher says.
    local: Option<Vec<u32>>,
    placement: Placement,
    nodes: OnceLock<Nodes>,
    /// Questions asked.
    gets: AtomicU64,
    published: Mutex<HashSet<String>>,
    /// A fence that was given up and has not ended.
    given_up: Mutex<Option<Arc<Fence>>>,
    finalized: AtomicBool,
}

/// Where a value is looked for.
#[derive(Clone, Copy)]
enum Wanted {
    /// Among what the launcher has told this process.
    Known,
    /// At the process that published it, too.
    Published,
}

/// What rank 0 tells all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    id: u64,
    /// What the ranks of its node are a sign of.
    dealt: Option<Dealt>,
}

impl Job {
    fn encode(self) -> Vec<u8> {
        let dealt = self.dealt.map_or([0; 2], |dealt| [dealt.block(), dealt.nodes()]);
        let mut bytes = self.id.to_le_bytes().to_vec();
        dealt.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Job> {
        let (id, rest) = bytes.split_first_chunk::<8>()?;
        let (block, rest) = rest.split_first_chunk::<4>()?;
        let nodes = rest.first_chunk::<4>()?;
        let dealt = Dealt::new(u32::from_le_bytes(*block), u32::from_le_bytes(*nodes));
        Some(Job { id: u64::from_le_bytes(*id), dealt })
    }
}

/// How the launcher's names of nodes become dense numbers: in the order in
/// which ranks mention them, which is the same for all processes.
enum Nodes {
    /// By a rule.
    Dealt(Dealt),
    /// As Slurm tells.
    Mapped(Mapping),
    /// The launcher names hosts.
    Named(HashMap<String, u32>),
    /// The launcher numbers nodes. Second choice, since Open MPI 4.1 tells
    /// the number for ranks of the asking process's node only.
    Numbered(HashMap<u32, u32>),
}

/// The libpmix that [`Pmix::connect`] would use: its file and version line.
/// Opens it, and starts nothing of it.
///
/// # Errors
/// What was looked for and what to install, as text.
pub fn found() -> Result<(String, String), String> {
    let library = Library::open().map_err(|e| e.to_string())?;
    Ok((library.path(), library.version()))
}

/// Outcome of a fence, written by PMIx's thread.
struct Fence {
    done: AtomicU32,
    status: AtomicI32,
}

impl Pmix {
    /// Opens libpmix, connects to the launcher's daemon and agrees on the
    /// job's name, which takes one fence.
    ///
    /// # Errors
    /// [`BootError::Launcher`], with what to install when there is no libpmix.
    pub fn connect() -> Result<Self, BootError> {
        let library = Library::open()?;
        let mut me = Proc { nspace: [0; ffi::MAX_NSLEN + 1], rank: 0 };
        // SAFETY: `me` is a live pmix_proc_t for PMIx to fill; no infos.
        let status = unsafe { (library.functions.init)(&mut me, std::ptr::null_mut(), 0) };
        if status != ffi::SUCCESS {
            let hint = match status {
                ffi::ERR_UNREACH => {
                    "the launcher's daemon does not answer: start the program directly with \
                     mpirun, prterun or srun --mpi=pmix, or ignore it with RANKWAY_BOOT=alone"
                }
                _ => "try the launcher's own libpmix with RANKWAY_PMIX=/path/libpmix.so.2",
            };
            return Err(BootError::Launcher {
                launcher: "pmix",
                call: format!("PMIx_Init of {} ({})", library.name, library.version()),
                why: library.describe(status),
                hint: hint.into(),
            });
        }
        let mut boot = Pmix {
            library,
            me,
            size: 0,
            job: 0,
            one_machine: false,
            local: None,
            placement: Placement::Listed,
            nodes: OnceLock::new(),
            gets: AtomicU64::new(0),
            published: Mutex::default(),
            given_up: Mutex::default(),
            finalized: AtomicBool::new(false),
        };
        let size = boot.number(ffi::RANK_WILDCARD, "pmix.job.size")?;
        boot.size = size.and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
            boot.refusal("PMIx_Get(pmix.job.size)", "the launcher does not tell the job's size")
        })?;
        let here = boot.number(ffi::RANK_WILDCARD, "pmix.local.size")?;
        boot.one_machine = boot.size == 1 || here == Some(u64::from(boot.size));
        let whole = Dealt::new(boot.size, 1);
        let mapping = if boot.one_machine { None } else { boot.mapping()? };
        if !boot.one_machine && mapping.is_none() {
            boot.local = boot.local_peers()?;
        }
        let guess = boot.local.as_deref().and_then(|mine| Dealt::guess(mine, boot.size));
        if boot.me.rank == 0 {
            let job = Job { id: os::random_job()?, dealt: guess };
            boot.put(JOB_KEY, &job.encode())?;
        }
        boot.fence(&mut || ())?;
        let job = Job::decode(&boot.get(0, JOB_KEY)?);
        let job = job.ok_or_else(|| boot.refusal("PMIx_Get(rankway-job)", "it is of no job"))?;
        boot.job = job.id;
        boot.placement = match (boot.one_machine, &mapping) {
            (true, _) => whole.map_or(Placement::Listed, Placement::Dealt),
            (_, Some(mapping)) => mapping.dealt().map_or(Placement::Listed, Placement::Dealt),
            _ => job.dealt.map_or(Placement::OwnNode, |dealt| {
                let mine = boot.local.as_deref().unwrap_or_default();
                let same = dealt.ranks_of(dealt.node_of(boot.me.rank), boot.size);
                Placement::Supposed(dealt, same.eq(mine.iter().copied()))
            }),
        };
        if let Placement::Dealt(dealt) = boot.placement {
            let _ = boot.nodes.set(Nodes::Dealt(dealt));
        } else if let Some(mapping) = mapping {
            let _ = boot.nodes.set(Nodes::Mapped(mapping));
        }
        Ok(boot)
    }

    /// Which node each rank is on, where the launcher tells it in one value (Slurm's
    /// `PMIX_ANL_MAP`).
    fn mapping(&self) -> Result<Option<Mapping>, BootError> {
        let text = self.text(ffi::RANK_WILDCARD, "pmix.amap", Wanted::Known)?;
        Ok(text.and_then(|text| Mapping::parse(&text, self.size)))
    }

    /// The ranks of this node, rising: `PMIX_LOCAL_PEERS`.
    fn local_peers(&self) -> Result<Option<Vec<u32>>, BootError> {
        let text = self.text(ffi::RANK_WILDCARD, "pmix.lpeers", Wanted::Known)?;
        Ok(text.and_then(|text| parse_local_peers(&text, self.me.rank, self.size)))
    }

    /// Version line of the libpmix in use, for reports.
    pub fn library_version(&self) -> String {
        format!("{} from {}", self.library.version(), self.library.name)
    }

    fn refusal(&self, call: &str, why: impl Into<String>) -> BootError {
        BootError::Launcher {
            launcher: "pmix",
            call: call.into(),
            why: why.into(),
            hint: "see what the launcher itself reports".into(),
        }
    }

    fn check_open(&self, what: &'static str) -> Result<(), BootError> {
        match self.finalized.load(Ordering::Acquire) {
            true => Err(BootError::Finalized { what }),
            false => Ok(()),
        }
    }

    fn check(&self, call: &str, status: Status) -> Result<(), BootError> {
        match status {
            ffi::SUCCESS | ffi::OPERATION_SUCCEEDED => Ok(()),
            other => Err(self.refusal(call, self.library.describe(other))),
        }
    }

    /// Fetches `key` of `rank` and hands it to `read`; `None` when there is none.
    fn fetch<T>(
        &self,
        rank: u32,
        key: &str,
        wanted: Wanted,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, BootError> {
        self.check_open("get")?;
        let Some(name) = c_key(key) else { return Ok(None) };
        self.gets.fetch_add(1, Ordering::Relaxed);
        let proc = Proc { rank, ..self.me };
        let info = match wanted {
            Wanted::Known => {
                let mut info = empty_info(b"pmix.optional");
                info.value = Value { kind: ffi::TYPE_BOOL, data: Data { flag: true } };
                info
            }
            // PMIx waits for keys that may still come. After a fence none does,
            // but fetching from another node may take its time.
            Wanted::Published => {
                let seconds = os::timeout().as_secs().min(10) as i32;
                let mut info = empty_info(b"pmix.timeout");
                info.value = Value { kind: ffi::TYPE_INT, data: Data { integer: seconds } };
                info
            }
        };
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: all pointers are to live values of the C types; PMIx hands
        // back an allocated value only with SUCCESS.
        let status =
            unsafe { (self.library.functions.get)(&proc, name.as_ptr(), &info, 1, &mut value) };
        match status {
            ffi::SUCCESS if !value.is_null() => {
                // SAFETY: PMIx allocated it for us; freed right below.
                let result = read(unsafe { &*value });
                release(value);
                Ok(result)
            }
            ffi::SUCCESS | ffi::ERR_NOT_FOUND | ffi::ERR_TIMEOUT => Ok(None),
            other => Err(self
                .refusal(&format!("PMIx_Get({key}) of rank {rank}"), self.library.describe(other))),
        }
    }

    /// A number the launcher knows about `rank`.
    fn number(&self, rank: u32, key: &str) -> Result<Option<u64>, BootError> {
        self.fetch(rank, key, Wanted::Published, |value| {
            // SAFETY: PMIx fills the union member that `kind` names.
            unsafe {
                match value.kind {
                    ffi::TYPE_UINT32 | ffi::TYPE_UINT | ffi::TYPE_PROC_RANK => {
                        Some(u64::from(value.data.uint32))
                    }
                    ffi::TYPE_UINT64 => Some(value.data.uint64),
                    ffi::TYPE_SIZE => Some(value.data.size as u64),
                    ffi::TYPE_UINT16 => Some(u64::from(value.data.uint16)),
                    ffi::TYPE_INT | ffi::TYPE_INT32 => u64::try_from(value.data.integer).ok(),
                    _ => None,
                }
            }
        })
    }

    /// A text the launcher knows about `rank`.
    fn text(&self, rank: u32, key: &str, wanted: Wanted) -> Result<Option<String>, BootError> {
        self.fetch(rank, key, wanted, |value| {
            // SAFETY: `kind` says the union holds a C string, owned by value.
            (value.kind == ffi::TYPE_STRING).then(|| unsafe {
                std::ffi::CStr::from_ptr(value.data.string).to_string_lossy().into_owned()
            })
        })
    }

    fn host_name(&self, rank: u32) -> Result<Option<String>, BootError> {
        self.text(rank, "pmix.hname", Wanted::Published)
    }

    fn known_host_name(&self, rank: u32) -> Result<String, BootError> {
        self.host_name(rank)?.ok_or_else(|| {
            self.refusal(&format!("PMIx_Get(pmix.hname) of rank {rank}"), "not known")
        })
    }

    fn number_nodes<T: std::hash::Hash + Eq>(
        &self,
        node: impl Fn(u32) -> Result<T, BootError>,
    ) -> Result<HashMap<T, u32>, BootError> {
        let mut numbers = HashMap::new();
        for rank in 0..self.size {
            let next = numbers.len() as u32;
            numbers.entry(node(rank)?).or_insert(next);
        }
        Ok(numbers)
    }

    /// One pass over all ranks, the first time somebody asks; keeps the
    /// distinct nodes only.
    fn nodes(&self) -> Result<&Nodes, BootError> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let nodes = if self.host_name(0)?.is_some() {
            Nodes::Named(self.number_nodes(|rank| self.known_host_name(rank))?)
        } else {
            Nodes::Numbered(self.number_nodes(|rank| self.node_id(rank))?)
        };
        Ok(self.nodes.get_or_init(|| nodes))
    }

    fn node_id(&self, rank: u32) -> Result<u32, BootError> {
        let id = self.number(rank, "pmix.nodeid")?.and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| {
            self.refusal(&format!("PMIx_Get(pmix.nodeid) of rank {rank}"), "not known")
        })
    }

    /// Tells the others what was put, and that this process is there.
    fn begin_fence(&self) -> Result<Arc<Fence>, BootError> {
        // SAFETY: takes nothing.
        self.check("PMIx_Commit", unsafe { (self.library.functions.commit)() })?;
        let fence = Arc::new(Fence { done: AtomicU32::new(0), status: AtomicI32::new(0) });
        let theirs = Arc::into_raw(fence.clone());
        let everyone = Proc { rank: ffi::RANK_WILDCARD, ..self.me };
        // SAFETY: `everyone` is live and copied; `theirs` is a counted
        // reference which the callback takes over, called exactly once if
        // the status is SUCCESS and never otherwise.
        let status = unsafe {
            (self.library.functions.fence_nb)(
                &everyone,
                1,
                std::ptr::null(),
                0,
                fence_done,
                theirs.cast_mut().cast(),
            )
        };
        if status != ffi::SUCCESS {
            // SAFETY: the callback will not run, so the reference is ours again.
            drop(unsafe { Arc::from_raw(theirs) });
            self.check("PMIx_Fence_nb", status)?;
        }
        Ok(fence)
    }
}

impl Boot for Pmix {
    fn launcher(&self) -> &'static str {
        "pmix"
    }

    fn rank(&self) -> u32 {
        self.me.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> u64 {
        self.job
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        self.check_open("put")?;
        let limit = || format!("PMIx keys have 1 to {} bytes and no NUL", ffi::MAX_KEYLEN);
        let name = c_key(key).ok_or_else(|| BootError::TooLarge {
            key: key.into(),
            bytes: value.len(),
            limit: limit(),
        })?;
        let mut published = self.published.lock().unwrap_or_else(|poison| poison.into_inner());
        if !published.insert(key.to_string()) {
            return Err(BootError::Twice { key: key.into() });
        }
        // One byte in front, since some versions drop empty byte objects.
        let mut bytes = [&[0u8], value].concat();
        let bo = ByteObject { bytes: bytes.as_mut_ptr().cast(), size: bytes.len() };
        let mut value = Value { kind: ffi::TYPE_BYTE_OBJECT, data: Data { bo } };
        // SAFETY: `name` and `value` are live; PMIx copies the bytes before
        // it returns.
        let status =
            unsafe { (self.library.functions.put)(ffi::GLOBAL, name.as_ptr(), &mut value) };
        self.check(&format!("PMIx_Put({key})"), status)
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        const EAGER: u32 = 50;
        const NAP: Duration = Duration::from_millis(1);
        self.check_open("fence")?;
        let given_up = || self.given_up.lock().unwrap_or_else(|poison| poison.into_inner());
        // One that was given up is gone on with: nobody counts twice for one fence.
        let fence = given_up().take();
        let fence = fence.map_or_else(|| self.begin_fence(), Ok)?;
        let timeout = os::timeout();
        let start = Instant::now();
        for round in 0u32.. {
            if fence.done.load(Ordering::Acquire) != 0 {
                return self.check("PMIx_Fence_nb", fence.status.load(Ordering::Relaxed));
            }
            idle();
            if round >= EAGER {
                os::futex_wait(&fence.done, 0, NAP);
            }
            if start.elapsed() > timeout {
                *given_up() = Some(fence);
                // PMIx does not say who is missing.
                return Err(BootError::TimedOut {
                    what: "PMIx fence".into(),
                    missing: Vec::new(),
                    seconds: timeout.as_secs(),
                });
            }
        }
        unreachable!("the loop above only ends by returning")
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, self.size)?;
        let value = self.fetch(rank, key, Wanted::Published, |value| {
            if value.kind != ffi::TYPE_BYTE_OBJECT {
                return None;
            }
            // SAFETY: `kind` says the union holds a byte object.
            let bo = unsafe { value.data.bo };
            if bo.bytes.is_null() || bo.size == 0 {
                return None;
            }
            // SAFETY: PMIx filled pointer and size of its own allocation.
            let bytes = unsafe { std::slice::from_raw_parts(bo.bytes.cast::<u8>(), bo.size) };
            Some(bytes[1..].to_vec())
        })?;
        value.ok_or_else(|| BootError::NotPublished { rank, key: key.into() })
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, self.size)?;
        let number = match self.nodes()? {
            Nodes::Dealt(dealt) => Some(dealt.node_of(rank)),
            Nodes::Mapped(mapping) => Some(mapping.node_of(rank)),
            Nodes::Named(numbers) => numbers.get(&self.known_host_name(rank)?).copied(),
            Nodes::Numbered(numbers) => numbers.get(&self.node_id(rank)?).copied(),
        };
        number.ok_or_else(|| {
            self.refusal(&format!("node of rank {rank}"), "it has moved since it was first asked")
        })
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(self.me.rank, code, reason);
        let message = CString::new(reason.replace('\0', " ")).unwrap_or_default();
        // SAFETY: `message` is live; no procs means all of the job.
        unsafe { (self.library.functions.abort)(code, message.as_ptr(), std::ptr::null_mut(), 0) };
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        if self.finalized.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        sweep::sweep_process(std::process::id(), self.job);
        // SAFETY: no infos; PMIx refuses later calls, and `finalized` keeps
        // us from making any.
        let status = unsafe { (self.library.functions.finalize)(std::ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }

    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(self.one_machine)
    }

    fn questions(&self) -> Option<u64> {
        Some(self.gets.load(Ordering::Relaxed))
    }

    fn placement(&self) -> Result<Placement, BootError> {
        Ok(self.placement)
    }

    fn confirm_placement(&self) {
        if let Placement::Supposed(dealt, _) = self.placement {
            let _ = self.nodes.set(Nodes::Dealt(dealt));
        }
    }

    fn is_local(&self, rank: u32) -> Result<bool, BootError> {
        match &self.local {
            Some(local) => Ok(local.binary_search(&rank).is_ok()),
            None => Ok(self.node_of(rank)? == self.node_of(self.me.rank)?),
        }
    }

    fn local_ranks(&self) -> Result<Vec<u32>, BootError> {
        match &self.local {
            Some(local) => Ok(local.clone()),
            None => super::ranks_here(self),
        }
    }
}

/// Called by PMIx's progress thread.
unsafe extern "C" fn fence_done(status: Status, fence: *mut c_void) {
    // SAFETY: `fence` is the reference `Pmix::fence` gave away for this one call.
    let fence = unsafe { Arc::from_raw(fence.cast_const().cast::<Fence>()) };
    fence.status.store(status, Ordering::Relaxed);
    fence.done.store(1, Ordering::Release);
    os::futex_wake_all(&fence.done);
}

/// Frees a value PMIx_Get returned, of the kinds asked for here.
fn release(value: *mut Value) {
    // SAFETY: PMIx allocates values and what they point to with malloc, and
    // hands them over to the caller of PMIx_Get.
    unsafe {
        match (*value).kind {
            ffi::TYPE_STRING => libc::free((*value).data.string.cast()),
            ffi::TYPE_BYTE_OBJECT => libc::free((*value).data.bo.bytes.cast()),
            _ => {}
        }
        libc::free(value.cast());
    }
}

fn c_key(key: &str) -> Option<CString> {
    CString::new(key).ok().filter(|_| (1..=ffi::MAX_KEYLEN).contains(&key.len()))
}

fn empty_info(name: &[u8]) -> Info {
    let mut key = [0; ffi::MAX_KEYLEN + 1];
    key[..name.len()].copy_from_slice(name);
    Info { key, flags: 0, value: Value { kind: 0, data: Data { widest: [0; 3] } } }
}
