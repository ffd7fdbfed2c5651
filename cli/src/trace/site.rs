//! Places in the program: a module and an offset as file and line, where the module is
//! still there with what a debugger needs.

use crate::output::NONE;
use addr2line::Loader;
use rankway::track::ProcessTrace;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// `halo.c:41`, else what was recorded: `/home/me/halo+0x11d4`.
    pub(super) text: String,
    /// The function's name.
    pub(super) function: Option<String>,
}

/// Places, each looked up once.
#[derive(Default)]
pub(super) struct Sites {
    modules: RefCell<BTreeMap<String, Option<Module>>>,
    places: RefCell<BTreeMap<String, Place>>,
}

struct Module {
    loader: Loader,
    /// When it was last written, in ns since 1970.
    written: u64,
}

impl Sites {
    /// The place of this number in a process; `None` if the process did not say where.
    pub(super) fn of(&self, trace: &ProcessTrace, site: u16) -> Option<Place> {
        Some(self.place(trace.sites.get(&site)?, trace.header.unix_nanos))
    }

    /// The place that was recorded so, at this time in ns since 1970.
    pub(super) fn place(&self, recorded: &str, recorded_at: u64) -> Place {
        if let Some(place) = self.places.borrow().get(recorded) {
            return place.clone();
        }
        let place = self.look_up(recorded, recorded_at);
        let place = place.unwrap_or_else(|| Place { text: recorded.to_owned(), function: None });
        self.places.borrow_mut().insert(recorded.to_owned(), place.clone());
        place
    }

    /// `None` if it is none, or its module is gone, was written since, or has no lines.
    fn look_up(&self, recorded: &str, recorded_at: u64) -> Option<Place> {
        let (path, offset) = recorded.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let mut modules = self.modules.borrow_mut();
        let module = modules.entry(path.to_owned()).or_insert_with(|| Module::open(path));
        let module = module.as_ref().filter(|module| module.written <= recorded_at)?;
        // It is where the call returns to: the call is before it.
        let probe = offset.checked_sub(1)?;
        let function = module.loader.find_symbol(probe).map(|name| {
            let name = rustc_demangle::demangle(name);
            format!("{name:#}")
        });
        let location = module.loader.find_location(probe).ok().flatten();
        let text = match location.and_then(|at| Some((at.file?, at.line?))) {
            Some((file, line)) => format!("{}:{line}", short(file)),
            None if function.is_some() => recorded.to_owned(),
            None => return None,
        };
        Some(Place { text, function })
    }
}

impl Module {
    fn open(path: &str) -> Option<Module> {
        let written = fs::metadata(path).ok()?.modified().ok()?;
        let written = written.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        let loader = Loader::new(path).ok()?;
        Some(Module { loader, written: u64::try_from(written).ok()? })
    }
}

/// For a table: without the directories before the file, the function behind it.
pub(super) fn told(site: Option<&str>, function: Option<&str>) -> String {
    let Some(site) = site else { return NONE.to_owned() };
    let file = site.rsplit('/').next().unwrap_or(site);
    match function {
        Some(function) => format!("{file} ({function})"),
        None => file.to_owned(),
    }
}

/// Without the directory that this runs in.
fn short(file: &str) -> &str {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| Path::new(file).strip_prefix(here).ok()?.to_str());
    below.filter(|rest| !rest.is_empty()).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn return_address() -> usize {
        std::hint::black_box(return_address as *const () as usize)
    }

    /// An address of this program is found by its name; what is gone, was written since or
    /// is no module stays as it was recorded.
    #[test]
    fn places_are_found() {
        let program = std::env::current_exe().expect("this program");
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
        let own = maps.lines().find(|line| line.ends_with(program.to_str().expect("text")));
        let base = own.and_then(|line| line.split('-').next()).expect("mapped");
        let base = usize::from_str_radix(base, 16).expect("hexadecimal");
        let recorded = format!("{}+{:#x}", program.display(), return_address() + 1 - base);
        let sites = Sites::default();
        let place = sites.look_up(&recorded, u64::MAX).expect("has symbols");
        assert!(place.function.as_ref().is_some_and(|f| f.contains("return_address")), "{place:?}");
        assert_eq!(sites.look_up(&recorded, 1), None);
        for text in ["/nonexistent+0x12", "main.rs:12", "+0x", "/etc/passwd+0x0", ""] {
            assert_eq!(sites.look_up(text, u64::MAX), None, "{text}");
        }
    }
}
