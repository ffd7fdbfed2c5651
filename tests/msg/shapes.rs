//! Layouts for messages, each with the list of its blocks, which plain loops make:
//! what the oracle goes by.

use crate::harness::{Dice, Result, text};
use rankway::datatype::{Basic, Layout};

/// A layout of some bytes, and what it takes.
pub struct Shape {
    pub name: &'static str,
    pub layout: Layout,
    /// Offset from the origin and length of each block, in the order of the stream.
    blocks: Vec<(i64, usize)>,
    /// Bytes of memory before the origin and in all.
    pub origin: usize,
    pub bytes: usize,
}

type Blocks = Vec<(i64, usize)>;

/// How many shapes there are.
pub const SHAPES: usize = 9;

/// Shape number `which`, of `len` bytes.
pub fn shape(which: usize, len: usize) -> Result<Shape> {
    let byte = Layout::basic(Basic::U8);
    let (name, layout, blocks) = match which % SHAPES {
        0 => ("contiguous", Layout::contiguous(len as u64, &byte).map_err(text)?, vec![(0, len)]),
        1 => {
            let block = Layout::hindexed(&[len as u64], &[24], &byte).map_err(text)?;
            ("one block aside", block, vec![(24, len)])
        }
        2 => regular("columns", len, 8, 24)?,
        3 => regular("every second byte", len, 1, 2)?,
        4 => regular("backwards", len, 16, -48)?,
        5 => regular("blocks of a page", len, 5000, 5072)?,
        6 => regular("long blocks", len, 300_000, 300_064)?,
        7 => transpose(len)?,
        _ => irregular(len)?,
    };
    let low = blocks.iter().filter(|b| b.1 > 0).map(|b| b.0).min().unwrap_or(0).min(0);
    let high = blocks.iter().map(|b| b.0 + b.1 as i64).max().unwrap_or(0).max(0);
    let origin = (16 - low) as usize;
    let bytes = origin + high as usize + 16;
    assert_eq!(layout.size(), len as u64, "{name}");
    Ok(Shape { name, layout, blocks, origin, bytes })
}

/// Layouts one after the other, at these offsets.
fn behind(parts: &[(i64, &Layout)]) -> Result<Layout> {
    let blocks: Vec<_> = parts.iter().map(|&(at, layout)| (1, at, layout)).collect();
    Layout::structure(&blocks).map_err(text)
}

/// Blocks so many bytes apart, the last as long as it comes.
fn regular(
    name: &'static str,
    len: usize,
    block: usize,
    stride: i64,
) -> Result<(&'static str, Layout, Blocks)> {
    let byte = Layout::basic(Basic::U8);
    let (whole, rest) = (len / block, len % block);
    let many = Layout::hvector(whole as u64, block as u64, stride, &byte).map_err(text)?;
    let last = Layout::contiguous(rest as u64, &byte).map_err(text)?;
    let mut blocks = Vec::new();
    for i in 0..whole {
        blocks.push((i as i64 * stride, block));
    }
    blocks.push((whole as i64 * stride, rest));
    Ok((name, behind(&[(0, &many), (whole as i64 * stride, &last)])?, blocks))
}

/// Columns of a square of words, and what is left behind it.
fn transpose(len: usize) -> Result<(&'static str, Layout, Blocks)> {
    let side = (len / 8).isqrt();
    let byte = Layout::basic(Basic::U8);
    let word = Layout::contiguous(8, &byte).map_err(text)?;
    let row = 8 * side as i64;
    let column = Layout::hvector(side as u64, 1, row, &word).map_err(text)?;
    let square = Layout::hvector(side as u64, 1, 8, &column).map_err(text)?;
    let rest = len - 8 * side * side;
    let last = Layout::contiguous(rest as u64, &byte).map_err(text)?;
    let behind_it = row * side as i64 + 40;
    let mut blocks = Vec::new();
    for x in 0..side as i64 {
        for y in 0..side as i64 {
            blocks.push((y * row + 8 * x, 8));
        }
    }
    blocks.push((behind_it, rest));
    Ok(("transpose", behind(&[(0, &square), (behind_it, &last)])?, blocks))
}

/// Blocks of any length with any gaps, some of none.
fn irregular(len: usize) -> Result<(&'static str, Layout, Blocks)> {
    let mut dice = Dice::new(len as u64);
    let (mut lengths, mut displacements, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut left) = (0_i64, len);
    while left > 0 {
        let block = dice.below(1 + len / 500 + 97).min(left);
        lengths.push(block as u64);
        displacements.push(at);
        blocks.push((at, block));
        at += (block + dice.below(60)) as i64;
        left -= block;
    }
    let byte = Layout::basic(Basic::U8);
    Ok(("irregular", Layout::hindexed(&lengths, &displacements, &byte).map_err(text)?, blocks))
}

impl Shape {
    /// Returns true for bytes from the origin on, as calls without a layout take
    /// them.
    pub fn is_plain(&self) -> bool {
        self.name == "contiguous"
    }

    /// Memory that holds `data` where the shape says, and `filler` elsewhere.
    pub fn scattered(&self, mut data: &[u8], filler: u8) -> Vec<u8> {
        let mut memory = vec![filler; self.bytes];
        // (One of no bytes may be anywhere.)
        for &(at, len) in self.blocks.iter().filter(|block| block.1 > 0) {
            let (block, rest) = data.split_at(len.min(data.len()));
            let start = (self.origin as i64 + at) as usize;
            memory[start..start + block.len()].copy_from_slice(block);
            data = rest;
        }
        memory
    }
}
