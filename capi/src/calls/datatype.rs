//! Datatypes: MPI's constructors, and packing.

use crate::abi::*;
use crate::args::{answer, basic, buffer, list, out};
use crate::error::{Fail, call};
use crate::table;
use std::ffi::{c_int, c_void};
use transport::datatype::{Dealt, Distribution, Layout, LayoutError, Order};

/// Makes a datatype of another and gives its handle out.
///
/// # Safety
/// `made` is null or can be written to.
unsafe fn make(
    name: &str,
    made: *mut rankway_type_t,
    layout: impl FnOnce() -> Result<Layout, Fail>,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(made, "made") };
    answer(name, to, || table::add_type(layout()?))
}

/// [`make`] of one other datatype.
///
/// # Safety
/// As there.
unsafe fn derive(
    name: &str,
    of: rankway_type_t,
    made: *mut rankway_type_t,
    layout: impl FnOnce(&Layout) -> Result<Layout, LayoutError>,
) -> c_int {
    // SAFETY: [PTR].
    unsafe { make(name, made, || Ok(layout(&table::layout(of)?)?)) }
}

/// [`make`] of blocks of another datatype, each with its length and displacement.
///
/// # Safety
/// As there; the lists have `count` elements.
unsafe fn make_indexed(
    name: &str,
    (count, blocks, displacements): (usize, *const u64, *const i64),
    of: rankway_type_t,
    made: *mut rankway_type_t,
    layout: impl FnOnce(&[u64], &[i64], &Layout) -> Result<Layout, LayoutError>,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        make(name, made, || {
            let blocks = list(count, blocks, "blocks")?;
            let displacements = list(count, displacements, "displacements")?;
            Ok(layout(blocks, displacements, &table::layout(of)?)?)
        })
    }
}

/// [`make`] of blocks of one length of another datatype, each with its displacement.
///
/// # Safety
/// As there; the list has `count` elements.
unsafe fn make_indexed_block(
    name: &str,
    block: u64,
    (count, displacements): (usize, *const i64),
    of: rankway_type_t,
    made: *mut rankway_type_t,
    layout: impl FnOnce(u64, &[i64], &Layout) -> Result<Layout, LayoutError>,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        make(name, made, || {
            let displacements = list(count, displacements, "displacements")?;
            Ok(layout(block, displacements, &table::layout(of)?)?)
        })
    }
}

/// One element of a rankway_type. Every datatype is the caller's until
/// rankway_type_free; what is made of it, and operations that began, keep what
/// they need of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_basic(element: c_int, made: *mut rankway_type_t) -> c_int {
    // SAFETY: [PTR].
    unsafe { make("rankway_type_basic", made, || Ok(Layout::basic(basic(element)?))) }
}

/// `count` elements, an extent apart (MPI_Type_contiguous).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_contiguous(
    count: u64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe { derive("rankway_type_contiguous", of, made, |of| Layout::contiguous(count, of)) }
}

/// `count` blocks of `block` elements, `stride` extents apart
/// (MPI_Type_vector).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_vector(
    count: u64,
    block: u64,
    stride: i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        derive("rankway_type_vector", of, made, |of| Layout::vector(count, block, stride, of))
    }
}

/// rankway_type_vector with a stride in bytes (MPI_Type_create_hvector).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_hvector(
    count: u64,
    block: u64,
    stride: i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        derive("rankway_type_hvector", of, made, |of| Layout::hvector(count, block, stride, of))
    }
}

/// `count` blocks, each of so many elements and so many extents from the origin
/// (MPI_Type_indexed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_indexed(
    count: usize,
    blocks: *const u64,
    displacements: *const i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    let lists = (count, blocks, displacements);
    // SAFETY: [PTR].
    unsafe { make_indexed("rankway_type_indexed", lists, of, made, Layout::indexed) }
}

/// rankway_type_indexed with displacements in bytes (MPI_Type_create_hindexed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_hindexed(
    count: usize,
    blocks: *const u64,
    displacements: *const i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    let lists = (count, blocks, displacements);
    // SAFETY: [PTR].
    unsafe { make_indexed("rankway_type_hindexed", lists, of, made, Layout::hindexed) }
}

