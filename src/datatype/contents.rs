//! Layouts by how MPI says that a datatype was made: its combiner and its contents.

use super::layout::{Dealt, Distribution, Layout, Order};

/// Whose numbers they are: MPI leaves the values of its constants to each library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// Open MPI's.
    OpenMpi,
    /// MPICH's, and of those that are made of it.
    Mpich,
}

/// How a type was made; the variants are MPI's combiners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // each is named after its constructor
pub enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
    /// A basic type of Fortran by its precision.
    F90,
}

impl Combiner {
    /// By the number that the library gives it. (Those that end in `_INTEGER` keep
    /// addresses as integers; they are refused.)
    #[must_use]
    pub fn from_number(numbers: Numbers, number: i32) -> Option<Combiner> {
        use Combiner::*;
        Some(match (numbers, number) {
            (Numbers::OpenMpi, 0) | (Numbers::Mpich, 1) => Named,
            (Numbers::OpenMpi, 1) | (Numbers::Mpich, 2) => Dup,
            (Numbers::OpenMpi, 2) | (Numbers::Mpich, 3) => Contiguous,
            (Numbers::OpenMpi, 3) | (Numbers::Mpich, 4) => Vector,
            (Numbers::OpenMpi, 5) | (Numbers::Mpich, 6) => Hvector,
            (Numbers::OpenMpi, 6) | (Numbers::Mpich, 7) => Indexed,
            (Numbers::OpenMpi, 8) | (Numbers::Mpich, 9) => Hindexed,
            (Numbers::OpenMpi, 9) | (Numbers::Mpich, 10) => IndexedBlock,
            (Numbers::OpenMpi, 11) | (Numbers::Mpich, 12) => Struct,
            (Numbers::OpenMpi, 12) | (Numbers::Mpich, 13) => Subarray,
            (Numbers::OpenMpi, 13) | (Numbers::Mpich, 14) => Darray,
            (Numbers::OpenMpi, 14..=16) | (Numbers::Mpich, 15..=17) => F90,
            (Numbers::OpenMpi, 17) | (Numbers::Mpich, 18) => Resized,
            (Numbers::OpenMpi, 18) | (Numbers::Mpich, 19) => HindexedBlock,
            _ => return None,
        })
    }

    /// The integers and the addresses of [`Contents`] as MPI tells them: of a type that was made
    /// with counts of 64 bits those are a third array (MPI-4.1, table 5.2).
    ///
    /// # Errors
    /// Why there are none, for people: a constructor without such counts, too few of them.
    pub fn in_order(
        self,
        integers: &[i32],
        addresses: &[i64],
        counts: &[i64],
    ) -> Result<(Vec<i64>, Vec<i64>), Refusal> {
        use Combiner::*;
        let integers: Vec<_> = integers.iter().map(|&value| i64::from(value)).collect();
        if counts.is_empty() {
            return Ok((integers, addresses.into()));
        }
        // How many of the counts are integers; the others are addresses.
        let head = match self {
            Contiguous | Vector | Indexed | IndexedBlock => counts.len(),
            Hvector | HindexedBlock => 2,
            Hindexed | Struct => {
                let blocks = counts.first().and_then(|&n| usize::try_from(n).ok());
                blocks.and_then(|n| n.checked_add(1)).ok_or_else(short)?
            }
            Resized => 0,
            // What else there is stands around the sizes.
            Subarray | Darray => {
                let (before, behind) = integers
                    .split_at_checked(if self == Darray { 3 } else { 1 })
                    .ok_or_else(short)?;
                return Ok(([before, counts, behind].concat(), Vec::new()));
            }
            Named | F90 | Dup => return Err("a constructor without counts of 64 bits".into()),
        };
        let (integers, addresses) = counts.split_at_checked(head).ok_or_else(short)?;
        Ok((integers.into(), addresses.into()))
    }

    /// Returns true for a basic type, which has no contents.
    #[must_use]
    pub fn is_leaf(self) -> bool {
        matches!(self, Combiner::Named | Combiner::F90)
    }
}

