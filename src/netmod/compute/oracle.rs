//! What operations do to elements, written down plainly, for the tests here and
//! for those between processes.

use super::{Op, Type};

/// One element's bytes after an operation, computed without any of the above.
pub(super) fn naive(ty: Type, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
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
pub(super) fn elements(ty: Type, words: &[i64]) -> Vec<u8> {
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

/// Whether two elements are the same number.
pub(super) fn equal(ty: Type, a: &[u8], b: &[u8]) -> bool {
    // Sign and payload of what is no number are the processor's affair.
    match ty {
        Type::F32 => f32::from_ne_bytes(a.try_into().unwrap()).is_nan() || a == b,
        Type::F64 => f64::from_ne_bytes(a.try_into().unwrap()).is_nan() || a == b,
        // Zero times a negative number keeps a sign.
        Type::F80 => f80_value(a) == f80_value(b) && (f80_value(a) != 0 || a[..8] == b[..8]),
        _ => a == b,
    }
}
