//! Windows, lengths and places of every sort, each byte compared.

use super::*;

/// Sizes and units that differ between ranks, some with nothing at all.
pub fn uneven<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let (me, n) = (comm.rank(), comm.size());
        // By rank: bytes and unit; 8 x 9, 100 x 1, nothing, 3 x 1366 + 2.
        let shape = |rank: u32| [(72, 8), (100, 1), (0, 5), (4100, 3)][rank as usize % 4];
        let (bytes, unit) = shape(me);
        let mut w = make::<KIND, _>(&comm, bytes, unit).map_err(text)?;
        w.fence().map_err(text)?;
        let part = |rank: u32| shape(rank).0 / shape(rank).1 / n as usize;
        for to in 0..n {
            let (bytes, unit) = shape(to);
            let buf = pattern(me * 16 + to, part(to) * unit);
            w.put(&buf, to, me as usize * part(to)).map_err(text)?;
            refused!(w.put(&[1], to, bytes.div_ceil(unit)), ErrorKind::OutOfBounds { .. });
            refused!(w.put(&vec![1; bytes + 1], to, 0), ErrorKind::OutOfBounds { .. });
            w.put(&[], to, bytes / unit).map_err(text)?;
        }
        w.fence().map_err(text)?;
        let mut want = vec![0; bytes];
        for from in 0..n {
            let buf = pattern(from * 16 + me, part(me) * unit);
            let at = from as usize * part(me) * unit;
            want[at..at + buf.len()].copy_from_slice(&buf);
        }
        same("uneven", &own(&w)?, &want)?;
        for from in 0..n {
            let buf = pattern(me * 16 + from, part(from) * shape(from).1);
            let mut got = vec![0; buf.len()];
            w.get(&mut got, from, me as usize * part(from)).map_err(text)?;
            same("uneven, got", &got, &buf)?;
        }
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Lengths 1 to 17 at odd displacements, with nothing written beside them.
pub fn unaligned<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const PART: usize = 256;
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let (me, n) = (comm.rank(), comm.size());
        let mut w = make::<KIND, _>(&comm, PART * n as usize, 1).map_err(text)?;
        let places = || {
            (1..=17).scan(1, |at, len| {
                let this = *at | 1;
                *at = this + len + 1;
                Some((this, len))
            })
        };
        w.fence().map_err(text)?;
        for to in 0..n {
            for (at, len) in places() {
                let buf = pattern(me * 16 + to, len + 1);
                // From an odd address too.
                w.put(&buf[1..], to, me as usize * PART + at).map_err(text)?;
            }
        }
        w.fence().map_err(text)?;
        let mut want = vec![0; PART * n as usize];
        for from in 0..n {
            for (at, len) in places() {
                let at = from as usize * PART + at;
                want[at..at + len].copy_from_slice(&pattern(from * 16 + me, len + 1)[1..]);
            }
        }
        same("unaligned", &own(&w)?, &want)?;
        for from in 0..n {
            for (at, len) in places() {
                let mut got = vec![0; len + 2];
                w.get(&mut got[1..=len], from, me as usize * PART + at).map_err(text)?;
                let want = [&[0], &pattern(me * 16 + from, len + 1)[1..], &[0]].concat();
                same("unaligned, got", &got, &want)?;
            }
        }
        w.free().map_err(text)?;
    }
    Ok(())
}

const MIB: usize = 1 << 20;

