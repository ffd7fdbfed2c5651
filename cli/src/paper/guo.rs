//! Guo et al. (2017), "Memory Compression Techniques for Network Address Management in MPI".

mod census;
mod compositions;

use super::MODELS;
use super::answers::{Answers, find, number};
use super::item::{At, Better, Cell, Chart, How, Item, Outcome, Paper};
use super::mib;
use rankway_cli::observe::figures::{
    self, AVE_BYTES, ByModel, TABLE_III, TABLE_IV, TABLE_V, TABLE_VI, VC_BYTES, XEON_E5_2670,
};
use serde_json::Value;

const fn item(
    key: &'static str,
    label: &'static str,
    title: &'static str,
    measure: fn(&mut Answers, &mut Outcome) -> Result<(), String>,
) -> Item {
    Item { key, label, title, measure }
}

pub(super) const PAPER: Paper = Paper {
    key: "guo",
    label: "Guo et al. 2017",
    items: &[
        item("table-1", "Table I", "programs by maps of their communicators", census::table_1),
        item("sec-3b", "III-B", "a peer's address", entries),
        item(
            "table-2",
            "Table II",
            "map by the parent's (line) and by that of the ranks in it (column)",
            compositions::table_2,
        ),
        item("table-3", "Table III", "rank to address", table_3),
        item("table-4", "Table IV", "8 million puts to each other rank", table_4),
        item("table-5", "Table V", "puts issued by map", table_5),
        item("table-6", "Table VI", "the same, by odd/even splits of splits", table_6),
        item("fig-3a", "Fig. 3a", "memory of 10 and 100 odd/even splits by processes", fig_3a),
        item("fig-3b", "Fig. 3b", "of 10, by use", fig_3b),
        item("fig-3c", "Fig. 3c", "of 786,432 processes, by splits", fig_3c),
        item("fig-4", "Figs. 4, 5", "Nek5000 and mini-applications, 524,288 processes", fig_4),
    ],
};

/// Processes of the whole of Mira, and of the applications.
const MIRA: u32 = 786_432;
const APPLICATIONS: u32 = 524_288;
const SIZES: [u32; 6] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, MIRA];

fn models() -> impl Iterator<Item = String> {
    ["VC-VCRT"].into_iter().chain(MODELS).map(str::to_owned)
}

fn entries(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("bytes", ["VC-VCRT", "AV-Rankmap, Rankway"]);
    let bytes = [VC_BYTES as f64, AVE_BYTES as f64];
    let theirs = outcome.numbers("paper", How::Quoted, 0, bytes);
    let answer = answers.ask("memory --processes 1k --kind direct")?;
    let sizes = [f64::NAN, number(&answer, "/sizes/entry")];
    let ours = outcome.numbers("ours", How::Counted, 0, sizes);
    outcome.hold(ours, theirs, Better::Lower, 0);
    Ok(())
}

fn table_3(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("instructions", models());
    let theirs = outcome.by_model(0, &TABLE_III);
    outcome.lines[0].name = "AV-Rankmap".to_owned();
    let answer = answers.ask("count")?;
    let counts = MODELS.map(|model| number(&answer["translation"], &format!("/{model}")));
    let counts = [f64::NAN].into_iter().chain(counts);
    let ours = outcome.numbers("ours", How::Counted, 0, counts);
    outcome.hold(ours, theirs, Better::Lower, 1);
    Ok(())
}

/// Puts to each other rank.
const PUTS: u32 = 8_000_000;
const LEVELS: [&str; 3] = ["L1D", "L2", "L3"];

