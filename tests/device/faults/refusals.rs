//! Providers that are not there, garbage from peers, keys that open nothing: what
//! is wrong is said, by name.

use super::about;
use crate::ensure;
use crate::harness::{Result, Watched, print_pid, text};
use crate::rma::{CREATED, Opens, make, open, own, pattern, same, word};
use rankway::boot::{Boot, BootError};
use rankway::device::{self, DeviceError, Options};
use rankway::msg::Messenger;
use rankway::netmod::ofi::{Domain, Ofi, Request};
use rankway::netmod::{NetError, Netmod, Op, null::Null};
use rankway::rma::{Assert, Communicator, ErrorKind, Lock, Window};
use std::sync::Arc;
use std::time::Duration;

/// Opening fails, and the reason holds every one of `words`.
pub fn refuses(boot: Arc<dyn Boot>, words: &[&str]) -> Result {
    refuses_over::<Ofi>(boot, words)
}

/// The same over another netmod.
pub fn refuses_over<N: Opens>(boot: Arc<dyn Boot>, words: &[&str]) -> Result {
    print_pid();
    let why = N::open(boot).err().ok_or("it opened")?;
    println!("{why}");
    match words.iter().find(|word| !why.contains(**word)) {
        Some(word) => Err(format!("'{word}' is not in: {why}")),
        None => Ok(()),
    }
}

/// One rank cannot open its provider; the others hear that it is gone.
pub fn one_without_provider(boot: Arc<dyn Boot>) -> Result {
    let rank = boot.rank();
    let provider = (rank == 1).then(|| "nosuch".to_owned());
    match device::open_ofi(boot, &Options::default().provider(provider)) {
        Err(DeviceError::Net(NetError::NoProvider { wanted, .. })) if rank == 1 => {
            ensure!(wanted == "nosuch", "{wanted}");
            Ok(())
        }
        Err(e) if rank != 1 && e.rank() == Some(1) => Ok(()),
        other => Err(format!("{:?}", other.map(drop))),
    }
}

/// Rank 1 has freed its memory of a window, so rank 0's key for it opens
/// nothing: puts and gets fail by name and change nothing. (Its memory is still
/// there, and watched.)
pub fn stale_key<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 20_000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let mut memory = vec![0x77_u8; LEN];
    // SAFETY: the memory outlives the window, and is looked at when the window
    // is gone.
    let w = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) }.map_err(text)?;
    w.lock_all().map_err(text)?;
    let mut w = Some(w);
    if me == 0 {
        let w = w.as_ref().ok_or("no window")?;
        w.put(&[1; 8], 1, 0).map_err(text)?;
        w.flush(1).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    if me == 1 {
        w = None;
        memory.fill(0x55);
    }
    world.barrier().map_err(text)?;
    let watched = Watched::default();
    if let Some(w) = w.as_ref().filter(|_| me == 0) {
        for (len, at) in [(8, 8), (9000, 16)] {
            let put = |b: &[u8]| w.put(b, 1, at).and_then(|()| w.flush(1));
            about(watched.reading("put", pattern(3, len), put), 1)?;
        }
        about(watched.filling("get", 64, |b| w.get(b, 1, 0)), 1)?;
        // Others are as they were.
        w.put(&pattern(4, 9000), 2, 16).map_err(text)?;
        w.flush(2).map_err(text)?;
        println!("rank 0 done");
    }
    // By the set-up channel: the route between the two may be broken for good.
    world.barrier().map_err(text)?;
    watched.unwritten(Duration::from_millis(100), &mut || drop(context.progress()))?;
    if me == 1 {
        same("after wrong keys", &memory, &vec![0x55; LEN])?;
    }
    if let Some(w) = w.as_ref().filter(|_| me == 2) {
        same("beside wrong keys", &own(w)?[16..9016], &pattern(4, 9000))?;
    }
    Ok(())
}

