//! Functions of the MPI library that are called here: by the names that no tool stands
//! before.

pub(crate) use rankway_preload::mpi::{Family, Mpi, get, handle, version};
use std::ffi::{c_char, c_int, c_void};

rankway_preload::functions! {
    COMM_RANK c"PMPI_Comm_rank" (usize, *mut c_int);
    COMM_SIZE c"PMPI_Comm_size" (usize, *mut c_int);
    COMM_REMOTE_SIZE c"PMPI_Comm_remote_size" (usize, *mut c_int);
    COMM_TEST_INTER c"PMPI_Comm_test_inter" (usize, *mut c_int);
    COMM_GROUP c"PMPI_Comm_group" (usize, *mut c_void);
    COMM_GET_PARENT c"PMPI_Comm_get_parent" (*mut c_void);
    GROUP_SIZE c"PMPI_Group_size" (usize, *mut c_int);
    GROUP_RANK c"PMPI_Group_rank" (usize, *mut c_int);
    GROUP_FROM_PSET c"PMPI_Group_from_session_pset" (usize, *const c_char, *mut c_void);
    GROUP_FREE c"PMPI_Group_free" (*mut c_void);
    GROUP_TRANSLATE c"PMPI_Group_translate_ranks" (usize, c_int, *const c_int, usize, *mut c_int);
    BCAST c"PMPI_Bcast" (*mut c_void, c_int, usize, c_int, usize);
    SEND c"PMPI_Send" (*const c_void, c_int, usize, c_int, c_int, usize);
    IRECV c"PMPI_Irecv" (*mut c_void, c_int, usize, c_int, c_int, usize, *mut c_void);
    TEST c"PMPI_Test" (*mut c_void, *mut c_int, *mut c_void);
    CANCEL c"PMPI_Cancel" (*mut c_void);
    SENDRECV c"PMPI_Sendrecv" (
        *const c_void, c_int, usize, c_int, c_int, *mut c_void, c_int, usize, c_int, c_int, usize,
        *mut c_void
    );
    TYPE_SIZE c"PMPI_Type_size_x" (usize, *mut i64);
    GET_ELEMENTS c"PMPI_Get_elements_x" (*const c_void, usize, *mut i64);
    TEST_CANCELLED c"PMPI_Test_cancelled" (*const c_void, *mut c_int);
    ERROR_STRING c"PMPI_Error_string" (c_int, *mut c_char, *mut c_int);
    TOPO_TEST c"PMPI_Topo_test" (usize, *mut c_int);
    CARTDIM c"PMPI_Cartdim_get" (usize, *mut c_int);
    GRAPH_NEIGHBORS c"PMPI_Graph_neighbors_count" (usize, c_int, *mut c_int);
    DIST_GRAPH_NEIGHBORS c"PMPI_Dist_graph_neighbors_count"
        (usize, *mut c_int, *mut c_int, *mut c_int);
}

/// What a function answers that takes a handle and a place for an integer; `None` where
/// MPI returns an error.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn number(
    function: &rankway_preload::Function<unsafe extern "C" fn(usize, *mut c_int) -> c_int>,
    of: usize,
) -> Option<c_int> {
    let mut answer = 0;
    // SAFETY: [MPI], [SIG].
    (unsafe { function.get()?(of, &mut answer) } == 0).then_some(answer)
}

/// Bytes of an element of a datatype.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn size_of_type(datatype: usize) -> Option<u64> {
    let mut size = -1;
    // SAFETY: [MPI], [SIG].
    unsafe { TYPE_SIZE.get()?(datatype, &mut size) };
    u64::try_from(size).ok()
}

/// The handle at a place; 0 before `MPI_Init`.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn at(place: usize) -> usize {
    // SAFETY: [MPI].
    get().map_or(0, |mpi| unsafe { mpi.read(place as *const c_void, 0) })
}

/// Bytes of a message as the library tells them of its status, and whether it was cancelled.
///
/// # Safety
/// \[MPI\]: a status of a receive.
pub(crate) unsafe fn received(packed: usize, status: *const c_void) -> (u64, bool) {
    let (mut count, mut cancelled) = (0, 0);
    // SAFETY: [MPI], [SIG].
    unsafe {
        if let (Some(get), Some(test)) = (GET_ELEMENTS.get(), TEST_CANCELLED.get()) {
            get(status, packed, &mut count);
            test(status, &mut cancelled);
        }
    }
    (u64::try_from(count).unwrap_or(0), cancelled != 0)
}

/// Processes that a collective on a communicator goes to: of an intercommunicator those
/// of the remote group.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn others(comm: usize) -> Option<usize> {
    // SAFETY: [MPI].
    let count = unsafe {
        match number(&COMM_TEST_INTER, comm)? {
            0 => number(&COMM_SIZE, comm)?,
            _ => number(&COMM_REMOTE_SIZE, comm)?,
        }
    };
    usize::try_from(count).ok()
}

/// Neighbours that this process receives from, and that it sends to, in a communicator with
/// a topology.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn neighbors(comm: usize) -> Option<(usize, usize)> {
    let (cart, graph) = match get()?.family {
        Family::OpenMpi => (1, 2),
        Family::Mpich => (2, 1),
        Family::Abi => (211, 212),
    };
    // SAFETY: [MPI], [SIG].
    let (from, to) = unsafe {
        let topology = number(&TOPO_TEST, comm)?;
        if topology == cart {
            let count = 2 * number(&CARTDIM, comm)?;
            (count, count)
        } else if topology == graph {
            let mut count = 0;
            GRAPH_NEIGHBORS.get()?(comm, number(&COMM_RANK, comm)?, &mut count);
            (count, count)
        } else {
            let (mut from, mut to, mut weighted) = (0, 0, 0);
            DIST_GRAPH_NEIGHBORS.get()?(comm, &mut from, &mut to, &mut weighted);
            (from, to)
        }
    };
    Some((usize::try_from(from).ok()?, usize::try_from(to).ok()?))
}