fn table_4(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("cache misses", models());
    let theirs: Vec<(&str, At)> =
        TABLE_IV.iter().map(|line| (line.label, outcome.by_model(0, line))).collect();
    leave_out(outcome, &["Mira"]);
    let [d1, l2, l3] = XEON_E5_2670.map(|(bytes, lines)| format!("{}KiB/{lines}", bytes >> 10));
    let blues = format!("--d1 {d1} --l2 {l2} --l3 {l3} ");
    let mut simulated = Vec::new();
    for (machine, caches) in [("Blues's", blues.as_str()), ("this machine's", "")] {
        let command = format!("--cache {caches}--ranks 2,16 --communicators 1 --puts {PUTS}");
        simulated.push((machine, answers.ask(&format!("count {command}"))?));
    }
    // The table's "8 Procs" are 8 on each of two nodes.
    for (ranks, procs) in [(16, "8 processes"), (2, "2 processes")] {
        let mut lines: Vec<(String, Vec<f64>, At)> = Vec::new();
        for (machine, answer) in &simulated {
            for (level, name) in LEVELS.into_iter().enumerate() {
                let of = |model: &str, place: &str| -> Result<f64, String> {
                    let wanted = [("model", model.into()), ("ranks", ranks.into())];
                    let all = &find(answer, "misses", &wanted)?["all"];
                    Ok(number(all, &format!("/{place}/{level}")))
                };
                let vc = of(MODELS[0], "peers/vc_vcrt")?;
                let values = MODELS.iter().map(|model| of(model, "put"));
                let values = [Ok(vc)].into_iter().chain(values).collect::<Result<_, _>>()?;
                let label = format!("{name}, {procs}, Blues");
                let against = theirs.iter().find(|(of, _)| *of == label);
                let against = against.ok_or_else(|| format!("Table IV has no {label}"))?.1;
                lines.push((format!("{name}, {procs}, {machine} caches"), values, against));
            }
        }
        if lines.iter().all(|(_, values, _)| *values == lines[0].1) {
            // One for all, against the least of each.
            let all: Vec<Vec<f64>> =
                lines.iter().map(|(.., against)| outcome.values(*against).collect()).collect();
            let least = (0..all[0].len()).map(|column| {
                Cell::Number(all.iter().map(|one| one[column]).fold(f64::INFINITY, f64::min), 0)
            });
            let least: Vec<Cell> = least.collect();
            let name = format!("each level, {procs}");
            let ours = outcome.numbers(name, How::Simulated, 0, lines.swap_remove(0).1);
            outcome.hold_to(ours, &least, Better::Lower, 1);
        } else {
            for (name, values, against) in lines {
                let ours = outcome.numbers(name, How::Simulated, 0, values);
                outcome.hold(ours, against, Better::Lower, 1);
            }
        }
    }
    outcome.note(
        "\"8\": 16 ranks on two nodes. Ours: all data that a put touches, traced, through Blues's and \
         this machine's caches, empty at first; VC-VCRT: its lookup alone. All fits, first touches are \
         all misses.",
    );
    Ok(())
}

/// Leaves lines of these names out of the page.
fn leave_out(outcome: &mut Outcome, parts: &[&str]) {
    let is_out = |name: &str| parts.iter().any(|part| name.contains(part));
    outcome.lines.iter_mut().for_each(|line| line.aside = is_out(&line.name));
}

/// Of the network's line of an answer of `rate`.
fn rates(answer: &Value, at: usize, key: &str) -> Vec<f64> {
    let row = |model: &str| {
        let found = find(&answer["networks"][at], "rows", &[("model", model.into())]);
        found.map_or(f64::NAN, |row| number(row, &format!("/{key}")))
    };
    let vc = match key {
        "checked" => "vc_vcrt_checked",
        _ => "vc_vcrt",
    };
    let vc = number(&answer["networks"][at], &format!("/{vc}"));
    [vc].into_iter().chain(MODELS.map(row)).collect()
}

fn to_first(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    values.iter().map(|value| value / values[0]).collect()
}

