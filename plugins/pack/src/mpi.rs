//! The MPI library behind this one, and its functions that are called here.

pub(crate) use rankway_preload::mpi::{Family, Mpi, failure, handle};
use std::ffi::{c_int, c_void};

// What is called for ourselves: by the names that no tool stands before.
rankway_preload::functions! {
    TYPE_SIZE c"PMPI_Type_size" (usize, *mut c_int);
    TYPE_EXTENT c"PMPI_Type_get_extent" (usize, *mut isize, *mut isize);
    TYPE_TRUE_EXTENT c"PMPI_Type_get_true_extent" (usize, *mut isize, *mut isize);
    TYPE_ENVELOPE c"PMPI_Type_get_envelope" (usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    /// Of MPI 4: integers, addresses, large counts, types.
    TYPE_ENVELOPE_C c"PMPI_Type_get_envelope_c" (usize, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int);
    TYPE_CONTENTS c"PMPI_Type_get_contents"
        (usize, c_int, c_int, c_int, *mut c_int, *mut isize, *mut c_void);
    /// Of MPI 4: as many of each as there are, then their places.
    TYPE_CONTENTS_C c"PMPI_Type_get_contents_c"
        (usize, i64, i64, i64, i64, *mut c_int, *mut isize, *mut i64, *mut c_void);
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
}

/// The library; `None` if its conventions are not known here.
pub(crate) fn get() -> Option<&'static Mpi> {
    rankway_preload::mpi::get().filter(|mpi| mpi.family != Family::Abi)
}
