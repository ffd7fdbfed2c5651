//! Limits of the machine and of the providers: queues, locked memory, shared
//! memory, lengths past 32 bits.

use crate::ensure;
use crate::harness::{Result, content, text};
use crate::refusals::refuses;
use crate::rma::{self, ALLOCATED, CREATED, Opens, make, open, own, pattern, same, word};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Communicator, ErrorKind, Window};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Thousands of tracked operations under way, more than any queue holds, both
/// ways, while the peer does not look for some time: all are done in the end.
pub fn full_queues<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MANY: usize = 3000;
    const LEN: usize = 513;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, to) = (world.rank(), 1 - world.rank());
    let w = make::<CREATED, N>(&world, MANY * LEN, LEN).map_err(text)?;
    let out: Vec<u8> = (0..MANY as u32).flat_map(|i| pattern(me + i * 7, LEN)).collect();
    let mut back = vec![0; MANY * LEN];
    w.fence().map_err(text)?;
    if me == 1 {
        std::thread::sleep(Duration::from_millis(400));
    }
    for i in 0..MANY {
        // SAFETY: `out` outlives the flush.
        unsafe { w.put_nb(out[i * LEN..].as_ptr(), LEN, to, i) }.map_err(text)?;
    }
    w.flush(to).map_err(text)?;
    for i in 0..MANY {
        // SAFETY: `back` outlives the flush, and is not looked at before.
        unsafe { w.get_nb(back[i * LEN..].as_mut_ptr(), LEN, to, i) }.map_err(text)?;
    }
    w.flush(to).map_err(text)?;
    same("got back", &back, &out)?;
    w.fence().map_err(text)?;
    let theirs: Vec<u8> = (0..MANY as u32).flat_map(|i| pattern(to + i * 7, LEN)).collect();
    same("put through full queues", &own(&w)?, &theirs)
}

/// A window of more than 4 GiB at each end, of addresses alone: the null
/// provider moves nothing. Lengths and displacements past 32 bits reach it
/// whole.
pub fn past_four_gib(boot: Arc<dyn Boot>) -> Result {
    const BYTES: usize = (4 << 30) + 4096;
    let context = open(boot)?;
    let world = Communicator::world(&context);
    // SAFETY: a mapping of our own, which nobody touches; it stays.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0)
    };
    ensure!(start != libc::MAP_FAILED, "no addresses: {}", std::io::Error::last_os_error());
    let start = start.cast::<u8>();
    // SAFETY: mapped for good.
    let w = unsafe { Window::create(&world, start, BYTES, 1) }.map_err(text)?;
    let to = 1 - world.rank();
    w.fence().map_err(text)?;
    let long = (4 << 30) + 1;
    // SAFETY: the provider reads and writes nothing.
    unsafe {
        w.put_nb(start, long, to, 4000).map_err(text)?;
        w.get_nb(start, long, to, 4000).map_err(text)?;
        w.put_nb(start, 1, to, BYTES - 1).map_err(text)?;
        for wrong in [w.put_nb(start, long, to, 4096), w.put_nb(start, 1, to, BYTES)] {
            let kind = wrong.err().ok_or("past the end")?;
            ensure!(matches!(kind.kind(), ErrorKind::OutOfBounds { .. }), "{kind}");
        }
    }
    w.flush(to).map_err(text)?;
    w.fence().map_err(text)
}

/// 4 GiB and a byte each of a put and a get, one byte, and what a flush reads.
pub fn told_four_gib(output: &Output) -> Result {
    content(output)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let bytes = |line: &str| line.strip_suffix(" bytes")?.rsplit(' ').next()?.parse::<u64>().ok();
    let whole = (8 << 30) + 3..=(8 << 30) + 67;
    let told = said.lines().filter_map(bytes).filter(|n| whole.contains(n)).count();
    ensure!(told == 2, "not 8 GiB and 3 bytes at each of two ranks: {said}");
    Ok(())
}

/// What is registered does not fit the limit: said, with the limit.
pub fn locked_out(boot: Arc<dyn Boot>) -> Result {
    refuses(boot, &["RLIMIT_MEMLOCK", "131072 bytes", "ulimit -l"])
}

/// A job under a limit for locked memory that holds for root too.
pub const LOCKED_OUT: [&str; 5] =
    ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=131072"];

/// A job whose files, memory files too, may have a MiB.
pub const SHORT_FILES: [&str; 2] = ["prlimit", "--fsize=1048576"];

/// One with fewer descriptors than a worker of UCX takes.
pub const FEW_DESCRIPTORS: [&str; 2] = ["prlimit", "--nofile=20"];

/// One whose files may have no byte.
pub const NO_FILES: [&str; 2] = ["prlimit", "--fsize=0"];

