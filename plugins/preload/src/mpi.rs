//! The MPI library behind this one: its handles, its constants.
//!
//! Handles are words. Those of Open MPI and of the standard ABI are addresses; MPICH's
//! have 32 bits, and what is above them in a word is left over from something else.

use crate::function::{find, object};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

crate::functions! {
    LIBRARY_VERSION c"PMPI_Get_library_version" (*mut c_char, *mut c_int);
    /// Of the standard ABI, and of MPICH 5 beside it.
    ABI_VERSION c"MPI_Abi_get_version" (*mut c_int, *mut c_int);
}

/// `MPI_ERR_OTHER`, for what has no better code.
pub fn failure() -> c_int {
    if matches!(get().map(|mpi| mpi.family), Some(Family::Mpich)) { 15 } else { 16 }
}

/// Whose conventions the library has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Open MPI's.
    OpenMpi,
    /// MPICH's own.
    Mpich,
    /// The standard ABI, whoever made the library.
    Abi,
}

/// What is the same for the whole run.
#[derive(Debug)]
pub struct Mpi {
    /// Whose conventions it has.
    pub family: Family,
    /// `MPI_COMM_WORLD`.
    pub world: usize,
    /// `MPI_COMM_SELF`.
    pub own: usize,
    /// `MPI_PACKED`.
    pub packed: usize,
    /// `MPI_GROUP_EMPTY`.
    pub empty_group: usize,
    null_comm: usize,
    null_request: usize,
    /// `MPI_Waitany` and its kin are all there are to complete a request.
    pub completes_in_sight: bool,
}

/// Bits of a word that are the handle's; known once the library is.
static MASK: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The library; `None` if its conventions are not known.
#[inline]
pub fn get() -> Option<&'static Mpi> {
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
    if let Some(world) = object(c"ompi_mpi_comm_world") {
        return Some(Mpi {
            family: Family::OpenMpi,
            world,
            own: object(c"ompi_mpi_comm_self")?,
            packed: object(c"ompi_mpi_packed")?,
            empty_group: object(c"ompi_mpi_group_empty")?,
            null_comm: object(c"ompi_mpi_comm_null")?,
            null_request: object(c"ompi_request_null")?,
            completes_in_sight,
        });
    }
    if let Some(abi) = ABI_VERSION.get() {
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: [SIG]; may be called at any time.
        if unsafe { abi(&mut major, &mut minor) } != 0 || major > 1 {
            return None;
        }
        if major == 1 {
            return Some(Mpi {
                family: Family::Abi,
                world: 0x101,
                own: 0x102,
                packed: 0x207,
                empty_group: 0x109,
                null_comm: 0x100,
                null_request: 0x180,
                completes_in_sight,
            });
        }
    }
    version()?.starts_with("MPICH").then_some(Mpi {
        family: Family::Mpich,
        world: 0x4400_0000,
        own: 0x4400_0001,
        packed: 0x4c00_010f,
        empty_group: 0x4800_0000,
        null_comm: 0x0400_0000,
        null_request: 0x2c00_0000,
        completes_in_sight,
    })
}

