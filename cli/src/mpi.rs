//! `rankway mpi`: Open MPI's own components and ours, in turn, by one program.

use crate::arguments;
use crate::output::{self, Table};
use crate::plot;
use clap::Args as ClapArgs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs the benchmark of plugins/openmpi under mpirun with each stack in turn,
/// round after round, and keeps the best of each: ratios of ours to the best of
/// Open MPI's own are the claim. `make bench-mpi` builds what it needs.
#[derive(ClapArgs)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  make bench-mpi\n  make bench-mpi ARGS=\"--rounds 5 --svg mpi.svg\"\n  \
    make bench-mpi ARGS=\"--stack rankway,osc-sm --json\"\n\
    JSON keys: figures[].{name,lower_is_better,ours,best,best_stack,ratio,bound,met}, \
    stacks.NAME.{flags,error,crashed[],figures.NAME}"
)]
pub(crate) struct Args {
    /// The benchmark, built from plugins/openmpi/bench/bench.c
    #[arg(long)]
    program: PathBuf,
    /// Where our components are installed
    #[arg(long)]
    components: PathBuf,
    /// Only these stacks
    #[arg(long, value_delimiter = ',')]
    stack: Vec<String>,
    /// Runs of each stack; the best counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Milliseconds of one measurement; a run goes through all figures again
    /// and again
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    slice: u32,
    /// Measurements of each figure in a run
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
    /// Seconds after which a run is given up
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the ratios
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,
}

/// A choice of components.
struct Stack {
    name: &'static str,
    /// MCA parameters and their values.
    flags: &'static str,
    /// Which half of the benchmark it is for: of two-sided or one-sided calls.
    half: &'static str,
    ours: bool,
}

const STACKS: [Stack; 8] = [
    Stack { name: "rankway", flags: "pml cm, mtl rankway, osc rankway", half: "both", ours: true },
    Stack {
        name: "rankway-ucx",
        flags: "pml cm, mtl rankway, osc rankway, mtl_rankway_netmod ucx",
        half: "both",
        ours: true,
    },
    Stack { name: "ob1+vader", flags: "pml ob1, btl self+vader", half: "two", ours: false },
    Stack { name: "cm+ofi", flags: "pml cm, mtl ofi", half: "two", ours: false },
    Stack { name: "ucx", flags: UCX, half: "two", ours: false },
    Stack {
        name: "osc-rdma",
        flags: "pml ob1, btl self+vader, osc rdma",
        half: "one",
        ours: false,
    },
    Stack {
        name: "osc-sm",
        flags: "pml ob1, btl self+vader, osc sm+pt2pt",
        half: "one",
        ours: false,
    },
    Stack { name: "osc-ucx", flags: UCX, half: "one", ours: false },
];

/// Without the last two Open MPI takes UCX with InfiniBand only.
const UCX: &str = "pml ucx, osc ucx, opal_common_ucx_tls any, opal_common_ucx_devices any";

/// What a figure's ratio should reach; the others have no bound.
const BOUNDS: [(&str, f64); 5] = [
    ("put_rate_M/s", 1.2),
    ("put_latency_us", 1.0),
    ("send_latency_us", 1.1),
    ("send_rate_M/s", 1.0),
    ("send_bandwidth_MB/s", 0.9),
];

type Figures = BTreeMap<String, f64>;

#[derive(Serialize)]
struct Report {
    figures: Vec<Figure>,
    stacks: BTreeMap<&'static str, Run>,
}

#[derive(Serialize)]
struct Run {
    flags: String,
    /// Why the last run that failed did.
    error: Option<String>,
    /// Figures in which runs failed; they are left out of those that follow.
    crashed: Vec<String>,
    figures: Figures,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    lower_is_better: bool,
    ours: Option<f64>,
    best: Option<f64>,
    best_stack: Option<&'static str>,
    ratio: Option<f64>,
    bound: Option<f64>,
    met: Option<bool>,
}

fn lower_is_better(name: &str) -> bool {
    name.ends_with("_us")
}

