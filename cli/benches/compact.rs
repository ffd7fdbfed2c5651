//! Bytes and nanoseconds of every compact form of the thesis's classes A to E
//! (Mir Taheri 2011, chapter 5) on a world of one million, beside the fewest
//! bytes that could tell such a map from the others of its class.
//!
//! `cargo bench -p rankway-cli --bench compact -- [--class A] [--json]`
//!
//! Times are the least of many chunks, the chain's own arithmetic included, which
//! the line `the chain alone` shows: `random` is a chain of lookups in which
//! each rank depends on the lpid before, `walk` is the iterator, `rank` the
//! inverse, `build` the whole of `Compact::new` by strategy or `Compact::build`.
//! `table` is the same chain over a `u32` array of as many bytes as the form has,
//! in the same run: what the caches of this machine ask for any answer from so
//! many bytes, and so the floor of `random`.

use std::hint::black_box;
use std::time::Duration;

use rankway::rankmap::compact::{Compact, Representation, Strategy};
use rankway_cli::observe::maps::{CATALOG, Group, MILLION, Sample, clock};

/// For each kind of measurement of a form.
const BUDGET: Duration = Duration::from_secs(1);

struct Times {
    random: f64,
    walk: f64,
    rank: f64,
}

fn times(map: &Compact, lpids: &[u32]) -> Times {
    Times {
        random: clock::random(BUDGET, map.len(), |rank| map.find(rank).unwrap_or(0)),
        walk: clock::walk(BUDGET, map.len(), || map.iter()),
        rank: clock::inverse(BUDGET, lpids, |lpid| map.position(lpid)),
    }
}

fn main() {
    let mut json = false;
    let mut class = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--class" => class = arguments.next(),
            // Cargo passes --bench.
            _ => {}
        }
    }
    let mut objects = Vec::new();
    if !json {
        let alone = clock::random(BUDGET, black_box(1 << 20), |rank| rank);
        println!("# the chain alone: {alone:.1} ns a lookup\n");
    }
    for one in CATALOG.iter().filter(|one| one.group == Group::Classes) {
        if class.as_ref().is_some_and(|class| class != one.name) {
            continue;
        }
        let (name, what) = (one.name, one.what);
        let Ok(Sample { radices, lpids, bound, .. }) = one.make(one.universe, 0) else { continue };
        let (lpids, radices, class) = (&lpids[..], &radices[..], name);
        let count = lpids.len() as f64;
        let bound = bound.bytes() / count;
        if !json {
            println!("# class {class}: {what}, {} ranks", lpids.len());
            println!("# bound {bound:.6} bytes a member");
            println!(
                "{:<22}{:>14}{:>10}{:>10}{:>8}{:>8}{:>8}{:>12}{:>9}",
                "",
                "bytes/member",
                "x bound",
                "random",
                "table",
                "walk",
                "rank",
                "with rank",
                "build"
            );
        }
        let mut show = |name: &str, make: &dyn Fn() -> Option<Compact>, chosen: bool| {
            let Some(map) = make() else { return };
            assert!(map.iter().eq(lpids.iter().copied()), "{name} is wrong");
            let bytes = map.bytes() as f64 / count;
            let slow = map.representation() == Representation::Diagram;
            let build = clock::least(BUDGET, if slow { 2 } else { 5 }, lpids.len() as u32, || {
                black_box(make());
            });
            let table = clock::floor(BUDGET, map.bytes() as u64);
            let times = times(&map, lpids);
            let with = map.bytes() as f64 / count;
            let name =
                if chosen { format!("{name} = {}", map.representation()) } else { name.to_owned() };
            if json {
                objects.push(format!(
                    "{{\"class\":\"{}\",\"form\":\"{name}\",\"bytes\":{bytes:.6},\"bound\":{bound:.6},\"random_ns\":{:.2},\"table_ns\":{table:.2},\"walk_ns\":{:.2},\"rank_ns\":{:.2},\"bytes_with_inverse\":{with:.6},\"build_ns\":{build:.2}}}",
                    class, times.random, times.walk, times.rank
                ));
            } else {
                println!(
                    "{name:<22}{bytes:>14.6}{:>10.2}{:>10.1}{table:>8.1}{:>8.1}{:>8.1}{with:>12.6}{build:>9.1}",
                    bytes / bound,
                    times.random,
                    times.walk,
                    times.rank
                );
            }
        };
        for one in Representation::ALL {
            show(
                one.name(),
                &|| Compact::build_with_radices(one, radices, lpids.iter().copied()).ok(),
                false,
            );
        }
        if !radices.is_empty() {
            let bits = || Compact::build(Representation::Diagram, lpids.iter().copied()).ok();
            show("diagram of bits", &bits, false);
        }
        for strategy in [Strategy::Space, Strategy::default(), Strategy::Time] {
            let name = strategy.to_string();
            let name = name.split(':').next().unwrap_or(&name);
            show(
                name,
                &|| Compact::with_radices(strategy, radices, lpids.iter().copied()).ok(),
                true,
            );
        }
        if !json {
            println!();
        }
    }
    if json {
        println!("{{\"universe\":{MILLION},\"compact\":[{}]}}", objects.join(","));
    }
}
