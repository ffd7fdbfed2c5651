//! Every operation on every type against arithmetic written down plainly.

use super::*;
use oracle::{elements, equal, naive};
use proptest::prelude::*;
use std::sync::{Mutex, PoisonError};

#[path = "oracle.rs"]
mod oracle;

impl Work {
    /// Atomically element by element where the elements allow that, else under `lock`.
    unsafe fn run(&self, lock: &Mutex<()>) {
        if is_atomic(self.ty, self.at.addr()) {
            // SAFETY: the caller's; tested just now.
            unsafe { self.run_atomic() };
        } else {
            let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's; the lock is held.
            unsafe { self.run_plain() };
        }
    }
}

/// Threads that add to elements one by one, and to many at once, lose nothing.
#[test]
fn elements_and_words_meet() {
    const COUNT: usize = 203;
    const TIMES: usize = if cfg!(miri) { 3 } else { 3000 };
    let memory = vec![0_u64; COUNT];
    struct Shared(*mut u8);
    // SAFETY: the threads use it as `Work::run` wants it.
    unsafe impl Sync for Shared {}
    for ty in [Type::U8, Type::U16, Type::U32] {
        let mut memory = memory.clone();
        let size = ty.size();
        // Not at a multiple of eight, as far as the type may lie there.
        let shared = &Shared(memory.as_mut_ptr().cast::<u8>().wrapping_add(size));
        let ones = elements(ty, &[1; COUNT]);
        let add = |from: usize, count: usize| Work {
            kind: Kind::Update,
            ty,
            op: Op::Sum,
            at: shared.0.wrapping_add(from * size),
            operand: ones.as_ptr(),
            compare: std::ptr::null(),
            result: std::ptr::null_mut(),
            count,
        };
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..TIMES {
                    // SAFETY: both buffers hold the elements.
                    unsafe { add(0, COUNT).run(&Mutex::new(())) };
                }
            });
            for i in 0..TIMES * COUNT {
                // SAFETY: as above.
                unsafe { add(i % COUNT, 1).run(&Mutex::new(())) };
            }
        });
        // SAFETY: nobody else is there any more.
        let sums = unsafe { std::slice::from_raw_parts(shared.0, COUNT * size) };
        let want = elements(ty, &[2 * TIMES as i64; COUNT]);
        assert_eq!(sums, want, "{ty:?}");
    }
}

/// With nobody else there, loops over many elements do what is done one by one.
#[test]
fn alone_as_by_element() {
    let counts: &[usize] = if cfg!(miri) { &[67] } else { &[1, 2, 31, 67, 1025, 9000] };
    let value = |i: i64| {
        if i % 5 == 0 { 0 } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> (i % 57) }
    };
    for (&count, ty) in counts.iter().flat_map(|c| Type::ALL.map(|ty| (c, ty))) {
        if ty.size() > 8 {
            continue;
        }
        let values = |from: i64| {
            elements(ty, &(0..count as i64).map(|i| value(i + from)).collect::<Vec<_>>())
        };
        let (start, operands) = (values(0), [vec![0], values(77)].concat());
        for (op, kind) in Op::ALL.into_iter().flat_map(|op| [(op, Kind::Update), (op, Kind::Fetch)])
        {
            if refusal(ty, op).is_some() {
                continue;
            }
            let outcome = |alone: bool| {
                let mut memory = vec![0_u64; start.len().div_ceil(8) + 1];
                let mut fetched = vec![0; start.len() + 1];
                // Not at a multiple of a vector, nor the other buffers of an element.
                let at = memory.as_mut_ptr().cast::<u8>().wrapping_add(ty.size() % 8);
                // SAFETY: all hold the elements; nobody else is there.
                unsafe {
                    at.copy_from_nonoverlapping(start.as_ptr(), start.len());
                    let (operand, result) = (operands[1..].as_ptr(), fetched[1..].as_mut_ptr());
                    let work = Work { kind, ty, op, at, operand, compare: operand, result, count };
                    if alone {
                        work.run_alone()
                    } else {
                        work.by_element()
                    }
                    (std::slice::from_raw_parts(at, start.len()).to_vec(), fetched)
                }
            };
            assert!(outcome(true) == outcome(false), "{count} of {ty:?}, {op:?}, {kind:?}");
        }
    }
}