/// `count` blocks of `block` elements, each at so many extents from the origin
/// (MPI_Type_create_indexed_block).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_indexed_block(
    count: usize,
    block: u64,
    displacements: *const i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    let list = (count, displacements);
    // SAFETY: [PTR].
    unsafe {
        make_indexed_block(
            "rankway_type_indexed_block",
            block,
            list,
            of,
            made,
            Layout::indexed_block,
        )
    }
}

/// rankway_type_indexed_block with displacements in bytes
/// (MPI_Type_create_hindexed_block).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_hindexed_block(
    count: usize,
    block: u64,
    displacements: *const i64,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    let list = (count, displacements);
    // SAFETY: [PTR].
    unsafe {
        make_indexed_block(
            "rankway_type_hindexed_block",
            block,
            list,
            of,
            made,
            Layout::hindexed_block,
        )
    }
}

/// `count` blocks of different datatypes, with displacements in bytes
/// (MPI_Type_create_struct). The extent is rounded up to the strictest
/// alignment in it, as C lays out structures, also where a block was resized,
/// whose bounds MPI would take for the whole's: rankway_type_resized sets others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_struct(
    count: usize,
    blocks: *const u64,
    displacements: *const i64,
    types: *const rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        make("rankway_type_struct", made, || {
            let blocks = list(count, blocks, "blocks")?;
            let displacements = list(count, displacements, "displacements")?;
            let types = list(count, types, "types")?;
            let layouts =
                types.iter().map(|&ty| table::layout(ty)).collect::<Result<Vec<_>, _>>()?;
            let parts = blocks.iter().zip(displacements).zip(&layouts);
            let parts: Vec<_> = parts.map(|((&block, &at), layout)| (block, at, layout)).collect();
            Ok(Layout::structure(&parts)?)
        })
    }
}

fn order(number: c_int) -> Result<Order, Fail> {
    match number {
        0 => Ok(Order::C),
        1 => Ok(Order::Fortran),
        n => Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("{n} is no rankway_order"))),
    }
}

/// A part of an array: of each dimension its size, how many of it, and which is
/// the first (MPI_Type_create_subarray). The extent is that of the whole array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_subarray(
    dimensions: usize,
    sizes: *const u64,
    subsizes: *const u64,
    starts: *const u64,
    array_order: c_int,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        make("rankway_type_subarray", made, || {
            let sizes = list(dimensions, sizes, "sizes")?;
            let subsizes = list(dimensions, subsizes, "subsizes")?;
            let starts = list(dimensions, starts, "starts")?;
            let all = sizes.iter().zip(subsizes).zip(starts);
            let all: Vec<_> = all.map(|((&size, &part), &start)| (size, part, start)).collect();
            Ok(Layout::subarray(&all, order(array_order)?, &table::layout(of)?)?)
        })
    }
}

fn distribution(number: c_int, block: i64) -> Result<Distribution, Fail> {
    let refuse = |why: String| Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
    let block = match u64::try_from(block) {
        Ok(block) => Some(block),
        Err(_) if block == RANKWAY_DISTRIBUTE_DEFAULT => None,
        Err(_) => return refuse(format!("blocks of {block} elements")),
    };
    match number {
        0 => Ok(Distribution::None),
        1 => Ok(Distribution::Block(block)),
        2 => Ok(Distribution::Cyclic(block)),
        n => refuse(format!("{n} is no rankway_distribution")),
    }
}

