//! Windows are made, freed and queried.

use super::custom;
use super::fault::{answer, code};
use super::module::{Functions, Module};
use super::request;
use crate::comm::group_map;
use crate::ffi;
use crate::log::{guarded, print};
use crate::state::State;
use rankway::netmod::Netmod;
use rankway::rma::{Allgather, Communicator, Error, Window, register_operator};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;

/// The arguments of a window that is being made.
#[derive(Clone, Copy)]
pub(super) struct WindowArguments {
    pub(super) base: *mut *mut c_void,
    pub(super) size: usize,
    pub(super) unit: c_int,
    pub(super) flavor: c_int,
    pub(super) info: *mut ffi::opal_info_t,
}

/// What each member tells the others.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MemberInfo {
    size: u64,
    unit: u64,
    /// The window's, of the first member.
    id: u64,
    /// 1 for a shared window whose parts need not follow each other, by this member's info.
    noncontiguous: u64,
}

/// Checks that a window over this communicator can be made here.
///
/// # Errors
/// Why not.
///
/// # Safety
/// `comm` is a communicator.
pub(super) unsafe fn check_supported<N: Netmod>(
    state: &State<N>,
    comm: *mut ffi::ompi_communicator_t,
    flavor: c_int,
) -> Result<(), String> {
    // SAFETY: [MPI].
    let map = unsafe { group_map(state, (*comm).c_local_group)? }.map;
    if flavor != ffi::MPI_WIN_FLAVOR_SHARED as c_int {
        return Ok(());
    }
    state.enter(|inner| {
        let device = inner.context.device();
        match map.iter().position(|member| !device.on_node(member.lpid)) {
            None => Ok(()),
            Some(rank) => Err(format!(
                "a shared window needs all members on one node; rank {rank} is on another"
            )),
        }
    })
}

/// Makes a window that has these functions. Collective over `comm`.
///
/// # Errors
/// Open MPI's code.
///
/// # Safety
/// `win` is a window that is being made on `comm`, and `arguments` as Open MPI
/// hands it over.
pub(super) unsafe fn make<N: Netmod>(
    functions: Functions,
    state: &'static State<N>,
    threads: bool,
    win: *mut ffi::ompi_win_t,
    comm: *mut ffi::ompi_communicator_t,
    arguments: WindowArguments,
) -> Result<(), c_int> {
    let mut own = std::ptr::null_mut();
    // SAFETY: a live communicator, and a place for another.
    let duplicated = unsafe { ffi::ompi_comm_dup(comm, &mut own) };
    if duplicated != ffi::SUCCESS {
        return Err(duplicated);
    }
    // SAFETY: [MPI]; `own` is a duplicate of `comm`.
    let made = unsafe { make_on(functions, state, threads, win, own, arguments) };
    if made.is_err() {
        // SAFETY: made above, used no more.
        unsafe { ffi::ompi_comm_free(&mut own) };
    }
    made
}

