//! Layouts at both ends, and operations that are waited for one by one.

use super::*;
use crate::{ensure, refused};
use rankway::datatype::{Basic, Layout, LayoutError};
use rankway::rma::{Access, ErrorKind};

/// What a rank has of each other's memory.
const PART: usize = 6000;
/// The origin of layouts, in a part or a buffer of as many bytes.
const ORIGIN: usize = 3000;

fn made(layout: std::result::Result<Layout, LayoutError>) -> Result<Layout> {
    layout.map_err(text)
}

/// The byte of a part that each byte of the packed stream is.
fn places(layout: &Layout) -> Vec<usize> {
    let mut all = Vec::new();
    let inside = |at: i64| (ORIGIN as i64 + at) as usize;
    layout.for_each_block(|at, len| all.extend(inside(at)..inside(at + len as i64)));
    all
}

/// Some layout of so many bytes that begins and ends within a part: vectors of any
/// sign, nested ones, lists in any order.
fn some(dice: &mut Dice, bytes: usize) -> Result<Layout> {
    let byte = Layout::basic(Basic::U8);
    let longest = if dice.below(3) == 0 { 300 } else { 20 };
    let block = 1 + dice.below(longest);
    let (count, rest) = (bytes / block, bytes % block);
    let sign = if dice.below(2) == 0 { 1 } else { -1 };
    let most = (ORIGIN - 320) / count.max(1);
    if dice.below(2) == 0 && most >= block {
        let stride = sign * (block + dice.below(most - block + 1)) as i64;
        let vector = made(Layout::hvector(count as u64, block as u64, stride, &byte))?;
        // The rest is on the other side of the origin.
        let at = if sign > 0 { -(rest as i64) } else { block as i64 };
        return made(Layout::structure(&[(1, 0, &vector), (rest as u64, at, &byte)]));
    }
    let (mut at, mut left) = (-(ORIGIN as i64) + 1, bytes);
    let (mut lengths, mut offsets) = (Vec::new(), Vec::new());
    while left > 0 {
        at += dice.below(12) as i64;
        let len = (1 + dice.below(40)).min(left);
        lengths.push(len as u64);
        offsets.push(at);
        (at, left) = (at + len as i64, left - len);
    }
    // Not in the order of their places.
    for _ in 0..lengths.len() / 2 {
        let (a, b) = (dice.below(lengths.len()), dice.below(lengths.len()));
        lengths.swap(a, b);
        offsets.swap(a, b);
    }
    made(Layout::hindexed(&lengths, &offsets, &byte))
}

/// Random layouts against copies made plainly.
pub fn bytes<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, PART * n as usize, 1)?;
    let mut dice = Dice::new(u64::from(me));
    w.lock_all().map_err(text)?;
    for round in 0..40 {
        let to = (me + round) % n;
        let bytes = dice.below(1600);
        let byte = Layout::basic(Basic::U8);
        let whole = made(Layout::contiguous(bytes as u64, &byte))?;
        let (here, there) = match round % 5 {
            0 => (whole, some(&mut dice, bytes)?),
            1 => (some(&mut dice, bytes)?, whole),
            _ => (some(&mut dice, bytes)?, some(&mut dice, bytes)?),
        };
        let buf: Vec<u8> = (0..PART).map(|_| dice.next() as u8).collect();
        let at = PART * me as usize;
        w.put(&vec![0; PART], to, at).map_err(text)?;
        w.flush(to).map_err(text)?;
        let disp = at + ORIGIN;
        let access: &Access<N> = &w;
        let start = buf.as_ptr().wrapping_add(ORIGIN);
        // SAFETY: the buffer stays until the flush.
        unsafe {
            match round % 3 {
                0 => access.put_layout(&buf, ORIGIN, &here, to, disp, &there).map_err(text)?,
                1 => access.put_layout_nb(start, &here, to, disp, &there).map_err(text)?,
                _ => {
                    let request = access.rput_layout(start, &here, to, disp, &there);
                    request.map_err(text)?.wait().map_err(text)?;
                }
            }
        }
        w.flush(to).map_err(text)?;
        let mut want = vec![0; PART];
        for (h, t) in places(&here).into_iter().zip(places(&there)) {
            want[t] = buf[h];
        }
        let mut got = vec![0; PART];
        w.get(&mut got, to, at).map_err(text)?;
        same("bytes put", &got, &want)?;
        // And back, with what stood between left alone.
        let mut back = vec![0xee; PART];
        let start = back.as_mut_ptr().wrapping_add(ORIGIN);
        // SAFETY: the buffer stays until the flush, and is not looked at before.
        unsafe {
            match round % 4 {
                0 => access.get_layout(&mut back, ORIGIN, &here, to, disp, &there).map_err(text)?,
                1 => {
                    access.get_layout_nb(start, &here, to, disp, &there).map_err(text)?;
                    access.flush(to).map_err(text)?;
                }
                _ => {
                    let request = access.rget_layout(start, &here, to, disp, &there);
                    request.map_err(text)?.wait().map_err(text)?;
                }
            }
        }
        let mut want = vec![0xee; PART];
        places(&here).into_iter().for_each(|h| want[h] = buf[h]);
        same("bytes got", &back, &want)?;
    }
    long(&w, (me + 1) % n, PART * me as usize)?;
    refusals(&w, n, (me + 1) % n, PART * n as usize)?;
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)
}

