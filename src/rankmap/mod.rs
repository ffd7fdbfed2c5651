//! stub
/// stub
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// pg
    pub pg: u32,
    /// lpid
    pub lpid: u32,
}