/// # Safety
/// As [`make`].
unsafe fn make_on<N: Netmod>(
    functions: Functions,
    state: &'static State<N>,
    threads: bool,
    win: *mut ffi::ompi_win_t,
    comm: *mut ffi::ompi_communicator_t,
    arguments: WindowArguments,
) -> Result<(), c_int> {
    let dynamic = arguments.flavor == ffi::MPI_WIN_FLAVOR_DYNAMIC as c_int;
    // SAFETY: [MPI].
    let (rank, members) = unsafe { ((*comm).c_my_rank, (*(*comm).c_local_group).grp_proc_count) };
    // SAFETY: Open MPI's info, or null.
    let noncontiguous = unsafe { flag(arguments.info, c"alloc_shared_noncontig") };
    let mine = MemberInfo {
        noncontiguous: u64::from(noncontiguous),
        size: if dynamic { u64::MAX } else { arguments.size as u64 },
        unit: if dynamic { 1 } else { arguments.unit as u64 },
        id: if rank == 0 { rankway_plugin::next_window_id(state.boot()) } else { 0 },
    };
    // SAFETY: a live communicator with its collectives.
    let infos = unsafe { allgather(comm, &[mine], members as usize)? };
    // SAFETY: as above.
    let group = unsafe { group_map(state, (*comm).c_local_group) }.map_err(|why| {
        print(&why);
        ffi::OMPI_ERR_NOT_SUPPORTED
    })?;
    let map = group.map;
    let id = infos.first().map_or(0, |info| info.id);
    let noncontiguous = infos.iter().all(|info| info.noncontiguous != 0);
    let window = state.enter_waiting(|inner| -> Result<Window<N>, Error> {
        register_operator(&inner.context, custom::operator);
        let collectives = Rc::new(Collectives { state, comm, members: members as usize });
        let world = Communicator::world(&inner.context);
        let communicator = world.with_allgather(map, rank as u32, id, collectives);
        match arguments.flavor as u32 {
            ffi::MPI_WIN_FLAVOR_ALLOCATE => Window::allocate(&communicator, arguments.size, 1),
            ffi::MPI_WIN_FLAVOR_SHARED if noncontiguous => {
                Window::allocate(&communicator, arguments.size, 1)
            }
            ffi::MPI_WIN_FLAVOR_SHARED => Window::shared(&communicator, arguments.size, 1),
            ffi::MPI_WIN_FLAVOR_DYNAMIC => Window::dynamic(&communicator),
            // SAFETY: the caller's memory stays until the window is freed, by
            // MPI's rules.
            _ => unsafe {
                let start = (*arguments.base).cast::<u8>();
                // MPI_BOTTOM as memory is an address like another.
                Window::create(&communicator, start, arguments.size, 1)
            },
        }
    });
    let window = window.map_err(|e| code(&e))?;
    let allocated = [ffi::MPI_WIN_FLAVOR_ALLOCATE, ffi::MPI_WIN_FLAVOR_SHARED];
    if allocated.contains(&(arguments.flavor as u32)) {
        let (start, _) = state.enter(|_| window.local()).map_err(|e| code(&e))?;
        let none = arguments.size == 0 && arguments.flavor as u32 == ffi::MPI_WIN_FLAVOR_SHARED;
        // SAFETY: Open MPI's place for the address.
        unsafe { *arguments.base = if none { std::ptr::null_mut() } else { start.cast() } };
    }
    let (sizes, units) = infos.iter().map(|t| (t.size, t.unit as u32)).unzip();
    let module =
        state.enter(|_| Module::new(functions, state, threads, window, comm, sizes, units));
    let module = Box::into_raw(Box::new(module));
    // SAFETY: the window that is being made.
    unsafe {
        (*win).w_osc_module = module.cast();
        let subscriber = (&raw mut (*win).super_).cast();
        let shared = arguments.flavor as u32 == ffi::MPI_WIN_FLAVOR_SHARED;
        let contiguity: (_, _, InfoCallback) = (
            c"alloc_shared_noncontig",
            if noncontiguous { c"true" } else { c"false" },
            accept_value,
        );
        for (key, usual, callback) in HINTS.into_iter().chain(shared.then_some(contiguity)) {
            let (key, usual) = (key.as_ptr().cast_mut(), usual.as_ptr().cast_mut());
            ffi::opal_infosubscribe_subscribe(subscriber, key, usual, Some(callback));
        }
    }
    // Other members may begin at once: packets that come early are kept.
    Ok(())
}

/// The allgather of a window's members: Open MPI's collectives, which make
/// progress for all components.
struct Collectives<N: Netmod> {
    state: &'static State<N>,
    /// The window's own.
    comm: *mut ffi::ompi_communicator_t,
    members: usize,
}

impl<N: Netmod> Allgather for Collectives<N> {
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        // SAFETY: the window's communicator, which lives as long as it.
        let equal = |bytes: &[u8]| unsafe { allgather(self.comm, bytes, self.members) };
        let gather = || rankway_plugin::gather_padded(mine, equal);
        let gathered = self.state.without_lock(gather).unwrap_or(Err(ffi::OMPI_ERR_NOT_SUPPORTED));
        gathered.map_err(|code| format!("an allgather of Open MPI's answered {code}"))
    }
}