/// Longer than any fragment: one block at the target a thousand times over, which
/// takes the same byte again and again.
fn long<N: Netmod>(w: &Window<N>, to: u32, at: usize) -> Result {
    const ROWS: usize = 500;
    let byte = Layout::basic(Basic::U8);
    let column = made(Layout::hvector(ROWS as u64, 4, 12, &byte))?;
    let column = made(column.resized(0, 4))?;
    let columns = made(Layout::contiguous(3, &column))?;
    let all = made(Layout::contiguous(12 * ROWS as u64, &byte))?;
    let matrix: Vec<u8> = (0..12 * ROWS).map(|i| (i * 31 % 253) as u8).collect();
    w.put_layout(&matrix, 0, &columns, to, at, &all).map_err(text)?;
    w.flush(to).map_err(text)?;
    let (mut flat, mut back) = (vec![0; PART], vec![0; PART]);
    w.get(&mut flat, to, at).map_err(text)?;
    let of = |c: usize, r: usize| &matrix[12 * r + 4 * c..][..4];
    let want: Vec<u8> =
        (0..3).flat_map(|c| (0..ROWS).flat_map(move |r| of(c, r).to_vec())).collect();
    same("a transpose put", &flat, &want)?;
    w.get_layout(&mut back, 0, &columns, to, at, &all).map_err(text)?;
    same("a transpose got", &back, &matrix)
}

