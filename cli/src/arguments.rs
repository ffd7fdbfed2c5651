//! Values of options that several commands take.

use rankway::rankmap::SIZE_MAX;
use std::fs::OpenOptions;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// `786432`, `786,432`, `64k`, `16M`.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let value = whole(text)?.and_then(|value| u32::try_from(value).ok());
    value
        .filter(|&value| value <= SIZE_MAX)
        .ok_or_else(|| format!("'{text}' is too large; at most {SIZE_MAX}, an int in MPI"))
}

/// The same; `None` for more than a number holds.
fn whole(text: &str) -> Result<Option<u64>, String> {
    let help = || format!("'{text}' is not a number; write 786432, 64k (64 x 1024) or 16M");
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let digits: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    match digits.parse::<u64>() {
        Ok(value) => Ok(value.checked_mul(unit)),
        Err(e) if *e.kind() == IntErrorKind::PosOverflow => Ok(None),
        Err(_) => Err(help()),
    }
}

/// A [`number`] from the first to the last of these.
pub(crate) fn within<T: From<u32>>(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let positive = text.strip_prefix('-').unwrap_or(text);
        if positive.parse().is_ok_and(|value: f64| value.fract() != 0.0) {
            return Err(format!("'{text}' is no whole number"));
        }
        let value = whole(positive)?.and_then(|value| u32::try_from(value).ok());
        value
            .filter(|value| positive.len() == text.len() && range.contains(value))
            .map(T::from)
            .ok_or_else(|| format!("{text} is not in {}..={}", range.start(), range.end()))
    }
}

/// What random draws begin with.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is no seed; write a whole number from 0 to {}", u64::MAX))
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
    fn numbers_are_whole_and_not_too_large() {
        assert_eq!((number("64k"), number("786,432")), (Ok(65_536), Ok(786_432)));
        for text in ["2147483648", "16G", "4194304k", "99999999999999999999999", "9999999999M"] {
            let why = number(text).expect_err(text);
            let large = why.contains("too large") && why.contains("at most 2147483647");
            assert_eq!(large, !text.ends_with('G'), "{text}: {why}");
        }
        let rounds = within::<u64>(1..=1000);
        assert_eq!((rounds("7"), rounds("1000")), (Ok(7), Ok(1000)));
        for (text, why) in [
            ("x", "not a number"),
            ("", "not a number"),
            ("1.5", "no whole number"),
            ("-1.5", "no whole number"),
            ("-1", "not in 1..=1000"),
            ("0", "not in 1..=1000"),
            ("1k", "not in 1..=1000"),
            ("99999999999999999999", "not in 1..=1000"),
        ] {
            let said = rounds(text).expect_err(text);
            assert!(said.contains(why) && said.contains(text), "{text}: {said}");
        }
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for text in ["-1", "x", "18446744073709551616"] {
            assert!(seed(text).is_err_and(|why| why.contains("no seed")), "{text}");
        }
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
