//! Which atomics UCX has, and how it wants them.
//!
//! UCX adds, swaps and compares integers of 32 and 64 bits, one at a time
//! (ucp.h, `ucp_atomic_op_nbx`). A swap moves bits whatever they mean, so
//! replacing and fetching serve every type of these sizes. Its and, or and xor
//! are left alone: over shared memory UCX 1.13 answers success to them and
//! leaves the memory as it was.

use super::bindings as sys;
use super::endpoint::Worker;
use super::slots;
use crate::netmod::{AGAIN, Atomic, Kind, Op, Type, UNSUPPORTED};

/// How UCX does an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Nothing is changed and nothing comes back: no call.
    Nothing,
    /// A fetching operation of UCX whose result is discarded: its completion
    /// says that the operation is done at the target, which that of an update
    /// does not.
    FetchAndDiscard(sys::ucp_atomic_op_t),
    /// A fetching operation of UCX.
    Fetch(sys::ucp_atomic_op_t),
    /// A fetching add of zero.
    Read,
    /// Compare and swap.
    Swap,
}

/// How an operation is done; `None` where UCX has none.
pub(super) fn operation(kind: Kind, ty: Type, op: Op) -> Option<Call> {
    let integer = matches!(ty, Type::I32 | Type::U32 | Type::I64 | Type::U64);
    if !matches!(ty.size(), 4 | 8) {
        return None;
    }
    let opcode = (op == Op::Sum && integer).then_some(sys::UCP_ATOMIC_OP_ADD);
    match (kind, op, opcode) {
        (Kind::Swap, Op::Replace, _) if integer => Some(Call::Swap),
        (Kind::Swap, ..) => None,
        (Kind::Update, Op::NoOp, _) => Some(Call::Nothing),
        (Kind::Fetch, Op::NoOp, _) => Some(Call::Read),
        (Kind::Update, Op::Replace, _) => Some(Call::FetchAndDiscard(sys::UCP_ATOMIC_OP_SWAP)),
        (Kind::Fetch, Op::Replace, _) => Some(Call::Fetch(sys::UCP_ATOMIC_OP_SWAP)),
        (Kind::Update, _, opcode) => opcode.map(Call::FetchAndDiscard),
        (Kind::Fetch, _, opcode) => opcode.map(Call::Fetch),
    }
}

/// The operand of [`Call::Read`].
static ZERO: u64 = 0;

/// A contiguous datatype of elements of `size` bytes (`ucp_dt_make_contig`).
pub(super) fn contiguous(size: usize) -> sys::ucp_datatype_t {
    (size as u64) << sys::UCP_DATATYPE_SHIFT | u64::from(sys::UCP_DATATYPE_CONTIG)
}

impl Worker {
    /// See [`Netmod::atomic`](crate::netmod::Netmod::atomic).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn atomic(&self, op: &Atomic) -> isize {
        let Some(call) = operation(op.kind, op.ty, op.op).filter(|_| op.count == 1) else {
            return UNSUPPORTED;
        };
        if call == Call::Nothing {
            return 0;
        }
        let Some(slot) = self.inner().take(Some(op.token), op.dest) else { return AGAIN };
        let size = op.ty.size();
        let zero = (&raw const ZERO).cast::<u8>();
        // SAFETY: the slot is ours until the callback; [DEST], [KEY]; [BUF] for one element of
        // what the kind uses.
        unsafe {
            let discarded = (&raw mut (*slot).discarded).cast::<u8>();
            let (opcode, operand, reply) = match call {
                Call::Nothing => return 0,
                Call::FetchAndDiscard(opcode) => (opcode, op.operand, discarded),
                Call::Fetch(opcode) => (opcode, op.operand, op.result),
                Call::Read => (sys::UCP_ATOMIC_OP_ADD, zero, op.result),
                Call::Swap => {
                    // The reply buffer brings the new value there and the old
                    // one back.
                    op.result.copy_from(op.operand, size);
                    (sys::UCP_ATOMIC_OP_CSWAP, op.compare, op.result)
                }
            };
            let mut param = slots::tracked(slot);
            let fields = sys::UCP_OP_ATTR_FIELD_DATATYPE | sys::UCP_OP_ATTR_FIELD_REPLY_BUFFER;
            param.op_attr_mask |= fields;
            param.datatype = contiguous(size);
            param.reply_buffer = reply.cast();
            let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
            let issue = self.f().ucp_atomic_op_nbx;
            let pointer = issue(ep, opcode, operand.cast(), 1, op.addr, rkey, &param);
            slots::pending(self.inner().started(slot, pointer))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ucx_has() {
        for ty in Type::ALL {
            let integer = matches!(ty, Type::I32 | Type::U32 | Type::I64 | Type::U64);
            let fits = matches!(ty.size(), 4 | 8);
            for kind in [Kind::Update, Kind::Fetch] {
                assert_eq!(operation(kind, ty, Op::Sum).is_some(), integer, "{ty:?} {kind:?}");
            }
            for op in [Op::Replace, Op::NoOp] {
                assert_eq!(operation(Kind::Fetch, ty, op).is_some(), fits, "{ty:?} {op:?}");
            }
            let none = [Op::Prod, Op::Min, Op::Max, Op::Land, Op::Lor, Op::Lxor];
            for op in none.into_iter().chain([Op::Band, Op::Bor, Op::Bxor]) {
                assert_eq!(operation(Kind::Fetch, ty, op), None, "{ty:?} {op:?}");
            }
            assert_eq!(operation(Kind::Swap, ty, Op::Replace).is_some(), integer, "{ty:?}");
        }
    }
}
