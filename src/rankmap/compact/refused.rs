//! What is no map, and how it is refused.

use super::{Strategy, *};
use crate::rankmap::{LPID_MAX, MapError, Process, RankMap, SIZE_MAX};
use std::sync::Arc;

const ALL: [Strategy; 3] =
    [Strategy::Time, Strategy::Space, Strategy::Hybrid { alpha: Strategy::ALPHA }];

#[test]
fn lpids_past_the_last_one() {
    let large = [3, LPID_MAX + 1];
    let index = 1;
    let error = MapError::LpidTooLarge { index, lpid: LPID_MAX + 1, limit: LPID_MAX };
    for strategy in ALL {
        assert_eq!(Compact::new(strategy, large), Err(CompactError::Map(error)));
        let mut builder = Builder::new();
        builder.set_strategy(strategy).insert_block(&large);
        assert_eq!(builder.finish(), Err(CompactError::Map(error)));
    }
    assert!(Compact::estimate(large).is_err());
}

/// Sizes are `int` in MPI; none of these walks its ranks.
#[test]
fn sizes_past_two_to_the_32() {
    let error = CompactError::Map(MapError::TooManyRanks { limit: SIZE_MAX });
    for count in [u64::from(SIZE_MAX) + 1, 1 << 32, (1 << 32) + 3] {
        if let Ok(count) = usize::try_from(count) {
            let lpids = core::iter::repeat_n(7, count);
            assert_eq!(Compact::new(Strategy::Space, lpids.clone()), Err(error));
            assert_eq!(Compact::build(Representation::Plain, lpids), Err(error));
        }
    }
    let mut builder = Builder::new();
    builder.insert(4);
    builder.insert_range(0, 0, SIZE_MAX);
    assert_eq!(builder.finish(), Err(error));
    let mut builder = Builder::new();
    builder.insert_range(0, 0, u32::MAX);
    builder.insert(4);
    assert_eq!(builder.finish(), Err(error));
    // What says 2^32 − 1 ranks in its header is refused too.
    let mut image = Builder::world(9).to_image();
    image[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let end = image.len() - image::CHECKSUM;
    let sum = image::checksum(&image[..end]);
    image[end..].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Compact::from_image(&image), Err(Refused::Content("too many ranks")));
}

#[test]
fn strides_that_leave_the_lpids() {
    let cases = [(3, -2, 3, -1), (LPID_MAX, 1, 2, 1 << 31), (0, -1, 2, -1), (5, i32::MIN, 2, 0)];
    for (base, stride, size, reached) in cases {
        let mut builder = Builder::new();
        builder.insert(1);
        builder.insert_range(base, stride, size);
        let reached = if stride == i32::MIN { 5 + i64::from(i32::MIN) } else { reached };
        let (stride, limit) = (stride.into(), LPID_MAX);
        let error = MapError::AffineRange { base, stride, size, reached, limit };
        let found = builder.finish().expect_err("outside");
        assert_eq!(found, CompactError::Map(error));
        assert!(found.to_string().contains(&reached.to_string()), "{found}");
    }
    // The last one inside.
    let mut builder = Builder::new();
    builder.insert_range(4, -2, 3);
    builder.insert_range(9, -5, 0);
    assert!(builder.finish().expect("lpids").iter().eq([4, 2, 0]));
}

/// A map may name a process twice; a set may not.
#[test]
fn duplicates() {
    let list = [5, 9, 9, 700, 2];
    for representation in Representation::ALL {
        let made = Compact::build(representation, list);
        match made {
            Ok(map) => assert_eq!(map.position(9), Some(1), "{map:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(representation.name()) && text.contains("5 ranks"), "{text}");
            }
        }
        let set = Compact::build(representation, [5, 9, 9, 700]);
        assert!(set.is_err() || representation.is_list(), "{set:?}");
    }
    let map = RankMap::with_strategy(Strategy::Space, 1, list).expect("lpids");
    assert_eq!(map.duplicate(), Some(Process { pg: 1, lpid: 9 }));
}

#[test]
fn ranks_there_are_not() {
    let list: Vec<u32> = (0..200).map(|r| r * r % 1009).collect();
    for representation in Representation::ALL {
        let Ok(map) = Compact::build(representation, list.iter().copied()) else { continue };
        assert_eq!((map.find(200), map.find(u32::MAX)), (None, None));
        assert_eq!((map.position(1010), map.position(u32::MAX)), (None, None));
        let mut out = [77; 4];
        assert_eq!(map.find_block(&[3, 199, 200, 0], &mut out), 2);
        assert_eq!(map.find_range(198..u32::MAX, &mut out), 2);
        for past in [200..300, 201..u32::MAX, u32::MAX..u32::MAX] {
            assert_eq!(map.find_range(past, &mut out), 0);
        }
        #[expect(clippy::reversed_empty_ranges, reason = "what a caller may pass")]
        let none = map.find_range(9..3, &mut out);
        assert_eq!(none, 0);
    }
}

