//! Names for code addresses: which file is mapped there, and which function of
//! its ELF symbol tables covers the address.
//!
//! dladdr(3) is not enough here: it knows exported symbols only, and only of
//! libraries this process has open, while a traced child may have opened more.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// One executable mapping of a process, see proc_pid_maps(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// First address.
    pub start: usize,
    /// Address behind the last.
    pub end: usize,
    /// Offset of `start` in the file.
    pub offset: usize,
    /// The mapped file, or a name such as `[vdso]`.
    pub path: PathBuf,
}

/// The executable mappings of process `pid`, in order of address.
///
/// # Errors
/// When `/proc/<pid>/maps` cannot be read: no such process, no right to look,
/// or no procfs.
pub fn modules_of(pid: u32) -> io::Result<Vec<Module>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(maps.lines().filter_map(parse_line).collect())
}

/// `start-end perms offset dev inode path`; only executable ones.
fn parse_line(line: &str) -> Option<Module> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    let path = fields.nth(2).unwrap_or("").trim();
    if !permissions.contains('x') {
        return None;
    }
    Some(Module {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        offset: usize::from_str_radix(offset, 16).ok()?,
        path: path.into(),
    })
}

/// A function name with where in the function an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The function's name, demangled with feature `cli`; without a symbol the
    /// name of the file.
    pub function: String,
    /// Bytes from the function's (or the file's) beginning.
    pub offset: usize,
    /// Whether `function` is a function.
    pub exact: bool,
}

/// Resolves addresses; reads the symbol tables of a file on first use.
#[derive(Debug, Default)]
pub struct Symbols {
    modules: Vec<Module>,
    tables: HashMap<PathBuf, Table>,
}

impl Symbols {
    /// For the address space that `modules` describe.
    pub fn new(modules: &[Module]) -> Self {
        Self { modules: modules.to_vec(), tables: HashMap::new() }
    }

    /// The function at `address`; `None` when no file is mapped there.
    pub fn name(&mut self, address: usize) -> Option<Name> {
        let module = self.modules.iter().find(|m| (m.start..m.end).contains(&address))?;
        let in_file = address - module.start + module.offset;
        let table = self
            .tables
            .entry(module.path.clone())
            .or_insert_with(|| Table::read(&module.path).unwrap_or_default());
        if let Some((function, offset)) = table.find(in_file as u64) {
            return Some(Name { function: demangle(function), offset, exact: true });
        }
        let file = module.path.file_name().map(|name| name.to_string_lossy().into_owned());
        Some(Name { function: file.unwrap_or_default(), offset: in_file, exact: false })
    }
}

fn demangle(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

/// The functions of one ELF file by file offset.
#[derive(Debug, Default)]
struct Table {
    /// (file offset, size, name), sorted.
    functions: Vec<(u64, u64, String)>,
}

/// Little-endian 64-bit ELF, see elf(5): everything read here is checked
/// against the file's length, a damaged file yields fewer names.
struct Elf<'a>(&'a [u8]);

impl Elf<'_> {
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let at = usize::try_from(at).ok()?;
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
    fn u16(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(|b| u16::from_le_bytes(b).into())
    }
    fn u32(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(|b| u32::from_le_bytes(b).into())
    }
    fn u64(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }
    fn text(&self, at: u64) -> Option<&str> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        std::str::from_utf8(rest.split(|&b| b == 0).next()?).ok()
    }
}

impl Table {
    fn read(path: &Path) -> Option<Self> {
        Self::parse(&std::fs::read(path).ok()?)
    }

