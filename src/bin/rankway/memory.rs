//! Placeholder.

use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode, String> {
    Err("not built yet".into())
}
