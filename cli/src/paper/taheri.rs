//! Mir Taheri (2011), "Scalability of Communicators in MPI", thesis.

use super::answers::{Answers, find, number};
use super::item::{Better, Chart, How, Item, Outcome, Paper};
use rankway::rankmap::RankMap;
use rankway_cli::observe::figures::thesis::{
    EXPERIMENTS, PROCESSES, SAVED_COMMUNICATORS, SAVED_MB, Seconds, TABLE_6_2, TABLE_6_3, TABLE_6_4,
};
use rankway_cli::observe::figures::{
    MIR_TAHERI_BITMAP_NS, MIR_TAHERI_GAP_NS, MIR_TAHERI_PACKED_MORE_NS, MIR_TAHERI_SUBMESH_BYTES,
    MIR_TAHERI_TABLE_6_1,
};
use serde_json::Value;

pub(super) const PAPER: Paper = Paper {
    key: "taheri",
    label: "Mir Taheri 2011",
    items: &[
        Item {
            key: "fig-4.4",
            label: "Fig. 4.4",
            title: "a plane of a grid of 2^20",
            measure: fig_4_4,
        },
        Item { key: "sec-4", label: "4.1, 4.3", title: "a random lookup", measure: sec_4 },
        Item {
            key: "fig-5",
            label: "Fig. 5.1-5.19",
            title: "classes of communicators, world of a million",
            measure: fig_5,
        },
        Item {
            key: "table-6.1",
            label: "Table 6.1",
            title: "bytes of 14 communicators, world of 200,000",
            measure: table_6_1,
        },
        Item {
            key: "table-6.2",
            label: "Tables 6.2-6.4",
            title: "to create these, 10,000 messages, ten gathers (Figs. 6.1-6.3)",
            measure: tables_6_2,
        },
        Item {
            key: "sec-6.6",
            label: "6.6",
            title: "saved in 40 processes by 8 of each",
            measure: sec_6_6,
        },
    ],
};

const TABLE: &str = "maps table6.1";
/// As few as have members of all in their midst.
const RANKS: &str = "communicators table6.1 --ranks 12000";

/// What is measured with times where there is time.
fn timed(answers: &mut Answers, maps: &str) -> Result<Value, String> {
    let times = if answers.quick { "" } else { " --times" };
    answers.ask(&format!("{maps}{times}"))
}

/// What a strategy picked for a map: its name, its bytes, and the line that was measured.
fn picked<'a>(map: &'a Value, strategy: &str) -> (String, f64, Option<&'a Value>) {
    let chosen = map["chosen"].as_array().into_iter().flatten();
    let chosen = chosen.into_iter().find(|one| {
        one["strategy"].as_str().is_some_and(|name| name.split(':').next() == Some(strategy))
    });
    let Some(chosen) = chosen else { return (String::new(), f64::NAN, None) };
    let name = chosen["representation"].clone();
    let row = find(map, "representations", &[("representation", name.clone())]).ok();
    (name.as_str().unwrap_or_default().to_owned(), number(chosen, "/bytes"), row)
}

fn maps(answer: &Value) -> Vec<&Value> {
    answer["maps"].as_array().into_iter().flatten().collect()
}

fn fig_4_4(_: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("bytes", ["a plane"]);
    let theirs = MIR_TAHERI_SUBMESH_BYTES as f64;
    let theirs = outcome.numbers("paths of a BDD", How::Quoted, 0, [theirs]);
    // Of 64 x 128 x 128, the first one fixed, which is the fastest.
    let points = (0..128 * 128).map(|point| point * 64 + 17);
    let map = RankMap::from_lpids(0, points).map_err(|e| e.to_string())?;
    let ours = outcome.numbers("ours, the whole map", How::Counted, 0, [map.bytes() as f64]);
    outcome.hold(ours, theirs, Better::Lower, 0);
    outcome.note("Theirs without what holds them.");
    Ok(())
}

fn sec_4(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("ns", ["gap encoding", "bitmap", "packed, more than a table"]);
    let most = MIR_TAHERI_PACKED_MORE_NS[1];
    let quoted = [MIR_TAHERI_GAP_NS, MIR_TAHERI_BITMAP_NS, most];
    let theirs = outcome.numbers("at most", How::Quoted, 0, quoted);
    if answers.quick {
        return Err("not with --quick".to_owned());
    }
    let classes = answers.ask("maps classes --times")?;
    let (a, p) = (map(&classes, "A")?, map(&classes, "P")?);
    let ns = |map: &Value, name: &str| {
        let row = find(map, "representations", &[("representation", name.into())]);
        row.map_or(f64::NAN, |row| number(row, "/random_ns"))
    };
    let values = [ns(a, "gaps"), ns(a, "bitmap"), ns(p, "packed") - ns(p, "plain")];
    let ours = outcome.numbers("ours", How::Measured, 1, values);
    outcome.hold(ours, theirs, Better::Lower, 0);
    Ok(())
}

fn map<'a>(answer: &'a Value, name: &str) -> Result<&'a Value, String> {
    find(answer, "maps", &[("name", name.into())])
}

const CLASSES: [&str; 5] = ["A", "B", "C", "D", "E"];

