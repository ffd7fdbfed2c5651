//! The same program under every launcher that is installed, on one node and
//! on two pretended ones. A launcher that is missing is reported and skipped.
#![cfg(all(unix, feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::{self, BootError, Control, World};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

plays!(part);

fn part(name: &str) {
    match name {
        "meet" => meet(),
        "placed" => placed(),
        "missing" => missing(),
        "abort" => abort(),
        "connect" => match boot::connect() {
            Ok(boot) => println!("connected: {}", boot.launcher()),
            Err(error) => {
                eprintln!("refused: {error}");
                std::process::exit(3);
            }
        },
        other => panic!("no part {other}"),
    }
}

/// All that a boot offers, and the set-up channel over it.
fn meet() {
    let boot = boot::connect().unwrap();
    let (rank, size) = (boot.rank(), boot.size());
    let again = boot::connect().unwrap();
    assert_eq!((again.rank(), again.job()), (rank, boot.job()));

    boot.put("short", &sample(rank, 1)).unwrap();
    assert!(matches!(boot.put("short", b""), Err(BootError::Twice { .. })));
    boot.put("empty", b"").unwrap();
    let long: Vec<u8> = (0..5000u32).map(|i| (i * 7 + rank) as u8).collect();
    let odd_key = format!("a key = with ; odd characters\n{}", "and a length ".repeat(9));
    boot.put(&odd_key, &long).unwrap();
    let control = Control::open(boot.clone()).unwrap();
    let mut idle_calls = 0u64;
    boot.fence(&mut || idle_calls += 1).unwrap();
    for peer in 0..size {
        assert_eq!(boot.get(peer, "short").unwrap(), sample(peer, 1));
        assert_eq!(boot.get(peer, "empty").unwrap(), b"");
        let value = boot.get(peer, &odd_key).unwrap();
        assert!(value.iter().zip(0u32..).all(|(&byte, i)| byte == (i * 7 + peer) as u8));
        assert_eq!(value.len(), 5000);
    }
    assert!(matches!(boot.get(size, "short"), Err(BootError::Rank { .. })));

    for round in 0..5 {
        boot.put(&format!("round{round}"), &[round]).unwrap();
        boot.fence(&mut || idle_calls += 1).unwrap();
        assert_eq!(boot.get((rank + 1) % size, &format!("round{round}")).unwrap(), [round]);
    }

    let world = World::of(&*boot);
    let nodes: Vec<u32> = (0..size).map(|rank| boot.node_of(rank).unwrap()).collect();
    let mine = [&boot.job().to_le_bytes()[..], &nodes.iter().map(|&n| n as u8).collect::<Vec<_>>()];
    let all = control.allgather(&world, 1, &mine.concat(), &mut || Ok(false)).unwrap();
    assert!(all.iter().all(|theirs| *theirs == all[0]), "job or nodes differ between ranks");
    assert!(boot.local_ranks().unwrap().contains(&rank));
    for root in 0..size {
        let value = (root == rank).then(|| sample(root, 2));
        let got = control.broadcast(&world, 2, root, value.as_deref(), &mut || Ok(false)).unwrap();
        assert_eq!(got, sample(root, 2));
    }
    if let Some(evens) = List::new((0..size).step_by(2).rev(), rank) {
        control.barrier(&evens, 3, &mut || Ok(false)).unwrap();
    }
    let (job, launcher) = (boot.job(), boot.launcher());
    let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
    println!(
        "met rank={rank} size={size} launcher={launcher} job={job:x} nodes={}",
        names.join(",")
    );
    control.barrier(&world, 4, &mut || Ok(false)).unwrap();
    drop(control);
    boot.finalize().unwrap();
    boot.finalize().unwrap();
    assert!(matches!(boot.fence(&mut || ()), Err(BootError::Finalized { .. })) || size == 1);
}

