//! What C sees: handles, codes, structures. All of it is copied into
//! `include/rankway.h` by cbindgen, comments included, so it is written for
//! readers of C.

#![allow(non_camel_case_types, reason = "these are C's names")]
#![allow(missing_docs, reason = "where the name says it all")]

use std::ffi::{c_char, c_int, c_void};

/// Version of this interface. It changes when a program must be compiled anew.
pub const RANKWAY_ABI: u32 = 1;

/// A receive or probe takes messages from any source (MPICH's value).
pub const RANKWAY_ANY_SOURCE: c_int = -2;
/// A receive or probe takes messages with any tag (MPICH's value).
pub const RANKWAY_ANY_TAG: c_int = -1;

/// No rank: what a process that a group has not is there (MPICH's and Open MPI's value).
pub const RANKWAY_UNDEFINED: c_int = -32766;

/// The length of the blocks in which an array is dealt is the default: as even
/// as it goes, or 1 where they are dealt in turn.
pub const RANKWAY_DISTRIBUTE_DEFAULT: i64 = -1;

/// Answer of rankway_put_unchecked: the provider has no space now. Call
/// rankway_progress, then call again.
pub const RANKWAY_AGAIN: isize = -11;
/// Answer of rankway_put_unchecked: it failed, and rankway_win_error says why.
pub const RANKWAY_FAILED: isize = isize::MIN;

/// The return code of every call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_code {
    /// Done.
    RANKWAY_SUCCESS = 0,
    /// A pointer that must not be null is null.
    RANKWAY_ERR_NULL = 1,
    /// A handle that is null, was freed, or is of another kind.
    RANKWAY_ERR_HANDLE = 2,
    /// A handle of another thread, or two threads in one device at once.
    RANKWAY_ERR_THREAD = 3,
    /// An argument that makes no sense, or differs between the members.
    RANKWAY_ERR_ARG = 4,
    /// A rank outside the communicator.
    RANKWAY_ERR_RANK = 5,
    /// An operation that leaves the target's memory.
    RANKWAY_ERR_RANGE = 6,
    /// No epoch is open, or another one.
    RANKWAY_ERR_EPOCH = 7,
    /// An operation that MPI does not have for the type.
    RANKWAY_ERR_OP = 8,
    /// A message longer than its receive.
    RANKWAY_ERR_TRUNCATE = 9,
    /// Something that is made of the object is still in use: free it first.
    RANKWAY_ERR_BUSY = 10,
    /// No network library, or no provider that serves.
    RANKWAY_ERR_PROVIDER = 11,
    /// Nothing reaches a peer.
    RANKWAY_ERR_UNREACHABLE = 12,
    /// The process of a peer has ended.
    RANKWAY_ERR_PEER_DIED = 13,
    /// A peer did not do what it was asked for, or answers garbage.
    RANKWAY_ERR_PEER = 14,
    /// The network library refused or failed.
    RANKWAY_ERR_NETWORK = 15,
    /// The launcher, or the set-up channel.
    RANKWAY_ERR_BOOT = 16,
    /// No memory.
    RANKWAY_ERR_MEMORY = 17,
    /// A call that waits within a handler.
    RANKWAY_ERR_NESTED = 18,
    /// A fault in Rankway itself. Nothing can be said of the object's state.
    RANKWAY_ERR_INTERNAL = 19,
}

/// Which threads will call. As MPI's levels, with a stricter rule for the last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_threads {
    /// The thread that opened the device. Handles used by another are refused.
    RANKWAY_THREAD_SINGLE = 0,
    /// Any thread, one at a time, as under the lock of a CH4 VCI. Two at once
    /// are refused.
    RANKWAY_THREAD_SERIALIZED = 1,
    /// Several at once, each with a context of its own (rankway_context_open).
    /// Objects of a context belong to the thread that opened it; handles
    /// used by another are refused.
    RANKWAY_THREAD_MULTIPLE = 2,
}

/// Types of elements (MPI's predefined ones).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_type {
    RANKWAY_INT8 = 0,
    /// MPI_BYTE and C's bool too.
    RANKWAY_UINT8 = 1,
    RANKWAY_INT16 = 2,
    RANKWAY_UINT16 = 3,
    RANKWAY_INT32 = 4,
    RANKWAY_UINT32 = 5,
    RANKWAY_INT64 = 6,
    RANKWAY_UINT64 = 7,
    RANKWAY_FLOAT = 8,
    RANKWAY_DOUBLE = 9,
    /// x86's 80 bits in 16 bytes.
    RANKWAY_LONG_DOUBLE = 10,
    RANKWAY_COMPLEX = 11,
    RANKWAY_DOUBLE_COMPLEX = 12,
    /// From here on for datatypes alone; operations take the integers of their
    /// size.
    RANKWAY_BYTE = 13,
    RANKWAY_CHAR = 14,
    RANKWAY_WCHAR = 15,
    RANKWAY_BOOL = 16,
}

/// How groups compare, with MPICH's and Open MPI's values.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_comparison {
    /// The same members in the same order.
    RANKWAY_IDENT = 0,
    /// The same members in another order.
    RANKWAY_SIMILAR = 2,
    /// Other members.
    RANKWAY_UNEQUAL = 3,
}

