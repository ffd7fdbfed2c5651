//! libfabric itself: the library opened at run time, and its calls.
//!
//! Nothing is linked: [`Library::open`] finds `libfabric.so.1` (or the file
//! named by `RANKWAY_LIBFABRIC`) with `dlopen`, and takes each function at the
//! symbol version whose structures `bindings` describes. A newer library keeps
//! those versions, so one binary runs on libfabric 1.x and 2.x.
//!
//! What is `static inline` in C stands in `calls`. This module holds no state but
//! the library and makes no decision: no retry, no error text beyond the
//! library's own. Below it stands `bindings`, types and constants only.

#![allow(dead_code, reason = "the whole surface is kept together, used or not")]

use core::ffi::{CStr, c_char, c_int, c_void};
use std::error::Error;
use std::ffi::{CString, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use super::bindings::*;
pub(crate) use super::calls::*;
use crate::dl;

/// Marks a destination that is not known (fabric.h; a cast bindgen cannot see).
pub(crate) const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
/// Marks an address vector slot whose insertion failed.
pub(crate) const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;
/// Marks a memory region whose key is longer than 64 bits.
pub(crate) const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// `FI_MR_BASIC` as the bit of `fi_domain_attr::mr_mode` that it is.
pub(crate) const FI_MR_MODE_BASIC: c_int = FI_MR_BASIC as c_int;
/// `FI_MR_SCALABLE` as the bit of `fi_domain_attr::mr_mode` that it is.
pub(crate) const FI_MR_MODE_SCALABLE: c_int = FI_MR_SCALABLE as c_int;

/// The environment variable that names the library file to open.
pub(crate) const LIBRARY_ENV: &str = "RANKWAY_LIBFABRIC";
/// The file opened when [`LIBRARY_ENV`] is not set.
const LIBRARY_FILE: &str = "libfabric.so.1";

/// `FI_VERSION(major, minor)`.
pub(crate) const fn fi_version_code(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// The API version of the headers that `bindings` was made from.
pub(crate) const HEADER_VERSION: u32 = fi_version_code(FI_MAJOR_VERSION, FI_MINOR_VERSION);

/// Why libfabric could not be opened.
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
    /// The file is a shared library, but lacks a function at the version needed.
    Symbol {
        /// The file that was opened.
        file: PathBuf,
        /// The function that is missing.
        symbol: &'static str,
        /// The symbol version that was asked for.
        version: &'static str,
        /// The dynamic linker's own text.
        reason: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Open { file, reason } => write!(
                f,
                "libfabric: cannot open {}: {reason}; install it (Debian, Ubuntu: apt install \
                 libfabric1), or take a newer one from PyPI (pip download mpich) and set \
                 {LIBRARY_ENV} to its libfabric.so.1",
                file.display()
            ),
            LoadError::Symbol { file, symbol, version, reason } => write!(
                f,
                "libfabric: {} has no {symbol} at version {version}: {reason}; it is not \
                 libfabric, or older than 1.9; set {LIBRARY_ENV} to a newer libfabric.so.1",
                file.display()
            ),
        }
    }
}

impl Error for LoadError {}

