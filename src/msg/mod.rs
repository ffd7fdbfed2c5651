//! Messages between processes.

mod index;
mod matching;
