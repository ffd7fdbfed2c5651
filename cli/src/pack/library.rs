//! An MPI of this machine, opened at run time: datatypes, `MPI_Pack`, `MPI_Unpack`.
//!
//! Two of them cannot be in one process. Open MPI's handles are pointers to objects
//! of the library, MPICH's (and those of its ABI) are numbers: [`Library`] is
//! generic over the handle. Nothing of it leaves this file.

use super::shape::{Shape, Unit};
use super::stage::Stage;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};

/// What a process with an MPI can do with a description.
pub(super) trait Mpi {
    /// What the library says it is, in a line.
    fn version(&self) -> String;
    /// Makes the datatype, compares what it packs and unpacks with the reference, and
    /// times both in turn as often as asked: `next` returns whether there is another
    /// round and hears what the last took, in ns.
    fn measure(
        &self,
        shape: &Shape,
        offset: usize,
        next: &mut dyn FnMut(Option<(f64, f64)>) -> bool,
    ) -> Result<(), String>;
    /// Leaves MPI.
    fn finalize(&self);
}

/// Opens the library and initialises MPI with this process alone.
pub(super) fn open(name: &str) -> Result<Box<dyn Mpi>, String> {
    let file = CString::new(name).map_err(|_| "the name holds a zero byte".to_owned())?;
    // SAFETY: MPI libraries have no constructors that ask anything of us; their
    // plug-ins look for their symbols among the global ones.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: dlerror gives null or a C string that stays until the next call.
        let said = unsafe { libc::dlerror() };
        // SAFETY: as above.
        let text = (!said.is_null()).then(|| unsafe { CStr::from_ptr(said) }.to_string_lossy());
        return Err(text.map_or_else(|| format!("{name} cannot be opened"), Into::into));
    }
    match symbol(handle, c"ompi_mpi_comm_self") {
        Ok(own) => {
            let unit = |unit| {
                let name = match unit {
                    Unit::Byte => c"ompi_mpi_byte",
                    Unit::Int => c"ompi_mpi_int",
                    Unit::Float => c"ompi_mpi_float",
                    Unit::Double => c"ompi_mpi_double",
                    Unit::Complex => c"ompi_mpi_c_double_complex",
                };
                symbol(handle, name)
            };
            let returns = symbol(handle, c"ompi_mpi_errors_return")?;
            // SAFETY: the library has Open MPI's objects, so Open MPI's ABI.
            let made = unsafe { Library::new(handle, own, returns, 0, units(unit)?) }?;
            Ok(Box::new(made))
        }
        Err(_) => {
            // (Numbers of MPICH's ABI, which other libraries share.)
            let unit = |unit| {
                Ok(match unit {
                    Unit::Byte => 0x4c00_010d,
                    Unit::Int => 0x4c00_0405,
                    Unit::Float => 0x4c00_040a,
                    Unit::Double => 0x4c00_080b,
                    Unit::Complex => 0x4c00_1041_i32,
                })
            };
            symbol(handle, c"MPIR_Err_create_code").or_else(|_| symbol(handle, c"PMPI_Pack"))?;
            // SAFETY: MPI libraries that are not Open MPI have MPICH's ABI on Linux.
            let made = unsafe { Library::new(handle, 0x4400_0001, 0x5400_0001, 56, units(unit)?) };
            Ok(Box::new(made?))
        }
    }
}

const UNITS: [Unit; 5] = [Unit::Byte, Unit::Int, Unit::Float, Unit::Double, Unit::Complex];

fn units<H: Copy>(of: impl Fn(Unit) -> Result<H, String>) -> Result<[H; 5], String> {
    let [a, b, c, d, e] = UNITS;
    Ok([of(a)?, of(b)?, of(c)?, of(d)?, of(e)?])
}

fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle came from dlopen and is never closed.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    match found.is_null() {
        true => Err(format!("it has no {}", name.to_string_lossy())),
        false => Ok(found),
    }
}

/// The function of this name.
///
/// # Safety
/// `F` is a pointer to a function of its type.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let found = symbol(handle, name)?;
    // SAFETY: the caller's; both are a pointer.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

