//! Bytes → a map image: refused, or a map whose every answer agrees with its
//! iteration. The checksum is mended first, so that contents are reached.
//!
//! `ci/proof/fuzz.sh image`

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use rankway::rankmap::compact::{Compact, Representation};
use rankway::rankmap::{LPID_MAX, RankMap};

/// CRC-64/XZ, bit by bit.
fn checksum(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(!0u64, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 }
        })
    })
}

fn check(map: &Compact) {
    // A formula of many ranks is right, and takes long to walk.
    if map.len() > 1 << 16 {
        for rank in (0..map.len()).step_by(99_991) {
            assert!(map.find(rank).is_some_and(|lpid| lpid <= LPID_MAX));
        }
        return;
    }
    let mut first = HashMap::new();
    for (rank, lpid) in (0..).zip(map.iter()) {
        assert!(lpid <= LPID_MAX);
        assert_eq!(map.find(rank), Some(lpid));
        first.entry(lpid).or_insert(rank);
    }
    for &lpid in first.keys() {
        for near in [lpid, lpid ^ 1, lpid.wrapping_sub(1)] {
            assert_eq!(map.position(near), first.get(&near).copied());
        }
    }
    let again = Compact::from_image(&map.to_image()).expect("an image of ours");
    assert_eq!(again, *map);
    assert_eq!(RankMap::from(again), RankMap::from_lpids(0, map.iter()).expect("lpids"));
}

fuzz_target!(|data: &[u8]| {
    if let Ok(map) = Compact::from_image(data) {
        check(&map);
    }
    let Some((&[kind, a, b, c], payload)) = data.split_first_chunk() else { return };
    let representation = u16::from(kind) % (Representation::ALL.len() as u16 + 1);
    let mut image = b"RWMP\x01\x00".to_vec();
    image.extend(representation.to_le_bytes());
    image.extend([a, b, c, 0]);
    image.extend((payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image.extend(checksum(&image).to_le_bytes());
    if let Ok(map) = Compact::from_image(&image) {
        check(&map);
    }
});
