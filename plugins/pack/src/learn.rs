//! A datatype of the MPI library as a layout, by its envelope and contents.
//!
//! Sizes and bounds of every step are MPI's own, so that what implementations
//! settle differently (the extent of a structure) is as this one has it; a type
//! whose size or true bounds come out otherwise than MPI's is refused.

use crate::mpi::{self, Family, Mpi};
use rankway::datatype::{Basic, Combiner, Contents, Layout, LayoutError, Numbers};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// Steps of nested constructors that are followed.
const DEEPEST: usize = 64;

/// Why a type is not understood; for the counts that a user may ask for.
pub(crate) type Refusal = String;

fn refused(error: LayoutError) -> Refusal {
    error.to_string()
}

fn numbers(mpi: &Mpi) -> Result<Numbers, Refusal> {
    match mpi.family {
        Family::OpenMpi => Ok(Numbers::OpenMpi),
        Family::Mpich => Ok(Numbers::Mpich),
        Family::Abi => Err("the standard ABI is left alone".into()),
    }
}

/// How many of each the contents have.
struct Envelope {
    combiner: Combiner,
    integers: c_int,
    addresses: c_int,
    /// Of 64 bits.
    counts: c_int,
    types: c_int,
}

/// What MPI says of a type.
struct Facts {
    size: i64,
    lb: i64,
    extent: i64,
    true_lb: i64,
    true_extent: i64,
}

const MISSING: &str = "a function of the MPI library is missing";

/// Returns true if the type is a basic one.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn is_leaf(mpi: &Mpi, datatype: usize) -> bool {
    // SAFETY: [MPI].
    mpi.is_builtin(datatype)
        || unsafe { envelope(mpi, datatype) }.is_ok_and(|envelope| envelope.combiner.is_leaf())
}

/// What is known of one element of a type.
#[derive(Clone)]
pub(crate) struct Learned {
    pub(crate) layout: Layout,
    /// Bytes of its largest basic element, if every basic element is at a multiple of
    /// its own size in the packed bytes, however many follow each other.
    pub(crate) grain: Option<u64>,
    /// Bytes of its largest basic element.
    pub(crate) widest: u64,
}

/// The largest basic element that may be a grain: the borders of fragments are at
/// multiples of it. (With MPICH 4.0 by UCX 1.13, over shared memory and TCP, at
/// multiples of 16 as a rule, and of 8 with `UCX_RNDV_THRESH=inf`.)
const LARGEST_GRAIN: u64 = 8;

/// What is known of one element of a committed type.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn learn(mpi: &Mpi, datatype: usize) -> Result<Learned, Refusal> {
    let mut learner = Learner { mpi, known: HashMap::new(), contents: Vec::new() };
    // SAFETY: [MPI].
    unsafe { learner.learn(datatype, 0) }
}

/// The grain of members that follow each other, so many of each.
fn grain<'a>(members: impl Iterator<Item = (u64, &'a Learned)>) -> Option<u64> {
    let (mut at, mut largest) = (0u64, 1);
    for (count, member) in members {
        let bytes = member.layout.size().checked_mul(count)?;
        if bytes == 0 {
            continue;
        }
        let grain = member.grain.filter(|grain| at.is_multiple_of(*grain))?;
        at = at.checked_add(bytes)?;
        largest = largest.max(grain);
    }
    at.is_multiple_of(largest).then_some(largest)
}

