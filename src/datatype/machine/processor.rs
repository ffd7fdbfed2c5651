//! What the processor says of itself.

use super::Origin;

/// Pages of the last level of the data TLB, by cpuid or by its model.
pub(super) fn tlb_pages() -> Option<(usize, Origin)> {
    let told = told().filter(|&pages| pages >= 16).map(|pages| (pages, Origin::Processor));
    told.or_else(|| Some((by_model(&name())?, Origin::Table)))
}

/// Pages of a model's TLB, where the processor itself is silent (of virtual machines
/// the hypervisor may have it silent).
fn by_model(name: &str) -> Option<usize> {
    let mut words = name.split('-');
    let (vendor, family, model) = (words.next()?, words.next()?, words.next()?);
    let model = model.parse::<u32>().ok()?;
    Some(match (vendor, family, model) {
        ("intel", "6", 0x3c | 0x3f | 0x45 | 0x46) => 1024,
        ("intel", "6", 0x3d | 0x47 | 0x4e | 0x4f | 0x55 | 0x56 | 0x5e | 0x8e | 0x9e) => 1536,
        ("intel", "6", 0x6a | 0x6c | 0x7e | 0x8c | 0x8f | 0xad | 0xae | 0xcf) => 2048,
        ("amd", "23", 0..0x30) => 1536,
        ("amd", "23", _) => 2048,
        ("amd", "25", 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => 3072,
        ("amd", "25", _) => 2048,
        ("amd", "26", _) => 4096,
        // Neoverse N1 and N2; V1 and V2.
        ("arm", "65", 0xd0c | 0xd49) => 1280,
        ("arm", "65", 0xd40 | 0xd4f) => 2048,
        _ => return None,
    })
}

/// Vendor, family, model and stepping: one word for a file's name.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn name() -> String {
    let leaf = std::arch::x86_64::__cpuid(1);
    let (base, more) = ((leaf.eax >> 8) & 15, (leaf.eax >> 20) & 255);
    let family = if base == 15 { base + more } else { base };
    let model = ((leaf.eax >> 4) & 15) | ((leaf.eax >> 12) & 0xf0);
    let vendor = match vendor() {
        INTEL => "intel",
        AMD => "amd",
        _ => "x86",
    };
    format!("{vendor}-{family}-{model}-{}", leaf.eax & 15)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
const INTEL: u32 = u32::from_le_bytes(*b"Genu");
#[cfg(all(target_arch = "x86_64", not(miri)))]
const AMD: u32 = u32::from_le_bytes(*b"Auth");

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn vendor() -> u32 {
    std::arch::x86_64::__cpuid(0).ebx
}

/// Implementer and part of an Arm processor.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn name() -> String {
    let file = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1";
    let text = if cfg!(miri) { None } else { std::fs::read_to_string(file).ok() };
    let number =
        text.and_then(|text| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    match number {
        Some(id) => {
            format!("arm-{}-{}-{}", (id >> 24) & 255, (id >> 4) & 0xfff, id & 15)
        }
        None => std::env::consts::ARCH.to_owned(),
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn told() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (most, most_extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    if vendor() == AMD && most_extended >= 0x8000_0006 {
        // From family 26 on in units of 32 pages; hypervisors hide the bit that says so.
        let second = __cpuid(0x8000_0006).ebx;
        let unit = if name().starts_with("amd-26-") { 32 } else { 1 };
        let pages = (second >> 16) & 0xfff;
        return (second >> 28 != 0).then_some(pages as usize * unit);
    }
    if most < 0x18 {
        return None;
    }
    let (mut deepest, mut pages) = (0, None);
    for part in 0..=__cpuid_count(0x18, 0).eax.min(64) {
        let leaf = __cpuid_count(0x18, part);
        let (kind, level) = (leaf.edx & 31, (leaf.edx >> 5) & 7);
        // Data or for both, with pages of 4 KiB.
        if matches!(kind, 1 | 3) && leaf.ebx & 1 != 0 && level > deepest {
            let (ways, sets) = ((leaf.ebx >> 16) as usize, leaf.ecx as usize);
            (deepest, pages) = (level, Some(ways * sets));
        }
    }
    pages
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn told() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_their_tlb() {
        assert_eq!(by_model("intel-6-85-4"), Some(1536));
        assert_eq!(by_model("amd-25-17-1"), Some(3072));
        assert_eq!(by_model("arm-65-3392-2"), Some(2048));
        assert_eq!(by_model("amd-21-2-0"), None);
        assert_eq!(by_model("riscv64"), None);
    }
}
