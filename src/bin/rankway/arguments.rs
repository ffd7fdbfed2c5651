//! Values of options that several commands take.

use rankway::rankmap::SIZE_MAX;

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
