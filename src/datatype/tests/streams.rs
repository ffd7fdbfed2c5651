//! Copies between two layouts, operations on the way, and descriptions for peers.

use super::*;

/// The same with all elements of one basic type.
fn uniform(recipe: &Recipe, basic: Basic) -> Recipe {
    let of = |inner: &Recipe| Box::new(uniform(inner, basic));
    match recipe {
        Recipe::Basic(_) => Recipe::Basic(basic),
        Recipe::Contiguous(n, inner) => Recipe::Contiguous(*n, of(inner)),
        Recipe::Vector(n, b, s, inner) => Recipe::Vector(*n, *b, *s, of(inner)),
        Recipe::Hvector(n, b, s, inner) => Recipe::Hvector(*n, *b, *s, of(inner)),
        Recipe::Hindexed(list, inner) => Recipe::Hindexed(list.clone(), of(inner)),
        Recipe::Indexed(list, inner) => Recipe::Indexed(list.clone(), of(inner)),
        Recipe::Structure(list) => {
            Recipe::Structure(list.iter().map(|(n, at, r)| (*n, *at, uniform(r, basic))).collect())
        }
        Recipe::Subarray(d, f, inner) => Recipe::Subarray(d.clone(), *f, of(inner)),
        Recipe::Resized(lb, e, inner) => Recipe::Resized(*lb, *e, of(inner)),
    }
}

/// What no sum of parts of an element gives: its bytes turned round, and the others
/// added.
fn operation(into: &mut [u8], from: &[u8], size: usize) {
    assert_eq!((into.len(), into.len() % size), (from.len(), 0));
    for (into, from) in into.chunks_mut(size).zip(from.chunks(size)) {
        into.reverse();
        into.iter_mut().zip(from).for_each(|(into, from)| *into = into.wrapping_add(*from));
    }
}

fn ends(cuts: &[usize], len: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).collect();
    ends.extend([0, len]);
    ends.sort_unstable();
    ends
}

/// All of one layout's stream to another's, in pieces.
fn check_between(a: (&Layout, &Naive), b: (&Layout, &Naive), cuts: &[usize]) {
    let ((source, origin), (target, at)) = (memory(a.1), memory(b.1));
    let both = a.1.bytes.len().min(b.1.bytes.len());
    let mut have = vec![0x5A; target.len()];
    let mut wanted = have.clone();
    for (from, to) in a.1.bytes.iter().zip(&b.1.bytes) {
        wanted[(at as i64 + to) as usize] = source[(origin as i64 + from) as usize];
    }
    let pieces = ends(cuts, both);
    for (i, ends) in pieces.windows(2).enumerate() {
        // The last goes beyond the shorter one.
        let beyond = if i + 2 == pieces.len() { 5 } else { 0 };
        let range = ends[0] as u64..ends[1] as u64 + beyond;
        let n = a.0.copy_to((&source, origin), b.0, (&mut have, at), range).unwrap();
        assert_eq!(n, (ends[1] - ends[0]) as u64);
    }
    assert!(have == wanted, "{:?} to {:?}", a.0, b.0);
}

fn places_are_apart(naive: &Naive) -> bool {
    let mut places = naive.bytes.clone();
    places.sort_unstable();
    places.windows(2).all(|two| two[0] != two[1])
}