/// What does not fit is refused before anything is done, and says what would.
fn refusals<N: Netmod>(w: &Window<N>, n: u32, to: u32, bytes: usize) -> Result {
    let byte = Layout::basic(Basic::U8);
    let buf = [1_u8; 64];
    let one = made(Layout::contiguous(8, &byte))?;
    let back = made(Layout::hvector(2, 4, -20, &byte))?;
    for wrong in [4, 9] {
        let wrong = made(Layout::contiguous(wrong, &byte))?;
        refused!(w.put_layout(&buf, 0, &one, to, 0, &wrong), ErrorKind::Arguments(_));
    }
    for disp in [0, 19, bytes - 3, usize::MAX] {
        let put = w.put_layout(&buf, 0, &one, to, disp, &back);
        refused!(put, ErrorKind::LayoutOutOfBounds { .. });
    }
    let told = w.put_layout(&buf, 0, &one, to, 19, &back).map_err(text).unwrap_err();
    let fits = format!("displacements 20 to {} fit", bytes - 4);
    ensure!(told.contains(&format!("rank {to}")) && told.contains("displacement 19"), "{told}");
    ensure!(told.contains(&fits), "{told}");
    refused!(w.put_layout(&buf, 57, &one, to, 0, &one), ErrorKind::Layout(_));
    refused!(w.put_layout(&buf, 19, &back, to, 0, &one), ErrorKind::Layout(_));
    refused!(w.get_layout(&mut [0; 7], 0, &one, to, 0, &one), ErrorKind::Layout(_));
    refused!(w.put_layout(&buf, 0, &one, n, 0, &one), ErrorKind::Rank { .. });
    let sums =
        |from: &Layout, to_: &Layout| w.accumulate_layout(&buf, 0, from, Op::Sum, to, 0, to_);
    let words = made(Layout::contiguous(1, &Layout::basic(Basic::U64)))?;
    let mixed = made(Layout::structure(&[(1, 0, &words), (1, 8, &byte)]))?;
    refused!(sums(&one, &words), ErrorKind::Arguments(_));
    refused!(sums(&mixed, &mixed), ErrorKind::Arguments(_));
    let reals = Layout::basic(Basic::F64);
    let bits = w.accumulate_layout(&buf, 0, &reals, Op::Band, to, 0, &reals);
    refused!(bits, ErrorKind::Operation { .. });
    // SAFETY: refused.
    unsafe {
        let put = w.rput_layout(std::ptr::null(), &one, to, 0, &one);
        refused!(put, ErrorKind::NullBuffer { .. });
    }
    let none = made(Layout::contiguous(0, &byte))?;
    w.put_layout(&[], 0, &none, to, 0, &none).map_err(text)?;
    let told = w.explain_layout(&one, to, &back).map_err(text)?;
    ensure!(told.costs.iter().any(|(method, _)| *method == told.method), "{told:?}");
    Ok(())
}

/// Operations on elements at random places, against the same ones one by one.
pub fn elements<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const WORDS: usize = 6000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, 8 * WORDS * n as usize, 1)?;
    let mut dice = Dice::new(77 + u64::from(me));
    let word = Layout::basic(Basic::I64);
    w.lock_all().map_err(text)?;
    for round in 0..24 {
        let to = (me + round) % n;
        // The last rounds need more than one packet, and lie at odd addresses.
        let count = if round < 20 { dice.below(40) } else { 1500 + dice.below(1000) };
        let odd = usize::from(round % 7 == 6);
        let pick = |dice: &mut Dice| -> Result<(Layout, Vec<usize>)> {
            let mut at: Vec<usize> = match dice.below(3) {
                0 => (0..count).map(|i| 2 * i).collect(),
                1 => (0..count).map(|i| i + i / 3).collect(),
                _ => (0..count).collect(),
            };
            if dice.below(2) == 0 {
                at.reverse();
            }
            let offsets: Vec<i64> = at.iter().map(|&i| i as i64).collect();
            Ok((made(Layout::indexed_block(1, &offsets, &word))?, at))
        };
        let (from, sent) = pick(&mut dice)?;
        let (into, brought) = pick(&mut dice)?;
        let (there, taken) = pick(&mut dice)?;
        let disp = 8 * WORDS * me as usize + odd;
        let random =
            |dice: &mut Dice| -> Vec<i64> { (0..WORDS - 1).map(|_| dice.next() as i64).collect() };
        let raw = |words: &[i64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let (before, operands) = (random(&mut dice), random(&mut dice));
        w.put(&raw(&before), to, disp).map_err(text)?;
        w.flush(to).map_err(text)?;
        let bytes = raw(&operands);
        let op = [Op::Sum, Op::Replace, Op::Bxor, Op::Max, Op::NoOp][dice.below(5)];
        let mut results = vec![0x11_u8; 8 * WORDS];
        let fetches = op == Op::NoOp || dice.below(2) == 0;
        // SAFETY: all buffers stay until the request is complete, or the flush.
        unsafe {
            let (start, back) = (bytes.as_ptr(), results.as_mut_ptr());
            match (fetches, round % 2) {
                (false, 0) => w.accumulate_layout(&bytes, 0, &from, op, to, disp, &there),
                (false, _) => w
                    .raccumulate_layout(start, &from, op, to, disp, &there)
                    .and_then(|request| request.wait()),
                (true, 0) => {
                    w.get_accumulate_layout(start, &from, back, &into, op, to, disp, &there)
                }
                (true, _) => w
                    .rget_accumulate_layout(start, &from, back, &into, op, to, disp, &there)
                    .and_then(|request| request.wait()),
            }
        }
        .map_err(text)?;
        w.flush(to).map_err(text)?;
        let (mut want, mut fetched) = (before, vec![0x1111_1111_1111_1111_i64; WORDS]);
        for i in 0..count {
            let (at, operand) = (taken[i], operands[sent[i]]);
            if fetches {
                fetched[brought[i]] = want[at];
            }
            want[at] = match op {
                Op::Sum => want[at].wrapping_add(operand),
                Op::Replace => operand,
                Op::Bxor => want[at] ^ operand,
                Op::Max => want[at].max(operand),
                _ => want[at],
            };
        }
        let mut got = vec![0; 8 * (WORDS - 1)];
        w.get(&mut got, to, disp).map_err(text)?;
        same("elements changed", &got, &raw(&want))?;
        same("elements fetched", &results, &raw(&fetched))?;
    }
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)
}

