//! `rankway pack`: noncontiguous data packed and unpacked, beside memcpy, loops and
//! the MPIs of this machine.

mod applications;
mod library;
mod manual;
mod measure;
mod pattern;
mod peer;
mod report;
mod shape;
mod stage;

use self::measure::{Rival, Wanted, measure};
use self::pattern::{NAMED, Named, Pattern, columns, part};
use self::peer::Peer;
use self::report::{Library, Report};
use self::shape::{Shape, Unit, basic};
use crate::arguments;
use crate::output;
use clap::Args as ClapArgs;
use rankway::datatype::{Level, Plan};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  rankway pack                                 every named pattern, at its sizes
  rankway pack transpose --size 512M           columns of a matrix of 8192 x 8192 doubles
  rankway pack --vector 8192x8192              the same by description
  rankway pack --vector 4096x1024:8            8 columns at a time
  rankway pack --subarray 512x512/510x510@1x1  a matrix without its border
  rankway pack --indexed list.txt              elements at the places of a file; - is stdin
  rankway pack --applications                  16 patterns of real programs
  rankway pack transpose --svg transpose.svg   bandwidth by size, as a chart
  rankway pack vector-1 --model                what each plan should cost and what it does
  rankway pack --list                          all names

Times are of the best of several runs, by the processor's clock of the thread; every contender is \
compared with a reference byte by byte before it is timed, and all are timed in turn. By hand is \
the quickest of several ways to write the loops, compiled for the same instructions as ours. Each \
MPI has a process of its own.

Keys of --json: command, version, level, libraries [{name, library, version, error, remedy}], \
patterns [{name, what, bytes, element_bytes, blocks, pack and unpack {memcpy, ours, naive, manual, \
openmpi, mpich (ns an element), to_memcpy, to_manual, to_openmpi, to_mpich (their time to ours)}, \
failed, candidates [{direction, plan, chosen, predicted, measured, first_cache_misses, \
last_cache_misses, tlb_misses}], transfers [{network, target, method, costs}]}], \
figures [{what, measured, at_least, met}]. An absent figure is null.";

/// How fast noncontiguous data is packed, beside memcpy, loops and MPIs
#[derive(ClapArgs)]
#[command(allow_negative_numbers = true, after_long_help = HELP, after_help = "More, with examples: rankway pack --help")]
pub(crate) struct Args {
    /// Named patterns, as --list has them [default: all]
    #[arg(value_name = "PATTERN", value_parser = named)]
    patterns: Vec<&'static Named>,

    /// The columns of a matrix: ROWSxCOLUMNS, or ROWSxCOLUMNS:N for N at a time
    #[arg(long, value_name = "RxC", value_parser = matrix)]
    vector: Vec<(u64, u64, u64)>,

    /// A part of an array: SIZES/PARTS, or SIZES/PARTS@STARTS, the last dimension fastest
    #[arg(long, value_name = "SIZES/PARTS", value_parser = dimensions)]
    subarray: Vec<Dimensions>,

    /// Places of a file, one a line, each with a length behind it if not 1, in elements
    #[arg(long, value_name = "FILE")]
    indexed: Option<PathBuf>,

    /// What an element of a description is
    #[arg(long, default_value = "double", value_parser = unit)]
    element: Unit,

    /// 16 patterns of real programs
    #[arg(long)]
    applications: bool,

