//! Mir Taheri (2011), "Scalability of Communicators in MPI", thesis.

use super::answers::{Answers, find, number};
use super::item::{Better, Cell, Chart, How, Item, Outcome, Paper};
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
        Item {
            key: "sec-4",
            label: "4.1.3, 4.1.4, 4.3.1",
            title: "a random lookup",
            measure: sec_4,
        },
        Item {
            key: "fig-5",
            label: "Fig. 5.1-5.19",
            title: "classes of communicators of a world of a million",
            measure: fig_5,
        },
        Item {
            key: "table-6.1",
            label: "Table 6.1",
            title: "the 14 communicators of a world of 200,000, and their bytes",
            measure: table_6_1,
        },
        Item {
            key: "table-6.2",
            label: "Table 6.2, Fig. 6.1",
            title: "to create a communicator",
            measure: |answers, outcome| part(answers, outcome, &TABLE_6_2, &CREATE),
        },
        Item {
            key: "table-6.3",
            label: "Table 6.3, Fig. 6.2",
            title: "10,000 messages between random ranks",
            measure: |answers, outcome| part(answers, outcome, &TABLE_6_3, &SEND),
        },
        Item {
            key: "table-6.4",
            label: "Table 6.4, Fig. 6.3",
            title: "ten gathers to rank 0",
            measure: |answers, outcome| part(answers, outcome, &TABLE_6_4, &GATHER),
        },
        Item {
            key: "sec-6.6",
            label: "6.6",
            title: "MB saved in 40 processes by 8 communicators of each",
            measure: sec_6_6,
        },
    ],
};

const TABLE: &str = "maps table6.1";

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
    let plane = (0..128 * 128).map(|point| point * 64 + 17);
    let map = RankMap::from_lpids(0, plane).map_err(|e| e.to_string())?;
    let ours = outcome.numbers("Rankway, the whole map", How::Counted, 0, [map.bytes() as f64]);
    outcome.hold(ours, theirs, Better::Less, 0);
    outcome.note("The structure that holds its 5 bytes is not counted there.");
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
    let ours = outcome.numbers("Rankway", How::Measured, 1, values);
    outcome.hold(ours, theirs, Better::Less, 0);
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
    let theirs = all.iter().map(|map| number(map, "/thesis_best/bytes"));
    let theirs = outcome.numbers("its smallest, bytes", How::Computed, 0, theirs);
    for strategy in ["space", "hybrid"] {
        let bytes = all.iter().map(|map| picked(map, strategy).1);
        let name = format!("Rankway, {strategy}, bytes");
        let ours = outcome.numbers(name, How::Counted, 0, bytes);
        outcome.hold(ours, theirs, Better::Less, 0);
    }
    let ns = all
        .iter()
        .map(|map| picked(map, "hybrid").2.map_or(f64::NAN, |row| number(row, "/random_ns")));
    let ns = outcome.numbers(
        "Rankway, hybrid, ns a random lookup",
        How::Measured,
        1,
        ns.collect::<Vec<_>>(),
    );
    outcome.scale(ns, f64::NAN);
    outcome.note(
        "The thesis has plots without numbers: its representations are computed by its descriptions \
         for the same maps.",
    );
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
    let answer = answers.ask(TABLE)?;
    let all = maps(&answer);
    let ranks = all.iter().map(|map| number(map, "/ranks"));
    let ranks = outcome.numbers("ranks", How::Counted, 0, ranks);
    outcome.scale(ranks, f64::NAN);
    let theirs = all.iter().map(|map| number(map, "/thesis_best/bytes"));
    let theirs = outcome.numbers("its smallest, bytes", How::Computed, 0, theirs);
    let ours = all.iter().map(|map| picked(map, "hybrid").1);
    let ours = outcome.numbers("Rankway, hybrid, bytes", How::Counted, 0, ours);
    outcome.hold(ours, theirs, Better::Less, 0);
    outcome.note("A world of 200,000 has 40,000 multiples of 5, one fewer than the table (6).");
    outcome.chart = Some(Chart::Bars("bytes"));
    Ok(())
}

/// The part of a table that a process has by itself.
struct Part {
    what: &'static str,
    /// Of a measured line, by ranks: microseconds.
    microseconds: fn(&Value, f64) -> f64,
    note: &'static str,
}

const CREATE: Part = Part {
    what: "Rankway, the map alone, us",
    microseconds: |row, ranks| number(row, "/build_ns") * ranks / 1e3,
    note: "Not had: 200,000 ranks on 8 machines, of which the seconds are. Ours is what one process \
           computes of it, so that they are not compared.",
};
const SEND: Part = Part {
    what: "Rankway, 10,000 lookups, us",
    microseconds: |row, _| number(row, "/random_ns") * 1e4 / 1e3,
    note: "As above: the lookups of 10,000 messages, without these.",
};
const GATHER: Part = Part {
    what: "Rankway, ten walks, us",
    microseconds: |row, ranks| number(row, "/sequential_ns") * ranks * 10.0 / 1e3,
    note: "As above: the lookups of ten gathers, without these.",
};

fn part(
    answers: &mut Answers,
    outcome: &mut Outcome,
    table: &Seconds,
    part: &Part,
) -> Result<(), String> {
    experiments(outcome, "seconds");
    let canonical = table.map(|row| row[0]);
    outcome.numbers("canonical, s", How::Quoted, 2, canonical);
    let best = table.map(|row| row[1..].iter().copied().fold(f64::INFINITY, f64::min));
    outcome.numbers("best of the others, s", How::Quoted, 2, best);
    if answers.quick {
        let none = vec![Cell::None; EXPERIMENTS];
        outcome.line(part.what, How::Measured, none);
    } else {
        let answer = timed(answers, TABLE)?;
        let ours = maps(&answer).into_iter().map(|map| {
            let (_, _, row) = picked(map, "hybrid");
            row.map_or(f64::NAN, |row| (part.microseconds)(row, number(map, "/ranks")))
        });
        let ours = outcome.numbers(part.what, How::Measured, 0, ours);
        outcome.scale(ours, 1e-6);
    }
    outcome.note(part.note);
    outcome.chart = Some(Chart::Bars("seconds"));
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
    let ours = outcome.numbers("Rankway, hybrid", How::Computed, 3, saved);
    outcome.hold(ours, theirs, Better::More, 0);
    outcome.note("MB of 2^20 bytes, beside a table of 4 bytes a rank.");
    outcome.chart = Some(Chart::Bars("MB saved"));
    Ok(())
}
