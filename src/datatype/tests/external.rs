//! External32 and what signatures tell.

use super::*;

/// One element's bytes in external32, written by hand.
fn converted(basic: Basic, bytes: &[u8]) -> Vec<u8> {
    let swapped = |bytes: &[u8]| -> Vec<u8> {
        if cfg!(target_endian = "little") {
            bytes.iter().rev().copied().collect()
        } else {
            bytes.to_vec()
        }
    };
    match basic {
        Basic::WideChar => swapped(bytes)[2..].to_vec(),
        Basic::C32 | Basic::C64 => bytes.chunks(bytes.len() / 2).flat_map(swapped).collect(),
        Basic::LongDouble if cfg!(target_arch = "x86_64") => {
            // Sign and exponent, then the fraction without its leading bit.
            let mut out = vec![bytes[9], bytes[8]];
            let fraction = u64::from_le_bytes(bytes[..8].try_into().unwrap()) << 1;
            out.extend(fraction.to_be_bytes());
            out.resize(16, 0);
            out
        }
        _ => swapped(bytes),
    }
}

/// Memory whose long doubles and wide characters are such as come back.
fn tame(naive: &Naive, memory: &mut [u8], origin: usize) {
    let mut at = 0;
    for basic in &naive.basics {
        let place = (origin as i64 + naive.bytes[at]) as usize;
        match basic {
            Basic::WideChar => {
                let low = u16::from_le_bytes([memory[place], memory[place + 1]]);
                memory[place..place + 4].copy_from_slice(&u32::from(low).to_ne_bytes());
            }
            Basic::LongDouble if cfg!(target_arch = "x86_64") => {
                memory[place + 7] |= 0x80;
                memory[place + 9] |= 1;
                memory[place + 8] &= 0x7f;
                memory[place + 10..place + 16].fill(0);
            }
            _ => {}
        }
        at += basic.size();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default()
    })]

    #[test]
    fn external32_is_what_the_oracle_says(
        recipe in recipe(),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let (layout, naive) = both(&recipe);
        let mut places = naive.bytes.clone();
        places.sort_unstable();
        places.dedup();
        prop_assume!(places.len() == naive.bytes.len());
        let (mut memory, origin) = memory(&naive);
        tame(&naive, &mut memory, origin);
        let mut wanted = Vec::new();
        let mut at = 0;
        for basic in &naive.basics {
            let bytes = &naive.bytes[at..at + basic.size()];
            let element: Vec<u8> =
                bytes.iter().map(|b| memory[(origin as i64 + b) as usize]).collect();
            wanted.extend(converted(*basic, &element));
            at += basic.size();
        }
        prop_assert_eq!(layout.pack_external_size(), wanted.len() as u64);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (wanted.len() + 1)).collect();
        ends.extend([0, wanted.len()]);
        ends.sort_unstable();
        let mut out = vec![0; wanted.len()];
        let mut back = vec![0xA5; memory.len()];
        let mut expected = back.clone();
        for &b in &naive.bytes {
            let at = (origin as i64 + b) as usize;
            expected[at] = memory[at];
        }
        for ends in ends.windows(2) {
            let (from, range) = (ends[0] as u64, ends[0]..ends[1]);
            let n = layout.pack_external(&memory, origin, from, &mut out[range.clone()]).unwrap();
            prop_assert_eq!(n, range.len());
            let n = layout.unpack_external(&mut back, origin, from, &wanted[range.clone()]).unwrap();
            prop_assert_eq!(n, range.len());
        }
        prop_assert_eq!(out, wanted);
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn a_message_that_is_a_beginning_is_accepted(
        recipe in recipe(),
        cut in any::<usize>(),
        other in prop::sample::select(Basic::ALL.to_vec()),
    ) {
        let (layout, naive) = both(&recipe);
        let first = |n: usize| naive.basics[..n].iter().fold(Signature::default(), |all, basic| {
            all.then(Signature::of(*basic))
        });
        let n = cut % (naive.basics.len() + 1);
        prop_assert!(layout.accepts(first(n)).is_ok());
        let longer = layout.signature().then(Signature::of(other));
        let refused = matches!(layout.accepts(longer), Err(LayoutError::Signature { .. }));
        prop_assert!(refused);
        if let Some(&next) = naive.basics.get(n) {
            let same = layout.accepts(first(n).then(Signature::of(other))).is_ok();
            prop_assert_eq!(same, next == other);
        }
    }

    #[test]
    fn types_that_repeat_are_counted(
        round in prop::collection::vec((0u64..3, prop::sample::select(Basic::ALL.to_vec())), 1..6),
        rounds in 0usize..50,
        tail in prop::collection::vec((0u64..3, prop::sample::select(Basic::ALL.to_vec())), 0..4),
        mixed in any::<bool>(),
        cut in any::<usize>(),
    ) {
        let pair = [(1, 0, &Layout::basic(Basic::F64)), (2, 8, &Layout::basic(Basic::I16))];
        let pair = Layout::contiguous(2, &Layout::structure(&pair).unwrap()).unwrap();
        let pairs = [Basic::F64, Basic::I16, Basic::I16].repeat(2);
        let layouts: Vec<_> = Basic::ALL.map(Layout::basic).into();
        let (mut parts, mut basics, mut at) = (Vec::new(), Vec::new(), 0);
        let rounds = if cfg!(miri) { rounds % 15 } else { rounds };
        for (count, basic) in round.repeat(rounds).into_iter().chain(tail) {
            if mixed && basic == Basic::Byte {
                parts.push((count, at, &pair));
                basics.extend(pairs.repeat(count as usize));
            } else {
                parts.push((count, at, &layouts[basic as usize - 1]));
                basics.extend((0..count).map(|_| basic));
            }
            at += 100;
        }
        let layout = Layout::structure(&parts).unwrap();
        let first = |n: usize| basics[..n].iter().fold(Signature::default(), |all, basic| {
            all.then(Signature::of(*basic))
        });
        prop_assert_eq!(layout.signature(), first(basics.len()));
        prop_assert!(layout.accepts(first(cut % (basics.len() + 1))).is_ok());
        let external: usize = basics.iter().map(|basic| basic.external_size()).sum();
        prop_assert_eq!(layout.pack_external_size(), external as u64);
        prop_assert_eq!(Layout::decode(&layout.encode()).unwrap(), layout);
    }
}

