//! The provider as libfabric sees it: loaded from `FI_PROVIDER_PATH` by the
//! libfabric of this machine, and by the one `RANKWAY_NEWER_LIBFABRIC` names.
//!
//! libfabric reads its environment once in a process, so each test runs this
//! program again as its client, with the environment it needs. The client calls
//! libfabric through the very `ffi` module that the netmod uses.

#![allow(clippy::unwrap_used, reason = "a test")]

// The client is written against libfabric's own names.
#[path = "../../../src/netmod/ofi/bindings.rs"]
#[rustfmt::skip]
mod bindings;
#[path = "../../../src/netmod/ofi/calls.rs"]
mod calls;
#[path = "../../../src/dl.rs"]
mod dl;
#[path = "../../../src/netmod/ofi/ffi.rs"]
mod ffi;
#[allow(dead_code, reason = "of it only the text of errors is asked for")]
#[path = "../../../src/ulimit.rs"]
mod ulimit;

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bindings::*;
use ffi::*;
use proptest::prelude::*;

/// Where cargo put the shared library it built for this test.
fn providers() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    assert!(
        directory.join("librankwaynull_fi.so").exists(),
        "the provider is not in {}",
        directory.display()
    );
    directory
}

/// The newer libfabric, where there is one; the reason is printed where not.
fn newer() -> Option<PathBuf> {
    match std::env::var_os("RANKWAY_NEWER_LIBFABRIC") {
        Some(path) if !path.is_empty() => Some(path.into()),
        _ => {
            eprintln!(
                "skipped: RANKWAY_NEWER_LIBFABRIC is not set (ci/machine/newer-fabric.sh gets one)"
            );
            None
        }
    }
}

/// Returns true if libfabric is on this machine; the reason is printed where
/// not.
fn installed() -> bool {
    match Library::open() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Runs one of the client tests below in a process of its own.
fn client(name: &str, libfabric: Option<&Path>, stats: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("FI_PROVIDER_PATH", providers())
        .env("FI_PROVIDER", "rankway_null");
    if let Some(path) = libfabric {
        command.env(LIBRARY_ENV, path);
    }
    if stats {
        command.env("RANKWAY_NULL_STATS", "1");
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{name}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

fn check_all(libfabric: Option<&Path>) {
    for name in [
        "client_hints",
        "client_rules",
        "client_completions",
        "client_threads",
        "client_queue_is_a_bounded_queue",
    ] {
        client(name, libfabric, false);
    }
    let output = client("client_counts_a_million", libfabric, true);
    let lines = String::from_utf8_lossy(&output.stderr);
    assert!(
        lines.contains(
            "1000000 writes, 0 reads, 0 sends, 0 atomics, 0 receives posted, 8000000 bytes"
        ),
        "{lines}"
    );
}

#[test]
fn the_installed_libfabric() {
    if installed() {
        check_all(None);
    }
}

#[test]
fn the_newer_libfabric() {
    if let Some(path) = newer() {
        check_all(Some(&path));
    }
}

/// Nonsense in its variables: it names them, and is not there.
#[test]
fn nonsense_in_the_environment_is_named() {
    if !installed() {
        return;
    }
    for (name, value) in [("RANKWAY_NULL_BUSY", "soon"), ("RANKWAY_NULL_STATS", "maybe")] {
        let client = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "client_hints", "--ignored", "--nocapture"]);
            command.env("FI_PROVIDER_PATH", providers()).env("FI_PROVIDER", "rankway_null");
            command.env(name, value);
            command
        };
        let output = client().output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name}={value}: {said}");
        let named = format!("{name} is '{value}'; it takes");
        assert_eq!(said.matches(&named).count(), 1, "{said}");
        // Where nobody reads what it says it ends no program either: the same failure.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unheard = client().stderr(writer).output().unwrap();
        assert_eq!(unheard.status, output.status, "{name}={value}: {unheard:?}");
    }
}

