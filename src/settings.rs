//! Environment variables that hold numbers, switches and names: what each
//! takes, at one place. [`check`] refuses nonsense when a process meets its job,
//! so that the readers, which come later, find nothing but values that fit.
//! Variables that name a library or a provider are refused by whoever opens it;
//! those that one netmod alone reads stand there.

use crate::datatype::Plan;
use crate::rankmap::compact::Strategy;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;

/// An environment variable with a value that its reader cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// The variable.
    pub name: &'static str,
    /// What it is set to.
    pub value: String,
    /// What it takes.
    pub takes: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadSetting { name, value, takes } = self;
        write!(f, "{name} is '{value}'; it takes {takes}")
    }
}

impl Error for BadSetting {}

/// A whole number between two bounds.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// On or off.
pub(crate) struct Switch {
    name: &'static str,
}

/// One of some names.
pub(crate) struct Choice {
    name: &'static str,
    pub(crate) names: &'static [&'static str],
}

/// Seconds that set-up waits for peers that live but are silent.
pub(crate) const TIMEOUT: Number =
    Number { name: "RANKWAY_TIMEOUT", unit: "seconds", least: 1, most: 1 << 32 };
/// Bytes of short messages that may wait unreceived at one peer.
pub(crate) const EAGER_CREDIT: Number =
    Number { name: "RANKWAY_EAGER_CREDIT", unit: "bytes", least: 16, most: 1 << 30 };
/// How many short messages may wait unreceived at one peer.
pub(crate) const EAGER_MESSAGES: Number =
    Number { name: "RANKWAY_EAGER_MESSAGES", unit: "messages", least: 16, most: 1 << 30 };
/// The longest piece of a bulk message.
pub(crate) const BULK_PIECE: Number =
    Number { name: "RANKWAY_BULK_PIECE", unit: "bytes", least: 1, most: 1 << 40 };
/// Bytes that a window may have of keys that differ between its members.
pub(crate) const WINDOW_KEYS: Number =
    Number { name: "RANKWAY_WINDOW_KEYS", unit: "bytes", least: 0, most: 1 << 40 };
/// Whether packets between processes of a node go through our own queues.
pub(crate) const NODE_QUEUES: Switch = Switch { name: "RANKWAY_NODE_QUEUES" };
/// Who starts the job.
pub(crate) const BOOT: Choice =
    Choice { name: "RANKWAY_BOOT", names: &["local", "pmix", "pmi1", "alone"] };
/// How noncontiguous data travels wherever it can.
pub(crate) const TRANSFER: Choice =
    Choice { name: "RANKWAY_TRANSFER", names: &["store", "crossmemory", "iov", "blocks", "pack"] };

const NUMBERS: [&Number; 5] = [&TIMEOUT, &EAGER_CREDIT, &EAGER_MESSAGES, &BULK_PIECE, &WINDOW_KEYS];
const SWITCHES: [&Switch; 1] = [&NODE_QUEUES];
const CHOICES: [&Choice; 2] = [&BOOT, &TRANSFER];

/// The value of a variable; an empty one counts as not set.
fn value(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    let value = value.as_os_str();
    (value != OsStr::new("")).then(|| value.to_string_lossy().trim().to_owned())
}

impl Number {
    fn parse(&self, value: &str) -> Option<u64> {
        value.parse().ok().filter(|n| (self.least..=self.most).contains(n))
    }

    /// The number, if it is set.
    pub(crate) fn get(&self) -> Option<u64> {
        value(self.name).and_then(|value| self.parse(&value))
    }

    /// Refuses a value that is none.
    ///
    /// # Errors
    /// The variable, with what it takes.
    pub(crate) fn check(&self) -> Result<(), BadSetting> {
        check_one(self.name, |v| self.parse(v).is_some(), || self.takes())
    }

    fn takes(&self) -> String {
        format!("a whole number of {} from {} to {}", self.unit, self.least, self.most)
    }
}

impl Switch {
    fn parse(value: &str) -> Option<bool> {
        match value {
            "1" | "on" | "yes" => Some(true),
            "0" | "off" | "no" => Some(false),
            _ => None,
        }
    }

    /// On unless it says otherwise.
    pub(crate) fn is_on(&self) -> bool {
        value(self.name).and_then(|value| Switch::parse(&value)).unwrap_or(true)
    }
}

impl Choice {
    /// The name, if it is set.
    pub(crate) fn get(&self) -> Option<&'static str> {
        let value = value(self.name)?;
        self.names.iter().copied().find(|name| *name == value)
    }
}

fn check_one(
    name: &'static str,
    fits: impl FnOnce(&str) -> bool,
    takes: impl FnOnce() -> String,
) -> Result<(), BadSetting> {
    match value(name) {
        Some(value) if !fits(&value) => Err(BadSetting { name, value, takes: takes() }),
        _ => Ok(()),
    }
}

/// Refuses values that the readers of these variables could not use.
///
/// # Errors
/// The first such variable, with what it takes.
pub fn check() -> Result<(), BadSetting> {
    for number in NUMBERS {
        number.check()?;
    }
    for switch in SWITCHES {
        let takes = || "1, on or yes, or 0, off or no".to_owned();
        check_one(switch.name, |v| Switch::parse(v).is_some(), takes)?;
    }
    check_one(Plan::VARIABLE, |v| Plan::check(v).is_ok(), || Plan::TAKES.to_owned())?;
    let takes = || Strategy::TAKES.to_owned();
    check_one(Strategy::VARIABLE, |v| Strategy::named(v).is_ok(), takes)?;
    for choice in CHOICES {
        check_choice(choice.name, choice.names)?;
    }
    Ok(())
}

/// Refuses a value of this variable that is none of these names.
pub(crate) fn check_choice(name: &'static str, names: &[&str]) -> Result<(), BadSetting> {
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    let takes = || format!("{} or {last}", others.join(", "));
    check_one(name, |v| names.contains(&v), takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_bounds() {
        for number in NUMBERS {
            for good in [number.least, number.most] {
                assert_eq!(number.parse(&good.to_string()), Some(good), "{}", number.name);
            }
            for bad in ["", "soon", "-1", "1.5", "10GiB", "0x10", "99999999999999999999999"] {
                assert_eq!(number.parse(bad), None, "{}={bad}", number.name);
            }
            assert_eq!(number.parse(&(number.most + 1).to_string()), None, "{}", number.name);
        }
    }

    #[test]
    fn switches_take_three_words_each() {
        for (word, on) in [("1", true), ("on", true), ("yes", true), ("0", false), ("off", false)] {
            assert_eq!(Switch::parse(word), Some(on), "{word}");
        }
        for bad in ["2", "true", "O", "nein", ""] {
            assert_eq!(Switch::parse(bad), None, "{bad}");
        }
    }
}
