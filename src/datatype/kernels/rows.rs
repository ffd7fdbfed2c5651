//! A matrix in memory.

use super::line::{LINE, Word, on, prefetch, prefetch_far};

/// A matrix in memory: `count` lines, `stride` bytes apart, of contiguous elements.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: *mut u8,
    pub(super) stride: isize,
    pub(super) count: usize,
}

impl Rows {
    #[inline(always)]
    pub(super) fn element<W: Word>(&self, row: usize, column: usize) -> *mut u8 {
        self.at.wrapping_offset(row as isize * self.stride).wrapping_add(column * W::SIZE)
    }

    /// Elements before it of the line that it begins within; 0 where its rows do not
    /// all begin so.
    #[inline(always)]
    pub(super) fn before<W: Word>(&self) -> usize {
        let within = self.at.addr() % LINE;
        let all = self.stride % LINE as isize == 0 && within.is_multiple_of(W::SIZE);
        if all { within / W::SIZE } else { 0 }
    }

    /// Asks for as many lines from `at` on as there are elements in one; returns the
    /// next of this diagonal.
    #[inline(always)]
    pub(super) fn ask<W: Word, const FAR: bool>(&self, mut at: *mut u8) -> *mut u8 {
        for _ in 0..LINE / W::SIZE {
            if FAR {
                prefetch_far(at)
            } else {
                prefetch(at)
            }
            at = on(at, self.stride);
        }
        at.wrapping_add(LINE)
    }

    /// The same numbered from so many rows and columns before.
    #[inline(always)]
    pub(super) fn back<W: Word>(self, rows: usize, columns: usize) -> Rows {
        let at = self.at.wrapping_offset(-(rows as isize * self.stride));
        Rows { at: at.wrapping_sub(columns * W::SIZE), ..self }
    }
}