#[test]
fn external32_of_known_numbers() {
    let layout = Layout::structure(&[
        (1, 0, &Layout::basic(Basic::I32)),
        (1, 8, &Layout::basic(Basic::F64)),
        (2, 16, &Layout::basic(Basic::U16)),
    ])
    .unwrap();
    let mut memory = [0; 24];
    memory[..4].copy_from_slice(&(-2i32).to_ne_bytes());
    memory[8..16].copy_from_slice(&1.0f64.to_ne_bytes());
    memory[16..18].copy_from_slice(&0x1234u16.to_ne_bytes());
    memory[18..20].copy_from_slice(&0x5678u16.to_ne_bytes());
    let mut out = [0; 16];
    assert_eq!(layout.pack_external(&memory, 0, 0, &mut out).unwrap(), 16);
    let wanted = [255, 255, 255, 254, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78];
    assert_eq!(out, wanted);
    let wide = Layout::basic(Basic::WideChar);
    assert_eq!((wide.size(), wide.pack_external_size()), (4, 2));
    #[cfg(target_arch = "x86_64")]
    {
        // 1.0, -2^-16382 (the smallest normal number), infinity.
        let number = |high: u16, low: u64| u128::from(high) << 64 | u128::from(low);
        for (native, high) in [
            (number(0x3fff, 1 << 63), 0x3fffu16),
            (number(0x8001, 1 << 63), 0x8001),
            (number(0x7fff, 1 << 63), 0x7fff),
        ] {
            let long = Layout::basic(Basic::LongDouble);
            let mut out = [0; 16];
            long.pack_external(&native.to_ne_bytes(), 0, 0, &mut out).unwrap();
            assert_eq!(u128::from_be_bytes(out), u128::from(high) << 112);
            let mut back = [0; 16];
            long.unpack_external(&mut back, 0, 0, &out).unwrap();
            assert_eq!(u128::from_ne_bytes(back), native);
        }
    }
}
