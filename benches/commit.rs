//! What committing a layout costs: processor time and bytes for each block.
//!
//! `cargo bench --no-default-features --bench commit`
//!
//! Time of the best of some rounds, bytes of form and types; beside each the time of
//! copying the description's lists, in the same run.

mod clock;

use self::clock::least;
use rankway::datatype::{Basic, Item, Layout, LayoutError, Order};
use std::hint::black_box;

const ROUNDS: u32 = 7;

fn measure(
    name: &str,
    copied: f64,
    make: impl Fn() -> Result<Layout, LayoutError>,
) -> Result<(), LayoutError> {
    let layout = make()?;
    let (time, blocks) = (least(ROUNDS, || drop(black_box(make()))), layout.blocks() as f64);
    let bytes = layout.form_bytes();
    println!(
        "{name:<44} {:>9} blocks {time:>12.0} ns {:>8.2} ns/block {:>6.1} x lists copied \
         {bytes:>9} bytes {:>6.2} B/block",
        layout.blocks(),
        time / blocks,
        time / copied,
        bytes as f64 / blocks,
    );
    Ok(())
}

fn main() -> Result<(), LayoutError> {
    const N: u64 = 1_000_000;
    let double = Layout::basic(Basic::F64);
    let mut state = 1u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let lens: Vec<u64> = (0..N).map(|_| 1 + random(9)).collect();
    let gaps: Vec<i64> = (0..N as i64).map(|i| i * 16 + random(6) as i64).collect();
    let mut anywhere: Vec<i64> = (0..N as i64).map(|i| i * 16).collect();
    (1..N).rev().for_each(|i| anywhere.swap(i as usize, random(i + 1) as usize));
    let far: Vec<i64> = (0..N as i64).map(|i| i << 24).collect();
    let ones = vec![1; N as usize];
    let even: Vec<i64> = (0..N as i64).map(|i| 3 * i).collect();
    let lists = least(ROUNDS, || drop(black_box((lens.clone(), gaps.clone()))));

    measure("vector", lists, || Layout::vector(N, 1, 2, &double))?;
    measure("5 dimensions of an array", lists, || {
        Layout::subarray(&[(20, 16, 1); 5], Order::C, &double)
    })?;
    measure("indexed block, sorted", lists, || Layout::indexed_block(1, &gaps, &double))?;
    measure("indexed block, any order", lists, || Layout::indexed_block(1, &anywhere, &double))?;
    measure("indexed block, with a stride", lists, || Layout::indexed_block(1, &even, &double))?;
    measure("indexed, different lengths", lists, || Layout::indexed(&lens, &gaps, &double))?;
    measure("indexed, different lengths, any order", lists, || {
        Layout::indexed(&lens, &anywhere, &double)
    })?;
    measure("indexed, different lengths, 2^44 bytes", lists, || {
        Layout::indexed(&lens, &far, &double)
    })?;
    let parts: Vec<_> = lens.iter().zip(&gaps).map(|(&n, &at)| (n, at * 8, &double)).collect();
    measure("struct of one type", lists, || Layout::structure(&parts))?;
    let int = Layout::basic(Basic::I32);
    let kinds = [&double, &int];
    let parts: Vec<_> = (0..N as usize).map(|i| (1, gaps[i] * 8, kinds[i % 2])).collect();
    measure("struct of two types in turn", lists, || Layout::structure(&parts))?;
    let pair = Layout::hindexed(&[1, 1], &[0, 24], &double)?.resized(0, 40)?;
    measure("indexed of an element of two blocks", lists, || {
        Layout::indexed(&ones[..N as usize / 2], &gaps[..N as usize / 2], &pair)
    })?;
    let items: Vec<Item> = lens
        .iter()
        .zip(&gaps)
        .map(|(&length, at)| {
            let (basic, displacement) = (Basic::F64, at * 8);
            Item::Blocks { basic, count: 1, length, stride: 0, displacement }
        })
        .collect();
    measure("foreign description", lists, || Layout::from_items(&items, 0, 8))?;
    let table = Layout::indexed(&lens, &gaps, &double)?;
    let bytes = table.encode();
    measure("a peer's description", lists, || Layout::decode(&bytes))?;
    measure("count of a table", lists, || table.times(1))?;
    Ok(())
}