/// The part of an array that process `process` of a grid has: of each dimension
/// its size, its rankway_distribution, the length of a block or
/// RANKWAY_DISTRIBUTE_DEFAULT, and the processes along it
/// (MPI_Type_create_darray). The extent is that of the whole array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_darray(
    process: u64,
    dimensions: usize,
    sizes: *const u64,
    distributions: *const c_int,
    blocks: *const i64,
    processes: *const u64,
    array_order: c_int,
    of: rankway_type_t,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe {
        make("rankway_type_darray", made, || {
            let sizes = list(dimensions, sizes, "sizes")?;
            let distributions = list(dimensions, distributions, "distributions")?;
            let blocks = list(dimensions, blocks, "blocks")?;
            let processes = list(dimensions, processes, "processes")?;
            let dealt = |i: usize| {
                let distribution = distribution(distributions[i], blocks[i])?;
                Ok(Dealt { size: sizes[i], distribution, processes: processes[i] })
            };
            let all = (0..dimensions).map(dealt).collect::<Result<Vec<_>, Fail>>()?;
            Ok(Layout::darray(process, &all, order(array_order)?, &table::layout(of)?)?)
        })
    }
}

/// The same bytes with another lower bound and extent
/// (MPI_Type_create_resized).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_resized(
    of: rankway_type_t,
    lb: i64,
    extent: i64,
    made: *mut rankway_type_t,
) -> c_int {
    // SAFETY: [PTR].
    unsafe { derive("rankway_type_resized", of, made, |of| of.resized(lb, extent)) }
}

/// The same datatype under another handle, to be freed for itself
/// (MPI_Type_dup). The two share what they hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_dup(of: rankway_type_t, made: *mut rankway_type_t) -> c_int {
    // SAFETY: [PTR].
    unsafe { derive("rankway_type_dup", of, made, |of| Ok(of.clone())) }
}

/// Frees a datatype. Those made of it, and operations under way, go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_free(datatype: rankway_type_t) -> c_int {
    call("rankway_type_free", || table::remove_type(datatype))
}

/// The bytes of data in a datatype (MPI_Type_size).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_size(datatype: rankway_type_t, size: *mut u64) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(size, "size") };
    answer("rankway_type_size", to, || Ok(table::layout(datatype)?.size()))
}

/// The lower bound, and the bytes from one element to the next
/// (MPI_Type_get_extent).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_extent(
    datatype: rankway_type_t,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    call("rankway_type_extent", || {
        // SAFETY: [PTR].
        let (first, bytes) = unsafe { (out(lb, "lb")?, out(extent, "extent")?) };
        let layout = table::layout(datatype)?;
        first.set(layout.lb());
        bytes.set(layout.extent());
        Ok(())
    })
}

/// The first byte taken, and the bytes from there to the end of the last one
/// (MPI_Type_get_true_extent); both 0 where no byte is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_true_extent(
    datatype: rankway_type_t,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    call("rankway_type_true_extent", || {
        // SAFETY: [PTR].
        let (first, bytes) = unsafe { (out(lb, "lb")?, out(extent, "extent")?) };
        let (low, high) = table::layout(datatype)?.true_bounds().unwrap_or((0, 0));
        first.set(low);
        bytes.set(high - low);
        Ok(())
    })
}

/// Copies bytes `from` and on of the packed stream of `count` elements at
/// `memory` to `stream`, until either ends, and stores how many: all that are
/// left where `capacity` is enough (MPI_Pack, in pieces of any
/// length).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_pack(
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
    from: u64,
    stream: *mut c_void,
    capacity: usize,
    packed: *mut usize,
) -> c_int {
    let (data, stream) = ((memory, count, datatype), (stream, capacity));
    // SAFETY: [PTR], [BUF].
    unsafe { pack("rankway_type_pack", Form::Native, data, from, stream, packed) }
}

/// Copies `bytes` bytes of a stream, packed bytes `from` and on of `count`
/// elements, to where they belong at `memory`, and stores how many belong
/// there (MPI_Unpack, in pieces of any length).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_type_unpack(
    stream: *const c_void,
    bytes: usize,
    from: u64,
    memory: *mut c_void,
    count: u64,
    datatype: rankway_type_t,
    unpacked: *mut usize,
) -> c_int {
    let (data, stream) = ((memory, count, datatype), (stream, bytes));
    // SAFETY: [PTR], [BUF].
    unsafe { unpack("rankway_type_unpack", Form::Native, stream, from, data, unpacked) }
}

