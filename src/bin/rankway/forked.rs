//! One answer out of a job of forked processes.

use rankway::boot::{Boot, local};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::sync::Arc;

/// Runs `body` in every rank of a forked job and hears through a pipe what one
/// of them answers with `Some`, or why it failed; `name` stands before errors.
pub(crate) fn answer<T: Serialize + DeserializeOwned>(
    name: &str,
    options: &local::Options,
    body: impl Fn(Arc<dyn Boot>) -> Result<Option<T>, String>,
) -> Result<T, String> {
    let (mut read, write) = std::io::pipe().map_err(|e| e.to_string())?;
    let writer = write.try_clone().map_err(|e| e.to_string())?;
    let job = local::spawn(options, |boot| {
        let mut out = writer;
        let (said, code) = match body(boot) {
            Ok(None) => return 0,
            Ok(Some(answer)) => (serde_json::to_string(&Ok::<_, String>(answer)), 0),
            Err(why) => (serde_json::to_string(&Err::<T, _>(why)), 1),
        };
        let _ = writeln!(out, "{}", said.unwrap_or_default());
        code
    })
    .map_err(|e| e.to_string())?;
    drop(write);
    let mut said = String::new();
    read.read_to_string(&mut said).map_err(|e| e.to_string())?;
    job.wait().map_err(|e| e.to_string())?;
    // The one that failed knows why; the others saw that it left.
    let knows = said.lines().find(|line| !line.contains("left in good order"));
    let line = knows.or(said.lines().next());
    let line =
        line.ok_or_else(|| format!("{name}: the measuring processes ended without a word"))?;
    let answer: Result<T, String> =
        serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
    answer.map_err(|why| format!("{name}: {why}"))
}
