//! A datatype as MPI's constructors describe it: ours, each MPI's and the reference
//! are made of the same description.

use rankway::datatype::{Basic, Layout, LayoutError, Order};
use serde::{Deserialize, Serialize};

/// A basic type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unit {
    Byte,
    Int,
    Float,
    Double,
    Complex,
}

impl Unit {
    pub(super) fn basic(self) -> Basic {
        match self {
            Unit::Byte => Basic::Byte,
            Unit::Int => Basic::I32,
            Unit::Float => Basic::F32,
            Unit::Double => Basic::F64,
            Unit::Complex => Basic::C64,
        }
    }

    pub(super) fn size(self) -> usize {
        self.basic().size()
    }
}

/// A datatype; displacements and strides are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Shape {
    Basic(Unit),
    Contiguous(u64, Box<Shape>),
    Vector {
        count: u64,
        block: u64,
        stride: i64,
        of: Box<Shape>,
    },
    Blocks {
        block: u64,
        at: Vec<i64>,
        of: Box<Shape>,
    },
    Indexed {
        blocks: Vec<(u64, i64)>,
        of: Box<Shape>,
    },
    Struct(Vec<(u64, i64, Shape)>),
    /// `(size, part, start)` of each dimension, the last one's elements neighbours.
    Subarray {
        dims: Vec<(u64, u64, u64)>,
        of: Box<Shape>,
    },
    Resized {
        extent: i64,
        of: Box<Shape>,
    },
}

impl Shape {
    /// The same as a layout of ours.
    pub(super) fn layout(&self) -> Result<Layout, LayoutError> {
        match self {
            Shape::Basic(unit) => Ok(Layout::basic(unit.basic())),
            Shape::Contiguous(count, of) => Layout::contiguous(*count, &of.layout()?),
            Shape::Vector { count, block, stride, of } => {
                Layout::hvector(*count, *block, *stride, &of.layout()?)
            }
            Shape::Blocks { block, at, of } => Layout::hindexed_block(*block, at, &of.layout()?),
            Shape::Indexed { blocks, of } => {
                let (lens, at): (Vec<u64>, Vec<i64>) = blocks.iter().copied().unzip();
                Layout::hindexed(&lens, &at, &of.layout()?)
            }
            Shape::Struct(fields) => {
                let made: Result<Vec<_>, LayoutError> =
                    fields.iter().map(|(n, at, of)| Ok((*n, *at, of.layout()?))).collect();
                let made = made?;
                let fields: Vec<_> = made.iter().map(|(n, at, of)| (*n, *at, of)).collect();
                Layout::structure(&fields)
            }
            Shape::Subarray { dims, of } => Layout::subarray(dims, Order::C, &of.layout()?),
            Shape::Resized { extent, of } => of.layout()?.resized(0, *extent),
        }
    }

    /// Bytes from one to the next. (Of what is repeated: lower bounds are 0 there.)
    fn extent(&self) -> i64 {
        match self {
            Shape::Basic(unit) => unit.size() as i64,
            Shape::Contiguous(count, of) => *count as i64 * of.extent(),
            Shape::Vector { count, block, stride, of } => {
                (*count as i64 - 1) * stride + *block as i64 * of.extent()
            }
            Shape::Blocks { block, at, of } => {
                at.iter().max().map_or(0, |at| at + *block as i64 * of.extent())
            }
            Shape::Indexed { blocks, of } => {
                let ends = blocks.iter().map(|(n, at)| at + *n as i64 * of.extent());
                ends.max().unwrap_or(0)
            }
            Shape::Struct(fields) => {
                let ends = fields.iter().map(|(n, at, of)| at + *n as i64 * of.extent());
                ends.max().unwrap_or(0)
            }
            Shape::Subarray { dims, of } => {
                dims.iter().map(|(size, ..)| *size as i64).product::<i64>() * of.extent()
            }
            Shape::Resized { extent, .. } => *extent,
        }
    }

