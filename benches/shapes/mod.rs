//! Ways to turn (communicator, rank) into a network address, side by side.
//!
//! Each shape is one exported function `shape_*`, never inlined, over plain C
//! structures, so that a timer, a disassembler or a single-stepper sees the same
//! code. All return the 64-bit address of the peer.
//!
//! - `rankway`: this crate's `Lookup`.
//! - `folded`: the same folding and bodies, but always through the function
//!   pointer, without the test for the affine family.
//! - `vcrt`: VC-VCRT of MPICH 3.2, a table of pointers to 480-byte connections.
//! - `switch`, `hybrid`, `jump`: AV-Rankmap of Guo et al. (2017) with 12-byte
//!   elements, by a switch, by an if before the switch, by a table of functions.
//! - `mpich40`: the shape of MPICH 4.0, twelve modes that keep the own process
//!   group apart, 72-byte elements.
//! - `mpich5x`: the shape of MPICH 5.x, a group with offset and stride or a
//!   table of 64-bit ids, 32-byte elements.
//!
//! The file stands alone: include it with `#[path]`.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::missing_safety_doc)]

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use rankway::rankmap::{Lookup, Process, RankMap};

/// Process groups of the benches: 0 is the own one.
pub const GROUPS: usize = 2;

// Elements ---------------------------------------------------------------

/// MPICH 3.2's connection: the address is somewhere in 480 bytes.
#[repr(C)]
pub struct Vc {
    state: [u64; 8],
    address: u64,
    rest: [u64; 51],
}

/// The paper's 12-byte element.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct Ave {
    address: u64,
    node: u32,
}

/// MPICH 4.0's element over OFI.
#[repr(C)]
pub struct Ave72 {
    node: u64,
    address: u64,
    rest: [u64; 7],
}

/// MPICH 5.x's element over OFI.
#[repr(C)]
pub struct Ave32 {
    node: u64,
    address: u64,
    rest: [u64; 2],
}

/// The address vectors, global as in the libraries.
#[repr(C)]
struct Directory<T> {
    own: AtomicPtr<T>,
    groups: [AtomicPtr<T>; GROUPS],
}

impl<T> Directory<T> {
    const fn new() -> Directory<T> {
        Directory {
            own: AtomicPtr::new(core::ptr::null_mut()),
            groups: [const { AtomicPtr::new(core::ptr::null_mut()) }; GROUPS],
        }
    }

    fn set(&self, tables: &mut [Vec<T>; GROUPS]) {
        self.own.store(tables[0].as_mut_ptr(), Relaxed);
        for (slot, table) in self.groups.iter().zip(tables) {
            slot.store(table.as_mut_ptr(), Relaxed);
        }
    }

    #[inline(always)]
    fn own(&self) -> *const T {
        self.own.load(Relaxed)
    }

    #[inline(always)]
    unsafe fn group(&self, pg: usize) -> *const T {
        // SAFETY: maps of the benches name groups below GROUPS.
        unsafe { self.groups.get_unchecked(pg).load(Relaxed) }
    }
}

static AV12: Directory<Ave> = Directory::new();
static AV72: Directory<Ave72> = Directory::new();
static AV32: Directory<Ave32> = Directory::new();

// Communicators ----------------------------------------------------------

/// Rankway's folding with a body for the affine family too.
#[repr(C)]
pub struct Folded {
    select: Typed<Folded>,
    base: *const u8,
    stride: usize,
    magic: u64,
    jump: usize,
    table: *const u8,
}

#[repr(C)]
pub struct Vcrt {
    references: u64,
    table: Vec<*const Vc>,
}

#[repr(C)]
pub struct CommVcrt {
    vcrt: *const Vcrt,
    table: *const *const Vc,
}

pub const DIRECT: u32 = 0;
pub const OFFSET: u32 = 1;
pub const STRIDE: u32 = 2;
pub const BLOCKSTRIDE: u32 = 3;
pub const LUT: u32 = 4;
pub const MLUT: u32 = 5;

/// The paper's rank map.
#[repr(C)]
pub struct Rankmap {
    mode: u32,
    pg: u32,
    offset: u32,
    stride: u32,
    block: u32,
    lut: *const u32,
    mlut: *const Process,
}