fn fig_5(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("", CLASSES);
    let answer = timed(answers, "maps classes")?;
    let all = CLASSES.map(|class| map(&answer, class));
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    let ranks = all.iter().map(|map| number(map, "/ranks"));
    let ranks = outcome.numbers("ranks", How::Counted, 0, ranks);
    outcome.scale(ranks, f64::NAN);
    outcome.aside(ranks);
    let theirs = all.iter().map(|map| number(map, "/thesis_best/bytes"));
    let theirs = outcome.numbers("its smallest, bytes", How::Computed, 0, theirs);
    for strategy in ["space", "hybrid"] {
        let bytes = all.iter().map(|map| picked(map, strategy).1);
        let name = format!("ours, {strategy}, bytes");
        let ours = outcome.numbers(name, How::Counted, 0, bytes);
        outcome.hold(ours, theirs, Better::Lower, 0);
    }
    let ns = all
        .iter()
        .map(|map| picked(map, "hybrid").2.map_or(f64::NAN, |row| number(row, "/random_ns")));
    let ns = outcome.numbers("ours, hybrid, ns a lookup", How::Measured, 1, ns.collect::<Vec<_>>());
    outcome.scale(ns, f64::NAN);
    outcome.note("Its representations are computed by its descriptions, for the same maps.");
    outcome.chart = Some(Chart::Bars("bytes"));
    Ok(())
}

fn experiments(outcome: &mut Outcome, unit: &'static str) {
    outcome.head(unit, 1..=EXPERIMENTS);
}

fn table_6_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    experiments(outcome, "");
    let sizes = outcome.numbers("ranks", How::Quoted, 0, MIR_TAHERI_TABLE_6_1.map(f64::from));
    outcome.scale(sizes, f64::NAN);
    outcome.aside(sizes);
    let answer = answers.ask(TABLE)?;
    let all = maps(&answer);
    let ranks = all.iter().map(|map| number(map, "/ranks"));
    let ranks = outcome.numbers("ranks", How::Counted, 0, ranks);
    outcome.scale(ranks, f64::NAN);
    outcome.aside(ranks);
    let theirs = all.iter().map(|map| number(map, "/thesis_best/bytes"));
    let theirs = outcome.numbers("its smallest", How::Computed, 0, theirs);
    let ours = all.iter().map(|map| picked(map, "hybrid").1);
    let ours = outcome.numbers("ours, hybrid", How::Counted, 0, ours);
    outcome.hold(ours, theirs, Better::Lower, 0);
    outcome.note("It has 40,000 multiples of 5, not 40,001.");
    outcome.chart = Some(Chart::Bars("bytes"));
    Ok(())
}

/// Each table with what it is of.
const TABLES: [(&Seconds, &str); 3] =
    [(&TABLE_6_2, "create"), (&TABLE_6_3, "messages"), (&TABLE_6_4, "gathers")];

fn tables_6_2(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    experiments(outcome, "seconds");
    outcome.chart = Some(Chart::Bars("seconds"));
    for (table, what) in TABLES {
        let canonical = table.map(|row| row[0]);
        outcome.numbers(format!("{what}: canonical"), How::Quoted, 6, canonical);
        let best = table.map(|row| row[1..].iter().copied().fold(f64::INFINITY, f64::min));
        let best = outcome.numbers(format!("{what}: best other"), How::Quoted, 6, best);
        outcome.aside(best);
    }
    let answer = if answers.quick { Value::Null } else { answers.ask(RANKS)? };
    for (_, what) in TABLES {
        let seconds = (0..EXPERIMENTS)
            .map(|at| number(&answer, &format!("/communicators/{at}/{what}_seconds")));
        outcome.numbers(format!("{what}: ours"), How::Measured, 6, seconds);
    }
    outcome.note(
        "Not had: 200,000 ranks on 8 machines. Ours: the first 12,000, all in one process; not compared.",
    );
    Ok(())
}

fn sec_6_6(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    experiments(outcome, "MB");
    let theirs = outcome.numbers("hybrid", How::Quoted, 3, SAVED_MB);
    let answer = answers.ask(TABLE)?;
    let copies = f64::from(PROCESSES * SAVED_COMMUNICATORS);
    let saved = maps(&answer).into_iter().map(|map| {
        let table = 4.0 * number(map, "/ranks") + number(&answer, "/head_bytes");
        super::mib((table - picked(map, "hybrid").1) * copies)
    });
    let ours = outcome.numbers("ours, hybrid", How::Computed, 3, saved);
    outcome.hold(ours, theirs, Better::Higher, 0);
    let bounds = maps(&answer).into_iter().map(|map| number(map, "/bound/bytes"));
    let beyond: Vec<String> = (1..)
        .zip(bounds.zip(SAVED_MB).zip(MIR_TAHERI_TABLE_6_1))
        .filter(|(_, ((bound, saved), ranks))| {
            let each = 4.0 * f64::from(*ranks) - saved * f64::from(1 << 20) / copies;
            each < *bound
        })
        .map(|(experiment, _)| experiment.to_string())
        .collect();
    outcome.note(format!(
        "MB: 2^20 bytes. Of {} theirs leaves fewer bytes than tell such maps apart.",
        beyond.join(", ")
    ));
    outcome.chart = Some(Chart::Bars("MB saved"));
    Ok(())
}