proptest! {
    #[test]
    fn all_operations(
        a in prop::collection::vec(any::<i64>(), 1..40),
        seed in any::<u64>(),
        small in any::<bool>(),
        skew in 0_usize..16,
    ) {
        let lock = Mutex::new(());
        let b: Vec<i64> = a.iter().enumerate().map(|(i, w)| {
            let r = seed.rotate_left(i as u32 * 7) as i64;
            // Equal and zero operands come up too.
            match r & 7 { 0 => *w, 1 => 0, _ if small => r % 100, _ => r }
        }).collect();
        for ty in Type::ALL {
            let size = ty.size();
            let (va, vb) = (elements(ty, &a), elements(ty, &b));
            for op in Op::ALL {
                if refusal(ty, op).is_some() { continue }
                for (kind, alone) in [
                    (Kind::Update, false),
                    (Kind::Fetch, false),
                    (Kind::Update, true),
                    (Kind::Fetch, true),
                ] {
                    let mut memory = vec![0_u128; a.len() + 2];
                    let base = memory.as_mut_ptr().cast::<u8>();
                    let mut result = vec![0x77; va.len() + 1];
                    let operand = [&[0_u8][..], &vb].concat();
                    // SAFETY: all buffers are as long as the elements; both
                    // others lie at odd addresses.
                    let after = unsafe {
                        let at = base.add(skew);
                        std::ptr::copy_nonoverlapping(va.as_ptr(), at, va.len());
                        let work = Work {
                            kind, ty, op, at,
                            operand: operand.as_ptr().add(1),
                            compare: std::ptr::null(),
                            result: result.as_mut_ptr().add(1),
                            count: a.len(),
                        };
                        if alone { work.run_plain() } else { work.run(&lock) }
                        std::slice::from_raw_parts(at, va.len()).to_vec()
                    };
                    for i in 0..a.len() {
                        let r = i * size..(i + 1) * size;
                        let want = naive(ty, op, &va[r.clone()], &vb[r.clone()]);
                        prop_assert!(equal(ty, &want, &after[r.clone()]),
                            "{ty:?} {op:?}: {:?} with {:?} is {:?}, not {want:?}",
                            &va[r.clone()], &vb[r.clone()], &after[r.clone()]);
                    }
                    if kind == Kind::Fetch {
                        prop_assert_eq!(&result[1..], &va[..]);
                    } else {
                        prop_assert!(result.iter().all(|&b| b == 0x77));
                    }
                }
            }
        }
    }

    #[test]
    fn compare_and_swap(a in any::<i64>(), b in any::<i64>(), c in any::<i64>(), hit in any::<bool>(), skew in 0_usize..16) {
        let lock = Mutex::new(());
        for ty in Type::ALL {
            let (va, vb) = (elements(ty, &[a]), elements(ty, &[b]));
            let vc = if hit { va.clone() } else { elements(ty, &[c]) };
            let mut memory = [0_u128; 3];
            let mut result = vec![0; va.len()];
            // SAFETY: one element in each buffer.
            let after = unsafe {
                let at = memory.as_mut_ptr().cast::<u8>().add(skew);
                std::ptr::copy_nonoverlapping(va.as_ptr(), at, va.len());
                Work {
                    kind: Kind::Swap, ty, op: Op::Replace, at,
                    operand: vb.as_ptr(), compare: vc.as_ptr(),
                    result: result.as_mut_ptr(), count: 1,
                }.run(&lock);
                std::slice::from_raw_parts(at, va.len()).to_vec()
            };
            prop_assert_eq!(&result, &va);
            prop_assert_eq!(&after, if va == vc { &vb } else { &va });
        }
    }
}

#[test]
fn what_is_refused() {
    for ty in Type::ALL {
        let float = matches!(ty, Type::F32 | Type::F64 | Type::F80);
        let complex = matches!(ty, Type::C32 | Type::C64);
        for op in Op::ALL {
            let want = match op {
                Op::Sum | Op::Prod | Op::Replace | Op::NoOp => false,
                Op::Min | Op::Max => complex,
                _ => float || complex,
            };
            assert_eq!(refusal(ty, op).is_some(), want, "{ty:?} {op:?}");
        }
    }
}

#[test]
fn threads_at_once() {
    // Unaligned and wide elements too: all under one lock.
    let lock = Mutex::new(());
    let mut memory = [0_u128; 32];
    let base = memory.as_mut_ptr().addr();
    for (ty, skew) in [
        (Type::F64, 0),
        (Type::F32, 0),
        (Type::C32, 0),
        (Type::U8, 1),
        (Type::I16, 0),
        (Type::C64, 0),
        (Type::F80, 0),
        (Type::I64, 3),
        (Type::F64, 1),
    ] {
        let zero = elements(ty, &[0]);
        let at = base + skew;
        let pointer = || std::ptr::with_exposed_provenance_mut::<u8>(at);
        let _ = memory.as_mut_ptr().expose_provenance();
        // SAFETY: within `memory`, before the threads.
        unsafe { std::ptr::copy_nonoverlapping(zero.as_ptr(), pointer(), zero.len()) };
        let one = elements(ty, &[1]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        // SAFETY: one element each.
                        unsafe {
                            Work {
                                kind: Kind::Update,
                                ty,
                                op: Op::Sum,
                                at: pointer(),
                                operand: one.as_ptr(),
                                compare: std::ptr::null(),
                                result: std::ptr::null_mut(),
                                count: 1,
                            }
                            .run(&lock);
                        }
                    }
                });
            }
        });
        let want = elements(ty, &[6000]);
        // SAFETY: the threads are gone.
        let got = unsafe { std::slice::from_raw_parts(pointer(), ty.size()) };
        assert_eq!(got, want, "{ty:?} at {skew}");
    }
}
