//! The command's tables and charts, with the published figures as content.
#![allow(dead_code, clippy::unwrap_used)]

#[path = "../../cli/src/output.rs"]
mod output;
#[path = "../../cli/src/plot.rs"]
mod plot;
#[path = "../../cli/src/target.rs"]
mod target;

use rankway_cli::observe::figures::{
    MPICH_4_0_TRANSLATION, MPICH_5_1_TRANSLATION, TABLE_III, TABLE_V, TABLE_V_BLUES_2_THEORETICAL,
};

const MODELS: [&str; 7] = ["vc-vcrt", "direct", "offset", "stride", "blockstride", "lut", "mlut"];

#[test]
fn published_instruction_counts_as_a_table() {
    let mut table = output::Table::new(&["model", "paper", "MPICH 4.0", "MPICH 5.1"]);
    table.title("instructions from rank to address");
    for model in MODELS {
        let cell = |figures: rankway_cli::observe::figures::ByModel<u32>| {
            output::maybe(figures.get(model))
        };
        table.row(&[
            model.to_owned(),
            cell(TABLE_III),
            cell(MPICH_4_0_TRANSLATION),
            cell(MPICH_5_1_TRANSLATION),
        ]);
    }
    let mut out = Vec::new();
    table.print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("\ndirect           9          9         21\n"), "\n{text}");
    assert!(text.is_ascii());
}

/// Writes the charts where `RANKWAY_CHARTS` says, to be looked at, else to the
/// temporary folder and removes them.
#[test]
fn published_rates_as_charts() {
    let keep = std::env::var_os("RANKWAY_CHARTS").map(std::path::PathBuf::from);
    let folder = keep.clone().unwrap_or_else(std::env::temp_dir);
    let file = |name: &str| folder.join(format!("rankway-{}-{name}.svg", std::process::id()));
    let rates = |figures: rankway_cli::observe::figures::ByModel<f64>| -> Vec<f64> {
        MODELS.iter().map(|model| figures.get(model).unwrap_or(f64::NAN)).collect()
    };
    let counts = |figures: rankway_cli::observe::figures::ByModel<u32>| -> Vec<f64> {
        MODELS.iter().map(|model| figures.get(model).map_or(f64::NAN, f64::from)).collect()
    };

    let linear = file("linear");
    let series = [
        ("Blues, 2 processes", rates(TABLE_V_BLUES_2_THEORETICAL)),
        ("Blues, 8 processes", rates(TABLE_V[3])),
    ];
    let title = "Put issue rate, infinitely fast network";
    plot::bars(&linear, title, &MODELS, &series, "million puts per second").unwrap();

    let many = file("many");
    let series = [
        ("Guo et al. 2017, Table III", counts(TABLE_III)),
        ("MPICH 4.0.2, own process group", counts(MPICH_4_0_TRANSLATION)),
        ("MPICH 5.1", counts(MPICH_5_1_TRANSLATION)),
        ("made-up wide range", vec![1e3, 2e3, 4e3, 8e3, 1e4, 12_345.0, 1e6]),
    ];
    plot::bars(&many, "Instructions from rank to address", &MODELS, &series, "instructions")
        .unwrap();

    let curves = file("curves");
    let sizes = || (4..=20).step_by(2).map(|k| f64::from(1 << k));
    let series = [
        ("VC-VCRT, 480 B and 8 B a rank", sizes().map(|p| (p, 488.0 * p)).collect()),
        ("AV-Rankmap, 12 B a rank", sizes().map(|p| (p, 12.0 * p)).collect()),
        ("dense 64-bit entries, every peer touched", sizes().map(|p| (p, 8.0 * p)).collect()),
        ("untouched", sizes().map(|p| (p, 4096.0)).collect::<Vec<_>>()),
    ];
    plot::lines(&curves, "Bytes per process", &series, "processes", "bytes").unwrap();

    for chart in [linear, many, curves] {
        let svg = std::fs::read_to_string(&chart).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{chart:?}");
        if keep.is_none() {
            std::fs::remove_file(chart).unwrap();
        }
    }
}