/// A program that knows nothing of this provider.
#[test]
fn fi_info_lists_it() {
    let run = |name: &str| {
        Command::new("fi_info").args(["-p", name]).env("FI_PROVIDER_PATH", providers()).output()
    };
    let Ok(output) = run("rankway_null") else {
        return eprintln!("skipped: there is no fi_info (apt install libfabric-bin)");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("provider: rankway_null"), "{text}");
    assert!(text.contains("FI_EP_RDM"), "{text}");
    assert_eq!(text.matches("provider:").count(), 1, "no provider is laid over it: {text}");
}

// The client.

/// Hints for an endpoint of the null provider.
struct Hints(*mut fi_info);

impl Hints {
    fn new() -> Self {
        let hints = Library::open().unwrap().fi_allocinfo();
        assert!(!hints.is_null());
        // SAFETY: the hints are new, and whole.
        unsafe {
            (*(*hints).ep_attr).type_ = FI_EP_RDM;
            assert!(set_string(&raw mut (*(*hints).fabric_attr).prov_name, Some("rankway_null")));
        }
        Self(hints)
    }

    fn threading(self, threading: fi_threading) -> Self {
        // SAFETY: the hints are whole.
        unsafe { (*(*self.0).domain_attr).threading = threading };
        self
    }

    /// What libfabric finds: the answer, or its error.
    fn ask(&self) -> Result<*mut fi_info, c_int> {
        let mut info = null_mut();
        // SAFETY: the hints are whole, and the answer is checked first.
        let ret =
            unsafe { Library::open().unwrap().fi_getinfo(null(), null(), 0, self.0, &mut info) };
        if ret == 0 { Ok(info) } else { Err(ret) }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        // SAFETY: the hints are this object's own.
        unsafe { Library::open().unwrap().fi_freeinfo(self.0) };
    }
}

/// An endpoint with all it needs. `open` leaves it unbound.
struct Rig {
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    cq: *mut fid_cq,
    cntr: *mut fid_cntr,
    ep: *mut fid_ep,
}

// SAFETY: the provider's objects may be used from any thread, at the level that
// the rig was opened with.
unsafe impl Sync for Rig {}

impl Rig {
    fn open(threading: fi_threading, cq_size: usize, format: fi_cq_format) -> Self {
        let info = Hints::new().threading(threading).ask().unwrap();
        // SAFETY: each call gets what the one before opened.
        unsafe {
            let mut fabric = null_mut();
            let mut domain = null_mut();
            let (mut av, mut cq, mut cntr, mut ep) =
                (null_mut(), null_mut(), null_mut(), null_mut());
            let library = Library::open().unwrap();
            assert_eq!(library.fi_fabric((*info).fabric_attr, &mut fabric, null_mut()), 0);
            assert_eq!(fi_domain(fabric, info, &mut domain, null_mut()), 0);
            let mut attr: fi_av_attr = core::mem::zeroed();
            attr.type_ = FI_AV_TABLE;
            assert_eq!(fi_av_open(domain, &mut attr, &mut av, null_mut()), 0);
            let mut attr: fi_cq_attr = core::mem::zeroed();
            attr.size = cq_size;
            attr.format = format;
            assert_eq!(fi_cq_open(domain, &mut attr, &mut cq, null_mut()), 0);
            assert_eq!(fi_cntr_open(domain, null_mut(), &mut cntr, null_mut()), 0);
            assert_eq!(fi_endpoint(domain, info, &mut ep, null_mut()), 0);
            Self { info, fabric, domain, av, cq, cntr, ep }
        }
    }

    /// Binds everything, enables, and makes `peers` known.
    fn ready(self, cq_flags: u64, peers: usize) -> Self {
        // SAFETY: all objects are open.
        unsafe {
            assert_eq!(fi_ep_bind(self.ep, &raw mut (*self.av).fid, 0), 0);
            assert_eq!(fi_ep_bind(self.ep, &raw mut (*self.cq).fid, cq_flags), 0);
            let all = FI_WRITE | FI_READ | FI_SEND;
            assert_eq!(fi_ep_bind(self.ep, &raw mut (*self.cntr).fid, all), 0);
            assert_eq!(fi_enable(self.ep), 0);
        }
        self.know(peers);
        self
    }

