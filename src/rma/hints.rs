//! What the caller promises about a window's accumulates (MPI-4.1, section
//! 12.2.1, the info keys `accumulate_ordering` and `accumulate_ops`).

use super::{Error, ErrorKind};

/// Promises about operations on elements; those of [`Hints::default`] are
/// MPI's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Operations of one origin on one place are done in the order of their
    /// calls. Without it those that the network library does and those that go
    /// as packets do not wait for each other.
    pub ordered: bool,
    /// Which operations meet at one place. Changes nothing here: all access
    /// paths are atomic with each other, whatever the operations.
    pub ops: SameOp,
}

/// Operations that may be under way at one place at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameOp {
    /// One operation alone (`same_op`).
    Same,
    /// One, and [`Op::NoOp`](crate::netmod::Op::NoOp) (`same_op_no_op`).
    #[default]
    SameOrNoOp,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { ordered: true, ops: SameOp::default() }
    }
}

impl Hints {
    /// Takes one of MPI's info keys with its value; whether it is one that is
    /// known here. `accumulate_ordering` is `none` or a list of `rar`, `raw`,
    /// `war`, `waw`, of which any keeps all; `accumulate_ops` is `same_op` or
    /// `same_op_no_op`.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a value that MPI does not have for the key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, Error> {
        let wrong = |has: &str| {
            let why = format!("{key} cannot be '{value}'; it is {has}");
            Err(ErrorKind::Arguments(why).into())
        };
        match key {
            "accumulate_ordering" => {
                let known = |order: &str| ["rar", "raw", "war", "waw"].contains(&order.trim());
                self.ordered = match value.trim() {
                    "none" => false,
                    list if list.split(',').all(known) => true,
                    _ => return wrong("none, or some of rar,raw,war,waw"),
                };
            }
            "accumulate_ops" => {
                self.ops = match value.trim() {
                    "same_op" => SameOp::Same,
                    "same_op_no_op" => SameOp::SameOrNoOp,
                    _ => return wrong("same_op or same_op_no_op"),
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn bits(self) -> u8 {
        u8::from(self.ordered) | u8::from(self.ops == SameOp::Same) << 1
    }

    pub(super) fn from_bits(bits: u8) -> Hints {
        let ops = if bits & 2 != 0 { SameOp::Same } else { SameOp::SameOrNoOp };
        Hints { ordered: bits & 1 != 0, ops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_mpis() {
        let mut hints = Hints::default();
        assert!(hints.ordered && hints.ops == SameOp::SameOrNoOp);
        assert!(hints.set("accumulate_ordering", "none").unwrap() && !hints.ordered);
        assert!(hints.set("accumulate_ops", "same_op").unwrap() && hints.ops == SameOp::Same);
        assert_eq!(Hints::from_bits(hints.bits()), hints);
        assert!(hints.set("accumulate_ordering", "rar, waw").unwrap() && hints.ordered);
        assert_eq!(Hints::from_bits(hints.bits()), hints);
        assert!(!hints.set("no_locks", "true").unwrap());
        let before = hints;
        for (key, value) in [("accumulate_ordering", "rwr"), ("accumulate_ops", "")] {
            let why = hints.set(key, value).unwrap_err().to_string();
            assert!(why.contains(key), "{why}");
        }
        assert_eq!(hints, before);
    }
}
