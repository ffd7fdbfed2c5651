//! Bad luck: providers that are not there, garbage from peers, peers that die
//! or stop, more ranks than shared memory takes, launchers. Real
//! processes, bytes checked, nothing may hang or be left behind.

#[path = "../../harness/mod.rs"]
mod harness;
#[path = "../../rma/mod.rs"]
mod rma;

use harness::{Over, Result, Scenario, clean, content, print_pid, text};
use rankway::av::Transport;
use rankway::boot::{Boot, BootError};
use rankway::device::{self, DeviceError, Options};
use rankway::netmod::ofi::{Ofi, Request};
#[cfg(feature = "ucx")]
use rankway::netmod::ucx::Ucx;
use rankway::netmod::{NetError, Netmod, null::Null};
use rankway::rma::{Communicator, Error, ErrorKind, Window};
use rma::{ALLOCATED, CREATED, Opens, late, make, open, own, pattern, same, word};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What every rank of a scenario does.
type Body = fn(Arc<dyn Boot>) -> Result;

/// How soon a survivor must know.
const SOON: Duration = Duration::from_secs(5);

fn signal(pid: u32, number: i32) {
    // SAFETY: a process of this job, which nobody has reaped yet.
    unsafe { libc::kill(pid as i32, number) };
}

fn is_there(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid as i32, 0) == 0 }
}

/// The process id of every rank.
fn pids<N: Netmod>(world: &Communicator<N>) -> Result<Vec<u32>> {
    print_pid();
    let all = world.allgather(&std::process::id().to_le_bytes()).map_err(text)?;
    all.iter().map(|b| Ok(u32::from_le_bytes(b.as_slice().try_into().map_err(text)?))).collect()
}

/// An error that is about a peer.
fn about<T>(result: std::result::Result<T, Error>, peer: u32) -> Result {
    match result {
        Ok(_) => Err(format!("no error about rank {peer}")),
        Err(e) if e.peer() == Some(peer) && e.to_string().contains(&format!("rank {peer}")) => {
            Ok(())
        }
        Err(e) => Err(format!("not about rank {peer}: {e}")),
    }
}

/// Rank 0 puts to rank 1, which is killed meanwhile, and goes on with rank 2.
/// `LEN` bytes a put: short ones are injected, long ones tracked. Rank 1 is
/// killed while it carries them out, or, if `IDLE`, while they pile up.
fn killed_in_puts<const KIND: u8, const LEN: usize, const IDLE: bool, N: Opens>(
    boot: Arc<dyn Boot>,
) -> Result {
    const FLAG: usize = 0x8000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<KIND, N>(&world, 0x1_0000, 1).map_err(text)?;
    let pids = pids(&world)?;
    let buf = pattern(7, LEN);
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    match world.rank() {
        0 => {
            w.put(&buf, 2, 0).map_err(text)?;
            w.flush(2).map_err(text)?;
            let mut died = None;
            let error = loop {
                // SAFETY: `buf` outlives the window's epoch.
                let put = (0..64).try_for_each(|_| unsafe { w.put_nb(buf.as_ptr(), LEN, 1, 0) });
                if let Err(e) = put.and_then(|()| w.flush(1)) {
                    break e;
                }
                if !is_there(pids[1]) {
                    let since: &Instant = died.get_or_insert_with(Instant::now);
                    ensure!(
                        since.elapsed() < SOON,
                        "rank 1 has been dead for {:?}",
                        since.elapsed()
                    );
                }
            };
            ensure!(!is_there(pids[1]) || died.is_none(), "an error before the death: {error}");
            about::<()>(Err(error), 1)?;
            // Once more: refused at once, and the others are as they were.
            for round in 0..300_u32 {
                let again = w.put(&buf, 1, 0).and_then(|()| w.flush(1));
                about(again, 1)?;
                w.put(&word(0, 2, round), 2, 64 + round as usize * 8).map_err(text)?;
                w.flush(2).map_err(|e| format!("flush towards the living: {e}"))?;
            }
            let long = pattern(8, 9000);
            w.put(&long, 2, 0x4000).map_err(text)?;
            w.flush(2).map_err(text)?;
            let mut got = vec![0; 9000];
            w.get(&mut got, 2, 0x4000).map_err(text)?;
            same("got from the living", &got, &long)?;
            // The dead one's epoch ends too: well, or about it.
            if let Err(e) = w.flush_all() {
                about::<()>(Err(e), 1)?;
            }
            w.put(&word(0, 2, 77), 2, FLAG).map_err(text)?;
            w.flush(2).map_err(text)
        }
        1 => {
            let start = Instant::now();
            loop {
                if IDLE && start.elapsed() > Duration::from_millis(100) {
                    std::thread::sleep(Duration::from_millis(10));
                } else {
                    context.progress().map_err(text)?;
                }
            }
        }
        _ => {
            let start = Instant::now();
            let mut killed = false;
            let mut flag = [0; 8];
            while flag != word(0, 2, 77) {
                context.progress().map_err(text)?;
                if !killed && start.elapsed() > Duration::from_millis(200) {
                    signal(pids[1], libc::SIGKILL);
                    killed = true;
                }
                w.read_local(FLAG, &mut flag).map_err(text)?;
                std::thread::yield_now();
            }
            let all = own(&w)?;
            for round in 0..300 {
                same("after the death", &all[64 + round * 8..][..8], &word(0, 2, round as u32))?;
            }
            same("long, after the death", &all[0x4000..][..9000], &pattern(8, 9000))?;
            // Probes of rank 0's last flush are answered here.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) && is_there(pids[0]) {
                context.progress().map_err(text)?;
            }
            Ok(())
        }
    }
}

