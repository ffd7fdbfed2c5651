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
            title: "a communicator's rank to a rank of the world, the largest of 131,072",
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
            title: "what definitions of PFLOTRAN take, 24 communicators a process",
            measure: sec_5,
        },
    ],
};

fn fig_1(_: &mut Answers, _: &mut Outcome) -> Result<(), String> {
    Err("PFLOTRAN's data set and a Blue Gene/P are not here; the paper's text has no numbers. What \
         recording costs a call: `make bench-track`"
        .to_owned())
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
    outcome.numbers("Rankway", How::Measured, 7, [f64::NAN, f64::NAN, best]);
    outcome.note("Any rank takes as long. Records have local ranks, as the paper's have since.");
    Ok(())
}

fn simulated(answers: &mut Answers, processes: &str) -> Result<serde_json::Value, String> {
    answers.ask(&format!("trace simulate --processes {processes}"))
}

fn fig_2(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let sizes = [1024_u32, 8192, 65_536, 131_072, 1 << 20];
    outcome.head("seconds", sizes.map(|size| crate::output::count(size.into())));
    outcome.curves("processes", "seconds", sizes.map(f64::from));
    let quoted = sizes.map(|size| match size == SCALASCA.processes {
        true => Cell::Number(SCALASCA.seconds, 1),
        false => Cell::None,
    });
    let theirs = outcome.line("revised Scalasca", How::Quoted, quoted);
    let list = sizes.map(|size| size.to_string()).join(",");
    let answer = simulated(answers, &list)?;
    let of = |scheme: &str| {
        let places = (0..sizes.len()).map(|at| format!("/rows/{at}/{scheme}/seconds"));
        places.map(|place| number(&answer, &place)).collect::<Vec<_>>()
    };
    outcome.numbers("its lists, written again", How::Measured, 4, of("lists"));
    let ours = outcome.numbers("Rankway", How::Measured, 4, of("ours"));
    outcome.hold(ours, theirs, Better::Less, 0);
    outcome.note(
        "Ours: on one processor, without a network, with writing the file; the paper's on as many \
         processors as processes, all that it defines. Lists here are gathered in memory, unwritten.",
    );
    Ok(())
}

fn sec_5(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("MB", ["bitstrings, 49,152", "definitions, 131,072", "numbers of processes"]);
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
    outcome.numbers("bitstrings here", How::Computed, 1, bits);
    let lists = [f64::NAN, of(131_072, "/lists/definition_bytes"), f64::NAN];
    outcome.numbers("its lists, written again, all", How::Simulated, 6, lists);
    let ours = [of(49_152, "/ours/definition_bytes"), of(131_072, "/ours/definition_bytes"), 0.0];
    let ours = outcome.numbers("Rankway, all", How::Simulated, 6, ours);
    outcome.hold(ours, theirs, Better::Less, 0);
    outcome.note("Of the paper's 10.4 MB other definitions are a part, and of its mappings.");
    Ok(())
}
