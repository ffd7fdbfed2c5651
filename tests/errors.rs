//! Every error's text, word for word, and the error below it: programs log
//! these, and `src` renders them by hand.

use rankway::av::AvError;
use rankway::boot::BootError;
use rankway::datatype::LayoutError;
use rankway::device::DeviceError;
use rankway::msg::MsgError;
use rankway::netmod::{NetError, Op, Type, ucx};
use rankway::rankmap::compact::{CompactError, Refused, Representation, UnknownStrategy};
use rankway::rankmap::group::GroupError;
use rankway::rankmap::{MapError, Process};
use rankway::rma::{ErrorKind, WindowError};
use rankway::settings::BadSetting;
use std::error::Error;
use std::io;

fn text(text: &str) -> String {
    text.to_owned()
}

fn denied() -> io::Error {
    io::Error::from(io::ErrorKind::PermissionDenied)
}

/// One of each, and what it says.
#[test]
fn every_error_says_what_it_said() {
    let all: Vec<(Box<dyn Error>, &str)> = vec![
        (
            Box::new(AvError::Index(u64::MAX)),
            "the address 0xffffffffffffffff does not fit in 63 bits beside the transport bit",
        ),
        (
            Box::new(AvError::Handle(9)),
            "the handle 0x9 is null or not aligned to 8 bytes; its low 3 bits carry the transport",
        ),
        (
            Box::new(AvError::TransportBits(8)),
            "transport bits 0x8 do not fit in the low 3 bits of a handle",
        ),
        (
            Box::new(AvError::NoGroup(7)),
            "process group 7 does not exist; add it before looking up or inserting",
        ),
        (
            Box::new(AvError::Lpid { pg: 1, lpid: 4, size: 4 }),
            "lpid 4 is out of range: process group 1 has 4 processes",
        ),
        (
            Box::new(AvError::TooManyGroups),
            "all 65536 process groups are in use; remove one that has disconnected",
        ),
        (
            Box::new(AvError::Capacity { capacity: 4, wanted: 5 }),
            "a table of 4 entries cannot grow to 5; reserve more when adding it",
        ),
        (
            Box::new(AvError::Memory { bytes: 32, reason: text("refused") }),
            "no memory for a table of 32 bytes of address space: refused; raise `ulimit -v`",
        ),
        (
            Box::new(BadSetting {
                name: "RANKWAY_TIMEOUT",
                value: text("soon"),
                takes: text("seconds"),
            }),
            "RANKWAY_TIMEOUT is 'soon'; it takes seconds",
        ),
        (Box::new(BootError::PeerDied { rank: 3, how: text("signal 9") }), "rank 3 died: signal 9"),
        (
            Box::new(BootError::Unreachable { rank: 3, why: "no way" }),
            "rank 3 cannot be reached: no way",
        ),
        (
            Box::new(BootError::GaveUp { rank: 3, why: text("no memory") }),
            "rank 3 gave up: no memory",
        ),
        (
            Box::new(BootError::TimedOut { what: text("fence"), missing: vec![1, 2], seconds: 30 }),
            "fence: nothing from ranks 1, 2 within 30 s; they may be stopped or stuck elsewhere \
             (RANKWAY_TIMEOUT=seconds sets the limit)",
        ),
        (
            Box::new(BootError::Rank { rank: 9, size: 4 }),
            "rank 9 is out of range: there are 4 ranks, 0 to 3",
        ),
        (
            Box::new(BootError::NotPublished { rank: 3, key: text("card") }),
            "rank 3 has published no value for key `card`: it must `put` it before the `fence` both \
             take part in",
        ),
        (
            Box::new(BootError::Twice { key: text("card") }),
            "key `card` was already published by this process; use a new key for a new value",
        ),
        (
            Box::new(BootError::TooLarge {
                key: text("card"),
                bytes: 5000,
                limit: text("4096 fit"),
            }),
            "key `card` with 5000 bytes does not fit: 4096 fit",
        ),
        (
            Box::new(BootError::Threads { count: 2 }),
            "cannot fork ranks: this process has 2 threads and a forked child would keep only one of \
             them; call `boot::local::run` before any thread is started",
        ),
        (
            Box::new(BootError::Setting(BadSetting {
                name: "RANKWAY_TIMEOUT",
                value: text("soon"),
                takes: text("seconds"),
            })),
            "RANKWAY_TIMEOUT is 'soon'; it takes seconds",
        ),
        (Box::new(BootError::Options(text("no ranks"))), "no ranks"),
        (Box::new(BootError::Finalized { what: "fence" }), "fence after finalize"),
        (
            Box::new(BootError::Launcher {
                launcher: "PMIx",
                call: text("PMIx_Init"),
                why: text("unreachable"),
                hint: text("start it"),
            }),
            "PMIx: PMIx_Init failed: unreachable; start it",
        ),
        (
            Box::new(BootError::Os { what: text("fork"), source: denied() }),
            "fork: permission denied",
        ),
        (
            Box::new(BootError::Protocol { rank: 3, what: text("two fences") }),
            "rank 3 broke the set-up protocol: two fences",
        ),
        (Box::new(BootError::Idle(text("stopped"))), "gave up while waiting for peers: stopped"),
        (
            Box::new(DeviceError::Net(NetError::Corrupt)),
            "its queue on this node holds what no packet looks like, so nothing is taken from it any \
             more; something overwrote its memory, or the ranks are not all of one version",
        ),
        (
            Box::new(DeviceError::Peer { rank: 3, error: NetError::Corrupt }),
            "rank 3: its queue on this node holds what no packet looks like, so nothing is taken from \
             it any more; something overwrote its memory, or the ranks are not all of one version",
        ),
        (
            Box::new(DeviceError::PeerDied { rank: 3 }),
            "rank 3 died, or left the job: nothing reaches it any more",
        ),
        (
            Box::new(DeviceError::Unsent { rank: 3, seconds: 300 }),
            "what was sent to rank 3 may not have arrived: it made no progress for 300 seconds, after \
             which this context closed; raise RANKWAY_TIMEOUT",
        ),
        (
            Box::new(DeviceError::NoTransport { rank: 3, why: "another node" }),
            "no transport reaches rank 3: another node",
        ),
        (
            Box::new(DeviceError::BadBusinessCard { rank: 3 }),
            "the business card of rank 3 is garbage; are all ranks the same version?",
        ),
        (Box::new(DeviceError::NoRank { rank: 4, size: 4 }), "rank 4 is not in the job of 4 ranks"),
        (
            Box::new(DeviceError::NoDescriptor { peer: None }),
            "nothing comes in, and connections of this process are held up: it may open no more \
             descriptors; raise `ulimit -n`",
        ),
        (
            Box::new(DeviceError::NoDescriptor { peer: Some(3) }),
            "nothing comes in from rank 3, and connections of this process are held up: it may open no \
             more descriptors; raise `ulimit -n`",
        ),
        (
            Box::new(DeviceError::OpenedBefore),
            "a device of this process was opened before, and peers know one of each: share it; \
             `Device::context` makes contexts for further threads",
        ),
        (
            Box::new(DeviceError::OneThread),
            "the device was opened for one thread; open it for more to open further contexts",
        ),
        (
            Box::new(DeviceError::ContextTaken { index: 3 }),
            "context 3 is open already; take another from 1 to 4096",
        ),
        (
            Box::new(DeviceError::ContextTaken { index: 100_000 }),
            "context 100000: no index for one; take another from 1 to 4096",
        ),
        (
            Box::new(DeviceError::Nested),
            "a handler called something that waits; let it reply, or leave the rest to the thread",
        ),
        (
            Box::new(DeviceError::Poisoned),
            "a panic within this context's progress left it half done, and nothing comes in on it any \
             more; close it, and report the panic: it is a fault in Rankway or in an operator",
        ),
        (
            Box::new(DeviceError::Av(AvError::TooManyGroups)),
            "all 65536 process groups are in use; remove one that has disconnected",
        ),
        (
            Box::new(DeviceError::Map(MapError::TooManyRanks { limit: 8 })),
            "the map has more than 8 ranks; split the communicator",
        ),
        (
            Box::new(DeviceError::Compact(CompactError::Map(MapError::TooManyRanks { limit: 8 }))),
            "the map has more than 8 ranks; split the communicator",
        ),
        (
            Box::new(DeviceError::Strategy(UnknownStrategy(text("fast")))),
            "\"fast\" is no strategy for rank maps; set RANKWAY_MAP_STRATEGY to auto, table, time, \
             space, hybrid or hybrid:ALPHA, ALPHA from 0 to 1",
        ),
        (
            Box::new(DeviceError::Boot(BootError::Os { what: text("fork"), source: denied() })),
            "fork: permission denied",
        ),
        (
            Box::new(ErrorKind::Rank { rank: u32::MAX, size: 4 }),
            "rank 4294967295 is out of range: the communicator has 4 ranks, 0 to 3",
        ),
        (
            Box::new(ErrorKind::OutOfBounds { rank: 3, disp: 7, unit: 8, len: 8, bytes: 60 }),
            "8 bytes at displacement 7 (units of 8 bytes) leave the window of rank 3, which has 60 \
             bytes: displacements up to 6 fit",
        ),
        (
            Box::new(ErrorKind::OutOfBounds {
                rank: 3,
                disp: usize::MAX - 7,
                unit: 1,
                len: 16,
                bytes: u64::MAX,
            }),
            "16 bytes at address 0xfffffffffffffff8 of rank 3 leave the address space: a dynamic \
             window's displacements are addresses, as the target has told them",
        ),
        (
            Box::new(ErrorKind::NotExposed { rank: 3 }),
            "rank 3 does not expose this memory in the window: attach it there before, and detach \
             it after all operations are flushed",
        ),
        (
            Box::new(ErrorKind::NullBuffer { len: 8 }),
            "the buffer is null, of which 8 bytes are to be used",
        ),
        (
            Box::new(ErrorKind::NoEpoch),
            "no access epoch is open on this window: call fence, start, lock or lock_all first",
        ),
        (
            Box::new(ErrorKind::Epoch {
                call: "fence",
                open: "lock_all is open",
                remedy: "call unlock_all",
            }),
            "fence while lock_all is open: call unlock_all",
        ),
        (
            Box::new(ErrorKind::NotInEpoch { rank: 3, remedy: "call lock" }),
            "rank 3 is not in the access epoch that is open: call lock",
        ),
        (
            Box::new(ErrorKind::Operation { ty: Type::F64, op: Op::Bxor, why: "no bits" }),
            "Bxor on F64: no bits",
        ),
        (
            Box::new(ErrorKind::Refused { rank: 3, why: "no window" }),
            "rank 3 did not carry out an operation: no window",
        ),
        (Box::new(ErrorKind::Freed), "the window was freed; make a new one"),
        (Box::new(ErrorKind::Arguments(text("a unit of 0"))), "a unit of 0"),
        (
            Box::new(ErrorKind::Member { rank: 2, peer: Some(7), why: text("gave null memory") }),
            "rank 2 gave null memory",
        ),
        (
            Box::new(ErrorKind::MemberMemory { rank: 2, peer: Some(7), why: text("has none") }),
            "rank 2 has none",
        ),
        (
            Box::new(ErrorKind::Allgather(text("cut"))),
            "the allgather of a communicator failed: cut",
        ),
        (
            Box::new(ErrorKind::Memory { what: text("mmap"), source: denied() }),
            "no memory for a window: mmap: permission denied",
        ),
        (
            Box::new(ErrorKind::Device(DeviceError::Boot(BootError::Os {
                what: text("fork"),
                source: denied(),
            }))),
            "fork: permission denied",
        ),
        (
            Box::new(WindowError::from(ErrorKind::Memory { what: text("mmap"), source: denied() })),
            "no memory for a window: mmap: permission denied",
        ),
        (
            Box::new(LayoutError::Overflow { what: "the extent" }),
            "the extent of a layout exceeds 2^61 bytes; check counts, strides and displacements",
        ),
        (
            Box::new(LayoutError::Lists { blocks: 2, displacements: 3 }),
            "2 block lengths for 3 displacements; give one for each block",
        ),
        (
            Box::new(LayoutError::Subarray { dimension: 1, size: 4, subsize: 3, start: 2 }),
            "dimension 1: elements 2..2+3 of an array of 4; start + subsize must not exceed the size",
        ),
        (
            Box::new(LayoutError::Darray { dimension: 1, why: "no processes" }),
            "dimension 1 of a distributed array: no processes",
        ),
        (
            Box::new(LayoutError::Bounds { first: -4, end: 8, origin: 0, behind: 4 }),
            "the layout takes bytes -4..8 from its origin, the memory given has 0 before and 4 behind \
             it; give all of it, or a smaller count",
        ),
        (
            Box::new(LayoutError::Description { why: "unknown kind", at: 2, words: 9 }),
            "description of a layout: unknown kind (word 2 of 9)",
        ),
        (
            Box::new(MsgError::Truncated {
                source_rank: 3,
                tag: 5,
                peer: 3,
                length: 9,
                capacity: 8,
            }),
            "a message of 9 bytes from rank 3 with tag 5 does not fit the receive of 8 bytes; probe for \
             its length first",
        ),
        (
            Box::new(MsgError::Rank { rank: 4, size: 4 }),
            "rank 4 is out of range: the communicator has 4 ranks",
        ),
        (
            Box::new(MsgError::TooLong {
                rank: 3,
                header: 1,
                payload: 9000,
                header_limit: 64,
                limit: 8000,
            }),
            "an active message to rank 3 with 1 bytes of header and 9000 of payload: at most 64 and \
             8000 fit; send long data as tagged messages",
        ),
        (
            Box::new(MsgError::Length { len: usize::MAX }),
            "a buffer of 18446744073709551615 bytes is longer than any memory: its length is wrong",
        ),
        (
            Box::new(ErrorKind::Length { len: usize::MAX }),
            "a buffer of 18446744073709551615 bytes is longer than any memory: its length is wrong",
        ),
        (
            Box::new(MsgError::HandlerTaken { id: 5 }),
            "handler 5 is registered already on this context; take another number",
        ),
        (
            Box::new(MsgError::NoMessages { rank: 3 }),
            "the provider that reaches rank 3 has no messages; use another (rankway info)",
        ),
        (
            Box::new(MsgError::GivenUp { rank: 3 }),
            "rank 3 gave a long message up, whose other end is here, after an error of its own; see \
             to that error, and send the message again",
        ),
        (
            Box::new(MsgError::NobodyLeft { others: 3 }),
            "a receive from any rank has nobody left to send to it: all 3 others ended",
        ),
        (
            Box::new(MsgError::Device(DeviceError::Boot(BootError::Os {
                what: text("fork"),
                source: denied(),
            }))),
            "fork: permission denied",
        ),
        (Box::new(NetError::Library(text("no libfabric"))), "no libfabric"),
        (
            Box::new(NetError::NoNetmod { wanted: text("tcp"), have: &["ofi", "ucx"] }),
            "there is no netmod 'tcp'; netmods are ofi and ucx",
        ),
        (
            Box::new(NetError::NoProvider {
                wanted: text("psm"),
                have: vec![text("tcp"), text("shm")],
                library: "libfabric",
                variable: "FI_PROVIDER",
            }),
            "provider 'psm' is not there; this libfabric offers: tcp, shm; name one of them in \
             RANKWAY_PROVIDER, or unset it and FI_PROVIDER to have one chosen",
        ),
        (
            Box::new(NetError::NoRma { provider: text("udp"), variable: "FI_PROVIDER" }),
            "provider 'udp' has no RMA on reliable datagram endpoints, which windows need; use another \
             (rankway info lists them) or unset FI_PROVIDER",
        ),
        (
            Box::new(NetError::NoSpace {
                provider: text("shm"),
                place: "/dev/shm",
                free: 1,
                needed: 2,
                why: "an endpoint takes up to 16 MiB, and libfabric wants space for one a processor",
            }),
            "shm: /dev/shm has 1 bytes free and 2 may be needed (an endpoint takes up to 16 MiB, and \
             libfabric wants space for one a processor); remove what is left there, enlarge it (mount -o \
             remount,size=...), or use another provider (RANKWAY_PROVIDER=tcp)",
        ),
        (
            Box::new(NetError::NoAddressSpace { provider: text("shm"), left: 1, needed: 2 }),
            "shm: this process may map 1 bytes more and a peer takes up to 2; raise `ulimit -v`",
        ),
        (
            Box::new(NetError::LockLimit {
                provider: text("verbs"),
                call: "fi_mr_reg",
                code: -12,
                text: text("no memory"),
                limit: 65536,
            }),
            "verbs: fi_mr_reg failed: no memory (-12); this process may lock 65536 bytes for devices \
             (RLIMIT_MEMLOCK), and what it registers counts: raise the limit (ulimit -l unlimited; \
             memlock in /etc/security/limits.conf; LimitMEMLOCK= of a service or batch daemon) or use a \
             provider that locks nothing (RANKWAY_PROVIDER=tcp)",
        ),
        (
            Box::new(NetError::Call {
                provider: text("tcp"),
                call: "fi_endpoint",
                code: -22,
                text: text("invalid"),
            }),
            "tcp: fi_endpoint failed: invalid (-22)",
        ),
        (
            Box::new(NetError::Address { provider: text("tcp"), reason: text("3 bytes") }),
            "tcp: not an address of this provider: 3 bytes",
        ),
        (
            Box::new(NetError::Full { provider: text("shm"), reason: text("no") }),
            "shm: no; some providers reach few hundred endpoints, and contexts opened again are new \
             ones",
        ),
        (
            Box::new(NetError::Corrupt),
            "its queue on this node holds what no packet looks like, so nothing is taken from it any \
             more; something overwrote its memory, or the ranks are not all of one version",
        ),
        (
            Box::new(DeviceError::Peer {
                rank: 3,
                error: NetError::Lost { provider: text("tcp") },
            }),
            "rank 3: tcp: packets between it and this process were lost, as by a connection that broke, \
             so nothing more goes from one to the other; look for resets and errors of the network \
             (nstat, ip -s link), and start the job again",
        ),
        (
            Box::new(NetError::Operation {
                provider: text("tcp"),
                peer: Some(1),
                code: 5,
                text: text("lost"),
            }),
            "tcp: an operation failed: lost (5)",
        ),
        (
            Box::new(ucx::LoadError::Open { file: "libucp.so.0".into(), reason: text("no file") }),
            "UCX: cannot open libucp.so.0: no file; install it (Debian, Ubuntu: apt install libucx0), \
             or set RANKWAY_UCX to a libucp.so.0",
        ),
        (
            Box::new(ucx::LoadError::Symbol {
                file: "libucp.so.0".into(),
                symbol: "ucp_init",
                reason: text("none"),
            }),
            "UCX: libucp.so.0 has no ucp_init: none; set RANKWAY_UCX to a libucp.so.0",
        ),
        (
            Box::new(MapError::LpidTooLarge { index: 1, lpid: 9, limit: 8 }),
            "rank 1 maps to lpid 9, above the limit 8; lpids number the processes of one process group \
             from 0",
        ),
        (
            Box::new(MapError::TooManyRanks { limit: 8 }),
            "the map has more than 8 ranks; split the communicator",
        ),
        (
            Box::new(MapError::AffineRange { base: 3, stride: -2, size: 4, reached: -3, limit: 8 }),
            "base 3 with stride -2 over 4 ranks reaches lpid -3, outside 0..=8; check the sign of the \
             stride and the size",
        ),
        (
            Box::new(MapError::RankOutOfParent { index: 1, rank: 4, size: 4 }),
            "rank 1 of the child names rank 4 of a parent of 4 ranks; child ranks count from 0 in the \
             parent",
        ),
        (
            Box::new(MapError::ChildNotRanks { pg: Some(2) }),
            "the child holds processes of process group 2, not ranks of its parent; build it from \
             parent ranks (process group 0)",
        ),
        (
            Box::new(MapError::ChildNotRanks { pg: None }),
            "the child holds processes of several process groups, not ranks of its parent; build it from \
             parent ranks (process group 0)",
        ),
        (
            Box::new(MapError::SliceRange { start: 2, end: 9, size: 4 }),
            "the ranks 2..9 are not a range of a map of 4 ranks",
        ),
        (
            Box::new(CompactError::Map(MapError::TooManyRanks { limit: 8 })),
            "the map has more than 8 ranks; split the communicator",
        ),
        (
            Box::new(CompactError::Unfit {
                representation: Representation::Gaps,
                size: 4,
                why: "not ascending",
            }),
            "gaps cannot hold this map of 4 ranks: not ascending; ask for another or for a strategy",
        ),
        (
            Box::new(Refused::Magic),
            "these bytes are no map image: they do not begin with RWMP; check what was loaded",
        ),
        (
            Box::new(Refused::Version { found: 9 }),
            "the map image has version 9, this library reads 1; write it again",
        ),
        (
            Box::new(Refused::Length { found: 3, said: 4 }),
            "the map image has 3 bytes and says 4; it was cut or something follows it",
        ),
        (
            Box::new(Refused::Checksum),
            "the map image is damaged: its checksum does not fit; load another copy",
        ),
        (
            Box::new(Refused::Representation { found: 99 }),
            "the map image holds representation 99, which this build does not have",
        ),
        (
            Box::new(Refused::Content("no ranks")),
            "the map image is whole but wrong: no ranks; it was not written by this library",
        ),
        (
            Box::new(UnknownStrategy(text("fast"))),
            "\"fast\" is no strategy for rank maps; set RANKWAY_MAP_STRATEGY to auto, table, time, \
             space, hybrid or hybrid:ALPHA, ALPHA from 0 to 1",
        ),
        (
            Box::new(GroupError::Rank { index: 1, rank: 4, size: 4 }),
            "ranks[1] is 4, but the group has 4 ranks; ranks count from 0",
        ),
        (
            Box::new(GroupError::Duplicate { index: 2, rank: 3, before: 0 }),
            "ranks[2] is rank 3 again, like ranks[0]; name each rank once",
        ),
        (
            Box::new(GroupError::Stride { index: 1 }),
            "ranges[1] has stride 0; give 1 to a range of one rank",
        ),
        (
            Box::new(GroupError::Direction { index: 1, first: 0, last: 3, stride: -1 }),
            "ranges[1] goes from 0 away from 3 by its stride -1; turn the sign of the stride",
        ),
        (
            Box::new(GroupError::RangeRank { index: 1, rank: -1, size: 4 }),
            "ranges[1] reaches rank -1, but the group has 4 ranks; ranks count from 0",
        ),
        (
            Box::new(GroupError::RangeDuplicate { index: 1, rank: 3, before: 0 }),
            "ranges[1] reaches rank 3 again, like ranges[0]; name each rank once",
        ),
        (
            Box::new(GroupError::Member { rank: 2, process: Process::new(0, 3), before: 1 }),
            "rank 2 is process 0:3 again, like rank 1; members of a group differ",
        ),
        (
            Box::new(GroupError::Results { ranks: 3, out: 2 }),
            "3 ranks do not translate into 2 results; give as many results as ranks",
        ),
        (
            Box::new(GroupError::Map(MapError::TooManyRanks { limit: 8 })),
            "the map has more than 8 ranks; split the communicator",
        ),
    ];
    for (error, says) in all {
        assert_eq!(error.to_string(), says, "{error:?}");
    }
}

/// Those that another error is the cause of, and that one.
#[test]
fn an_error_below_is_the_source() {
    let all: Vec<(Box<dyn Error>, &str)> = vec![
        (Box::new(BootError::Os { what: text("fork"), source: denied() }), "permission denied"),
        (
            Box::new(DeviceError::Boot(BootError::Os { what: text("fork"), source: denied() })),
            "permission denied",
        ),
        (Box::new(ErrorKind::Memory { what: text("mmap"), source: denied() }), "permission denied"),
        (
            Box::new(ErrorKind::Device(DeviceError::Boot(BootError::Os {
                what: text("fork"),
                source: denied(),
            }))),
            "permission denied",
        ),
        (
            Box::new(WindowError::from(ErrorKind::Memory { what: text("mmap"), source: denied() })),
            "permission denied",
        ),
        (
            Box::new(MsgError::Device(DeviceError::Boot(BootError::Os {
                what: text("fork"),
                source: denied(),
            }))),
            "permission denied",
        ),
    ];
    for (error, source) in all {
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some(source), "{error:?}");
    }
    assert!(MsgError::Device(DeviceError::Nested).source().is_none());
}
