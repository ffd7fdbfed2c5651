//! Every operation on every type against arithmetic written down plainly.

use super::*;
use proptest::prelude::*;

/// One element's bytes after an operation, computed without any of the above.
fn naive(ty: Type, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! integer {
        ($t:ty) => {{
            let read = |v: &[u8]| <$t>::from_ne_bytes(v.try_into().unwrap());
            let (a, b) = (read(a), read(b));
            let truth = |t: bool| if t { 1 as $t } else { 0 as $t };
            let c = match op {
                Op::Sum => ((a as i128 + b as i128) & !0) as $t,
                Op::Prod => (a as i128).wrapping_mul(b as i128) as $t,
                Op::Min => {
                    if a <= b {
                        a
                    } else {
                        b
                    }
                }
                Op::Max => {
                    if a >= b {
                        a
                    } else {
                        b
                    }
                }
                Op::Band => a & b,
                Op::Bor => a | b,
                Op::Bxor => a ^ b,
                Op::Land => truth((a != 0) & (b != 0)),
                Op::Lor => truth((a != 0) | (b != 0)),
                Op::Lxor => truth((a != 0) ^ (b != 0)),
                Op::Replace => b,
                Op::NoOp => a,
            };
            c.to_ne_bytes().to_vec()
        }};
    }
    macro_rules! float {
        ($t:ty, $bits:ty) => {{
            let read = |v: &[u8]| <$t>::from_bits(<$bits>::from_ne_bytes(v.try_into().unwrap()));
            let (x, y) = (read(a), read(b));
            let c = match op {
                Op::Sum => x + y,
                Op::Prod => x * y,
                Op::Min => {
                    if y < x {
                        y
                    } else {
                        x
                    }
                }
                Op::Max => {
                    if y > x {
                        y
                    } else {
                        x
                    }
                }
                Op::Replace => return b.to_vec(),
                _ => return a.to_vec(),
            };
            c.to_bits().to_ne_bytes().to_vec()
        }};
    }
    macro_rules! complex {
        ($t:ty, $n:literal) => {{
            let read = |v: &[u8]| <$t>::from_ne_bytes(v.try_into().unwrap());
            let (ar, ai) = (read(&a[..$n]), read(&a[$n..]));
            let (br, bi) = (read(&b[..$n]), read(&b[$n..]));
            let (re, im) = match op {
                Op::Sum => (ar + br, ai + bi),
                Op::Prod => (ar * br - ai * bi, ar * bi + ai * br),
                Op::Replace => return b.to_vec(),
                _ => return a.to_vec(),
            };
            [re.to_ne_bytes(), im.to_ne_bytes()].concat()
        }};
    }
    match ty {
        Type::I8 => integer!(i8),
        Type::U8 => integer!(u8),
        Type::I16 => integer!(i16),
        Type::U16 => integer!(u16),
        Type::I32 => integer!(i32),
        Type::U32 => integer!(u32),
        Type::I64 => integer!(i64),
        Type::U64 => integer!(u64),
        Type::F32 => float!(f32, u32),
        Type::F64 => float!(f64, u64),
        Type::C32 => complex!(f32, 4),
        Type::C64 => complex!(f64, 8),
        Type::F80 => match op {
            Op::Replace => b.to_vec(),
            Op::NoOp => a.to_vec(),
            op => {
                // Small whole numbers, exact in both.
                let (x, y) = (f80_value(a), f80_value(b));
                let c = match op {
                    Op::Sum => x + y,
                    Op::Prod => x * y,
                    Op::Min => x.min(y),
                    _ => x.max(y),
                };
                let mut out = f80_bytes(c);
                out[10..].copy_from_slice(&a[10..]);
                out
            }
        },
    }
}

/// An 80-bit number that holds a whole one.
fn f80_bytes(v: i64) -> Vec<u8> {
    let mut out = vec![0; 16];
    if v != 0 {
        let zeros = v.unsigned_abs().leading_zeros();
        out[..8].copy_from_slice(&(v.unsigned_abs() << zeros).to_le_bytes());
        let exponent = (16383 + 63 - zeros as u16) | if v < 0 { 0x8000 } else { 0 };
        out[8..10].copy_from_slice(&exponent.to_le_bytes());
    }
    out
}

fn f80_value(b: &[u8]) -> i64 {
    let mantissa = u64::from_le_bytes(b[..8].try_into().unwrap());
    let exponent = u16::from_le_bytes(b[8..10].try_into().unwrap());
    if mantissa == 0 {
        return 0;
    }
    let shift = 16383 + 63 - u32::from(exponent & 0x7fff);
    let v = (mantissa >> shift) as i64;
    if exponent & 0x8000 != 0 { -v } else { v }
}

/// Elements from random words: whole numbers where rounding would differ.
fn elements(ty: Type, words: &[i64]) -> Vec<u8> {
    let bytes = |w: i64| match ty {
        Type::F32 => (w as f32).to_ne_bytes().to_vec(),
        Type::F64 => (w as f64).to_ne_bytes().to_vec(),
        Type::F80 => f80_bytes(w % (1 << 20)),
        Type::C32 => {
            [(w as i16 as f32).to_ne_bytes(), ((w >> 16) as i16 as f32).to_ne_bytes()].concat()
        }
        Type::C64 => [(w as i32 as f64).to_ne_bytes(), ((w >> 32) as f64).to_ne_bytes()].concat(),
        ty => w.to_ne_bytes()[..ty.size()].to_vec(),
    };
    words.iter().flat_map(|&w| bytes(w)).collect()
}

fn equal(ty: Type, a: &[u8], b: &[u8]) -> bool {
    // Sign and payload of what is no number are the processor's affair.
    match ty {
        Type::F32 => f32::from_ne_bytes(a.try_into().unwrap()).is_nan() || a == b,
        Type::F64 => f64::from_ne_bytes(a.try_into().unwrap()).is_nan() || a == b,
        // Zero times a negative number keeps a sign.
        Type::F80 => f80_value(a) == f80_value(b) && (f80_value(a) != 0 || a[..8] == b[..8]),
        _ => a == b,
    }
}

proptest! {
    #[test]
    fn all_operations(
        a in prop::collection::vec(any::<i64>(), 1..6),
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
                for kind in [Kind::Update, Kind::Fetch] {
                    let mut memory = vec![0_u128; a.len() + 2];
                    let base = memory.as_mut_ptr().cast::<u8>();
                    let mut result = vec![0x77; va.len() + 1];
                    let operand = [&[0_u8][..], &vb].concat();
                    // SAFETY: all buffers are as long as the elements; both
                    // others lie at odd addresses.
                    let after = unsafe {
                        let at = base.add(skew);
                        std::ptr::copy_nonoverlapping(va.as_ptr(), at, va.len());
                        Work {
                            kind, ty, op, at,
                            operand: operand.as_ptr().add(1),
                            compare: std::ptr::null(),
                            result: result.as_mut_ptr().add(1),
                            count: a.len(),
                        }.run(&lock);
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
