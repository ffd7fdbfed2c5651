//! Bad luck: providers that are not there, garbage from peers, peers that die
//! or stop, more ranks than shared memory takes, launchers. Real
//! processes, bytes checked, nothing may hang or be left behind.

#![allow(unreachable_pub, reason = "modules of one test program")]

mod deaths;
#[cfg(target_arch = "x86_64")]
mod halves;
#[path = "../../harness/mod.rs"]
mod harness;
mod limits;
mod loops;
mod refusals;
#[path = "../../rma/mod.rs"]
mod rma;

use deaths::{deaths, dropped_for_a_death, killed_in_puts, shared_marks, survivors};
use harness::{Over, Result, Scenario, UCX_ABORTS, clean, content, text};
use limits::*;
use rankway::boot::Boot;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
#[cfg(feature = "ucx")]
use rankway::netmod::ucx::Ucx;
use rankway::rma::{Communicator, Error};
use refusals::*;
use rma::{ALLOCATED, CREATED, late, make, open};
use std::process::{ExitCode, Output};
use std::sync::Arc;

/// What every rank of a scenario does.
type Body = fn(Arc<dyn Boot>) -> Result;

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

fn well_and_clean(output: &Output) -> Result {
    content(output).and_then(|()| clean(output))
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
    deaths::<Node>("node", &[]).into_iter().for_each(&mut add);
    #[cfg(target_arch = "x86_64")]
    halves::halves().into_iter().for_each(&mut add);
    for provider in ["shm", "tcp"] {
        let name = format!("marks that ranks share/{provider}");
        add(over(name, provider, 3, shared_marks::<Ofi>).verdict(survivors));
    }
    // No memory is shared between nodes, so the library moves the bytes.
    let message: [(&str, Body); 2] = [
        ("killed in a long receive/tcp", late::message::<false, Ofi>),
        ("killed in a long send/tcp", late::message::<true, Ofi>),
    ];
    for (name, body) in message {
        add(over(name.into(), "tcp", 3, body).nodes(3).verdict(survivors));
    }
    loops::loops::<Node>("node", &[], 1).into_iter().for_each(&mut add);
    loops::loops::<Ofi>("tcp", &[("RANKWAY_PROVIDER", "tcp")], 3).into_iter().for_each(&mut add);
    #[cfg(feature = "ucx")]
    for s in loops::loops::<Ucx>("ucx tcp", &[("UCX_TLS", "tcp,self")], 3) {
        add(s.library(UCX_ABORTS));
    }
    #[cfg(feature = "ucx")]
    for (network, tls) in [("ucx", ""), ("ucx tcp", "tcp,self")] {
        let env: &[_] = if tls.is_empty() { &[] } else { &[("UCX_TLS", tls)] };
        for s in deaths::<Ucx>(network, env).into_iter().map(|s| s.library(UCX_ABORTS)) {
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
    let dropped = Scenario::new("dropped for a death/node", 3, dropped_for_a_death::<Node>);
    add(dropped.verdict(survivors));
    add(Scenario::new("stale key/node", 3, stale_key::<Node>));
    add(over("stale key/tcp".into(), "tcp", 3, stale_key::<Ofi>));
    // Between nodes nobody sees a process end: the network tells.
    let body = killed_in_puts::<CREATED, 8, false, Ofi>;
    let apart = over("killed in puts/two nodes".into(), "", 3, body);
    add(apart.nodes(3).verdict(survivors));
    add(Scenario::new("garbage addresses", 1, garbage_addresses));
    let alone = ("RANKWAY_NODE_QUEUES", "0");
    let (shm, tcp) = (("RANKWAY_PROVIDER", "shm"), ("RANKWAY_PROVIDER", "tcp"));
    let ofi: [Body; 2] = [left_alive::<false, Ofi>, left_alive::<true, Ofi>];
    let node: [Body; 2] = [left_alive::<false, Node>, left_alive::<true, Node>];
    let mut left = vec![
        ("node", vec![], node),
        ("shm", vec![shm], ofi),
        ("tcp", vec![tcp], ofi),
        ("tcp alone", vec![tcp, alone], ofi),
        ("shm alone", vec![shm, alone], ofi),
    ];
    #[cfg(feature = "ucx")]
    let ucx: [Body; 2] = [left_alive::<false, Ucx>, left_alive::<true, Ucx>];
    #[cfg(feature = "ucx")]
    left.extend([
        ("ucx", vec![], ucx),
        ("ucx posix", vec![("UCX_TLS", "posix,self"), alone], ucx),
        ("ucx tcp", vec![("UCX_TLS", "tcp,self"), alone], ucx),
    ]);
    for (network, env, bodies) in left {
        for (met, body) in ["never met", "met"].into_iter().zip(bodies) {
            let s = Scenario::new(format!("left alive, {met}/{network}"), 3, body);
            add(env.iter().fold(s, |s, (key, value)| s.env(key, *value)));
        }
    }

    let refusing = |name: &str, body: fn(Arc<dyn Boot>) -> Result| {
        Scenario::new(format!("refused/{name}"), 2, body).verdict(well_and_clean)
    };
    let nosuch =
        |boot: Arc<dyn Boot>| refuses(boot, &["'nosuch'", "tcp;ofi_rxm", "RANKWAY_PROVIDER"]);
    add(refusing("RANKWAY_PROVIDER", nosuch).env("RANKWAY_PROVIDER", "nosuch"));
    add(refusing("node and another", nosuch).env("RANKWAY_PROVIDER", "node,nosuch"));
    let filtered = |boot: Arc<dyn Boot>| refuses(boot, &["'nosuch'", "FI_PROVIDER"]);
    add(refusing("FI_PROVIDER", filtered).env("FI_PROVIDER", "nosuch"));
    let no_rma = |boot: Arc<dyn Boot>| refuses(boot, &["udp", "no RMA", "FI_PROVIDER"]);
    let only_udp = "^ofi_rxd,ofi_rxm,tcp,net,sockets,shm,sm2,verbs,psm,psm2,psm3,opx,ucx";
    add(refusing("without RMA", no_rma).env("FI_PROVIDER", only_udp));
    let named = refusing("without RMA, named", no_rma).env("FI_PROVIDER", only_udp);
    add(named.env("RANKWAY_PROVIDER", "udp"));
    let none =
        |boot: Arc<dyn Boot>| refuses(boot, &["/nonexistent", "RANKWAY_LIBFABRIC", "install"]);
    let nowhere = ("RANKWAY_LIBFABRIC", "/nonexistent");
    add(refusing("no libfabric", none).env(nowhere.0, nowhere.1).env("RANKWAY_PROVIDER", "shm"));
    add(refusing("no libfabric, on a node", none).env(nowhere.0, nowhere.1));
    match in_own_mounts(WITHOUT_LIBFABRIC) {
        Ok(words) => {
            // It is not looked for where nobody needs it.
            let unneeded = Scenario::new("no libfabric/on a node", 3, rma::words::<CREATED, Ofi>);
            add(unneeded.under(&words));
            let none = |boot: Arc<dyn Boot>| refuses(boot, &["'tcp'", "libfabric", "install"]);
            add(refusing("tcp without libfabric", none)
                .env("RANKWAY_PROVIDER", "tcp")
                .under(&words));
        }
        Err(why) => eprintln!("no libfabric: skipped, no mount namespace: {why}"),
    }
    add(Scenario::new("refused/one rank", 3, one_without_provider));

    let no_files = |boot: Arc<dyn Boot>| refuses(boot, &["1048576 bytes", "ulimit -f"]);
    add(refusing("short files", no_files).under(&SHORT_FILES));
    let shm = refusing("short files, shm", no_files).env("RANKWAY_PROVIDER", "shm");
    add(shm.under(&SHORT_FILES));
    #[cfg(feature = "ucx")]
    {
        let no_files = |boot: Arc<dyn Boot>| refuses_over::<Ucx>(boot, &["ucx", "ulimit -f"]);
        add(refusing("short files, ucx", no_files).under(&SHORT_FILES));
        let few = |boot: Arc<dyn Boot>| refuses_over::<Ucx>(boot, &["ulimit -n"]);
        add(refusing("few descriptors, ucx", few).under(&FEW_DESCRIPTORS));
    }
    // Nothing of the node's can be shared: tcp serves.
    add(Scenario::new("no files", 2, rma::words::<CREATED, Ofi>).under(&NO_FILES));
    let short = over("short files/tcp".into(), "tcp", 2, short_files);
    add(short.under(&SHORT_FILES));

    match in_own_mounts(SMALL_SHM) {
        Ok(words) => {
            let full = |boot: Arc<dyn Boot>| refuses(boot, &["/dev/shm", "bytes free", "remount"]);
            let named = refusing("full shm", full).env("RANKWAY_PROVIDER", "shm");
            add(named.under(&words));
            // What one rank may have, libfabric hides from all where there are two processors.
            if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)
                && let Ok(words) = in_own_mounts(SHM_FOR_ONE)
            {
                let one = refusing("shm for one", full).env("RANKWAY_PROVIDER", "shm");
                add(one.under(&words));
            }
            add(Scenario::new("full shm/network", 2, rma::words::<CREATED, Ofi>).under(&words));
            if let Ok(words) = in_own_mounts(READ_ONLY_SHM) {
                let read_only = Scenario::new("read-only shm", 2, rma::words::<CREATED, Ofi>);
                add(read_only.under(&words));
            }
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
    // (With a setting of libfabric's own it chooses for the node too.)
    let crowded = |name: &str, ranks, body: Body| {
        Scenario::new(name, ranks, body).env("FI_PROVIDER", "^nosuch")
    };
    add(crowded("crowd/5", 5, crowd).env("RANKWAY_SHM_PEERS", "4"));
    add(crowded("crowd/words", 4, rma::words::<CREATED, Ofi>).env("RANKWAY_SHM_PEERS", "3"));
    let mapped = Scenario::new("crowd/mapped words", 4, rma::words::<ALLOCATED, Ofi>);
    add(mapped.env("RANKWAY_SHM_PEERS", "2").env("RANKWAY_PROVIDER", "shm,tcp"));
    let without = over("crowd/shm alone".into(), "shm", 3, crowd_without_network);
    add(without.env("RANKWAY_SHM_PEERS", "2"));
    // Half a minute of opening libfabric 257 times on two cores.
    add(crowded("crowd/257", 257, crowd).slow());

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
