//! Random layouts against a list of every byte's offset.

use super::form::{from_runs, push_run};
use super::kernels::Plan;
use super::*;
use proptest::prelude::*;

mod external;
mod streams;
mod walk;

/// How a layout is built, for building it and for the oracle.
#[derive(Clone, Debug)]
enum Recipe {
    Basic(Basic),
    Contiguous(u64, Box<Recipe>),
    Vector(u64, u64, i64, Box<Recipe>),
    Hvector(u64, u64, i64, Box<Recipe>),
    Hindexed(Vec<(u64, i64)>, Box<Recipe>),
    Indexed(Vec<(u64, i64)>, Box<Recipe>),
    Structure(Vec<(u64, i64, Recipe)>),
    Subarray(Vec<(u64, u64, u64)>, bool, Box<Recipe>),
    Resized(i64, i64, Box<Recipe>),
}

/// What the oracle knows: every byte's offset, bounds, and the basic types.
#[derive(Clone)]
struct Naive {
    bytes: Vec<i64>,
    lb: i64,
    ub: i64,
    basics: Vec<Basic>,
    alignment: i64,
}

impl Naive {
    fn place(&self, at: &[i64]) -> Naive {
        let mut all = Naive { bytes: vec![], lb: i64::MAX, ub: i64::MIN, basics: vec![], ..*self };
        for &at in at {
            all.bytes.extend(self.bytes.iter().map(|b| b + at));
            all.basics.extend(&self.basics);
            (all.lb, all.ub) = (all.lb.min(self.lb + at), all.ub.max(self.ub + at));
        }
        if at.is_empty() {
            (all.lb, all.ub, all.alignment) = (0, 0, 1);
        }
        all
    }

    fn extent(&self) -> i64 {
        self.ub - self.lb
    }
}

fn blocks(list: &[(u64, i64)], of: &Naive, unit: i64) -> Naive {
    let at = list
        .iter()
        .flat_map(|&(count, at)| (0..count as i64).map(move |i| at * unit + i * of.extent()));
    of.place(&at.collect::<Vec<_>>())
}