/// The node tables are those of the hosts' names, whoever was asked.
fn placed() {
    use rankway::device::open_null;
    let boot = boot::connect().unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    boot.put("host", host.as_bytes()).unwrap();
    let context = open_null(boot.clone()).unwrap();
    let questions = boot.questions();
    let device = context.device();
    let hosts: Vec<_> = (0..boot.size()).map(|peer| boot.get(peer, "host").unwrap()).collect();
    let mut names: Vec<&[u8]> = Vec::new();
    let mut nodes = Vec::new();
    for (rank, host) in hosts.iter().enumerate() {
        let node = names.iter().position(|name| name == host).unwrap_or(names.len());
        if node == names.len() {
            names.push(host);
        }
        let before = hosts[..rank].iter().filter(|other| *other == host).count();
        let rank = rank as u32;
        assert_eq!(device.nodes().get(rank).map(|it| it.lpid), Some(node as u32), "{rank}");
        assert_eq!(device.node_ranks().get(rank).map(|it| it.lpid), Some(before as u32), "{rank}");
        assert_eq!(boot.node_of(rank).unwrap(), node as u32);
        assert_eq!(boot.is_local(rank).unwrap(), *host == hosts[boot.rank() as usize]);
        nodes.push(node.to_string());
    }
    let here = |rank: &u32| hosts[*rank as usize] == hosts[boot.rank() as usize];
    assert!(boot.local_ranks().unwrap().into_iter().eq((0..boot.size()).filter(here)));
    println!("placed nodes={} questions={questions:?}", nodes.join(","));
    boot.fence(&mut || ()).unwrap();
    drop(context);
    boot.finalize().unwrap();
}

fn missing() {
    let boot = boot::connect().unwrap();
    boot.put("there", b"").unwrap();
    boot.fence(&mut || ()).unwrap();
    let peer = boot.size() - 1;
    let error = boot.get(peer, "not there").unwrap_err();
    let named = matches!(&error, BootError::NotPublished { rank, .. } if *rank == peer);
    assert!(named, "{error}");
    boot.fence(&mut || ()).unwrap();
    boot.finalize().unwrap();
}

fn abort() {
    let boot = boot::connect().unwrap();
    boot.fence(&mut || ()).unwrap();
    if boot.rank() == 1 {
        boot.abort(9, "this abort is part of the test");
    }
    std::thread::sleep(Duration::from_secs(60));
}

/// A directory for one test.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rw-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A launcher and the arguments that go before the program.
struct Launcher {
    program: String,
    arguments: Vec<String>,
    boot: &'static str,
    /// Where it keeps its sessions: one that ends removes the directory that all
    /// of a user share, while another is about to make its own in it.
    session: Scratch,
}

impl Launcher {
    fn new(program: String, arguments: Vec<String>, boot: &'static str) -> Self {
        Launcher { program, arguments, boot, session: Scratch::new() }
    }

    fn play(&self, ranks: u32, part: &str) -> std::process::Command {
        let ranks = ranks.to_string();
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.extend(["-n", &ranks]);
        let mut command = play_under(&self.program, &arguments, part);
        command.env("TMPDIR", &self.session.0);
        command
    }
}

/// First of `names` on the PATH, or what the variable says.
fn find(variable: &str, names: &[&str]) -> Option<String> {
    if let Ok(path) = std::env::var(variable) {
        return Some(path);
    }
    let paths = std::env::var("PATH").unwrap();
    let found = names
        .iter()
        .find(|name| std::env::split_paths(&paths).any(|directory| directory.join(name).is_file()));
    if found.is_none() {
        println!("skipped: none of {names:?} is installed (and {variable} is not set)");
    }
    found.map(|name| name.to_string())
}

fn owned(words: &[&str]) -> Vec<String> {
    // SAFETY: geteuid cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    words.iter().filter(|w| root || **w != "--allow-run-as-root").map(|w| w.to_string()).collect()
}

fn open_mpi() -> Option<Launcher> {
    let program = find("RANKWAY_MPIRUN", &["mpirun.openmpi"])?;
    let arguments = owned(&["--allow-run-as-root", "--oversubscribe"]);
    Some(Launcher::new(program, arguments, "pmix"))
}

