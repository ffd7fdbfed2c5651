//! The MPI library behind this one: its functions by name, its handles, its
//! constants.
//!
//! Handles are words. Open MPI's are addresses; MPICH's have 32 bits, and what is
//! above them in a word is left over from something else.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A function of the MPI library, found when it is first asked for.
pub(crate) struct Function<F> {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// # Safety
    /// \[SIG\]: `F` is the type of the C function of this name.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Function<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Function { name, at: AtomicPtr::new(std::ptr::null_mut()), kind: PhantomData }
    }

    /// The function; `None` if the library has none of this name.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        let mut at = self.at.load(Ordering::Acquire);
        if at.is_null() {
            at = find(self.name);
            if at.is_null() {
                return None;
            }
            self.at.store(at, Ordering::Release);
        }
        // SAFETY: not null, and [SIG]: the symbol is a function of type F, whose size
        // is that of a pointer.
        Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&at) })
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $symbol:literal ($($type:ty),*);)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: Function<unsafe extern "C" fn($($type),*) -> c_int> =
            // SAFETY: [SIG], by the MPI standard.
            unsafe { Function::new($symbol) };
    )*};
}

// What is called for ourselves: by the names that no tool stands before.
functions! {
    TYPE_SIZE c"PMPI_Type_size" (usize, *mut c_int);
    TYPE_EXTENT c"PMPI_Type_get_extent" (usize, *mut isize, *mut isize);
    TYPE_TRUE_EXTENT c"PMPI_Type_get_true_extent" (usize, *mut isize, *mut isize);
    TYPE_ENVELOPE c"PMPI_Type_get_envelope" (usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    /// Of MPI 4: integers, addresses, large counts, types.
    TYPE_ENVELOPE_C c"PMPI_Type_get_envelope_c" (usize, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int);
    TYPE_CONTENTS c"PMPI_Type_get_contents"
        (usize, c_int, c_int, c_int, *mut c_int, *mut isize, *mut c_void);
    TYPE_HINDEXED c"PMPI_Type_create_hindexed"
        (c_int, *const c_int, *const isize, usize, *mut c_void);
    TYPE_COMMIT c"PMPI_Type_commit" (*mut c_void);
    TYPE_FREE c"PMPI_Type_free" (*mut c_void);
    GET_COUNT c"PMPI_Get_count" (*const c_void, usize, *mut c_int);
    MPROBE c"PMPI_Mprobe" (c_int, c_int, usize, *mut c_void, *mut c_void);
    MRECV c"PMPI_Mrecv" (*mut c_void, c_int, usize, *mut c_void, *mut c_void);
    TEST_CANCELLED c"PMPI_Test_cancelled" (*const c_void, *mut c_int);
    TEST c"PMPI_Test" (*mut c_void, *mut c_int, *mut c_void);
    REQUEST_FREE c"PMPI_Request_free" (*mut c_void);
    LIBRARY_VERSION c"PMPI_Get_library_version" (*mut c_char, *mut c_int);
    /// Of the standard ABI, and of MPICH 5 beside it.
    ABI_VERSION c"MPI_Abi_get_version" (*mut c_int, *mut c_int);
}

/// `MPI_ERR_OTHER` of either, for what has no better code.
pub(crate) fn failure() -> c_int {
    if matches!(get().map(|mpi| mpi.family), Some(Family::OpenMpi)) { 16 } else { 15 }
}

/// Looks behind this library, and where MPI was opened for one module of a program
/// alone (as Python opens it) in that library.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: [TEXT]: a C string; RTLD_NEXT is resolved from this library.
    let at = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if at.is_null() { in_local(name) } else { at }
}

/// An object of the MPI library; that of the program where the linker copied it.
fn object(name: &CStr) -> Option<usize> {
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

/// Whose conventions the library has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    OpenMpi,
    Mpich,
}

/// What is the same for the whole run.
pub(crate) struct Mpi {
    pub(crate) family: Family,
    /// `MPI_PACKED`.
    pub(crate) packed: usize,
    null_comm: usize,
    null_request: usize,
    /// `MPI_Waitany` and its kin are all there are to complete a request.
    pub(crate) completes_in_sight: bool,
}

/// Bits of a word that are the handle's; known once the library is.
static MASK: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The library; `None` if its conventions are not known.
pub(crate) fn get() -> Option<&'static Mpi> {
    static MPI: OnceLock<Option<Mpi>> = OnceLock::new();
    MPI.get_or_init(|| {
        let mpi = detect()?;
        if mpi.family == Family::Mpich {
            MASK.store(u32::MAX as usize, Ordering::Relaxed);
        }
        Some(mpi)
    })
    .as_ref()
}

