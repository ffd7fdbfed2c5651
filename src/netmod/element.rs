//! Elements of atomic operations: MPI's predefined types and operations.
//!
//! Names and meanings are those of MPI-4.1, chapter 6.9.2. Nothing here
//! computes; that is for [`crate::rma`] and the providers.

use crate::datatype::Basic;

/// The type of an element that operations know, as it lies in memory in the machine's
/// byte order: a [`Basic`] type that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer; MPI_BYTE and C's bool too.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer; MPI_AINT, MPI_OFFSET and MPI_COUNT are of
    /// these two.
    U64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// x86's 80-bit extended number in 16 bytes (C's `long double`).
    F80,
    /// Complex number of two binary32.
    C32,
    /// Complex number of two binary64.
    C64,
}

impl Type {
    /// All types, in the order of their numbers.
    pub const ALL: [Type; 13] = [
        Type::I8,
        Type::U8,
        Type::I16,
        Type::U16,
        Type::I32,
        Type::U32,
        Type::I64,
        Type::U64,
        Type::F32,
        Type::F64,
        Type::F80,
        Type::C32,
        Type::C64,
    ];

    /// The basic type whose numbers these are.
    #[must_use]
    pub const fn basic(self) -> Basic {
        match self {
            Type::I8 => Basic::I8,
            Type::U8 => Basic::U8,
            Type::I16 => Basic::I16,
            Type::U16 => Basic::U16,
            Type::I32 => Basic::I32,
            Type::U32 => Basic::U32,
            Type::I64 => Basic::I64,
            Type::U64 => Basic::U64,
            Type::F32 => Basic::F32,
            Type::F64 => Basic::F64,
            Type::F80 => Basic::LongDouble,
            Type::C32 => Basic::C32,
            Type::C64 => Basic::C64,
        }
    }

    /// How operations take elements of a basic type: bytes and truth values as unsigned
    /// numbers, characters as signed ones.
    #[must_use]
    pub const fn of(basic: Basic) -> Type {
        match basic {
            Basic::Char | Basic::I8 => Type::I8,
            Basic::Byte | Basic::Bool | Basic::U8 => Type::U8,
            Basic::I16 => Type::I16,
            Basic::U16 => Type::U16,
            Basic::WideChar | Basic::I32 => Type::I32,
            Basic::U32 => Type::U32,
            Basic::I64 => Type::I64,
            Basic::U64 => Type::U64,
            Basic::F32 => Type::F32,
            Basic::F64 => Type::F64,
            Basic::LongDouble => Type::F80,
            Basic::C32 => Type::C32,
            Basic::C64 => Type::C64,
        }
    }

    /// Bytes an element has.
    #[must_use]
    pub const fn size(self) -> usize {
        self.basic().size()
    }

    /// The type with this number, as it travels in packets.
    #[must_use]
    pub fn from_number(n: u8) -> Option<Type> {
        Type::ALL.get(usize::from(n)).copied()
    }
}

/// What is done with an element and an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// MPI_SUM; integers wrap.
    Sum,
    /// MPI_PROD; integers wrap.
    Prod,
    /// MPI_MIN.
    Min,
    /// MPI_MAX.
    Max,
    /// MPI_BAND.
    Band,
    /// MPI_BOR.
    Bor,
    /// MPI_BXOR.
    Bxor,
    /// MPI_LAND: 1 or 0.
    Land,
    /// MPI_LOR: 1 or 0.
    Lor,
    /// MPI_LXOR: 1 or 0.
    Lxor,
    /// MPI_REPLACE.
    Replace,
    /// MPI_NO_OP: leaves the element, for fetching it.
    NoOp,
}

impl Op {
    /// All operations, in the order of their numbers.
    pub const ALL: [Op; 12] = [
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::Band,
        Op::Bor,
        Op::Bxor,
        Op::Land,
        Op::Lor,
        Op::Lxor,
        Op::Replace,
        Op::NoOp,
    ];

    /// The operation with this number, as it travels in packets.
    #[must_use]
    pub fn from_number(n: u8) -> Option<Op> {
        Op::ALL.get(usize::from(n)).copied()
    }
}

/// What comes back from an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nothing: MPI_Accumulate.
    Update,
    /// The elements as they were: MPI_Get_accumulate, MPI_Fetch_and_op.
    Fetch,
    /// The element as it was; the operand replaces it where it equals the
    /// comparand: MPI_Compare_and_swap. The operation is [`Op::Replace`].
    Swap,
}
