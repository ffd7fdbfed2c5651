//! Numbers that were measured, kept for this host in the user's cache.
//!
//! A file of lines `name value`, a head before them and `end` behind: what is cut
//! short, or holds anything else than it should, counts as not there.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The user's file for measurements of a kind, on this host, of this thing.
fn file(kind: &str, of: &str) -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache =
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name = |text: &str| text.trim().chars().map(plain).collect::<String>();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(cache.join("rankway").join(format!("{kind}-{}-{}", name(&host), name(of))))
}

/// All that was kept of `of`, if it is each of `names` once, from 0 to below a million.
pub(crate) fn read<const N: usize>(kind: &str, of: &str, names: [&str; N]) -> Option<[f64; N]> {
    if cfg!(miri) {
        return None;
    }
    read_file(&file(kind, of)?, kind, names)
}

fn read_file<const N: usize>(path: &Path, kind: &str, names: [&str; N]) -> Option<[f64; N]> {
    // (Opening a pipe would wait.)
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    parse(&text, kind, names)
}

fn parse<const N: usize>(text: &str, kind: &str, names: [&str; N]) -> Option<[f64; N]> {
    let body = text.strip_prefix(&head(kind))?.strip_suffix("end\n")?;
    let mut values = [None; N];
    for line in body.lines() {
        let (name, value) = line.split_once(' ')?;
        let at = names.iter().position(|known| *known == name)?;
        let value = value.parse::<f64>().ok().filter(|value| (0.0..1e6).contains(value))?;
        if values[at].replace(value).is_some() {
            return None;
        }
    }
    let mut all = [0.0; N];
    for (value, of) in all.iter_mut().zip(values) {
        *value = of?;
    }
    Some(all)
}

fn head(kind: &str) -> String {
    format!("rankway {kind} 1\n")
}

fn print(kind: &str, values: &[(&str, f64)]) -> String {
    let mut text = head(kind);
    for (name, value) in values {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    text + "end\n"
}

/// Keeps what was measured in place of what is there. Returns the file.
///
/// # Errors
/// Neither variable that names a cache is set, or the file cannot be written.
pub(crate) fn write(kind: &str, of: &str, values: &[(&str, f64)]) -> io::Result<PathBuf> {
    let path = file(kind, of).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME is set")
    })?;
    write_file(&path, &print(kind, values))?;
    Ok(path)
}

/// Writes the file as a whole.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
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
        const NAMES: [&str; 3] = ["pages", "run", "byte"];
        let folder = std::env::temp_dir().join(format!("rankway-kept-{}", std::process::id()));
        let path = folder.join("cache").join("machine-a-b");
        let read = |path: &Path| read_file(path, "machine", NAMES);
        assert_eq!(read(&path), None);
        for pages in [1024.0, 2048.0] {
            let values = [("pages", pages), ("run", 0.25), ("byte", 11.5)];
            write_file(&path, &print("machine", &values)).unwrap();
            assert_eq!(read(&path), Some([pages, 0.25, 11.5]));
        }
        let text = fs::read_to_string(&path).unwrap();
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left behind: {names:?}");
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut], "machine", NAMES), None, "{:?}", &text[..cut]);
        }
        assert_eq!(parse(&text, "provider", NAMES), None);
        for (old, new) in [
            ("2048", "-1"),
            ("0.25", "NaN"),
            ("0.25", "-0.1"),
            ("11.5", "inf"),
            ("11.5", "1e6"),
            ("run ", "ran "),
            ("machine 1", "machine 2"),
            ("byte", "run"),
        ] {
            assert!(text.contains(old));
            assert_eq!(parse(&text.replacen(old, new, 1), "machine", NAMES), None, "{old} {new}");
        }
        fs::write(&path, [0xff; 9000]).unwrap();
        assert_eq!(read(&path), None);
        assert_eq!(read(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
