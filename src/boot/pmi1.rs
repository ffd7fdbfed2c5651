//! stub
use super::*;
/// stub
pub struct Pmi1;
impl Pmi1 {
    /// stub
    pub fn connect() -> Result<alone::Alone, BootError> {
        alone::Alone::new()
    }
}
/// stub
pub fn present() -> bool {
    false
}