fn both(recipe: &Recipe) -> (Layout, Naive) {
    match recipe {
        Recipe::Basic(basic) => {
            let size = basic.size() as i64;
            let layout = Layout::basic(*basic);
            let complex = matches!(basic, Basic::C32 | Basic::C64);
            let alignment = if complex { size / 2 } else { size };
            let basics = vec![*basic];
            (layout, Naive { bytes: (0..size).collect(), lb: 0, ub: size, basics, alignment })
        }
        Recipe::Contiguous(count, of) => {
            let (layout, naive) = both(of);
            let made = Layout::contiguous(*count, &layout).unwrap();
            (made, blocks(&[(*count, 0)], &naive, 1))
        }
        Recipe::Vector(count, block, stride, of) => {
            let (layout, naive) = both(of);
            let list: Vec<_> = (0..*count as i64).map(|i| (*block, i * stride)).collect();
            let made = Layout::vector(*count, *block, *stride, &layout).unwrap();
            (made, blocks(&list, &naive, naive.extent()))
        }
        Recipe::Hvector(count, block, stride, of) => {
            let (layout, naive) = both(of);
            let list: Vec<_> = (0..*count as i64).map(|i| (*block, i * stride)).collect();
            (Layout::hvector(*count, *block, *stride, &layout).unwrap(), blocks(&list, &naive, 1))
        }
        Recipe::Hindexed(list, of) => {
            let (layout, naive) = both(of);
            let (lens, at): (Vec<u64>, Vec<i64>) = list.iter().copied().unzip();
            (Layout::hindexed(&lens, &at, &layout).unwrap(), blocks(list, &naive, 1))
        }
        Recipe::Indexed(list, of) => {
            let (layout, naive) = both(of);
            let (lens, at): (Vec<u64>, Vec<i64>) = list.iter().copied().unzip();
            (Layout::indexed(&lens, &at, &layout).unwrap(), blocks(list, &naive, naive.extent()))
        }
        Recipe::Structure(list) => {
            let made: Vec<_> = list.iter().map(|(_, _, of)| both(of)).collect();
            let parts: Vec<_> =
                list.iter().zip(&made).map(|(l, (layout, _))| (l.0, l.1, layout)).collect();
            let mut all =
                Naive { bytes: vec![], lb: i64::MAX, ub: i64::MIN, basics: vec![], alignment: 1 };
            for ((count, at, _), (_, naive)) in list.iter().zip(&made) {
                let part = blocks(&[(*count, *at)], naive, 1);
                if *count > 0 {
                    all.alignment = all.alignment.max(naive.alignment);
                    (all.lb, all.ub) = (all.lb.min(part.lb), all.ub.max(part.ub));
                }
                all.bytes.extend(part.bytes);
                all.basics.extend(part.basics);
            }
            if all.lb == i64::MAX {
                (all.lb, all.ub) = (0, 0);
            }
            while all.extent() % all.alignment != 0 {
                all.ub += 1;
            }
            (Layout::structure(&parts).unwrap(), all)
        }
        Recipe::Subarray(dims, fortran, of) => {
            let (layout, naive) = both(of);
            let order = if *fortran { Order::Fortran } else { Order::C };
            let made = Layout::subarray(dims, order, &layout).unwrap();
            let mut steps = vec![0; dims.len()];
            let mut step = naive.extent();
            let mut inner: Vec<usize> = (0..dims.len()).collect();
            if !fortran {
                inner.reverse();
            }
            for &i in &inner {
                steps[i] = step;
                step *= dims[i].0 as i64;
            }
            let mut at = vec![0];
            // The slowest dimension first.
            for &i in inner.iter().rev() {
                let (_, part, start) = dims[i];
                let one = |base: &i64| -> Vec<i64> {
                    (start..start + part).map(|k| base + k as i64 * steps[i]).collect()
                };
                at = at.iter().flat_map(one).collect();
            }
            let mut all = naive.place(&at);
            (all.lb, all.ub) = (0, step);
            (made, all)
        }
        Recipe::Resized(lb, extent, of) => {
            let (layout, naive) = both(of);
            let made = layout.resized(*lb, *extent).unwrap();
            (made, Naive { lb: *lb, ub: lb + extent, ..naive })
        }
    }
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let leaf = prop::sample::select(Basic::ALL.to_vec()).prop_map(Recipe::Basic);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let of = inner.clone().prop_map(Box::new);
        let list = prop::collection::vec((0u64..4, -9i64..40), 0..7);
        let dim = (1u64..7).prop_flat_map(|size| {
            (0..=size)
                .prop_flat_map(move |part| (0..=size - part).prop_map(move |s| (size, part, s)))
        });
        prop_oneof![
            (0u64..6, of.clone()).prop_map(|(n, of)| Recipe::Contiguous(n, of)),
            (0u64..9, 0u64..4, -9i64..9, of.clone())
                .prop_map(|(n, b, s, of)| Recipe::Vector(n, b, s, of)),
            (0u64..20, 1u64..3, prop_oneof![-40i64..80, Just(8), Just(4096)], of.clone())
                .prop_map(|(n, b, s, of)| Recipe::Hvector(n, b, s, of)),
            (list.clone(), of.clone()).prop_map(|(l, of)| Recipe::Hindexed(l, of)),
            (list, of.clone()).prop_map(|(l, of)| Recipe::Indexed(l, of)),
            prop::collection::vec((0u64..3, -20i64..60, inner.clone()), 0..4)
                .prop_map(Recipe::Structure),
            (prop::collection::vec(dim, 1..4), any::<bool>(), of.clone())
                .prop_map(|(d, f, of)| Recipe::Subarray(d, f, of)),
            (-9i64..9, -20i64..60, of).prop_map(|(lb, e, of)| Recipe::Resized(lb, e, of)),
        ]
    })
    .prop_filter("a small one", small)
}

/// The oracle and the memory fit into what a test may take, and an interpreter's.
fn small(recipe: &Recipe) -> bool {
    let size = size(recipe);
    let (bytes, reach) = if cfg!(miri) { (300, 1 << 14) } else { (20_000, 1 << 26) };
    size.bytes <= bytes && size.reach <= reach
}

/// What the oracle lists and what memory a recipe takes, at most.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of the packed stream, of the recipe or anything within it: what stands
    /// in a loop of none is built too.
    bytes: u64,
    /// How far from the origin it goes.
    reach: u64,
}

