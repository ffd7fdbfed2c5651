//! Bytes → descriptions of layouts: a peer's words, which are refused or give a layout
//! that stays within its bounds; a foreign description of blocks and loops; MPI's
//! constructors one on the other. What comes of them is packed, unpacked, converted,
//! combined and copied against a list of its bytes.
//!
//! `ci/proof/fuzz.sh layout`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::datatype::{Basic, Carry, Item, Layout, Order};
use rankway_fuzz::Bytes;

/// Bytes of the stream, and of memory, up to which every byte is looked at.
const SMALL: u64 = 4096;

fn check(layout: &Layout, cut: u64) {
    let words = layout.encode();
    let back = Layout::decode(&words).expect("a description of ours");
    assert!(back == *layout && back.encode() == words);
    let Some((low, high)) = layout.true_bounds() else {
        assert_eq!((layout.size(), layout.blocks_from(0).next()), (0, None));
        return;
    };
    let cut = cut % layout.size();
    for from in [0, cut] {
        for (at, len) in layout.blocks_from(from).take(200) {
            assert!(low <= at && at + len as i64 <= high && len > 0);
        }
    }
    if high - low > 1 << 16 || high.unsigned_abs().max(low.unsigned_abs()) > 1 << 20 {
        return;
    }
    // Memory that ends where the layout does.
    let origin = (-low).max(0) as usize;
    let end = (high.max(0)) as usize;
    let memory: Vec<u8> = (0..origin + end).map(|i| (i * 31 ^ i >> 8) as u8).collect();
    let place = |at: i64| (origin as i64 + at) as usize;
    let mut out = vec![0; SMALL.min(layout.size() - cut) as usize];
    assert_eq!(layout.pack(&memory, origin, cut, &mut out).expect("bounds"), out.len());
    let mut have = layout.blocks_from(cut).flat_map(|(at, len)| at..at + len as i64);
    assert!(out.iter().zip(&mut have).all(|(&byte, at)| byte == memory[place(at)]));
    if layout.size() > SMALL {
        return;
    }
    let bytes: Vec<i64> =
        layout.blocks_from(0).flat_map(|(at, len)| at..at + len as i64).collect();
    assert_eq!(bytes.len() as u64, layout.size());
    let cut = cut as usize;
    let packed: Vec<u8> = bytes.iter().map(|&at| memory[place(at)]).collect();
    let mut unique = bytes.clone();
    unique.sort_unstable();
    unique.dedup();
    let mut wanted = vec![0; memory.len()];
    bytes.iter().zip(&packed).for_each(|(&at, &byte)| wanted[place(at)] = byte);
    if unique.len() == bytes.len() {
        let mut back = vec![0; memory.len()];
        for (from, part) in [(0, &packed[..cut]), (cut, &packed[cut..])] {
            layout.unpack(&mut back, origin, from as u64, part).expect("bounds");
        }
        assert_eq!(back, wanted);
        let mut back = vec![0; memory.len()];
        for range in [0..cut as u64, cut as u64..layout.size()] {
            layout.copy_to((&memory, origin), layout, (&mut back, origin), range).expect("bounds");
        }
        assert_eq!(back, wanted);
    }
    let mut external = vec![0; layout.pack_external_size() as usize];
    let cut = cut.min(external.len());
    layout.pack_external(&memory, origin, 0, &mut external[..cut]).expect("bounds");
    layout.pack_external(&memory, origin, cut as u64, &mut external[cut..]).expect("bounds");
    let mut back = memory.clone();
    layout.unpack_external(&mut back, origin, cut as u64, &external[cut..]).expect("bounds");
    layout.unpack_external(&mut back, origin, 0, &external[..cut]).expect("bounds");
    if layout.element().is_some() {
        let (mut carry, mut memory) = (Carry::default(), memory);
        let mut bytes = 0;
        let size = layout.element().map_or(1, Basic::size);
        for part in packed.chunks(cut.max(1)) {
            let at = memory.as_mut_ptr().wrapping_add(origin);
            // SAFETY: the layout was checked to lie in `memory`.
            unsafe {
                let count = |into: *mut u8, from: *const u8, elements: usize| {
                    bytes += elements * size;
                    into.copy_from(from, elements * size);
                };
                layout.combine_next(at, &mut carry, part, count).expect("one type");
            }
        }
        // (A peer's elements need not be whole in every block.)
        assert!(bytes <= packed.len());
    }
}

