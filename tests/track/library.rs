//! Programs on the library itself, recorded where `RANKWAY_TRACE` says so: jobs whose calls
//! are known, read back event by event.

#[path = "../harness/mod.rs"]
mod harness;

use harness::{Opens, Result, SCENARIO, Scenario, bounded, text, told};
use libtest_mimic::{Failed, Trial};
use rankway::boot::Boot;
use rankway::msg::{Any, Messenger};
use rankway::netmod::Op;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::Ucx;
use rankway::rma::{Assert, Communicator, Lock, Window};
use rankway::track::{Constructor, EventFlags, Kind, NO_PEER, Partial, ProcessTrace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

const RANKS: u32 = 4;
/// Beyond what any provider injects.
const LONG: usize = 1 << 16;
const SHARE: [&str; 4] = ["shm", "tcp", "mapped", "ucx"];

fn main() -> ExitCode {
    let mut jobs = Vec::new();
    for network in SHARE {
        let job = |name: &str, body| Scenario::new(format!("{name}/{network}"), RANKS, body);
        let talk: fn(_) -> _ = match network {
            "ucx" => talk::<Ucx, false>,
            "mapped" => talk::<Ofi, true>,
            _ => talk::<Ofi, false>,
        };
        let mut talks = job("talk", talk);
        if let "shm" | "tcp" = network {
            talks = talks.env("RANKWAY_PROVIDER", network);
        }
        jobs.push(talks);
    }
    jobs.push(Scenario::new("death", RANKS, death).verdict(one_was_killed));
    let mut trials = Vec::new();
    for network in SHARE {
        let name = format!("talk/{network}");
        trials.push(trial(&name, move |name| recorded_as_called(name, network == "mapped")));
    }
    trials.push(trial("without", |_| nothing_is_written("talk/shm")));
    trials.push(trial("definitions alone", |_| no_calls("talk/shm")));
    trials.push(trial("unwritable", |_| what_cannot_be_written_harms_nobody("talk/shm")));
    trials.push(trial("death", what_stood_before_a_death_stays));
    harness::main_with(jobs, trials)
}

fn trial(name: &str, check: impl Fn(&str) -> Result + Send + 'static) -> Trial {
    let name = name.to_owned();
    Trial::test(format!("recorded/{name}"), move || check(&name).map_err(Failed::from))
}

/// A directory that is not there yet.
fn fresh(name: &str) -> Result<PathBuf> {
    let name = name.replace(['/', ' '], "-");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("library-{name}"));
    let removed = match directory.is_file() {
        true => std::fs::remove_file(&directory),
        false => std::fs::remove_dir_all(&directory),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(text(e)),
        _ => Ok(directory),
    }
}

/// The job of a scenario with these settings; it must be content unless it is not `to_be`.
fn play(name: &str, settings: &[(&str, &Path)], to_be: bool) -> Result<Output> {
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    command.env(SCENARIO, name).env_remove("RANKWAY_TRACE").env_remove("RANKWAY_TRACE_EVENTS");
    if let Some(provider) = name.split('/').nth(1).filter(|one| matches!(*one, "shm" | "tcp")) {
        command.env("RANKWAY_PROVIDER", provider);
    }
    command.envs(settings.iter().copied());
    let output = bounded(command)?;
    if output.status.success() != to_be {
        return Err(told("the job ended otherwise", &output));
    }
    Ok(output)
}

/// What each rank recorded, by rank.
fn traces(directory: &Path) -> Result<Vec<ProcessTrace>> {
    let mut traces = Vec::new();
    for file in std::fs::read_dir(directory).map_err(text)? {
        let bytes = std::fs::read(file.map_err(text)?.path()).map_err(text)?;
        traces.push(ProcessTrace::from_bytes(&bytes).map_err(text)?);
    }
    traces.sort_by_key(|one| one.header.rank);
    Ok(traces)
}

