//! A rank of the job whose calls are counted: loads the calls, and steps through
//! those of rank 0.

use super::Args;
use crate::shared_object::SharedObject;
use rankway_cli::observe::disasm;
use rankway_cli::observe::step::{self, Limits, Marker, Region, StepError, Trace};
use rankway_cli::observe::symbols::Symbols;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Bytes of the page in which ranks take turns.
const PAGE: usize = 4096;

/// Files in the job's directory: the page, what is counted in its order, what came
/// of it.
const TURNS: &str = "turns";
const NAMES: &str = "names";
const COUNTED: &str = "counted";
const LISTED: &str = "listed";

/// A call's instructions, the median of all its counts.
#[derive(Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) name: String,
    pub(super) instructions: f64,
    pub(super) libraries: BTreeMap<String, f64>,
    /// Where they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) functions: BTreeMap<String, f64>,
}

type Counter = extern "C" fn(*const c_char, *const c_void, c_int);
type Calls = unsafe extern "C" fn(*mut c_void, *const c_char, c_int, Counter, Counter) -> c_int;

/// Makes the page for a job.
pub(super) fn make_page(directory: &Path) -> Result<(), String> {
    fs::write(directory.join(TURNS), [0; PAGE]).map_err(|e| e.to_string())
}

/// What a job counted.
pub(super) fn counted(directory: &Path) -> Result<Vec<Counted>, String> {
    let text = fs::read(directory.join(COUNTED)).map_err(|e| format!("nothing counted: {e}"))?;
    serde_json::from_slice(&text).map_err(|e| e.to_string())
}

/// The listing that was asked for, if it is of a call.
pub(super) fn listed(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join(LISTED)).ok()
}

/// Runs a rank.
pub(super) fn run(args: &Args, directory: &Path, half: &str) -> Result<ExitCode, String> {
    let calls = || -> Result<(), String> {
        let library = SharedObject::open(&args.program, "make count-mpi makes it")?;
        let calls = library.find(c"rankway_count_mpi")?;
        // SAFETY: the type that `count.c` gives it.
        let calls = unsafe { std::mem::transmute::<*mut c_void, Calls>(calls) };
        let half = CString::new(half).map_err(|e| e.to_string())?;
        let page = map(&directory.join(TURNS))?;
        // SAFETY: a page of zeros that stays mapped, a string, functions.
        match unsafe { calls(page, half.as_ptr(), args.created.into(), count, ignore) } {
            0 => Ok(()),
            code => Err(format!("the calls returned {code}")),
        }
    };
    match std::env::var("OMPI_COMM_WORLD_RANK").as_deref() {
        Ok("0") => {}
        Ok(_) => return calls().map(|()| ExitCode::SUCCESS),
        Err(_) => return Err("--rank is for a process that mpirun started".into()),
    }
    let names = directory.join(NAMES);
    let limits = Limits { timeout: Duration::from_secs(args.limit), ..Limits::default() };
    let traces = step::session(limits, |marker| {
        let names = File::create(&names).map_err(|e| e.to_string())?;
        let counting = Counting { marker, names };
        COUNTING.store((&raw const counting).cast_mut().cast(), Ordering::Relaxed);
        let done = calls();
        COUNTING.store(std::ptr::null_mut(), Ordering::Relaxed);
        done
    });
    let traces = traces.map_err(|e: StepError| e.to_string())?;
    let names = fs::read_to_string(&names).map_err(|e| e.to_string())?;
    let (counted, listing) = summed(args, &names, &traces);
    let text = serde_json::to_vec(&counted).map_err(|e| e.to_string())?;
    fs::write(directory.join(COUNTED), text).map_err(|e| e.to_string())?;
    if let Some(trace) = listing {
        let listing = disasm::listing(trace, disasm::Style::default());
        fs::write(directory.join(LISTED), listing).map_err(|e| e.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn map(path: &Path) -> Result<*mut c_void, String> {
    let mut options = File::options();
    let file = options.read(true).write(true).open(path).map_err(|e| e.to_string())?;
    // SAFETY: a fresh mapping of a file of this length, which is never unmapped.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match page {
        libc::MAP_FAILED => Err(std::io::Error::last_os_error().to_string()),
        page => Ok(page),
    }
}

/// What [`count`] needs in the process that is stepped.
struct Counting<'a, 'b> {
    marker: &'a Marker<'b>,
    names: File,
}

/// That of this process, while its calls run.
static COUNTING: AtomicPtr<Counting<'_, '_>> = AtomicPtr::new(std::ptr::null_mut());

/// The next call of `function` is counted.
extern "C" fn count(name: *const c_char, function: *const c_void, many: c_int) {
    let counting = COUNTING.load(Ordering::Relaxed);
    // SAFETY: null in the rank that is not stepped, else set while the calls run; a
    // C string.
    let (Some(counting), name) = (unsafe { (counting.as_ref(), CStr::from_ptr(name)) }) else {
        return;
    };
    // What is not written is missed by the rank that reads it.
    let _ = writeln!(&counting.names, "{many} {}", name.to_string_lossy());
    counting.marker.count(Region::function(function as usize));
}

extern "C" fn ignore(_: *const c_char, _: *const c_void, _: c_int) {}

/// The counts of each call, in the order of their first, and the one to be listed.
fn summed<'a>(args: &Args, names: &str, traces: &'a [Trace]) -> (Vec<Counted>, Option<&'a Trace>) {
    let mut calls: Vec<(&str, f64, Vec<&Trace>)> = Vec::new();
    for (line, trace) in names.lines().zip(traces) {
        let Some((many, name)) = line.split_once(' ') else { continue };
        match calls.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., of)) => of.push(trace),
            None => calls.push((name, many.parse().unwrap_or(1.0), vec![trace])),
        }
    }
    let mut listing = None;
    let mut counted = Vec::new();
    for (name, many, mut traces) in calls {
        traces.sort_by_key(|trace| trace.count);
        let trace = traces[traces.len() / 2];
        if args.listing.as_deref() == Some(name) {
            listing = Some(trace);
        }
        let mut symbols = Symbols::new(&trace.modules);
        let mut one = Counted {
            name: name.to_owned(),
            instructions: trace.count as f64 / many,
            libraries: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        for &at in &trace.steps {
            let module = trace.modules.iter().find(|m| (m.start..m.end).contains(&at));
            let library = module.map_or_else(|| "?".into(), |module| library(&module.path));
            *one.libraries.entry(library).or_default() += 1.0 / many;
            if args.functions {
                let name = symbols.name(at).map_or_else(|| "?".into(), |name| name.function);
                *one.functions.entry(name).or_default() += 1.0 / many;
            }
        }
        counted.push(one);
    }
    (counted, listing)
}

/// The name of a library's file, without what is behind it.
fn library(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    name.split(".so").next().unwrap_or(&name).to_owned()
}
