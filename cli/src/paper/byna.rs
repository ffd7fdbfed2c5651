//! Byna et al. (2004), "Improving the Performance of MPI Derived Datatypes by Optimizing
//! Memory-Access Cost".

use super::answers::{Answers, number};
use super::item::{Better, Chart, How, Item, Outcome, Paper};
use rankway_cli::observe::figures::{TRANSPOSE_BANDWIDTH, TRANSPOSE_SPEEDUP};
use serde_json::Value;

pub(super) const PAPER: Paper = Paper {
    key: "byna",
    label: "Byna et al. 2004",
    items: &[
        Item {
            key: "fig-1",
            label: "Fig. 1",
            title: "packing of a transpose: how many times as fast as MPICH's datatypes",
            measure: fig_1,
        },
        Item {
            key: "fig-2",
            label: "Fig. 2",
            title: "what packing adds to copying, by bytes of the matrix",
            measure: fig_2,
        },
        Item {
            key: "fig-6",
            label: "Fig. 6",
            title: "packing of a transpose, by bytes of the matrix",
            measure: fig_6,
        },
        Item {
            key: "fig-7",
            label: "Fig. 7",
            title: "bandwidth of a transpose, by bytes of the matrix",
            measure: fig_7,
        },
        Item {
            key: "fig-8",
            label: "Fig. 8",
            title: "packing beside another MPI's (the paper: IBM's, no numbers)",
            measure: fig_8,
        },
    ],
};

/// Bytes of 512 × 512 to 8192 × 8192 doubles.
const SIZES: [(&str, u64); 5] =
    [("2M", 2 << 20), ("8M", 8 << 20), ("32M", 32 << 20), ("128M", 128 << 20), ("512M", 512 << 20)];

fn packed(answers: &mut Answers) -> Result<Value, String> {
    answers.ask(match answers.quick {
        true => "pack transpose --size 2M,8M,32M --repetitions 1",
        false => "pack transpose --size 2M,8M,32M,128M,512M --repetitions 3",
    })
}

/// Of each size; none where it was not measured.
fn of(answer: &Value, key: &str) -> Vec<f64> {
    (0..SIZES.len()).map(|at| number(answer, &format!("/patterns/{at}/{key}"))).collect()
}

fn head(outcome: &mut Outcome, unit: &'static str, up: &'static str) {
    outcome.head(unit, SIZES.map(|(name, _)| name));
    outcome.curves("bytes of the matrix", up, SIZES.map(|(_, bytes)| bytes as f64));
}

fn fig_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("times", ["least of five sizes", "most"]);
    let theirs = outcome.numbers("blocked for cache", How::Quoted, 1, TRANSPOSE_SPEEDUP);
    let answer = packed(answers)?;
    for (name, key) in [("Rankway, pack", "pack/to_mpich"), ("unpack", "unpack/to_mpich")] {
        let ratios: Vec<f64> =
            of(&answer, key).into_iter().filter(|ratio| !ratio.is_nan()).collect();
        if ratios.is_empty() {
            return Err("there is no MPICH here; `rankway pack` says what is missing".to_owned());
        }
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let ours = outcome.numbers(name, How::Measured, 1, [least, most]);
        outcome.hold(ours, theirs, Better::More, 0);
    }
    outcome.note("MPICH 1.2.5 there (380% to 550%), this machine's MPICH here.");
    Ok(())
}

fn fig_2(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    head(outcome, "ns an element", "ns an element");
    let answer = packed(answers)?;
    let copied = of(&answer, "pack/memcpy");
    outcome.numbers("copying (o)", How::Measured, 2, copied.iter().copied());
    for (name, key) in [("MPICH's packing (l_p)", "pack/mpich"), ("Rankway's", "pack/ours")] {
        let more = of(&answer, key).into_iter().zip(&copied).map(|(packed, o)| packed - o);
        outcome.numbers(name, How::Measured, 2, more);
    }
    outcome.note("The paper has no numbers; l_m and L, of its sends, are not had.");
    Ok(())
}

fn fig_6(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    head(outcome, "ns an element", "ns an element");
    let answer = packed(answers)?;
    let lines = [
        ("MPICH's datatypes", "pack/mpich"),
        ("a plain loop", "pack/naive"),
        ("the best loop by hand", "pack/manual"),
        ("Rankway", "pack/ours"),
    ];
    let lines = lines.map(|(name, key)| outcome.numbers(name, How::Measured, 2, of(&answer, key)));
    outcome.hold(lines[3], lines[0], Better::Less, 0);
    outcome.note("The paper has no numbers: equal at 2 MB, better and better from 8 MB on.");
    Ok(())
}

fn fig_7(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    head(outcome, "GB/s", "GB/s");
    let most = SIZES.map(|_| TRANSPOSE_BANDWIDTH);
    let theirs = outcome.numbers("at most, to MPICH", How::Quoted, 2, most);
    let answer = packed(answers)?;
    let bandwidth = |who: &str| -> Vec<f64> {
        // There and back.
        let (there, back) =
            (of(&answer, &format!("pack/{who}")), of(&answer, &format!("unpack/{who}")));
        there.iter().zip(&back).map(|(there, back)| 8.0 / (there + back)).collect()
    };
    let (mpich, ours) = (bandwidth("mpich"), bandwidth("ours"));
    outcome.numbers("MPICH, pack and unpack", How::Measured, 2, mpich.iter().copied());
    outcome.numbers("Rankway", How::Measured, 2, ours.iter().copied());
    let ratio = ours.iter().zip(&mpich).map(|(ours, mpich)| ours / mpich);
    let ratio = outcome.numbers("Rankway to MPICH", How::Measured, 2, ratio);
    outcome.hold(ratio, theirs, Better::More, 0);
    outcome
        .note("The paper's is of a message through shared memory, ours of both its copies alone.");
    Ok(())
}

fn fig_8(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    outcome.head("ns an element", SIZES.map(|(name, _)| name));
    let answer = packed(answers)?;
    let lines = [("Open MPI's datatypes", "pack/openmpi"), ("Rankway", "pack/ours")];
    let lines = lines.map(|(name, key)| outcome.numbers(name, How::Measured, 2, of(&answer, key)));
    outcome.hold(lines[1], lines[0], Better::Less, 0);
    outcome.chart = Some(Chart::Bars("ns an element"));
    Ok(())
}