/// Rank 1 has ended all that it had of the library, and its process lives on: who puts to
/// it or asks it is told, by name, whether they `MET` before or not, and the others go on.
pub fn left_alive<const MET: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(Arc::clone(&boot))?;
    let world = Communicator::world(&context);
    let (me, w) = (world.rank(), make::<CREATED, _>(&world, 16_000, 8).map_err(text)?);
    let locked = make::<CREATED, _>(&world, 8, 1).map_err(text)?;
    let messages = Messenger::open(&world).map_err(text)?;
    w.lock_all().map_err(text)?;
    if MET && me != 1 {
        w.put(&[1; 8], 1, me as usize).and_then(|()| w.flush(1)).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    if me == 1 {
        drop((messages, w, locked));
        drop((world, context));
        boot.fence(&mut || ()).map_err(text)?;
        return boot.fence(&mut || ()).map_err(text);
    }
    let everybody = || boot.fence(&mut || drop(context.progress())).map_err(text);
    everybody()?;
    let watched = Watched::default();
    let put = |b: &[u8]| w.put(b, 1, 0).and_then(|()| w.flush(1));
    let told = |what: &str, result| about(result, 1).map_err(|why| format!("{what}: {why}"));
    told("put", watched.reading("put", pattern(3, 8), put))?;
    told("long put", watched.reading("long put", pattern(3, 9000), put))?;
    told("get", watched.filling("get", 8, |b| w.get(b, 1, 0)).map(drop))?;
    told("fetch", w.fetch_and_op(1_i64, Op::Sum, 1, 0).map(drop))?;
    // Where the words of the lock are shared, they say that it is free.
    let put = |()| locked.put(&[1], 1, 0).and_then(|()| locked.unlock(1));
    told("lock", locked.lock(Lock::Exclusive, 1, Assert::NONE).and_then(put))?;
    for (what, told) in [
        ("receive", messages.recv(&mut [0; 8], 1, 0).map(drop)),
        ("synchronous send", messages.ssend(&[0; 8], 1, 0)),
    ] {
        ensure!(told.as_ref().is_err_and(|e| e.peer() == Some(1)), "{what}: {told:?}");
    }
    let other = 2 - me;
    w.put(&word(me, other, 4), other, 1).and_then(|()| w.flush(other)).map_err(text)?;
    watched.unwritten(Duration::from_millis(50), &mut || drop(context.progress()))?;
    everybody()?;
    let mut wanted = vec![0; 16_000];
    wanted[8..16].copy_from_slice(&word(other, me, 4));
    same("beside one that left", &own(&w)?, &wanted)
}

/// A boot that publishes something else as this rank's addresses.
pub struct Liar {
    boot: Arc<dyn Boot>,
    business_card: Vec<u8>,
}

impl Boot for Liar {
    fn launcher(&self) -> &'static str {
        self.boot.launcher()
    }
    fn rank(&self) -> u32 {
        self.boot.rank()
    }
    fn size(&self) -> u32 {
        self.boot.size()
    }
    fn job(&self) -> u64 {
        self.boot.job()
    }
    fn put(&self, key: &str, value: &[u8]) -> std::result::Result<(), BootError> {
        let lie = key == "rankway.addresses";
        self.boot.put(key, if lie { &self.business_card } else { value })
    }
    fn fence(&self, idle: &mut dyn FnMut()) -> std::result::Result<(), BootError> {
        self.boot.fence(idle)
    }
    fn get(&self, rank: u32, key: &str) -> std::result::Result<Vec<u8>, BootError> {
        self.boot.get(rank, key)
    }
    fn node_of(&self, rank: u32) -> std::result::Result<u32, BootError> {
        self.boot.node_of(rank)
    }
    fn abort(&self, code: i32, reason: &str) -> ! {
        self.boot.abort(code, reason)
    }
    fn finalize(&self) -> std::result::Result<(), BootError> {
        self.boot.finalize()
    }
}

/// Business cards with these two addresses in them, and an inbox that is none: standard
/// input of the first process.
pub fn business_card(local: &[u8], network: &[u8]) -> Vec<u8> {
    let len = |a: &[u8]| (a.len() as u16).to_le_bytes();
    let mut inbox = [0; 41];
    (inbox[0], inbox[1]) = (40, 1);
    [b"RWa3", &inbox[..], &len(local)[..], local, &len(network), network].concat()
}

