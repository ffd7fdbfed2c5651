//! What the environment asks for.

use rankway_preload::say;
use std::sync::LazyLock;

/// What is taken, and whether it is counted.
pub(crate) struct Settings {
    /// `MPI_Pack` and `MPI_Unpack`.
    pub(crate) pack: bool,
    /// Messages.
    pub(crate) messages: bool,
    /// Calls of any length and any blocks, as they come: for tests.
    pub(crate) all: bool,
    /// Calls are counted, and the counts are printed at the end.
    pub(crate) stats: bool,
}

/// Of this process, read once.
pub(crate) static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let value = |name| std::env::var(name).unwrap_or_default();
    let chosen = value("RANKWAY_PACK");
    let (pack, messages) = match chosen.trim() {
        "" | "on" | "1" | "all" => (true, true),
        "pack" => (true, false),
        "off" | "0" => (false, false),
        other => {
            // The program is not ours to end.
            say(&format!(
                "rankway_pack: RANKWAY_PACK is '{other}'; it takes on, all, pack or off; off\n"
            ));
            (false, false)
        }
    };
    let counted = value("RANKWAY_PACK_STATS");
    let stats = match counted.trim() {
        "" | "0" | "off" | "no" => false,
        "1" | "on" | "yes" => true,
        other => {
            say(&format!(
                "rankway_pack: RANKWAY_PACK_STATS is '{other}'; it takes 1, on or yes, or 0, off or \
                 no; off\n"
            ));
            false
        }
    };
    Settings { pack, messages, all: chosen.trim() == "all", stats }
});