/// The contents of a datatype, in the order that MPI tells them (MPI-4.1, table 5.1).
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// By which constructor it was made.
    pub combiner: Combiner,
    /// Its integers: counts, lengths of blocks, displacements in elements.
    pub integers: &'a [i64],
    /// Its addresses, bytes.
    pub addresses: &'a [i64],
    /// Its datatypes.
    pub types: &'a [Layout],
}

impl Contents<'_> {
    /// The layout that the constructor makes. Its bounds are not asked of the library.
    ///
    /// # Errors
    /// Why there is none, for people: a basic type, contents that are too short, a value
    /// that is not known or that no layout has.
    pub fn layout(&self, numbers: Numbers) -> Result<Layout, Refusal> {
        let Contents { combiner, integers, addresses, types } = *self;
        let i = |at: usize| integers.get(at).copied().ok_or_else(short);
        let some = |at: usize, len: usize| {
            at.checked_add(len).and_then(|end| integers.get(at..end)).ok_or_else(short)
        };
        let a = |at: usize| addresses.get(at).copied().ok_or_else(short);
        let of = types.first().ok_or_else(short)?;
        let n = || Ok::<usize, Refusal>(count(i(0)?)? as usize);
        let at = |len: usize| addresses.get(..len).ok_or_else(short);
        let made = match combiner {
            Combiner::Dup => Ok(of.clone()),
            Combiner::Contiguous => Layout::contiguous(count(i(0)?)?, of),
            Combiner::Vector => Layout::vector(count(i(0)?)?, count(i(1)?)?, i(2)?, of),
            Combiner::Hvector => Layout::hvector(count(i(0)?)?, count(i(1)?)?, a(0)?, of),
            Combiner::Indexed => {
                let n = n()?;
                Layout::indexed(&counts(some(1, n)?)?, some(1 + n, n)?, of)
            }
            Combiner::Hindexed => Layout::hindexed(&counts(some(1, n()?)?)?, at(n()?)?, of),
            Combiner::IndexedBlock => Layout::indexed_block(count(i(1)?)?, some(2, n()?)?, of),
            Combiner::HindexedBlock => Layout::hindexed_block(count(i(1)?)?, at(n()?)?, of),
            Combiner::Struct => {
                let n = n()?;
                let (lens, at) = (counts(some(1, n)?)?, at(n)?);
                let members = types.get(..n).ok_or_else(short)?;
                let blocks: Vec<_> =
                    (0..n).map(|index| (lens[index], at[index], &members[index])).collect();
                Layout::structure(&blocks)
            }
            Combiner::Subarray => {
                let n = n()?;
                let (sizes, parts) = (counts(some(1, n)?)?, counts(some(1 + n, n)?)?);
                let starts = counts(some(1 + 2 * n, n)?)?;
                let dimensions: Vec<_> =
                    (0..n).map(|index| (sizes[index], parts[index], starts[index])).collect();
                Layout::subarray(&dimensions, order(numbers, i(1 + 3 * n)?)?, of)
            }
            Combiner::Darray => {
                let n = count(i(2)?)? as usize;
                let (sizes, dealt) = (counts(some(3, n)?)?, some(3 + n, n)?);
                let (arguments, grid) = (some(3 + 2 * n, n)?, counts(some(3 + 3 * n, n)?)?);
                let dimensions: Result<Vec<_>, Refusal> = (0..n)
                    .map(|index| {
                        let distribution = distribution(numbers, dealt[index], arguments[index])?;
                        Ok(Dealt { size: sizes[index], distribution, processes: grid[index] })
                    })
                    .collect();
                Layout::darray(count(i(1)?)?, &dimensions?, order(numbers, i(3 + 4 * n)?)?, of)
            }
            Combiner::Resized => of.resized(a(0)?, a(1)?),
            Combiner::Named | Combiner::F90 => return Err(short()),
        };
        made.map_err(|e| e.to_string())
    }
}

/// Why there is no layout.
type Refusal = String;

fn short() -> Refusal {
    "its contents are too short".into()
}

fn count(value: i64) -> Result<u64, Refusal> {
    u64::try_from(value).map_err(|_| "a count below 0".into())
}