/// The same with gets, of bytes that are looked at.
fn killed_in_gets<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 9000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<KIND, N>(&world, LEN + 8, 1).map_err(text)?;
    let pids = pids(&world)?;
    w.write_local(0, &pattern(me, LEN)).map_err(text)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    let start = Instant::now();
    match me {
        0 => {
            let mut got = vec![0; LEN];
            let mut fetch = |rank: u32, len: usize| -> std::result::Result<Result, Error> {
                w.get(&mut got[..len], rank, 0)?;
                w.flush(rank)?;
                Ok(same("got", &got[..len], &pattern(rank, LEN)[..len]))
            };
            let mut died = None;
            let error = loop {
                match fetch(1, LEN).and_then(|_| fetch(1, 8)) {
                    Ok(same) => same?,
                    Err(e) => break e,
                }
                if !is_there(pids[1]) {
                    let since: &Instant = died.get_or_insert_with(Instant::now);
                    ensure!(since.elapsed() < SOON, "rank 1 has been dead for long");
                }
            };
            about::<()>(Err(error), 1)?;
            about(fetch(1, 8), 1)?;
            for i in 0..100 {
                fetch(2, if i % 2 == 0 { LEN } else { 8 }).map_err(text)??;
            }
            w.put(&word(0, 2, 77), 2, LEN).map_err(text)?;
            w.flush(2).map_err(text)
        }
        1 => loop {
            context.progress().map_err(text)?;
        },
        _ => {
            let mut killed = false;
            let mut flag = [0; 8];
            while flag != word(0, 2, 77) {
                context.progress().map_err(text)?;
                if !killed && start.elapsed() > Duration::from_millis(200) {
                    signal(pids[1], libc::SIGKILL);
                    killed = true;
                }
                w.read_local(LEN, &mut flag).map_err(text)?;
                std::thread::yield_now();
            }
            // Probes of rank 0's last flush are answered here.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) && is_there(pids[0]) {
                context.progress().map_err(text)?;
            }
            Ok(())
        }
    }
}

/// Thousands of tracked operations under way, more than any queue holds, both
/// ways, while the peer does not look for some time: all are done in the end.
fn full_queues<N: Opens>(boot: Arc<dyn Boot>) -> Result {
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

/// Rank 1 has freed its memory of a window, so rank 0's key for it opens
/// nothing: puts and gets fail by name and change nothing. (Its memory is still
/// there, and watched.)
fn stale_key<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 20_000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let mut memory = vec![0x77_u8; LEN];
    // SAFETY: the memory outlives the window, and is looked at when the window
    // is gone.
    let w = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) }.map_err(text)?;
    w.lock_all().map_err(text)?;
    let mut w = Some(w);
    if me == 0 {
        let w = w.as_ref().ok_or("no window")?;
        w.put(&[1; 8], 1, 0).map_err(text)?;
        w.flush(1).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    if me == 1 {
        w = None;
        memory.fill(0x55);
    }
    world.barrier().map_err(text)?;
    if let Some(w) = w.as_ref().filter(|_| me == 0) {
        about(w.put(&[2; 8], 1, 8).and_then(|()| w.flush(1)), 1)?;
        about(w.put(&pattern(3, 9000), 1, 16).and_then(|()| w.flush(1)), 1)?;
        about(w.get(&mut [0; 64], 1, 0), 1)?;
        // Others are as they were.
        w.put(&pattern(4, 9000), 2, 16).map_err(text)?;
        w.flush(2).map_err(text)?;
        println!("rank 0 done");
    }
    // By the set-up channel: the route between the two may be broken for good.
    world.barrier().map_err(text)?;
    if me == 1 {
        same("after wrong keys", &memory, &vec![0x55; LEN])?;
    }
    if let Some(w) = w.as_ref().filter(|_| me == 2) {
        same("beside wrong keys", &own(w)?[16..9016], &pattern(4, 9000))?;
    }
    Ok(())
}

