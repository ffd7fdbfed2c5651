//! Images: a compact map as bytes, to be kept or sent.
//!
//! ```text
//! "RWMP"  version u16  representation u16  ranks u32  payload bytes u32 | payload | CRC-64 u64
//! ```
//!
//! All numbers are little-endian. The payload holds what a representation cannot
//! find again by itself; samples and directories are built anew when an image is
//! read, so no wrong one can be read. The checksum covers everything before it:
//! CRC-64/XZ finds every flip of up to three bits and every burst of 64.
//! Whatever bytes come in, reading either refuses them or gives a map whose
//! lookups stay in range: contents are validated after the checksum.

use std::error::Error;
use std::fmt;

/// Version of this layout; another one is refused.
pub const VERSION: u16 = 1;

pub(super) const MAGIC: [u8; 4] = *b"RWMP";
pub(super) const HEADER: usize = 16;
pub(super) const CHECKSUM: usize = 8;

/// Why bytes are not the image of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The bytes begin with something else.
    Magic,
    /// An image of another version.
    Version {
        /// Its version.
        found: u16,
    },
    /// Fewer or more bytes than the image says.
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes the header asks for.
        said: usize,
    },
    /// The checksum does not fit the bytes.
    Checksum,
    /// A representation this build does not have.
    Representation {
        /// Its number.
        found: u16,
    },
    /// Whole, but not a map.
    Content(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Magic => f.write_str(
                "these bytes are no map image: they do not begin with RWMP; check what was loaded",
            ),
            Refused::Version { found } => write!(
                f,
                "the map image has version {found}, this library reads {VERSION}; write it again"
            ),
            Refused::Length { found, said } => write!(
                f,
                "the map image has {found} bytes and says {said}; it was cut or something \
                 follows it"
            ),
            Refused::Checksum => f.write_str(
                "the map image is damaged: its checksum does not fit; load another copy",
            ),
            Refused::Representation { found } => write!(
                f,
                "the map image holds representation {found}, which this build does not have"
            ),
            Refused::Content(what) => write!(
                f,
                "the map image is whole but wrong: {what}; it was not written by this library"
            ),
        }
    }
}

impl Error for Refused {}

/// CRC-64/XZ.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = {
        let mut table = [0u64; 256];
        let mut at = 0;
        while at < 256 {
            let mut crc = at as u64;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0u64, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// Writes the parts of a payload.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Their count, then the words.
    pub(super) fn words(&mut self, words: &[u64]) {
        self.u32(words.len() as u32);
        words.iter().for_each(|word| self.bytes(&word.to_le_bytes()));
    }

    /// Their count, then the numbers.
    pub(super) fn numbers(&mut self, numbers: &[u32]) {
        self.u32(numbers.len() as u32);
        numbers.iter().for_each(|&number| self.u32(number));
    }
}

/// Reads them back; never past the end, never more memory than bytes left or
/// ranks said.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) left: &'a [u8],
    /// Ranks of the map: numbers of no bits at all are as many at most.
    pub(super) size: u32,
}

const SHORT: Refused = Refused::Content("a part that ends too early");

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        let (bytes, rest) = self.left.split_at_checked(count).ok_or(SHORT)?;
        self.left = rest;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Refused> {
        let (bytes, rest) = self.left.split_first_chunk().ok_or(SHORT)?;
        self.left = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    pub(super) fn words(&mut self) -> Result<Vec<u64>, Refused> {
        let count = self.u32()? as usize;
        let bytes = self.bytes(count.checked_mul(8).ok_or(SHORT)?)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<u32>, Refused> {
        let count = self.u32()? as usize;
        let bytes = self.bytes(count.checked_mul(4).ok_or(SHORT)?)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    pub(super) fn end(&self) -> Result<(), Refused> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(Refused::Content("bytes after the last part"))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_crc_64_xz() {
        assert_eq!(super::checksum(b"123456789"), 0x995d_c9bb_df19_39fa);
    }
}