/// MPICH 4.0 keeps a mode of each kind for the own group.
#[repr(C)]
pub struct Map40 {
    mode: u32,
    pg: u32,
    offset: i32,
    stride: i32,
    block: i32,
    lut: *const u32,
    mlut: *const Process,
}

#[repr(C)]
pub struct Group5 {
    handle: u64,
    size: i32,
    rank: i32,
    use_map: u32,
    offset: i64,
    stride: i64,
    map: *const i64,
}

#[repr(C)]
pub struct Comm5 {
    handle: u64,
    local: *const Group5,
    remote: *const Group5,
}

// Shapes -----------------------------------------------------------------
//
// SAFETY of all: the communicator is one that `Shapes::new` made, whose tables
// `Shapes` owns, and `rank` is below its size.

/// This crate.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_rankway(comm: *const Lookup, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { (*comm).entry(rank) }
}

/// The same through the function pointer alone.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_folded(comm: *const Folded, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { ((*comm).select)(comm, rank) }
}

#[inline(always)]
unsafe fn acquire(entry: *const u8) -> u64 {
    // SAFETY: see above.
    unsafe { (*entry.cast::<AtomicU64>()).load(Acquire) }
}

unsafe extern "C" fn folded_affine(comm: *const Folded, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { acquire((*comm).base.wrapping_add(rank.wrapping_mul((*comm).stride))) }
}

unsafe extern "C" fn folded_block(comm: *const Folded, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let turns = ((rank as u128 * u128::from((*comm).magic)) >> 64) as usize;
        acquire((*comm).base.wrapping_add(turns.wrapping_mul((*comm).jump)).wrapping_add(8 * rank))
    }
}

unsafe extern "C" fn folded_lut(comm: *const Folded, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let lpid = *(*comm).table.cast::<u32>().add(rank);
        acquire((*comm).base.add(8 * lpid as usize))
    }
}

unsafe extern "C" fn folded_mlut(comm: *const Folded, rank: usize) -> u64 {
    // SAFETY: see above; `base` is the directory.
    unsafe {
        let packed = *(*comm).table.cast::<u64>().add(rank);
        let slot = (*comm).base.cast::<AtomicPtr<u8>>().add((packed >> 32) as usize);
        acquire((*slot).load(Acquire).add(8 * (packed as u32) as usize))
    }
}

/// VC-VCRT.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_vcrt(comm: *const CommVcrt, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { (**(*comm).table.add(rank)).address }
}

#[inline(always)]
unsafe fn address12(table: *const Ave, lpid: usize) -> u64 {
    // SAFETY: see above.
    unsafe { (&raw const (*table.add(lpid)).address).read_unaligned() }
}

#[inline(always)]
unsafe fn blocks(c: &Rankmap, rank: u32) -> usize {
    (rank / c.block * c.stride + rank % c.block + c.offset) as usize
}

/// The paper's switch.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_switch(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let c = &*comm;
        match c.mode {
            DIRECT => address12(AV12.group(c.pg as usize), rank),
            OFFSET => address12(AV12.group(c.pg as usize), rank + c.offset as usize),
            STRIDE => {
                let lpid = rank * c.stride as usize + c.offset as usize;
                address12(AV12.group(c.pg as usize), lpid)
            }
            BLOCKSTRIDE => address12(AV12.group(c.pg as usize), blocks(c, rank as u32)),
            LUT => address12(AV12.group(c.pg as usize), *c.lut.add(rank) as usize),
            MLUT => {
                let process = *c.mlut.add(rank);
                address12(AV12.group(process.pg as usize), process.lpid as usize)
            }
            _ => 0,
        }
    }
}

/// The paper's hybrid: the commonest mode by an if, the others by a switch.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_hybrid(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let c = &*comm;
        if c.mode == DIRECT {
            return address12(AV12.group(c.pg as usize), rank);
        }
        match c.mode {
            OFFSET => address12(AV12.group(c.pg as usize), rank + c.offset as usize),
            STRIDE => {
                let lpid = rank * c.stride as usize + c.offset as usize;
                address12(AV12.group(c.pg as usize), lpid)
            }
            BLOCKSTRIDE => address12(AV12.group(c.pg as usize), blocks(c, rank as u32)),
            LUT => address12(AV12.group(c.pg as usize), *c.lut.add(rank) as usize),
            MLUT => {
                let process = *c.mlut.add(rank);
                address12(AV12.group(process.pg as usize), process.lpid as usize)
            }
            _ => 0,
        }
    }
}