/// Rank 1 dies, and rank 0 drops a window for it that rank 2, which has not got
/// as far, still puts to: nothing changes there, and nothing else between the
/// two suffers.
fn dropped_for_a_death<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 20_000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<ALLOCATED, N>(&world, LEN, 1).map_err(text)?;
    let mut memory = vec![0x77_u8; LEN];
    // SAFETY: the memory outlives the window, and is looked at when the window
    // is gone.
    let dropped = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) }.map_err(text)?;
    let pids = pids(&world)?;
    w.lock_all().map_err(text)?;
    dropped.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    if me == 1 {
        signal(pids[1], libc::SIGKILL);
    }
    about(world.barrier(), 1)?;
    let two = world.group().incl(&[0, 2]).map_err(text)?;
    let two = Communicator::with_id(&context, two.map().clone(), me / 2, 7);
    let dropped = (me == 2).then_some(dropped);
    if me == 0 {
        memory.fill(0x55);
    }
    two.barrier().map_err(text)?;
    if let Some(dropped) = &dropped {
        // What becomes of these is all the same.
        let _ = dropped.put(&[2; 8], 0, 8);
        let _ = dropped.put(&pattern(3, 9000), 0, 16);
        let _ = dropped.flush(0);
        w.put(&pattern(4, 9000), 0, 16).map_err(text)?;
        w.flush(0).map_err(text)?;
    }
    two.barrier().map_err(text)?;
    if me == 0 {
        same("below a dropped window", &memory, &vec![0x55; LEN])?;
        same("beside it", &own(&w)?[16..9016], &pattern(4, 9000))?;
    }
    println!("rank {me} done");
    Ok(())
}

/// A window of more than 4 GiB at each end, of addresses alone: the null
/// provider moves nothing. Lengths and displacements past 32 bits reach it
/// whole.
fn past_four_gib(boot: Arc<dyn Boot>) -> Result {
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
fn told_four_gib(output: &Output) -> Result {
    content(output)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let bytes = |line: &str| line.strip_suffix(" bytes")?.rsplit(' ').next()?.parse::<u64>().ok();
    let whole = (8 << 30) + 3..=(8 << 30) + 67;
    let told = said.lines().filter_map(bytes).filter(|n| whole.contains(n)).count();
    ensure!(told == 2, "not 8 GiB and 3 bytes at each of two ranks: {said}");
    Ok(())
}

/// What is registered does not fit the limit: said, with the limit.
fn locked_out(boot: Arc<dyn Boot>) -> Result {
    refuses(boot, &["RLIMIT_MEMLOCK", "131072 bytes", "ulimit -l"])
}

/// A job under a limit for locked memory that holds for root too.
const LOCKED_OUT: [&str; 5] =
    ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=131072"];

/// The survivors are content, nothing is left.
fn survivors(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Code(0)]"), "other ends");
    clean(output)
}

/// Survivors of a collective hear of the death, all of them.
fn killed_in_collectives<const KIND: u8, const FENCES: bool, N: Opens>(
    boot: Arc<dyn Boot>,
) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let pids = pids(&world)?;
    if me == 2 {
        let victim = pids[1];
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            signal(victim, libc::SIGKILL);
        });
    }
    let start = Instant::now();
    let turn = || -> std::result::Result<(), Error> {
        let mut w = make::<KIND, N>(&world, 4096, 8)?;
        w.fence()?;
        if FENCES {
            loop {
                w.put(&word(me, 0, 1), (me + 1) % 3, me as usize)?;
                w.fence()?;
            }
        }
        w.free()
    };
    let error = loop {
        if let Err(e) = turn() {
            break e;
        }
        ensure!(start.elapsed() < SOON * 2, "no error");
    };
    ensure!(start.elapsed() < SOON, "known only after {:?}", start.elapsed());
    // The other survivor may still put to this one: leaving now would be a
    // second end that it could hear of first.
    let heard = Instant::now();
    while FENCES && heard.elapsed() < Duration::from_secs(1) {
        context.progress().map_err(text)?;
        std::thread::yield_now();
    }
    about::<()>(Err(error), 1)
}