fn basic(bytes: &mut Bytes) -> Basic {
    Basic::ALL[bytes.byte() as usize % Basic::ALL.len()]
}

fn signed(bytes: &mut Bytes) -> i64 {
    match bytes.byte() {
        255 => bytes.word() as i64,
        byte => i64::from(byte as i8),
    }
}

fn count(bytes: &mut Bytes) -> u64 {
    match bytes.byte() {
        255 => bytes.word(),
        byte => u64::from(byte % 9),
    }
}

fn constructed(bytes: &mut Bytes) -> Option<Layout> {
    let mut made = Layout::basic(basic(bytes));
    let mut before = made.clone();
    for _ in 0..8 {
        let list = |bytes: &mut Bytes| -> (Vec<u64>, Vec<i64>) {
            (0..bytes.byte() % 6).map(|_| (count(bytes), signed(bytes))).unzip()
        };
        let next = match bytes.byte() % 9 {
            0 => break,
            1 => Layout::contiguous(count(bytes), &made),
            2 => Layout::vector(count(bytes), count(bytes), signed(bytes), &made),
            3 => Layout::hvector(count(bytes), count(bytes), signed(bytes), &made),
            4 => {
                let (lens, at) = list(bytes);
                Layout::indexed(&lens, &at, &made)
            }
            5 => {
                let (lens, at) = list(bytes);
                Layout::hindexed(&lens, &at, &made)
            }
            6 => {
                let parts =
                    [(count(bytes), signed(bytes), &before), (count(bytes), signed(bytes), &made)];
                Layout::structure(&parts)
            }
            7 => {
                let dims: Vec<(u64, u64, u64)> =
                    (0..bytes.byte() % 4).map(|_| (count(bytes), count(bytes), count(bytes))).collect();
                Layout::subarray(&dims, Order::C, &made)
            }
            _ => made.resized(signed(bytes), signed(bytes)),
        };
        before = std::mem::replace(&mut made, next.ok()?);
    }
    made.times(count(bytes)).ok()
}

fn foreign(bytes: &mut Bytes) -> Option<Layout> {
    let mut items = Vec::new();
    while !bytes.is_empty() && items.len() < 40 {
        items.push(match bytes.byte() % 3 {
            0 => Item::Loop { count: count(bytes), stride: signed(bytes) },
            1 => Item::End,
            _ => Item::Blocks {
                basic: basic(bytes),
                count: count(bytes),
                length: count(bytes),
                stride: signed(bytes),
                displacement: signed(bytes),
            },
        });
    }
    Layout::from_items(&items, -8, 64).ok()
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let mut bytes = Bytes::new(rest);
    let made = match kind % 4 {
        0 => {
            let mut words = b"rkwlay01".to_vec();
            words.extend(rest);
            words.truncate(words.len() / 8 * 8);
            Layout::decode(&words).ok()
        }
        // Small words in one byte each, so that forms are found soon.
        1 => {
            let mut words = b"rkwlay01".to_vec();
            while !bytes.is_empty() {
                words.extend(signed(&mut bytes).to_le_bytes());
            }
            Layout::decode(&words).ok()
        }
        2 => foreign(&mut bytes),
        _ => constructed(&mut bytes),
    };
    if let Some(layout) = made {
        check(&layout, data.iter().fold(0, |all, &byte| all * 3 % 65_521 + u64::from(byte)));
    }
});
