//! Finds and opens libpmix at run time.

use super::ffi::{
    AbortFn, CommitFn, ErrorStringFn, FenceNbFn, FinalizeFn, Functions, GetFn, InitFn, PutFn,
    Status, VersionFn,
};
use crate::boot::BootError;
use crate::dl;
use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;

const SONAME: &str = "libpmix.so.2";

/// An opened libpmix. Never closed: it starts threads of its own.
pub(super) struct Library {
    pub(super) functions: Functions,
    /// Where it was found, as asked for.
    pub(super) name: String,
}

impl Library {
    /// Opens, in this order: `RANKWAY_PMIX`; a libpmix already in the
    /// process; the launcher's own, as its memory map names it; what the
    /// dynamic linker knows; the places distributions hide it in.
    pub(super) fn open() -> Result<Self, BootError> {
        if let Some(path) = std::env::var_os("RANKWAY_PMIX").filter(|path| !path.is_empty()) {
            let name = PathBuf::from(path).to_string_lossy().into_owned();
            return Self::load(&name, 0)
                .map_err(|why| missing(format!("RANKWAY_PMIX names it, but {why}")));
        }
        if let Ok(library) = Self::load(SONAME, libc::RTLD_NOLOAD) {
            return Ok(library);
        }
        let mut first_failure = None;
        for name in launchers_own().into_iter().chain([SONAME.to_string()]).chain(places()) {
            match Self::load(&name, 0) {
                Ok(library) => return Ok(library),
                Err(why) => first_failure.get_or_insert(why),
            };
        }
        Err(missing(first_failure.unwrap_or_default()))
    }

    fn load(name: &str, flags: i32) -> Result<Self, String> {
        let path = CString::new(name).map_err(|_| format!("{name:?} holds a NUL"))?;
        // Global, because PMIx's plugins expect its symbols there.
        let flags = flags | libc::RTLD_NOW | libc::RTLD_GLOBAL;
        // SAFETY: `path` is a C string. Opening runs the library's
        // initialisers, which is what the caller asks for.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        if handle.is_null() {
            let why = dl::error();
            return Err(if why.is_empty() { format!("{name} is not loaded") } else { why });
        }
        /// Looks up a function.
        macro_rules! function {
            ($symbol:literal as $type:ty) => {{
                let address = symbol(handle, $symbol)
                    .ok_or_else(|| format!("{name} has no {}", $symbol.to_string_lossy()))?;
                // SAFETY: the PMIx standard fixes the signature of this
                // symbol, and the type repeats it.
                unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
            }};
        }
        let functions = Functions {
            init: function!(c"PMIx_Init" as InitFn),
            put: function!(c"PMIx_Put" as PutFn),
            commit: function!(c"PMIx_Commit" as CommitFn),
            fence_nb: function!(c"PMIx_Fence_nb" as FenceNbFn),
            get: function!(c"PMIx_Get" as GetFn),
            abort: function!(c"PMIx_Abort" as AbortFn),
            finalize: function!(c"PMIx_Finalize" as FinalizeFn),
            error_string: function!(c"PMIx_Error_string" as ErrorStringFn),
            version: function!(c"PMIx_Get_version" as VersionFn),
        };
        Ok(Library { functions, name: name.to_string() })
    }

    /// The file that was opened.
    pub(super) fn path(&self) -> String {
        let path = dl::path_of(self.functions.version as *const c_void);
        path.map_or_else(|| self.name.clone(), |p| p.to_string_lossy().into_owned())
    }

    /// The library's version line.
    pub(super) fn version(&self) -> String {
        // SAFETY: takes nothing, returns a static C string.
        unsafe { dl::text((self.functions.version)()) }
    }

    /// The library's words for `status`.
    pub(super) fn describe(&self, status: Status) -> String {
        // SAFETY: takes an integer, returns a static C string.
        let words = unsafe { dl::text((self.functions.error_string)(status)) };
        format!("{words} ({status})")
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `handle` came from dlopen and is never closed.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The libpmix our parent has mapped: a launcher matches its own version best.
fn launchers_own() -> Option<String> {
    // SAFETY: getppid has no arguments and cannot fail.
    let parent = unsafe { libc::getppid() };
    let maps = std::fs::read_to_string(format!("/proc/{parent}/maps")).ok()?;
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.find(|path| path.contains("/libpmix.so")).map(str::to_string)
}

/// Where libpmix may be although the dynamic linker does not know.
fn places() -> Vec<String> {
    let triplet = match std::env::consts::ARCH {
        "powerpc64" => "powerpc64le-linux-gnu".to_string(),
        arch => format!("{arch}-linux-gnu"),
    };
    let mut directories = vec![
        format!("/usr/lib/{triplet}/pmix2/lib"),
        format!("/usr/lib/{triplet}/pmix/lib"),
        "/usr/lib64/pmix/lib".into(),
        "/usr/lib64".into(),
        "/usr/local/lib".into(),
        "/opt/pmix/lib".into(),
    ];
    for prefix in ["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"] {
        if let Ok(prefix) = std::env::var(prefix) {
            for tail in ["lib", "lib64", "lib/openmpi", "lib/pmix"] {
                directories.push(format!("{prefix}/{tail}"));
            }
        }
    }
    directories.into_iter().map(|directory| format!("{directory}/{SONAME}")).collect()
}

fn missing(why: String) -> BootError {
    BootError::Launcher {
        launcher: "pmix",
        call: format!("opening {SONAME}"),
        why,
        hint: "a PMIx launcher started this process; install libpmix (Debian, Ubuntu: \
               `apt install libpmix2`; Fedora: `dnf install pmix`), or name it with RANKWAY_PMIX=/path/libpmix.so.2, \
               or ignore the launcher with RANKWAY_BOOT=alone"
            .into(),
    }
}