/// # Safety
/// \[MPI\]
unsafe fn envelope(mpi: &Mpi, datatype: usize) -> Result<Envelope, Refusal> {
    let (mut integers, mut addresses, mut counts, mut types, mut combiner) = (0, 0, 0, 0, 0);
    // The older call ends the program for a type with counts of 64 bits.
    if let Some(get) = mpi::TYPE_ENVELOPE_C.get() {
        let (mut i, mut a, mut c, mut t) = (0, 0, 0, 0);
        // SAFETY: [SIG], [MPI]; places for all answers.
        if unsafe { get(datatype, &mut i, &mut a, &mut c, &mut t, &mut combiner) } != 0 {
            return Err("its envelope cannot be had".into());
        }
        let narrow = |count: i64| c_int::try_from(count).map_err(|_| "too long".to_owned());
        (integers, addresses, counts, types) = (narrow(i)?, narrow(a)?, narrow(c)?, narrow(t)?);
    } else {
        let get = mpi::TYPE_ENVELOPE.get().ok_or(MISSING)?;
        // SAFETY: as above.
        let code =
            unsafe { get(datatype, &mut integers, &mut addresses, &mut types, &mut combiner) };
        if code != 0 {
            return Err("its envelope cannot be had".into());
        }
    }
    let combiner = Combiner::from_number(numbers(mpi)?, combiner)
        .ok_or_else(|| format!("combiner {combiner} is not known"))?;
    Ok(Envelope { combiner, integers, addresses, counts, types })
}

/// # Safety
/// \[MPI\]
unsafe fn facts(datatype: usize) -> Result<Facts, Refusal> {
    let (size_of, extent_of, true_of) = (
        mpi::TYPE_SIZE.get().ok_or(MISSING)?,
        mpi::TYPE_EXTENT.get().ok_or(MISSING)?,
        mpi::TYPE_TRUE_EXTENT.get().ok_or(MISSING)?,
    );
    let (mut size, mut lb, mut extent, mut true_lb, mut true_extent) = (0, 0, 0, 0, 0);
    // SAFETY: [SIG], [MPI]; places for all answers.
    let code = unsafe {
        size_of(datatype, &mut size)
            | extent_of(datatype, &mut lb, &mut extent)
            | true_of(datatype, &mut true_lb, &mut true_extent)
    };
    if code != 0 || size < 0 {
        return Err("its size is not one of 32 bits".into());
    }
    Ok(Facts {
        size: i64::from(size),
        lb: lb as i64,
        extent: extent as i64,
        true_lb: true_lb as i64,
        true_extent: true_extent as i64,
    })
}

struct Learner<'a> {
    mpi: &'a Mpi,
    /// Those met already; the type that is learnt holds all of them.
    known: HashMap<usize, Learned>,
    /// Handles of contents that are the caller's, until all is learnt: what had a handle that is
    /// freed may have another's place.
    contents: Vec<usize>,
}

impl Drop for Learner<'_> {
    fn drop(&mut self) {
        let Some(free) = mpi::TYPE_FREE.get() else { return };
        for handle in &mut self.contents {
            // SAFETY: [MPI]; the place is as wide as a handle (on this side of a word's
            // bytes where it is narrower), and each is freed once.
            unsafe { free((&raw mut *handle).cast()) };
        }
    }
}

