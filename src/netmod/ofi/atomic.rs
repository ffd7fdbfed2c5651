//! Atomics of the provider. Which there are is queried once for each and kept.
//!
//! Only those are used that mean in libfabric what they mean in MPI: logical and
//! bitwise operations and comparisons for equality of integers only, minimum and
//! maximum not of complex numbers.

use super::bindings as sys;
use super::domain::UNKNOWN;
use super::endpoint::Endpoint;
use super::ffi;
use crate::netmod::{AGAIN, Atomic, Kind, Op, PENDING, Type, UNSUPPORTED};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

fn datatype(ty: Type) -> sys::fi_datatype {
    match ty {
        Type::I8 => sys::FI_INT8,
        Type::U8 => sys::FI_UINT8,
        Type::I16 => sys::FI_INT16,
        Type::U16 => sys::FI_UINT16,
        Type::I32 => sys::FI_INT32,
        Type::U32 => sys::FI_UINT32,
        Type::I64 => sys::FI_INT64,
        Type::U64 => sys::FI_UINT64,
        Type::F32 => sys::FI_FLOAT,
        Type::F64 => sys::FI_DOUBLE,
        Type::F80 => sys::FI_LONG_DOUBLE,
        Type::C32 => sys::FI_FLOAT_COMPLEX,
        Type::C64 => sys::FI_DOUBLE_COMPLEX,
    }
}

/// libfabric's operation, where it means the same.
fn operation(kind: Kind, ty: Type, op: Op) -> Option<sys::fi_op> {
    let integer = (ty as u8) <= Type::U64 as u8;
    let complex = matches!(ty, Type::C32 | Type::C64);
    if kind == Kind::Swap {
        return (op == Op::Replace && integer).then_some(sys::FI_CSWAP);
    }
    match op {
        Op::Sum => Some(sys::FI_SUM),
        Op::Prod => Some(sys::FI_PROD),
        Op::Min => (!complex).then_some(sys::FI_MIN),
        Op::Max => (!complex).then_some(sys::FI_MAX),
        Op::Band => integer.then_some(sys::FI_BAND),
        Op::Bor => integer.then_some(sys::FI_BOR),
        Op::Bxor => integer.then_some(sys::FI_BXOR),
        Op::Land => integer.then_some(sys::FI_LAND),
        Op::Lor => integer.then_some(sys::FI_LOR),
        Op::Lxor => integer.then_some(sys::FI_LXOR),
        Op::Replace => Some(sys::FI_ATOMIC_WRITE),
        Op::NoOp => (kind == Kind::Fetch).then_some(sys::FI_ATOMIC_READ),
    }
}

impl Endpoint {
    /// See [`Netmod::atomic_limit`](crate::netmod::Netmod::atomic_limit).
    pub(super) fn atomic_limit(&self, kind: Kind, ty: Type, op: Op) -> usize {
        let known = &self.owner().limits.0[kind as usize][ty as usize][op as usize];
        match known.load(Relaxed) {
            UNKNOWN => {
                let limit = self.query_limit(kind, ty, op);
                known.store(limit, Relaxed);
                limit as usize
            }
            limit => limit as usize,
        }
    }

    #[cold]
    fn query_limit(&self, kind: Kind, ty: Type, op: Op) -> u32 {
        let Some(op) = operation(kind, ty, op) else { return 0 };
        if !self.owner().info.atomics {
            return 0;
        }
        // shm of 1.17 adds something else when two that fetch less than 8 bytes
        // are under way; that of 2.x does not.
        let owner = self.owner();
        if kind != Kind::Update && owner.caps.provider == "shm" && owner.lib.version() < (2, 0) {
            return 0;
        }
        let (ep, ty_number, mut count) = (self.ep(), datatype(ty), 0_usize);
        // SAFETY: the endpoint is enabled.
        let (there, rc) = unsafe {
            match kind {
                Kind::Update => {
                    (ffi::has_atomic(ep), ffi::fi_atomicvalid(ep, ty_number, op, &mut count))
                }
                Kind::Fetch => (
                    ffi::has_fetch_atomic(ep),
                    ffi::fi_fetch_atomicvalid(ep, ty_number, op, &mut count),
                ),
                Kind::Swap => (
                    ffi::has_compare_atomic(ep),
                    ffi::fi_compare_atomicvalid(ep, ty_number, op, &mut count),
                ),
            }
        };
        if rc != 0 || !there {
            return 0;
        }
        // Three buffers, bounced together (`FI_MR_LOCAL`).
        let space = self.bounce.as_ref().filter(|b| b.region.is_some());
        let space = space.map_or(usize::MAX, |b| b.each / 3 / ty.size());
        u32::try_from(count.min(space)).unwrap_or(UNKNOWN - 1)
    }