/// The better of two values of a figure.
fn better(name: &str, a: f64, b: f64) -> f64 {
    if lower_is_better(name) { a.min(b) } else { a.max(b) }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    for (what, path) in [("the benchmark", &args.program), ("the components", &args.components)] {
        if !path.exists() {
            return Err(format!("{what} is not at {}; run it as: make bench-mpi", path.display()));
        }
    }
    let chosen =
        |stack: &&Stack| args.stack.is_empty() || args.stack.iter().any(|s| s == stack.name);
    if let Some(unknown) = args.stack.iter().find(|s| STACKS.iter().all(|k| k.name != **s)) {
        let names: Vec<&str> = STACKS.iter().map(|s| s.name).collect();
        return Err(format!("no stack '{unknown}'; there are {}", names.join(", ")));
    }
    let stacks: Vec<&Stack> = STACKS.iter().filter(chosen).collect();
    let bar = match args.json {
        true => indicatif::ProgressBar::hidden(),
        false => output::progress(args.rounds * stacks.len() as u32, String::new()),
    };
    let mut runs: BTreeMap<&'static str, Run> = BTreeMap::new();
    for _ in 0..args.rounds {
        for stack in &stacks {
            bar.set_message(stack.name);
            let run = runs.entry(stack.name).or_insert_with(|| Run {
                flags: stack.flags.to_owned(),
                error: None,
                crashed: Vec::new(),
                figures: Figures::new(),
            });
            // What a library crashes in is left out, and the rest is measured.
            while let Err(why) = once(args, stack, &run.crashed, &mut run.figures) {
                run.error = Some(why.text);
                match why.figure {
                    Some(figure) if run.crashed.len() < 4 && !run.crashed.contains(&figure) => {
                        run.crashed.push(figure);
                    }
                    _ => break,
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let report = Report { figures: compare(&stacks, &runs), stacks: runs };
    let mut out = Vec::new();
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
        writeln!(out, "{text}").map_err(|e| e.to_string())?;
    } else {
        report.print(&stacks, &mut out).map_err(|e| e.to_string())?;
    }
    output::emit(&out)?;
    if report.stacks.values().all(|run| run.figures.is_empty()) {
        return Err("no stack gave a figure (see above, or `error` of --json)".into());
    }
    if let Some(path) = &args.svg {
        report.draw(&stacks, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a run failed.
struct Failure {
    text: String,
    /// What was being measured.
    figure: Option<String>,
}

/// Where an mpirun keeps its session: one that ends removes what all of a user
/// share, while another makes its own in it.
struct Session(PathBuf);

impl Session {
    fn new() -> std::io::Result<Session> {
        let place = std::env::temp_dir().join(format!("rankway-mpi-{}", std::process::id()));
        std::fs::create_dir_all(&place)?;
        Ok(Session(place))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One run of one stack, without some figures; what it printed before it ended
/// is taken into `figures` where it is better.
fn once(
    args: &Args,
    stack: &Stack,
    omitted: &[String],
    figures: &mut Figures,
) -> Result<(), Failure> {
    let session = Session::new()
        .map_err(|e| Failure { text: format!("a directory for mpirun: {e}"), figure: None })?;
    let mut command = Command::new("mpirun.openmpi");
    command.env("TMPDIR", &session.0).args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]);
    // Ours wins by priority wherever it is found.
    if stack.ours {
        let path = format!("{}:SYS_DEFAULT", args.components.display());
        command.args(["--mca", "mca_base_component_path", &path]);
    }
    for flag in stack.flags.split(", ") {
        let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
        command.args(["--mca", name, &value.replace('+', ",")]);
    }
    command
        .arg(&args.program)
        .args([args.slice.to_string(), args.samples.to_string(), stack.half.to_owned()])
        .args(omitted)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|e| Failure { text: format!("mpirun.openmpi: {e}"), figure: None })?;
    let (out, err) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() > Duration::from_secs(args.limit) => {
                // It takes its ranks along when it is asked to end.
                // SAFETY: a process of ours that was not waited for.
                unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                let _ = child.wait();
                break Err(format!("no end after {} s", args.limit));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => break Err(e.to_string()),
        }
    };
    // A thread that failed has read nothing.
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let mut at = None;
    for (name, value) in out.lines().filter_map(|line| line.split_once(' ')) {
        if name == "at" {
            at = Some(value.to_owned());
        } else if let Ok(value) = value.trim().parse() {
            let known = figures.get(name).copied().unwrap_or(value);
            figures.insert(name.to_owned(), better(name, known, value));
        }
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let words = words(&err).unwrap_or_else(|| status.to_string());
            let text = match &at {
                Some(at) => format!("in {at}: {words}"),
                None => words,
            };
            Err(Failure { text, figure: at })
        }
        Err(text) => Err(Failure { text, figure: at }),
    }
}

/// Reads to the end meanwhile, so that nobody waits for space in a pipe.
fn listen(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A line or two less is what a run that failed has to say.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What Open MPI says went wrong, without frames and process numbers: the
/// signal, or the first paragraph.
pub(crate) fn words(text: &str) -> Option<String> {
    /// Characters that fit under a table.
    const WIDTH: usize = 160;
    // "[host:pid] text"
    let lines = text.lines().map(|line| match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(line, |(_, rest)| rest).trim(),
        None => line.trim(),
    });
    let frame = |line: &&str| line.chars().all(|c| c == '-');
    let lines: Vec<&str> = lines.skip_while(frame).collect();
    let signal = lines.iter().find_map(|line| line.strip_prefix("Signal: "));
    let words = match signal {
        Some(signal) => signal.to_owned(),
        None => {
            let paragraph = lines.into_iter().take_while(|line| !frame(line));
            paragraph.collect::<Vec<_>>().join(" ")
        }
    };
    (!words.is_empty()).then(|| words.chars().take(WIDTH).collect())
}

/// The names of all figures, in the benchmark's order.
const NAMES: [&str; 19] = [
    "send_latency_us",
    "send_rate_M/s",
    "send_bandwidth_MB/s",
    "send_vector_MB/s",
    "send_transposed_MB/s",
    "send_structures_MB/s",
    "put_latency_us",
    "put_rate_M/s",
    "put_bandwidth_MB/s",
    "put_vector_MB/s",
    "put_transposed_MB/s",
    "put_structures_MB/s",
    "get_latency_us",
    "accumulate_latency_us",
    "accumulate_rate_M/s",
    "fetch_and_op_latency_us",
    "compare_and_swap_latency_us",
    "lock_shared_latency_us",
    "lock_exclusive_latency_us",
];

fn compare(stacks: &[&Stack], runs: &BTreeMap<&'static str, Run>) -> Vec<Figure> {
    let value = |stack: &Stack, name: &str| runs.get(stack.name)?.figures.get(name).copied();
    let figure = |name: &str| {
        let ours = value(&STACKS[0], name);
        let mut best: Option<(f64, &'static str)> = None;
        for stack in stacks.iter().filter(|stack| !stack.ours) {
            if let Some(v) = value(stack, name)
                && best.is_none_or(|(b, _)| better(name, v, b) == v)
            {
                best = Some((v, stack.name));
            }
        }
        let ratio = ours.zip(best).map(|(ours, (best, _))| ours / best);
        let bound = BOUNDS.iter().find(|(n, _)| *n == name).map(|(_, bound)| *bound);
        let meets = |(r, b): (f64, f64)| if lower_is_better(name) { r <= b } else { r >= b };
        Figure {
            name: name.to_owned(),
            lower_is_better: lower_is_better(name),
            ours,
            best: best.map(|(v, _)| v),
            best_stack: best.map(|(_, stack)| stack),
            ratio,
            bound,
            met: ratio.zip(bound).map(meets),
        }
    };
    NAMES.into_iter().map(figure).collect()
}

impl Report {
    fn print(&self, stacks: &[&Stack], out: &mut impl Write) -> std::io::Result<()> {
        let mut heads = vec!["figure"];
        heads.extend(stacks.iter().map(|stack| stack.name));
        heads.extend(["ours /\nbest", "should\nbe"]);
        let mut table = Table::new(&heads);
        table.title("MPI programs on Open MPI's own components and on ours, 2 ranks, one node");
        table.title("8 bytes, rates with 64 under way, bandwidth of 1 MiB; the best of all runs");
        table.title(
            "Vectors of every second double, a matrix transposed, structures of 16 bytes in 24",
        );
        let number = |v: f64| if v >= 100.0 { format!("{v:.0}") } else { format!("{v:.3}") };
        for figure in &self.figures {
            let mut cells = vec![figure.name.clone()];
            for stack in stacks {
                let value =
                    self.stacks.get(stack.name).and_then(|run| run.figures.get(&figure.name));
                cells.push(value.map_or_else(|| output::NONE.into(), |&v| number(v)));
            }
            cells.push(output::maybe(figure.ratio.map(|r| format!("{r:.2}"))));
            let sign = if figure.lower_is_better { "<=" } else { ">=" };
            cells.push(output::maybe(figure.bound.map(|b| format!("{sign} {b:.1}"))));
            table.row(&cells);
        }
        for (name, run) in &self.stacks {
            if let Some(why) = &run.error {
                table.note(format!("{name} failed: {why} ({})", run.flags));
            }
        }
        table.print(out)
    }

    /// Speed of every stack, the best of Open MPI's own being 1.
    fn draw(&self, stacks: &[&Stack], path: &Path) -> Result<(), String> {
        let names: Vec<&str> = self.figures.iter().map(|f| f.name.as_str()).collect();
        let speed = |stack: &Stack, figure: &Figure| {
            let value = self.stacks.get(stack.name).and_then(|run| run.figures.get(&figure.name));
            match (value, figure.best) {
                (Some(&v), Some(best)) if figure.lower_is_better => best / v,
                (Some(&v), Some(best)) => v / best,
                _ => f64::NAN,
            }
        };
        let series: Vec<(&str, Vec<f64>)> = stacks
            .iter()
            .map(|&stack| (stack.name, self.figures.iter().map(|f| speed(stack, f)).collect()))
            .collect();
        let title = "MPI on Open MPI's own components and on Rankway";
        plot::bars(path, title, &names, &series, "speed, the best of Open MPI's own = 1")
            .map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn open_mpi_in_its_own_words() {
        let crash =
            "[vm:1] *** Process received signal ***\n[vm:1] Signal: Segmentation fault (11)\n";
        assert_eq!(words(crash).as_deref(), Some("Segmentation fault (11)"));
        let refused = "-----\nNo components were able to be opened in the pml framework.\n\nThis\n";
        let first = "No components were able to be opened in the pml framework.";
        assert_eq!(words(refused).as_deref(), Some(first));
        assert_eq!(words("\n---\n"), None);
    }
}