    /// Calls `each` with offset and length of every stretch in MPI's order, as the
    /// standard defines it and nothing cleverer: the reference.
    pub(super) fn walk(&self, at: i64, each: &mut dyn FnMut(usize, usize)) {
        let repeat = |count: u64, at: i64, of: &Shape, each: &mut dyn FnMut(usize, usize)| {
            if let Shape::Basic(unit) = of {
                return each(at as usize, count as usize * unit.size());
            }
            let extent = of.extent();
            (0..count as i64).for_each(|i| of.walk(at + i * extent, each));
        };
        match self {
            Shape::Basic(unit) => each(at as usize, unit.size()),
            Shape::Contiguous(count, of) => repeat(*count, at, of, each),
            Shape::Vector { count, block, stride, of } => {
                (0..*count as i64).for_each(|i| repeat(*block, at + i * stride, of, each));
            }
            Shape::Blocks { block, at: offsets, of } => {
                offsets.iter().for_each(|offset| repeat(*block, at + offset, of, each));
            }
            Shape::Indexed { blocks, of } => {
                blocks.iter().for_each(|(count, offset)| repeat(*count, at + offset, of, each));
            }
            Shape::Struct(fields) => {
                fields.iter().for_each(|(count, offset, of)| repeat(*count, at + offset, of, each));
            }
            Shape::Subarray { dims, of } => part(dims, at, of, each),
            Shape::Resized { of, .. } => of.walk(at, each),
        }
    }

    /// Bytes of memory up to the last one taken, and bytes taken.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let (mut end, mut size) = (0, 0);
        self.walk(0, &mut |at, len| (end, size) = (end.max(at + len), size + len));
        (end, size)
    }
}

fn part(dims: &[(u64, u64, u64)], at: i64, of: &Shape, each: &mut dyn FnMut(usize, usize)) {
    let Some((&(_, count, start), inner)) = dims.split_first() else { return of.walk(at, each) };
    let step = inner.iter().map(|(size, ..)| *size as i64).product::<i64>() * of.extent();
    for i in start..start + count {
        part(inner, at + i as i64 * step, of, each);
    }
}

// Short words for the catalogues.

pub(super) fn basic(unit: Unit) -> Shape {
    Shape::Basic(unit)
}

pub(super) fn contiguous(count: u64, of: Shape) -> Shape {
    Shape::Contiguous(count, Box::new(of))
}

pub(super) fn vector(count: u64, block: u64, stride: i64, of: Shape) -> Shape {
    Shape::Vector { count, block, stride, of: Box::new(of) }
}

pub(super) fn blocks(block: u64, at: Vec<i64>, of: Shape) -> Shape {
    Shape::Blocks { block, at, of: Box::new(of) }
}

pub(super) fn subarray(dims: Vec<(u64, u64, u64)>, of: Shape) -> Shape {
    Shape::Subarray { dims, of: Box::new(of) }
}

pub(super) fn resized(extent: i64, of: Shape) -> Shape {
    Shape::Resized { extent, of: Box::new(of) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference and the library agree on the order of a nested description.
    #[test]
    fn the_reference_is_the_layout() {
        let double = || basic(Unit::Double);
        let inner = Shape::Struct(vec![
            (2, 0, double()),
            (1, 24, contiguous(3, basic(Unit::Int))),
            (1, 40, blocks(2, vec![0, 32], basic(Unit::Float))),
        ]);
        let all = [
            vector(3, 2, 200, resized(96, inner.clone())),
            subarray(vec![(5, 2, 1), (4, 3, 0), (6, 2, 3)], double()),
            contiguous(4, resized(8, vector(5, 1, 64, double()))),
            Shape::Indexed { blocks: vec![(2, 64), (1, 0), (3, 96)], of: Box::new(double()) },
        ];
        for shape in all {
            let mut wanted = Vec::new();
            shape.walk(0, &mut |at, len| wanted.extend(at..at + len));
            let mut found = Vec::new();
            let layout = shape.layout().expect("small");
            layout.for_each_block(|at, len| found.extend(at as usize..at as usize + len as usize));
            assert_eq!(found, wanted, "{shape:?}");
            let end = wanted.iter().max().map_or(0, |last| last + 1);
            assert_eq!(shape.bytes(), (end, layout.size() as usize), "{shape:?}");
        }
    }
}
