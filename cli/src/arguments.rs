//! Values of options that several commands take.

use rankway::rankmap::SIZE_MAX;
use std::fs::OpenOptions;
use std::path::PathBuf;

/// `786432`, `786,432`, `64k`, `16M`.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let help = || format!("'{text}' is not a number; write 786432, 64k (64 x 1024) or 16M");
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let digits: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let value: u64 = digits.parse().map_err(|_| help())?;
    let value = value.checked_mul(unit).and_then(|v| u32::try_from(v).ok());
    value.filter(|&v| v <= SIZE_MAX).ok_or_else(|| format!("at most {SIZE_MAX}, an int in MPI"))
}

/// Seconds from 0.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.0 && seconds.is_finite());
    value.ok_or_else(|| "no seconds; write 0, 1.5 or 2e-3".into())
}

/// The most bytes of a put that is measured.
const PUT_MAX: u64 = 1 << 22;
/// The most bytes that are packed at once.
const PAYLOAD_MAX: u64 = 1 << 30;

/// Bytes: `8`, `64k`, `64KiB`, `1M`, `1MiB`; `None` for more than a number holds.
fn bytes(text: &str) -> Result<Option<u64>, String> {
    let help = || format!("'{text}' are no bytes; write 8, 64k (64KiB, 64 x 1024) or 1M (1MiB)");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &*text[digits.len()..].to_ascii_lowercase() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(help()),
    };
    let value: u64 = digits.parse().map_err(|_| help())?;
    Ok(value.checked_mul(unit))
}

/// Bytes of a cache.
pub(crate) fn cache_bytes(text: &str) -> Result<u64, String> {
    bytes(text)?.ok_or_else(|| format!("'{text}' are more bytes than a number holds"))
}

/// Bytes of a put.
pub(crate) fn put_bytes(text: &str) -> Result<u32, String> {
    match bytes(text)? {
        Some(bytes @ 1..=PUT_MAX) => Ok(bytes as u32),
        _ => Err("a put that is measured has 1 byte to 4 MiB".into()),
    }
}

/// Bytes that are packed.
pub(crate) fn payload(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        Some(bytes @ 8..=PAYLOAD_MAX) => Ok(bytes),
        _ => Err("8 bytes to 1 GiB are packed".into()),
    }
}

/// A network's name.
pub(crate) fn network(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => {
            Err("names a network, as `rankway info` lists them; leave it out for the usual".into())
        }
        name => Ok(name.to_owned()),
    }
}

/// A file that a chart can be written into, tried before anything is measured.
pub(crate) fn chart(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let new = !path.exists();
    let tried = OpenOptions::new().append(true).create(true).open(&path);
    tried.map_err(|e| format!("cannot be written: {e}"))?;
    if new {
        // Nothing is to be left where the measuring fails.
        let _ = std::fs::remove_file(&path);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [("8", 8), ("1k", 1024), ("64KiB", 65_536), ("4M", 1 << 22), ("7b", 7)]
        {
            assert_eq!(put_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "0",
            "10GiB",
            "5M",
            "8 B",
            "1e3",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert!(put_bytes(text).is_err(), "{text}");
        }
        assert!(put_bytes("10GiB").is_err_and(|why| why.contains("4 MiB")));
    }

    #[test]
    fn charts_leave_nothing() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("rankway-chart-{}.svg", std::process::id()));
        assert_eq!(chart(path.to_str().expect("text")), Ok(path.clone()));
        assert!(!path.exists());
        assert!(chart("/nonexistent/a.svg").is_err_and(|why| why.contains("cannot be written")));
        assert!(chart(folder.to_str().expect("text")).is_err());
    }
}
