//! Basic types: what one element is, to the network and to external32.

/// A basic type of MPI, by how it lies in memory here.
///
/// `size` is its bytes in memory, `external` those in MPI's external32
/// (MPI-4.1, table 14.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // each is named after what it is
pub enum Basic {
    I8 = 1,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// C's `long double`.
    LongDouble,
    C32,
    C64,
    /// Never converted, and matches any type of its size in no signature but its own.
    Byte,
    Char,
    WideChar,
    Bool,
}

impl Basic {
    /// All of them, in the order of their numbers (which start at 1).
    pub const ALL: [Basic; 17] = [
        Basic::I8,
        Basic::U8,
        Basic::I16,
        Basic::U16,
        Basic::I32,
        Basic::U32,
        Basic::I64,
        Basic::U64,
        Basic::F32,
        Basic::F64,
        Basic::LongDouble,
        Basic::C32,
        Basic::C64,
        Basic::Byte,
        Basic::Char,
        Basic::WideChar,
        Basic::Bool,
    ];

    /// Bytes in memory.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Basic::Byte | Basic::Char | Basic::Bool | Basic::I8 | Basic::U8 => 1,
            Basic::I16 | Basic::U16 => 2,
            Basic::WideChar | Basic::I32 | Basic::U32 | Basic::F32 => 4,
            Basic::I64 | Basic::U64 | Basic::F64 | Basic::C32 => 8,
            Basic::LongDouble | Basic::C64 => 16,
        }
    }

    /// Bytes in external32 (MPI-4.1, table 14.2).
    #[must_use]
    pub const fn external_size(self) -> usize {
        match self {
            Basic::WideChar => 2,
            other => other.size(),
        }
    }

    /// Bytes whose multiple its address is.
    pub(super) const fn alignment(self) -> u32 {
        match self {
            Basic::C32 => 4,
            Basic::C64 => 8,
            other => other.size() as u32,
        }
    }

    /// The basic type with this number, as descriptions carry it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Basic> {
        Basic::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }
}