    /// Payloads of named patterns: 2M,512M
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = arguments::payload)]
    size: Vec<u64>,

    /// Rounds; the best of all counts
    #[arg(long, default_value_t = 5, value_parser = arguments::within::<u32>(1..=1_000_000))]
    repetitions: u32,

    /// Memory and stream begin so many bytes behind a line of the cache, 0 to 56 in eights
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = offset)]
    offset: usize,

    /// Instructions of ours and of the loops: portable, avx2, avx512 [default: the best]
    #[arg(long, value_parser = level)]
    level: Option<Level>,

    /// What each plan should cost, beside what it does
    #[arg(long)]
    model: bool,

    /// Which method the transport would take over each network
    #[arg(long)]
    explain: bool,

    /// Draws bandwidth by size of one named pattern into this file
    #[arg(long, value_name = "FILE", value_parser = arguments::chart,
        conflicts_with_all = ["vector", "subarray", "indexed", "applications"])]
    svg: Option<PathBuf>,

    /// Open MPI's library
    #[arg(long, value_name = "FILE", default_value = "libmpi.so.40")]
    openmpi: String,

    /// MPICH's library, or one of its ABI
    #[arg(long, value_name = "FILE", default_value = "libmpich.so.12")]
    mpich: String,

    /// For programs: one JSON object, keys as in --help
    #[arg(long)]
    json: bool,

    /// Shows the names of patterns
    #[arg(short, long, conflicts_with_all = ["patterns", "svg", "json", "applications"])]
    list: bool,

    /// Is the process with this MPI in it
    #[arg(long, hide = true, value_name = "LIBRARY")]
    serve: Option<String>,
}

type Dimensions = Vec<(u64, u64, u64)>;

/// The most elements that memory has.
const MOST: u64 = 1 << 28;

fn named(text: &str) -> Result<&'static Named, String> {
    let found = NAMED.iter().find(|named| named.name == text);
    found.ok_or_else(|| format!("there is no pattern '{text}'; rankway pack --list has the names"))
}

fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "byte" => Ok(Unit::Byte),
        "int" => Ok(Unit::Int),
        "float" => Ok(Unit::Float),
        "double" => Ok(Unit::Double),
        "complex" => Ok(Unit::Complex),
        _ => Err("byte, int, float, double or complex".into()),
    }
}

fn offset(text: &str) -> Result<usize, String> {
    let found = text.parse().ok().filter(|&bytes: &usize| bytes < 64 && bytes.is_multiple_of(8));
    found.ok_or_else(|| "0, 8, 16 and so on to 56".into())
}

fn level(text: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.name() == text);
    let level = found.ok_or("portable, avx2 or avx512")?;
    if level > Level::best() {
        return Err(format!("this processor has {} at best", Level::best().name()));
    }
    Ok(level)
}

/// `4x5x6`, each 1 or more.
fn product(text: &str) -> Option<Vec<u64>> {
    text.split('x')
        .map(|one| one.parse().ok().filter(|&one: &u64| one > 0 && one <= MOST))
        .collect()
}

/// Elements of an array, if memory may have as many.
fn elements(sizes: &[u64]) -> Result<u64, String> {
    let all = sizes.iter().try_fold(1_u64, |all, &size| all.checked_mul(size));
    all.filter(|&all| all <= MOST).ok_or_else(|| format!("more than {MOST} elements"))
}

fn matrix(text: &str) -> Result<(u64, u64, u64), String> {
    let help = || format!("'{text}' is no matrix; write 8192x8192, or 4096x1024:8");
    let (sizes, width) = match text.split_once(':') {
        Some((sizes, width)) => (sizes, width.parse().map_err(|_| help())?),
        None => (text, 1),
    };
    match product(sizes).ok_or_else(help)?[..] {
        [rows, columns] if width > 0 && columns % width == 0 => {
            elements(&[rows, columns])?;
            Ok((rows, columns, width))
        }
        [_, columns] => Err(format!("{width} columns at a time do not divide {columns}")),
        _ => Err(help()),
    }
}

fn dimensions(text: &str) -> Result<Dimensions, String> {
    let help = || format!("'{text}' is no part of an array; write 512x512/510x510@1x1");
    let (sizes, rest) = text.split_once('/').ok_or_else(help)?;
    let (parts, starts) = rest.split_once('@').unwrap_or((rest, ""));
    let (sizes, parts) = (product(sizes).ok_or_else(help)?, product(parts).ok_or_else(help)?);
    elements(&sizes)?;
    let starts: Vec<u64> = match starts {
        "" => vec![0; sizes.len()],
        starts => starts
            .split('x')
            .map(|one| one.parse().map_err(|_| help()))
            .collect::<Result<_, String>>()?,
    };
    if parts.len() != sizes.len() || starts.len() != sizes.len() || sizes.len() > 5 {
        return Err("as many parts and starts as sizes, 5 at most".into());
    }
    let dims =
        sizes.into_iter().zip(parts).zip(starts).map(|((size, part), start)| (size, part, start));
    let dims: Dimensions = dims.collect();
    match dims
        .iter()
        .find(|(size, part, start)| start.checked_add(*part).is_none_or(|end| end > *size))
    {
        Some((size, part, start)) => Err(format!("{part} from {start} on leave a size of {size}")),
        None => Ok(dims),
    }
}