    fn know(&self, peers: usize) {
        let mut name = [0_u8; 64];
        let mut length = name.len();
        // SAFETY: the buffers are as long as said.
        unsafe {
            assert_eq!(fi_getname(self.ep, name.as_mut_ptr().cast(), &mut length), 0);
            let names = name[..length].repeat(peers);
            let mut entries = vec![FI_ADDR_NOTAVAIL; peers];
            let inserted = fi_av_insert(
                self.av,
                names.as_ptr().cast(),
                peers,
                entries.as_mut_ptr(),
                0,
                null_mut(),
            );
            assert_eq!(inserted, c_int::try_from(peers).unwrap());
            assert!(entries.iter().copied().eq(0..peers as u64), "a dense index from 0");
        }
    }

    fn write(&self, dest: fi_addr_t, context: usize) -> isize {
        let value = 7_u64;
        // SAFETY: the endpoint is open and the buffer outlives the call, after
        // which the provider has no use for it.
        unsafe {
            let buf = (&raw const value).cast();
            fi_write(self.ep, buf, 8, null_mut(), dest, 0, 0, context as *mut c_void)
        }
    }

    fn inject(&self, dest: fi_addr_t, len: usize) -> isize {
        static BYTES: [u8; 8192] = [0; 8192];
        // SAFETY: the endpoint is open and the buffer is long enough.
        unsafe { fi_inject_write(self.ep, BYTES.as_ptr().cast(), len, dest, 0, 0) }
    }

    fn counted(&self) -> u64 {
        // SAFETY: the counter is open.
        unsafe { fi_cntr_read(self.cntr) }
    }

    fn completions<T: Copy>(&self, entry: T, count: usize) -> Result<Vec<T>, isize> {
        let mut entries = vec![entry; count];
        // SAFETY: the queue is open and T is its format.
        let taken = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), count) };
        entries.truncate(usize::try_from(taken).map_err(|_| taken)?);
        Ok(entries)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: each object is closed once, users before what they use.
        unsafe {
            for fid in [
                &raw mut (*self.ep).fid,
                &raw mut (*self.cntr).fid,
                &raw mut (*self.cq).fid,
                &raw mut (*self.av).fid,
                &raw mut (*self.domain).fid,
                &raw mut (*self.fabric).fid,
            ] {
                let closed = fi_close(fid);
                assert!(closed == 0 || std::thread::panicking(), "{closed}");
            }
            Library::open().unwrap().fi_freeinfo(self.info);
        }
    }
}

const EAGAIN: isize = -(FI_EAGAIN as isize);
const EINVAL: isize = -(FI_EINVAL as isize);
const NO_ENTRY: fi_cq_tagged_entry = fi_cq_tagged_entry {
    op_context: null_mut(),
    flags: 0,
    len: 0,
    buf: null_mut(),
    data: 0,
    tag: 0,
};

