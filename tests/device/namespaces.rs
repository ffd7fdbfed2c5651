//! Processes that see each other through namespaces: a pid, or a descriptor's
//! number, means something else there, and whatever it means is left alone.

#[path = "../harness/mod.rs"]
mod harness;

use harness::{Opens, Result, Scenario, pattern, same, text};
use libtest_mimic::Trial;
use rankway::boot::Boot;
use rankway::netmod::Op;
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Communicator, Window};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Bytes in each of the files that must stay as they are.
const PRECIOUS: usize = 100_000;

fn main() -> ExitCode {
    let mut all = Vec::new();
    let mut skipped = Vec::new();
    let own_pids = ["unshare", "--pid", "--fork", "--mount-proc"];
    // shm's names are made of pids, which are small in a namespace: a place of
    // its own keeps those of other jobs apart.
    let own_shm = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";
    let strange_proc = ["unshare", "--pid", "--fork", "--mount", "sh", "-c", own_shm, "sh"];
    for (name, providers) in [("tcp", "tcp"), ("auto", ""), ("both", "shm,tcp")] {
        let job = |words: &[&str], kind: &str| {
            let scenario = Scenario::new(format!("{kind}/{name}"), 2, windows_and_packets);
            let scenario = match words[0] {
                "unshare" => scenario.under(words),
                _ => scenario.start(words),
            };
            scenario.env("RANKWAY_PROVIDER", providers)
        };
        // shm calls its segments by pid, which both have alike.
        match mpirun().and_then(|words| permitted(&own_pids).map(|()| words)) {
            _ if name != "tcp" => {}
            Ok(words) => {
                all.push(job(&[&words[..], &own_pids].concat(), "a pid namespace for each"));
            }
            Err(why) => skipped.push(("a pid namespace for each", why)),
        }
        let shm_each = ["unshare", "--mount", "sh", "-c", own_shm, "sh"];
        match mpirun().and_then(|words| permitted(&shm_each).map(|()| words)) {
            Ok(words) if name != "both" => {
                all.push(job(&[&words[..], &shm_each].concat(), "shared memory for each"));
            }
            Ok(_) => {}
            Err(why) => skipped.push(("shared memory for each", why)),
        }
        match permitted(&strange_proc) {
            Ok(()) => all.push(job(&strange_proc, "another namespace's proc")),
            Err(why) => skipped.push(("another namespace's proc", why)),
        }
    }
    #[cfg(feature = "ucx")]
    {
        let full = "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$@\"";
        let full = ["unshare", "--mount", "sh", "-c", full, "sh"];
        match permitted(&full) {
            Ok(()) => {
                let little = Scenario::new("little shared memory/ucx", 2, little_shared_memory);
                all.push(little.under(&full));
            }
            Err(why) => skipped.push(("little shared memory", why)),
        }
    }
    let read_only = "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$@\"";
    let read_only = ["unshare", "--mount", "sh", "-c", read_only, "sh"];
    match permitted(&read_only) {
        Ok(()) => {
            let closed = Scenario::new("read-only shared memory/shm", 2, read_only_shared_memory);
            all.push(closed.env("RANKWAY_PROVIDER", "shm").under(&read_only));
        }
        Err(why) => skipped.push(("read-only shared memory", why)),
    }
    let no_proc = "mount -t tmpfs tmpfs /proc && exec \"$@\"";
    let no_proc = ["unshare", "--mount", "sh", "-c", no_proc, "sh"];
    match permitted(&no_proc) {
        Ok(()) => all.push(Scenario::new("no proc/auto", 2, without_proc).under(&no_proc)),
        Err(why) => skipped.push(("no proc", why)),
    }
    // A process may attach to one in a namespace that it made, and that one not back.
    let one_below = "[ $OMPI_COMM_WORLD_RANK = 0 ] || set -- unshare -Ur \"$@\"; exec \"$@\"";
    match mpirun().and_then(|words| permitted(&["unshare", "-Ur"]).map(|()| words)) {
        Ok(words) => {
            let words = [&words[..], &["sh", "-c", one_below, "sh"]].concat();
            for (name, provider) in [("auto", ""), ("shm", "shm")] {
                let name = format!("a user namespace for one/{name}");
                let scenario = Scenario::new(name, 2, windows_and_packets).start(&words);
                all.push(scenario.env("RANKWAY_PROVIDER", provider));
            }
        }
        Err(why) => skipped.push(("a user namespace for one", why)),
    }
    match permitted(&["unshare", "--net"]) {
        Ok(()) => all.push(Scenario::new("a network without a link/auto", 2, without_a_link)),
        Err(why) => skipped.push(("a network without a link", why)),
    }
    // As two machines with a link between them.
    match harness::cannot_join().filter(|_| !harness::in_scenario()) {
        None => {
            let joined = Scenario::new("a network namespace for each/tcp", 2, over_a_link);
            all.push(joined.env("RANKWAY_PROVIDER", "tcp"));
        }
        Some(why) => skipped.push(("a network namespace for each", why)),
    }
    for (what, why) in skipped {
        eprintln!("{what}: skipped: {why}");
    }
    harness::main_with(all, Vec::<Trial>::new())
}

/// What a library does not find space for is told by where it is.
#[cfg(feature = "ucx")]
fn little_shared_memory(boot: Arc<dyn Boot>) -> Result {
    match <rankway::netmod::ucx::Ucx as Opens>::open(boot) {
        Ok(_) => Err("it opened".into()),
        Err(why) if why.contains("/dev/shm has space for") => Ok(()),
        Err(why) => Err(format!("not by where: {why}")),
    }
}

