//! Geimer et al. (2011), "Scaling Performance Tool MPI Communicator Management".

use super::answers::{Answers, find, number};
use super::item::{Better, Cell, How, Item, Outcome, Paper};
use rankway::rankmap::RankMap;
use rankway_cli::observe::figures::{BITSTRINGS_GB, SCALASCA, TRANSLATE_MS};
use std::hint::black_box;
use std::time::Instant;

pub(super) const PAPER: Paper = Paper {
    key: "geimer",
    label: "Geimer et al. 2011",
    items: &[
        Item {
            key: "fig-1",
            label: "Fig. 1",
            title: "time steps of PFLOTRAN while it is traced",
            measure: fig_1,
        },
        Item {
            key: "sec-3",
            label: "Section 3",
            title: "the largest of 128k ranks to one of the world",
            measure: sec_3,
        },
        Item {
            key: "fig-2",
            label: "Fig. 2",
            title: "time to put definitions together, by processes",
            measure: fig_2,
        },
        Item {
            key: "sec-5",
            label: "Section 5",
            title: "definitions of PFLOTRAN, 24 communicators a process",
            measure: sec_5,
        },
    ],
};

fn fig_1(_: &mut Answers, _: &mut Outcome) -> Result<(), String> {
    Err("no PFLOTRAN here".to_owned())
}

fn sec_3(_: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("ms", ["Blue Gene/P", "Cray XT5", "here"]);
    let [p, xt5] = TRANSLATE_MS;
    outcome.numbers("MPI_Group_translate_ranks", How::Quoted, 1, [p, xt5, f64::NAN]);
    let map = RankMap::direct(SCALASCA.processes);
    let last = SCALASCA.processes - 1;
    const LOOKUPS: u32 = 1 << 20;
    let milliseconds = (0..5).map(|_| {
        let start = Instant::now();
        for _ in 0..LOOKUPS {
            black_box(black_box(&map).get(black_box(last)));
        }
        start.elapsed().as_secs_f64() * 1e3 / f64::from(LOOKUPS)
    });
    let best = milliseconds.fold(f64::INFINITY, f64::min);
    outcome.numbers("ours", How::Measured, 7, [f64::NAN, f64::NAN, best]);
    Ok(())
}

fn simulated(answers: &mut Answers, processes: &str) -> Result<serde_json::Value, String> {
    answers.ask(&format!("trace simulate --processes {processes}"))
}

fn fig_2(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let sizes = [1024_u32, 8192, 65_536, 131_072, 1 << 20];
    outcome.head("seconds", sizes.map(crate::output::short));
    outcome.curves("processes", "seconds", sizes.map(f64::from));
    let quoted = sizes.map(|size| match size == SCALASCA.processes {
        true => Cell::Number(SCALASCA.seconds, 1),
        false => Cell::None,
    });
    outcome.line("revised Scalasca", How::Quoted, quoted);
    let list = sizes.map(|size| size.to_string()).join(",");
    let answer = simulated(answers, &list)?;
    let of = |scheme: &str| {
        let places = (0..sizes.len()).map(|at| format!("/rows/{at}/{scheme}/seconds"));
        places.map(|place| number(&answer, &place)).collect::<Vec<_>>()
    };
    let theirs = outcome.numbers("its lists here", How::Measured, 4, of("lists"));
    let ours = outcome.numbers("ours", How::Measured, 4, of("ours"));
    outcome.hold(ours, theirs, Better::Lower, 0);
    outcome.note("Here: one processor, ours with its file, held against the lists.");
    Ok(())
}

fn sec_5(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MB", ["49,152 processes", "131,072", "and mappings"]);
    let more = Cell::Text(format!(">{}", BITSTRINGS_GB * 1e3));
    let original = [more, Cell::None, Cell::None];
    outcome.line("original Scalasca", How::Quoted, original);
    let revised = [f64::NAN, SCALASCA.definitions_mb, SCALASCA.mappings_mb];
    let theirs = outcome.numbers("revised Scalasca", How::Quoted, 1, revised);
    let answer = simulated(answers, "49152,131072")?;
    let of = |processes: u32, key: &str| {
        let row = find(&answer, "rows", &[("processes", processes.into())]);
        row.map_or(f64::NAN, |row| number(row, key) / 1e6)
    };
    let bits = [of(49_152, "/bitstrings/definition_bytes"), f64::NAN, f64::NAN];
    outcome.numbers("bitstrings", How::Computed, 1, bits);
    let lists = [f64::NAN, of(131_072, "/lists/definition_bytes"), f64::NAN];
    outcome.numbers("its lists here", How::Simulated, 6, lists);
    let ours = [of(49_152, "/ours/definition_bytes"), of(131_072, "/ours/definition_bytes"), 0.0];
    let ours = outcome.numbers("ours", How::Simulated, 6, ours);
    outcome.hold(ours, theirs, Better::Lower, 0);
    outcome.note("10.4 and 242.9: all that is defined.");
    Ok(())
}
