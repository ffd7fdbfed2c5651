//! Table I: which maps communicators of programs have.

use crate::paper::answers::Answers;
use crate::paper::item::{Cell, How, Outcome};
use rankway_cli::observe::figures::{
    TABLE_I, TABLE_I_APPLICATIONS, TABLE_I_COLUMNS, TABLE_I_NWCHEM,
};
use serde_json::Value;

/// The column of the table that a communicator belongs to.
fn column(communicator: &Value) -> Option<usize> {
    let text = |key: &str| communicator[key].as_str().unwrap_or_default().to_owned();
    let (kind, constructor) = (text("kind"), text("constructor"));
    // Of all maps of a communicator the least regular one.
    let models = communicator["maps"].as_array().into_iter().flatten();
    let models = models.filter_map(|map| map["model"].as_str());
    let by_map = || {
        models.map(|model| match model {
            "direct" | "offset" => 1,
            "stride" => 2,
            _ => 3,
        })
    };
    match (&*kind, &*constructor) {
        // What every program has.
        (_, "MPI_COMM_WORLD" | "MPI_COMM_SELF") => None,
        ("intercommunicator", _) | (_, "MPI_Intercomm_merge") => Some(5),
        (_, made) if made.contains("Cart") || made.contains("Graph") || made.contains("graph_") => {
            Some(4)
        }
        // The paper: windows and files duplicate a communicator.
        ("window" | "file", _) => Some(0),
        (_, made) if made.contains("dup") => Some(0),
        _ => by_map().max(),
    }
}

pub(super) fn table_1(answers: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let columns = TABLE_I_COLUMNS.into_iter().chain(["tables here"]);
    outcome.head("", columns);
    let quoted = TABLE_I.map(f64::from).into_iter().chain([f64::NAN]);
    outcome.numbers(format!("applications of {TABLE_I_APPLICATIONS}"), How::Quoted, 0, quoted);
    let mark = |there: bool| if there { Cell::Text("x".to_owned()) } else { Cell::None };
    let marks = TABLE_I_NWCHEM.map(mark).into_iter().chain([Cell::None]);
    outcome.line("NWChem", How::Quoted, marks);
    if answers.traces.is_empty() {
        return Err("no program was recorded; `make papers` records some, or --traces names \
                    directories of `rankway trace record`"
            .to_owned());
    }
    let censuses = answers.censuses()?;
    let mut programs = [0_u32; 6];
    let mut lines = Vec::new();
    for census in &censuses {
        let mut counts = [0_u32; 7];
        for communicator in census["communicators"].as_array().into_iter().flatten() {
            let Some(column) = column(communicator) else { continue };
            counts[column] += 1;
            let maps = communicator["maps"].as_array().into_iter().flatten();
            let tables = maps.filter(|map| matches!(map["model"].as_str(), Some("lut" | "mlut")));
            counts[6] += tables.count() as u32;
        }
        programs.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u32::from(count > 0));
        let job = &census["jobs"][0];
        let name = job["program"].as_str().unwrap_or("a program");
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        lines.push((format!("{name}, {} ranks", job["size"]), counts));
    }
    // (What a program makes may be drawn anew in each run: HPCC's rings are.)
    let sums = programs.map(f64::from).into_iter().chain([f64::NAN]);
    let all = format!("programs of {}", censuses.len());
    outcome.numbers(all, How::Measured, 0, sums);
    for (name, counts) in lines {
        let cells = counts.map(|count| match count {
            0 => Cell::None,
            count => Cell::Number(count.into(), 0),
        });
        outcome.line(name, How::Measured, cells);
    }
    outcome.note("Communicators made, without world and self; a split into one is an offset.");
    Ok(())
}