/// Collects the elements of all members, by rank, the same number of each.
///
/// # Safety
/// A live communicator of `members` with its collectives. Any bits are a `T`.
unsafe fn allgather<T: Copy + Default>(
    comm: *mut ffi::ompi_communicator_t,
    mine: &[T],
    members: usize,
) -> Result<Vec<T>, c_int> {
    let mut all = vec![T::default(); members * mine.len()];
    let bytes = size_of_val(mine) as c_int;
    if bytes == 0 {
        return Ok(all);
    }
    // SAFETY: [MPI]; the buffers hold that many bytes.
    let code = unsafe {
        let byte = (&raw mut ffi::ompi_mpi_byte).cast::<ffi::ompi_datatype_t>();
        let coll = (*comm).c_coll;
        let Some(gather) = (*coll).coll_allgather else { return Err(ffi::OMPI_ERR_NOT_SUPPORTED) };
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        gather(from, bytes, byte, to, bytes, byte, comm, (*coll).coll_allgather_module)
    };
    if code == ffi::SUCCESS { Ok(all) } else { Err(code) }
}

/// Returns true if an info key is "true".
///
/// # Safety
/// `info` is null or an info.
unsafe fn flag(info: *mut ffi::opal_info_t, key: &CStr) -> bool {
    let (mut value, mut there) = (false, 0);
    if info.is_null() {
        return false;
    }
    // SAFETY: [MPI], and live places.
    let code = unsafe {
        ffi::opal_info_get_bool(info, key.as_ptr().cast_mut(), &mut value, (&raw mut there).cast())
    };
    code == ffi::SUCCESS && there != 0 && value
}

/// The info keys of windows: name, default, callback for changes. Only
/// `no_locks` changes anything here: order is kept and sizes are compared
/// whatever is promised.
const HINTS: [(&CStr, &CStr, InfoCallback); 5] = [
    (c"no_locks", c"false", no_locks),
    (c"accumulate_ordering", c"rar,raw,war,waw", accept_value),
    (c"accumulate_ops", c"same_op_no_op", accept_value),
    (c"same_size", c"false", accept_value),
    (c"same_disp_unit", c"false", accept_value),
];

type InfoCallback = unsafe extern "C" fn(Subscriber, Text, Text) -> Text;
type Subscriber = *mut ffi::opal_infosubscriber_t;
#[cfg(not(openmpi5))]
type Text = *mut c_char;
#[cfg(openmpi5)]
type Text = *const c_char;

/// A hint that is kept for MPI_Win_get_info.
unsafe extern "C" fn accept_value(_win: Subscriber, _key: Text, value: Text) -> Text {
    value
}

/// Open MPI tells of the info key; what it says is kept where MPI_Win_lock
/// looks.
unsafe extern "C" fn no_locks(win: Subscriber, _key: Text, value: Text) -> Text {
    // SAFETY: a window is the only thing that subscribed this, and begins with
    // the subscriber; the value is a C string.
    unsafe {
        let win = win.cast::<ffi::ompi_win_t>();
        let yes = [c"true", c"yes", c"1"].contains(&CStr::from_ptr(value));
        let flag = ffi::OMPI_WIN_NO_LOCKS as u16;
        (*win).w_flags = if yes { (*win).w_flags | flag } else { (*win).w_flags & !flag };
        (if yes { c"true" } else { c"false" }).as_ptr() as Text
    }
}