/// In which order an array's elements lie in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_order {
    /// The last dimension's are neighbours.
    RANKWAY_ORDER_C = 0,
    /// The first dimension's are neighbours.
    RANKWAY_ORDER_FORTRAN = 1,
}

/// How a dimension of an array is dealt to processes (MPI-4.1, section 5.1.4).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_distribution {
    /// Not dealt: the process has all of it.
    RANKWAY_DISTRIBUTE_NONE = 0,
    /// One block for each process.
    RANKWAY_DISTRIBUTE_BLOCK = 1,
    /// Blocks dealt in turn.
    RANKWAY_DISTRIBUTE_CYCLIC = 2,
}

/// Operations on elements (MPI's predefined ones).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_op {
    RANKWAY_SUM = 0,
    RANKWAY_PROD = 1,
    RANKWAY_MIN = 2,
    RANKWAY_MAX = 3,
    RANKWAY_BAND = 4,
    RANKWAY_BOR = 5,
    RANKWAY_BXOR = 6,
    RANKWAY_LAND = 7,
    RANKWAY_LOR = 8,
    RANKWAY_LXOR = 9,
    RANKWAY_REPLACE = 10,
    RANKWAY_NO_OP = 11,
}

/// How a lock excludes others.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_lock {
    RANKWAY_LOCK_EXCLUSIVE = 1,
    RANKWAY_LOCK_SHARED = 2,
}

/// Promises about an epoch, joined with `|` (MPI-4.1, section 12.5.5).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rankway_assert {
    RANKWAY_MODE_NOCHECK = 1,
    RANKWAY_MODE_NOSTORE = 2,
    RANKWAY_MODE_NOPUT = 4,
    RANKWAY_MODE_NOPRECEDE = 8,
    RANKWAY_MODE_NOSUCCEED = 16,
}

/// A device: peers, providers and address vectors of this process. Of all
/// threads. Zeroed: no device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_device_t {
    pub id: u64,
}

/// An endpoint and completion queue for each provider (a VCI). Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_context_t {
    pub id: u64,
}

/// A communicator. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_comm_t {
    pub id: u64,
}

/// A window. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_win_t {
    pub id: u64,
}

/// An operation under way. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_request_t {
    pub id: u64,
}

/// A message that a matched probe took. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_message_t {
    pub id: u64,
}

/// A rank map: rank -> (process group, lpid). Of all threads. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_rankmap_t {
    pub id: u64,
}

/// A datatype: which bytes of memory an operation takes, in which order. Of all
/// threads. Zeroed: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_type_t {
    pub id: u64,
}

/// The name of a process: process group and index in its address vector.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_process_t {
    /// Process group; 0 is the job.
    pub pgid: u32,
    /// Local process id: in group 0 the rank in the job.
    pub lpid: u32,
}

/// The status of a receive or a probe.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_status_t {
    /// Rank of the sender in the communicator.
    pub source: c_int,
    pub tag: c_int,
    /// Bytes of the message.
    pub count: u64,
    /// The 64 match bits as they travelled.
    pub bits: u64,
    /// Rank of the sender in the job.
    pub peer: u32,
    /// Not 0: it was cancelled, and the rest means nothing.
    pub cancelled: c_int,
}

/// An operation that has ended, out of a completion queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rankway_completion_t {
    /// The operation's.
    pub cookie: u64,
    /// Of a message; of others nothing.
    pub status: rankway_status_t,
    /// A rankway_code: how it ended.
    pub code: c_int,
}

/// A device's node, netmod, launcher and providers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rankway_info_t {
    /// Rank of this process in the job.
    pub rank: u32,
    /// Processes of the job.
    pub size: u32,
    /// Rank of this process on its node.
    pub node_rank: u32,
    /// Processes on this node.
    pub node_size: u32,
    /// `node`, `ofi` or `ucx`.
    pub netmod: [c_char; 16],
    /// The launcher of the job: `pmix`, `pmi1`, `local`, `alone`, `caller`.
    pub launcher: [c_char; 16],
    /// The provider for the network; empty where none is open.
    pub network: [c_char; 64],
    /// The provider for peers on the node; empty where none is open.
    pub local: [c_char; 64],
    /// The longest put that is copied at the call, bytes.
    pub inject_size: usize,
}

