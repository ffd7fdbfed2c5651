//! The names of the representations.

use core::fmt;

/// The representations a [`Compact`](super::Compact) map may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Representation {
    /// A stride, box or tile: [`Model::is_regular`](crate::rankmap::Model::is_regular).
    Formula = 0,
    /// Affine runs with a directory.
    Segments = 1,
    /// Elias-Fano.
    EliasFano = 2,
    /// A bitmap with counts.
    Bitmap = 3,
    /// Elias-Fano of the starts of ranges.
    Runs = 4,
    /// Gap encoding.
    Gaps = 5,
    /// A decision diagram with model counts.
    Diagram = 6,
    /// Affine blocks with packed residuals.
    Blocks = 7,
    /// Bit-packed lpids.
    Packed = 8,
    /// Lpids of 4 bytes.
    Plain = 9,
    /// A set, and a wavelet tree on the runs of its permutation.
    Wavelet = 10,
    /// Ranks of a parent ([`Compact::child`](super::Compact::child)); never built from lpids.
    Child = 11,
    /// A bitmap with the places of its members.
    Darray = 12,
    /// Mixed-radix digits in another order, more than a formula has.
    MixedRadix = 13,
    /// Blocks of steps, entropy-coded.
    Coded = 14,
    /// A bitmap with few counts.
    Slim = 15,
}

impl Representation {
    /// Every one, in the order of the table above.
    pub const ALL: [Representation; 16] = [
        Representation::Formula,
        Representation::MixedRadix,
        Representation::Segments,
        Representation::EliasFano,
        Representation::Bitmap,
        Representation::Slim,
        Representation::Darray,
        Representation::Runs,
        Representation::Gaps,
        Representation::Diagram,
        Representation::Blocks,
        Representation::Packed,
        Representation::Plain,
        Representation::Wavelet,
        Representation::Coded,
        Representation::Child,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Representation::Formula => "formula",
            Representation::Segments => "segments",
            Representation::EliasFano => "elias-fano",
            Representation::Bitmap => "bitmap",
            Representation::Darray => "darray",
            Representation::Runs => "runs",
            Representation::Gaps => "gaps",
            Representation::Diagram => "diagram",
            Representation::Blocks => "blocks",
            Representation::Packed => "packed",
            Representation::Plain => "plain",
            Representation::Wavelet => "wavelet",
            Representation::Child => "child",
            Representation::MixedRadix => "mixed-radix",
            Representation::Coded => "coded",
            Representation::Slim => "slim-bitmap",
        }
    }

    /// Returns true if it holds any list, and not only rising lpids.
    pub const fn is_list(self) -> bool {
        use Representation::{Bitmap, Darray, Diagram, EliasFano, Gaps, Runs, Slim};
        !matches!(self, EliasFano | Bitmap | Slim | Darray | Runs | Gaps | Diagram)
    }
}

impl fmt::Display for Representation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
