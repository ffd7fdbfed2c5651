//! Atomics against an oracle that knows nothing of atomics.

use super::memory::Exposed;
use super::pair::byte;
use super::{Opens, Pair};
use crate::ensure;
use crate::harness::Result;
use rankway::boot::Boot;
use rankway::netmod::{Atomic, Kind, Op, PENDING, Type};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KINDS: [Kind; 3] = [Kind::Update, Kind::Fetch, Kind::Swap];

/// An element of this type, by number; small whole numbers where it is not an
/// integer, so that nothing is rounded.
fn element(ty: Type, seed: u64, at: usize) -> Vec<u8> {
    let small = |k: usize| f64::from(byte(seed, at * 2 + k) % 17) - 8.0;
    let floats = |k: usize| (small(k) as f32).to_le_bytes().to_vec();
    let doubles = |k: usize| small(k).to_le_bytes().to_vec();
    match ty {
        Type::F32 => floats(0),
        Type::F64 => doubles(0),
        Type::F80 => extended(small(0)),
        Type::C32 => [floats(0), floats(1)].concat(),
        Type::C64 => [doubles(0), doubles(1)].concat(),
        // Zeroes among them, for logical operations.
        ty if byte(seed, at).is_multiple_of(4) => vec![0; ty.size()],
        ty => (0..ty.size()).map(|i| byte(seed + 1, at * 8 + i)).collect(),
    }
}

fn elements(ty: Type, seed: u64, count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| element(ty, seed, at)).collect()
}

/// x86's extended number, padded to 16 bytes.
fn extended(x: f64) -> Vec<u8> {
    let mut out = vec![0; 16];
    if x != 0.0 {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u16 + 16383 - 1023;
        let mantissa = 1 << 63 | (bits & ((1 << 52) - 1)) << 11;
        out[..8].copy_from_slice(&mantissa.to_le_bytes());
        out[8..10].copy_from_slice(&(exponent | ((bits >> 63) as u16) << 15).to_le_bytes());
    }
    out
}

fn from_extended(b: &[u8]) -> f64 {
    let mantissa = u64::from_le_bytes(std::array::from_fn(|i| b[i]));
    let top = u16::from_le_bytes([b[8], b[9]]);
    let magnitude = mantissa as f64 * 2_f64.powi(i32::from(top & 0x7fff) - 16383 - 63);
    if top >> 15 == 1 { -magnitude } else { magnitude }
}

fn real(op: Op, a: f64, b: f64) -> f64 {
    match op {
        Op::Sum => a + b,
        Op::Prod => a * b,
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::Replace => b,
        Op::NoOp => a,
        op => panic!("{op:?} of floating point numbers"),
    }
}

fn complex(op: Op, (a, b): (f64, f64), (c, d): (f64, f64)) -> (f64, f64) {
    match op {
        Op::Prod => (a * c - b * d, a * d + b * c),
        op => (real(op, a, c), real(op, b, d)),
    }
}

