//! What the ranks of a job do: the cases or the programs that its environment
//! names.

use super::factors::{Case, Place, RANKS, Threads, pairs};
use super::networks::Network;
use super::play::Player;
use super::program::{Program, of_case};
use super::random;
use super::watch::Watch;
use super::workers::Workers;
use crate::harness::{Opens, Result, Scenario, in_scenario, text};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::device::{Context, Options};
use rankway::netmod::Netmod;
use rankway::netmod::in_process::InProcess;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::Ucx;
use rankway::rma::Communicator;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Which cases: numbers with commas; those of all pairs where nothing is said.
pub const CASES: &str = "RANKWAY_MATRIX_CASES";
/// Words that the names of cases contain, with commas.
pub const FILTER: &str = "RANKWAY_MATRIX_FILTER";
/// How long random programs run on each network.
pub const SECONDS: &str = "RANKWAY_RANDOM_SECONDS";
/// The seed of the first of them.
pub const SEED: &str = "RANKWAY_RANDOM_SEED";
/// How many, if not for a time.
pub const COUNT: &str = "RANKWAY_RANDOM_COUNT";

/// Of a job, on a machine that has much else to do: each case has a limit of its
/// own.
const LIMIT: Duration = Duration::from_secs(240);

/// The jobs of a network, without threads and with them, and their first seed.
pub fn scenarios(network: &Network, seed: u64) -> Vec<Scenario> {
    match network.netmod {
        "ucx" => of::<Ucx>(network, seed),
        "node" => of::<Node>(network, seed),
        "in process" => {
            let all = of::<InProcess>(network, seed);
            all.into_iter().map(Scenario::in_one_process).collect()
        }
        _ => of::<Ofi>(network, seed),
    }
}

/// The seed that is asked for, or one that differs by run.
pub fn seed() -> Result<u64> {
    Ok(number(SEED)?.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_secs() % 1_000_000 * 1_000)
    }))
}

pub fn name(what: &str, network: &Network, several: bool) -> String {
    format!("{what}/{}{}", network.name, if several { "/threads" } else { "" })
}

fn of<N: Opens>(network: &Network, seed: u64) -> Vec<Scenario> {
    let scenario = |name: String, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(name, ranks, body).nodes(network.nodes).limit(LIMIT);
        network.env.iter().fold(scenario, |s, (key, value)| s.env(key, value.as_str()))
    };
    let random = |name, ranks, body| scenario(name, ranks, body).env(SEED, seed.to_string());
    let product = |several, body| {
        let scenario = scenario(name("pairs", network, several), RANKS, body);
        match in_scenario() || asked(CASES).is_some() {
            true => scenario,
            false => scenario.env(CASES, pairs_of(network.place(false))),
        }
    };
    let mut all = vec![
        product(false, cases::<N, false>),
        product(true, cases::<N, true>),
        random(name("random", network, false), RANKS, programs::<N, false>),
        random(name("random", network, true), RANKS, programs::<N, true>),
    ];
    for ranks in [2, 7] {
        let body = if ranks == 2 { some::<N, false> } else { some::<N, true> };
        all.push(random(format!("random/{}/{ranks}", network.name), ranks, body));
    }
    // Two programs that ended a rank in most runs: it answered a peer that it had not
    // spoken to from within UCX's callback.
    if network.name == "ucx-tcp" {
        let found = scenario(format!("found/{}/threads", network.name), RANKS, programs::<N, true>);
        all.push(found.env(SEED, "385399000").env(COUNT, "2"));
    }
    // For drivers, which say what else they want.
    let alone = Scenario::new(name("inject", network, false), 1, inject::<N>).slow();
    all.push(network.env.iter().fold(alone, |s, (key, value)| s.env(key, value.as_str())));
    all
}

fn asked(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

fn number<T: std::str::FromStr>(variable: &str) -> Result<Option<T>> {
    let value = asked(variable);
    let parsed =
        value.map(|value| value.parse().map_err(|_| format!("{variable}={value}: a number")));
    parsed.transpose()
}

/// The cases of a place in which all pairs occur, for [`CASES`]: to find them takes a
/// second, which is not spent in each rank.
fn pairs_of(place: Place) -> &'static str {
    static TEXTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    TEXTS[usize::from(place.one_node)].get_or_init(|| {
        let numbers: Vec<String> = pairs(place).iter().map(usize::to_string).collect();
        numbers.join(",")
    })
}