/// Many under way at a time, ended in another order, and dropped.
pub fn requests<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const EACH: usize = 5000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut w = make::<N, KIND>(&world, 20 * EACH, 1)?;
    w.lock_all().map_err(text)?;
    let data: Vec<Vec<u8>> = (0..16_usize)
        .map(|i| (0..EACH).map(|k| (k * 7 + i * 13 + me as usize) as u8).collect())
        .collect();
    // SAFETY: `data` outlives the requests.
    let puts =
        data.iter().enumerate().map(|(i, b)| unsafe { w.rput(b.as_ptr(), EACH, to, i * EACH) });
    let mut puts = puts.collect::<std::result::Result<Vec<_>, _>>().map_err(text)?;
    // Ended from the back; one is dropped.
    drop(puts.remove(3));
    while let Some(mut request) = puts.pop() {
        if puts.len() % 2 == 0 {
            request.wait().map_err(text)?;
        } else {
            while !request.test().map_err(text)? {}
            ensure!(request.test().map_err(text)?, "a request that ended goes on");
        }
    }
    w.flush(to).map_err(text)?;
    drop(puts);
    let mut back = vec![vec![0_u8; EACH]; 16];
    let mut gets = Vec::new();
    for (i, b) in back.iter_mut().enumerate() {
        // SAFETY: `back` outlives the requests and is not looked at before.
        gets.push(unsafe { w.rget(b.as_mut_ptr(), EACH, to, i * EACH) }.map_err(text)?);
    }
    for request in gets.into_iter().rev() {
        request.wait().map_err(text)?;
    }
    for (got, want) in back.iter().zip(&data) {
        same("got by request", got, want)?;
    }
    let request = w.raccumulate(&[5_u32, 6], Op::Replace, to, 16 * EACH).map_err(text)?;
    request.wait().map_err(text)?;
    let (operands, mut results) = ([1_u32, 1], [0_u32; 2]);
    // SAFETY: both outlive the request.
    let request = unsafe {
        let (from, into) = (operands.as_ptr().cast(), results.as_mut_ptr().cast());
        w.rget_accumulate(from, into, 2, Type::U32, Op::Sum, to, 16 * EACH)
    };
    request.map_err(text)?.wait().map_err(text)?;
    ensure!(results == [5, 6], "{results:?}");
    // SAFETY: refused.
    unsafe {
        refused!(w.rput(std::ptr::null(), 8, to, 0), ErrorKind::NullBuffer { .. });
        refused!(w.rput(data[0].as_ptr(), 8, n, 0), ErrorKind::Rank { .. });
        refused!(w.rget(back[0].as_mut_ptr(), 8, to, 20 * EACH), ErrorKind::OutOfBounds { .. });
    }
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)
}
