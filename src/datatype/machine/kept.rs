//! What was measured, kept for a host and its processor in the user's cache.
//!
//! A file of lines `name value`, the last of them `end`: what is cut short, or holds
//! anything else than it should, counts as not there.

use super::Costs;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const HEAD: &str = "rankway machine 1";

/// The user's file for this host with this processor.
fn file(processor: &str) -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache =
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' })
        .collect();
    Some(cache.join("rankway").join(format!("machine-{host}-{processor}")))
}

/// Pages of the TLB and costs, if they were kept.
pub(super) fn read(processor: &str) -> Option<(usize, Costs)> {
    if cfg!(miri) {
        return None;
    }
    read_file(&file(processor)?)
}

fn read_file(path: &Path) -> Option<(usize, Costs)> {
    // (Opening a pipe would wait.)
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<(usize, Costs)> {
    let body = text.strip_prefix(HEAD)?.strip_suffix("end\n")?;
    let (mut pages, mut costs) = (None, Costs::ASSUMED);
    let mut left: Vec<&str> = costs.named().iter().map(|(name, _)| *name).collect();
    for line in body.trim().lines() {
        let (name, value) = line.split_once(' ')?;
        if name == "tlb_pages" {
            pages = value.parse().ok().filter(|pages| (16..=1 << 24).contains(pages));
            continue;
        }
        let value = value.parse::<f64>().ok().filter(|ns| (0.0..1e6).contains(ns))?;
        *costs.of(name)? = value;
        left.retain(|other| *other != name);
    }
    left.is_empty().then_some((pages?, costs))
}

fn print(pages: usize, costs: &Costs) -> String {
    let mut text = format!("{HEAD}\ntlb_pages {pages}\n");
    for (name, ns) in costs.named() {
        let _ = writeln!(text, "{name} {ns:.4}");
    }
    text + "end\n"
}

/// Writes the file as a whole, in place of one that is there.
pub(super) fn write(processor: &str, pages: usize, costs: &Costs) -> io::Result<PathBuf> {
    let path = file(processor).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME is set")
    })?;
    write_file(&path, pages, costs)?;
    Ok(path)
}

fn write_file(path: &Path, pages: usize, costs: &Costs) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&fresh, print(pages, costs)).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn what_is_kept_is_read_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("rankway-kept-{}", std::process::id()));
        let path = folder.join("cache").join("machine-a-b");
        let costs = Costs { run: 0.25, page: 11.5, ..Costs::ASSUMED };
        assert_eq!(read_file(&path), None);
        for pages in [1024, 2048] {
            write_file(&path, pages, &costs).unwrap();
            assert_eq!(read_file(&path), Some((pages, costs)));
        }
        let text = fs::read_to_string(&path).unwrap();
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left behind: {names:?}");
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), None, "{:?}", &text[..cut]);
        }
        for (old, new) in [
            ("2048", "0"),
            ("2048", "-1"),
            ("0.25", "NaN"),
            ("0.25", "-0.1"),
            ("11.5", "inf"),
            ("run ", "ran "),
            ("machine 1", "machine 2"),
            ("byte", "run"),
        ] {
            assert!(text.contains(old));
            assert_eq!(parse(&text.replacen(old, new, 1)), None, "{old} {new}");
        }
        fs::write(&path, [0xff; 9000]).unwrap();
        assert_eq!(read_file(&path), None);
        assert_eq!(read_file(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
