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
        item("table-1", "Table I", "programs by the maps of their communicators", census::table_1),
        item("sec-3b", "III-B", "bytes of a peer's address", entries),
        item(
            "table-2",
            "Table II",
            "a communicator's map by its parent's (line) and by its ranks' in the parent (column)",
            compositions::table_2,
        ),
        item("table-3", "Table III", "instructions from rank to address", table_3),
        item("table-4", "Table IV", "cache misses of 8 million puts to each other rank", table_4),
        item("table-5", "Table V", "puts issued by map", table_5),
        item("table-6", "Table VI", "puts issued by odd/even splits behind one another", table_6),
        item("fig-3a", "Fig. 3a", "memory of odd/even splits by processes", fig_3a),
        item("fig-3b", "Fig. 3b", "the same of 10 splits by what it is for", fig_3b),
        item("fig-3c", "Fig. 3c", "the same at 786,432 processes by splits", fig_3c),
        item("fig-4", "Fig. 4", "Nek5000: duplicates of the world, 524,288 processes", fig_4),
        item("fig-5", "Fig. 5", "mini-applications: 2 to 7 communicators, the same", fig_5),
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
    let ours = outcome.numbers("Rankway", How::Counted, 0, sizes);
    outcome.hold(ours, theirs, Better::Less, 0);
    Ok(())
}

fn table_3(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("instructions", models());
    let theirs = outcome.by_model(0, &TABLE_III);
    outcome.lines[0].name = "AV-Rankmap".to_owned();
    let answer = answers.ask("count")?;
    let counts = MODELS.map(|model| number(&answer["translation"], &format!("/{model}")));
    let counts = [f64::NAN].into_iter().chain(counts);
    let ours = outcome.numbers("Rankway", How::Counted, 0, counts);
    outcome.hold(ours, theirs, Better::Less, 1);
    Ok(())
}

/// Puts to each other rank.
const PUTS: u32 = 8_000_000;
const LEVELS: [&str; 3] = ["L1D", "L2", "L3"];

fn table_4(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("misses", models());
    let theirs: Vec<(&str, At)> =
        TABLE_IV.iter().map(|line| (line.label, outcome.by_model(0, line))).collect();
    let [d1, l2, l3] = XEON_E5_2670.map(|(bytes, lines)| format!("{}KiB/{lines}", bytes >> 10));
    let paper = format!("--d1 {d1} --l2 {l2} --l3 {l3} ");
    for (machine, caches) in [("Blues's caches", paper.as_str()), ("this machine's", "")] {
        let answer = answers
            .ask(&format!("count --cache {caches}--ranks 2,16 --communicators 1 --puts {PUTS}"))?;
        // The table's "8 Procs" are 8 on each of two nodes.
        for (ranks, procs) in [(16, "8 processes"), (2, "2 processes")] {
            for (level, name) in LEVELS.into_iter().enumerate() {
                let mut values = Vec::new();
                for model in MODELS {
                    let wanted = [("model", model.into()), ("ranks", ranks.into())];
                    let all = &find(&answer, "misses", &wanted)?["all"];
                    if values.is_empty() {
                        values.push(number(all, &format!("/peers/vc_vcrt/{level}")));
                    }
                    values.push(number(all, &format!("/put/{level}")));
                }
                let line = format!("{name}, {procs}, {machine}");
                let ours = outcome.numbers(line, How::Simulated, 0, values);
                let label = format!("{name}, {procs}, Blues");
                if let Some((_, theirs)) = theirs.iter().find(|(of, _)| *of == label) {
                    outcome.hold(ours, *theirs, Better::Less, 1);
                }
            }
        }
    }
    outcome.note(
        "\"8 processes\" are 16 ranks on two nodes. Ours: every put of the whole call, its accesses \
         traced, through caches of least recently used lines, empty before; VC-VCRT: its lookup \
         alone. All lines fit, so that first touches are all misses: what the paper counted beyond \
         those (120,491) is of the rest of MPI and of the system.",
    );
    Ok(())
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
        outcome.numbers(name, How::Measured, 2, rates(&answer, at, key));
    }
    let ratio = to_first(rates(&answer, 0, "unchecked"));
    let ours = outcome.numbers("ratio: no network", How::Measured, 2, ratio);
    outcome.hold(ours, theirs, Better::More, 1);
    outcome.note(
        "Another machine: ratios compare. VC-VCRT of ours is its lookup before the same provider's \
         call, without the rest of MPICH; 16 ranks, all the one other process.",
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
        outcome.numbers(format!("{name}, ratio to the world"), How::Quoted, 2, to_first(rates))
    };
    quote("Open MPI's sparse groups", |line| line.sparse_group);
    let theirs = quote("AV-Rankmap", |line| line.av_rankmap);
    let rounds = if answers.quick { " --rounds 2" } else { "" };
    let answer =
        answers.ask(&format!("rate --network null --models direct,gen1,gen2,gen3,gen4{rounds}"))?;
    let row = |model: &str| {
        let found = find(&answer["networks"][0], "rows", &[("model", model.into())]);
        found.map_or(f64::NAN, |row| number(row, "/unchecked"))
    };
    let rates = ["direct", "gen1", "gen2", "gen3", "gen4"].map(row);
    outcome.numbers("Rankway, no network", How::Measured, 2, rates);
    let ours = outcome.numbers("ratio to the world", How::Measured, 2, to_first(rates));
    outcome.hold(ours, theirs, Better::More, 0);
    Ok(())
}