fn integer(ty: Type, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    let signed = matches!(ty, Type::I8 | Type::I16 | Type::I32 | Type::I64);
    let wide = |bytes: &[u8]| {
        let negative = signed && bytes.last().is_some_and(|b| b >> 7 == 1);
        let mut all = if negative { [0xff; 16] } else { [0; 16] };
        all[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(all)
    };
    let (a, b) = (wide(a), wide(b));
    let truth = |yes: bool| i128::from(yes);
    let result = match op {
        Op::Sum => a + b,
        Op::Prod => a.wrapping_mul(b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::Band => a & b,
        Op::Bor => a | b,
        Op::Bxor => a ^ b,
        Op::Land => truth(a != 0 && b != 0),
        Op::Lor => truth(a != 0 || b != 0),
        Op::Lxor => truth((a != 0) != (b != 0)),
        Op::Replace => b,
        Op::NoOp => a,
    };
    result.to_le_bytes()[..ty.size()].to_vec()
}

/// The element after the operation.
fn oracle(ty: Type, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    let single = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let double = |b: &[u8]| f64::from_le_bytes(std::array::from_fn(|i| b[i]));
    match ty {
        Type::F32 => (real(op, single(a), single(b)) as f32).to_le_bytes().to_vec(),
        Type::F64 => real(op, double(a), double(b)).to_le_bytes().to_vec(),
        Type::F80 => extended(real(op, from_extended(a), from_extended(b))),
        Type::C32 => {
            let pair = |b: &[u8]| (single(b), single(&b[4..]));
            let (x, y) = complex(op, pair(a), pair(b));
            [(x as f32).to_le_bytes(), (y as f32).to_le_bytes()].concat()
        }
        Type::C64 => {
            let pair = |b: &[u8]| (double(b), double(&b[8..]));
            let (x, y) = complex(op, pair(a), pair(b));
            [x.to_le_bytes(), y.to_le_bytes()].concat()
        }
        ty => integer(ty, op, a, b),
    }
}

/// Equal, zeroes of both signs taken as one and padding left out.
fn same(ty: Type, a: &[u8], b: &[u8]) -> bool {
    let used = if ty == Type::F80 { 10 } else { ty.size() };
    let width = match ty {
        Type::C32 | Type::C64 => ty.size() / 2,
        _ => used,
    };
    let float = matches!(ty, Type::F32 | Type::F64 | Type::F80 | Type::C32 | Type::C64);
    let plain = |part: &[u8]| {
        let mut part = part.to_vec();
        let last = part.len() - 1;
        if float && part[..last].iter().all(|&b| b == 0) && part[last] == 0x80 {
            part[last] = 0;
        }
        part
    };
    a[..used].chunks(width).map(plain).eq(b[..used].chunks(width).map(plain))
}

fn compare(what: &str, ty: Type, got: &[u8], expected: &[u8]) -> Result {
    let pairs = got.chunks(ty.size()).zip(expected.chunks(ty.size()));
    for (at, (g, e)) in pairs.enumerate() {
        ensure!(same(ty, g, e), "{what}: element {at}: {g:02x?} instead of {e:02x?}");
    }
    Ok(())
}

/// Every operation the provider claims, on one element, some, and as many as
/// it takes.
pub fn all<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 1 << 18;
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "atomics", LEN)?;
    let (mut claimed, mut token) = (0, 0);
    let every = KINDS.iter().flat_map(|&kind| {
        Type::ALL.iter().flat_map(move |&ty| Op::ALL.iter().map(move |&op| (kind, ty, op)))
    });
    for (n, (kind, ty, op)) in every.enumerate() {
        let limit = p.net.atomic_limit(&p.endpoint, kind, ty, op);
        if limit == 0 {
            continue;
        }
        claimed += 1;
        let size = ty.size();
        let most = limit.min(LEN / size / 4);
        let counts = [1, most.min(3), most.min(17), most];
        let pitch = LEN / 4;
        let seed = n as u64 * 10;
        // Both sides know what is there, and what will be.
        let before = |i: usize| elements(ty, seed + i as u64, counts[i]);
        let operand = |i: usize| elements(ty, seed + 4 + i as u64, counts[i]);
        // Every other comparand is equal.
        let comparand = |i: usize| {
            let mut all = before(i);
            for at in (0..counts[i]).step_by(2) {
                all[at * size..][..size].copy_from_slice(&element(ty, seed + 8, at));
            }
            all
        };
        let after = |i: usize| -> Vec<u8> {
            let (a, b, c) = (before(i), operand(i), comparand(i));
            let at = |v: &[u8], k: usize| v[k * size..][..size].to_vec();
            (0..counts[i])
                .flat_map(|k| match kind {
                    Kind::Swap if at(&a, k) == at(&c, k) => at(&b, k),
                    Kind::Swap => at(&a, k),
                    _ => oracle(ty, op, &at(&a, k), &at(&b, k)),
                })
                .collect()
        };
        let mut memory = vec![0; LEN];
        for (i, &count) in counts.iter().enumerate() {
            memory[i * pitch..][..count * size].copy_from_slice(&before(i));
        }
        x.write(&memory);
        p.meet()?;
        for (i, &count) in counts.iter().enumerate() {
            let what = format!("{kind:?} {ty:?} {op:?} of {count}");
            let (operand, compare_with) = (operand(i), comparand(i));
            let mut result = vec![0x77; count * size + 8];
            token += 1;
            let a = Atomic {
                kind,
                ty,
                op,
                operand: if op == Op::NoOp { std::ptr::null() } else { operand.as_ptr() },
                compare: if kind == Kind::Swap { compare_with.as_ptr() } else { std::ptr::null() },
                result: if kind == Kind::Update {
                    std::ptr::null_mut()
                } else {
                    result.as_mut_ptr()
                },
                count,
                dest: p.dest,
                addr: x.addr + (i * pitch) as u64,
                key: x.key,
                token,
            };
            // SAFETY: the buffers stay until the token came back.
            match p.issue(&what, || unsafe { p.net.atomic(&p.endpoint, &a) })? {
                0 => p.flush()?,
                _ => p.wait(&what, token)?,
            }
            let len = count * size;
            if kind == Kind::Update {
                ensure!(result.iter().all(|&b| b == 0x77), "{what}: wrote a result");
            } else {
                compare(&format!("{what}: result"), ty, &result[..len], &before(i))?;
            }
            ensure!(result[len..] == [0x77; 8], "{what}: wrote behind the result");
        }
        p.meet()?;
        let now = x.read();
        for (i, &count) in counts.iter().enumerate() {
            let what = format!("{kind:?} {ty:?} {op:?} of {count}: memory");
            let expected = after(i);
            compare(&what, ty, &now[i * pitch..][..expected.len()], &expected)?;
            let behind = &now[i * pitch + expected.len()..(i + 1) * pitch];
            ensure!(behind.iter().all(|&b| b == 0), "{what}: wrote behind its end");
        }
    }
    println!("rank {}: {claimed} atomics claimed", p.rank);
    p.meet()
}