/// Windows that no file may be as long as are of private memory, and shared ones refused,
/// where the signal of a file too long would end the process.
pub fn short_files(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    for bytes in [4096, 4 << 20] {
        let mut w = Window::allocate(&world, bytes, 8).map_err(text)?;
        rma::all_to_all(&w)?;
        w.free().map_err(text)?;
    }
    let why = Window::shared(&world, 4 << 20, 8).err().ok_or("it was made")?;
    ensure!(matches!(why.kind(), ErrorKind::MemberMemory { .. }), "{why}");
    let w = Window::shared(&world, 4096, 8).map_err(text)?;
    rma::all_to_all(&w)
}

/// More ranks on the node than shared memory takes: those past the limit are
/// reached over the network, both ways.
pub fn crowd(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let last = n - 1;
    // One kind is enough for hundreds of ranks on a few cores.
    for kind in [CREATED, ALLOCATED].into_iter().take(if n < 100 { 2 } else { 1 }) {
        let make = if kind == CREATED { make::<CREATED, Ofi> } else { make::<ALLOCATED, Ofi> };
        let w = make(&world, 64, 8).map_err(text)?;
        w.fence().map_err(text)?;
        let pairs = [(0, last), (last, 0), (0, 1), (1, 0), (last - 1, last), (last, last - 1)];
        for (i, (from, to)) in (0..).zip(pairs) {
            if me == from {
                w.put(&word(from, to, i), to, i as usize).map_err(text)?;
                let target = w.raw_target(to).map_err(text)?;
                let transport = target.map(|t| t.transport);
                let past = from == last || to == last;
                let want = if past { Transport::Network } else { Transport::Local };
                let want = (kind == CREATED).then_some(want);
                ensure!(transport == want, "{from} to {to}: {transport:?}");
            }
        }
        w.fence().map_err(text)?;
        for (i, (from, to)) in (0..).zip(pairs).filter(|(_, (_, to))| *to == me) {
            same("in a crowd", &own(&w)?[i as usize * 8..][..8], &word(from, to, i))?;
        }
        w.fence().map_err(text)?;
    }
    Ok(())
}

/// The same with shared memory alone: said clearly; mapped windows do.
pub fn crowd_without_network(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, _>(&world, 64, 8).map_err(text)?;
    w.fence().map_err(text)?;
    if world.rank() == 0 {
        let why = w.put(&[1; 8], 2, 0).err().ok_or("the put went well")?;
        ensure!(why.peer() == Some(2) && why.to_string().contains("RANKWAY_PROVIDER"), "{why}");
    }
    w.fence().map_err(text)?;
    let mapped = make::<ALLOCATED, _>(&world, 3 * 3 * 8, 8).map_err(text)?;
    rma::all_to_all(&mapped)
}

/// Puts, long ones and gets through a provider that has no space for a second:
/// they wait, and none is lost or made twice.
pub fn no_space(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, Ofi>(&world, 1 << 16, 8).map_err(text)?;
    w.fence().map_err(text)?;
    let start = Instant::now();
    for i in 0..10 {
        w.put(&word(0, 1, i), 1, i as usize).map_err(text)?;
    }
    ensure!(start.elapsed() >= Duration::from_millis(900), "the provider was not busy");
    w.put(&pattern(3, 20_000), 1, 16).map_err(text)?;
    w.get(&mut [0; 64], 1, 0).map_err(text)?;
    w.fence().map_err(text)
}

/// Ten short puts and a long one, told by the provider itself.
pub fn none_lost(output: &Output) -> Result {
    content(output)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts = said.lines().filter(|line| line.contains(": 11 writes, ")).count();
    ensure!(counts == 2, "not 11 writes in each of two ranks: {said}");
    Ok(())
}

/// A job in a mount namespace of its own, such as one whose /dev/shm is small, or why
/// there can be none.
pub fn in_own_mounts(mount: &'static str) -> std::result::Result<Vec<&'static str>, String> {
    let words = ["unshare", "--mount", "sh", "-c", mount, "sh"];
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
    match tried {
        Ok(output) if output.status.success() => Ok(words.to_vec()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

pub const SMALL_SHM: &str = "mount -t tmpfs -o size=8m tmpfs /dev/shm && exec \"$@\"";
pub const READ_ONLY_SHM: &str = "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$@\"";
/// Files of it are no libraries.
pub const WITHOUT_LIBFABRIC: &str = "PATH=$PATH:/sbin:/usr/sbin; \
    for file in $(ldconfig -p | sed -n 's/.*libfabric.* => //p'); do mount --bind /dev/null $file; done; \
    exec \"$@\"";
/// Has space for one endpoint.
pub const SHM_FOR_ONE: &str = "mount -t tmpfs -o size=20m tmpfs /dev/shm && exec \"$@\"";

/// Where cargo put the null provider, when it built it with this test.
pub fn null_provider() -> Option<String> {
    let me = std::env::current_exe().ok()?;
    let directory = me.parent()?;
    let there = directory.join("librankwaynull_fi.so").exists();
    there.then(|| directory.display().to_string())
}
