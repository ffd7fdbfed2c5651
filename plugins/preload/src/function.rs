//! Functions of the MPI library by name.

use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI library, found when it is first asked for.
#[derive(Debug)]
pub struct Function<F> {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// Of this name.
    ///
    /// # Safety
    /// \[SIG\]: `F` is the type of the C function of this name.
    pub const unsafe fn new(name: &'static CStr) -> Function<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Function { name, at: AtomicPtr::new(std::ptr::null_mut()), kind: PhantomData }
    }

    /// The function; `None` if the library has none of this name. Asked for first when MPI
    /// is there.
    #[inline]
    pub fn get(&self) -> Option<F> {
        let mut at = self.at.load(Ordering::Acquire);
        if at.addr() <= MISSING {
            at = self.look(at)?;
        }
        // SAFETY: not null, and [SIG]: the symbol is a function of type F, whose size
        // is that of a pointer.
        Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&at) })
    }

    /// Looks for it, once.
    #[cold]
    fn look(&self, at: *mut c_void) -> Option<*mut c_void> {
        if at.addr() == MISSING {
            return None;
        }
        let found = find(self.name);
        let missing = std::ptr::without_provenance_mut(MISSING);
        self.at.store(if found.is_null() { missing } else { found }, Ordering::Release);
        (!found.is_null()).then_some(found)
    }
}

/// Where a function is that the library has not.
const MISSING: usize = 1;

/// A function that others take the place of.
#[derive(Debug)]
pub struct Gate<F> {
    at: AtomicPtr<()>,
    kind: PhantomData<F>,
}

impl<F: Copy> Gate<F> {
    /// That is this one at first.
    ///
    /// # Safety
    /// `first` is an `F`.
    pub const unsafe fn new(first: *mut ()) -> Gate<F> {
        const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
        Gate { at: AtomicPtr::new(first), kind: PhantomData }
    }

    /// Puts another in its place.
    pub fn set(&self, function: F) {
        // SAFETY: as large as a pointer, by `new`.
        let at = unsafe { std::mem::transmute_copy::<F, *mut ()>(&function) };
        self.at.store(at, Ordering::Relaxed);
    }

    /// Which it is now.
    #[inline(always)]
    pub fn get(&self) -> F {
        let at = self.at.load(Ordering::Relaxed);
        // SAFETY: an `F`, by `new` and `set`.
        unsafe { std::mem::transmute_copy::<*mut (), F>(&at) }
    }
}

/// Functions of the MPI library that a library calls for itself.
#[macro_export]
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $symbol:literal ($($type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Function<
            unsafe extern "C" fn($($type),*) -> ::std::ffi::c_int,
        > = {
            const SYMBOL: &::std::ffi::CStr = $symbol;
            // SAFETY: [SIG], by the MPI standard.
            unsafe { $crate::Function::new(SYMBOL) }
        };
    )*};
}

/// Looks behind this library, and where MPI was opened for one module of a program
/// alone (as Python opens it) in that library.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    // SAFETY: [TEXT]: a C string; RTLD_NEXT is resolved from this library.
    let at = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if at.is_null() { in_local(name) } else { at }
}

/// An object of the MPI library; that of the program where the linker copied it.
pub(crate) fn object(name: &CStr) -> Option<usize> {
    // SAFETY: a C string.
    let mut at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if at.is_null() {
        at = in_local(name);
    }
    (!at.is_null()).then_some(at as usize)
}

fn in_local(name: &CStr) -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let library = match LIBRARY.get() {
        Some(library) => *library,
        None => {
            let Some(library) = local() else { return std::ptr::null_mut() };
            *LIBRARY.get_or_init(|| library)
        }
    };
    // SAFETY: the handle stays open; a C string.
    unsafe { libc::dlsym(library as *mut c_void, name.as_ptr()) }
}

/// The loaded library that MPI is in.
fn local() -> Option<usize> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker's record and the vector that was given below; the
        // name is null or a C string.
        unsafe {
            let (names, name) = (&mut *names.cast::<Vec<CString>>(), (*info).dlpi_name);
            if !name.is_null() {
                let name = CStr::from_ptr(name);
                let file = name.to_bytes().rsplit(|&byte| byte == b'/').next();
                if file.is_some_and(|file| file.starts_with(b"libmpi")) {
                    names.push(name.to_owned());
                }
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `each` takes what it is called with, and does not outlive `names`.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut names).cast()) };
    names.iter().find_map(|name| {
        // SAFETY: C strings; a library that is loaded already is not run anew.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            let has = !library.is_null()
                && !libc::dlsym(library, c"PMPI_Type_get_envelope".as_ptr()).is_null();
            has.then_some(library as usize)
        }
    })
}
