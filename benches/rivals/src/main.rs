//! Maintained crates beside rankway's compact rank maps: the thesis's classes,
//! bytes and nanoseconds, each as a ratio to ours of the same kind in this run.
//!
//! `cargo run --release -- [--class A] [--short] [--json]`
//!
//! All are called through the same trait object; bytes are what the allocator
//! was asked for. `--short` is a small world, to see that it runs.

use rankway::rankmap::compact::{Compact, Representation, Strategy};
use rankway_cli::observe::maps::{CATALOG, Group, Sample, clock};
use rankway_cli::observe::memory::Counting;
use rankway_rivals::{KINDS, Rival, bdd};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static HEAP: Counting = Counting::new();

/// What one structure costs; NaN for what it does not answer.
#[derive(Clone, Copy)]
struct Cost {
    /// Of each member.
    bytes: f64,
    random: f64,
    rank: f64,
    build: f64,
}

fn measure(
    lpids: &[u32],
    ranks: bool,
    budget: Duration,
    make: impl Fn() -> Option<Box<dyn Rival>>,
) -> Result<Option<Cost>, String> {
    let len = lpids.len() as u32;
    let (map, heap) = HEAP.during(&make);
    let Some(map) = map else { return Ok(None) };
    let checked = |rank: &usize| map.select(*rank as u32) == lpids[*rank];
    if !(0..lpids.len()).step_by(lpids.len() / 200 + 1).all(|rank| checked(&rank)) {
        return Err("it answers wrongly".into());
    }
    let random = clock::random(budget, len, |rank| map.select(rank));
    let rank = match ranks {
        true => clock::inverse(budget, lpids, |lpid| map.rank(lpid)),
        false => f64::NAN,
    };
    let build = clock::least(budget, 3, len, || drop(make()));
    let bytes = heap.live as f64 / f64::from(len);
    Ok(Some(Cost { bytes, random, rank, build }))
}

fn representation(name: &str) -> Option<Representation> {
    Representation::ALL.into_iter().find(|one| one.name() == name)
}

fn ours(one: Representation, lpids: &[u32]) -> Option<Box<dyn Rival>> {
    let map = Compact::build(one, lpids.iter().copied()).ok()?;
    Some(Box::new(map))
}

/// A figure, and in brackets how many times ours it is.
fn beside(value: f64, ours: f64, digits: usize) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    let ratio = value / ours;
    if ratio.is_nan() {
        format!("{value:.digits$}")
    } else {
        format!("{value:.digits$} ({ratio:.2})")
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { "null".to_owned() }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rivals: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut json, mut short, mut class) = (false, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--short" => short = true,
            "--class" => class = Some(arguments.next().ok_or("--class takes a letter")?),
            other => return Err(format!("{other} is none of --class, --short, --json")),
        }
    }
    let budget = Duration::from_millis(if short { 5 } else { 300 });
    let mut objects = Vec::new();
    for one in CATALOG.iter().filter(|one| one.group == Group::Classes) {
        if class.as_ref().is_some_and(|class| !class.eq_ignore_ascii_case(one.name)) {
            continue;
        }
        let universe = if short { 20_000 } else { one.universe };
        let sample = one.make(universe, 0).map_err(|e| e.to_string())?;
        let set = sample.is_set();
        let Sample { lpids, radices, bound, .. } = sample;
        let floor = bound.bytes() / lpids.len() as f64;
        if !json {
            println!(
                "# class {}: {}, {} ranks; bound {floor:.6} bytes a member",
                one.name,
                one.what,
                lpids.len()
            );
            println!("# each figure of a rival: beside it, in brackets, how many times ours it is");
            println!(
                "{:<26}{:>20}{:>16}{:>16}{:>16}",
                "", "bytes/member", "random ns", "rank ns", "build ns"
            );
        }
        let mut show = |name: &str, like: &str, cost: Cost, ours: Cost| {
            if json {
                objects.push(format!(
                    "{{\"class\":\"{}\",\"name\":\"{name}\",\"like\":\"{like}\",\"bytes\":{},\"random_ns\":{},\"rank_ns\":{},\"build_ns\":{},\"bytes_ratio\":{},\"random_ratio\":{},\"rank_ratio\":{}}}",
                    one.name,
                    number(cost.bytes),
                    number(cost.random),
                    number(cost.rank),
                    number(cost.build),
                    number(cost.bytes / ours.bytes),
                    number(cost.random / ours.random),
                    number(cost.rank / ours.rank),
                ));
            } else {
                println!(
                    "{name:<26}{:>20}{:>16}{:>16}{:>16}",
                    beside(cost.bytes, ours.bytes, 4),
                    beside(cost.random, ours.random, 1),
                    beside(cost.rank, ours.rank, 1),
                    beside(cost.build, ours.build, 1),
                );
            }
        };
        let none = Cost { bytes: f64::NAN, random: f64::NAN, rank: f64::NAN, build: f64::NAN };
        let space = || {
            let map = Compact::with_radices(Strategy::Space, &radices, lpids.iter().copied());
            map.ok().map(|map| Box::new(map) as Box<dyn Rival>)
        };
        if let Some(picked) = measure(&lpids, true, budget, space)? {
            show("rankway's smallest", "space", picked, none);
        }
        let mut likes: Vec<&str> = Vec::new();
        for kind in KINDS {
            if !likes.contains(&kind.like) {
                likes.push(kind.like);
            }
        }
        for like in likes {
            let mine = match representation(like) {
                Some(mine) => measure(&lpids, true, budget, || ours(mine, &lpids))?,
                None => None,
            };
            if let Some(mine) = mine {
                show(&format!("rankway {like}"), like, mine, none);
            }
            for kind in KINDS.iter().filter(|kind| kind.like == like && (set || kind.lists)) {
                let cost = measure(&lpids, kind.ranks, budget, || Some(kind.build(&lpids)))
                    .map_err(|why| format!("{}, class {}: {why}", kind.name, one.name))?;
                if let Some(cost) = cost {
                    show(&format!("  {}", kind.name), like, cost, mine.unwrap_or(none));
                }
            }
        }
        // Without SELECT: only what it weighs. Random sets take it minutes.
        if set && one.name != "A" {
            let bits = universe.next_power_of_two().trailing_zeros() as u16;
            let mine = measure(&lpids, true, budget, || ours(Representation::Diagram, &lpids))?;
            let (diagram, heap) = HEAP.during(|| bdd::diagram(&lpids, bits));
            let bytes = heap.live as f64 / lpids.len() as f64;
            if let Some(mine) = mine {
                show("rankway diagram", "diagram", mine, none);
                show("  biodivine BDD", "diagram", Cost { bytes, ..none }, mine);
            }
            if diagram.count() != lpids.len() as u64 {
                return Err(format!("biodivine, class {}: it counts wrongly", one.name));
            }
        }
        if !json {
            println!();
        }
    }
    if json {
        println!("{{\"rivals\":[{}]}}", objects.join(","));
    }
    Ok(())
}