/// What the library says of its version.
pub fn version() -> Option<String> {
    let mut text = [0 as c_char; 8192];
    let mut len = 0;
    // SAFETY: [SIG]; no library's text is longer than MPI_MAX_LIBRARY_VERSION_STRING,
    // 8192 in MPICH and in the standard ABI, 256 in Open MPI.
    unsafe { LIBRARY_VERSION.get()?(text.as_mut_ptr(), &mut len) };
    text[text.len() - 1] = 0;
    // SAFETY: it ends with the 0 just written at the latest.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}

/// The handle in a word that a program passed.
#[inline]
pub fn handle(word: usize) -> usize {
    word & MASK.load(Ordering::Relaxed)
}

impl Mpi {
    /// Its family's name.
    pub fn name(&self) -> &'static str {
        match self.family {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::Abi => "the standard ABI",
        }
    }

    /// Handle `i` of an array.
    ///
    /// # Safety
    /// \[MPI\]: there are more than `i`.
    #[inline]
    pub unsafe fn read(&self, handles: *const c_void, i: usize) -> usize {
        // SAFETY: [MPI].
        unsafe {
            match self.family {
                Family::OpenMpi | Family::Abi => handles.cast::<usize>().add(i).read(),
                Family::Mpich => handles.cast::<u32>().add(i).read() as usize,
            }
        }
    }

    /// Writes a handle.
    ///
    /// # Safety
    /// \[MPI\]: the place is that of one.
    unsafe fn write(&self, place: *mut c_void, handle: usize) {
        // SAFETY: [MPI].
        unsafe {
            match self.family {
                Family::OpenMpi | Family::Abi => place.cast::<usize>().write(handle),
                Family::Mpich => place.cast::<u32>().write(handle as u32),
            }
        }
    }

    /// Writes `MPI_REQUEST_NULL`.
    ///
    /// # Safety
    /// \[MPI\]: the place is that of a request.
    pub unsafe fn clear_request(&self, request: *mut c_void) {
        // SAFETY: [MPI].
        unsafe { self.write(request, self.null_request) }
    }

    /// Writes `MPI_COMM_NULL`.
    ///
    /// # Safety
    /// \[MPI\]: the place is that of a communicator.
    pub unsafe fn clear_comm(&self, comm: *mut c_void) {
        // SAFETY: [MPI].
        unsafe { self.write(comm, self.null_comm) }
    }

    /// Returns true if it may be a communicator: MPI is to refuse what is none.
    pub fn is_comm(&self, word: usize) -> bool {
        let comm = handle(word);
        match self.family {
            Family::OpenMpi | Family::Abi => comm != 0 && comm != self.null_comm,
            // The upper bits say how it is held, 0 for no object, then its kind.
            Family::Mpich => comm >> 30 != 0 && comm >> 26 & 0xf == 1,
        }
    }

    /// Returns true for `MPI_REQUEST_NULL`, which is `MPI_MESSAGE_NULL` in MPICH.
    #[inline]
    pub fn is_null_request(&self, request: usize) -> bool {
        request == self.null_request
    }

    /// Returns true if a message longer than the contiguous buffer that receives it
    /// is cut there. Open MPI's, read from the sender's memory (vader, 4.1), goes on
    /// behind the buffer before it is an error; into derived types it does not.
    pub fn cuts_at_the_end(&self) -> bool {
        self.family != Family::OpenMpi
    }

    /// Returns true if a message may come in fragments that end within a basic element of so many
    /// bytes. MPICH (4.0, by UCX) unpacks each by whole elements and calls it truncation where one
    /// is cut; Open MPI (4.1) keeps parts of up to 16 bytes, and is ended over longer ones.
    pub fn unpacks_parts_of(&self, element: u64) -> bool {
        self.family == Family::OpenMpi && element <= 16
    }

    /// Returns true for a datatype that is known to be MPI's own by its handle.
    pub fn is_builtin(&self, datatype: usize) -> bool {
        match self.family {
            Family::OpenMpi => false,
            Family::Mpich => handle(datatype) >> 30 <= 1,
            // (The first page of addresses has the ABI's constants.)
            Family::Abi => datatype < 0x1000,
        }
    }

    /// `MPI_PROC_NULL`.
    #[inline]
    pub fn no_process(&self) -> c_int {
        match self.family {
            Family::OpenMpi => -2,
            Family::Mpich => -1,
            Family::Abi => -3,
        }
    }

    /// `MPI_ROOT`, of the one in its group of an intercommunicator.
    pub fn root(&self) -> c_int {
        match self.family {
            Family::OpenMpi | Family::Abi => -4,
            Family::Mpich => -3,
        }
    }

    /// Returns true for `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self, memory: usize) -> bool {
        memory == if self.family == Family::Mpich { usize::MAX } else { 1 }
    }

    /// Returns true for `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
    #[inline]
    pub fn ignores(&self, status: *const c_void) -> bool {
        status as usize == usize::from(self.family == Family::Mpich)
    }

    /// Bytes of a status in an array.
    #[inline]
    pub fn status_size(&self) -> usize {
        match self.family {
            Family::OpenMpi => 24,
            Family::Mpich => 20,
            Family::Abi => 32,
        }
    }

    /// Returns true if the status of `MPI_Isendrecv` tells what came: MPICH (up to 5.0)
    /// leaves it as it was.
    pub fn tells_of_exchanges(&self) -> bool {
        self.family == Family::OpenMpi
    }

    /// Where source and tag stand, in this order, and the error behind them.
    #[inline]
    fn status_at(&self) -> usize {
        if self.family == Family::Mpich { 8 } else { 0 }
    }

    /// Source and tag of a status.
    ///
    /// # Safety
    /// \[MPI\]: it is one.
    #[inline]
    pub unsafe fn status_peer(&self, status: *const c_void) -> (c_int, c_int) {
        // SAFETY: [MPI]; the members stand there in this library's status.
        let [source, tag] =
            unsafe { status.byte_add(self.status_at()).cast::<[c_int; 2]>().read() };
        (source, tag)
    }

    /// Bytes of the message, and whether it was cancelled, where the members that are the
    /// library's own are known (Open MPI up to 5, MPICH up to 5).
    ///
    /// # Safety
    /// \[MPI\]: it is one.
    #[inline]
    pub unsafe fn status_bytes(&self, status: *const c_void) -> Option<(u64, bool)> {
        // SAFETY: [MPI]; the members stand there in this library's status.
        unsafe {
            match self.family {
                Family::OpenMpi => {
                    let bytes = status.byte_add(16).cast::<u64>().read();
                    Some((bytes, status.byte_add(12).cast::<c_int>().read() != 0))
                }
                Family::Mpich => {
                    let [low, high] = status.cast::<[u32; 2]>().read();
                    Some((u64::from(high >> 1) << 32 | u64::from(low), high & 1 != 0))
                }
                Family::Abi => None,
            }
        }
    }

    /// The error of status `i` of an array.
    ///
    /// # Safety
    /// \[MPI\]: there are more than `i`.
    pub unsafe fn status_error(&self, statuses: *const c_void, i: usize) -> c_int {
        let at = i * self.status_size() + self.status_at() + 8;
        // SAFETY: [MPI]; the member stands there in this library's status.
        unsafe { statuses.byte_add(at).cast::<c_int>().read() }
    }

    /// Returns true for `MPI_ERR_TRUNCATE`: a message has come that was longer than its place.
    pub fn is_truncated(&self, code: c_int) -> bool {
        match self.family {
            Family::OpenMpi | Family::Abi => code == 15,
            // The class of an error code of MPICH.
            Family::Mpich => code & 0x7f == 14,
        }
    }

    /// Returns true for `MPI_ERR_IN_STATUS`.
    pub fn is_in_status(&self, code: c_int) -> bool {
        match self.family {
            Family::OpenMpi => code == 18,
            // The class of an error code of MPICH.
            Family::Mpich => code & 0x7f == 17,
            Family::Abi => code == 19,
        }
    }
}