type GetInfo = unsafe extern "C" fn(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(info: *mut fi_info);
type DupInfo = unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info;
type OpenFabric = unsafe extern "C" fn(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int;
type StrError = unsafe extern "C" fn(errnum: c_int) -> *const c_char;
type ToStr = unsafe extern "C" fn(data: *const c_void, datatype: fi_type) -> *mut c_char;
type Version = unsafe extern "C" fn() -> u32;

/// An open libfabric. There is at most one in a process and it stays open.
#[derive(Debug)]
pub(crate) struct Library {
    path: PathBuf,
    version: u32,
    getinfo: GetInfo,
    freeinfo: FreeInfo,
    dupinfo: DupInfo,
    fabric: OpenFabric,
    strerror: StrError,
    tostr: ToStr,
}

static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();

/// `fi_tostr` answers in a buffer of its own, one for the whole process.
static TOSTR: Mutex<()> = Mutex::new(());

/// What says how libfabric hears that memory it keeps registered was given back
/// (fi_mr(3)), or that it keeps none.
const MONITOR_ENV: [&str; 3] =
    ["FI_MR_CACHE_MONITOR", "FI_MR_CACHE_MAX_COUNT", "FI_MR_CACHE_MAX_SIZE"];

/// Has libfabric watch the memory it keeps registered by userfaultfd(2), unless
/// the user has said something about it. Where the system refuses that, it keeps
/// none. Its own choice of 1.17, memhooks, does not hear of what the C library
/// gives back within itself, as free(3) does: memory that comes again at the same
/// address is then sent from, and written to, where nobody looks. Must be set
/// before the library is opened.
fn choose_monitor() {
    // SAFETY: the documentation of `Domain::open` asks for that.
    unsafe { dl::set_unless_chosen(&MONITOR_ENV, "userfaultfd") };
}

/// Of PSM and PSM2, which libfabric links, whether they take the signals that end a process (psm2
/// programmer's guide, environment variables).
const BACKTRACE_ENVS: [&str; 2] = ["IPATH_NO_BACKTRACE", "HFI_NO_BACKTRACE"];

/// Has the libraries that come with libfabric leave SIGINT, SIGTERM, SIGABRT and their like as
/// they are, unless the user has said something about it: PSM's handlers print a backtrace and exit
/// with 1, so that nobody sees how the process ended. Must be called before the library is opened.
fn leave_signals() {
    for name in BACKTRACE_ENVS {
        // SAFETY: as in `choose_monitor`.
        unsafe { dl::set_unless_chosen(&[name], "1") };
    }
}

/// Whether libfabric's shm may attach to peers' memory (fi_shm(7)).
const ATTACHING_ENV: &str = "FI_SHM_DISABLE_CMA";

/// Has libfabric's shm copy without attaching to peers, unless the user has said
/// something about it: where one peer may attach to another and that one not back, 1.17
/// tries in both directions, and long messages fail with EIO. Must be called before
/// anything is asked of the library.
pub(super) fn keep_from_attaching() {
    // SAFETY: as in `choose_monitor`.
    unsafe { dl::set_unless_chosen(&[ATTACHING_ENV], "1") };
}

impl Library {
    /// Opens libfabric on the first call; later calls give the same answer.
    ///
    /// # Errors
    /// [`LoadError`] when the file cannot be opened or is not a libfabric.
    pub(crate) fn open() -> Result<&'static Self, LoadError> {
        let named = std::env::var_os(LIBRARY_ENV).filter(|name| !name.is_empty());
        LIBRARY
            .get_or_init(|| Self::load(&named.unwrap_or_else(|| OsString::from(LIBRARY_FILE))))
            .as_ref()
            .map_err(LoadError::clone)
    }

    fn load(file: &std::ffi::OsStr) -> Result<Self, LoadError> {
        let not_open = |reason| LoadError::Open { file: PathBuf::from(file), reason };
        choose_monitor();
        leave_signals();
        let name = CString::new(file.as_bytes())
            .map_err(|_| not_open("its name holds a zero byte".to_owned()))?;
        // SAFETY: `name` is a C string. The library's initialisers run; that
        // this file is meant to be run is what naming it says.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(not_open(dl::error()));
        }
        let find = |symbol: &'static CStr, version: &'static CStr| {
            find(handle, symbol, version).ok_or_else(|| LoadError::Symbol {
                file: PathBuf::from(file),
                symbol: symbol.to_str().unwrap_or_default(),
                version: version.to_str().unwrap_or_default(),
                reason: dl::error(),
            })
        };
        let getinfo = find(c"fi_getinfo", c"FABRIC_1.3")?;
        let freeinfo = find(c"fi_freeinfo", c"FABRIC_1.3")?;
        let dupinfo = find(c"fi_dupinfo", c"FABRIC_1.3")?;
        let fabric = find(c"fi_fabric", c"FABRIC_1.1")?;
        let strerror = find(c"fi_strerror", c"FABRIC_1.0")?;
        let tostr = find(c"fi_tostr", c"FABRIC_1.0")?;
        let version = find(c"fi_version", c"FABRIC_1.0")?;
        // SAFETY: each symbol was found in libfabric at the version that fabric.h
        // declares with this very signature; the handle is never closed, so the
        // functions live as long as the process. `fi_version` takes nothing.
        unsafe {
            use core::mem::transmute;
            Ok(Self {
                path: dl::path_of(getinfo).unwrap_or_else(|| PathBuf::from(file)),
                version: transmute::<*mut c_void, Version>(version)(),
                getinfo: transmute::<*mut c_void, GetInfo>(getinfo),
                freeinfo: transmute::<*mut c_void, FreeInfo>(freeinfo),
                dupinfo: transmute::<*mut c_void, DupInfo>(dupinfo),
                fabric: transmute::<*mut c_void, OpenFabric>(fabric),
                strerror: transmute::<*mut c_void, StrError>(strerror),
                tostr: transmute::<*mut c_void, ToStr>(tostr),
            })
        }
    }

    /// The library's own version, as (major, minor).
    pub(crate) fn version(&self) -> (u32, u32) {
        (self.version >> 16, self.version & 0xffff)
    }

    /// The API version to pass to [`Self::fi_getinfo`]: that of the headers, or
    /// the library's where it is older. Never newer than the headers: it would
    /// ask for structures and behaviour that `bindings` does not know.
    pub(crate) fn api_version(&self) -> u32 {
        self.version.min(HEADER_VERSION)
    }

    /// The file that was opened, as the dynamic linker resolved it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// fi_getinfo(3) at [`Self::api_version`].
    ///
    /// # Safety
    /// `node` and `service` are null or C strings; `hints` is null or comes from
    /// [`Self::fi_allocinfo`] or [`Self::fi_dupinfo`]; `info` can be written.
    pub(crate) unsafe fn fi_getinfo(
        &self,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int {
        // SAFETY: the caller upholds what fi_getinfo(3) asks for.
        unsafe { (self.getinfo)(self.api_version(), node, service, flags, hints, info) }
    }

    /// Frees a list that [`Self::fi_getinfo`] or [`Self::fi_dupinfo`] gave.
    ///
    /// # Safety
    /// `info` is null or such a list, and nothing of it is used afterwards.
    pub(crate) unsafe fn fi_freeinfo(&self, info: *mut fi_info) {
        // SAFETY: the caller owns the list.
        unsafe { (self.freeinfo)(info) }
    }

    /// Copies one `fi_info` (not the list behind it); null when out of memory.
    ///
    /// # Safety
    /// `info` is null (see [`Self::fi_allocinfo`]) or a live `fi_info`.
    pub(crate) unsafe fn fi_dupinfo(&self, info: *const fi_info) -> *mut fi_info {
        // SAFETY: the caller passes a live object or null.
        unsafe { (self.dupinfo)(info) }
    }

    /// An empty `fi_info` with all its attributes, to be used as hints and freed
    /// with [`Self::fi_freeinfo`]; null when out of memory. Strings stored in it
    /// must come from `malloc` (`strdup`): libfabric frees them.
    pub(crate) fn fi_allocinfo(&self) -> *mut fi_info {
        // SAFETY: a null argument asks for a new object.
        unsafe { (self.dupinfo)(core::ptr::null()) }
    }

    /// fi_fabric(3).
    ///
    /// # Safety
    /// `attr` is the `fabric_attr` of a live `fi_info`; `fabric` can be written.
    pub(crate) unsafe fn fi_fabric(
        &self,
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller upholds what fi_fabric(3) asks for.
        unsafe { (self.fabric)(attr, fabric, context) }
    }

    /// The library's text for a return value, negative (as calls return it) or
    /// positive (as completion errors hold it).
    pub(crate) fn strerror(&self, ret: isize) -> String {
        let errnum = c_int::try_from(ret.unsigned_abs()).unwrap_or(FI_EOTHER as c_int);
        // SAFETY: fi_strerror takes any number and gives a static C string.
        unsafe { dl::text((self.strerror)(errnum)) }
    }

    /// fi_tostr(3): the library's rendering of a structure or flags.
    ///
    /// # Safety
    /// `data` points to a live value of the type that `datatype` names.
    pub(crate) unsafe fn tostr(&self, data: *const c_void, datatype: fi_type) -> String {
        let _guard = TOSTR.lock().unwrap_or_else(|poison| poison.into_inner());
        // SAFETY: the caller matches `data` to `datatype`; the answer is a C
        // string that stays until the next call, which the lock holds back.
        unsafe { dl::text((self.tostr)(data, datatype)) }
    }
}

/// Finds a function of the library, at a symbol version where the C library
/// has versions.
fn find(handle: *mut c_void, symbol: &CStr, version: &CStr) -> Option<*mut c_void> {
    // SAFETY: `handle` comes from dlopen and is never closed; both names are C
    // strings. dlerror is called to clear an older message.
    let address = unsafe {
        libc::dlerror();
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr())
        }
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        {
            let _ = version;
            libc::dlsym(handle, symbol.as_ptr())
        }
    };
    (!address.is_null()).then_some(address)
}