/// The functions (MPI-4.1, chapters 5 and 11), for handles `H`.
struct Library<H> {
    own: H,
    order_c: c_int,
    units: [H; 5],
    get_library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    contiguous: unsafe extern "C" fn(c_int, H, *mut H) -> c_int,
    hvector: unsafe extern "C" fn(c_int, c_int, c_long, H, *mut H) -> c_int,
    hindexed_block: unsafe extern "C" fn(c_int, c_int, *const c_long, H, *mut H) -> c_int,
    hindexed: unsafe extern "C" fn(c_int, *const c_int, *const c_long, H, *mut H) -> c_int,
    structure: unsafe extern "C" fn(c_int, *const c_int, *const c_long, *const H, *mut H) -> c_int,
    subarray: unsafe extern "C" fn(
        c_int,
        *const c_int,
        *const c_int,
        *const c_int,
        c_int,
        H,
        *mut H,
    ) -> c_int,
    resized: unsafe extern "C" fn(H, c_long, c_long, *mut H) -> c_int,
    commit: unsafe extern "C" fn(*mut H) -> c_int,
    free: unsafe extern "C" fn(*mut H) -> c_int,
    pack: unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, *mut c_int, H) -> c_int,
    unpack:
        unsafe extern "C" fn(*const c_void, c_int, *mut c_int, *mut c_void, c_int, H, H) -> c_int,
}

/// A datatype of the library's that is freed with this.
struct Datatype<'a, H: Copy> {
    library: &'a Library<H>,
    handle: H,
    /// A basic type is the library's own.
    made: bool,
}

impl<H: Copy> Drop for Datatype<'_, H> {
    fn drop(&mut self) {
        if self.made {
            // SAFETY: [MPI], and the datatype was made here.
            unsafe { (self.library.free)(&mut self.handle) };
        }
    }
}

fn int(value: impl TryInto<c_int>) -> Result<c_int, String> {
    value.try_into().map_err(|_| "more than an int of MPI holds".to_owned())
}

fn done(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} returned error {code}")) }
}

impl<H: Copy> Library<H> {
    /// Takes the functions and initialises MPI.
    ///
    /// # Safety
    /// \[MPI\]: `handle` is an MPI whose handles are `H`; these are `MPI_COMM_SELF`,
    /// `MPI_ERRORS_RETURN`, `MPI_ORDER_C` and its basic types.
    unsafe fn new(
        handle: *mut c_void,
        own: H,
        returns: H,
        order_c: c_int,
        units: [H; 5],
    ) -> Result<Library<H>, String> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: [MPI]: the function of this name has the field's type.
                unsafe { function(handle, $name)? }
            };
        }
        let init: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int =
            function!(c"MPI_Init");
        let set: unsafe extern "C" fn(H, H) -> c_int = function!(c"MPI_Comm_set_errhandler");
        let library = Library {
            own,
            order_c,
            units,
            get_library_version: function!(c"MPI_Get_library_version"),
            finalize: function!(c"MPI_Finalize"),
            contiguous: function!(c"MPI_Type_contiguous"),
            hvector: function!(c"MPI_Type_create_hvector"),
            hindexed_block: function!(c"MPI_Type_create_hindexed_block"),
            hindexed: function!(c"MPI_Type_create_hindexed"),
            structure: function!(c"MPI_Type_create_struct"),
            subarray: function!(c"MPI_Type_create_subarray"),
            resized: function!(c"MPI_Type_create_resized"),
            commit: function!(c"MPI_Type_commit"),
            free: function!(c"MPI_Type_free"),
            pack: function!(c"MPI_Pack"),
            unpack: function!(c"MPI_Unpack"),
        };
        // SAFETY: [MPI]; null is allowed for both.
        done("MPI_Init", unsafe { init(std::ptr::null_mut(), std::ptr::null_mut()) })?;
        // SAFETY: [MPI].
        done("MPI_Comm_set_errhandler", unsafe { set(own, returns) })?;
        Ok(library)
    }

    /// The datatype of a description, not committed.
    fn build(&self, shape: &Shape) -> Result<Datatype<'_, H>, String> {
        let of = |handle, made| Datatype { library: self, handle, made };
        let mut new = self.own;
        let code = match shape {
            Shape::Basic(unit) => {
                let at = UNITS.iter().position(|known| known == unit).unwrap_or(0);
                return Ok(of(self.units[at], false));
            }
            Shape::Contiguous(count, inner) => {
                let inner = self.build(inner)?;
                // SAFETY: [MPI]; so for all that follow.
                unsafe { (self.contiguous)(int(*count)?, inner.handle, &mut new) }
            }
            Shape::Vector { count, block, stride, of: inner } => {
                let inner = self.build(inner)?;
                let (count, block) = (int(*count)?, int(*block)?);
                // SAFETY: [MPI].
                unsafe { (self.hvector)(count, block, *stride as c_long, inner.handle, &mut new) }
            }
            Shape::Blocks { block, at, of: inner } => {
                let inner = self.build(inner)?;
                let at: Vec<c_long> = at.iter().map(|&at| at as c_long).collect();
                let (count, block) = (int(at.len())?, int(*block)?);
                // SAFETY: [MPI]; a list of `count`.
                unsafe { (self.hindexed_block)(count, block, at.as_ptr(), inner.handle, &mut new) }
            }
            Shape::Indexed { blocks, of: inner } => {
                let inner = self.build(inner)?;
                let at: Vec<c_long> = blocks.iter().map(|&(_, at)| at as c_long).collect();
                let lens: Result<Vec<c_int>, _> = blocks.iter().map(|&(n, _)| int(n)).collect();
                let (lens, count) = (lens?, int(blocks.len())?);
                // SAFETY: [MPI]; lists of `count`.
                unsafe {
                    (self.hindexed)(count, lens.as_ptr(), at.as_ptr(), inner.handle, &mut new)
                }
            }
            Shape::Struct(fields) => {
                let inner: Result<Vec<_>, _> =
                    fields.iter().map(|(.., of)| self.build(of)).collect();
                let inner = inner?;
                let handles: Vec<H> = inner.iter().map(|one| one.handle).collect();
                let at: Vec<c_long> = fields.iter().map(|&(_, at, _)| at as c_long).collect();
                let lens: Result<Vec<c_int>, _> = fields.iter().map(|(n, ..)| int(*n)).collect();
                let (lens, count) = (lens?, int(fields.len())?);
                let (lens, at) = (lens.as_ptr(), at.as_ptr());
                // SAFETY: [MPI]; lists of `count`.
                unsafe { (self.structure)(count, lens, at, handles.as_ptr(), &mut new) }
            }
            Shape::Subarray { dims, of: inner } => {
                let inner = self.build(inner)?;
                let list = |of: fn(&(u64, u64, u64)) -> u64| {
                    dims.iter().map(|dim| int(of(dim))).collect::<Result<Vec<c_int>, _>>()
                };
                let (sizes, parts, starts) =
                    (list(|dim| dim.0)?, list(|dim| dim.1)?, list(|dim| dim.2)?);
                let (sizes, parts, starts) = (sizes.as_ptr(), parts.as_ptr(), starts.as_ptr());
                let (n, order, inner) = (int(dims.len())?, self.order_c, inner.handle);
                // SAFETY: [MPI]; lists of `n`.
                unsafe { (self.subarray)(n, sizes, parts, starts, order, inner, &mut new) }
            }
            Shape::Resized { extent, of: inner } => {
                let inner = self.build(inner)?;
                // SAFETY: [MPI].
                unsafe { (self.resized)(inner.handle, 0, *extent as c_long, &mut new) }
            }
        };
        done("a constructor of MPI", code)?;
        Ok(of(new, true))
    }
}