#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_hints() {
    // SAFETY: hints and answers are whole and freed once.
    unsafe {
        let hints = Hints::new();
        let info = hints.ask().unwrap();
        let name = get_string((*(*info).fabric_attr).prov_name).unwrap();
        assert_eq!(name, "rankway_null");
        assert!((*info).next.is_null());
        assert_eq!((*(*info).domain_attr).threading, FI_THREAD_SAFE);
        assert_eq!((*(*info).domain_attr).mr_mode, 0);
        let inject_size = (*(*info).tx_attr).inject_size;
        Library::open().unwrap().fi_freeinfo(info);

        let refused = |change: &dyn Fn(&mut fi_info)| {
            let hints = Hints::new();
            change(&mut *hints.0);
            assert_eq!(hints.ask().err(), Some(-FI_ENODATA));
        };
        refused(&|hints| (*hints.ep_attr).type_ = FI_EP_MSG);
        refused(&|hints| (*hints.ep_attr).type_ = FI_EP_DGRAM);
        refused(&|hints| hints.caps = FI_RMA | FI_RMA_EVENT);
        refused(&|hints| hints.addr_format = FI_SOCKADDR_IN);
        refused(&|hints| (*hints.tx_attr).inject_size = inject_size + 1);
        refused(&|hints| (*hints.ep_attr).tx_ctx_cnt = 2);

        let hints = Hints::new();
        (*hints.0).caps = FI_RMA;
        let info = hints.ask().unwrap();
        let writes = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
        assert_eq!((*info).caps & writes, writes);
        assert_eq!((*info).caps & FI_TAGGED, 0);
        Library::open().unwrap().fi_freeinfo(info);
    }
}

#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_rules() {
    let rig = Rig::open(FI_THREAD_DOMAIN, 8, FI_CQ_FORMAT_CONTEXT);
    // SAFETY: all objects are open; regions are closed once.
    unsafe {
        // Order of set-up.
        assert_eq!(rig.inject(0, 8), -(FI_EOPBADSTATE as isize));
        assert_eq!(fi_enable(rig.ep), -(FI_ENOAV as c_int));
        assert_eq!(fi_ep_bind(rig.ep, &raw mut (*rig.av).fid, 0), 0);
        assert_eq!(fi_enable(rig.ep), -(FI_ENOCQ as c_int));
        assert_eq!(fi_ep_bind(rig.ep, &raw mut (*rig.av).fid, 0), -FI_EINVAL);
        let flags = FI_TRANSMIT | FI_RECV;
        assert_eq!(fi_ep_bind(rig.ep, &raw mut (*rig.cq).fid, flags), 0);
        assert_eq!(fi_ep_bind(rig.ep, &raw mut (*rig.cq).fid, FI_TRANSMIT), -FI_EINVAL);
        assert_eq!(fi_ep_bind(rig.ep, &raw mut (*rig.cntr).fid, FI_WRITE), 0);
        assert_eq!(rig.inject(0, 8), -(FI_EOPBADSTATE as isize));
        assert_eq!(fi_enable(rig.ep), 0);
        assert!(has_rma(rig.ep));

        // Addresses: only what was inserted.
        assert_eq!(rig.inject(0, 8), EINVAL);
        rig.know(3);
        assert_eq!(rig.inject(2, 8), 0);
        for wrong in [3, 4, 1 << 40, FI_ADDR_UNSPEC] {
            assert_eq!(rig.inject(wrong, 8), EINVAL, "{wrong}");
            assert_eq!(rig.write(wrong, 0), EINVAL, "{wrong}");
        }
        let mut name = [0_u8; 3];
        let mut length = name.len();
        let short = fi_getname(rig.ep, name.as_mut_ptr().cast(), &mut length);
        assert_eq!((short, length), (-(FI_ETOOSMALL as c_int), 8));
        let mut raw = [0_u8; 8];
        let mut length = raw.len();
        assert_eq!(fi_av_lookup(rig.av, 2, raw.as_mut_ptr().cast(), &mut length), 0);
        assert_eq!(fi_av_lookup(rig.av, 3, raw.as_mut_ptr().cast(), &mut length), -FI_EINVAL);
        assert_eq!(fi_av_remove(rig.av, [1_u64].as_mut_ptr(), 1, 0), 0);
        assert_eq!(fi_av_remove(rig.av, [1_u64].as_mut_ptr(), 1, 0), -FI_EINVAL);
        assert_eq!(fi_av_lookup(rig.av, 1, raw.as_mut_ptr().cast(), &mut length), -FI_EINVAL);

        // Lengths: what was refused is not counted.
        let limit = (*(*rig.info).tx_attr).inject_size;
        assert_eq!(rig.counted(), 1);
        assert_eq!(rig.inject(0, limit), 0);
        assert_eq!(rig.inject(0, limit + 1), EINVAL);
        assert_eq!(rig.inject(0, 0), 0);
        assert_eq!(rig.counted(), 3);

        // Keys: as asked, once.
        let buffer = [0_u8; 16];
        let register = |key: u64, mr: &mut *mut fid_mr| {
            let access = FI_REMOTE_WRITE;
            let buf = buffer.as_ptr().cast();
            fi_mr_reg(rig.domain, buf, 16, access, 0, key, 0, mr, null_mut())
        };
        let (mut first, mut second) = (null_mut(), null_mut());
        assert_eq!(register(77, &mut first), 0);
        assert_eq!(fi_mr_key(first), 77);
        assert!(fi_mr_desc(first).is_null());
        assert_eq!(fi_mr_enable(first), 0);
        assert_eq!(register(77, &mut second), -(FI_ENOKEY as c_int));
        assert_eq!(fi_close(&raw mut (*first).fid), 0);
        assert_eq!(register(77, &mut second), 0);

        // What is in use is not closed.
        assert_eq!(fi_close(&raw mut (*rig.fabric).fid), -FI_EBUSY);
        assert_eq!(fi_close(&raw mut (*rig.domain).fid), -FI_EBUSY);
        assert_eq!(fi_close(&raw mut (*rig.av).fid), -FI_EBUSY);
        assert_eq!(fi_close(&raw mut (*rig.cq).fid), -FI_EBUSY);
        assert_eq!(fi_close(&raw mut (*rig.cntr).fid), -FI_EBUSY);
        assert_eq!(fi_close(&raw mut (*second).fid), 0);

        // A counter that is not reached is waited for, so long and no longer.
        assert_eq!(fi_cntr_wait(rig.cntr, 3, -1), 0);
        assert_eq!(fi_cntr_wait(rig.cntr, 4, 5), -FI_ETIMEDOUT);
    }
}