/// Of the one kind of an answer of `memory`.
fn kind(answer: &Value, key: &str) -> f64 {
    number(&answer["kinds"][0], &format!("/{key}"))
}

fn fig_3a(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", SIZES.map(|size| crate::output::count(size.into())));
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
        outcome.numbers(name("VC-VCRT"), How::Simulated, 3, of("vc_vcrt/bytes"));
        let touched = of("total_bytes_touched");
        let ours =
            outcome.numbers(name("Rankway, all peers spoken to"), How::Simulated, 3, touched);
        if communicators == 100 {
            outcome.hold(ours, theirs, Better::Less, 0);
        }
        outcome.numbers(name("Rankway, none"), How::Simulated, 3, of("total_bytes_none"));
    }
    Ok(())
}

fn fig_3b(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", SIZES.map(|size| crate::output::count(size.into())));
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
    let names = ["VCs", "VCRTs", "Rankway's address vector", "its communicators", "its device"];
    for (name, values) in names.into_iter().zip(parts) {
        outcome.numbers(name, How::Simulated, 3, values);
    }
    Ok(())
}

fn fig_3c(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let counts = [1, 10, 25, 50, 100];
    outcome.head("MiB", counts);
    outcome.curves("communicators", "MiB of a process", counts.map(f64::from));
    by_communicators(answers, outcome, &counts, MIRA, "stride")?;
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
    outcome.numbers("VC-VCRT", How::Simulated, 3, next());
    let touched = outcome.numbers("Rankway, all peers spoken to", How::Simulated, 3, next());
    outcome.numbers("Rankway, none", How::Simulated, 3, next());
    Ok(touched)
}

fn fig_4(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", ["24 duplicates", "86 duplicates"]);
    let around = figures::NEK5000.vc_vcrt_mb.unwrap_or(f64::NAN);
    outcome.numbers("VC-VCRT", How::Quoted, 0, [around; 2]);
    let negligible = Cell::Text("negligible".to_owned());
    outcome.line("AV-Rankmap", How::Quoted, [negligible.clone(), negligible]);
    by_communicators(answers, outcome, &[24, 86], APPLICATIONS, "direct")?;
    outcome.chart = Some(Chart::Bars("MiB of a process"));
    Ok(())
}

fn fig_5(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MiB", ["2 communicators", "7 communicators"]);
    let figures::ProcessMemory { vc_vcrt_mb, av_rankmap_mb, .. } = figures::MINIAPPS;
    let quoted = |value: Option<f64>| [value.unwrap_or(f64::NAN); 2];
    outcome.numbers("VC-VCRT", How::Quoted, 0, quoted(vc_vcrt_mb));
    let theirs = outcome.numbers("AV-Rankmap", How::Quoted, 0, quoted(av_rankmap_mb));
    let ours = by_communicators(answers, outcome, &[2, 7], APPLICATIONS, "direct")?;
    outcome.hold(ours, theirs, Better::Less, 0);
    outcome.chart = Some(Chart::Bars("MiB of a process"));
    Ok(())
}
