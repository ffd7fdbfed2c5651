//! The thesis's block-compressed list (4.3.2): bzip2 over blocks of 1,000 ranks
//! of 4 bytes, the last block kept.

use crate::Rival;
use bzip2::Compression;
use bzip2::read::{BzDecoder, BzEncoder};
use std::cell::RefCell;
use std::io::Read;

const EACH: usize = 1000;

struct Blocks {
    bytes: Box<[u8]>,
    /// Where each block begins, and the end.
    begins: Box<[u32]>,
    last: RefCell<(usize, Vec<u8>)>,
}

impl Rival for Blocks {
    fn select(&self, rank: u32) -> u32 {
        let (block, at) = (rank as usize / EACH, rank as usize % EACH * 4);
        let mut last = self.last.borrow_mut();
        let (held, words) = &mut *last;
        if *held != block {
            words.clear();
            let coded = &self.bytes[self.begins[block] as usize..self.begins[block + 1] as usize];
            BzDecoder::new(coded).read_to_end(words).expect("what was coded");
            *held = block;
        }
        words[at..].first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word))
    }

    /// Not asked.
    fn rank(&self, _: u32) -> Option<u32> {
        None
    }
}

pub(crate) fn bzip2(lpids: &[u32]) -> Box<dyn Rival> {
    let (mut bytes, mut begins) = (Vec::new(), vec![0]);
    for block in lpids.chunks(EACH) {
        let words: Vec<u8> = block.iter().flat_map(|lpid| lpid.to_le_bytes()).collect();
        let mut coded = BzEncoder::new(&words[..], Compression::best());
        coded.read_to_end(&mut bytes).expect("memory takes all");
        begins.push(bytes.len() as u32);
    }
    let last = RefCell::new((usize::MAX, Vec::with_capacity(4 * EACH)));
    Box::new(Blocks { bytes: bytes.into(), begins: begins.into(), last })
}
