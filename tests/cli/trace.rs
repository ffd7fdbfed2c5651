//! `rankway trace`: what it says of traces whose answers are known.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;
#[path = "trace/comms.rs"]
mod comms;
#[allow(dead_code, unreachable_pub, reason = "a benchmark has it too")]
#[path = "trace/halo.rs"]
mod halo;
#[path = "trace/job.rs"]
mod job;
#[path = "trace/large.rs"]
mod large;
#[path = "trace/leaks.rs"]
mod leaks;
#[path = "trace/load.rs"]
mod load;
#[path = "trace/matrix.rs"]
mod matrix;
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test binary uses its part")]
#[path = "../harness/mpis.rs"]
mod mpis;
#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/processes.rs"]
mod processes;
#[path = "trace/programs.rs"]
mod programs;
#[path = "trace/record.rs"]
mod record;
#[path = "trace/report.rs"]
mod report;
#[path = "trace/timeline.rs"]
mod timeline;
#[path = "trace/waits.rs"]
mod waits;
