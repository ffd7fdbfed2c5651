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
            label: "Fig. 1",
            title: "memory of a process by what it speaks to",
            measure: fig_1,
        },
        Item { key: "fig-2", label: "Fig. 2", title: "ping-pong within a node", measure: fig_2 },
        Item {
            key: "table-1",
            label: "Table 1",
            title: "memory of CG and MG, class D, 512 processes",
            measure: table_1,
        },
        Item {
            key: "fig-3",
            label: "Fig. 3",
            title: "memory of a process of AMG by the shape of its grid",
            measure: fig_3,
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
    let sizes = [16, 128, 1 << 10, 8 << 10, 64 << 10, 1 << 20];
    outcome.head("KiB", sizes.map(|size| crate::output::count(size.into())));
    outcome.curves("processes", "KiB of a process", sizes.map(f64::from));
    let mut lines = vec![Vec::new(); 3];
    for size in sizes {
        // Recursive doubling speaks to log2 P.
        let [none, reduced] = kib(answers, size, size.ilog2())?;
        let [_, all] = kib(answers, size, size)?;
        lines.iter_mut().zip([none, reduced, all]).for_each(|(line, kib)| line.push(kib));
    }
    let names = ["no communication", "allreduce (log2 P peers)", "all peers"];
    for (name, values) in names.into_iter().zip(lines) {
        outcome.numbers(name, How::Simulated, 1, values);
    }
    outcome.note(
        "The paper has no numbers: flat, flat, linear. Peers here are spread evenly, one a page of \
         the table at worst.",
    );
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
    outcome.numbers("libfabric's own messages over shm", How::Measured, 2, of("/raw"));
    outcome.numbers("Rankway over the same", How::Measured, 2, of("/ours"));
    outcome.note(
        "The paper has no numbers: latency of its lazy table a little above that of the eager one. \
         Rankway has one table, filled on first use and read by index either way. 8 bytes.",
    );
    outcome.chart = Some(Chart::Bars("ns, and million messages a second"));
    Ok(())
}

fn table_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("KiB", ["cg.D.512", "mg.D.512"]);
    let quoted = NPB.map(|line| outcome.numbers(line.label, How::Quoted, 1, line.kib));
    let ours = kib(answers, 512, 512)?[1];
    let ours = outcome.numbers("Rankway, all 511 peers", How::Simulated, 1, [ours; 2]);
    outcome.hold(ours, quoted[2], Better::Less, 0);
    outcome.note(
        "Ours is addresses and communicators alone, the paper's all of MPICH2. Its times (536.77, \
         520.55, 556.82 s and 18.69, 19.19, 19.49 s) are not had: no 512 processors here.",
    );
    Ok(())
}

fn fig_3(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let sizes = [64, 512, 4096, 32_768, 262_144];
    outcome.head("KiB", sizes.map(|size| crate::output::count(size.into())));
    outcome.curves("processes", "KiB of a process", sizes.map(f64::from));
    // Neighbours of a part of a cubic grid, and of a line of parts.
    let shapes = [("cubic: 26 neighbours", Some(26)), ("linear: 2", Some(2)), ("eager: all", None)];
    for (name, peers) in shapes {
        let kib = sizes.map(|size| Ok(kib(answers, size, peers.unwrap_or(size))?[1]));
        let kib = kib.into_iter().collect::<Result<Vec<_>, String>>()?;
        outcome.numbers(name, How::Simulated, 1, kib);
    }
    outcome.note(
        "The paper has no numbers: the cubic grid grows slowly, the linear one is flat. A \
         neighbour opens a page of the address vector at worst.",
    );
    Ok(())
}
