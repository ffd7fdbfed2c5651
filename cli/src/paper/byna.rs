//! Byna et al. (2004), "Improving the Performance of MPI Derived Datatypes by Optimizing
//! Memory-Access Cost".

use super::answers::{Answers, number};
use super::item::{Better, How, Item, Outcome, Paper};
use rankway_cli::observe::figures::{TRANSPOSE_BANDWIDTH, TRANSPOSE_SPEEDUP};
use serde_json::Value;

pub(super) const PAPER: Paper = Paper {
    key: "byna",
    label: "Byna et al. 2004",
    items: &[
        Item { key: "fig-1", label: "Figs. 1, 7", title: "a transpose, by bytes", measure: fig_1 },
        Item {
            key: "fig-6",
            label: "Figs. 2, 6, 8",
            title: "packing of a transpose, by bytes",
            measure: fig_6,
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
    head(outcome, "times as fast as MPICH's datatypes", "times as fast as MPICH");
    let each = |value: f64| SIZES.map(|_| value);
    let [least, most] = TRANSPOSE_SPEEDUP;
    let packing = outcome.numbers("packing, at least", How::Quoted, 1, each(least));
    let most = outcome.numbers("packing, at most", How::Quoted, 1, each(most));
    let sent = outcome.numbers("a message, at most", How::Quoted, 2, each(TRANSPOSE_BANDWIDTH));
    // A note has them.
    [packing, most, sent].into_iter().for_each(|line| outcome.aside(line));
    outcome.note("The paper, MPICH 1.2.5: packing 3.8 to 5.5, a message at most 1.85.");
    let answer = packed(answers)?;
    let ratios = of(&answer, "pack/to_mpich");
    if ratios.iter().all(|ratio| ratio.is_nan()) {
        return Err("there is no MPICH here; `rankway pack` says what is missing".to_owned());
    }
    for (name, ratios) in
        [("ours, packing", ratios), ("ours, unpacking", of(&answer, "unpack/to_mpich"))]
    {
        let ours = outcome.numbers(name, How::Measured, 1, ratios);
        outcome.hold(ours, packing, Better::Higher, 0);
        if name.ends_with("unpacking") {
            outcome.aside(ours);
        }
    }
    let both = |who: &str| {
        let (there, back) = (format!("pack/{who}"), format!("unpack/{who}"));
        let pairs = of(&answer, &there).into_iter().zip(of(&answer, &back));
        pairs.map(|(there, back)| there + back).collect::<Vec<_>>()
    };
    let ratios = both("mpich").into_iter().zip(both("ours")).map(|(mpich, ours)| mpich / ours);
    let ours = outcome.numbers("ours, both copies of one", How::Measured, 1, ratios);
    outcome.hold(ours, sent, Better::Higher, 0);
    Ok(())
}

fn fig_6(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    head(outcome, "ns an element", "ns an element");
    let answer = packed(answers)?;
    let lines = [
        ("copying (o)", "memcpy"),
        ("MPICH's datatypes", "mpich"),
        ("Open MPI's (there: IBM's)", "openmpi"),
        ("a plain loop", "naive"),
        ("the best loop by hand", "manual"),
        ("ours", "ours"),
    ];
    let lines = lines.map(|(name, key)| {
        outcome.numbers(name, How::Measured, 2, of(&answer, &format!("pack/{key}")))
    });
    outcome.hold(lines[5], lines[1], Better::Lower, 0);
    outcome.aside(lines[3]);
    outcome.note("l_p: a line without o. l_m, L: not had.");
    Ok(())
}
