//! PMIx, by its library's file and version. Nothing of it is started.

use std::ffi::{CStr, CString, c_char, c_void};

const FILE: &str = "libpmix.so.2";
const ENV: &str = "RANKWAY_PMIX";

/// The libpmix that would serve here: file and version line.
pub(super) fn library() -> Result<(String, String), String> {
    if let Ok(named) = std::env::var(ENV)
        && !named.is_empty()
    {
        return open(&named).map_err(|why| format!("{ENV} names {named}, but {why}"));
    }
    let mut first = None;
    for name in std::iter::once(FILE.to_owned()).chain(places()) {
        match open(&name) {
            Ok(found) => return Ok(found),
            Err(why) => first.get_or_insert(why),
        };
    }
    Err(first.unwrap_or_default())
}

/// Distributions keep it where the dynamic linker does not look.
fn places() -> impl Iterator<Item = String> {
    let arch = std::env::consts::ARCH;
    let own = [
        format!("/usr/lib/{arch}-linux-gnu/pmix2/lib"),
        format!("/usr/lib/{arch}-linux-gnu/pmix/lib"),
        "/usr/lib64/pmix/lib".into(),
        "/usr/local/lib".into(),
        "/opt/pmix/lib".into(),
    ];
    let prefixes = ["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"];
    let set = prefixes.into_iter().filter_map(|name| std::env::var(name).ok());
    own.into_iter().chain(set.map(|prefix| format!("{prefix}/lib"))).map(|d| format!("{d}/{FILE}"))
}

fn open(name: &str) -> Result<(String, String), String> {
    let file = CString::new(name).map_err(|_| "its name holds a zero byte".to_owned())?;
    // SAFETY: `file` is a C string; that this library's initialisers may run is
    // what looking for it means. It is never closed.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    // SAFETY: the handle is open and the name is a C string.
    let found = unsafe { libc::dlsym(handle, c"PMIx_Get_version".as_ptr()) };
    if found.is_null() {
        return Err(format!("{name} has no PMIx_Get_version: it is not PMIx"));
    }
    // SAFETY: the PMIx standard gives the function this signature; it may be
    // called before PMIx_Init and answers a static C string.
    let version = unsafe {
        let get =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(found);
        text(get())
    };
    // The rest names the standard and the build.
    let short = version.split([',', '(']).next().unwrap_or(&version);
    Ok((path_of(found).unwrap_or_else(|| name.to_owned()), short.trim().to_owned()))
}

fn path_of(address: *const c_void) -> Option<String> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address and fills `found` when it knows the
    // object; all zeroes is a valid Dl_info.
    let found =
        unsafe { (libc::dladdr(address, found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
    // SAFETY: null or the loader's C string.
    (!found.dli_fname.is_null()).then(|| unsafe { text(found.dli_fname) })
}

fn last_error() -> String {
    // SAFETY: dlerror answers null or a C string that stays until this
    // thread's next dl call; it is copied at once.
    unsafe { text(libc::dlerror()) }
}

/// # Safety
/// `string` is null or a C string.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a C string by the caller's word.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
