//! Blocks from any byte, folds of a count, and foreign descriptions.

use super::*;

/// All bytes that blocks from `from` on name.
fn bytes_from(layout: &Layout, from: u64) -> Vec<i64> {
    layout.blocks_from(from).flat_map(|(at, len)| at..at + len as i64).collect()
}

/// Random descriptions: blocks and loops, and every byte that they name.
#[derive(Clone, Debug)]
enum Described {
    Blocks(Basic, u64, u64, i64, i64),
    Loop(u64, i64, Vec<Described>),
}

fn described() -> impl Strategy<Value = Vec<Described>> {
    let leaf =
        (prop::sample::select(Basic::ALL.to_vec()), 0u64..5, 0u64..4, -40i64..80, -90i64..90)
            .prop_map(|(b, n, l, s, d)| Described::Blocks(b, n, l, s, d));
    let one = leaf.prop_recursive(3, 12, 4, |inner| {
        (0u64..4, -200i64..400, prop::collection::vec(inner, 0..4))
            .prop_map(|(n, s, body)| Described::Loop(n, s, body))
    });
    prop::collection::vec(one, 0..4)
}

fn write(list: &[Described], items: &mut Vec<Item>) {
    for one in list {
        match one {
            &Described::Blocks(basic, count, length, stride, displacement) => {
                items.push(Item::Blocks { basic, count, length, stride, displacement });
            }
            Described::Loop(count, stride, body) => {
                items.push(Item::Loop { count: *count, stride: *stride });
                write(body, items);
                items.push(Item::End);
            }
        }
    }
}

fn naive(list: &[Described], base: i64, bytes: &mut Vec<i64>, basics: &mut Vec<Basic>) {
    for one in list {
        match one {
            &Described::Blocks(basic, count, length, stride, displacement) => {
                let size = basic.size() as i64;
                for i in 0..count as i64 {
                    let at = base + displacement + i * stride;
                    bytes.extend(at..at + length as i64 * size);
                    basics.extend((0..length).map(|_| basic));
                }
            }
            Described::Loop(count, stride, body) => {
                (0..*count as i64).for_each(|i| naive(body, base + i * stride, bytes, basics));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default()
    })]

    #[test]
    fn blocks_begin_at_any_byte(recipe in recipe(), cut in any::<u64>(), count in 0u64..4) {
        let (layout, naive) = both(&recipe);
        let from = cut % (layout.size() + 2);
        let rest = naive.bytes.get(from as usize..).unwrap_or_default();
        prop_assert_eq!(bytes_from(&layout, from), rest);
        // A block goes on in the next only where all of a table have one length.
        let blocks: Vec<_> = layout.blocks_from(0).collect();
        prop_assert_eq!(blocks.len() as u64, layout.blocks());
        let mut runs = Vec::new();
        blocks.iter().for_each(|&block| push_run(&mut runs, block));
        prop_assert!(blocks.len() <= 2 * runs.len());
        for two in blocks.windows(2) {
            let touch = two[0].0 + two[0].1 as i64 == two[1].0;
            prop_assert!(!touch || two[0].1 == two[1].1);
        }
        // The fold of a count is the same bytes, bounds and types.
        let (folded, listed) = (layout.times(count).unwrap(), Layout::contiguous(count, &layout).unwrap());
        prop_assert!(folded.takes_same_bytes(&listed));
        prop_assert_eq!((folded.lb(), folded.ub()), (listed.lb(), listed.ub()));
        prop_assert_eq!(folded.signature(), listed.signature());
        let from = cut % (folded.size() + 2);
        prop_assert_eq!(bytes_from(&folded, from), bytes_from(&listed, from));
    }

    #[test]
    fn parts_are_stretches_of_the_stream(
        recipe in recipe(), a in any::<u64>(), b in any::<u64>(), count in 0u64..4,
    ) {
        let (layout, _) = both(&recipe);
        let layout = layout.times(count).unwrap();
        let size = layout.size();
        let (from, to) = ((a % (size + 2)).min(b % (size + 2)), (a % (size + 2)).max(b % (size + 2)));
        let part = layout.part(from..to).unwrap();
        let mut want = bytes_from(&layout, from);
        want.truncate((to - from) as usize);
        prop_assert_eq!(&bytes_from(&part, 0), &want);
        prop_assert_eq!(part.size(), want.len() as u64);
        let bounds = want.iter().min().map(|low| (*low, want.iter().max().unwrap() + 1));
        prop_assert_eq!(part.true_bounds(), bounds);
        let back = Layout::decode(&part.encode()).unwrap();
        prop_assert_eq!(bytes_from(&back, 0), want);
        prop_assert_eq!(back, part);
        // Of several ranges, each as if alone.
        for (from, step) in [(from, b % (size + 1)), (from, size / 3), (from / 3, size / 3)] {
            let len = (to - from) / 3;
            let each = layout.part_of_each(from..from + len, 3, step).unwrap();
            let alone = (0..3).map(|i| from + i * step);
            let alone = alone.flat_map(|from| bytes_from(&layout.part(from..from + len).unwrap(), 0));
            prop_assert_eq!(bytes_from(&each, 0), alone.collect::<Vec<i64>>());
        }
    }

    #[test]
    fn foreign_descriptions_are_what_they_say(list in described()) {
        let (mut items, mut bytes, mut basics) = (Vec::new(), Vec::new(), Vec::new());
        write(&list, &mut items);
        naive(&list, 0, &mut bytes, &mut basics);
        let layout = Layout::from_items(&items, -3, 500).unwrap();
        prop_assert_eq!((layout.lb(), layout.extent()), (-3, 500));
        prop_assert_eq!(bytes_from(&layout, 0), bytes);
        let signature = basics.iter().fold(Signature::default(), |all, basic| {
            all.then(Signature::of(*basic))
        });
        prop_assert_eq!(layout.signature(), signature);
    }
}

#[test]
fn loops_that_do_not_close_are_errors() {
    let open = Item::Loop { count: 2, stride: 8 };
    let error = Layout::from_items(&[open, Item::End, Item::End], 0, 8).unwrap_err();
    assert!(error.to_string().contains("the end of no loop (word 2 of 3)"), "{error}");
    let error = Layout::from_items(&[open, open, Item::End], 0, 8).unwrap_err();
    assert!(error.to_string().contains("a loop without an end"), "{error}");
    // As deep as it likes: what is empty or once takes no form.
    let deep = if cfg!(miri) { 1_000 } else { 1_000_000 };
    let mut items = vec![Item::Loop { count: 1, stride: 8 }; deep];
    let (basic, count, length) = (Basic::F64, 2, 1);
    items.push(Item::Blocks { basic, count, length, stride: 16, displacement: 0 });
    items.resize(2 * deep + 1, Item::End);
    let double = Layout::basic(basic);
    let vector = Layout::hvector(2, 1, 16, &double).unwrap();
    assert!(Layout::from_items(&items, 0, 24).unwrap().takes_same_bytes(&vector));
}