fn table_5(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("million puts/s", models());
    let digits = |line: &ByModel<f64>| match line.label {
        label if label.ends_with("theoretical") => 2,
        label if label.starts_with("Mira") => 4,
        _ => 3,
    };
    let theirs: Vec<At> = TABLE_V.iter().map(|line| outcome.by_model(digits(line), line)).collect();
    leave_out(outcome, &["Mira", "real"]);
    let ratio = to_first(outcome.values(theirs[3]));
    let theirs = outcome.numbers("ratio: Blues, 8, theoretical", How::Quoted, 2, ratio);
    let rounds = if answers.quick { " --rounds 2" } else { "" };
    let answer = answers.ask(&format!(
        "rate --network null,shm --models {} --ranks 16{rounds}",
        MODELS.join(",")
    ))?;
    let lines = [
        ("no network", 0, "unchecked"),
        ("the same, checked", 0, "checked"),
        ("shm of libfabric", 1, "unchecked"),
    ];
    for (name, at, key) in lines {
        let line = outcome.numbers(name, How::Measured, 2, rates(&answer, at, key));
        if key == "checked" {
            outcome.aside(line);
        }
    }
    let ratio = to_first(rates(&answer, 0, "unchecked"));
    let ours = outcome.numbers("ratio: no network", How::Measured, 2, ratio);
    outcome.hold(ours, theirs, Better::Higher, 1);
    outcome.note(
        "VC-VCRT here: its lookup before the same provider's call, without the rest of MPICH. On real \
         networks the paper has 4.30 to 4.34 (Blues), 0.89 to 0.90 (Mira) for all.",
    );
    outcome.chart = Some(Chart::Bars("million puts a second"));
    Ok(())
}

fn table_6(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let splits = TABLE_VI.iter().map(|line| match line.splits {
        0 => "world".to_owned(),
        n => format!("{n}"),
    });
    outcome.head("million puts/s", splits);
    let mut quote = |name: &str, of: fn(&figures::Generation) -> f64| {
        let rates = TABLE_VI.iter().map(of).collect::<Vec<_>>();
        outcome.numbers(name, How::Quoted, 2, rates.iter().copied());
        outcome.numbers(format!("{name}, to the world"), How::Quoted, 2, to_first(rates))
    };
    let sparse = quote("sparse groups", |line| line.sparse_group);
    let theirs = quote("AV-Rankmap", |line| line.av_rankmap);
    let rounds = if answers.quick { " --rounds 2" } else { "" };
    let answer =
        answers.ask(&format!("rate --network null --models direct,gen1,gen2,gen3,gen4{rounds}"))?;
    let row = |model: &str| {
        let found = find(&answer["networks"][0], "rows", &[("model", model.into())]);
        found.map_or(f64::NAN, |row| number(row, "/unchecked"))
    };
    let rates = ["direct", "gen1", "gen2", "gen3", "gen4"].map(row);
    outcome.numbers("ours, no network", How::Measured, 2, rates);
    outcome.aside(sparse);
    let ours = outcome.numbers("to the world", How::Measured, 2, to_first(rates));
    outcome.hold(ours, theirs, Better::Higher, 0);
    Ok(())
}

/// Of the one kind of an answer of `memory`.
fn kind(answer: &Value, key: &str) -> f64 {
    number(&answer["kinds"][0], &format!("/{key}"))
}

fn fig_3a(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", SIZES.map(crate::output::short));
    outcome.curves("processes", "MiB of a process", SIZES.map(f64::from));
    let at_full_scale = |cell: Cell| {
        std::iter::repeat_n(Cell::None, SIZES.len() - 1).chain([cell]).collect::<Vec<_>>()
    };
    let more = Cell::Text(">40% of memory".to_owned());
    outcome.line("VC-VCRT, 10", How::Quoted, at_full_scale(more));
    let most = figures::SPLIT_100.av_rankmap_mb.unwrap_or(f64::NAN);
    let theirs = outcome.line("AV-Rankmap, 100", How::Quoted, at_full_scale(Cell::Number(most, 0)));
    for communicators in [10, 100] {
        let answer = answers.ask(&format!(
            "memory --sweep --processes {MIRA} --communicators {communicators} --kind stride"
        ))?;
        let of = |key: &str| {
            let places = (0..SIZES.len()).map(|at| format!("/sweep/{at}/{key}"));
            places.map(|place| mib(number(&answer, &place))).collect::<Vec<_>>()
        };
        let name = |what| format!("{what}, {communicators}");
        let vc = outcome.rounded(name("VC-VCRT"), How::Simulated, of("vc_vcrt/bytes"));
        let touched = of("total_bytes_touched");
        let ours = outcome.rounded(name("ours, all peers"), How::Simulated, touched);
        if communicators == 100 {
            outcome.hold(ours, theirs, Better::Lower, 0);
        }
        let none = outcome.rounded(name("ours, none"), How::Simulated, of("total_bytes_none"));
        if communicators == 10 {
            // The next figure has their parts.
            [vc, ours, none].into_iter().for_each(|line| outcome.aside(line));
        }
    }
    Ok(())
}