fn counts(values: &[i64]) -> Result<Vec<u64>, Refusal> {
    values.iter().map(|&value| count(value)).collect()
}

fn order(numbers: Numbers, number: i64) -> Result<Order, Refusal> {
    match (numbers, number) {
        (Numbers::OpenMpi, 0) | (Numbers::Mpich, 56) => Ok(Order::C),
        (Numbers::OpenMpi, 1) | (Numbers::Mpich, 57) => Ok(Order::Fortran),
        _ => Err(format!("order {number} is not known")),
    }
}

fn distribution(numbers: Numbers, number: i64, argument: i64) -> Result<Distribution, Refusal> {
    let default = match numbers {
        Numbers::OpenMpi => -1,
        Numbers::Mpich => -49767,
    };
    let argument = if argument == default { None } else { Some(count(argument)?) };
    match (numbers, number) {
        (Numbers::OpenMpi, 0) | (Numbers::Mpich, 121) => Ok(Distribution::Block(argument)),
        (Numbers::OpenMpi, 1) | (Numbers::Mpich, 122) => Ok(Distribution::Cyclic(argument)),
        (Numbers::OpenMpi, 2) | (Numbers::Mpich, 123) => Ok(Distribution::None),
        _ => Err(format!("distribution {number} is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    /// Each constructor, with its contents both ways: integers and addresses, integers and counts.
    #[test]
    fn counts_of_64_bits_say_the_same() {
        use Combiner::*;
        type Told<'a> = (&'a [i32], &'a [i64]);
        let all: [(Combiner, Told<'_>, Told<'_>); 12] = [
            (Dup, (&[], &[]), (&[], &[])),
            (Contiguous, (&[3], &[]), (&[], &[3])),
            (Vector, (&[2, 3, 5], &[]), (&[], &[2, 3, 5])),
            (Hvector, (&[2, 3], &[50]), (&[], &[2, 3, 50])),
            (Indexed, (&[2, 1, 2, 4, 0], &[]), (&[], &[2, 1, 2, 4, 0])),
            (Hindexed, (&[2, 1, 2], &[40, 0]), (&[], &[2, 1, 2, 40, 0])),
            (IndexedBlock, (&[2, 3, 7, 1], &[]), (&[], &[2, 3, 7, 1])),
            (HindexedBlock, (&[2, 3], &[70, 3]), (&[], &[2, 3, 70, 3])),
            (Struct, (&[1, 2], &[24]), (&[], &[1, 2, 24])),
            (Resized, (&[], &[-8, 40]), (&[], &[-8, 40])),
            (Subarray, (&[2, 4, 5, 2, 3, 1, 1, 56], &[]), (&[2, 56], &[4, 5, 2, 3, 1, 1])),
            (
                Darray,
                (&[2, 1, 2, 6, 5, 121, 123, -49767, -49767, 2, 1, 57], &[]),
                (&[2, 1, 2, 121, 123, -49767, -49767, 2, 1, 57], &[6, 5]),
            ),
        ];
        let types = [Layout::basic(Basic::F64)];
        for (combiner, (integers, addresses), (fewer, counts)) in all {
            let layout = |(integers, addresses): (Vec<i64>, Vec<i64>)| {
                let of = Contents {
                    combiner,
                    integers: &integers,
                    addresses: &addresses,
                    types: &types,
                };
                of.layout(Numbers::Mpich)
            };
            let one = layout(combiner.in_order(integers, addresses, &[]).unwrap()).unwrap();
            let other = layout(combiner.in_order(fewer, &[], counts).unwrap()).unwrap();
            assert_eq!(format!("{one:?}"), format!("{other:?}"), "{combiner:?}");
            for len in 0..counts.len() {
                let cut = combiner.in_order(fewer, &[], &counts[..len]).and_then(layout);
                assert!(cut.is_err(), "{combiner:?} of {len} counts");
            }
        }
        assert!(Dup.in_order(&[], &[], &[1]).is_err());
        assert!(Hindexed.in_order(&[], &[], &[-1]).is_err());
        assert!(Struct.in_order(&[], &[], &[i64::MAX]).is_err());
    }
}