/// Rank 1 publishes garbage: whoever puts to it hears so, by name, and can
/// still put to the others.
pub fn garbage_business_card<const WHICH: u8>(boot: Arc<dyn Boot>) -> Result {
    let business_cards = [
        vec![],
        pattern(3, 60),
        business_card(b"fi_shm://1:0:0\0", &[2; 16])[..20].to_vec(),
        business_card(&pattern(5, 40), &pattern(6, 40)),
        // The right lengths and the wrong families.
        business_card(&[0xff; 24], &[[10, 0].as_slice(), &[7; 14]].concat()),
        business_card(&[b"fi_shm://".as_slice(), &[b'x'; 5000], &[0]].concat(), &[0; 16]),
    ];
    let rank = boot.rank();
    let lie = business_cards[WHICH as usize].clone();
    let boot =
        if rank == 1 { Arc::new(Liar { boot, business_card: lie }) as Arc<dyn Boot> } else { boot };
    let context = open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, _>(&world, 64, 8).map_err(text)?;
    w.fence().map_err(text)?;
    let watched = Watched::default();
    if rank == 0 {
        let bad = watched
            .reading("put", vec![1; 8], |b| w.put(b, 1, 0))
            .err()
            .ok_or("the put went well")?;
        ensure!(bad.peer() == Some(1), "not about rank 1: {bad}");
        match bad.kind() {
            ErrorKind::Device(DeviceError::BadBusinessCard { rank: 1 }) if WHICH < 3 => {}
            ErrorKind::Device(DeviceError::Peer {
                rank: 1,
                error: NetError::Address { .. } | NetError::Full { .. },
            }) if WHICH >= 3 => {}
            other => return Err(format!("{other:?}")),
        }
        about(watched.filling("get", 8, |b| w.get(b, 1, 0)), 1)?;
        w.put(&word(0, 2, 4), 2, 1).map_err(text)?;
    }
    w.fence().map_err(text)?;
    watched.unwritten(Duration::from_millis(50), &mut || drop(context.progress()))?;
    if rank == 2 {
        same("beside garbage", &own(&w)?[8..16], &word(0, 2, 4))?;
    }
    Ok(())
}

/// Raw addresses of garbage, handed to a netmod.
pub fn garbage_addresses(_: Arc<dyn Boot>) -> Result {
    let null = Null::open();
    let nowhere = null.open_endpoint().map_err(text)?;
    for raw in [b"".as_slice(), b"nul", b"nullo", &[0xff; 300]] {
        ensure!(
            matches!(null.insert(&nowhere, raw), Err(NetError::Address { .. })),
            "null took {raw:?}"
        );
    }
    for name in ["shm", "tcp;ofi_rxm"] {
        let request = Request { provider: Some(name.into()), peers: 8, ..Request::default() };
        let ofi = Domain::open(&request).map_err(text)?;
        let endpoint = ofi.open_endpoint().map_err(text)?;
        let real = ofi.address(&endpoint).map_err(text)?;
        ofi.insert(&endpoint, &real).map_err(text)?;
        let mut wrong = vec![vec![], vec![0; real.len()], vec![0xff; real.len()], vec![b'a'; 5000]];
        wrong.push([real.as_slice(), &[1]].concat());
        wrong.push([&real[..real.len() - 1], &[1, 2, 3]].concat());
        wrong.extend((0..real.len()).map(|len| real[..len].to_vec()));
        // Another family in the first bytes.
        wrong.push([&[10, 0], &real[2..]].concat());
        let mut random = 0x1234_5678_9abc_def1_u64;
        for len in 0..200 {
            let byte = |_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // 0xff is in no text and no family's first byte.
                random as u8 | 1
            };
            let mut bytes: Vec<u8> = (0..len).map(byte).collect();
            bytes.iter_mut().take(1).for_each(|b| *b = 0xff);
            wrong.push(bytes);
        }
        for raw in &wrong {
            match ofi.insert(&endpoint, raw) {
                Err(NetError::Address { .. } | NetError::Full { .. } | NetError::Call { .. }) => {}
                other => return Err(format!("{name}: {raw:02x?}: {other:?}")),
            }
        }
        // A bit turned over may give another address; it may not crash.
        for bit in 0..real.len() * 8 {
            let mut raw = real.clone();
            raw[bit / 8] ^= 1 << (bit % 8);
            let _ = ofi.insert(&endpoint, &raw);
        }
        // The library says what it thinks of insertions; so does the endpoint.
        let _ = ofi.poll(&endpoint, |_| (), |_, _| ());
    }
    Ok(())
}