#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_completions() {
    let flags = FI_TRANSMIT | FI_RECV;
    let rig = Rig::open(FI_THREAD_DOMAIN, 8, FI_CQ_FORMAT_TAGGED).ready(flags, 1);
    let one = |context: usize, flags: u64, len: usize, tag: u64| {
        let entries = rig.completions(NO_ENTRY, 8).unwrap();
        assert_eq!(entries.len(), 1);
        let entry = entries[0];
        assert_eq!(
            (entry.op_context as usize, entry.flags, entry.len, entry.tag),
            (context, flags, len, tag)
        );
    };
    // SAFETY: all objects are open, buffers and messages are whole.
    unsafe {
        let (ep, mut bytes) = (rig.ep, [0_u8; 64]);
        let buf: *mut c_void = bytes.as_mut_ptr().cast();
        let none = null_mut();
        assert_eq!(rig.completions(NO_ENTRY, 8).err(), Some(EAGAIN));
        assert_eq!(rig.write(0, 11), 0);
        one(11, FI_RMA | FI_WRITE, 8, 0);
        assert_eq!(fi_read(ep, buf, 64, none, 0, 0, 0, 12 as *mut c_void), 0);
        one(12, FI_RMA | FI_READ, 64, 0);
        assert_eq!(fi_send(ep, buf, 3, none, 0, 13 as *mut c_void), 0);
        one(13, FI_MSG | FI_SEND, 3, 0);
        assert_eq!(fi_tsend(ep, buf, 4, none, 0, 99, 14 as *mut c_void), 0);
        one(14, FI_TAGGED | FI_SEND, 4, 99);
        let sum = |count: usize| {
            fi_atomic(ep, buf, count, none, 0, 0, 0, FI_UINT64, FI_SUM, 15 as *mut c_void)
        };
        assert_eq!(sum(2), 0);
        one(15, FI_ATOMIC | FI_WRITE, 16, 0);
        assert_eq!(sum(usize::MAX / 4), EINVAL);
        let swap = FI_CSWAP;
        let plain = fi_atomic(ep, buf, 1, none, 0, 0, 0, FI_UINT64, swap, none);
        assert_eq!(plain, -(FI_EOPNOTSUPP as isize));
        let context = 16 as *mut c_void;
        let compared = fi_compare_atomic(
            ep, buf, 1, none, buf, none, buf, none, 0, 0, 0, FI_UINT32, swap, context,
        );
        assert_eq!(compared, 0);
        one(16, FI_ATOMIC | FI_READ, 4, 0);

        // Vectors: both sides of a message are as long.
        let iov = [iovec { iov_base: buf, iov_len: 5 }, iovec { iov_base: buf, iov_len: 6 }];
        let rma = fi_rma_iov { addr: 0, len: 11, key: 0 };
        let mut msg: fi_msg_rma = core::mem::zeroed();
        msg.msg_iov = iov.as_ptr();
        msg.iov_count = 2;
        msg.rma_iov = &raw const rma;
        msg.rma_iov_count = 1;
        msg.context = 17 as *mut c_void;
        assert_eq!(fi_writemsg(ep, &msg, FI_INJECT), 0);
        one(17, FI_RMA | FI_WRITE, 11, 0);
        assert_eq!(fi_readmsg(ep, &msg, 0), 0);
        one(17, FI_RMA | FI_READ, 11, 0);
        msg.iov_count = 1;
        assert_eq!(fi_writemsg(ep, &msg, 0), EINVAL);
        assert_eq!(rig.counted(), 8);

        // Injected operations queue nothing.
        assert_eq!(rig.inject(0, 8), 0);
        assert_eq!(fi_inject(ep, buf, 8, 0), 0);
        assert_eq!(fi_tinject(ep, buf, 8, 0, 5), 0);
        assert_eq!(rig.completions(NO_ENTRY, 8).err(), Some(EAGAIN));
        assert_eq!(rig.counted(), 11);

        // A receive ends only by being cancelled.
        assert_eq!(fi_recv(ep, buf, 8, none, FI_ADDR_UNSPEC, 21 as *mut c_void), 0);
        assert_eq!(fi_trecv(ep, buf, 8, none, 0, 5, 0, 22 as *mut c_void), 0);
        assert_eq!(rig.completions(NO_ENTRY, 8).err(), Some(EAGAIN));
        assert_eq!(fi_cancel(ep, 22 as *mut c_void), 0);
        assert_eq!(fi_cancel(ep, 22 as *mut c_void), -(FI_ENOENT as isize));
        assert_eq!(rig.completions(NO_ENTRY, 8).err(), Some(-(FI_EAVAIL as isize)));
        let mut error: fi_cq_err_entry = core::mem::zeroed();
        assert_eq!(fi_cq_readerr(rig.cq, &mut error, 0), 1);
        assert_eq!((error.op_context as usize, error.err), (22, FI_ECANCELED));
        assert!(fi_cq_strerror(rig.cq, &error).contains("cancelled"));
        assert_eq!(fi_cq_readerr(rig.cq, &mut error, 0), EAGAIN);
    }
    drop(rig);

    // Selective: only what asks for a completion gets one.
    let selective = FI_TRANSMIT | FI_SELECTIVE_COMPLETION;
    let rig = Rig::open(FI_THREAD_DOMAIN, 8, FI_CQ_FORMAT_TAGGED).ready(selective, 1);
    assert_eq!(rig.write(0, 1), 0);
    assert_eq!(rig.completions(NO_ENTRY, 8).err(), Some(EAGAIN));
    // SAFETY: an empty message is whole.
    unsafe {
        let mut msg: fi_msg_rma = core::mem::zeroed();
        msg.context = 2 as *mut c_void;
        assert_eq!(fi_writemsg(rig.ep, &msg, 0), 0);
        assert_eq!(fi_writemsg(rig.ep, &msg, FI_COMPLETION), 0);
    }
    assert_eq!(rig.completions(NO_ENTRY, 8).unwrap().len(), 1);
    assert_eq!(rig.counted(), 3);
}

