//! Copies between a strided nest in memory and a packed stream.
//!
//! One body for each pattern, generic over the width of an element and over the
//! instructions there are; [`Level`] chooses at run time.

mod along;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512;
mod line;
mod nest;
mod rows;
mod square;
mod table;
mod transpose;
mod words;

use std::sync::OnceLock;

/// Which vector instructions a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 F, VL, BW.
    Avx512,
}

impl Level {
    /// All levels, the plainest first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// As `RANKWAY_DATATYPE_PLAN` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                {
                    return Level::Avx512;
                }
                if is_x86_feature_detected!("avx2") {
                    return Level::Avx2;
                }
            }
            Level::Portable
        })
    }
}

/// How a layout is copied: by `Layout::pack_by` and `Layout::unpack_by` at each call,
/// by all others as the machine's sizes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The vector instructions; the machine's best where it does not have these.
    pub level: Level,
    /// Rows that a tile of a matrix to transpose has at most; 0 for no tiles, in the
    /// stream's order.
    pub tile: usize,
    /// A matrix to transpose is walked along its rows, a page of each at a time and without
    /// tiles; else in diagonals.
    pub along: bool,
    /// Whole lines are written past the caches.
    pub streaming: bool,
    /// Memory is asked for ahead of its use.
    pub prefetch: bool,
}

/// Loops of a nest that a kernel takes at once; those outside of them go one by one.
pub(super) const DEEPEST: usize = 8;

/// A loop of a nest: how often, and how many bytes apart in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) count: usize,
    pub(super) stride: isize,
}

impl Dim {
    /// Once.
    pub(super) const ONE: Dim = Dim { count: 1, stride: 0 };
}

/// Instruction sets as types, for bodies that are compiled for each.
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
trait Set: Copy {
    const LEVEL: Level;
}

macro_rules! sets {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy)]
        #[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
        struct $name;
        impl Set for $name {
            const LEVEL: Level = Level::$name;
        }
    )*};
}
sets!(Portable Avx2 Avx512);

/// Compiles `$body` once for each instruction set and calls the one that
/// `$plan.level` names.
macro_rules! dispatch {
    ($(#[$attribute:meta])* $vis:vis unsafe fn $name:ident<const PACK: bool>($($arg:ident: $type:ty),*) => $body:ident) => {
        /// # Safety
        /// As the body's.
        $(#[$attribute])*
        $vis unsafe fn $name<const PACK: bool>($($arg: $type,)* plan: &super::Plan) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx2")]
                unsafe fn with_avx512<const PACK: bool>($($arg: $type,)* plan: &super::Plan) {
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $body::<super::Avx512, PACK>($($arg,)* plan) }
                }
                #[target_feature(enable = "avx2")]
                unsafe fn with_avx2<const PACK: bool>($($arg: $type,)* plan: &super::Plan) {
                    // SAFETY: as above.
                    unsafe { $body::<super::Avx2, PACK>($($arg,)* plan) }
                }
                match plan.level {
                    // SAFETY: as above, and the processor has them.
                    super::Level::Avx512 => return unsafe { with_avx512::<PACK>($($arg,)* plan) },
                    // SAFETY: as above.
                    super::Level::Avx2 => return unsafe { with_avx2::<PACK>($($arg,)* plan) },
                    super::Level::Portable => {}
                }
            }
            // SAFETY: the caller's contract is the body's.
            unsafe { $body::<super::Portable, PACK>($($arg,)* plan) }
        }
    };
}
use dispatch;

pub(super) use along::{TOGETHER, columns};
pub(super) use line::{LINE, fence, prefetch};
pub(super) use nest::{nest, run};
pub(super) use table::{equal_runs, runs};
pub(super) use transpose::BAND;