/// What a file of places has in it.
const PLACES: &str = "--indexed takes a text with a place in each line, in elements, and a length \
                      behind it if that is not 1 (`5` or `5 3`); what follows # is left out";

/// The places of a file.
fn places(path: &Path, unit: Unit) -> Result<Pattern, String> {
    let name = if path == Path::new("-") { "stdin".into() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(path).map(|all| bytes = all),
    };
    read.map_err(|e| format!("cannot read {name}: {e}; {PLACES}"))?;
    // Places, lengths, and the lines they are in.
    let mut list: Vec<(u64, u64, usize)> = Vec::new();
    for (i, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        let wrong = |why: &str| format!("{name}, line {}: {why}; {PLACES}", i + 1);
        let (at, len) = match numbers.as_deref() {
            Ok([]) => continue,
            Ok(&[at]) => (at, 1),
            Ok(&[at, len]) if len > 0 => (at, len),
            _ => {
                let shown = line.trim().chars().take(40).collect::<String>();
                let shown = shown.escape_debug();
                return Err(wrong(&format!(
                    "not a place, nor a place and a length of 1 or more: '{shown}'"
                )));
            }
        };
        if at.checked_add(len).is_none_or(|end| end > MOST) {
            return Err(wrong(&format!("beyond {MOST} elements")));
        }
        list.push((at, len, i + 1));
    }
    if list.is_empty() {
        return Err(format!("{name}: there are no places in it; {PLACES}"));
    }
    let mut sorted = list.clone();
    sorted.sort_unstable();
    if let Some(&[(.., one), (twice, _, other)]) = (sorted.windows(2))
        .filter_map(<[_]>::first_chunk)
        .find(|&&[(at, len, _), (next, ..)]| at + len > next)
    {
        let (first, second) = (one.min(other), one.max(other));
        return Err(format!(
            "{name}, line {second}: element {twice} is there twice, also by line {first}; leave it \
             out of one"
        ));
    }
    let size = unit.size();
    let blocks = list.iter().map(|&(at, len, _)| (len, (at * size as u64) as i64)).collect();
    let run = list[0].1;
    let loops = match list.iter().all(|&(_, len, _)| len == run) {
        true => {
            let index = list.iter().map(|&(at, ..)| at as u32).collect();
            manual::Loops::List { at: 0, index, run: run as usize }
        }
        false => {
            let list = list.iter().map(|&(at, len, _)| (at as usize, len as usize));
            manual::Loops::Blocks(list.collect())
        }
    };
    Ok(Pattern {
        what: "places of a file".into(),
        shape: Shape::Indexed { blocks, of: Box::new(basic(unit)) },
        pieces: vec![manual::Piece::new(size, loops)],
        element: size,
        name,
    })
}