/// A stopped peer is waited for.
fn stopped_in_puts<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<KIND, N>(&world, 4096, 8).map_err(text)?;
    let pids = pids(&world)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    match world.rank() {
        0 => {
            let mut round = 0_u32;
            let mut flag = [0; 8];
            while flag != word(2, 0, 1) {
                round += 1;
                for i in 1..64 {
                    w.put(&word(0, 1, round), 1, i).map_err(text)?;
                }
                w.flush(1).map_err(text)?;
                w.read_local(0, &mut flag).map_err(text)?;
            }
            ensure!(round > 2, "only {round} rounds");
            w.put(&round.to_le_bytes(), 1, 0).map_err(text)?;
        }
        1 => {}
        _ => {
            std::thread::sleep(Duration::from_millis(100));
            signal(pids[1], libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(1800));
            signal(pids[1], libc::SIGCONT);
            w.put(&word(2, 0, 1), 0, 0).map_err(text)?;
        }
    }
    w.unlock_all().map_err(text)?;
    w.fence().map_err(text)?;
    if world.rank() == 1 {
        let all = own(&w)?;
        let round = u32::from_le_bytes([all[0], all[1], all[2], all[3]]);
        for i in 1..64 {
            same("after the pause", &all[i * 8..][..8], &word(0, 1, round))?;
        }
    }
    Ok(())
}

/// Opening fails, and the reason holds every one of `words`.
fn refuses(boot: Arc<dyn Boot>, words: &[&str]) -> Result {
    print_pid();
    let why = open(boot).err().ok_or("it opened")?;
    println!("{why}");
    match words.iter().find(|word| !why.contains(**word)) {
        Some(word) => Err(format!("'{word}' is not in: {why}")),
        None => Ok(()),
    }
}

fn well_and_clean(output: &Output) -> Result {
    content(output).and_then(|()| clean(output))
}

/// One rank cannot open its provider; the others hear that it is gone.
fn one_without_provider(boot: Arc<dyn Boot>) -> Result {
    let rank = boot.rank();
    let provider = (rank == 1).then(|| "nosuch".to_owned());
    match device::open_ofi(boot, &Options { provider, ..Options::default() }) {
        Err(DeviceError::Net(NetError::NoProvider { wanted, .. })) if rank == 1 => {
            ensure!(wanted == "nosuch", "{wanted}");
            Ok(())
        }
        Err(e) if rank != 1 && e.rank() == Some(1) => Ok(()),
        other => Err(format!("{:?}", other.map(drop))),
    }
}

/// A boot that publishes something else as this rank's addresses.
struct Liar {
    boot: Arc<dyn Boot>,
    business_card: Vec<u8>,
}

impl Boot for Liar {
    fn launcher(&self) -> &'static str {
        self.boot.launcher()
    }
    fn rank(&self) -> u32 {
        self.boot.rank()
    }
    fn size(&self) -> u32 {
        self.boot.size()
    }
    fn job(&self) -> u64 {
        self.boot.job()
    }
    fn put(&self, key: &str, value: &[u8]) -> std::result::Result<(), BootError> {
        let lie = key == "rankway.addresses";
        self.boot.put(key, if lie { &self.business_card } else { value })
    }
    fn fence(&self, idle: &mut dyn FnMut()) -> std::result::Result<(), BootError> {
        self.boot.fence(idle)
    }
    fn get(&self, rank: u32, key: &str) -> std::result::Result<Vec<u8>, BootError> {
        self.boot.get(rank, key)
    }
    fn node_of(&self, rank: u32) -> std::result::Result<u32, BootError> {
        self.boot.node_of(rank)
    }
    fn abort(&self, code: i32, reason: &str) -> ! {
        self.boot.abort(code, reason)
    }
    fn finalize(&self) -> std::result::Result<(), BootError> {
        self.boot.finalize()
    }
}

/// Business cards with these two addresses in them, and an inbox that is none: standard
/// input of the first process.
fn business_card(local: &[u8], network: &[u8]) -> Vec<u8> {
    let len = |a: &[u8]| (a.len() as u16).to_le_bytes();
    let mut inbox = [0; 41];
    (inbox[0], inbox[1]) = (40, 1);
    [b"RWa3", &inbox[..], &len(local)[..], local, &len(network), network].concat()
}