/// The bytes of `count` elements in external32 (MPI_Pack_external_size).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_pack_external_size(
    count: u64,
    datatype: rankway_type_t,
    size: *mut u64,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(size, "size") };
    answer("rankway_pack_external_size", to, || {
        Ok(Form::External.size(&table::layout(datatype)?.times(count)?))
    })
}

/// rankway_type_pack in external32, which every machine reads alike: big endian,
/// 2 bytes a wide character, 16 a long double. `from` counts bytes of that form
/// (MPI_Pack_external).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_pack_external(
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
    from: u64,
    stream: *mut c_void,
    capacity: usize,
    packed: *mut usize,
) -> c_int {
    let (data, stream) = ((memory, count, datatype), (stream, capacity));
    // SAFETY: [PTR], [BUF].
    unsafe { pack("rankway_pack_external", Form::External, data, from, stream, packed) }
}

/// rankway_type_unpack of a stream in external32, of which `from` counts the
/// bytes. What a piece has of an element is laid over the element that is at
/// `memory` (MPI_Unpack_external).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_unpack_external(
    stream: *const c_void,
    bytes: usize,
    from: u64,
    memory: *mut c_void,
    count: u64,
    datatype: rankway_type_t,
    unpacked: *mut usize,
) -> c_int {
    let (data, stream) = ((memory, count, datatype), (stream, bytes));
    // SAFETY: [PTR], [BUF].
    unsafe { unpack("rankway_unpack_external", Form::External, stream, from, data, unpacked) }
}

/// How a packed stream has its elements: as memory does, or in external32.
#[derive(Clone, Copy)]
enum Form {
    Native,
    External,
}

impl Form {
    fn size(self, layout: &Layout) -> u64 {
        match self {
            Form::Native => layout.size(),
            Form::External => layout.pack_external_size(),
        }
    }

    /// How many bytes of a stream are copied: memory may be null where none is.
    fn left(self, layout: &Layout, from: u64, space: usize) -> usize {
        self.size(layout).saturating_sub(from).min(space as u64) as usize
    }
}

/// # Safety
/// `packed` is null or can be written to; \[BUF\] of the elements and the stream.
unsafe fn pack(
    name: &str,
    form: Form,
    (memory, count, datatype): (*const c_void, u64, rankway_type_t),
    from: u64,
    (stream, capacity): (*mut c_void, usize),
    packed: *mut usize,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(packed, "packed") };
    answer(name, to, || {
        let layout = table::layout(datatype)?.times(count)?;
        let stream = buffer("stream", stream.cast_const().cast(), capacity)?.cast_mut();
        let memory = buffer("memory", memory.cast(), form.left(&layout, from, capacity))?;
        // SAFETY: [BUF]: the elements at `memory`, and `capacity` bytes.
        Ok(unsafe {
            let stream = std::slice::from_raw_parts_mut(stream, capacity);
            match form {
                Form::Native => layout.pack_raw(memory, from, stream),
                Form::External => layout.pack_external_raw(memory, from, stream),
            }
        })
    })
}

/// # Safety
/// `unpacked` is null or can be written to; \[BUF\] of the elements and the stream.
unsafe fn unpack(
    name: &str,
    form: Form,
    (stream, bytes): (*const c_void, usize),
    from: u64,
    (memory, count, datatype): (*mut c_void, u64, rankway_type_t),
    unpacked: *mut usize,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(unpacked, "unpacked") };
    answer(name, to, || {
        let layout = table::layout(datatype)?.times(count)?;
        let stream = buffer("stream", stream.cast(), bytes)?;
        let left = form.left(&layout, from, bytes);
        let memory = buffer("memory", memory.cast_const().cast(), left)?.cast_mut();
        // SAFETY: [BUF]: the elements at `memory`, and `bytes` bytes.
        Ok(unsafe {
            let stream = std::slice::from_raw_parts(stream, bytes);
            match form {
                Form::Native => layout.unpack_raw(memory, from, stream),
                Form::External => layout.unpack_external_raw(memory, from, stream),
            }
        })
    })
}