/// The job as the caller describes it: for device layers whose MPI is connected
/// to the launcher already. Functions return 0, or anything else for failure;
/// they are called by the thread that called Rankway. Copied when the device is
/// opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rankway_boot_t {
    /// Given to every function.
    pub self_: *mut c_void,
    /// Rank of this process in the job.
    pub rank: u32,
    /// Processes of the job.
    pub size: u32,
    /// The same in all processes of the job, different between jobs on a
    /// machine, not 0.
    pub job: u64,
    /// Publishes `bytes` bytes under a key, for all peers after the next fence.
    pub put: Option<
        unsafe extern "C" fn(
            self_: *mut c_void,
            key: *const c_char,
            value: *const c_void,
            bytes: usize,
        ) -> c_int,
    >,
    /// Copies what `rank` published before the last fence into `value`, at most
    /// `capacity` bytes, and stores how many there are, which may be more.
    pub get: Option<
        unsafe extern "C" fn(
            self_: *mut c_void,
            rank: u32,
            key: *const c_char,
            value: *mut c_void,
            capacity: usize,
            bytes: *mut usize,
        ) -> c_int,
    >,
    /// Waits for all processes.
    pub fence: Option<unsafe extern "C" fn(self_: *mut c_void) -> c_int>,
    /// The node of a rank, numbered from 0 and agreed on by all.
    pub node: Option<unsafe extern "C" fn(self_: *mut c_void, rank: u32) -> u32>,
    /// Ends the job. Null: the process is ended.
    pub abort: Option<unsafe extern "C" fn(self_: *mut c_void, code: c_int, why: *const c_char)>,
}

/// The handler that an active message calls where it arrives: within progress,
/// in the order of each sender. `source` is the sender's rank in the job;
/// header and data are valid until it returns. Returns 0 when it consumed the
/// message; after anything else the message is held and offered again. It must
/// not wait, so it may send with rankway_am_try_send.
pub type rankway_am_handler_t = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        source: u32,
        hdr: *const c_void,
        hdr_bytes: usize,
        data: *const c_void,
        bytes: usize,
    ) -> c_int,
>;

/// Carries out a rankway_custom at the target: changes the `span` bytes at `at` as
/// `code` and `operand` say, and writes what the origin asked for to `result`. No
/// other operator touches those bytes meanwhile. All are good until it returns.
/// Returns 0, or refuses. It must not wait, and calls nothing of rankway's.
pub type rankway_operator_t = Option<
    unsafe extern "C" fn(
        code: u64,
        at: *mut c_void,
        span: usize,
        operand: *const c_void,
        operand_bytes: usize,
        result: *mut c_void,
        result_bytes: usize,
    ) -> c_int,
>;

/// How a device is opened. Begin with RANKWAY_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rankway_options_t {
    /// RANKWAY_ABI, so that a library of another one refuses.
    pub abi: u32,
    /// A rankway_threads.
    pub threads: c_int,
    /// `node`, `ofi` or `ucx`. Null: RANKWAY_NETMOD, else the best there is.
    pub netmod: *const c_char,
    /// Providers of libfabric: `shm`, `tcp;ofi_rxm`, or both with a comma. Null:
    /// RANKWAY_PROVIDER, else the best there are. UCX has UCX_TLS.
    pub provider: *const c_char,
    /// The job. Null: that of the launcher, which is detected.
    pub boot: *const rankway_boot_t,
}

/// Rank -> entry of the address vector, the hot form of a rank map: what a
/// communicator of a device layer keeps by value. 64 bytes; read by
/// rankway_lookup_entry only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rankway_lookup_t {
    /// 0: direct, offset, stride. Others go through `select`.
    pub kind: u32,
    pub phase: u32,
    /// The entry of rank 0.
    pub base: *const c_char,
    /// Bytes from the entry of one rank to that of the next.
    pub stride: isize,
    pub select: Option<unsafe extern "C" fn(lookup: *const rankway_lookup_t, rank: usize) -> u64>,
    pub params: [u64; 4],
}

/// A window as a put reads it: read by rankway_put_unchecked only. The library
/// makes it, it is longer than this, and it stays where it is until its window
/// is freed.
#[repr(C)]
#[derive(Debug)]
pub struct rankway_access_t {
    /// Rank -> entry.
    pub lookup: rankway_lookup_t,
    /// In the epoch: private to the library.
    pub gate: [u32; 3],
    /// Which path its puts take.
    pub path: u32,
    /// The provider's own fi_inject_write.
    pub inject: Option<
        unsafe extern "C" fn(
            endpoint: *mut c_void,
            buf: *const c_void,
            len: usize,
            dest: u64,
            addr: u64,
            key: u64,
        ) -> isize,
    >,
    /// The endpoint of the network provider.
    pub endpoint: *mut c_void,
    pub inject_size: usize,
    /// Bytes of a displacement.
    pub unit: usize,
    /// Address of the targets' memory.
    pub base: u64,
    /// Key of the targets' memory.
    pub key: u64,
    pub short_len: usize,
    pub short_disps: usize,
    pub remote_keys: *const c_void,
    pub bytes: usize,
    pub max_disp: usize,
    pub word_disps: usize,
    /// The number of ranks.
    pub ranks: u32,
    pub stores: u8,
    /// Where the memory of rank 0 is mapped in this process.
    pub mapped_start: *mut c_char,
    /// Bytes from the memory of one rank to that of the next.
    pub mapped_stride: isize,
    /// The longest put that may go to `inject`.
    pub longest: usize,
    /// All other puts.
    pub other: Option<
        unsafe extern "C" fn(
            access: *const rankway_access_t,
            buf: *const c_void,
            len: usize,
            rank: u32,
            disp: usize,
        ) -> isize,
    >,
    /// Which ranks were put to since the last flush, modulo 256.
    pub marks: [u8; 256],
}
