//! UCX itself: `libucp.so.0` opened at run time, and its version.
//!
//! Never links UCX and calls nothing that starts it: `rankway info` may ask
//! for the version on a machine where UCX would refuse to run. Below it stands
//! `bindings`, types and constants only.

use core::ffi::{CStr, c_char, c_uint, c_void};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::dl;

/// The environment variable that names the library file to open.
pub(crate) const LIBRARY_ENV: &str = "RANKWAY_UCX";
/// The file opened when [`LIBRARY_ENV`] is not set.
const LIBRARY_FILE: &str = "libucp.so.0";

/// Why UCX could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(unreachable_pub, reason = "public where the netmod says so")]
pub enum LoadError {
    /// The file could not be opened as a shared library.
    #[error(
        "UCX: cannot open {}: {reason}; install it (Debian, Ubuntu: apt install libucx0), \
         or set {LIBRARY_ENV} to a libucp.so.0",
        .file.display()
    )]
    Open {
        /// The file that was tried.
        file: PathBuf,
        /// The dynamic linker's own text.
        reason: String,
    },
    /// The file is a shared library, but not UCX.
    #[error("UCX: {} has no {symbol}: {reason}; set {LIBRARY_ENV} to a libucp.so.0", .file.display())]
    Symbol {
        /// The file that was opened.
        file: PathBuf,
        /// The function that is missing.
        symbol: &'static str,
        /// The dynamic linker's own text.
        reason: String,
    },
}

type GetVersion =
    unsafe extern "C" fn(major: *mut c_uint, minor: *mut c_uint, release: *mut c_uint);
type GetVersionString = unsafe extern "C" fn() -> *const c_char;

/// An open UCX. There is at most one in a process and it stays open.
#[derive(Debug)]
pub(crate) struct Library {
    path: PathBuf,
    version: (u32, u32, u32),
    version_string: String,
}

static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();

#[allow(dead_code, reason = "for `rankway info`")]
impl Library {
    /// Opens UCX on the first call; later calls give the same answer.
    ///
    /// # Errors
    /// [`LoadError`] when the file cannot be opened or is not UCX.
    pub(crate) fn open() -> Result<&'static Self, LoadError> {
        let named = std::env::var_os(LIBRARY_ENV).filter(|name| !name.is_empty());
        LIBRARY
            .get_or_init(|| Self::load(&named.unwrap_or_else(|| OsString::from(LIBRARY_FILE))))
            .as_ref()
            .map_err(LoadError::clone)
    }

    fn load(file: &OsStr) -> Result<Self, LoadError> {
        let not_open = |reason| LoadError::Open { file: PathBuf::from(file), reason };
        let name = CString::new(file.as_bytes())
            .map_err(|_| not_open("its name holds a zero byte".to_owned()))?;
        // SAFETY: `name` is a C string. The library's initialisers run; that
        // this file is meant to be run is what naming it says.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(not_open(dl::error()));
        }
        let find = |symbol: &'static CStr| {
            // SAFETY: the handle is open and the name is a C string.
            let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            if address.is_null() {
                return Err(LoadError::Symbol {
                    file: PathBuf::from(file),
                    symbol: symbol.to_str().unwrap_or_default(),
                    reason: dl::error(),
                });
            }
            Ok(address)
        };
        let get_version = find(c"ucp_get_version")?;
        let get_version_string = find(c"ucp_get_version_string")?;
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: ucp.h declares the two functions with these signatures; both
        // may be called before ucp_init, and the string is static.
        let version_string = unsafe {
            core::mem::transmute::<*mut c_void, GetVersion>(get_version)(
                &mut major,
                &mut minor,
                &mut release,
            );
            dl::text(core::mem::transmute::<*mut c_void, GetVersionString>(get_version_string)())
        };
        Ok(Self {
            path: dl::path_of(get_version).unwrap_or_else(|| PathBuf::from(file)),
            version: (major, minor, release),
            version_string,
        })
    }

    /// The library's own version, as (major, minor, release).
    pub(crate) fn version(&self) -> (u32, u32, u32) {
        self.version
    }

    /// The library's own version, as it writes it.
    pub(crate) fn version_string(&self) -> &str {
        &self.version_string
    }

    /// The file that was opened, as the dynamic linker resolved it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_what_to_install() {
        let error = Library::load("/nonexistent/libucp.so.0".as_ref()).unwrap_err();
        let text = error.to_string();
        for part in ["/nonexistent/libucp.so.0", "libucx0", LIBRARY_ENV] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_library_that_is_not_ucx_is_refused() {
        let error = Library::load("libc.so.6".as_ref()).unwrap_err();
        assert!(matches!(error, LoadError::Symbol { symbol: "ucp_get_version", .. }), "{error}");
    }

    /// Runs where UCX is installed, and says so where it is not.
    #[test]
    fn the_installed_library_answers() {
        match Library::open() {
            Ok(library) => {
                let (major, minor, _) = library.version();
                assert!(library.version_string().starts_with(&format!("{major}.{minor}")));
                assert!(library.path().to_string_lossy().contains("ucp"));
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