#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_counts_a_million() {
    let rig = Rig::open(FI_THREAD_DOMAIN, 8, FI_CQ_FORMAT_CONTEXT).ready(FI_TRANSMIT, 5);
    for index in 0..1_000_000 {
        assert_eq!(rig.inject(index % 5, 8), 0);
    }
    assert_eq!(rig.inject(5, 8), EINVAL);
    assert_eq!(rig.counted(), 1_000_000);
}

/// Four threads on one endpoint, counter and queue, at the level that allows it.
#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_threads() {
    const EACH: usize = 50_000;
    let rig = Rig::open(FI_THREAD_SAFE, 1 << 10, FI_CQ_FORMAT_CONTEXT).ready(FI_TRANSMIT, 1);
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken = 0;
                    for _ in 0..EACH {
                        assert_eq!(rig.inject(0, 8), 0);
                        while rig.write(0, 1) == EAGAIN {
                            let entry = fi_cq_entry { op_context: null_mut() };
                            taken += rig.completions(entry, 64).map_or(0, |some| some.len());
                        }
                    }
                    taken
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut taken = taken;
    while let Ok(some) = rig.completions(fi_cq_entry { op_context: null_mut() }, 64) {
        assert!(some.iter().all(|entry| entry.op_context as usize == 1));
        taken += some.len();
    }
    assert_eq!(taken, 4 * EACH);
    assert_eq!(rig.counted(), 8 * EACH as u64);
}