/// Sets a `fi_info` string field (`prov_name`, a domain's `name`, ...), freeing
/// the one before. `None` clears it. False when out of memory or when `value`
/// holds a zero byte; the field is then unchanged.
///
/// # Safety
/// `field` is a string field of a live `fi_info` that libfabric allocated.
pub(crate) unsafe fn set_string(field: *mut *mut c_char, value: Option<&str>) -> bool {
    let copy = match value.map(CString::new) {
        None => core::ptr::null_mut(),
        Some(Err(_)) => return false,
        // SAFETY: strdup copies a C string into malloc's memory, which is what
        // fi_freeinfo hands to free.
        Some(Ok(value)) => match unsafe { libc::strdup(value.as_ptr()) } {
            copy if copy.is_null() => return false,
            copy => copy,
        },
    };
    // SAFETY: a string field of libfabric's is null or from malloc, as the copy is.
    unsafe {
        libc::free((*field).cast());
        *field = copy;
    }
    true
}

/// Reads a `fi_info` string field; `None` when it is null.
///
/// # Safety
/// `field` is null or a C string that outlives the call.
pub(crate) unsafe fn get_string(field: *const c_char) -> Option<String> {
    // SAFETY: not null, so a C string that outlives the call.
    (!field.is_null()).then(|| unsafe { dl::text(field) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_what_to_install() {
        let error = Library::load("/nonexistent/libfabric.so.1".as_ref()).unwrap_err();
        assert!(matches!(error, LoadError::Open { .. }));
        let text = error.to_string();
        for part in ["/nonexistent/libfabric.so.1", "libfabric1", "mpich", LIBRARY_ENV] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_library_that_is_not_libfabric_is_refused() {
        let error = Library::load("libc.so.6".as_ref()).unwrap_err();
        assert!(matches!(error, LoadError::Symbol { symbol: "fi_getinfo", .. }), "{error}");
        assert!(error.to_string().contains("libc.so.6"), "{error}");
    }

    #[test]
    fn a_name_with_a_zero_byte_is_refused() {
        let error = Library::load("a\0b".as_ref()).unwrap_err();
        assert!(matches!(error, LoadError::Open { .. }));
    }

    /// Runs where libfabric is installed, and says so where it is not.
    #[test]
    fn the_installed_library_answers() {
        let library = match Library::open() {
            Ok(library) => library,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let (major, minor) = library.version();
        assert!((major, minor) >= (1, 9), "{major}.{minor}");
        assert!(library.api_version() <= HEADER_VERSION);
        assert!(library.path().to_string_lossy().contains("fabric"));
        assert!(!library.strerror(-(FI_EAGAIN as isize)).is_empty());
        assert_eq!(library.strerror(-5), library.strerror(5));

        let hints = library.fi_allocinfo();
        assert!(!hints.is_null());
        let mut info = core::ptr::null_mut();
        // SAFETY: hints come from this library and are freed once; the answer
        // is read only when the call succeeded.
        unsafe {
            assert!(set_string(&raw mut (*(*hints).fabric_attr).prov_name, Some("nonsense")));
            assert!(!set_string(&raw mut (*(*hints).fabric_attr).prov_name, Some("a\0b")));
            assert_eq!(get_string((*(*hints).fabric_attr).prov_name).as_deref(), Some("nonsense"));
            let none =
                library.fi_getinfo(core::ptr::null(), core::ptr::null(), 0, hints, &raw mut info);
            assert_eq!(none, -FI_ENODATA);
            assert!(set_string(&raw mut (*(*hints).fabric_attr).prov_name, None));
            let some =
                library.fi_getinfo(core::ptr::null(), core::ptr::null(), 0, hints, &raw mut info);
            if some == 0 {
                assert!(library.tostr(info.cast(), FI_TYPE_INFO).contains("fi_info"));
            }
            library.fi_freeinfo(info);
            library.fi_freeinfo(hints);
        }
    }
}