fn size(recipe: &Recipe) -> Size {
    // `bytes` times as many, whose reach is some units of its own and some bytes.
    let of = |of: &Recipe, bytes: u64, times: u64, beside: u64| {
        let one = size(of);
        let reach = one.reach.saturating_mul(times.max(1)).saturating_add(beside);
        Size { bytes: one.bytes.saturating_mul(bytes.max(1)), reach }
    };
    let sum = |list: &[(u64, i64)]| list.iter().map(|l| l.0).sum();
    let farthest = |list: &[(u64, i64)]| list.iter().map(|l| l.1.unsigned_abs()).max();
    match recipe {
        Recipe::Basic(basic) => Size { bytes: basic.size() as u64, reach: basic.size() as u64 },
        Recipe::Contiguous(n, one) => of(one, *n, *n, 0),
        Recipe::Vector(n, b, s, one) => of(one, n * b, n * s.unsigned_abs() + b, 0),
        Recipe::Hvector(n, b, s, one) => of(one, n * b, *b, n * s.unsigned_abs()),
        Recipe::Hindexed(list, one) => of(one, sum(list), sum(list), farthest(list).unwrap_or(0)),
        Recipe::Indexed(list, one) => {
            of(one, sum(list), sum(list) + farthest(list).unwrap_or(0), 0)
        }
        Recipe::Structure(list) => {
            let all = list.iter().map(|(n, at, one)| of(one, *n, *n, at.unsigned_abs()));
            all.fold(Size { bytes: 0, reach: 0 }, |all, one| Size {
                bytes: all.bytes.saturating_add(one.bytes),
                reach: all.reach.max(one.reach),
            })
        }
        Recipe::Subarray(dims, _, one) => {
            let (all, part) = dims.iter().fold((1, 1), |(all, part), d| (all * d.0, part * d.1));
            of(one, part, all, 0)
        }
        Recipe::Resized(lb, extent, one) => {
            let bounds = lb.unsigned_abs() + extent.unsigned_abs();
            let one = size(one);
            Size { reach: one.reach.max(bounds), ..one }
        }
    }
}

/// Every level that this processor has, plain, asking ahead, and past the caches too, along
/// rows through the caches and past them.
fn plans() -> Vec<Plan> {
    let levels = [Level::Portable, Level::Avx2, Level::Avx512];
    let there = levels.into_iter().filter(|level| *level <= Level::best());
    there
        .flat_map(|level| {
            let choices =
                [(false, false), (false, true), (true, true), (false, false), (true, false)];
            choices.into_iter().enumerate().map(move |(i, (streaming, prefetch))| Plan {
                level,
                tile: 16,
                along: i > 2,
                streaming,
                prefetch,
            })
        })
        .collect()
}

/// Memory in which each byte tells its place, and where the origin is.
fn memory(naive: &Naive) -> (Vec<u8>, usize) {
    let low = naive.bytes.iter().copied().min().unwrap_or(0).min(0);
    let high = naive.bytes.iter().copied().max().unwrap_or(0).max(0) + 1;
    let byte = |at: i64| (at.wrapping_mul(31) ^ (at >> 8)) as u8;
    ((low..high).map(byte).collect(), -low as usize)
}

