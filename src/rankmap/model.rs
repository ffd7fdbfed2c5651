//! The mapping models under the names of Guo et al. 2017.

use core::fmt;

/// The mapping model a [`RankMap`](super::RankMap) reports.
///
/// The first five are the paper's regular models, in order of generality: a
/// map reports the first that describes it. `Display` prints the paper's
/// spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// lpid = rank.
    Direct,
    /// lpid = rank + offset.
    Offset,
    /// lpid = offset + stride · rank, any sign (zero: every rank the same lpid).
    Stride,
    /// Blocks of ranks, each an affine run, at a fixed stride: two digits.
    BlockStride,
    /// Blocks of blocks: three or four digits; or a block of up to 64 ranks of
    /// any order, repeated at a stride.
    MdBlockStride,
    /// A few affine runs of any length, with a directory.
    Segments,
    /// A compact form of an irregular map, asked for by a strategy
    /// ([`compact`](super::compact)); no model of the paper's.
    Compact,
    /// A dense table of lpids of one process group.
    Lut,
    /// A dense table of (process group, lpid).
    Mlut,
}

impl Model {
    /// Every model, in the order of the decision table.
    pub const ALL: [Model; 9] = [
        Model::Direct,
        Model::Offset,
        Model::Stride,
        Model::BlockStride,
        Model::MdBlockStride,
        Model::Segments,
        Model::Compact,
        Model::Lut,
        Model::Mlut,
    ];

    /// The paper's name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Direct => "direct",
            Model::Offset => "offset",
            Model::Stride => "stride",
            Model::BlockStride => "blockstride",
            Model::MdBlockStride => "md-blockstride",
            Model::Segments => "segments",
            Model::Compact => "compact",
            Model::Lut => "lut",
            Model::Mlut => "mlut",
        }
    }

    /// Returns true if the map is a closed formula: constant memory whatever
    /// its size.
    pub const fn is_regular(self) -> bool {
        matches!(
            self,
            Model::Direct
                | Model::Offset
                | Model::Stride
                | Model::BlockStride
                | Model::MdBlockStride
        )
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
