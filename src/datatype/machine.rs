//! What the plans need to know of the machine.

use std::sync::OnceLock;

/// Sizes of caches and of the TLB, in bytes and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of the first data cache.
    pub first_cache: usize,
    /// Bytes of the last cache.
    pub last_cache: usize,
    /// Pages that the last level of the TLB holds.
    pub tlb_pages: usize,
    /// Bytes of a page.
    pub page: usize,
}

impl Machine {
    /// This machine's.
    #[must_use]
    pub fn get() -> &'static Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(Machine::read)
    }

    /// Rows of a tile whose rows each lie on a page of their own: with as many
    /// pages at the other side they take half of the TLB (Byna et al., 2004).
    #[must_use]
    pub fn tile_rows(&self) -> usize {
        (self.tlb_pages / 4).max(64)
    }

    fn read() -> Machine {
        let mut machine =
            Machine { first_cache: 32 << 10, last_cache: 8 << 20, tlb_pages: 2048, page: 4096 };
        let mut deepest = 0;
        for index in 0..8 {
            let file = |name: &str| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
                std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
            };
            let (Some(level), Some(kind), Some(size)) = (file("level"), file("type"), file("size"))
            else {
                continue;
            };
            let (Ok(level), Some(size)) = (level.parse::<u32>(), bytes(&size)) else { continue };
            if kind == "Instruction" {
                continue;
            }
            if level == 1 {
                machine.first_cache = size;
            }
            if level > deepest {
                (deepest, machine.last_cache) = (level, size);
            }
        }
        machine
    }
}

/// `32K`, `8M`, in bytes.
fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_shl(shift)
}