    fn parse(file: &[u8]) -> Option<Self> {
        const SYMTAB: u64 = 2;
        const DYNSYM: u64 = 11;
        const LOAD: u64 = 1;
        const FUNCTION: u8 = 2;
        const INDIRECT_FUNCTION: u8 = 10;

        if file.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let elf = Elf(file);
        let (segments, segment_size, segment_count) = (elf.u64(32)?, elf.u16(54)?, elf.u16(56)?);
        let loads: Vec<[u64; 3]> = (0..segment_count)
            .filter_map(|i| {
                let at = segments.checked_add(i * segment_size)?;
                (elf.u32(at)? == LOAD).then_some(())?;
                Some([elf.u64(at + 8)?, elf.u64(at + 16)?, elf.u64(at + 32)?])
            })
            .collect();
        let to_file = |address: u64| {
            loads.iter().find_map(|&[offset, start, size]| {
                let inside = address.checked_sub(start).filter(|inside| *inside < size)?;
                offset.checked_add(inside)
            })
        };

        let (sections, section_size, section_count) = (elf.u64(40)?, elf.u16(58)?, elf.u16(60)?);
        let section = |i: u64| sections.checked_add(i * section_size);
        let mut functions = Vec::new();
        for i in 0..section_count {
            let Some(at) = section(i) else { break };
            if !matches!(elf.u32(at + 4), Some(SYMTAB | DYNSYM)) {
                continue;
            }
            let (begin, size) = (elf.u64(at + 24)?, elf.u64(at + 32)?);
            let names = elf.u64(section(elf.u32(at + 40)?)? + 24)?;
            for symbol in (begin..begin.checked_add(size)?.min(file.len() as u64)).step_by(24) {
                let kind = elf.bytes::<1>(symbol + 4)?[0] & 15;
                if kind != FUNCTION && kind != INDIRECT_FUNCTION {
                    continue;
                }
                let found = (|| {
                    let name = elf.text(names.checked_add(elf.u32(symbol)?)?)?;
                    let offset = to_file(elf.u64(symbol + 8)?)?;
                    Some((offset, elf.u64(symbol + 16)?, name.to_owned()))
                })();
                functions.extend(found);
            }
        }
        // Of several names for one place the longest range, then the first by
        // name, so that listings do not change between runs.
        functions.sort_by(|a, b| (a.0, b.1, &a.2).cmp(&(b.0, a.1, &b.2)));
        functions.dedup_by_key(|function| function.0);
        Some(Self { functions })
    }

    fn find(&self, offset: u64) -> Option<(&str, usize)> {
        let next = self.functions.partition_point(|function| function.0 <= offset);
        let (start, size, name) = self.functions.get(next.checked_sub(1)?)?;
        let inside = offset - start;
        // Hand-written assembly often has no size.
        (inside < *size || *size == 0).then_some((name, inside as usize))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn own_function_is_named() {
        #[inline(never)]
        fn a_function_with_a_name() -> u32 {
            std::hint::black_box(7)
        }
        if !cfg!(target_os = "linux") {
            return;
        }
        let address = a_function_with_a_name as fn() -> u32 as usize;
        let modules = modules_of(std::process::id()).unwrap();
        let name = Symbols::new(&modules).name(address + 1).unwrap();
        assert!(name.exact, "{name:?}");
        assert!(name.function.contains("a_function_with_a_name"), "{name:?}");
        assert_eq!(name.offset, 1);
        assert_eq!(a_function_with_a_name(), 7);
    }

    #[test]
    fn libc_function_is_named() {
        if !cfg!(all(target_os = "linux", target_env = "gnu")) {
            return;
        }
        let modules = modules_of(std::process::id()).unwrap();
        let name = Symbols::new(&modules).name(libc::getpid as *const () as usize).unwrap();
        assert!(name.function.contains("getpid"), "{name:?}");
    }

    #[test]
    fn maps_lines() {
        let line = "7f00a000-7f00b000 r-xp 00002000 fe:01 1234      /usr/lib/a b.so";
        let module = parse_line(line).unwrap();
        assert_eq!((module.start, module.end, module.offset), (0x7f00_a000, 0x7f00_b000, 0x2000));
        assert_eq!(module.path, Path::new("/usr/lib/a b.so"));
        assert_eq!(parse_line("7f00a000-7f00b000 rw-p 0 fe:01 1234 /x"), None);
        assert_eq!(parse_line("garbage"), None);
    }

    #[test]
    fn damaged_elf_gives_no_panic() {
        let Ok(good) = std::fs::read("/bin/true") else { return };
        for cut in [0, 5, 6, 40, 63, 64, 1000, good.len() / 2] {
            let _ = Table::parse(&good[..cut.min(good.len())]);
        }
        let mut state = 1u64;
        for _ in 0..300 {
            let mut bad = good.clone();
            for _ in 0..8 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % 64.min(bad.len());
                bad[at.max(6)] = (state >> 20) as u8;
            }
            let _ = Table::parse(&bad);
        }
    }
}