/// Packs and unpacks in pieces that end at the cuts, in every way.
fn check_copies(layout: &Layout, naive: &Naive, cuts: &[usize]) {
    let (memory, origin) = memory(naive);
    let at = |offset: i64| (origin as i64 + offset) as usize;
    let packed: Vec<u8> = naive.bytes.iter().map(|&b| memory[at(b)]).collect();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (packed.len() + 1)).collect();
    ends.extend([0, packed.len()]);
    ends.sort_unstable();
    let mut unpacked = vec![0xA5; memory.len()];
    naive.bytes.iter().zip(&packed).for_each(|(&b, &p)| unpacked[at(b)] = p);
    for plan in plans() {
        let mut out = vec![0; packed.len()];
        let mut back = vec![0xA5; memory.len()];
        for ends in ends.windows(2) {
            let (from, part) = (ends[0] as u64, &mut out[ends[0]..ends[1]]);
            // SAFETY: `memory` and `back` hold the layout's bytes by the oracle, and
            // the processor has the instructions.
            unsafe {
                let origin_in = memory.as_ptr().wrapping_add(origin).cast_mut();
                let n = layout.copy::<true>(
                    origin_in,
                    from,
                    part.as_mut_ptr(),
                    part.len(),
                    Some(&plan),
                );
                assert_eq!(n, part.len());
                let origin_out = back.as_mut_ptr().wrapping_add(origin);
                let part = &packed[ends[0]..ends[1]];
                let data = part.as_ptr().cast_mut();
                assert_eq!(
                    layout.copy::<false>(origin_out, from, data, part.len(), Some(&plan)),
                    part.len()
                );
            }
        }
        assert!(out == packed, "packed, {plan:?}: {layout:?}");
        assert!(back == unpacked, "unpacked, {plan:?}: {layout:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default()
    })]

    #[test]
    fn layouts_are_what_the_oracle_says(
        recipe in recipe(),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let (layout, naive) = both(&recipe);
        prop_assert_eq!(layout.size(), naive.bytes.len() as u64);
        prop_assert_eq!((layout.lb(), layout.ub()), (naive.lb, naive.ub));
        let bounds = naive.bytes.iter().min().map(|low| (*low, naive.bytes.iter().max().unwrap() + 1));
        prop_assert_eq!(layout.true_bounds(), bounds);
        let signature = naive.basics.iter().fold(Signature::default(), |all, basic| {
            all.then(Signature::of(*basic))
        });
        prop_assert_eq!(layout.signature(), signature);
        prop_assert_eq!(layout.signature().elements(), naive.basics.len() as u64);
        // Every byte in order, and the one form that its runs have.
        let mut bytes = Vec::new();
        layout.for_each_block(|at, len| bytes.extend(at..at + len as i64));
        prop_assert_eq!(&bytes, &naive.bytes);
        let mut runs = Vec::new();
        naive.bytes.iter().for_each(|&at| push_run(&mut runs, (at, 1)));
        prop_assert_eq!(&layout.placed, &from_runs(&runs).unwrap());
        if !naive.bytes.is_empty() && naive.basics.windows(2).all(|pair| pair[0] == pair[1]) {
            prop_assert_eq!(layout.element(), naive.basics.first().copied());
        }
        // A byte that is unpacked to twice depends on the order; that is the user's.
        let mut places = naive.bytes.clone();
        places.sort_unstable();
        places.dedup();
        prop_assume!(places.len() == naive.bytes.len());
        check_copies(&layout, &naive, &cuts);
    }
}

/// Neither a list of no blocks nor blocks of no elements align anything, as in MPICH and Open MPI.
#[test]
fn blocks_of_nothing_align_nothing() {
    let word = Recipe::Hvector(2, 1, 0, Box::new(Recipe::Basic(Basic::I64)));
    let byte = Recipe::Basic(Basic::I8);
    for list in [vec![], vec![(0, 0)]] {
        let nothing = Recipe::Indexed(list, Box::new(word.clone()));
        let (layout, naive) = both(&Recipe::Structure(vec![(0, 0, nothing), (1, 0, byte.clone())]));
        assert_eq!((layout.extent(), naive.extent()), (1, 1));
    }
}

/// Blocks of none have no bounds, wherever they are said to lie.
#[test]
fn blocks_of_nothing_bound_nothing() {
    let word = Layout::basic(Basic::I64);
    let rows = Layout::vector(2, 1, 3, &word).unwrap();
    for of in [word, rows] {
        for empty in [
            Layout::indexed(&[0, 0], &[3, 5], &of),
            Layout::hindexed(&[0, 0], &[24, 40], &of),
            Layout::indexed_block(0, &[3, 5], &of),
            Layout::hindexed_block(0, &[24, 40], &of),
            Layout::vector(3, 0, 5, &of),
            Layout::hvector(3, 0, 40, &of),
            Layout::structure(&[(0, 24, &of), (0, 40, &of)]),
            Layout::contiguous(0, &of),
        ] {
            let empty = empty.unwrap();
            assert_eq!((empty.lb(), empty.extent(), empty.size()), (0, 0, 0), "{empty:?}");
        }
        let one = Layout::structure(&[(0, 80, &of), (1, 0, &of)]).unwrap();
        assert_eq!((one.lb(), one.extent()), (0, of.extent()));
    }
}