/// Everything that the library records, in an order that is known, with bytes checked. Rank
/// 0 never frees a duplicate; with `IN_PLACE` windows are mapped.
fn talk<N: Opens, const IN_PLACE: bool>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (left, right) = ((me + n - 1) % n, (me + 1) % n);

    let pair = world.split(Some(me % 2), 0).map_err(text)?.ok_or("no pair")?;
    let same = world.dup();
    let first = world.split((me == 0).then_some(5), 0).map_err(text)?;
    ensure!(first.is_some() == (me == 0), "who is in the communicator of rank 0");
    drop(first);
    let mut memory = vec![0_u64; LONG / 8 + 64];
    let bytes = memory.len() * 8;
    let window = match IN_PLACE {
        true => Window::allocate(&same, bytes, 8),
        // SAFETY: the memory is dropped after the window, and touched through it.
        false => unsafe { Window::create(&same, memory.as_mut_ptr().cast(), bytes, 8) },
    };
    let mut window = window.map_err(text)?;

    messages(&world, &same, &pair)?;

    let ours = vec![me as u8 + 1; LONG];
    window.lock_all().map_err(text)?;
    window.put(&ours[..8], right, me as usize).map_err(text)?;
    window.put(&ours, right, 64).map_err(text)?;
    ensure!(window.put(&ours, right, 65).is_err(), "a put past the end");
    // SAFETY: the buffer stays, and nobody writes to it.
    unsafe { window.put_nb(ours.as_ptr(), 24, right, 8 + 3 * me as usize) }.map_err(text)?;
    window.flush(right).map_err(text)?;
    let mut theirs = vec![0; LONG];
    window.get(&mut theirs, right, 64).map_err(text)?;
    ensure!(theirs == ours, "what was got is not what was put");
    ensure!(window.fetch_and_op(7_u64, Op::Sum, right, 40).map_err(text)? == 0, "it was not 0");
    window.accumulate(&[5_u64, 6], Op::Sum, right, 40).map_err(text)?;
    window.flush_all().map_err(text)?;
    let old = window.compare_and_swap(12_u64, 1, right, 40).map_err(text)?;
    ensure!(old == 12, "{old}, not 12");
    window.unlock_all().map_err(text)?;
    window.fence().map_err(text)?;
    // SAFETY: of this thread's own window, in its epoch; the range is in its memory.
    let rc = unsafe { window.put_unchecked(ours.as_ptr(), 8, left, 50) };
    ensure!(rc == 0, "the put answered {rc}");
    window.fence_with(Assert::NOSUCCEED).map_err(text)?;
    let mut found = [0; 8];
    window.read_local(50 * 8, &mut found).map_err(text)?;
    ensure!(found == [right as u8 + 1; 8], "{found:?} from {right}");
    window.lock(Lock::Exclusive, left, Assert::NONE).map_err(text)?;
    window.put(&ours[..16], left, 52).map_err(text)?;
    window.unlock(left).map_err(text)?;
    window.communicator().barrier().map_err(text)?;
    window.post(&[left], Assert::NONE).map_err(text)?;
    window.start(&[right], Assert::NONE).map_err(text)?;
    window.put(&ours[..8], right, 54).map_err(text)?;
    window.complete().map_err(text)?;
    window.wait().map_err(text)?;
    window.read_local(54 * 8, &mut found).map_err(text)?;
    ensure!(found == [left as u8 + 1; 8], "{found:?} from {left}");

    world.barrier().map_err(text)?;
    let all = pair.allgather(&ours[..3]).map_err(text)?;
    ensure!(all.len() == 2, "{} members", all.len());
    let value = (me == 2).then_some(&ours[..10]);
    ensure!(world.broadcast(2, value).map_err(text)? == [3; 10], "a broadcast");
    window.free().map_err(text)?;
    drop((window, pair));
    if me == 0 {
        std::mem::forget(same);
    }
    Ok(())
}

fn messages<N: Opens>(
    world: &Communicator<N>,
    same: &Communicator<N>,
    pair: &Communicator<N>,
) -> Result {
    let (me, n) = (world.rank(), world.size());
    let (left, right) = ((me + n - 1) % n, (me + 1) % n);
    let ours = [me as u8; 40];
    let mut theirs = [0; 64];
    let messages = Messenger::open(same).map_err(text)?;
    // SAFETY: the buffers stay until both requests were waited for.
    let (receive, send) = unsafe {
        let receive = messages.irecv(theirs.as_mut_ptr(), 64, left, 3).map_err(text)?;
        (receive, messages.isend(ours.as_ptr(), 40, right, 3).map_err(text)?)
    };
    send.wait().map_err(text)?;
    ensure!(receive.wait().map_err(text)?.length == 40, "40 bytes");
    ensure!(theirs[..40] == [left as u8; 40], "bytes of {left}");

    let messages = Messenger::open(pair).map_err(text)?;
    if pair.rank() == 0 {
        messages.send(&[9; 100], 1, 9).map_err(text)?;
        messages.ssend(&[8; LONG], 1, 10).map_err(text)?;
    } else {
        let mut buf = [0; 200];
        let status = messages.recv(&mut buf, Any, Any).map_err(text)?;
        ensure!((status.source(), status.tag(), status.length) == (0, 9, 100), "{status:?}");
        let mut buf = vec![0; LONG];
        let message = messages.mprobe(0, Any).map_err(text)?;
        message.recv(&mut buf).map_err(text)?;
        ensure!(buf == [8; LONG], "bytes of the long message");
    }
    let messages = Messenger::open(world).map_err(text)?;
    let (ours, mut theirs) = ([me; 2], [0; 2]);
    messages
        .scope(|s| {
            s.recv(&mut theirs, left, 1)?;
            s.send(&ours, right, 1)
        })
        .map_err(text)?;
    ensure!(theirs == [left; 2], "words of {left}");
    ensure!(messages.iprobe(Any, 77).map_err(text)?.is_none(), "nobody sent that");
    ensure!(messages.send(&[], n, 0).is_err(), "a send past the end");
    Ok(())
}