impl Learner<'_> {
    /// # Safety
    /// \[MPI\]
    unsafe fn learn(&mut self, datatype: usize, depth: usize) -> Result<Learned, Refusal> {
        if let Some(learned) = self.known.get(&datatype) {
            return Ok(learned.clone());
        }
        if depth == DEEPEST {
            return Err(format!("nested more than {DEEPEST} deep"));
        }
        // SAFETY: [MPI].
        let (envelope, facts) = unsafe { (envelope(self.mpi, datatype)?, facts(datatype)?) };
        let (made, grain, widest) = if envelope.combiner.is_leaf() {
            if facts.true_extent != facts.size {
                return Err("a basic type with a gap".into());
            }
            let bytes = Layout::contiguous(facts.size as u64, &Layout::basic(Basic::Byte));
            let bytes = bytes.map_err(refused)?;
            if facts.true_lb != 0 {
                return Err("a basic type that does not begin at 0".into());
            }
            let size = facts.size as u64;
            let grain = Some(size).filter(|size| size.is_power_of_two() && *size <= LARGEST_GRAIN);
            (bytes, grain, size)
        } else {
            // SAFETY: [MPI]; the envelope is this type's.
            unsafe { self.derived(datatype, &envelope, depth)? }
        };
        let made = made.resized(facts.lb, facts.extent).map_err(refused)?;
        let bounds = made.true_bounds().unwrap_or((facts.true_lb, facts.true_lb));
        let (true_lb, true_ub) = (facts.true_lb, facts.true_lb + facts.true_extent);
        if made.size() != facts.size as u64 || made.size() > 0 && bounds != (true_lb, true_ub) {
            return Err(format!("{:?} has other bounds here", envelope.combiner));
        }
        let learned = Learned { layout: made, grain, widest };
        self.known.insert(datatype, learned.clone());
        Ok(learned)
    }

    /// # Safety
    /// \[MPI\]; not a basic type.
    unsafe fn derived(
        &mut self,
        datatype: usize,
        envelope: &Envelope,
        depth: usize,
    ) -> Result<(Layout, Option<u64>, u64), Refusal> {
        let mut integers = vec![0 as c_int; envelope.integers as usize];
        let mut addresses = vec![0isize; envelope.addresses as usize];
        let mut counts = vec![0i64; envelope.counts as usize];
        let mut types = vec![0usize; envelope.types as usize];
        let (i, a, t) = (envelope.integers, envelope.addresses, envelope.types);
        let places = (integers.as_mut_ptr(), addresses.as_mut_ptr(), types.as_mut_ptr());
        let code = if counts.is_empty() {
            let get = mpi::TYPE_CONTENTS.get().ok_or(MISSING)?;
            // SAFETY: [SIG], [MPI]; as many places as were asked for, each as wide as a
            // handle or wider.
            unsafe { get(datatype, i, a, t, places.0, places.1, places.2.cast()) }
        } else {
            let get = mpi::TYPE_CONTENTS_C.get().ok_or(MISSING)?;
            let large = counts.as_mut_ptr();
            let (i, a, c, t) = (i.into(), a.into(), counts.len() as i64, t.into());
            // SAFETY: as above.
            unsafe { get(datatype, i, a, c, t, places.0, places.1, large, places.2.cast()) }
        };
        if code != 0 {
            return Err("its contents cannot be had".into());
        }
        let handles = types.as_ptr().cast::<c_void>();
        let mut inner = Vec::with_capacity(types.len());
        let mut first_error = None;
        for index in 0..types.len() {
            // SAFETY: the array has so many handles, all live: the contents hold them.
            let result = unsafe {
                let handle = self.mpi.read(handles, index);
                let learned = if first_error.is_none() {
                    self.learn(handle, depth + 1)
                } else {
                    Err(String::new())
                };
                // (Of contents all but basic types are the caller's.)
                if !is_leaf(self.mpi, handle) {
                    self.contents.push(handle);
                }
                learned
            };
            match result {
                Ok(learned) => inner.push(learned),
                Err(why) => first_error = first_error.or(Some(why)),
            }
        }
        if let Some(why) = first_error {
            return Err(why);
        }
        let addresses: Vec<i64> = addresses.iter().map(|&at| at as i64).collect();
        let combiner = envelope.combiner;
        let (integers, addresses) = combiner.in_order(&integers, &addresses, &counts)?;
        let grain = match combiner {
            // (A count, then the length of each block.)
            Combiner::Struct => {
                let lengths = integers.iter().skip(1).map(|&length| length as u64);
                grain(lengths.zip(&inner))
            }
            _ => inner.first().and_then(|of| of.grain),
        };
        let widest = inner.iter().map(|learned| learned.widest).max().unwrap_or(0);
        let types: Vec<Layout> = inner.into_iter().map(|learned| learned.layout).collect();
        let contents =
            Contents { combiner, integers: &integers, addresses: &addresses, types: &types };
        Ok((contents.layout(numbers(self.mpi)?)?, grain, widest))
    }
}