fn detect() -> Option<Mpi> {
    // Calls of later libraries that tell or make of a request that it is complete.
    let completes_in_sight =
        [c"MPI_Request_get_status_any", c"MPIX_Request_is_complete", c"MPIX_Continue"]
            .iter()
            .all(|name| find(name).is_null());
    if object(c"ompi_mpi_comm_world").is_some() {
        return Some(Mpi {
            family: Family::OpenMpi,
            packed: object(c"ompi_mpi_packed")?,
            null_comm: object(c"ompi_mpi_comm_null")?,
            null_request: object(c"ompi_request_null")?,
            completes_in_sight,
        });
    }
    if let Some(abi) = ABI_VERSION.get() {
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: [SIG]; may be called at any time.
        if unsafe { abi(&mut major, &mut minor) } != 0 || major > 0 {
            return None;
        }
    }
    let mut text = [0 as c_char; 8192];
    let mut len = 0;
    // SAFETY: [SIG]; no library's text is longer than MPI_MAX_LIBRARY_VERSION_STRING,
    // 8192 in MPICH.
    unsafe { LIBRARY_VERSION.get()?(text.as_mut_ptr(), &mut len) };
    text[text.len() - 1] = 0;
    // SAFETY: it ends with the 0 just written at the latest.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_bytes().starts_with(b"MPICH").then_some(Mpi {
        family: Family::Mpich,
        packed: 0x4c00_010f,
        null_comm: 0x0400_0000,
        null_request: 0x2c00_0000,
        completes_in_sight,
    })
}

/// The handle in a word that a program passed.
#[inline]
pub(crate) fn handle(word: usize) -> usize {
    word & MASK.load(Ordering::Relaxed)
}

impl Mpi {
    pub(crate) fn name(&self) -> &'static str {
        match self.family {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
        }
    }

    /// Handle `i` of an array.
    ///
    /// # Safety
    /// \[MPI\]: there are more than `i`.
    pub(crate) unsafe fn read(&self, handles: *const c_void, i: usize) -> usize {
        // SAFETY: [MPI].
        unsafe {
            match self.family {
                Family::OpenMpi => handles.cast::<usize>().add(i).read(),
                Family::Mpich => handles.cast::<u32>().add(i).read() as usize,
            }
        }
    }

    /// Writes `MPI_REQUEST_NULL`.
    ///
    /// # Safety
    /// \[MPI\]: the place is that of a request.
    pub(crate) unsafe fn clear_request(&self, request: *mut c_void) {
        // SAFETY: [MPI].
        unsafe {
            match self.family {
                Family::OpenMpi => request.cast::<usize>().write(self.null_request),
                Family::Mpich => request.cast::<u32>().write(self.null_request as u32),
            }
        }
    }

    /// Returns true if it may be a communicator: MPI is to refuse what is none.
    pub(crate) fn is_comm(&self, word: usize) -> bool {
        let comm = handle(word);
        match self.family {
            Family::OpenMpi => comm != 0 && comm != self.null_comm,
            // The upper bits say how it is held, 0 for no object, then its kind.
            Family::Mpich => comm >> 30 != 0 && comm >> 26 & 0xf == 1,
        }
    }

    /// Returns true if a message longer than the contiguous buffer that receives it
    /// is cut there. Open MPI's, read from the sender's memory (vader, 4.1), goes on
    /// behind the buffer before it is an error; into derived types it does not.
    pub(crate) fn cuts_at_the_end(&self) -> bool {
        self.family == Family::Mpich
    }

    /// Returns true for a datatype that is MPI's own.
    pub(crate) fn is_builtin(&self, datatype: usize) -> bool {
        self.family == Family::Mpich && handle(datatype) >> 30 <= 1
    }

    /// `MPI_PROC_NULL`.
    pub(crate) fn no_process(&self) -> c_int {
        match self.family {
            Family::OpenMpi => -2,
            Family::Mpich => -1,
        }
    }

    /// Returns true for `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
    pub(crate) fn ignores(&self, status: *const c_void) -> bool {
        status as usize == usize::from(self.family == Family::Mpich)
    }

    /// Bytes of a status in an array.
    pub(crate) fn status_size(&self) -> usize {
        match self.family {
            Family::OpenMpi => 24,
            Family::Mpich => 20,
        }
    }

    /// The error of status `i` of an array.
    ///
    /// # Safety
    /// \[MPI\]: there are more than `i`.
    pub(crate) unsafe fn status_error(&self, statuses: *const c_void, i: usize) -> c_int {
        let at = match self.family {
            Family::OpenMpi => 8,
            Family::Mpich => 16,
        };
        // SAFETY: [MPI]; the member stands there in this library's status.
        unsafe { statuses.byte_add(i * self.status_size() + at).cast::<c_int>().read() }
    }

    /// Returns true for `MPI_ERR_IN_STATUS`.
    pub(crate) fn is_in_status(&self, code: c_int) -> bool {
        match self.family {
            Family::OpenMpi => code == 18,
            // The class of an error code of MPICH.
            Family::Mpich => code & 0x7f == 17,
        }
    }
}