/// A call as it must stand: on what, with which peer, tag and bytes.
type Expected = (Kind, Option<Constructor>, u32, i32, u64);

/// What a rank of `talk` calls.
fn calls(me: u32, mapped: bool) -> Vec<Expected> {
    use Constructor::{Dup, Split, World};
    let (left, right) = ((me + RANKS - 1) % RANKS, (me + 1) % RANKS);
    let made = if mapped { Constructor::WinAllocate } else { Constructor::WinCreate };
    let plain = |kind, on| (kind, on, NO_PEER, 0, 0);
    let mut all = vec![
        plain(Kind::Init, None),
        plain(Kind::CommConstruct, Some(Split)),
        plain(Kind::CommConstruct, Some(Dup)),
        plain(Kind::CommConstruct, (me == 0).then_some(Split)),
    ];
    if me == 0 {
        all.push(plain(Kind::CommFree, Some(Split)));
    }
    all.extend([
        plain(Kind::WinConstruct, Some(made)),
        (Kind::Irecv, Some(Dup), left, 3, 0),
        (Kind::Isend, Some(Dup), right, 3, 40),
        plain(Kind::Wait, None),
        (Kind::Received, Some(Dup), left, 3, 40),
        plain(Kind::Wait, None),
    ]);
    all.extend(match me < 2 {
        true => {
            [(Kind::Send, Some(Split), 1, 9, 100), (Kind::Ssend, Some(Split), 1, 10, LONG as u64)]
                .to_vec()
        }
        false => [
            (Kind::Recv, Some(Split), 0, 9, 100),
            (Kind::Mprobe, Some(Split), 0, 10, LONG as u64),
            (Kind::Mrecv, Some(Split), 0, 10, LONG as u64),
        ]
        .to_vec(),
    });
    let put = |rank, bytes| (Kind::Put, Some(made), rank, 0, bytes);
    let on = |kind, rank, bytes| (kind, Some(made), rank, 0, bytes);
    all.extend([
        (Kind::Irecv, Some(World), left, 1, 0),
        (Kind::Isend, Some(World), right, 1, 8),
        (Kind::Received, Some(World), left, 1, 8),
        plain(Kind::Waitall, None),
        plain(Kind::LockAll, Some(made)),
        put(right, 8),
        put(right, LONG as u64),
        put(right, 24),
        on(Kind::Flush, right, 0),
        on(Kind::Get, right, LONG as u64),
        on(Kind::FetchAndOp, right, 8),
        on(Kind::Accumulate, right, 16),
        plain(Kind::FlushAll, Some(made)),
        on(Kind::CompareAndSwap, right, 8),
        plain(Kind::UnlockAll, Some(made)),
        plain(Kind::Fence, Some(made)),
        put(left, 8),
        plain(Kind::Fence, Some(made)),
        on(Kind::Lock, left, 0),
        put(left, 16),
        on(Kind::Unlock, left, 0),
        plain(Kind::Barrier, Some(made)),
        plain(Kind::Post, Some(made)),
        plain(Kind::Start, Some(made)),
        put(right, 8),
        plain(Kind::Complete, Some(made)),
        plain(Kind::WinWait, Some(made)),
        plain(Kind::Barrier, Some(World)),
        (Kind::Allgatherv, Some(Split), NO_PEER, 0, 3),
        (Kind::Bcast, Some(World), 2, 0, if me == 2 { 10 } else { 0 }),
        plain(Kind::WinFree, Some(made)),
        plain(Kind::CommFree, Some(Split)),
    ]);
    if me != 0 {
        all.extend([plain(Kind::CommFree, Some(Dup)), plain(Kind::Finalize, None)]);
    }
    all
}

