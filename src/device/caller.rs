//! The place in a program of another language that called: the module and the offset in it to
//! which the call returns. `rankway trace` looks it up as file and line.
//!
//! The stack is walked by the unwinder, as far as the first module that is not the one with
//! this code. Where that is the program itself (linked statically) no place is known.

use std::ffi::{CStr, OsStr, c_int, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        state: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// A module that is loaded.
struct Module {
    /// Where its file begins in memory.
    base: usize,
    name: PathBuf,
}

impl Module {
    fn of(address: usize) -> Option<Module> {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: takes any address, and fills what it finds; zeroes are a Dl_info.
        let info = unsafe {
            if libc::dladdr(address as *const c_void, info.as_mut_ptr()) == 0 {
                return None;
            }
            info.assume_init()
        };
        if info.dli_fname.is_null() || info.dli_fbase.is_null() {
            return None;
        }
        // SAFETY: a C string of the loader's.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        let name = OsStr::from_bytes(name.to_bytes()).into();
        Some(Module { base: info.dli_fbase as usize, name })
    }

    /// What addresses in its file are counted from: of a program at a fixed address 0.
    fn origin(&self) -> usize {
        const TYPE: usize = 16;
        const FIXED: u16 = 2;
        // SAFETY: a module begins with its ELF header, which is mapped while it is loaded.
        let of_type = unsafe { (self.base as *const u8).add(TYPE).cast::<u16>().read_unaligned() };
        if of_type == FIXED { 0 } else { self.base }
    }
}

struct Walk {
    /// Where the module begins that this code is in.
    own: usize,
    found: Option<(usize, Module)>,
}

unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 5;
    // SAFETY: the walk that was given below, and the unwinder's own context.
    let (walk, address) = unsafe { (&mut *walk.cast::<Walk>(), _Unwind_GetIP(context)) };
    // (The call is before where it returns to.)
    let Some(module) = Module::of(address.wrapping_sub(1)) else { return GO_ON };
    if module.base == walk.own {
        return GO_ON;
    }
    walk.found = Some((address, module));
    STOP
}

/// The place that called this library, as `/path/of/module+0x12ab`.
pub(super) fn outside() -> Option<String> {
    let own = Module::of(outside as *const () as usize)?;
    // SAFETY: no pointers.
    let program = Module::of(unsafe { libc::getauxval(libc::AT_PHDR as c_ulong) } as usize)?;
    if own.base == program.base {
        return None;
    }
    let mut walk = Walk { own: own.base, found: None };
    // SAFETY: `step` takes what it is called with.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    let (address, module) = walk.found?;
    let name = match module.base == program.base {
        true => std::fs::read_link("/proc/self/exe").ok()?,
        false => module.name.clone(),
    };
    Some(format!("{}+0x{:x}", name.display(), address - module.origin()))
}