/// A peer adds to a word through the provider, with many additions under way:
/// none is lost. And once more while this process's own threads add to it,
/// where that may be done.
pub fn hammer<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "hammer", 64)?;
    let mut token = 0;
    for ty in [Type::U64, Type::U32, Type::U16, Type::U8] {
        for kind in [Kind::Fetch, Kind::Update] {
            if p.net.atomic_limit(&p.endpoint, kind, ty, Op::Sum) == 0 {
                continue;
            }
            for shared in [false, true] {
                x.write(&[0; 64]);
                p.meet()?;
                if p.rank == 0 {
                    add_remotely(&p, &x, kind, ty, &mut token)?;
                    p.meet()?;
                    continue;
                }
                let stop = AtomicBool::new(!shared);
                let address = x.start().expose_provenance();
                let mine = std::thread::scope(|scope| {
                    let adder = scope.spawn(|| add(ty, address, &stop));
                    let met = p.meet();
                    stop.store(true, Ordering::Relaxed);
                    let count = adder.join().map_err(|_| "the thread died".to_owned());
                    met.and(count)
                })?;
                let size = ty.size();
                let mut now = [0; 8];
                now[..size].copy_from_slice(&x.read()[..size]);
                let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
                let lost = (mine + ADDED).wrapping_sub(u64::from_le_bytes(now)) & mask;
                let what =
                    format!("{ty:?} {kind:?}: {mine} by the processor, {ADDED} by the provider");
                println!("{what}: lost {lost}");
                ensure!(lost == 0 || (shared && !p.net.caps().cpu_atomics), "{what}: lost {lost}");
            }
        }
    }
    p.meet()
}