/// Puts around the inject size, of a megabyte and of 64, and gets of them.
pub fn lengths<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let endpoint =
        context.endpoint(Transport::Network).or_else(|| context.endpoint(Transport::Local));
    let inject = endpoint.ok_or("no provider")?.0.caps().inject_size;
    let capacity = 64 * MIB + 4096;
    let mut w = make::<KIND, _>(&world, capacity, 1).map_err(text)?;
    w.fence().map_err(text)?;
    for (seed, len) in (1..).zip([inject - 1, inject, inject + 1, 4097, MIB, 64 * MIB]) {
        let buf = pattern(seed, len);
        let at = seed as usize * 3;
        if me == 0 {
            w.put(&buf, 1, at).map_err(text)?;
            w.flush(1).map_err(text)?;
        }
        w.fence().map_err(text)?;
        if me == 1 {
            let mut got = vec![0; len + 2];
            w.read_local(at - 1, &mut got).map_err(text)?;
            same(&format!("{len} bytes put"), &got[1..=len], &buf)?;
        }
        if me == 0 && len <= MIB {
            let mut got = vec![0; len];
            w.get(&mut got, 1, at).map_err(text)?;
            same(&format!("{len} bytes got"), &got, &buf)?;
        }
        w.fence().map_err(text)?;
    }
    // Several under way at one time; the buffers are kept until the flush.
    let each = MIB / 2 + 13;
    let buffers: Vec<Vec<u8>> = (20..36).map(|seed| pattern(seed, each)).collect();
    if me == 0 {
        for (i, buf) in buffers.iter().enumerate() {
            // SAFETY: `buffers` outlives the flush.
            unsafe { w.put_nb(buf.as_ptr(), each, 1, i * each) }.map_err(text)?;
        }
        w.flush(1).map_err(text)?;
        let mut back = vec![vec![0; each]; buffers.len()];
        for (i, buf) in back.iter_mut().enumerate() {
            // SAFETY: `back` outlives the flush and is not looked at before.
            unsafe { w.get_nb(buf.as_mut_ptr(), each, 1, i * each) }.map_err(text)?;
        }
        w.flush(1).map_err(text)?;
        for (i, (got, want)) in back.iter().zip(&buffers).enumerate() {
            same(&format!("get {i} under way with others"), got, want)?;
        }
    }
    w.fence().map_err(text)?;
    if me == 1 {
        let all = own(&w)?;
        for (i, buf) in buffers.iter().enumerate() {
            same(&format!("put {i} under way with others"), &all[i * each..][..each], buf)?;
        }
    }
    w.free().map_err(text)
}

/// A hundred windows at one time, each with its own bytes.
pub fn many<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(make::<KIND, _>(&world, 16, 8).map_err(text)?);
    }
    for (round, w) in (0..).zip(&all) {
        w.lock_all().map_err(text)?;
        w.put(&word(me, to, round), to, 1).map_err(text)?;
        w.unlock_all().map_err(text)?;
    }
    world.barrier().map_err(text)?;
    for (round, mut w) in (0..).zip(all) {
        let want = word((me + n - 1) % n, me, round);
        same("one of many", &own(&w)?, &[[0; 8], want].concat())?;
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Memory that goes back to the system and comes again at the same address:
/// what a network keeps registered of before is of other pages.
pub fn given_back<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 600_000;
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    for round in 0..8 {
        let mut memory = vec![0_u8; LEN];
        // SAFETY: freed before the memory is.
        let w = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) };
        let mut w = w.map_err(text)?;
        let buf = pattern(me * 16 + round, LEN);
        let mut back = vec![0_u8; LEN];
        w.fence().map_err(text)?;
        // SAFETY: both buffers outlive the flushes.
        unsafe {
            w.put_nb(buf.as_ptr(), LEN, to, 0).map_err(text)?;
            w.flush(to).map_err(text)?;
            w.get_nb(back.as_mut_ptr(), LEN, to, 0).map_err(text)?;
            w.flush(to).map_err(text)?;
        }
        same(&format!("got back in round {round}"), &back, &buf)?;
        back.fill(0);
        // SAFETY: in the epoch, and as above.
        unsafe {
            ensure!(!w.get_unchecked(back.as_mut_ptr(), 0, to, 0), "nothing was got");
            let again = w.get_unchecked(back.as_mut_ptr(), 8, to, 24);
            // (The node module takes a short get of a rank it was asked for before at once.)
            ensure!(again || N::NAME != "node", "left");
            w.flush(to).map_err(text)?;
            if again {
                same("got again", &back[..8], &buf[24..32])?;
            }
        }
        w.fence().map_err(text)?;
        w.free().map_err(text)?;
        same(&format!("put in round {round}"), &memory, &pattern(from * 16 + round, LEN))?;
        drop((memory, buf, back));
        // SAFETY: no arguments to speak of; glibc's alone gives memory back so.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
    }
    Ok(())
}