/// Compares every event of every rank, the objects, and who is in them.
fn recorded_as_called(name: &str, mapped: bool) -> Result {
    let directory = fresh(name)?;
    play(name, &[("RANKWAY_TRACE", &directory)], true)?;
    let traces = traces(&directory)?;
    ensure!(traces.len() == RANKS as usize, "{} files", traces.len());
    for (me, trace) in (0..).zip(&traces) {
        let header = trace.header;
        ensure!((header.rank, header.size) == (me, RANKS), "{header:?}");
        ensure!(trace.ended && trace.dropped + trace.lost == 0, "rank {me}: not all is there");
        let objects: BTreeMap<u32, Constructor> =
            trace.definitions.iter().map(|one| (one.id, one.definition.constructor)).collect();
        ensure!(trace.events.len() == 1, "rank {me}: {} threads", trace.events.len());
        let (_, events) = trace.events.first_key_value().ok_or("no events")?;
        let wanted = calls(me, mapped);
        for (at, (event, wanted)) in events.iter().zip(&wanted).enumerate() {
            let kind = event.kind().ok_or("an unknown kind")?;
            let found =
                (kind, objects.get(&event.comm).copied(), event.peer, event.tag, event.bytes());
            ensure!(found == *wanted, "rank {me}, event {at}: {found:?}, not {wanted:?}");
            ensure!(event.flags() == EventFlags::NONE, "rank {me}, event {at}: {event:?}");
            ensure!(event.start >= header.ticks || at == 0, "rank {me}, event {at}: its time");
        }
        ensure!(events.len() == wanted.len(), "rank {me}: {} events", events.len());
        places(me, trace)?;
    }
    members(&traces)
}

/// Constructors have the line that called, and who never freed what is known.
fn places(me: u32, trace: &ProcessTrace) -> Result {
    for one in &trace.definitions {
        let Some(site) = trace.sites.get(&one.definition.site) else {
            ensure!(one.definition.constructor == Constructor::World, "rank {me}: {one:?}");
            continue;
        };
        let (file, line) = site.rsplit_once(':').ok_or("no line")?;
        ensure!(file.ends_with("tests/track/library.rs"), "rank {me}: {site}");
        let line: usize = line.parse().map_err(text)?;
        let source = include_str!("library.rs").lines().nth(line - 1).unwrap_or_default();
        let called = match one.definition.constructor {
            Constructor::Split => ".split(",
            Constructor::Dup => ".dup(",
            _ => "Window::",
        };
        ensure!(source.contains(called), "rank {me}: {site}: {source}");
    }
    let alive: Vec<_> = trace
        .definitions
        .iter()
        .filter(|one| one.freed.is_none())
        .map(|one| one.definition.constructor)
        .collect();
    let wanted = match me {
        0 => vec![Constructor::World, Constructor::Dup],
        _ => vec![Constructor::World],
    };
    ensure!(alive == wanted, "rank {me} never freed {alive:?}");
    Ok(())
}

/// All members mean the same by what they made together.
fn members(traces: &[ProcessTrace]) -> Result {
    let unified = Partial::merge_all(traces.iter().map(Partial::of)).finish();
    let mut found = Vec::new();
    for object in unified.objects.iter().filter(|object| !object.family) {
        let group = object.groups[0].ok_or("no group")?;
        let ranks: Vec<u32> = unified.groups[group].map().iter().map(|one| one.lpid).collect();
        let parent = object.parent.map(|at| unified.objects[at].constructor);
        found.push((object.constructor, parent, ranks));
    }
    found.sort();
    let all: Vec<u32> = (0..RANKS).collect();
    let mut wanted = vec![
        (Constructor::World, None, all.clone()),
        (Constructor::Dup, Some(Constructor::World), all.clone()),
        (Constructor::Split, Some(Constructor::World), vec![0, 2]),
        (Constructor::Split, Some(Constructor::World), vec![1, 3]),
    ];
    let window = found.iter().map(|one| one.0).find(|one| one.name().starts_with("MPI_Win"));
    wanted.push((window.ok_or("no window")?, Some(Constructor::Dup), all));
    wanted.sort();
    ensure!(found == wanted, "{found:?}, not {wanted:?}");
    Ok(())
}

