//! Copies between a strided nest in memory and a packed stream.
//!
//! One body for each pattern, generic over the width of an element and over the
//! instructions there are; [`Level`] chooses at run time.

mod line;
mod nest;
mod table;
mod transpose;

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

/// What the plan of a copy depends on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
pub(super) struct How {
    pub(super) level: Level,
    /// Rows of a tile of a transpose.
    pub(super) rows: usize,
    /// The destination is larger than the last cache: do not read it first.
    pub(super) streaming: bool,
    /// Memory is larger than the first caches: ask for what comes ahead of its use.
    pub(super) ahead: bool,
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
/// `$how.level` names.
macro_rules! dispatch {
    ($vis:vis unsafe fn $name:ident<const PACK: bool>($($arg:ident: $type:ty),*) => $body:ident) => {
        /// # Safety
        /// As the body's.
        $vis unsafe fn $name<const PACK: bool>($($arg: $type,)* how: &super::How) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx2")]
                unsafe fn with_avx512<const PACK: bool>($($arg: $type,)* how: &super::How) {
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $body::<super::Avx512, PACK>($($arg,)* how) }
                }
                #[target_feature(enable = "avx2")]
                unsafe fn with_avx2<const PACK: bool>($($arg: $type,)* how: &super::How) {
                    // SAFETY: as above.
                    unsafe { $body::<super::Avx2, PACK>($($arg,)* how) }
                }
                match how.level {
                    // SAFETY: as above, and the processor has them.
                    super::Level::Avx512 => return unsafe { with_avx512::<PACK>($($arg,)* how) },
                    // SAFETY: as above.
                    super::Level::Avx2 => return unsafe { with_avx2::<PACK>($($arg,)* how) },
                    super::Level::Portable => {}
                }
            }
            // SAFETY: the caller's contract is the body's.
            unsafe { $body::<super::Portable, PACK>($($arg,)* how) }
        }
    };
}
use dispatch;

pub(super) use line::fence;
pub(super) use nest::{nest, run};
pub(super) use table::{equal_runs, runs};