type Jump = unsafe extern "C" fn(*const Rankmap, usize) -> u64;

static JUMPS: [Jump; 6] =
    [jump_direct, jump_offset, jump_stride, jump_blockstride, jump_lut, jump_mlut];

/// The paper's goto: a jump through a table of labels, one for each mode.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_jump(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above; modes are below six.
    unsafe { JUMPS.get_unchecked((*comm).mode as usize)(comm, rank) }
}

unsafe extern "C" fn jump_direct(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { address12(AV12.group((*comm).pg as usize), rank) }
}

unsafe extern "C" fn jump_offset(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { address12(AV12.group((*comm).pg as usize), rank + (*comm).offset as usize) }
}

unsafe extern "C" fn jump_stride(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let lpid = rank * (*comm).stride as usize + (*comm).offset as usize;
        address12(AV12.group((*comm).pg as usize), lpid)
    }
}

unsafe extern "C" fn jump_blockstride(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { address12(AV12.group((*comm).pg as usize), blocks(&*comm, rank as u32)) }
}

unsafe extern "C" fn jump_lut(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe { address12(AV12.group((*comm).pg as usize), *(*comm).lut.add(rank) as usize) }
}

unsafe extern "C" fn jump_mlut(comm: *const Rankmap, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let process = *(*comm).mlut.add(rank);
        address12(AV12.group(process.pg as usize), process.lpid as usize)
    }
}

/// The shape of MPICH 4.0.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_mpich40(comm: *const Map40, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let c = &*comm;
        let r = rank as i32;
        let in_blocks = || (r / c.block * c.stride + r % c.block + c.offset) as usize;
        match c.mode {
            0 => (*AV72.group(c.pg as usize).add(rank)).address,
            1 => (*AV72.own().add(rank)).address,
            2 => (*AV72.group(c.pg as usize).add((r + c.offset) as usize)).address,
            3 => (*AV72.own().add((r + c.offset) as usize)).address,
            4 => (*AV72.group(c.pg as usize).add((r * c.stride + c.offset) as usize)).address,
            5 => (*AV72.own().add((r * c.stride + c.offset) as usize)).address,
            6 => (*AV72.group(c.pg as usize).add(in_blocks())).address,
            7 => (*AV72.own().add(in_blocks())).address,
            8 => (*AV72.group(c.pg as usize).add(*c.lut.add(rank) as usize)).address,
            9 => (*AV72.own().add(*c.lut.add(rank) as usize)).address,
            10 => {
                let process = *c.mlut.add(rank);
                (*AV72.group(process.pg as usize).add(process.lpid as usize)).address
            }
            _ => 0,
        }
    }
}

/// The shape of MPICH 5.x.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn shape_mpich5x(comm: *const Comm5, rank: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        let c = &*comm;
        let group = &*if c.remote.is_null() { c.local } else { c.remote };
        let id = if group.use_map != 0 {
            *group.map.add(rank)
        } else {
            group.offset + group.stride * rank as i64
        };
        let (pg, index) = ((id >> 32) as usize, (id & 0xffff_ffff) as usize);
        let table = if pg == 0 { AV32.own() } else { AV32.group(pg) };
        (*table.add(index)).address
    }
}

// Set-up -----------------------------------------------------------------

/// The names of [`Comm::shapes`], in its order.
pub const NAMES: [&str; 8] =
    ["rankway", "folded", "vcrt", "switch", "hybrid", "jump", "mpich40", "mpich5x"];

/// The map kinds of the paper's Table III and blockstride.
pub const KINDS: [&str; 6] = ["direct", "offset", "stride", "blockstride", "lut", "mlut"];

/// The address every shape has to find.
pub fn address(process: Process) -> u64 {
    u64::from(process.pg) << 32 | u64::from(process.lpid) | 1 << 62
}