#[test]
fn matrices_of_every_width_are_transposed() {
    let sizes: &[(i64, i64)] = match cfg!(miri) {
        true => &[(9, 17)],
        // (The last two in lines that squares lie between, more of them than a band has; of
        // bytes too.)
        false => &[(131, 70), (64, 256), (72, 600), (64, 512)],
    };
    for &(rows, columns) in sizes {
        for basic in [Basic::U8, Basic::U16, Basic::U32, Basic::U64, Basic::C64] {
            let size = basic.size() as i64;
            if columns == 512 && size > 1 {
                continue;
            }
            for lead in [0, size] {
                let bytes: Vec<i64> = (0..columns)
                    .flat_map(|c| (0..rows).map(move |r| lead + (r * columns + c) * size))
                    .flat_map(|at| at..at + size)
                    .collect();
                let column =
                    Layout::vector(rows as u64, 1, columns, &Layout::basic(basic)).unwrap();
                let all = Layout::hvector(columns as u64, 1, size, &column).unwrap();
                let all = Layout::hindexed(&[1], &[lead], &all).unwrap();
                let naive = Naive { bytes, lb: 0, ub: 0, basics: vec![], alignment: 1 };
                check_copies(&all, &naive, &[1, 1000, 5003]);
            }
        }
    }
}

#[test]
fn loops_along_the_elements_of_another_are_matrices() {
    let double = Layout::basic(Basic::F64);
    let column = Layout::vector(40, 1, 30, &double).unwrap();
    let columns = Layout::contiguous(7, &column.resized(0, 8).unwrap()).unwrap();
    let spread = Layout::contiguous(7, &column.resized(0, 16).unwrap()).unwrap();
    let pairs = Layout::vector(40, 2, 30, &double).unwrap();
    let threes = Layout::contiguous(3, &Layout::basic(Basic::U8)).unwrap();
    let odd = Layout::vector(40, 1, 30, &threes).unwrap().resized(0, 3).unwrap();
    let odd = Layout::contiguous(7, &odd).unwrap();
    for (layout, is) in [
        (&double, false),
        (&column, false),
        (&columns, true),
        (&spread, false),
        (&pairs, false),
        (&odd, false),
    ] {
        let (_, form) = layout.placed.as_ref().unwrap();
        assert_eq!(form.matrix().is_some(), is, "{layout:?}");
    }
}

#[test]
fn rows_of_every_length_are_copied() {
    let lens: &[i64] = match cfg!(miri) {
        true => &[12, 65, 300],
        false => &[3, 4, 12, 20, 24, 40, 64, 65, 96, 192, 256, 300, 512, 1000, 2047, 2048, 5000],
    };
    let count: i64 = if cfg!(miri) { 5 } else { 66 };
    let byte = Layout::basic(Basic::U8);
    for &len in lens {
        // (Somewhere every row is whole lines.)
        for lead in [0, 5, 16, 32, 48] {
            let apart = (len + 100) / 64 * 64;
            for (stride, shift) in [(apart, 0), (len + 9, 0), (apart, 3)] {
                // In two planes, in the last at places of no stride.
                let at = |i: i64| lead + i * stride + i / count * 700 + i % 5 / 4 * shift;
                let places: Vec<i64> = (0..2 * count).map(at).collect();
                let rows = Layout::hindexed_block(len as u64, &places, &byte).unwrap();
                let bytes = places.iter().flat_map(|&at| at..at + len).collect();
                let naive = Naive { bytes, lb: 0, ub: 0, basics: vec![], alignment: 1 };
                check_copies(&rows, &naive, &[1, 4097]);
            }
        }
    }
}

