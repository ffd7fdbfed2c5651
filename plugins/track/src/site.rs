//! The place in the program that called: the module and the offset in it to which the
//! call returns, to be looked up as file and line after the run.
//!
//! The stack is walked by the unwinder, as far as the first module that is neither this
//! library nor MPI's. What MPI calls itself (ROMIO duplicates communicators) is told by
//! the module that the call comes from; Fortran's and C++'s wrappers are the program.

use rankway::track::Recorder;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        state: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Whose code a module has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// This library's.
    Own,
    /// MPI's for other languages, or a tool's: the call is that of who called it.
    Binding,
    Mpi,
    Program,
}

struct Module {
    text: std::ops::Range<usize>,
    base: usize,
    path: String,
    owner: Owner,
}

/// Where a call comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// The recorder's number, 0 if the place is not known.
    pub(crate) number: u16,
    /// MPI calls itself.
    pub(crate) is_internal: bool,
}

#[derive(Default)]
struct Known {
    modules: Vec<Module>,
    /// By return address.
    numbers: HashMap<usize, u16>,
    texts: HashMap<u16, String>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Prefixes of names of files of MPI libraries.
const MPI: [&str; 7] =
    ["libmpi.so", "libmpich.so", "libmpi_abi.so", "libpmpi", "mca_", "libopen-rte", "libopen-pal"];
const BINDINGS: [&str; 7] = [
    "libmpi_",
    "libmpichfort",
    "libmpifort",
    "libmpichcxx",
    "libmpicxx",
    "librankway_pack",
    "libmpichf90",
];

fn owner_of(path: &str) -> Owner {
    let file = path.rsplit('/').next().unwrap_or(path);
    let is = |names: &[&str]| names.iter().any(|name| file.starts_with(name));
    if is(&MPI) {
        Owner::Mpi
    } else if is(&BINDINGS) {
        Owner::Binding
    } else {
        Owner::Program
    }
}

/// The loaded modules.
fn modules() -> Vec<Module> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        into: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker's record, with as many headers as it says, and the vector
        // that was given below; the name is null or a C string.
        unsafe {
            let (into, info) = (&mut *into.cast::<Vec<Module>>(), &*info);
            let name = match info.dlpi_name.is_null() {
                true => String::new(),
                false => CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned(),
            };
            let base = info.dlpi_addr as usize;
            for i in 0..usize::from(info.dlpi_phnum) {
                let header = &*info.dlpi_phdr.add(i);
                if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
                    let start = base + header.p_vaddr as usize;
                    let text = start..start + header.p_memsz as usize;
                    let owner = owner_of(&name);
                    into.push(Module { text, base, path: name.clone(), owner });
                }
            }
        }
        0
    }
    let mut found: Vec<Module> = Vec::new();
    // SAFETY: `each` takes what it is called with, and does not outlive `found`.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    let own = owner_of as *const () as usize;
    for (i, module) in found.iter_mut().enumerate() {
        if module.text.contains(&own) {
            module.owner = Owner::Own;
        } else if i == 0 || module.path.is_empty() {
            // The program itself has no name here.
            let path = std::fs::read_link("/proc/self/exe");
            module.path = path.map(|path| path.display().to_string()).unwrap_or_default();
            module.owner = Owner::Program;
        }
    }
    found
}

impl Known {
    fn module(&mut self, address: usize) -> Option<&Module> {
        let find = |modules: &[Module]| modules.iter().position(|one| one.text.contains(&address));
        let at = match find(&self.modules) {
            Some(at) => at,
            None => {
                self.modules = modules();
                find(&self.modules)?
            }
        };
        self.modules.get(at)
    }
}

/// Addresses of a stack.
struct Walk {
    addresses: [usize; 48],
    count: usize,
}

unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder's context and the walk that was given below.
    unsafe {
        let walk = &mut *walk.cast::<Walk>();
        let Some(place) = walk.addresses.get_mut(walk.count) else { return 5 };
        *place = _Unwind_GetIP(context);
        walk.count += 1;
    }
    0
}

/// The place that called this library.
pub(crate) fn caller(recorder: &Recorder) -> Site {
    let mut walk = Walk { addresses: [0; 48], count: 0 };
    // SAFETY: `step` takes what it is called with.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let mut site = Site::default();
    let mut is_first = true;
    for &address in walk.addresses.iter().take(walk.count) {
        // (The call is before where it returns to.)
        let Some(module) = known.module(address.wrapping_sub(1)) else { continue };
        match module.owner {
            Owner::Own => continue,
            Owner::Mpi => site.is_internal |= is_first,
            Owner::Binding => continue,
            Owner::Program => {
                let text = format!("{}+0x{:x}", module.path, address - module.base);
                site.number = known.number(recorder, address, text);
                return site;
            }
        }
        is_first = false;
    }
    site
}

impl Known {
    fn number(&mut self, recorder: &Recorder, address: usize, text: String) -> u16 {
        *self.numbers.entry(address).or_insert_with(|| {
            let number = recorder.site(&text);
            self.texts.insert(number, text);
            number
        })
    }
}

/// What a number stands for.
pub(crate) fn text(number: u16) -> String {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = known.as_ref().and_then(|known| known.texts.get(&number).cloned());
    text.unwrap_or_else(|| "a place that is not known".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_mpis_or_the_programs() {
        for (path, owner) in [
            ("/usr/lib/libmpi.so.40", Owner::Mpi),
            ("/usr/lib/libmpich.so.12", Owner::Mpi),
            ("/usr/lib/openmpi3/mca_io_romio321.so", Owner::Mpi),
            ("libmpi_abi.so.1", Owner::Mpi),
            ("/usr/lib/libmpi_mpifh.so.40", Owner::Binding),
            ("/usr/lib/libmpichfort.so.12", Owner::Binding),
            ("/home/me/mca/libpetsc.so", Owner::Program),
            ("", Owner::Program),
        ] {
            assert_eq!(owner_of(path), owner, "{path}");
        }
    }
}