/// What is to be measured, in turn; of applications also whose it is.
fn patterns(args: &Args) -> Result<Vec<(&'static str, Pattern)>, String> {
    let mut all = Vec::new();
    let described = |name: String, what: &str, (shape, pieces, element)| {
        ("", Pattern { name, what: what.into(), shape, pieces, element })
    };
    for &(rows, wide, width) in &args.vector {
        let name = format!("{rows}x{wide}:{width}");
        all.push(described(name, "columns", columns(rows, wide, width, args.element)));
    }
    for dims in &args.subarray {
        let text = |of: fn(&(u64, u64, u64)) -> u64| {
            dims.iter().map(|dim| of(dim).to_string()).collect::<Vec<_>>().join("x")
        };
        let name = format!("{}/{}@{}", text(|d| d.0), text(|d| d.1), text(|d| d.2));
        all.push(described(name, "a part of an array", part(dims, args.element)));
    }
    if let Some(path) = &args.indexed {
        all.push(("", places(path, args.element)?));
    }
    if args.applications {
        all.extend(applications::all());
    }
    let named: Vec<&Named> = match args.patterns.is_empty() && all.is_empty() {
        true => NAMED.iter().collect(),
        false => args.patterns.clone(),
    };
    for named in named {
        let sizes = match (args.size.is_empty(), args.svg.is_some()) {
            (false, _) => args.size.clone(),
            (true, true) => named.sweep(),
            (true, false) => named.sizes.to_vec(),
        };
        all.extend(sizes.into_iter().map(|bytes| ("", named.of(bytes))));
    }
    Ok(all)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some(library) = &args.serve {
        return Ok(peer::serve(library));
    }
    if args.list {
        output::print(list)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.svg.is_some() && args.patterns.len() != 1 {
        return Ok(output::refuse_arguments("pack", "--svg draws one named pattern"));
    }
    let report = report(args)?;
    if let (Some(path), Some(named)) = (&args.svg, args.patterns.first()) {
        report.draw(named.name, path).map_err(|e| e.to_string())?;
    }
    output::report(&report, args.json, |out| report.print(out))?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&report(args)?)
}

fn report(args: &Args) -> Result<Report, String> {
    // (What every copy would refuse, before MPIs are started.)
    let plan = std::env::var_os(Plan::VARIABLE).unwrap_or_default();
    if !plan.is_empty() {
        Plan::check(&plan.to_string_lossy()).map_err(|e| e.to_string())?;
    }
    let patterns = patterns(args)?;
    let start = |name, key, library: &str| Rival { name, peer: Peer::start(key, library) };
    let mut rivals =
        [start("Open MPI", "openmpi", &args.openmpi), start("MPICH", "mpich", &args.mpich)];
    let libraries = rivals.iter().zip([
        (&args.openmpi, "apt install libopenmpi3, or --openmpi FILE"),
        (&args.mpich, "apt install libmpich12, or --mpich FILE"),
    ]);
    let libraries = libraries.map(|(rival, (library, remedy))| Library {
        name: rival.name,
        library: library.clone(),
        version: rival.peer.as_ref().ok().map(|peer| peer.version.clone()),
        error: rival.peer.as_ref().err().cloned(),
        remedy: rival.peer.is_err().then_some(remedy),
    });
    let mut report = Report {
        command: "pack",
        version: env!("CARGO_PKG_VERSION"),
        level: args.level.unwrap_or_else(Level::best).name(),
        libraries: libraries.collect(),
        patterns: Vec::new(),
        figures: Vec::new(),
    };
    let wanted = Wanted {
        level: args.level,
        repetitions: args.repetitions,
        offset: args.offset,
        model: args.model,
        explain: args.explain,
    };
    let bar = match args.json {
        true => indicatif::ProgressBar::hidden(),
        false => output::progress(patterns.len() as u32, String::new()),
    };
    for (_, pattern) in &patterns {
        bar.set_message(pattern.name.clone());
        report.patterns.push(measure(pattern, &mut rivals, &wanted)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.applications {
        let names: Vec<&'static str> = patterns.iter().map(|(name, _)| *name).collect();
        report.judge(&names);
    }
    Ok(report)
}

fn list(out: &mut impl Write) -> std::io::Result<()> {
    let mut table = output::Table::new(&["pattern", "what", "payload"]);
    for named in &NAMED {
        let sizes: Vec<String> = named.sizes.iter().map(|&bytes| output::bytes(bytes)).collect();
        table.row(&[named.name, named.what, &sizes.join(", ")]);
    }
    table.note("").note("--applications");
    for (_, pattern) in applications::all() {
        let bytes = output::bytes(pattern.shape.bytes().1 as u64);
        table.row(&[&pattern.name, &pattern.what, &bytes]);
    }
    table.print(out)
}
