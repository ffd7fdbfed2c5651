//! Messages between real processes, bytes checked, over every choice of
//! providers a machine without a fast network has.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "mod.rs"]
mod msg;

use harness::{Over, Scenario, UCX_ABORTS};
use msg::{
    Opens, basics, calls, closings, corrupt, cuts, deaths, descriptors, floods, layouts, programs,
    scopes, sleeps,
};
use rankway::netmod::in_process::InProcess;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use std::process::ExitCode;

fn scenarios<N: Opens>(all: &mut Vec<Scenario>, name: &str, env: &[(&'static str, &str)]) {
    let mut add = |what: &str, ranks, body, more: &[(&'static str, &str)]| {
        let scenario = Scenario::new(format!("{what}/{name}"), ranks, body);
        all.push(env.iter().chain(more).fold(scenario, |s, (k, v)| s.env(k, *v)));
    };
    let small = [("RANKWAY_EAGER_CREDIT", "16384"), ("RANKWAY_EAGER_MESSAGES", "64")];
    let pieces = [("RANKWAY_BULK_PIECE", "5000")];
    add("sizes", 2, basics::sizes::<N>, &[]);
    add("wildcards", 3, basics::wildcards::<N>, &[]);
    add("probes", 2, basics::probes::<N>, &[]);
    add("synchronous", 2, basics::synchronous::<N>, &[]);
    add("completion queue", 3, basics::completion_queue::<N>, &[]);
    add("early", 2, basics::early::<N>, &[]);
    add("unexpected", 3, floods::unexpected::<N>, &[]);
    add("credit", 2, floods::credit::<N>, &small);
    add("behind what lies there", 3, floods::behind::<N>, &small);
    add("behind what probes hold", 2, floods::held::<N>, &small);
    add("at once", 3, floods::at_once::<N>, &[]);
    add("at once on little credit", 3, floods::at_once::<N>, &small);
    add("both beyond credit", 2, floods::beyond_credit::<N>, &[]);
    add("crossing", 4, floods::crossing::<N>, &[]);
    add("crossing in pieces", 3, floods::crossing::<N>, &pieces);
    add("programs", 4, programs::random::<N>, &[]);
    add("programs of eight", 8, programs::random::<N>, &[]);
    add("programs on little credit", 3, programs::random::<N>, &small);
    add("programs in pieces", 2, programs::random::<N>, &pieces);
    add("layouts", 2, layouts::shapes::<N>, &[]);
    add("layouts on little credit", 3, layouts::shapes::<N>, &small);
    add("layouts in pieces", 2, layouts::shapes::<N>, &pieces);
    add("long layouts", 3, layouts::long::<N>, &[]);
    add("layouts to itself", 2, layouts::own::<N>, &[]);
    add("refused layouts", 2, layouts::refusals::<N>, &[]);
    add("replies", 3, calls::replies::<N>, &[]);
    add("replies on little credit", 2, calls::replies::<N>, &small);
    add("sends that are withdrawn", 2, calls::withdrawn::<N>, &[]);
    add("calls put off", 2, calls::put_off::<N>, &[]);
    add("posts", 3, calls::posts::<N>, &[]);
    add("posts on little credit", 2, calls::posts::<N>, &small);
    add("nested", 2, calls::nested::<N>, &[]);
    add("mailbox", 3, calls::mailbox::<N>, &small);
    add("long wait", 2, sleeps::long_wait::<N>, &[]);
    add("vcis", 2, sleeps::vcis::<N>, &[]);
    add("contexts that come again", 2, sleeps::reopened::<N>, &[]);
    add("left behind its first word", 2, sleeps::left::<N, 1, 0>, &[]);
    add("left behind a hundred", 2, sleeps::left::<N, 100, 0>, &[]);
    add("left behind thousands", 2, sleeps::left::<N, 4000, 0>, &[]);
    add("left behind for who is slow", 2, sleeps::left::<N, 4000, 500>, &[]);
    add("freed sends left behind", 2, sleeps::freed::<N>, &[]);
    add("left by all, unreceived", 3, closings::all::<N>, &[]);
    add("left by one, unreceived", 2, closings::one::<N>, &[]);
    add("let go of behind a closed context", 2, closings::further::<N>, &[]);
    add("memory of closed contexts", 2, closings::memory::<N>, &[]);
    add("calls left behind", 2, calls::left::<N>, &[]);
    add("contexts that are late", 2, |boot| sleeps::late::<N>(boot, &[40, 20_000], 1), &[]);
    add(
        "contexts that are late on little credit",
        2,
        |boot| sleeps::late::<N>(boot, &[100; 40], 1),
        &small,
    );
    add("contexts without end", 2, sleeps::exhausted::<N>, &[]);
    add("shared", 2, sleeps::shared::<N>, &[]);
    add("stopped", 3, deaths::stopped::<N>, &[]);
    add("scope", 3, scopes::exchange::<N>, &[]);
    add("scope on little credit", 3, scopes::exchange::<N>, &small);
    add("scope with an error", 2, scopes::error::<N>, &[]);
    add("scope with a panic", 2, scopes::panic::<N>, &[]);
    add("scopes that both fail", 2, scopes::both_fail::<N>, &[]);
    add(
        "scopes that both fail, by network",
        2,
        scopes::both_fail::<N>,
        &[("RANKWAY_NODE_QUEUES", "0")],
    );
    add("a handler's panic", 2, scopes::handler_panic::<N>, &[]);
    // Some seconds of copying.
    let huge = Scenario::new(format!("past 4 GiB/{name}"), 2, floods::huge::<N>).slow();
    all.push(env.iter().fold(huge, |s, (k, v)| s.env(k, *v)));
    let last =
        Scenario::new(format!("killed when first met/{name}"), 10, deaths::last_moments::<N>);
    let last = last.verdict(deaths::only_the_first).library(UCX_ABORTS);
    all.push(env.iter().fold(last, |s, (k, v)| s.env(k, *v)));
    let unheard = Scenario::new(format!("killed unheard/{name}"), 3, deaths::unheard::<N>);
    let unheard = unheard.verdict(deaths::only_the_first).library(UCX_ABORTS);
    all.push(env.iter().fold(unheard, |s, (k, v)| s.env(k, *v)));
    let any = "killed while anybody is awaited";
    let any = Scenario::new(format!("{any}/{name}"), 4, deaths::awaited_from_any::<N>);
    let any = any.verdict(deaths::first_and_last).library(UCX_ABORTS);
    all.push(env.iter().fold(any, |s, (k, v)| s.env(k, *v)));
    let mut add = |what: &str, body| {
        let scenario = Scenario::new(format!("{what}/{name}"), 3, body);
        let scenario = scenario.verdict(deaths::survivors).library(UCX_ABORTS);
        all.push(env.iter().fold(scenario, |s, (k, v)| s.env(k, *v)));
    };
    add("killed amidst a receive", deaths::killed::<N, { deaths::RECEIVE }>);
    add("killed amidst sends", deaths::killed::<N, { deaths::SEND }>);
    add("killed amidst a rendezvous", deaths::killed::<N, { deaths::RENDEZVOUS }>);
    add("killed amidst layouts", deaths::killed::<N, { deaths::LAYOUTS }>);
    add("killed amidst posts", deaths::killed::<N, { deaths::POSTS }>);
    add("killed amidst scopes", scopes::dead::<N>);
    add("killed, and a context closed", sleeps::closed_after_a_death::<N>);
    add("killed beside a synchronous send", deaths::synchronous::<N>);
    add("killed before an RTS is matched", deaths::killed::<N, { deaths::RTS }>);
}

fn main() -> ExitCode {
    let mut all = Vec::new();
    if let Some(over) = Over::chosen() {
        match over.ucx {
            #[cfg(feature = "ucx")]
            true => scenarios::<rankway::netmod::ucx::Ucx>(&mut all, &over.name, &over.env()),
            _ => scenarios::<Ofi>(&mut all, &over.name, &over.env()),
        }
        return harness::main(all);
    }
    // Through the node's queues, and through each provider as between nodes.
    scenarios::<Ofi>(&mut all, "auto", &[]);
    all.push(Scenario::new("corrupt queue/auto", 3, corrupt::queue::<Ofi>));
    all.push(Scenario::new("first answers without descriptors/auto", 3, descriptors::none::<Ofi>));
    all.push(Scenario::new("first answers without descriptors/node", 3, descriptors::none::<Node>));
    all.push(Scenario::new("credit without descriptors/auto", 2, descriptors::credit::<Ofi>));
    all.push(Scenario::new("credit without descriptors/node", 2, descriptors::credit::<Node>));
    let memory = Scenario::new("first message without memory/tcp", 2, descriptors::memory::<Ofi>);
    let memory = memory.env("RANKWAY_PROVIDER", "tcp").env("RANKWAY_NODE_QUEUES", "0");
    all.push(memory);
    // However layouts travel when the costs are others.
    for method in ["crossmemory", "pack"] {
        let mut add = |what: &str, body| {
            let scenario = Scenario::new(format!("{what} by {method}/auto"), 2, body);
            all.push(scenario.env("RANKWAY_TRANSFER", method));
        };
        add("layouts", layouts::shapes::<Ofi>);
        add("long layouts", layouts::long::<Ofi>);
        add("refused layouts", layouts::refusals::<Ofi>);
    }
    let tcp = Scenario::new("corrupt queue/tcp", 3, corrupt::queue::<Ofi>);
    all.push(tcp.env("RANKWAY_PROVIDER", "tcp"));
    let again = Scenario::new("contexts at addresses had before/tcp", 2, sleeps::readdressed);
    all.push(again.env("RANKWAY_PROVIDER", "tcp").env("RANKWAY_NODE_QUEUES", "0"));
    let provider = ("RANKWAY_NODE_QUEUES", "0");
    let mut cut = |what: &str, body| {
        let scenario = Scenario::new(format!("connection cut before {what}/tcp"), 2, body);
        all.push(scenario.env("RANKWAY_PROVIDER", "tcp").env(provider.0, provider.1));
    };
    cut("words", cuts::connection::<Ofi, 8, false>);
    cut("words that are looked for", cuts::connection::<Ofi, 8, true>);
    cut("packets", cuts::connection::<Ofi, 4000, false>);
    cut("long messages", cuts::connection::<Ofi, { 1 << 20 }, false>);
    for (name, providers) in
        [("shm", "shm"), ("tcp", "tcp"), ("both", "shm,tcp"), ("node beside", "node,tcp")]
    {
        scenarios::<Ofi>(&mut all, name, &[("RANKWAY_PROVIDER", providers), provider]);
    }
    scenarios::<Node>(&mut all, "node", &[]);
    scenarios::<Node>(&mut all, "node alone", &[provider]);
    all.push(Scenario::new("corrupt queue/node", 3, corrupt::queue::<Node>));
    let mut in_process = Vec::new();
    scenarios::<InProcess>(&mut in_process, "in process", &[]);
    // (Whoever stops or kills a process means them all.)
    in_process.retain(|it| !["stopped", "killed"].iter().any(|end| it.name.starts_with(end)));
    all.extend(in_process.into_iter().map(Scenario::in_one_process));
    #[cfg(feature = "ucx")]
    {
        use rankway::netmod::ucx::Ucx;
        scenarios::<Ucx>(&mut all, "ucx", &[]);
        all.push(Scenario::new("corrupt queue/ucx", 3, corrupt::queue::<Ucx>));
        for (name, tls) in [("ucx all", "all"), ("ucx tcp", "tcp,self")] {
            scenarios::<Ucx>(&mut all, name, &[("UCX_TLS", tls), provider]);
        }
        let late = |boot| sleeps::late::<Ucx>(boot, &[1000; 20], 6);
        let late = Scenario::new("contexts that are very late/ucx tcp", 2, late);
        all.push(late.env("UCX_TLS", "tcp,self").env(provider.0, provider.1));
    }
    // The same binary with another libfabric, where there is one.
    match std::env::var("RANKWAY_NEWER_LIBFABRIC").ok().filter(|path| !path.is_empty()) {
        Some(path) => {
            for (name, provider) in [("newer shm", "shm"), ("newer tcp", "tcp")] {
                let env = [
                    ("RANKWAY_PROVIDER", provider),
                    ("RANKWAY_LIBFABRIC", path.as_str()),
                    ("RANKWAY_NODE_QUEUES", "0"),
                ];
                scenarios::<Ofi>(&mut all, name, &env);
            }
        }
        None => eprintln!("newer libfabric: skipped, RANKWAY_NEWER_LIBFABRIC does not name one"),
    }
    harness::main(all)
}