impl<H: Copy> Mpi for Library<H> {
    fn version(&self) -> String {
        // (MPI_MAX_LIBRARY_VERSION_STRING is at most 8192.)
        let mut text = vec![0_u8; 16 << 10];
        let mut len = 0;
        // SAFETY: [MPI], and space enough.
        let code = unsafe { (self.get_library_version)(text.as_mut_ptr().cast(), &mut len) };
        let text = String::from_utf8_lossy(&text[..if code == 0 { len as usize } else { 0 }]);
        let line = text.lines().next().unwrap_or_default().trim_end_matches('\0');
        let line = line.split([',', '(']).next().unwrap_or_default();
        line.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("Version: ", "")
            .replace(" :", "")
    }

    fn measure(
        &self,
        shape: &Shape,
        offset: usize,
        next: &mut dyn FnMut(Option<(f64, f64)>) -> bool,
    ) -> Result<(), String> {
        let mut datatype = self.build(shape)?;
        // SAFETY: [MPI].
        done("MPI_Type_commit", unsafe { (self.commit)(&mut datatype.handle) })?;
        let mut stage = Stage::new(shape, offset);
        let size = int(stage.size())?;
        let (handle, own) = (datatype.handle, self.own);
        let mut pack = |memory: &mut [u8], stream: &mut [u8]| {
            let (from, to) = (memory.as_ptr().cast(), stream.as_mut_ptr().cast());
            let mut at = 0;
            // SAFETY: [MPI]; memory holds all that the datatype takes, the stream has
            // its size.
            done("MPI_Pack", unsafe { (self.pack)(from, 1, handle, to, size, &mut at, own) })
        };
        let mut unpack = |memory: &mut [u8], stream: &mut [u8]| {
            let (to, from) = (memory.as_mut_ptr().cast(), stream.as_ptr().cast());
            let mut at = 0;
            // SAFETY: as above.
            done("MPI_Unpack", unsafe { (self.unpack)(from, size, &mut at, to, 1, handle, own) })
        };
        stage.check_pack(&mut pack)?;
        stage.check_unpack(&mut unpack)?;
        let mut took = None;
        while next(took) {
            took = Some((stage.time(&mut pack)?, stage.time(&mut unpack)?));
        }
        Ok(())
    }

    fn finalize(&self) {
        // SAFETY: [MPI]; nothing of it is called afterwards.
        unsafe { (self.finalize)() };
    }
}