/// Structures with gaps, other ones on the other side, longer than what is staged at once.
#[test]
fn many_short_blocks_on_both_sides() {
    let byte = || Recipe::Basic(Basic::U8);
    let one = |blocks: &[(u64, i64)], extent| {
        let parts = blocks.iter().map(|&(count, at)| (count, at, byte())).collect();
        Recipe::Resized(0, extent, Box::new(Recipe::Structure(parts)))
    };
    let many = |of: &Recipe| {
        both(&Recipe::Contiguous(if cfg!(miri) { 100 } else { 6000 }, Box::new(of.clone())))
    };
    let gaps = one(&[(12, 0), (4, 16)], 24);
    for into in [gaps.clone(), one(&[(3, 0), (8, 5), (5, 14)], 21), one(&[(16, 0)], 16)] {
        let (a, b) = (many(&gaps), many(&into));
        for cuts in [&[][..], &[1], &[70_001, 9]] {
            check_between((&a.0, &a.1), (&b.0, &b.1), cuts);
            check_between((&b.0, &b.1), (&a.0, &a.1), cuts);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default()
    })]

    #[test]
    fn copies_between_layouts_are_what_the_oracle_says(
        from in recipe(),
        into in recipe(),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let (a, b) = (both(&from), both(&into));
        prop_assume!(places_are_apart(&b.1));
        check_between((&a.0, &a.1), (&b.0, &b.1), &cuts);
    }

    #[test]
    fn operations_get_whole_elements(
        recipe in recipe(),
        basic in prop::sample::select(Basic::ALL.to_vec()),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let recipe = uniform(&recipe, basic);
        prop_assume!(small(&recipe));
        let (layout, naive) = both(&recipe);
        let (mut memory, origin) = memory(&naive);
        let size = basic.size();
        let data: Vec<u8> = (0..naive.bytes.len()).map(|i| (i * 7 + 3) as u8).collect();
        let mut wanted = memory.clone();
        for (places, data) in naive.bytes.chunks(size).zip(data.chunks(size)) {
            let at = (origin as i64 + places[0]) as usize;
            operation(&mut wanted[at..at + size], data, size);
        }
        let mut carried = memory.clone();
        let mut carry = Carry::default();
        for ends in ends(&cuts, data.len()).windows(2) {
            let part = &data[ends[0]..ends[1]];
            let place = carried.as_mut_ptr().wrapping_add(origin);
            // SAFETY: `carried` holds the layout by the oracle.
            unsafe {
                layout.combine_next(place, &mut carry, part, |into, from, elements| {
                    let into = std::slice::from_raw_parts_mut(into, elements * size);
                    operation(into, std::slice::from_raw_parts(from, elements * size), size);
                }).unwrap();
            }
            prop_assert_eq!(carry.received(), ends[1] as u64);
            // The safe one takes what is whole.
            let (from, to) = (ends[0] / size * size, ends[1] / size * size);
            let n = layout.combine(&mut memory, origin, from as u64, &data[from..ends[1]],
                |into, from| operation(into, from, size)).unwrap();
            prop_assert_eq!(n, to - from);
        }
        prop_assert!(carried == wanted);
        prop_assert!(memory == wanted);
    }

    #[test]
    fn descriptions_come_back(
        recipe in recipe(),
        count in 0u64..3,
        damage in prop::collection::vec((any::<usize>(), prop_oneof![
            any::<u64>(), 0u64..40, Just(u64::MAX), Just(1 << 61), Just(1 << 63),
        ]), 1..4),
    ) {
        let layout = both(&recipe).0.times(count).unwrap();
        let bytes = layout.encode();
        let back = Layout::decode(&bytes).unwrap();
        prop_assert_eq!(&back, &layout);
        prop_assert_eq!(back.form_bytes(), layout.form_bytes());
        prop_assert_eq!(back.encode(), bytes.clone());
        prop_assert!(Layout::decode(&bytes[..bytes.len() - 8]).is_err());
        let mut damaged = bytes;
        for (at, word) in damage {
            let at = at % (damaged.len() / 8) * 8;
            damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let Ok(layout) = Layout::decode(&damaged) else { return Ok(()) };
        let mut size = 0;
        for (at, len) in layout.blocks_from(0).take(1000) {
            let (low, high) = layout.true_bounds().unwrap();
            prop_assert!(low <= at && at + len as i64 <= high && len > 0);
            size += len;
        }
        prop_assert!(size <= layout.size());
    }
}

