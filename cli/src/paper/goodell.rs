//! Goodell et al. (2011), "Scalable Memory Use in MPI: A Case Study with MPICH2".

use super::answers::{Answers, find, number};
use super::item::{Better, Chart, How, Item, Outcome, Paper};
use rankway_cli::observe::figures::NPB;

pub(super) const PAPER: Paper = Paper {
    key: "goodell",
    label: "Goodell et al. 2011",
    items: &[
        Item {
            key: "fig-1",
            label: "Figs. 1, 3",
            title: "memory of a process by whom it speaks to",
            measure: fig_1,
        },
        Item { key: "fig-2", label: "Fig. 2", title: "ping-pong within a node", measure: fig_2 },
        Item {
            key: "table-1",
            label: "Table 1",
            title: "memory of CG and MG, class D, 512 processes",
            measure: table_1,
        },
    ],
};

/// KiB of a process that spoke to none and to so many peers.
fn kib(answers: &mut Answers, processes: u32, peers: u32) -> Result<[f64; 2], String> {
    let answer = answers.ask(&format!(
        "memory --processes {processes} --communicators 1 --kind direct --touch {peers}"
    ))?;
    let of = |key| number(&answer["kinds"][0], key) / 1024.0;
    Ok([of("/total_bytes_none"), of("/total_bytes_touched")])
}

fn fig_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let sizes = [64, 512, 4096, 32_768, 262_144, 1 << 20];
    outcome.head("KiB", sizes.map(crate::output::short));
    outcome.curves("processes", "KiB of a process", sizes.map(f64::from));
    // Recursive doubling speaks to log2 P; a part of a cubic grid has 26 neighbours, one of a
    // line 2.
    let mut lines = vec![Vec::new(); 5];
    for size in sizes {
        let mut kibs = vec![kib(answers, size, 2)?[0]];
        for peers in [size.ilog2(), 2, 26, size] {
            kibs.push(kib(answers, size, peers)?[1]);
        }
        lines.iter_mut().zip(kibs).for_each(|(line, kib)| line.push(kib));
    }
    let names = [
        "no communication",
        "allreduce: log2 P peers",
        "AMG, linear: 2",
        "AMG, cubic: 26",
        "all (eager)",
    ];
    for (name, values) in names.into_iter().zip(lines) {
        outcome.numbers(name, How::Simulated, 1, values);
    }
    outcome
        .note("The plots: flat, flat, flat, slowly, linear. Ours: a page for each peer at worst.");
    Ok(())
}

fn fig_2(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("", ["half round trip, ns", "million messages/s"]);
    let rounds = if answers.quick { " --rounds 2" } else { "" };
    let answer = answers.ask(&format!("operations --network shm{rounds}"))?;
    let network = &answer["networks"][0];
    let row = |name: &str| find(network, "rows", &[("operation", name.into())]);
    let rows = [row("tagged half round trip")?, row("tagged rate")?];
    let of = |key| rows.map(|row| number(row, key));
    outcome.numbers("libfabric's shm itself", How::Measured, 2, of("/raw"));
    outcome.numbers("ours", How::Measured, 2, of("/ours"));
    outcome.note("8 bytes. The plot: lazily a little slower. Ours has one table.");
    outcome.chart = Some(Chart::Bars("ns, and million messages a second"));
    Ok(())
}

fn table_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("KiB", ["cg.D.512", "mg.D.512"]);
    let quoted = NPB.map(|line| {
        let seconds = format!("{}, seconds", line.label);
        let seconds = outcome.numbers(seconds, How::Quoted, 2, line.seconds);
        outcome.aside(seconds);
        let kib = outcome.numbers(line.label, How::Quoted, 1, line.kib);
        if line.label == "Eager" {
            outcome.aside(kib);
        }
        kib
    });
    let ours = kib(answers, 512, 512)?[1];
    let ours = outcome.numbers("ours, all 511 peers", How::Simulated, 1, [ours; 2]);
    outcome.hold(ours, quoted[2], Better::Lower, 0);
    outcome.note("Ours: addresses and communicators; theirs: all of MPICH2. Its times: not had.");
    Ok(())
}