/// Writes and reads in any order, against a `VecDeque`.
#[test]
#[ignore = "run by the tests above with the provider's path set"]
fn client_queue_is_a_bounded_queue() {
    let formats = [
        (FI_CQ_FORMAT_CONTEXT, 1),
        (FI_CQ_FORMAT_MSG, 3),
        (FI_CQ_FORMAT_DATA, 5),
        (FI_CQ_FORMAT_TAGGED, 6),
    ];
    let steps =
        proptest::collection::vec(prop_oneof![Just(None), (0_usize..12).prop_map(Some)], 0..200);
    let strategy =
        (0..formats.len(), prop_oneof![Just(FI_THREAD_DOMAIN), Just(FI_THREAD_SAFE)], steps);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((format, threading, steps) in strategy)| {
        let (format, words) = formats[format];
        let rig = Rig::open(threading, 8, format).ready(FI_TRANSMIT, 1);
        let mut oracle = VecDeque::new();
        let mut next = 1_usize;
        for step in steps {
            match step {
                None => {
                    let expected = if oracle.len() == 8 { EAGAIN } else { 0 };
                    prop_assert_eq!(rig.write(0, next), expected);
                    if expected == 0 {
                        oracle.push_back(next);
                        next += 1;
                    }
                }
                Some(count) => {
                    let mut words_read = vec![u64::MAX; count * words + 1];
                    // SAFETY: the buffer has space for `count` entries and a word.
                    let taken = unsafe { fi_cq_read(rig.cq, words_read.as_mut_ptr().cast(), count) };
                    let expected = count.min(oracle.len());
                    if expected == 0 {
                        prop_assert_eq!(taken, EAGAIN);
                    } else {
                        prop_assert_eq!(taken, expected as isize);
                    }
                    for entry in words_read.chunks_exact(words).take(expected) {
                        prop_assert_eq!(Some(entry[0] as usize), oracle.pop_front());
                        if words > 1 {
                            prop_assert_eq!((entry[1], entry[2]), (FI_RMA | FI_WRITE, 8));
                        }
                    }
                    prop_assert!(words_read[expected * words..].iter().all(|word| *word == u64::MAX));
                }
            }
        }
    });
}