fn nothing_is_written(name: &str) -> Result {
    let directory = fresh("without")?;
    std::fs::create_dir_all(&directory).map_err(text)?;
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    command.env(SCENARIO, name).current_dir(&directory);
    command.env_remove("RANKWAY_TRACE").env("RANKWAY_TRACE_EVENTS", "on");
    let output = bounded(command)?;
    ensure!(output.status.success(), "{}", told("the job failed", &output));
    let left = std::fs::read_dir(&directory).map_err(text)?.count();
    ensure!(left == 0, "{left} files");
    Ok(())
}

fn no_calls(name: &str) -> Result {
    let directory = fresh("definitions")?;
    let off = Path::new("off");
    play(name, &[("RANKWAY_TRACE", &directory), ("RANKWAY_TRACE_EVENTS", off)], true)?;
    let traces = traces(&directory)?;
    let events = traces.iter().map(|one| one.events.len()).sum::<usize>();
    ensure!(events == 0 && traces.iter().all(|one| one.ended), "{events} threads with events");
    members(&traces)
}

fn what_cannot_be_written_harms_nobody(name: &str) -> Result {
    let file = fresh("file")?;
    std::fs::write(&file, "a file").map_err(text)?;
    let below = file.join("below");
    let fresh = fresh("harmless")?;
    for (settings, named) in [
        (vec![("RANKWAY_TRACE", file.as_path())], "RANKWAY_TRACE is '"),
        (vec![("RANKWAY_TRACE", below.as_path())], "cannot be made"),
        (
            vec![("RANKWAY_TRACE", fresh.as_path()), ("RANKWAY_TRACE_EVENTS", Path::new("seldom"))],
            "RANKWAY_TRACE_EVENTS is 'seldom'; it takes on",
        ),
    ] {
        let output = play(name, &settings, true)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let times = said.lines().filter(|line| line.contains(named)).count();
        ensure!(times == RANKS as usize, "{}", told(named, &output));
    }
    ensure!(!fresh.exists(), "something was written");
    std::fs::remove_file(&file).map_err(text)
}

/// Rank 1 is killed when all have said much; the others go on without it.
fn death(boot: Arc<dyn Boot>) -> Result {
    let context = <Ofi as Opens>::open(boot.clone())?;
    let world = Communicator::world(&context);
    let window = Window::allocate(&world, 64, 8).map_err(text)?;
    window.lock_all().map_err(text)?;
    let me = world.rank();
    for _ in 0..100 {
        window.put(&[1; 8], me, 0).map_err(text)?;
    }
    // (What is in the rings is written each tenth of a second.)
    std::thread::sleep(std::time::Duration::from_millis(600));
    world.barrier().map_err(text)?;
    harness::leave_together(&*boot, &context)?;
    if me == 1 {
        harness::die();
    }
    let told = world.barrier();
    ensure!(told.is_err(), "a barrier with the dead");
    for _ in 0..me + 1 {
        window.put(&[2; 8], me, 0).map_err(text)?;
    }
    Ok(())
}

fn one_was_killed(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("[Code(0), Signal(9), Code(0), Code(0)]"), "{said}");
    Ok(())
}

fn what_stood_before_a_death_stays(name: &str) -> Result {
    let directory = fresh(name)?;
    play(name, &[("RANKWAY_TRACE", &directory)], false)?;
    let traces = traces(&directory)?;
    ensure!(traces.len() == RANKS as usize, "{} files", traces.len());
    for (me, trace) in (0..).zip(&traces) {
        ensure!(trace.ended == (me != 1), "rank {me}: ended is {}", trace.ended);
        let events = trace.events.values().flatten();
        let puts = events.clone().filter(|event| event.kind() == Some(Kind::Put)).count() as u32;
        let wanted = if me == 1 { 100 } else { 100 + me + 1 };
        ensure!(puts == wanted, "rank {me}: {puts} puts");
        let failed = |event: &&rankway::track::Event| {
            event.kind() == Some(Kind::Barrier) && event.flags().has(EventFlags::FAILED)
        };
        let failed = events.filter(failed).count();
        ensure!(failed == usize::from(me != 1), "rank {me}: {failed} barriers failed");
    }
    let unified = Partial::merge_all(traces.iter().map(Partial::of)).finish();
    ensure!(unified.objects.len() == 2, "{:?}", unified.objects);
    ensure!(unified.objects.iter().all(|one| one.seen == RANKS), "{:?}", unified.objects);
    Ok(())
}