/// As is where it makes no names.
fn read_only_shared_memory(boot: Arc<dyn Boot>) -> Result {
    match <Ofi as Opens>::open(boot) {
        Ok(_) => Err("it opened".into()),
        Err(why) if why.contains("/dev/shm cannot be written to") => Ok(()),
        Err(why) => Err(format!("not by where: {why}")),
    }
}

/// Without /proc processes meet by addresses of the network, or say what they miss.
fn without_proc(boot: Arc<dyn Boot>) -> Result {
    let met = <Ofi as Opens>::open(boot)
        .and_then(|context| Communicator::world(&context).barrier().map_err(text));
    match met {
        Err(why) if !why.contains("/proc") => Err(format!("not what is missing: {why}")),
        _ => Ok(()),
    }
}

/// Who is alive and has no address that others reach is not called dead.
fn without_a_link(boot: Arc<dyn Boot>) -> Result {
    if boot.rank() == 1 {
        // SAFETY: an integer.
        let alone = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(alone, 0, "unshare: {}", std::io::Error::last_os_error());
    }
    let met = <Ofi as Opens>::open(boot)
        .and_then(|context| Communicator::world(&context).barrier().map_err(text));
    match met {
        Err(why) if why.contains("cannot be reached") && why.contains("give it one") => Ok(()),
        other => Err(format!("not what is missing: {other:?}")),
    }
}

/// Whether a program may be started by these words, or why not.
fn permitted(words: &[&str]) -> std::result::Result<(), String> {
    if harness::in_scenario() {
        return Ok(());
    }
    match Command::new(words[0]).args(&words[1..]).arg("true").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn mpirun() -> std::result::Result<Vec<&'static str>, String> {
    let words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"];
    permitted(&words)?;
    Ok([&harness::OWN_SESSION[..], &words, &["-x", "RANKWAY_TEST_SCENARIO"]].concat())
}

/// Files under so many descriptors that a number of the first rank's, which has
/// none, is one of theirs.
struct Files(Vec<(PathBuf, File)>);

impl Files {
    fn fill(rank: u32) -> Result<Files> {
        let count = if rank == 0 { 0 } else { 200 };
        let made = (0..count).map(|i| {
            let name = format!("rankway-namespaces-{}-{rank}-{i}", unique()?);
            let path = std::env::temp_dir().join(name);
            let mut file = File::create_new(&path).map_err(text)?;
            file.write_all(&pattern(i, PRECIOUS)).map_err(text)?;
            // Every second one only to be read.
            let file = if i % 2 == 0 { File::open(&path).map_err(text)? } else { file };
            Ok((path, file))
        });
        Ok(Files(made.collect::<Result<_>>()?))
    }

    fn check(&self) -> Result {
        for (i, (path, _)) in (0..).zip(&self.0) {
            let bytes = std::fs::read(path).map_err(text)?;
            same(&format!("file {i}"), &bytes, &pattern(i, PRECIOUS))?;
        }
        Ok(())
    }
}

/// Pids repeat between namespaces.
fn unique() -> Result<u128> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(now.map_err(text)?.as_nanos())
}

impl Drop for Files {
    fn drop(&mut self) {
        for (path, _) in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The same between two network namespaces, where nothing else leads from one to
/// the other.
fn over_a_link(boot: Arc<dyn Boot>) -> Result {
    harness::join(&*boot)?;
    windows_and_packets(Arc::new(harness::Far(boot.clone())))?;
    let sent = harness::sent()?;
    // The link is gone with either end.
    boot.fence(&mut || ()).map_err(text)?;
    // More than the windows' bytes: they went this way.
    ensure!(sent > 2 * 8192, "{sent} bytes went over the link");
    Ok(())
}

/// Puts into windows of every kind, and packets: the target has the bytes, and
/// no file of either has changed.
fn windows_and_packets(boot: Arc<dyn Boot>) -> Result {
    const BYTES: usize = 8192;
    let files = Files::fill(boot.rank())?;
    let context = <Ofi as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    let mut memory = vec![0_u8; BYTES];
    for kind in 0..2 {
        let mut w = match kind {
            0 => Window::allocate(&world, BYTES, 1).map_err(text)?,
            // SAFETY: the memory outlives the window.
            _ => unsafe { Window::create(&world, memory.as_mut_ptr(), BYTES, 1) }.map_err(text)?,
        };
        w.fence().map_err(text)?;
        w.put(&pattern(me, BYTES - 8), to, 0).map_err(text)?;
        w.accumulate(&[7_u64 + u64::from(me)], Op::Sum, to, BYTES - 8).map_err(text)?;
        w.fence().map_err(text)?;
        let mut got = vec![0; BYTES];
        w.read_local(0, &mut got).map_err(text)?;
        let sum = (7 + u64::from(from)).to_ne_bytes();
        same("the window", &got, &[&pattern(from, BYTES - 8), &sum[..]].concat())?;
        w.free().map_err(text)?;
    }
    // The memory of all beside each other, or an error that says why not.
    match Window::shared(&world, BYTES, 1) {
        Ok(mut w) => {
            w.fence().map_err(text)?;
            w.put(&pattern(me, BYTES), to, 0).map_err(text)?;
            w.fence().map_err(text)?;
            let mut got = vec![0; BYTES];
            w.read_local(0, &mut got).map_err(text)?;
            same("the shared window", &got, &pattern(from, BYTES))?;
            w.free().map_err(text)?;
        }
        Err(e) => {
            let (why, nodes) = (e.to_string(), world.nodes().map_err(text)?);
            let known = match nodes.iter().all(|node| Some(node) == nodes.get(0)) {
                true => "cannot map the memory",
                false => "split the communicator by node",
            };
            ensure!(why.contains(known), "{why}");
        }
    }
    world.barrier().map_err(text)?;
    files.check()
}
