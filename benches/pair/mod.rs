//! Two processes of this machine that measure something between them, each on a
//! processor of its own: on one, what both do is waiting for their turns.

use rankway::boot::{Boot, local};
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs `body` as each of two ranks of a job; true if both came to their end. `what`
/// stands before the error of one that did not.
fn ran(what: &str, body: impl Fn(Arc<dyn Boot>) -> Result) -> bool {
    let body = |boot: Arc<dyn Boot>| match body(boot) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("{what}: {e}");
            1
        }
    };
    match local::run(&local::Options::new(2).pin(true), body) {
        Ok(outcome) => outcome.exit_code() == 0,
        Err(e) => {
            eprintln!("{e}");
            false
        }
    }
}

/// Measures each of these, by name, until one fails.
pub(crate) fn each<'a>(
    names: impl IntoIterator<Item = &'a str>,
    body: impl Fn(&str, Arc<dyn Boot>) -> Result,
) -> ExitCode {
    let all = names.into_iter().all(|name| ran(name, |boot| body(name, boot)));
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