    /// See [`Netmod::atomic`](crate::netmod::Netmod::atomic).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn atomic(&self, a: &Atomic) -> isize {
        let Some(op) = operation(a.kind, a.ty, a.op) else { return UNSUPPORTED };
        let Some((index, slot)) = self.slots.tracked() else { return AGAIN };
        slot.token = a.token;
        slot.dest = a.dest;
        // An operand that is not used may be null, and providers look at it.
        let operand = if a.op == Op::NoOp { a.result.cast_const() } else { a.operand };
        let (mut operand, mut compare, mut result) =
            (operand.cast_mut(), a.compare.cast_mut(), a.result);
        let mut desc = null_mut();
        if let Some(bounce) = self.bounce.as_ref().filter(|b| b.region.is_some()) {
            let bytes = a.count * a.ty.size();
            let third = (bounce.each / 3) & !15;
            let place = |i: usize| bounce.at(index).wrapping_add(i * third);
            desc = bounce.desc();
            // SAFETY: [BUF] for `count` elements of what the kind uses; [LIMIT]: `atomic_limit`
            // keeps that below a third.
            unsafe {
                if a.op != Op::NoOp {
                    place(0).copy_from_nonoverlapping(operand, bytes);
                }
                if a.kind == Kind::Swap {
                    place(1).copy_from_nonoverlapping(compare, bytes);
                }
            }
            if a.kind != Kind::Update {
                slot.copy_from = 2 * third;
                slot.copy_to.push((result, bytes));
            }
            (operand, compare, result) = (place(0), place(1), place(2));
        }
        let ioc = |addr: *mut u8| sys::fi_ioc { addr: addr.cast(), count: a.count };
        let (operand, compare, mut result) = (ioc(operand), ioc(compare), ioc(result));
        let remote = sys::fi_rma_ioc { addr: a.addr, count: a.count, key: a.key };
        let (mut compare_desc, mut result_desc) = (desc, desc);
        let msg = sys::fi_msg_atomic {
            msg_iov: &operand,
            desc: &mut desc,
            iov_count: 1,
            addr: a.dest,
            rma_iov: &remote,
            rma_iov_count: 1,
            datatype: datatype(a.ty),
            op,
            context: slot.as_context(),
            data: 0,
        };
        let (ep, done) = (self.ep(), sys::FI_COMPLETION);
        let _inside = self.enter();
        // SAFETY: [DEST]; `atomic_limit` found the calls to be there; vectors are copied at
        // the call (fi_atomic(3)); slot and buffers live until the completion: [BUF].
        let rc = unsafe {
            match a.kind {
                Kind::Update => ffi::fi_atomicmsg(ep, &msg, done | sys::FI_DELIVERY_COMPLETE),
                Kind::Fetch => {
                    ffi::fi_fetch_atomicmsg(ep, &msg, &mut result, &mut result_desc, 1, done)
                }
                Kind::Swap => ffi::fi_compare_atomicmsg(
                    ep,
                    &msg,
                    &compare,
                    &mut compare_desc,
                    1,
                    &mut result,
                    &mut result_desc,
                    1,
                    done,
                ),
            }
        };
        if rc != 0 {
            self.slots.release(index, slot);
            return rc;
        }
        PENDING
    }
}