fn prrte() -> Option<Launcher> {
    let program = find("RANKWAY_PRTERUN", &["prterun"])?;
    let arguments = owned(&["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]);
    Some(Launcher::new(program, arguments, "pmix"))
}

fn hydra() -> Option<Launcher> {
    let program = find("RANKWAY_HYDRA", &["mpiexec.hydra", "mpiexec.mpich"])?;
    Some(Launcher::new(program, Vec::new(), "pmi1"))
}

/// Runs `meet` and checks every rank's report; returns the nodes of the ranks.
fn everyone_meets(launcher: &Launcher, ranks: u32) -> String {
    let text = must_succeed(launcher.play(ranks, "meet"));
    let reports: Vec<HashMap<&str, &str>> = text
        .lines()
        .filter_map(|line| line.split_once("met rank").map(|(_, rest)| rest))
        .map(|rest| rest.split(' ').filter_map(|field| field.split_once('=')).collect())
        .collect();
    assert_eq!(reports.len(), ranks as usize, "{text}");
    for report in &reports {
        assert_eq!(report["size"], ranks.to_string());
        assert_eq!(report["launcher"], launcher.boot);
        assert_eq!(report["job"], reports[0]["job"]);
        assert_eq!(report["nodes"], reports[0]["nodes"]);
    }
    reports[0]["nodes"].to_string()
}

fn jobs_abort(launcher: &Launcher) {
    let start = Instant::now();
    let mut command = launcher.play(3, "abort");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    let text = all_output(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("this abort is part of the test"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(50), "the other ranks were not ended: {text}");
}

macro_rules! launchers {
    ($($launcher:ident $meets:ident $misses:ident $aborts:ident)*) => { $(
        #[test]
        fn $meets() {
            let Some(launcher) = $launcher() else { return };
            for ranks in [1, 2, 4, 7] {
                let nodes = everyone_meets(&launcher, ranks);
                assert_eq!(nodes, vec!["0"; ranks as usize].join(","));
            }
        }

        #[test]
        fn $misses() {
            let Some(launcher) = $launcher() else { return };
            let mut command = launcher.play(2, "missing");
            // PMIx waits so long for the key, but fences need their time too.
            command.env("RANKWAY_TIMEOUT", "4");
            must_succeed(command);
        }

        #[test]
        fn $aborts() {
            let Some(launcher) = $launcher() else { return };
            jobs_abort(&launcher);
        }
    )* };
}

launchers! {
    open_mpi under_mpirun mpirun_misses_keys mpirun_aborts
    prrte under_prterun prterun_misses_keys prterun_aborts
    hydra under_mpiexec mpiexec_misses_keys mpiexec_aborts
}

/// A remote shell that stays on this machine, under another host name.
struct PretendedNodes {
    directory: Scratch,
}

impl PretendedNodes {
    fn new() -> Option<Self> {
        let possible = std::process::Command::new("unshare").args(["-u", "true"]).status();
        if !possible.is_ok_and(|status| status.success()) {
            println!("skipped: `unshare -u` is not permitted, so there is one host name only");
            return None;
        }
        let scratch = Scratch::new();
        let directory = &scratch.0;
        let shell = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
                     exec unshare -u sh -c 'hostname \"$0\"; eval \"$*\"' \"$host\" \"$@\"\n";
        std::fs::write(directory.join("shell"), shell).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.join("shell"), mode).unwrap();
        std::fs::write(directory.join("hosts"), "nodea slots=2\nnodeb slots=2\n").unwrap();
        Some(PretendedNodes { directory: scratch })
    }

    fn path(&self, file: &str) -> String {
        self.directory.0.join(file).to_str().unwrap().to_string()
    }
}

/// The launchers with two nodes; `by` is what ranks are dealt by.
fn mpirun_on(nodes: &PretendedNodes, by: &str) -> Option<Launcher> {
    let mut launcher = open_mpi()?;
    let (shell, hosts) = (nodes.path("shell"), nodes.path("hosts"));
    launcher.arguments.extend(owned(&["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", &shell]));
    launcher.arguments.extend(owned(&["--mca", "oob_tcp_if_include", "lo", "--hostfile", &hosts]));
    launcher.arguments.extend(owned(&["--map-by", by]));
    Some(launcher)
}

fn prterun_on(nodes: &PretendedNodes, by: &str) -> Option<Launcher> {
    let mut launcher = prrte()?;
    let (shell, hosts) = (nodes.path("shell"), nodes.path("hosts"));
    // A relocated installation must be told where it is.
    if let Some(prefix) = std::path::Path::new(&launcher.program).ancestors().nth(2)
        && prefix.is_absolute()
    {
        launcher.arguments.extend(owned(&["--prefix", prefix.to_str().unwrap()]));
    }
    // Oversubscription would put all on the first node.
    launcher.arguments.retain(|word| word != "--map-by" && word != ":OVERSUBSCRIBE");
    launcher.arguments.extend(owned(&["--prtemca", "plm_ssh_agent", &shell]));
    launcher.arguments.extend(owned(&["--hostfile", &hosts, "--map-by", by]));
    Some(launcher)
}

#[test]
fn under_mpirun_on_two_nodes() {
    let Some(nodes) = PretendedNodes::new() else { return };
    let Some(launcher) = mpirun_on(&nodes, "slot") else { return };
    assert_eq!(everyone_meets(&launcher, 4), "0,0,1,1");
}

#[test]
fn under_prterun_on_two_nodes() {
    let Some(nodes) = PretendedNodes::new() else { return };
    let Some(launcher) = prterun_on(&nodes, "slot") else { return };
    assert_eq!(everyone_meets(&launcher, 4), "0,0,1,1");
}

#[test]
fn under_mpiexec_on_two_nodes() {
    let Some(mut launcher) = hydra() else { return };
    let Some(nodes) = PretendedNodes::new() else { return };
    let shell = nodes.path("shell");
    let words = ["-launcher", "ssh", "-launcher-exec", &shell, "-hosts", "nodea,nodeb"];
    launcher.arguments.extend(owned(&words));
    assert_eq!(everyone_meets(&launcher, 4), "0,1,0,1");
}

/// Starts a job that fills two nodes of so many slots; returns the nodes of the ranks and how
/// many values a process asked the launcher for, at most.
fn placed_on(
    launcher: fn(&PretendedNodes, &str) -> Option<Launcher>,
    by: &str,
    slots: [u32; 2],
) -> Option<(String, u32)> {
    let nodes = PretendedNodes::new()?;
    let hosts = format!("nodea slots={}\nnodeb slots={}\n", slots[0], slots[1]);
    std::fs::write(nodes.path("hosts"), hosts).unwrap();
    let ranks = slots[0] + slots[1];
    let text = must_succeed(launcher(&nodes, by)?.play(ranks, "placed"));
    let lines = text.lines().filter_map(|line| line.split_once("placed nodes="));
    let told: Vec<_> = lines.filter_map(|(_, rest)| rest.split_once(" questions=")).collect();
    assert_eq!(told.len(), ranks as usize, "{text}");
    let most = told.iter().map(|(_, questions)| {
        let number = questions.trim_start_matches("Some(").trim_end_matches(')');
        number.parse().unwrap_or(0)
    });
    Some((told[0].0.to_owned(), most.max().unwrap_or(0)))
}

/// Nodes are told by a rule that all processes confirm, or by each other: each asks for the cards
/// of as many others as that has steps, and not for the node of every rank.
#[cfg(feature = "pmix")]
fn nodes_are_told(launcher: fn(&PretendedNodes, &str) -> Option<Launcher>) {
    for (by, slots, expected) in [
        ("slot", [2, 2], "0,0,1,1"),
        ("slot", [9, 7], "0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1"),
        ("node", [8, 8], "0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1"),
        // What rank 0 sees is no sign of the rest.
        ("slot", [2, 6], "0,0,1,1,1,1,1,1"),
        // By no rule at all.
        ("node", [2, 6], "0,1,0,1,1,1,1,1"),
    ] {
        let Some((nodes, questions)) = placed_on(launcher, by, slots) else { return };
        println!("{slots:?} by {by}: {nodes}, {questions} questions");
        assert_eq!(nodes, expected);
        let ranks = slots[0] + slots[1];
        let (start, steps) = (5, ranks.next_power_of_two().trailing_zeros());
        assert!(questions <= start + 2 * steps, "{questions} for {slots:?}");
    }
}

#[test]
#[cfg(feature = "pmix")]
fn nodes_are_told_under_mpirun() {
    nodes_are_told(mpirun_on);
}

#[test]
#[cfg(feature = "pmix")]
fn nodes_are_told_under_prterun() {
    nodes_are_told(prterun_on);
}

#[test]
fn without_a_launcher() {
    let text = must_succeed(play("meet"));
    assert!(text.contains("launcher=alone"), "{text}");
}

fn connect_with(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = play("connect");
    command.envs(variables.iter().copied());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    (output.status.success(), all_output(&output))
}

#[test]
fn choices_are_explained() {
    let (ok, text) =
        connect_with(&[("RANKWAY_BOOT", "alone"), ("PMI_FD", "77"), ("PMI_RANK", "0")]);
    assert!(ok && text.contains("connected: alone"), "{text}");
    let (ok, text) = connect_with(&[("RANKWAY_BOOT", "telepathy")]);
    assert!(!ok && text.contains("local, pmix, pmi1 or alone"), "{text}");
    let (ok, text) = connect_with(&[("RANKWAY_BOOT", "local")]);
    assert!(!ok && text.contains("boot::local::run"), "{text}");
    let (ok, text) = connect_with(&[("RANKWAY_BOOT", "pmi1")]);
    assert!(!ok && text.contains("PMI_FD"), "{text}");
    let garbage = [("PMI_FD", "nonsense"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
    let (ok, text) = connect_with(&garbage);
    assert!(!ok && text.contains("`nonsense`"), "{text}");
    let closed = [("PMI_FD", "77"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
    let (ok, text) = connect_with(&closed);
    assert!(!ok && text.contains("PMI_FD 77"), "{text}");
}

/// A value that cannot be used is refused with the variable's name and what it
/// takes; an empty one counts as not set.
#[test]
fn settings_are_checked() {
    for (name, value, takes) in [
        ("RANKWAY_TIMEOUT", "soon", "seconds"),
        ("RANKWAY_TIMEOUT", "0", "from 1"),
        ("RANKWAY_TIMEOUT", "-3", "seconds"),
        ("RANKWAY_SHM_PEERS", "257", "from 0 to 256"),
        ("RANKWAY_EAGER_CREDIT", "1MiB", "bytes"),
        ("RANKWAY_EAGER_MESSAGES", "1e3", "messages"),
        ("RANKWAY_BULK_PIECE", "0", "from 1"),
        ("RANKWAY_WINDOW_KEYS", "few", "bytes"),
        ("RANKWAY_NODE_QUEUES", "maybe", "1, on or yes"),
        ("RANKWAY_NETMOD", "verbs", "ofi, ucx or node"),
        ("RANKWAY_DATATYPE_PLAN", "tile", "tile="),
        ("RANKWAY_TRANSFER", "fast", "store, crossmemory, iov, blocks or pack"),
        ("RANKWAY_MAP_STRATEGY", "fast", "auto, table, time, space, hybrid or hybrid:ALPHA"),
        ("RANKWAY_BOOT", "telepathy", "local, pmix, pmi1 or alone"),
    ] {
        let (ok, text) = connect_with(&[(name, value)]);
        let told = text.contains(&format!("{name} is '{value}'")) && text.contains(takes);
        assert!(!ok && told, "{name}={value}: {text}");
        let (ok, text) = connect_with(&[(name, "")]);
        assert!(ok, "{name}=: {text}");
    }
}

#[test]
#[cfg(feature = "pmix")]
fn a_missing_libpmix_says_what_to_install() {
    let variables = [
        ("PMIX_NAMESPACE", "nowhere"),
        ("PMIX_RANK", "0"),
        ("RANKWAY_PMIX", "/nonexistent/libpmix.so.2"),
    ];
    let (ok, text) = connect_with(&variables);
    assert!(!ok && text.contains("apt install libpmix2"), "{text}");
}