#[test]
fn empty_groups() {
    for strategy in ALL {
        for map in [
            Compact::new(strategy, []).expect("no lpids"),
            Builder::new().finish().expect("no lpids"),
            Builder::world(0),
        ] {
            assert!(map.is_empty() && map.iter().next().is_none());
            assert_eq!((map.find(0), map.position(0)), (None, None));
            assert_eq!(map.find_range(0..9, &mut [0; 3]), 0);
            let read = Compact::from_image(&map.to_image()).expect("ours");
            assert_eq!(read, map);
            let child = Compact::child(&Arc::new(read), map).expect("no ranks");
            assert!(child.is_empty() && child.to_image().len() > image::HEADER);
        }
    }
    for representation in Representation::ALL {
        let empty = Compact::build(representation, []);
        assert_eq!(empty.is_ok(), representation == Representation::Formula, "{empty:?}");
    }
}

#[test]
fn images_of_another_version_and_other_bytes() {
    let (ranks, bits) = if cfg!(miri) { (150, 20) } else { (3_000, 400) };
    let lists = [(0..ranks).filter(|v| v * v % 7 < 3).collect::<Vec<u32>>(), vec![5, 0, 9, 9, 2]];
    for list in lists {
        for representation in Representation::ALL {
            let Ok(map) = Compact::build(representation, list.iter().copied()) else { continue };
            let image = map.to_image();
            let change = |at: usize, to: u8| {
                let mut image = image.clone();
                image[at] = to;
                Compact::from_image(&image)
            };
            assert_eq!(change(4, 9), Err(Refused::Version { found: 9 }));
            assert_eq!(change(0, b'x'), Err(Refused::Magic));
            assert_eq!(change(6, image[6] ^ 1), Err(Refused::Checksum));
            for cut in [0, 3, image::HEADER - 1, image::HEADER, image.len() - 1] {
                assert!(Compact::from_image(&image[..cut]).is_err());
            }
            let longer: Vec<u8> = image.iter().copied().chain([0]).collect();
            let (found, said) = (longer.len(), image.len());
            assert_eq!(Compact::from_image(&longer), Err(Refused::Length { found, said }));
            // Every bit, but of large images only some.
            let step = (image.len() * 8).div_ceil(bits);
            for bit in (0..image.len() * 8).step_by(step) {
                assert!(change(bit / 8, image[bit / 8] ^ (1 << (bit % 8))).is_err(), "{bit}");
            }
        }
    }
    // Numbers of no bits, more of them than there are ranks: no byte would say no.
    let mut image = image::Writer::default();
    image.bytes(b"RWMP\x01\x00\x05\x00");
    [9, 12, 7, 1 << 30, 0].into_iter().for_each(|word| image.u32(word));
    let sum = image::checksum(&image.0);
    image.bytes(&sum.to_le_bytes());
    assert_eq!(Compact::from_image(&image.0), Err(Refused::Content("more numbers than ranks")));
    // Bitmaps that begin or end without a member, of no words, past the last lpid.
    let without = "a bitmap that does not begin and end with a member";
    let bitmaps: [(u32, &[u64], &str); 4] = [
        (5, &[6, 3], without),
        (5, &[7, 0], without),
        (5, &[], without),
        (LPID_MAX - 64, &[1, 2], "a member past the last lpid"),
    ];
    for representation in [Representation::Slim, Representation::Darray] {
        for (first, words, why) in bitmaps {
            let mut image = image::Writer::default();
            image.bytes(b"RWMP\x01\x00");
            image.bytes(&(representation as u16).to_le_bytes());
            [3, 8 + 8 * words.len() as u32, first].into_iter().for_each(|word| image.u32(word));
            image.words(words);
            let sum = image::checksum(&image.0);
            image.bytes(&sum.to_le_bytes());
            assert_eq!(Compact::from_image(&image.0), Err(Refused::Content(why)));
        }
    }
    let mut image = Builder::world(9).to_image();
    image[6..8].copy_from_slice(&999u16.to_le_bytes());
    let end = image.len() - image::CHECKSUM;
    let sum = image::checksum(&image[..end]);
    image[end..].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Compact::from_image(&image), Err(Refused::Representation { found: 999 }));
    assert_eq!(Compact::from_image(b"RW"), Err(Refused::Magic));
}
