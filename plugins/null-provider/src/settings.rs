//! What the environment asks for. A provider cannot end a program: with nonsense
//! there it says so, and offers itself to nobody.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

const BUSY: &str = "RANKWAY_NULL_BUSY";
const STATS: &str = "RANKWAY_NULL_STATS";

pub(crate) struct Settings {
    /// How long operations find no space.
    pub(crate) busy: Option<Duration>,
    /// Operations and bytes of an endpoint are printed when it is closed.
    pub(crate) stats: bool,
}

/// Of this process, read once; `Err` after a variable was named that holds
/// something else than it takes.
pub(crate) static SETTINGS: LazyLock<Result<Settings, ()>> =
    LazyLock::new(|| read().map_err(|why| say(&why)));

/// Prints a line in one piece; a standard error that nobody reads is not a fault.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("rankway_null: {line}\n").as_bytes());
}

fn read() -> Result<Settings, String> {
    let value = |name| std::env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
    let (busy, stats) = (value(BUSY), value(STATS));
    let millis = match busy.trim() {
        "" => Ok(0),
        text => text.parse(),
    };
    let refuse = |name, value, takes| format!("{name} is '{value}'; it takes {takes}");
    let millis = millis.map_err(|_| refuse(BUSY, &busy, "a whole number of milliseconds"))?;
    let stats = match stats.trim() {
        "" | "0" | "off" | "no" => false,
        "1" | "on" | "yes" => true,
        _ => return Err(refuse(STATS, &stats, "1, on or yes, or 0, off or no")),
    };
    Ok(Settings { busy: (millis > 0).then(|| Duration::from_millis(millis)), stats })
}