#[test]
fn small_tables_in_long_loops_are_copied() {
    let count = if cfg!(miri) { 20 } else { 700 };
    let b = Layout::basic(Basic::U8);
    let lists: [&[(u64, i64)]; 9] = [
        &[(24, 0), (32, 40)],
        &[(5, 0), (70, 9), (1, 80)],
        &[(8, 0), (8, 16), (8, 48)],
        &[(13, 1), (13, 20), (13, 90)],
        // (About a line a round: up to 32 bytes a run, up to 64, and at both limits.)
        &[(1, 0), (2, 3), (31, 10)],
        &[(33, 1), (20, 40), (1, 94)],
        &[(3, 0), (64, 9)],
        // (In these an element's last run touches the next one's first.)
        &[(24, 0), (32, 40)],
        &[(4, 0), (70, 9), (3, 82), (6, 90)],
    ];
    for (list, extent) in lists.into_iter().zip([112, 112, 112, 112, 64, 95, 80, 72, 96]) {
        let (lens, at): (Vec<u64>, Vec<i64>) = list.iter().copied().unzip();
        let one = Layout::hindexed(&lens, &at, &b).unwrap().resized(0, extent).unwrap();
        let all = Layout::contiguous(count, &one).unwrap();
        let bytes = (0..count as i64)
            .flat_map(|i| {
                list.iter().flat_map(move |l| (l.1..l.1 + l.0 as i64).map(move |b| extent * i + b))
            })
            .collect();
        let naive = Naive { bytes, lb: 0, ub: 0, basics: vec![], alignment: 1 };
        check_copies(&all, &naive, &[3, 16_385, 20_000]);
        assert!(cfg!(miri) || all.form_bytes() < 2000, "{} bytes", all.form_bytes());
    }
}

#[test]
fn lists_of_several_fields_are_copied() {
    let count = if cfg!(miri) { 70 } else { 300i64 };
    let b = Layout::basic(Basic::U8);
    // Elements of 24 and of 4 bytes at places that rise by one or two of them.
    let places = |len: i64, base: i64| (0..count).map(move |i| base + len * (i + i * i % 7));
    let at: Vec<i64> = places(24, 0).chain(places(4, 10_000)).collect();
    let lens: Vec<u64> = (0..2 * count).map(|i| if i < count { 24 } else { 4 }).collect();
    let layout = Layout::hindexed(&lens, &at, &b).unwrap();
    let bytes = at.iter().zip(&lens).flat_map(|(&at, &len)| at..at + len as i64).collect();
    let naive = Naive { bytes, lb: 0, ub: 0, basics: vec![], alignment: 1 };
    check_copies(&layout, &naive, &[3, 24 * 100, 24 * count as usize + 2]);
    let halves = [0, count as usize].map(|i| {
        let range = i..i + count as usize;
        Layout::hindexed(&lens[range.clone()], &at[range], &b).unwrap()
    });
    let fields = Layout::structure(&[(1, 0, &halves[0]), (1, 0, &halves[1])]).unwrap();
    assert_eq!(fields.placed, layout.placed);
}