/// The cases that are asked for, of a job with threads or without.
pub fn chosen(place: Place, several: bool) -> Result<Vec<usize>> {
    let what = asked(CASES).ok_or_else(|| format!("{CASES}: which cases?"))?;
    let words: Vec<String> =
        asked(FILTER).map(|f| f.split(',').map(str::to_owned).collect()).unwrap_or_default();
    let wanted = |&number: &usize| {
        let case = Case::numbered(number);
        let name = case.name();
        (case.threads != Threads::One) == several && words.iter().all(|word| name.contains(word))
    };
    let number = |n: &str| n.parse().map_err(|_| format!("{CASES}: {n} is no number of a case"));
    let numbers = what.split(',').map(number).collect::<Result<Vec<usize>>>()?;
    let there = |n: &usize| Case::numbered(*n).impossible(place);
    match numbers.iter().find_map(|n| Some((n, there(n)?))) {
        Some((number, why)) => Err(format!("there is no case {number}: {why}")),
        None => Ok(numbers.into_iter().filter(wanted).collect()),
    }
}

fn inject_size<N: Netmod>(context: &Context<N>) -> usize {
    let endpoint =
        context.endpoint(Transport::Local).or_else(|| context.endpoint(Transport::Network));
    // At least what the other lengths leave free.
    endpoint.map_or(64, |(netmod, _)| netmod.caps().inject_size).max(16)
}

fn inject<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    println!("inject {}", inject_size(&*N::open(boot)?));
    Ok(())
}

/// Keeps what was freed: megabytes come back in every case, and the kernel would clear
/// their pages each time.
fn keep_memory() {
    for setting in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: mallopt takes two integers.
        unsafe { libc::mallopt(setting, 1 << 30) };
    }
}

/// Opens what a job needs and has it play; what was wrong fails the job.
fn play<N: Opens>(
    boot: Arc<dyn Boot>,
    several: bool,
    body: impl FnOnce(&mut Player<'_, N>, &Communicator<N>, Place, usize) -> Result,
) -> Result {
    keep_memory();
    let rank = boot.rank();
    let first = boot.node_of(0).map_err(text)?;
    let mut one_node = true;
    for rank in 1..boot.size() {
        one_node &= boot.node_of(rank).map_err(text)? == first;
    }
    let options = Options::default().threads(several);
    let context = N::open_with(Arc::clone(&boot), &options)?;
    let world = Communicator::world(&context);
    let watch = Watch::new(rank);
    let (device, watch, inject) = (context.device(), &watch, inject_size(&context));
    std::thread::scope(|scope| {
        let workers = Workers::new(scope, device, watch);
        let mut player = Player::new(&context, &world, &workers, watch);
        let place = Place { mpi: false, one_node };
        let played = body(&mut player, &world, place, inject).and_then(|()| player.close());
        if let Err(why) = played {
            // The others wait for this one, and its own threads too.
            eprintln!("FAILED case {}: rank {rank}: {why}", watch.case());
            boot.abort(1, "a case could not be played");
        }
        watch.rests();
        match player.failures {
            0 => Ok(()),
            n => Err(format!("{n} cases came out wrong")),
        }
    })
}

/// Cases of the matrix.
fn cases<N: Opens, const SEVERAL: bool>(boot: Arc<dyn Boot>) -> Result {
    play::<N>(boot, SEVERAL, |player, world, place, inject| {
        let cases = chosen(place, SEVERAL)?;
        for &number in &cases {
            player.play(&of_case(&Case::numbered(number), world.size(), inject))?;
        }
        if world.rank() == 0 {
            println!("completed {}", cases.len());
        }
        Ok(())
    })
}

/// Random programs, for a time. Half of it is that of the job with threads.
fn programs<N: Opens, const SEVERAL: bool>(boot: Arc<dyn Boot>) -> Result {
    let time = Duration::from_secs(number(SECONDS)?.unwrap_or(20)) / 2;
    let (first, count) = (number(SEED)?.unwrap_or(1), number(COUNT)?);
    random::<N>(boot, SEVERAL, first, |played, since| match count {
        Some(count) => played < count,
        None => since.elapsed() < time,
    })
}

/// A few, with another number of ranks.
fn some<N: Opens, const SEVERAL: bool>(boot: Arc<dyn Boot>) -> Result {
    random::<N>(boot, SEVERAL, number(SEED)?.unwrap_or(1), |played, _| played < 12)
}

fn random<N: Opens>(
    boot: Arc<dyn Boot>,
    several: bool,
    first: u64,
    more: impl Fn(u64, Instant) -> bool,
) -> Result {
    play::<N>(boot, several, |player, world, place, inject| {
        let since = Instant::now();
        let mut played = 0;
        loop {
            // The first rank's clock counts.
            let go_on = [u8::from(more(played, since))];
            let told = world.broadcast(0, (world.rank() == 0).then_some(&go_on[..]));
            if told.map_err(text)? != [1] {
                break;
            }
            let program: Program =
                random::program(first + played, several, world.size(), place, inject);
            player.play(&program)?;
            played += 1;
        }
        if world.rank() == 0 {
            println!("completed {played} programs, seeds {first} to {}", first + played - 1);
        }
        Ok(())
    })
}
