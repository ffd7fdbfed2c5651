//! UCX itself: `libucp.so.0` opened at run time, its version and its functions.
//!
//! Never links UCX. Opening it starts nothing: `rankway info` may ask for the
//! version on a machine where UCX would refuse to run. Below it stands
//! `bindings`, types and constants only.

use super::bindings as sys;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::error::Error;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::dl;

/// The environment variable that names the library file to open.
pub(crate) const LIBRARY_ENV: &str = "RANKWAY_UCX";
/// The file opened when [`LIBRARY_ENV`] is not set.
const LIBRARY_FILE: &str = "libucp.so.0";

/// Why UCX could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "public where the netmod says so")]
pub enum LoadError {
    /// The file could not be opened as a shared library.
    Open {
        /// The file that was tried.
        file: PathBuf,
        /// The dynamic linker's own text.
        reason: String,
    },
    /// The file is a shared library, but not UCX.
    Symbol {
        /// The file that was opened.
        file: PathBuf,
        /// The function that is missing.
        symbol: &'static str,
        /// The dynamic linker's own text.
        reason: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Open { file, reason } => write!(
                f,
                "UCX: cannot open {}: {reason}; install it (Debian, Ubuntu: apt install \
                 libucx0), or set {LIBRARY_ENV} to a libucp.so.0",
                file.display()
            ),
            LoadError::Symbol { file, symbol, reason } => write!(
                f,
                "UCX: {} has no {symbol}: {reason}; set {LIBRARY_ENV} to a libucp.so.0",
                file.display()
            ),
        }
    }
}

impl Error for LoadError {}

/// Declares the table of functions, each found under its own name.
macro_rules! functions {
    ($($name:ident: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        /// UCX's functions, with the signatures that ucp.h and status.h give
        /// them.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the library's own names")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Functions {
            fn find(
                find: impl Fn(&'static CStr) -> Result<*mut c_void, LoadError>,
            ) -> Result<Functions, LoadError> {
                Ok(Functions {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                        let address = find(name)?;
                        // SAFETY: the headers declare the function of this name
                        // with this signature, in all versions since 1.13.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

type Param = *const sys::ucp_request_param_t;
type Status = sys::ucs_status_t;
type StatusPtr = sys::ucs_status_ptr_t;

functions! {
    ucp_get_version: fn(*mut c_uint, *mut c_uint, *mut c_uint);
    ucp_get_version_string: fn() -> *const c_char;
    ucp_init_version:
        fn(c_uint, c_uint, *const sys::ucp_params_t, *const sys::ucp_config_t, *mut sys::ucp_context_h)
        -> Status;
    ucp_cleanup: fn(sys::ucp_context_h);
    ucp_context_print_info: fn(sys::ucp_context_h, *mut libc::FILE);
    ucp_worker_create:
        fn(sys::ucp_context_h, *const sys::ucp_worker_params_t, *mut sys::ucp_worker_h) -> Status;
    ucp_worker_destroy: fn(sys::ucp_worker_h);
    ucp_worker_query: fn(sys::ucp_worker_h, *mut sys::ucp_worker_attr_t) -> Status;
    ucp_worker_get_address:
        fn(sys::ucp_worker_h, *mut *mut sys::ucp_address_t, *mut usize) -> Status;
    ucp_worker_release_address: fn(sys::ucp_worker_h, *mut sys::ucp_address_t);
    ucp_worker_progress: fn(sys::ucp_worker_h) -> c_uint;
    ucp_worker_get_efd: fn(sys::ucp_worker_h, *mut c_int) -> Status;
    ucp_worker_arm: fn(sys::ucp_worker_h) -> Status;
    ucp_worker_set_am_recv_handler:
        fn(sys::ucp_worker_h, *const sys::ucp_am_handler_param_t) -> Status;
    ucp_ep_create: fn(sys::ucp_worker_h, *const sys::ucp_ep_params_t, *mut sys::ucp_ep_h) -> Status;
    ucp_ep_flush_nbx: fn(sys::ucp_ep_h, Param) -> StatusPtr;
    ucp_put_nbx:
        fn(sys::ucp_ep_h, *const c_void, usize, u64, sys::ucp_rkey_h, Param) -> StatusPtr;
    ucp_get_nbx: fn(sys::ucp_ep_h, *mut c_void, usize, u64, sys::ucp_rkey_h, Param) -> StatusPtr;
    ucp_atomic_op_nbx:
        fn(sys::ucp_ep_h, sys::ucp_atomic_op_t, *const c_void, usize, u64, sys::ucp_rkey_h, Param)
        -> StatusPtr;
    ucp_am_send_nbx:
        fn(sys::ucp_ep_h, c_uint, *const c_void, usize, *const c_void, usize, Param) -> StatusPtr;
    ucp_tag_send_nbx:
        fn(sys::ucp_ep_h, *const c_void, usize, sys::ucp_tag_t, Param) -> StatusPtr;
    ucp_tag_recv_nbx:
        fn(sys::ucp_worker_h, *mut c_void, usize, sys::ucp_tag_t, sys::ucp_tag_t, Param)
        -> StatusPtr;
    ucp_request_cancel: fn(sys::ucp_worker_h, *mut c_void);
    ucp_request_check_status: fn(*mut c_void) -> Status;
    ucp_request_free: fn(*mut c_void);
    ucp_mem_map:
        fn(sys::ucp_context_h, *const sys::ucp_mem_map_params_t, *mut sys::ucp_mem_h) -> Status;
    ucp_mem_unmap: fn(sys::ucp_context_h, sys::ucp_mem_h) -> Status;
    ucp_mem_query: fn(sys::ucp_mem_h, *mut sys::ucp_mem_attr_t) -> Status;
    ucp_rkey_pack:
        fn(sys::ucp_context_h, sys::ucp_mem_h, *mut *mut c_void, *mut usize) -> Status;
    ucp_rkey_buffer_release: fn(*mut c_void);
    ucp_ep_rkey_unpack:
        fn(sys::ucp_ep_h, *const c_void, *mut sys::ucp_rkey_h) -> Status;
    ucp_rkey_ptr: fn(sys::ucp_rkey_h, u64, *mut *mut c_void) -> Status;
    ucp_rkey_destroy: fn(sys::ucp_rkey_h);
    ucs_status_string: fn(Status) -> *const c_char;
}

/// An open UCX. There is at most one in a process and it stays open.
#[derive(Debug)]
pub(crate) struct Library {
    path: PathBuf,
    version: (u32, u32, u32),
    version_string: String,
    functions: Functions,
}

static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();

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
        let functions = Functions::find(find)?;
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: both may be called before ucp_init; the string is static.
        let version_string = unsafe {
            (functions.ucp_get_version)(&mut major, &mut minor, &mut release);
            dl::text((functions.ucp_get_version_string)())
        };
        let inside = functions.ucp_get_version as *const c_void;
        Ok(Self {
            path: dl::path_of(inside).unwrap_or_else(|| PathBuf::from(file)),
            version: (major, minor, release),
            version_string,
            functions,
        })
    }

    /// Its functions.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The library's text for a status.
    pub(crate) fn text(&self, status: sys::ucs_status_t) -> String {
        // SAFETY: the function takes any status and answers a static string.
        unsafe { dl::text((self.functions.ucs_status_string)(status)) }
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

    #[test]
    fn a_status_has_a_text_of_the_library() {
        match Library::open() {
            Ok(library) => {
                assert_eq!(library.text(sys::UCS_OK), "Success");
                assert!(library.text(sys::UCS_ERR_CANCELED).contains("cancel"));
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
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