/// The address vectors of every shape.
pub struct Vectors {
    pub entries: [Vec<AtomicU64>; GROUPS],
    pub directory: Box<[AtomicPtr<AtomicU64>; GROUPS]>,
    vcs: [Vec<Vc>; GROUPS],
    _12: [Vec<Ave>; GROUPS],
    _72: [Vec<Ave72>; GROUPS],
    _32: [Vec<Ave32>; GROUPS],
}

impl Vectors {
    /// Vectors of `size` processes a group. One at a time: the libraries' are
    /// global.
    pub fn new(size: u32) -> Vectors {
        fn fill<T>(size: u32, element: impl Fn(u64) -> T) -> [Vec<T>; GROUPS] {
            core::array::from_fn(|pg| {
                let pg = pg as u32;
                (0..size).map(|lpid| element(address(Process { pg, lpid }))).collect()
            })
        }
        let mut entries = fill(size, AtomicU64::new);
        let directory =
            Box::new(core::array::from_fn(|pg| AtomicPtr::new(entries[pg].as_mut_ptr())));
        let mut vectors = Vectors {
            entries,
            directory,
            vcs: fill(size, |address| Vc { state: [0; 8], address, rest: [0; 51] }),
            _12: fill(size, |address| Ave { address, node: 0 }),
            _72: fill(size, |address| Ave72 { node: 0, address, rest: [0; 7] }),
            _32: fill(size, |address| Ave32 { node: 0, address, rest: [0; 2] }),
        };
        AV12.set(&mut vectors._12);
        AV72.set(&mut vectors._72);
        AV32.set(&mut vectors._32);
        vectors
    }
}

/// One communicator in every shape.
pub struct Comm {
    pub kind: usize,
    pub size: u32,
    pub map: RankMap,
    pub lookup: Box<Lookup>,
    pub folded: Box<Folded>,
    pub vcrt: Box<CommVcrt>,
    pub paper: Box<Rankmap>,
    pub mpich40: Box<Map40>,
    pub mpich5x: Box<Comm5>,
    tables: Tables,
}

/// A shape over its own communicator.
type Typed<T> = unsafe extern "C" fn(*const T, usize) -> u64;

/// A shape to call: its function over an untyped communicator.
pub type Shape = Typed<()>;

/// What the structures of a communicator point to.
struct Tables {
    vcrt: Box<Vcrt>,
    lut: Vec<u32>,
    processes: Vec<Process>,
    packed: Vec<u64>,
    ids: Vec<i64>,
    group: Box<Group5>,
}