/// Rank 1 publishes garbage: whoever puts to it hears so, by name, and can
/// still put to the others.
fn garbage_business_card<const WHICH: u8>(boot: Arc<dyn Boot>) -> Result {
    let business_cards = [
        vec![],
        pattern(3, 60),
        business_card(b"fi_shm://1:0:0\0", &[2; 16])[..20].to_vec(),
        business_card(&pattern(5, 40), &pattern(6, 40)),
        // The right lengths and the wrong families.
        business_card(&[0xff; 24], &[[10, 0].as_slice(), &[7; 14]].concat()),
        business_card(&[b"fi_shm://".as_slice(), &[b'x'; 5000], &[0]].concat(), &[0; 16]),
    ];
    let rank = boot.rank();
    let lie = business_cards[WHICH as usize].clone();
    let boot =
        if rank == 1 { Arc::new(Liar { boot, business_card: lie }) as Arc<dyn Boot> } else { boot };
    let context = open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, _>(&world, 64, 8).map_err(text)?;
    w.fence().map_err(text)?;
    if rank == 0 {
        let bad = w.put(&[1; 8], 1, 0).err().ok_or("the put went well")?;
        ensure!(bad.peer() == Some(1), "not about rank 1: {bad}");
        match bad.kind() {
            ErrorKind::Device(DeviceError::BadBusinessCard { rank: 1 }) if WHICH < 3 => {}
            ErrorKind::Device(DeviceError::Peer { rank: 1, error: NetError::Address { .. } })
                if WHICH >= 3 => {}
            other => return Err(format!("{other:?}")),
        }
        about(w.get(&mut [0; 8], 1, 0), 1)?;
        w.put(&word(0, 2, 4), 2, 1).map_err(text)?;
    }
    w.fence().map_err(text)?;
    if rank == 2 {
        same("beside garbage", &own(&w)?[8..16], &word(0, 2, 4))?;
    }
    Ok(())
}

/// Raw addresses of garbage, handed to a netmod.
fn garbage_addresses(_: Arc<dyn Boot>) -> Result {
    let null = Null::open();
    let nowhere = null.open_endpoint().map_err(text)?;
    for raw in [b"".as_slice(), b"nul", b"nullo", &[0xff; 300]] {
        ensure!(
            matches!(null.insert(&nowhere, raw), Err(NetError::Address { .. })),
            "null took {raw:?}"
        );
    }
    for name in ["shm", "tcp;ofi_rxm"] {
        let request = Request { provider: Some(name.into()), peers: 8, ..Request::default() };
        let ofi = Ofi::open(&request).map_err(text)?;
        let endpoint = ofi.open_endpoint().map_err(text)?;
        let real = ofi.address(&endpoint).map_err(text)?;
        ofi.insert(&endpoint, &real).map_err(text)?;
        let mut wrong = vec![vec![], vec![0; real.len()], vec![0xff; real.len()], vec![b'a'; 5000]];
        wrong.push([real.as_slice(), &[1]].concat());
        wrong.push([&real[..real.len() - 1], &[1, 2, 3]].concat());
        wrong.extend((0..real.len()).map(|len| real[..len].to_vec()));
        // Another family in the first bytes.
        wrong.push([&[10, 0], &real[2..]].concat());
        let mut random = 0x1234_5678_9abc_def1_u64;
        for len in 0..200 {
            let byte = |_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // 0xff is in no text and no family's first byte.
                random as u8 | 1
            };
            let mut bytes: Vec<u8> = (0..len).map(byte).collect();
            bytes.iter_mut().take(1).for_each(|b| *b = 0xff);
            wrong.push(bytes);
        }
        for raw in &wrong {
            match ofi.insert(&endpoint, raw) {
                Err(NetError::Address { .. } | NetError::Call { .. }) => {}
                other => return Err(format!("{name}: {raw:02x?}: {other:?}")),
            }
        }
        // A bit turned over may give another address; it may not crash.
        for bit in 0..real.len() * 8 {
            let mut raw = real.clone();
            raw[bit / 8] ^= 1 << (bit % 8);
            let _ = ofi.insert(&endpoint, &raw);
        }
        // The library says what it thinks of insertions; so does the endpoint.
        let _ = ofi.poll(&endpoint, |_| (), |_, _| ());
    }
    Ok(())
}