#[test]
fn equal_layouts_have_equal_forms() {
    let double = Layout::basic(Basic::F64);
    let vector = Layout::vector(6, 2, 5, &double).unwrap();
    let indexed = Layout::indexed(&[2; 6], &[0, 5, 10, 15, 20, 25], &double).unwrap();
    let part = Layout::subarray(&[(6, 6, 0), (5, 2, 0)], Order::C, &double).unwrap();
    assert!(vector.takes_same_bytes(&indexed) && vector.takes_same_bytes(&part));
    assert_eq!(vector.placed, indexed.placed);
    assert_eq!(vector.placed, part.placed);
    // Touching: the last of a round and the first of the next are one run.
    let pair = Layout::hindexed(&[1, 1], &[0, 24], &double).unwrap().resized(0, 32).unwrap();
    let touching = Layout::contiguous(3, &pair).unwrap();
    let other = Layout::hindexed(&[1, 2, 2, 1], &[0, 24, 56, 88], &double).unwrap();
    assert_eq!(touching.placed, other.placed);
    // Beyond what is flattened.
    let count = if cfg!(miri) { 100 } else { 1 << 20 };
    let many = Layout::contiguous(count, &pair).unwrap();
    let lens: Vec<u64> = (0..=count).map(|i| if i == 0 || i == count { 1 } else { 2 }).collect();
    let at: Vec<i64> = (0..=count as i64).map(|i| if i == 0 { 0 } else { 32 * i - 8 }).collect();
    let listed = Layout::hindexed(&lens, &at, &double).unwrap();
    assert!(many.takes_same_bytes(&listed));
    assert!(!many.takes_same_bytes(&touching));
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and minutes")]
fn what_does_not_fit_is_an_error() {
    let double = Layout::basic(Basic::F64);
    let over = |made: Result<Layout, LayoutError>| {
        assert!(matches!(made, Err(LayoutError::Overflow { .. })), "{made:?}");
    };
    over(Layout::contiguous(u64::MAX, &double));
    over(Layout::vector(2, 1, i64::MAX, &double));
    over(Layout::hvector(1 << 40, 1, 1 << 40, &double));
    over(Layout::hindexed(&[1, 1], &[i64::MIN, i64::MAX], &double));
    over(Layout::indexed_block(1, &[i64::MAX / 2], &double));
    over(Layout::hvector(u64::MAX, u64::MAX, 0, &double));
    over(double.resized(i64::MAX, 1));
    let lists = Layout::hindexed(&[1], &[0, 8], &double).unwrap_err();
    assert_eq!(lists.to_string(), "1 block lengths for 2 displacements; give one for each block");
    let part = Layout::subarray(&[(4, 3, 2)], Order::C, &double).unwrap_err();
    assert!(part.to_string().contains("elements 2..2+3 of an array of 4"), "{part}");
    let short = Layout::contiguous(3, &double).unwrap().pack(&[0; 23], 0, 0, &mut [0; 24]);
    assert!(short.unwrap_err().to_string().contains("bytes 0..24"));
    // Half a million levels of what no level takes away.
    let mut deep = double;
    for i in 0..500_000 {
        let next = Layout::hindexed(&[1, 1], &[0, 16 + i % 3], &deep);
        match next {
            Ok(next) => deep = next,
            Err(error) => {
                assert!(error.to_string().contains("2^61"));
                return;
            }
        }
    }
    panic!("two of each for ever");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and a minute")]
fn parts_of_distributed_arrays_are_the_whole() {
    let byte = Layout::basic(Basic::U8);
    let kinds = [
        Distribution::Block(None),
        Distribution::Block(Some(5)),
        Distribution::Cyclic(None),
        Distribution::Cyclic(Some(2)),
        Distribution::Cyclic(Some(3)),
    ];
    for order in [Order::C, Order::Fortran] {
        for a in kinds {
            for b in kinds {
                let dims = [
                    Dealt { size: 13, distribution: a, processes: 3 },
                    Dealt { size: 10, distribution: b, processes: 2 },
                ];
                let mut owners = [u64::MAX; 130];
                for rank in 0..6 {
                    let part = Layout::darray(rank, &dims, order, &byte).unwrap();
                    assert_eq!((part.lb(), part.extent()), (0, 130));
                    let mut last = -1;
                    part.for_each_block(|at, len| {
                        assert!(at > last, "in the order of memory");
                        last = at;
                        for i in at..at + len as i64 {
                            assert_eq!(owners[i as usize], u64::MAX);
                            owners[i as usize] = rank;
                        }
                    });
                }
                let owner = |i: u64, d: &Dealt| match d.distribution {
                    Distribution::Block(None) => i / d.size.div_ceil(d.processes),
                    Distribution::Block(Some(n)) => i / n,
                    Distribution::Cyclic(n) => i / n.unwrap_or(1) % d.processes,
                    Distribution::None => 0,
                };
                for (at, &have) in owners.iter().enumerate() {
                    let at = at as u64;
                    let (i, j) = match order {
                        Order::C => (at / 10, at % 10),
                        Order::Fortran => (at % 13, at / 13),
                    };
                    assert_eq!(
                        have,
                        owner(i, &dims[0]) * 2 + owner(j, &dims[1]),
                        "{a:?} {b:?} {at}"
                    );
                }
            }
        }
    }
    let wrong = |rank, dealt: Dealt| Layout::darray(rank, &[dealt], Order::C, &byte).unwrap_err();
    let block = |n| Dealt { size: 9, distribution: Distribution::Block(Some(n)), processes: 2 };
    assert!(wrong(0, block(4)).to_string().contains("too small"));
    assert!(wrong(0, block(0)).to_string().contains("no element"));
    assert!(wrong(2, block(5)).to_string().contains("not in the grid"));
}