pub(super) unsafe extern "C" fn free<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: a window of this component, freed once.
    let module = unsafe { Module::<N>::of(win) };
    guarded(|| {
        let entered = module.enter(|_| module.window.free_enter());
        if let Err(e) = &entered
            && code(e) == ffi::OMPI_ERR_RMA_SYNC
        {
            return ffi::OMPI_ERR_RMA_SYNC;
        }
        request::finish(std::ptr::from_ref(module).addr());
        let barrier = module.barrier();
        if barrier == ffi::SUCCESS {
            module.window.free_leave();
        }
        let (state, mut comm) = (module.state, module.comm);
        // SAFETY: made by `make_on`; nobody uses it from here on.
        let boxed = unsafe { Box::from_raw(std::ptr::from_ref(module).cast_mut()) };
        state.enter_waiting(|_| drop(boxed));
        let result = if barrier == ffi::SUCCESS { answer(entered) } else { barrier };
        // SAFETY: the window's own; made by `make`.
        unsafe {
            // (Open MPI keeps a window whose end is an error, and may be told to free it.)
            (*win).w_osc_module = match result {
                ffi::SUCCESS => std::ptr::null_mut(),
                _ => std::ptr::from_ref(&FREED).cast_mut(),
            };
            ffi::ompi_comm_free(&mut comm);
        }
        result
    })
}

/// The functions of a window that is gone, though its end was an error: it can be freed
/// once more.
static FREED: Functions = Functions {
    osc_free: Some(free_gone),
    // SAFETY: without a function each is null, which is none.
    ..unsafe { std::mem::MaybeUninit::zeroed().assume_init() }
};

/// The second [`free`] of a window, whose first was an error.
unsafe extern "C" fn free_gone(_: *mut ffi::ompi_win_t) -> c_int {
    ffi::SUCCESS
}

pub(super) unsafe extern "C" fn shared_query<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    rank: c_int,
    size: *mut usize,
    unit: *mut c_int,
    base: *mut c_void,
) -> c_int {
    // SAFETY: [MPI].
    let (module, flavor) = unsafe { (Module::<N>::of(win), (*win).w_flavor) };
    if u32::from(flavor) != ffi::MPI_WIN_FLAVOR_SHARED {
        return ffi::MPI_ERR_RMA_FLAVOR as c_int;
    }
    guarded(|| {
        let members = module.window.communicator().size();
        // MPI_PROC_NULL asks for the first rank that has memory.
        let rank = match rank {
            ffi::MPI_PROC_NULL => (0..members).find(|&r| module.bytes_of(r) > 0).unwrap_or(0),
            rank => rank as u32,
        };
        match module.enter(|_| module.window.shared_query(rank)) {
            Ok((start, bytes, _)) => {
                // SAFETY: the caller's places.
                unsafe {
                    *size = bytes;
                    *unit = module.unit_of(rank) as c_int;
                    *base.cast() = if bytes == 0 { std::ptr::null_mut() } else { start };
                }
                ffi::SUCCESS
            }
            Err(e) => code(&e),
        }
    })
}

pub(super) unsafe extern "C" fn attach<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    base: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: [MPI].
    let (module, flavor) = unsafe { (Module::<N>::of(win), (*win).w_flavor) };
    if u32::from(flavor) != ffi::MPI_WIN_FLAVOR_DYNAMIC {
        return ffi::MPI_ERR_RMA_FLAVOR as c_int;
    }
    guarded(|| {
        // SAFETY: the memory stays until it is detached, by MPI's rules.
        let attached = module.enter(|_| unsafe { module.window.attach(base.cast(), size) });
        attached.map_or_else(|e| refused(&e), |_| ffi::SUCCESS)
    })
}

pub(super) unsafe extern "C" fn detach<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    base: *const c_void,
) -> c_int {
    // SAFETY: [MPI].
    let (module, flavor) = unsafe { (Module::<N>::of(win), (*win).w_flavor) };
    if u32::from(flavor) != ffi::MPI_WIN_FLAVOR_DYNAMIC {
        return ffi::MPI_ERR_RMA_FLAVOR as c_int;
    }
    guarded(|| {
        module
            .enter(|_| module.window.detach(base.cast()))
            .map_or_else(|e| refused(&e), |()| ffi::SUCCESS)
    })
}

fn refused(error: &Error) -> c_int {
    code(error);
    ffi::OMPI_ERR_RMA_ATTACH
}