/// Elements of a target that never polls, changed from two endpoints at once: every sum is
/// right, and what one of them does is in order.
pub fn absent_target<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 1 << 16;
    const ROUNDS: u64 = 2000;
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "absent", LEN)?;
    let word = |at: usize| {
        // SAFETY: within the memory, which peers write to.
        unsafe { x.start().cast::<u64>().add(at).read_volatile() }
    };
    // Words: those of both, then of each its own, then how many are done.
    let (own, done) = (|who: usize| 4000 + who, 8000);
    if p.rank == 1 {
        let start = Instant::now();
        while word(done) != 2 {
            ensure!(start.elapsed() < Duration::from_secs(20), "they wait for this one");
            std::hint::spin_loop();
        }
        for at in 0..300 {
            ensure!(word(at) == 2 * ROUNDS, "{} at {at}, not {}", word(at), 2 * ROUNDS);
        }
        ensure!([own(0), own(1)].map(word) == [ROUNDS; 2], "{:?}", [own(0), own(1)].map(word));
        return p.meet();
    }
    let (start, key) = (x.addr, x.key);
    let change = |p: &Pair<N>, who: usize| -> Result {
        let mut token = 0;
        let mut operate = |kind, op, at: usize, words: &[u64], compare: &[u64]| {
            let mut old = vec![0_u64; words.len()];
            token += 1;
            let a = Atomic {
                kind,
                ty: Type::U64,
                op,
                operand: words.as_ptr().cast(),
                compare: compare.as_ptr().cast(),
                result: old.as_mut_ptr().cast(),
                count: words.len(),
                dest: p.dest,
                addr: start + 8 * at as u64,
                key,
                token,
            };
            // SAFETY: the buffers stay until the token came back.
            if p.issue("an operation", || unsafe { p.net.atomic(&p.endpoint, &a) })? == PENDING {
                p.wait("an operation", token)?;
            }
            Ok::<_, String>(old)
        };
        for round in 0..ROUNDS {
            operate(Kind::Update, Op::Sum, 0, &[1; 300], &[])?;
            let old = operate(Kind::Swap, Op::Replace, own(who), &[round + 1], &[round])?;
            ensure!(old == [round], "{old:?} in round {round}");
            if round % 7 == 0 {
                let old = operate(Kind::Fetch, Op::Max, own(who), &[round], &[])?;
                ensure!(old == [round + 1], "{old:?} behind round {round}");
                p.flush()?;
            }
        }
        operate(Kind::Fetch, Op::Sum, done, &[1], &[])?;
        Ok(())
    };
    let other = p.another()?;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || change(&other, 1));
        let mine = change(&p, 0);
        mine.and(other.join().map_err(|_| "the thread died".to_owned())?)
    })?;
    p.meet()
}

/// How often the peer adds.
const ADDED: u64 = 5000;

fn add_remotely<N: Opens>(
    p: &Pair<N>,
    x: &Exposed<N>,
    kind: Kind,
    ty: Type,
    token: &mut u64,
) -> Result {
    const WINDOW: u64 = 64;
    let one = 1_u64.to_le_bytes();
    let mut results = [0_u64; WINDOW as usize];
    for n in 0..ADDED {
        *token += 1;
        if n >= WINDOW {
            p.wait("add", *token - WINDOW)?;
        }
        let a = Atomic {
            kind,
            ty,
            op: Op::Sum,
            operand: one.as_ptr(),
            compare: std::ptr::null(),
            result: (&raw mut results[(n % WINDOW) as usize]).cast(),
            count: 1,
            dest: p.dest,
            addr: x.addr,
            key: x.key,
            token: *token,
        };
        // SAFETY: the buffers stay until the token came back.
        if p.issue("add", || unsafe { p.net.atomic(&p.endpoint, &a) })? == 0 {
            p.done.borrow_mut().insert(*token, Ok(()));
        }
    }
    (*token - WINDOW + 1..=*token).try_for_each(|t| p.wait("add", t))?;
    p.flush()
}

/// Adds one again and again; says how often.
fn add(ty: Type, address: usize, stop: &AtomicBool) -> u64 {
    let mut count = 0;
    let word = std::ptr::with_exposed_provenance_mut::<u8>(address);
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: the word is registered memory of this process, aligned, there
        // for longer than this thread, and only changed atomically.
        unsafe {
            match ty.size() {
                1 => u64::from(AtomicU8::from_ptr(word).fetch_add(1, Ordering::Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(word.cast()).fetch_add(1, Ordering::Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(word.cast()).fetch_add(1, Ordering::Relaxed)),
                _ => AtomicU64::from_ptr(word.cast()).fetch_add(1, Ordering::Relaxed),
            }
        };
        count += 1;
    }
    count
}