#[test]
fn matrices_are_copied_to_their_transposes() {
    let (rows, columns) = if cfg!(miri) { (5, 9) } else { (33, 70) };
    for basic in [Basic::U8, Basic::F64, Basic::C64] {
        let element = Layout::basic(basic);
        let size = basic.size() as i64;
        let naive = |places: Vec<i64>| {
            let bytes = places.iter().flat_map(|at| *at..at + size).collect();
            Naive { bytes, lb: 0, ub: 0, basics: vec![], alignment: 1 }
        };
        let column = Layout::vector(rows as u64, 1, columns, &element).unwrap();
        let all = Layout::hvector(columns as u64, 1, size, &column).unwrap();
        let places = (0..columns).flat_map(|c| (0..rows).map(move |r| (r * columns + c) * size));
        let transposed = naive(places.collect());
        // Every other element, rows of a wider matrix, and one block.
        let strided = Layout::vector((rows * columns) as u64, 1, 2, &element).unwrap();
        let naive_strided = naive((0..rows * columns).map(|i| 2 * i * size).collect());
        let wider = Layout::vector(rows as u64, columns as u64, columns + 3, &element).unwrap();
        let places =
            (0..rows).flat_map(|r| (0..columns).map(move |c| (r * (columns + 3) + c) * size));
        let naive_wider = naive(places.collect());
        let one = Layout::contiguous((rows * columns) as u64, &element).unwrap();
        let naive_one = naive((0..rows * columns).map(|i| i * size).collect());
        let shapes = [
            (&all, &transposed),
            (&strided, &naive_strided),
            (&wider, &naive_wider),
            (&one, &naive_one),
        ];
        for a in shapes {
            for b in shapes {
                check_between(a, b, &[1, 1000, 5003]);
            }
        }
    }
}

#[test]
fn operations_are_for_one_basic_type() {
    let pair = [(1, 0, &Layout::basic(Basic::F64)), (1, 8, &Layout::basic(Basic::I32))];
    let pair = Layout::structure(&pair).unwrap();
    let error = pair.combine(&mut [0; 16], 0, 0, &[0; 12], |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("one basic type"), "{error}");
    let none = Layout::contiguous(0, &pair).unwrap();
    assert_eq!(none.combine(&mut [], 0, 0, &[0; 12], |_, _| ()), Ok(0));
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and a minute")]
fn hostile_descriptions_are_refused() {
    let double = Layout::basic(Basic::F64);
    let vector = Layout::hvector(3, 1, 24, &double).unwrap();
    let words: Vec<u64> =
        vector.encode().as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // Magic, lower and upper bound, alignment, offset; loop, count, stride; run, bytes;
    // double, how many.
    assert_eq!(words[1..], [0, 56, 8, 0, 2, 3, 24, 1, 8, Basic::F64 as u64, 3]);
    let read = |words: &[u64]| {
        Layout::decode(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    };
    let refused = |at: usize, word: u64, why: &str| {
        let mut words = words.clone();
        words[at] = word;
        let error = read(&words).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(0, 1, "not of this version (word 1 of 12)");
    refused(1, 1 << 62, "an offset of a layout exceeds 2^61");
    refused(3, 24, "an alignment");
    refused(4, 1 << 61, "an offset");
    refused(5, 6, "no such form");
    refused(6, u64::MAX, "the size of a layout exceeds");
    refused(6, 1, "a loop of fewer than two rounds");
    refused(7, i64::MAX as u64, "an offset");
    refused(9, 0, "a run of no byte");
    refused(9, -8i64 as u64, "exceeds");
    refused(10, 77, "no such basic type");
    refused(11, 2, "types of another size");
    refused(11, u64::MAX, "types of another size");
    let mut longer = words.clone();
    longer.push(0);
    assert!(read(&longer).unwrap_err().to_string().contains("words behind the end"));
    // A million levels; a list that claims to be longer than the message.
    let mut deep = words[..5].to_vec();
    (0..1_000_000).for_each(|_| deep.extend([2, 2, 0]));
    assert!(read(&deep).unwrap_err().to_string().contains("128 levels"));
    let mut parts = words[..5].to_vec();
    (0..1_000_000).for_each(|_| parts.extend([5, 2, 0]));
    assert!(read(&parts).unwrap_err().to_string().contains("128 levels"));
    for tag in [4, 5] {
        let list = [&words[..5], &[tag, u64::MAX]].concat();
        assert!(read(&list).unwrap_err().to_string().contains("longer than the description"));
    }
    let mut types = words[..10].to_vec();
    (0..1_000_000).for_each(|_| types.extend([32, 2]));
    assert!(read(&types).unwrap_err().to_string().contains("128 levels"));
    assert!(Layout::decode(&[0; 7]).unwrap_err().to_string().contains("not whole words"));
}
