//! The variables that are set: which of them Rankway knows, and whether it can use them.

use serde::Serialize;
use std::collections::BTreeMap;

/// What our variables begin with.
const OURS: &str = "RANKWAY_";

/// All that docs/settings.md has.
const KNOWN: [&str; 51] = [
    "RANKWAY_BOOT",
    "RANKWAY_BULK_PIECE",
    "RANKWAY_CHARTS",
    "RANKWAY_CI_SECONDS",
    "RANKWAY_DATATYPE_PLAN",
    "RANKWAY_EAGER_CREDIT",
    "RANKWAY_EAGER_MESSAGES",
    "RANKWAY_FRESH_NICE",
    "RANKWAY_GUEST_CPUS",
    "RANKWAY_GUEST_SECONDS",
    "RANKWAY_HYDRA",
    "RANKWAY_KILLS_SEED",
    "RANKWAY_KILLS_TRIALS",
    "RANKWAY_LIBFABRIC",
    "RANKWAY_MAP_STRATEGY",
    "RANKWAY_MPI4PY",
    "RANKWAY_MPICC",
    "RANKWAY_MPIRUN",
    "RANKWAY_MPI_OPTIONAL",
    "RANKWAY_NETMOD",
    "RANKWAY_NEWER_LIBFABRIC",
    "RANKWAY_NEWER_UCX",
    "RANKWAY_NODE_QUEUES",
    "RANKWAY_NULL_BUSY",
    "RANKWAY_NULL_STATS",
    "RANKWAY_OTF2_LIBRARY",
    "RANKWAY_PACK",
    "RANKWAY_PACK_STATS",
    "RANKWAY_PMIX",
    "RANKWAY_PROOF_END",
    "RANKWAY_PROOF_OPTIONAL",
    "RANKWAY_PROVIDER",
    "RANKWAY_PRTERUN",
    "RANKWAY_RANDOM_COUNT",
    "RANKWAY_RANDOM_SECONDS",
    "RANKWAY_RANDOM_SEED",
    "RANKWAY_RSMPI",
    "RANKWAY_SHM_PEERS",
    "RANKWAY_SUITE",
    "RANKWAY_TCP_GATHER",
    "RANKWAY_TEST_LAUNCHER",
    "RANKWAY_TEST_OVER",
    "RANKWAY_TEST_SECONDS",
    "RANKWAY_TIMEOUT",
    "RANKWAY_TRACE",
    "RANKWAY_TRACE_EVENTS",
    "RANKWAY_TRACK_LIBRARY",
    "RANKWAY_TRANSFER",
    "RANKWAY_UCX",
    "RANKWAY_VERBS_OPTIONAL",
    "RANKWAY_WINDOW_KEYS",
];

/// Those of libraries that change what is found or chosen.
const OTHERS: [&str; 4] = ["FI_PROVIDER", "FI_PROVIDER_PATH", "FI_UNIVERSE_SIZE", "UCX_TLS"];

/// What is set.
pub(super) struct Settings {
    /// Those that somebody reads, ours and of libraries.
    pub(super) known: BTreeMap<String, String>,
    pub(super) unusable: Vec<Unusable>,
}

/// A variable that does not do what it was set for.
#[derive(Serialize)]
pub(super) struct Unusable {
    pub(super) name: String,
    pub(super) why: String,
    /// Whether jobs do not start with it.
    pub(super) refused: bool,
}

impl Settings {
    pub(super) fn look() -> Settings {
        let text = |it: std::ffi::OsString| it.to_string_lossy().into_owned();
        let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        let is_known = |name: &str| KNOWN.contains(&name) || OTHERS.contains(&name);
        let (known, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(name, _)| is_known(name));
        let refused = rankway::netmod::check_settings().err();
        let refused = refused.map(|bad| {
            let why = format!("it takes {}", bad.takes);
            Unusable { name: bad.name.to_owned(), why, refused: true }
        });
        let unknown = rest.into_keys().filter(|name| name.starts_with(OURS));
        let unknown = unknown.map(|name| {
            let why = match meant(&name) {
                Some(meant) => format!("nothing reads it; {meant} is a setting"),
                None => "nothing reads it".to_owned(),
            };
            Unusable { name, why, refused: false }
        });
        let unusable = refused.into_iter().chain(unknown).collect();
        Settings { known, unusable }
    }
}

/// The known name that a name begins most like, if it goes some way.
fn meant(name: &str) -> Option<&'static str> {
    /// Letters behind the prefix.
    const ENOUGH: usize = 3;
    let common = |known: &str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let best = KNOWN.into_iter().max_by_key(|known| (common(known), usize::MAX - known.len()))?;
    (common(best) >= OURS.len() + ENOUGH).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::{OURS, meant};

    #[test]
    fn what_was_meant_begins_alike() {
        let meant = |name: &str| meant(&format!("{OURS}{name}"));
        for (wrong, right) in [
            ("PROVIDR", "RANKWAY_PROVIDER"),
            ("NODE_QUEUE", "RANKWAY_NODE_QUEUES"),
            ("TRACING", "RANKWAY_TRACE"),
            ("EAGER", "RANKWAY_EAGER_CREDIT"),
        ] {
            assert_eq!(meant(wrong), Some(right));
        }
        assert_eq!(meant("COLOUR"), None);
    }
}