fn fig_3b(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", SIZES.map(crate::output::short));
    outcome.curves("processes", "MiB of a process", SIZES.map(f64::from));
    let mut parts = vec![Vec::new(); 5];
    for size in SIZES {
        let answer =
            answers.ask(&format!("memory --processes {size} --communicators 10 --kind stride"))?;
        let connections = f64::from(size) * VC_BYTES as f64;
        let entries = number(&answer, "/device/av_bytes_touched");
        let maps = kind(&answer, "communicators_bytes");
        let values = [
            connections,
            kind(&answer, "vc_vcrt/bytes") - connections,
            entries,
            maps,
            kind(&answer, "total_bytes_touched") - entries - maps,
        ];
        parts.iter_mut().zip(values).for_each(|(part, value)| part.push(mib(value)));
    }
    let names = ["VCs", "VCRTs", "our address vector", "communicators", "the rest"];
    for (name, values) in names.into_iter().zip(parts) {
        let part = outcome.rounded(name, How::Simulated, values);
        if name == "the rest" {
            outcome.aside(part);
        }
    }
    Ok(())
}

fn fig_3c(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let counts = [1, 10, 25, 50, 100];
    outcome.head("MiB", counts);
    outcome.curves("communicators", "MiB of a process", counts.map(f64::from));
    by_communicators(answers, outcome, &counts, MIRA, "stride")?;
    leave_out(outcome, &["none"]);
    Ok(())
}

/// VC-VCRT, and ours with all peers spoken to (which is returned) and with none.
fn by_communicators(
    answers: &mut Answers,
    outcome: &mut Outcome,
    counts: &[u32],
    processes: u32,
    of: &str,
) -> Result<At, String> {
    let mut lines = vec![Vec::new(); 3];
    for count in counts {
        let answer = answers
            .ask(&format!("memory --processes {processes} --communicators {count} --kind {of}"))?;
        for (line, key) in
            lines.iter_mut().zip(["vc_vcrt/bytes", "total_bytes_touched", "total_bytes_none"])
        {
            line.push(mib(kind(&answer, key)));
        }
    }
    let mut lines = lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    outcome.rounded("VC-VCRT", How::Simulated, next());
    let touched = outcome.rounded("ours, all peers", How::Simulated, next());
    outcome.rounded("ours, none", How::Simulated, next());
    Ok(touched)
}

fn fig_4(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", ["Nek5000, 24 dups", "86 dups", "mini, 2", "7"]);
    let figures::ProcessMemory { vc_vcrt_mb, av_rankmap_mb, .. } = figures::MINIAPPS;
    let [around, vc, mini] =
        [figures::NEK5000.vc_vcrt_mb, vc_vcrt_mb, av_rankmap_mb].map(|mb| mb.unwrap_or(f64::NAN));
    outcome.numbers("VC-VCRT", How::Quoted, 0, [around, around, vc, vc]);
    let (negligible, mini) = (Cell::Text("negligible".to_owned()), Cell::Number(mini, 0));
    let theirs = [negligible.clone(), negligible, mini.clone(), mini];
    let theirs = outcome.line("AV-Rankmap", How::Quoted, theirs);
    let ours = by_communicators(answers, outcome, &[24, 86, 2, 7], APPLICATIONS, "direct")?;
    outcome.hold(ours, theirs, Better::Lower, 0);
    outcome.chart = Some(Chart::Bars("MiB of a process"));
    Ok(())
}
