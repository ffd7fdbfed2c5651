//! Lists of blocks, and operations that are waited for one by one.

use super::*;
use crate::{ensure, refused};
use rankway::rma::{ErrorKind, Layout};

/// Random layouts against copies made plainly.
pub fn lists<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const PART: usize = 3000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, PART * n as usize, 1)?;
    let mut dice = Dice::new(u64::from(me));
    w.lock_all().map_err(text)?;
    for round in 0..30 {
        let to = (me + round) % n;
        // Blocks with gaps, together at most PART; the same bytes on both
        // sides.
        let list = |dice: &mut Dice, bytes: usize| {
            let mut list = Vec::new();
            let (mut at, mut left) = (0, bytes);
            while left > 0 {
                at += dice.below(12);
                let len = (1 + dice.below(40)).min(left);
                list.push((at, len));
                (at, left) = (at + len, left - len);
            }
            // Not in the order of their places.
            if list.len() > 2 {
                list.swap(0, 1);
            }
            list
        };
        let bytes = dice.below(1000);
        let (here, there) = (list(&mut dice, bytes), list(&mut dice, bytes));
        let vector = Layout::Vector { count: bytes / 7, len: 7, stride: 11 };
        let short = list(&mut dice, bytes / 7 * 7);
        let (here, there) = if round % 3 == 0 {
            (vector, Layout::List(&short))
        } else {
            (Layout::List(&here), Layout::List(&there))
        };
        let buf: Vec<u8> = (0..PART).map(|_| dice.next() as u8).collect();
        let at = PART * me as usize;
        w.put(&vec![0; PART], to, at).map_err(text)?;
        w.put_iov(&buf, &here, to, at, &there).map_err(text)?;
        w.flush(to).map_err(text)?;
        let places = |layout: &Layout<'_>| -> Vec<usize> {
            match layout {
                Layout::List(list) => list.iter().flat_map(|&(at, len)| at..at + len).collect(),
                Layout::Vector { count, len, stride } => {
                    (0..*count).flat_map(|i| i * stride..i * stride + len).collect()
                }
            }
        };
        let mut want = vec![0; PART];
        for (h, t) in places(&here).into_iter().zip(places(&there)) {
            want[t] = buf[h];
        }
        let mut got = vec![0; PART];
        w.get(&mut got, to, at).map_err(text)?;
        same("blocks put", &got, &want)?;
        // And back, with what stood between left alone.
        let mut back = vec![0xee; PART];
        w.get_iov(&mut back, &here, to, at, &there).map_err(text)?;
        let mut want = vec![0xee; PART];
        places(&here).into_iter().for_each(|h| want[h] = buf[h]);
        same("blocks got", &back, &want)?;
    }
    // Elements: whole blocks of them.
    let to = (me + 1) % n;
    let at = PART * me as usize;
    w.put(&[0; 160], to, at).map_err(text)?;
    w.flush(to).map_err(text)?;
    let from = Layout::Vector { count: 4, len: 16, stride: 24 };
    let into = Layout::List(&[(0, 8), (24, 48), (80, 8)]);
    let operands: Vec<u64> = (0..12).collect();
    w.accumulate_iov(&operands, &from, Op::Sum, to, at, &into).map_err(text)?;
    w.flush(to).map_err(text)?;
    let mut got = [0; 88];
    w.get(&mut got, to, at).map_err(text)?;
    let words: Vec<u64> =
        got.chunks(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap())).collect();
    ensure!(words == [0, 0, 0, 1, 3, 4, 6, 7, 9, 0, 10], "{words:?}");
    // What does not fit is refused before anything is done.
    let buf = [1_u8; 64];
    let one = Layout::contiguous(8);
    for wrong in [Layout::List(&[(0, 4)]), Layout::List(&[(0, 4), (8, 5)])] {
        refused!(w.put_iov(&buf, &one, to, at, &wrong), ErrorKind::Arguments(_));
    }
    let far = Layout::List(&[(0, 4), (PART * 100, 4)]);
    refused!(w.put_iov(&buf, &one, to, at, &far), ErrorKind::OutOfBounds { .. });
    let wrapped = Layout::List(&[(0, 4), (usize::MAX, 4)]);
    refused!(w.put_iov(&buf, &one, to, at, &wrapped), ErrorKind::OutOfBounds { .. });
    refused!(w.put_iov(&buf, &wrapped, to, at, &one), ErrorKind::Arguments(_));
    refused!(w.get_iov(&mut [0; 7], &one, to, at, &one), ErrorKind::Arguments(_));
    refused!(w.put_iov(&buf, &one, n, at, &one), ErrorKind::Rank { .. });
    let odd = Layout::List(&[(0, 4), (4, 4)]);
    refused!(w.accumulate_iov(&[1_u64], &one, Op::Sum, to, at, &odd), ErrorKind::Arguments(_));
    w.put_iov(&[], &Layout::List(&[]), to, at, &Layout::contiguous(0)).map_err(text)?;
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
