//! `rankway maps`: how small rank maps get, and what a lookup then takes.
//!
//! Communicators come from the library's catalogue, from a list or from a file;
//! each is built in every representation, checked and measured. See [`report`]
//! for the keys of the JSON output.

mod input;
mod measure;
mod report;
mod source;

use self::measure::{Depth, measure};
use self::report::Report;
pub(crate) use self::source::named;
use self::source::{Wrong, sources};
use crate::arguments::{self, number};
use crate::output::{self, progress, refuse_arguments};
use rankway::rankmap::compact::{Representation, Strategy};
use rankway_cli::observe::maps::{Builtin, MILLION};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  rankway maps                            what each strategy picks for the thesis's classes
  rankway maps A                          class A in every representation, with times
  rankway maps table6.1 plane transpose   several, as one table
  rankway maps --ranks 0,4,8-15,20-40:4   a communicator of these ranks
  rankway maps --file ranks.txt           one of the ranks in a file; - is stdin
  rankway maps classes --svg maps.svg     bytes against time, as a chart
  rankway maps --list                     all names

One communicator is measured in every representation, with times; several are shown by what the \
strategies pick, without (--all and --times change that). Times are the least of many chunks; \
random lookups depend on the one before. Every map that is measured was compared with the list it \
was made from.

The thesis is Mir Taheri (2011), Scalability of Communicators in MPI. Its representations are \
computed for each map from its descriptions; the few times it tells in numbers are of a Core i7 \
of 2.67 GHz. The bound is the binary logarithm of the number of maps of the same class.

Keys of --json: command, version, head_bytes, strategies; \
maps [{name, group, what, universe, ranks, set, radices, bound {bits, bytes, what}, \
representations [{representation, bytes, bits_per_member, ratio, random_ns, table_ns, sequential_ns, \
inverse_ns, bytes_with_inverse, build_ns, chosen_by}], unfit [{representation, why}], \
chosen [{strategy, representation, bytes, bits_per_member, ratio, thesis_ratio, \
no_larger_than_thesis}], thesis [{representation, bytes, random_ns}], thesis_best}]; \
figures [{name, value, at_most, unit, pass}]; published [{what, value, unit, source}]. Bytes are of \
whole maps with the head_bytes of each; ratio is to the bound; an absent figure is null.";

/// How small rank maps get and how fast they are, in every representation
#[derive(clap::Args)]
#[command(allow_negative_numbers = true, after_long_help = HELP, after_help = "More, with examples: rankway maps --help")]
pub(crate) struct Args {
    /// Built-in communicators or groups of them: A to E, classes, table6.1, shapes, all
    /// [default: classes]
    #[arg(value_name = "MAP", value_parser = named)]
    maps: Vec<Vec<&'static Builtin>>,

    /// A communicator of these ranks of the universe: 0,4,8-15,20-40:4
    #[arg(short, long, value_name = "LIST")]
    ranks: Option<String>,

    /// A communicator of the ranks in this file, one a line or apart by blanks; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Ranks of the universe; k is 1024, M is 1024k [default: 1000000; 200000 for table6.1]
    #[arg(short, long, value_name = "U", value_parser = universe)]
    universe: Option<u32>,

    /// Radices of the topology --ranks or --file are cut from, slowest first: 100x100x100
    #[arg(long, value_name = "RADICES", value_parser = radices)]
    radices: Option<Radices>,

    /// Strategies that pick, with commas: time, space, hybrid, hybrid:ALPHA
    #[arg(
        short,
        long,
        value_delimiter = ',',
        default_value = "space,hybrid,time",
        value_parser = strategy
    )]
    strategy: Vec<Strategy>,

    /// Another draw of what is random: 0 has the sizes of the known figures, others draw sizes too
    #[arg(long, default_value = "0", value_parser = arguments::seed)]
    seed: u64,

    /// Every representation, for several communicators too
    #[arg(short, long)]
    all: bool,

    /// Times too, for several communicators
    #[arg(short, long)]
    times: bool,

    /// Bytes only, for one communicator too
    #[arg(short, long, conflicts_with_all = ["times", "svg"])]
    bytes: bool,

    /// Writes bytes against time as a chart into this file
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,

    /// For programs: one JSON object, keys as in --help
    #[arg(long)]
    json: bool,

    /// Shows the names of the built-in communicators
    #[arg(short, long, conflicts_with_all = ["maps", "ranks", "file", "svg", "json"])]
    list: bool,
}

type Radices = Vec<u32>;

fn strategy(text: &str) -> Result<Strategy, String> {
    text.parse().map_err(|_| "time, space, hybrid or hybrid:ALPHA, ALPHA from 0 to 1".into())
}

fn universe(text: &str) -> Result<u32, String> {
    let value = number(text)?;
    if value == 0 { Err("at least 1".into()) } else { Ok(value) }
}

fn radices(text: &str) -> Result<Radices, String> {
    let each = text.split('x').map(|one| one.parse().ok().filter(|&radix: &u32| radix > 1));
    each.collect::<Option<Radices>>()
        .ok_or_else(|| format!("'{text}' are no radices; write 100x100x100, each 2 or more"))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    if args.list {
        output::print(report::list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = match report(args) {
        Ok(report) => report,
        Err(Wrong::Input(why)) => return Err(why),
        Err(Wrong::Arguments(why)) => return Ok(refuse_arguments("maps", &why)),
    };
    if let Some(path) = &args.svg {
        report.svg(path)?;
    }
    output::report(&report, args.json, |out| {
        report.text(out)?;
        output::charts(out, &args.svg)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    let report = report(args).map_err(|wrong| match wrong {
        Wrong::Input(why) | Wrong::Arguments(why) => why,
    })?;
    output::value(&report)
}

/// A topology of more ranks than the universe has.
fn refuse_grid(args: &Args) -> Result<(), Wrong> {
    let universe = args.universe.unwrap_or(MILLION);
    let radices = args.radices.iter().flatten();
    let grid = radices.fold(1_u128, |all, &one| all.saturating_mul(one.into()));
    if grid <= universe.into() {
        return Ok(());
    }
    let remedy = match u32::try_from(grid) {
        Ok(grid) => format!("give --universe {grid} or smaller radices"),
        Err(_) => "give smaller radices".to_owned(),
    };
    Err(Wrong::Arguments(format!(
        "the grid of --radices has {grid} ranks, more than the universe of {universe}; {remedy}"
    )))
}

fn report(args: &Args) -> Result<Report, Wrong> {
    refuse_grid(args)?;
    let sources = sources(args);
    let alone = sources.len() == 1;
    let chart = args.svg.is_some();
    let depth = Depth {
        all: args.all || args.times || alone || chart,
        times: !args.bytes && (args.times || alone || chart),
    };
    let each = args.strategy.len() + if depth.all { Representation::ALL.len() } else { 0 };
    let bar = progress((sources.len() * (each + 1)) as u32, String::new());
    let mut measured = Vec::with_capacity(sources.len());
    for source in &sources {
        bar.set_message(source.name.clone());
        let sample = source.sample(args).inspect_err(|_| bar.finish_and_clear())?;
        bar.inc(1);
        let step = |what: &str| {
            bar.set_message(what.to_owned());
            bar.inc(1);
        };
        let of = measure(source, &sample, &args.strategy, depth, step).map_err(Wrong::Input)?;
        measured.push(of);
    }
    bar.finish_and_clear();
    Ok(Report::new(measured, &args.strategy, args.seed))
}