/// More ranks on the node than shared memory takes: those past the limit are
/// reached over the network, both ways.
fn crowd(boot: Arc<dyn Boot>) -> Result {
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
fn crowd_without_network(boot: Arc<dyn Boot>) -> Result {
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

/// Windows of both kinds between whatever ranks a launcher started.
fn launched(boot: Arc<dyn Boot>) -> Result {
    let launcher = std::env::var("RANKWAY_TEST_LAUNCHER").unwrap_or_default();
    ensure!(boot.launcher() == launcher, "{} instead of {launcher}", boot.launcher());
    let ranks = if launcher == "alone" { 1 } else { 2 };
    ensure!(boot.size() == ranks, "{} ranks", boot.size());
    let context = open(boot)?;
    let world = Communicator::world(&context);
    for w in [make::<ALLOCATED, Ofi>, make::<CREATED, Ofi>] {
        let mut w = w(&world, ranks as usize * 24, 8).map_err(text)?;
        rma::all_to_all(&w)?;
        w.free().map_err(text)?;
    }
    println!("rank {} done", world.rank());
    Ok(())
}

/// Every rank reached the end.
fn all_done(output: &Output) -> Result {
    content(output)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("rank 0 done"), "rank 0 was not there");
    Ok(())
}

/// The program a launcher goes by here, if it is installed.
fn find(variable: &str, names: &[&str]) -> Option<String> {
    let named = std::env::var(variable).ok().filter(|path| !path.is_empty());
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&&str| std::env::split_paths(&paths).any(|p| p.join(name).is_file());
    let found = named.or_else(|| names.iter().find(there).map(|name| name.to_string()));
    if found.is_none() {
        eprintln!("{names:?}: skipped, not installed (and {variable} is not set)");
    }
    found
}

/// Puts, long ones and gets through a provider that has no space for a second:
/// they wait, and none is lost or made twice.
fn no_space(boot: Arc<dyn Boot>) -> Result {
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
fn none_lost(output: &Output) -> Result {
    harness::content(output)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts = said.lines().filter(|line| line.contains(": 11 writes, ")).count();
    ensure!(counts == 2, "not 11 writes in each of two ranks: {said}");
    Ok(())
}

/// A job in a mount namespace of its own whose /dev/shm is small, or why there
/// can be none.
fn in_small_shm(mount: &'static str) -> std::result::Result<Vec<&'static str>, String> {
    let words = ["unshare", "--mount", "sh", "-c", mount, "sh"];
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
    match tried {
        Ok(output) if output.status.success() => Ok(words.to_vec()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

const SMALL_SHM: &str = "mount -t tmpfs -o size=8m tmpfs /dev/shm && exec \"$@\"";
/// Has space for one endpoint.
const SHM_FOR_ONE: &str = "mount -t tmpfs -o size=20m tmpfs /dev/shm && exec \"$@\"";

/// Where cargo put the null provider, when it built it with this test.
fn null_provider() -> Option<String> {
    let me = std::env::current_exe().ok()?;
    let directory = me.parent()?;
    let there = directory.join("librankwaynull_fi.so").exists();
    there.then(|| directory.display().to_string())
}

/// Peers that are killed and stopped, over one network.
fn deaths<N: Opens>(network: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let scenario = |what: &str, body: Body, verdict| {
        let s = Scenario::new(format!("{what}/{network}"), 3, body).verdict(verdict);
        env.iter().fold(s, |s, (key, value)| s.env(key, *value))
    };
    let killed: [(&str, Body); 18] = [
        ("killed in gets/created", killed_in_gets::<CREATED, N>),
        ("killed in gets/mapped", killed_in_gets::<ALLOCATED, N>),
        ("killed in puts, idle/created", killed_in_puts::<CREATED, 8, true, N>),
        ("killed in long puts, idle/created", killed_in_puts::<CREATED, 9000, true, N>),
        ("killed in puts, busy/created", killed_in_puts::<CREATED, 8, false, N>),
        ("killed in long puts, busy/created", killed_in_puts::<CREATED, 9000, false, N>),
        ("killed in puts/mapped", killed_in_puts::<ALLOCATED, 8, false, N>),
        ("killed in allocation", killed_in_collectives::<ALLOCATED, false, N>),
        ("killed in creation", killed_in_collectives::<CREATED, false, N>),
        ("killed in fences/created", killed_in_collectives::<CREATED, true, N>),
        ("killed in fences/mapped", killed_in_collectives::<ALLOCATED, true, N>),
        ("killed beside a get, hopeless", late::writes::<{ late::GET }, false, N>),
        ("killed beside a get", late::writes::<{ late::GET }, true, N>),
        ("killed beside a long get", late::writes::<{ late::LONG_GET }, false, N>),
        ("killed beside a get of blocks", late::writes::<{ late::GET_IOV }, true, N>),
        ("killed beside a put", late::writes::<{ late::PUT }, false, N>),
        ("killed beside a put of blocks", late::writes::<{ late::PUT_IOV }, true, N>),
        ("killed beside a fetch", late::writes::<{ late::FETCH }, false, N>),
    ];
    let stopped: [(&str, Body); 2] = [
        ("stopped in puts/created", stopped_in_puts::<CREATED, N>),
        ("stopped in puts/mapped", stopped_in_puts::<ALLOCATED, N>),
    ];
    let killed = killed.into_iter().map(|(what, body)| scenario(what, body, survivors));
    let stopped = stopped.into_iter().map(|(what, body)| scenario(what, body, well_and_clean));
    let mut all: Vec<Scenario> = killed.chain(stopped).collect();
    let mut full = scenario("full queues", full_queues::<N>, content);
    full.ranks = 2;
    all.push(full);
    all
}

fn main() -> ExitCode {
    if let Some(over) = Over::chosen() {
        return harness::main(match over.ucx {
            #[cfg(feature = "ucx")]
            true => deaths::<Ucx>(&over.name, &over.env()),
            _ => {
                let [(key, provider), _] = over.env();
                let mut all = deaths::<Ofi>(&over.name, &over.env());
                if provider == "verbs" {
                    let locked = Scenario::new("locked memory/verbs", 2, locked_out);
                    let locked = locked.env(key, provider).verdict(well_and_clean);
                    all.push(locked.under(&LOCKED_OUT));
                }
                all
            }
        });
    }
    let mut all = Vec::new();
    let mut add = |s: Scenario| all.push(s);
    let over = |name: String, provider: &str, ranks, body| {
        Scenario::new(name, ranks, body).env("RANKWAY_PROVIDER", provider)
    };
    let newer = std::env::var("RANKWAY_NEWER_LIBFABRIC").ok().filter(|path| !path.is_empty());
    for provider in ["shm", "tcp"] {
        let env = [("RANKWAY_PROVIDER", provider)];
        deaths::<Ofi>(provider, &env).into_iter().for_each(&mut add);
        // The older shm has locks that a killed peer takes with it, the newer
        // one none.
        if let Some(path) = &newer {
            let env = [("RANKWAY_PROVIDER", provider), ("RANKWAY_LIBFABRIC", path.as_str())];
            deaths::<Ofi>(&format!("newer {provider}"), &env).into_iter().for_each(&mut add);
        }
        let bodies: [Body; 6] = [
            garbage_business_card::<0>,
            garbage_business_card::<1>,
            garbage_business_card::<2>,
            garbage_business_card::<3>,
            garbage_business_card::<4>,
            garbage_business_card::<5>,
        ];
        for (i, body) in bodies.into_iter().enumerate() {
            add(over(format!("garbage business card {i}/{provider}"), provider, 3, body));
        }
    }
    // No memory is shared between nodes, so the library moves the bytes.
    let message: [(&str, Body); 2] = [
        ("killed in a long receive/tcp", late::message::<false, Ofi>),
        ("killed in a long send/tcp", late::message::<true, Ofi>),
    ];
    for (name, body) in message {
        add(over(name.into(), "tcp", 3, body).nodes(3).verdict(survivors));
    }
    #[cfg(feature = "ucx")]
    for (network, tls) in [("ucx", ""), ("ucx tcp", "tcp,self")] {
        let env: &[_] = if tls.is_empty() { &[] } else { &[("UCX_TLS", tls)] };
        for s in deaths::<Ucx>(network, env) {
            // A process killed while it writes into another's queue in UCX's
            // shared memory leaves a gap there, behind which nothing is read.
            // (What it is asked for there, it writes too.)
            let writes = ["busy", "gets/created", "fences/created"];
            let busy = writes.iter().any(|what| s.name.contains(what));
            add(if busy && tls.is_empty() { s.slow() } else { s });
        }
    }
    // (shm of 1.17 does not tell who used a wrong key, verbs keeps what was
    // registered for another time, UCX's own puts by messages look at none.)
    let dropped = over("dropped for a death/tcp".into(), "tcp", 3, dropped_for_a_death::<Ofi>);
    add(dropped.nodes(3).verdict(survivors));
    add(over("stale key/tcp".into(), "tcp", 3, stale_key::<Ofi>));
    // Between nodes nobody sees a process end: the network tells.
    let body = killed_in_puts::<CREATED, 8, false, Ofi>;
    let apart = over("killed in puts/two nodes".into(), "", 3, body);
    add(apart.nodes(3).verdict(survivors));
    add(Scenario::new("garbage addresses", 1, garbage_addresses));

    let refusing = |name: &str, body: fn(Arc<dyn Boot>) -> Result| {
        Scenario::new(format!("refused/{name}"), 2, body).verdict(well_and_clean)
    };
    let nosuch =
        |boot: Arc<dyn Boot>| refuses(boot, &["'nosuch'", "tcp;ofi_rxm", "RANKWAY_PROVIDER"]);
    add(refusing("RANKWAY_PROVIDER", nosuch).env("RANKWAY_PROVIDER", "nosuch"));
    let filtered = |boot: Arc<dyn Boot>| refuses(boot, &["'nosuch'", "FI_PROVIDER"]);
    add(refusing("FI_PROVIDER", filtered).env("FI_PROVIDER", "nosuch"));
    let no_rma = |boot: Arc<dyn Boot>| refuses(boot, &["udp", "no RMA", "FI_PROVIDER"]);
    let only_udp = "^ofi_rxd,ofi_rxm,tcp,net,sockets,shm,sm2,verbs,psm,psm2,psm3,opx,ucx";
    add(refusing("without RMA", no_rma).env("FI_PROVIDER", only_udp));
    let named = refusing("without RMA, named", no_rma).env("FI_PROVIDER", only_udp);
    add(named.env("RANKWAY_PROVIDER", "udp"));
    let none =
        |boot: Arc<dyn Boot>| refuses(boot, &["/nonexistent", "RANKWAY_LIBFABRIC", "install"]);
    add(refusing("no libfabric", none).env("RANKWAY_LIBFABRIC", "/nonexistent"));
    add(Scenario::new("refused/one rank", 3, one_without_provider));

    match in_small_shm(SMALL_SHM) {
        Ok(words) => {
            let full = |boot: Arc<dyn Boot>| refuses(boot, &["/dev/shm", "bytes free", "remount"]);
            let named = refusing("full shm", full).env("RANKWAY_PROVIDER", "shm");
            add(named.under(&words));
            // What one rank may have, libfabric hides from all where there are two processors.
            if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)
                && let Ok(words) = in_small_shm(SHM_FOR_ONE)
            {
                let one = refusing("shm for one", full).env("RANKWAY_PROVIDER", "shm");
                add(one.under(&words));
            }
            add(Scenario::new("full shm/network", 2, rma::words::<CREATED, Ofi>).under(&words));
        }
        Err(why) => eprintln!("full /dev/shm: skipped, no mount namespace: {why}"),
    }
    match null_provider() {
        Some(directory) => {
            let null = |name: &str, body, verdict| {
                let null = Scenario::new(format!("{name}/rankway_null"), 2, body).verdict(verdict);
                let null =
                    null.env("FI_PROVIDER_PATH", directory.as_str()).env("RANKWAY_NULL_STATS", "1");
                null.env("RANKWAY_PROVIDER", "rankway_null")
            };
            add(null("no space", no_space, none_lost).env("RANKWAY_NULL_BUSY", "1000"));
            add(null("past 4 GiB", past_four_gib, told_four_gib));
        }
        None => {
            eprintln!(
                "no space, past 4 GiB: skipped, the null provider was not built (--workspace)"
            )
        }
    }
    add(Scenario::new("crowd/5", 5, crowd).env("RANKWAY_SHM_PEERS", "4"));
    add(Scenario::new("crowd/words", 4, rma::words::<CREATED, Ofi>).env("RANKWAY_SHM_PEERS", "3"));
    let mapped = Scenario::new("crowd/mapped words", 4, rma::words::<ALLOCATED, Ofi>);
    add(mapped.env("RANKWAY_SHM_PEERS", "2").env("RANKWAY_PROVIDER", "shm,tcp"));
    let without = over("crowd/shm alone".into(), "shm", 3, crowd_without_network);
    add(without.env("RANKWAY_SHM_PEERS", "2"));
    // Half a minute of opening libfabric 257 times on two cores.
    add(Scenario::new("crowd/257", 257, crowd).slow());

    let mut launch = |name: &str, words: &[&str], boot: &str| {
        let words = [&harness::OWN_SESSION, words].concat();
        let s = Scenario::new(format!("launched/{name}"), 2, launched).start(&words);
        add(s.env("RANKWAY_TEST_LAUNCHER", boot).verdict(all_done));
    };
    launch("alone", &["env"], "alone");
    let pass = ["-x", "RANKWAY_TEST_SCENARIO", "-x", "RANKWAY_TEST_LAUNCHER", "-n", "2"];
    if let Some(mpirun) = find("RANKWAY_MPIRUN", &["mpirun.openmpi"]) {
        let words = [mpirun.as_str(), "--allow-run-as-root", "--oversubscribe"];
        launch("mpirun", &[&words[..], &pass].concat(), "pmix");
    }
    if let Some(prterun) = find("RANKWAY_PRTERUN", &["prterun"]) {
        let words = [prterun.as_str(), "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"];
        launch("prterun", &[&words[..], &pass].concat(), "pmix");
    }
    if let Some(hydra) = find("RANKWAY_HYDRA", &["mpiexec.hydra", "mpiexec.mpich"]) {
        launch("hydra", &[&hydra, "-n", "2"], "pmi1");
    }

    harness::main(all)
}