impl Comm {
    /// A communicator of half the processes of group 0, as in the paper's
    /// section IV-B: the first half, the second half, the even ones, four of
    /// every eight, in random order; or, for mlut, random ones of both groups.
    pub fn new(vectors: &Vectors, kind: usize, mut random: impl FnMut() -> u64) -> Comm {
        let universe = vectors.entries[0].len() as u32;
        let n = universe / 2;
        let mut list: Vec<Process> = (0..n)
            .map(|r| {
                let lpid = match KINDS[kind] {
                    "offset" => n + r,
                    "stride" => 2 * r,
                    "blockstride" => r / 4 * 8 + r % 4,
                    _ => r,
                };
                let pg = u32::from(KINDS[kind] == "mlut" && r % 2 == 1);
                Process { pg, lpid }
            })
            .collect();
        if matches!(KINDS[kind], "lut" | "mlut") {
            for i in (1..list.len()).rev() {
                list.swap(i, (random() % (i as u64 + 1)) as usize);
            }
        }
        let map = RankMap::from_processes(list.iter().copied()).expect("small lpids");
        assert_eq!(map.model().name(), KINDS[kind]);
        // SAFETY: `vectors` has every process of both groups; the map stays
        // with the lookup.
        let lookup = Box::new(unsafe { Lookup::new(&map, vectors.directory.as_ptr()) });
        let table: Vec<*const Vc> =
            list.iter().map(|p| &raw const vectors.vcs[p.pg as usize][p.lpid as usize]).collect();
        let vcrt = Box::new(Vcrt { references: 1, table });
        let lut: Vec<u32> = list.iter().map(|p| p.lpid).collect();
        let ids: Vec<i64> =
            list.iter().map(|p| i64::from(p.pg) << 32 | i64::from(p.lpid)).collect();
        let (offset, stride, block): (u32, u32, u32) = match KINDS[kind] {
            "offset" => (n, 1, 1),
            "stride" => (0, 2, 1),
            "blockstride" => (0, 8, 4),
            _ => (0, 1, 1),
        };
        let packed: Vec<u64> =
            list.iter().map(|p| u64::from(p.pg) << 32 | u64::from(p.lpid)).collect();
        let entries: *const u8 = vectors.entries[0].as_ptr().cast();
        let folded = Folded {
            select: match KINDS[kind] {
                "blockstride" => folded_block,
                "lut" => folded_lut,
                "mlut" => folded_mlut,
                _ => folded_affine,
            },
            base: match KINDS[kind] {
                "mlut" => vectors.directory.as_ptr().cast(),
                _ => entries.wrapping_add(8 * offset as usize),
            },
            stride: 8 * stride as usize,
            magic: u64::MAX / u64::from(block) + u64::from(block > 1),
            jump: 8 * stride.wrapping_sub(block) as usize,
            table: if KINDS[kind] == "mlut" { packed.as_ptr().cast() } else { lut.as_ptr().cast() },
        };
        let paper = Rankmap {
            mode: kind as u32,
            pg: 0,
            offset,
            stride,
            block,
            lut: lut.as_ptr(),
            mlut: list.as_ptr(),
        };
        let mpich40 = Map40 {
            mode: [1, 3, 5, 7, 9, 10][kind],
            pg: 0,
            offset: offset as i32,
            stride: stride as i32,
            block: block as i32,
            lut: lut.as_ptr(),
            mlut: list.as_ptr(),
        };
        let group = Box::new(Group5 {
            handle: 0,
            size: n as i32,
            rank: 0,
            use_map: u32::from(kind as u32 >= BLOCKSTRIDE),
            offset: i64::from(offset),
            stride: i64::from(stride),
            map: ids.as_ptr(),
        });
        let mpich5x = Comm5 { handle: 0, local: &raw const *group, remote: core::ptr::null() };
        let comm = Comm {
            kind,
            size: n,
            map,
            lookup,
            folded: Box::new(folded),
            vcrt: Box::new(CommVcrt { vcrt: &raw const *vcrt, table: vcrt.table.as_ptr() }),
            paper: Box::new(paper),
            mpich40: Box::new(mpich40),
            mpich5x: Box::new(mpich5x),
            tables: Tables { vcrt, lut, processes: list, packed, ids, group },
        };
        for (name, (shape, this)) in NAMES.iter().zip(comm.shapes()) {
            for (rank, &process) in comm.tables.processes.iter().enumerate() {
                // SAFETY: rank is below the size, the pointer is the shape's own.
                let found = unsafe { shape(this, rank) };
                assert_eq!(found, address(process), "{name} {} rank {rank}", KINDS[kind]);
            }
        }
        comm
    }

    /// Each shape's function and its communicator.
    pub fn shapes(&self) -> [(Shape, *const ()); 8] {
        macro_rules! shape {
            ($function:ident, $comm:expr, $ty:ty) => {{
                let typed: Typed<$ty> = $function;
                // SAFETY: only the type of a thin pointer argument changes; the
                // pointer beside it is of the right type.
                let shape = unsafe { core::mem::transmute::<Typed<$ty>, Shape>(typed) };
                (shape, (&raw const *$comm).cast())
            }};
        }
        [
            shape!(shape_rankway, self.lookup, Lookup),
            shape!(shape_folded, self.folded, Folded),
            shape!(shape_vcrt, self.vcrt, CommVcrt),
            shape!(shape_switch, self.paper, Rankmap),
            shape!(shape_hybrid, self.paper, Rankmap),
            shape!(shape_jump, self.paper, Rankmap),
            shape!(shape_mpich40, self.mpich40, Map40),
            shape!(shape_mpich5x, self.mpich5x, Comm5),
        ]
    }
}
