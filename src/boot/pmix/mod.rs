//! stub
use super::*;
/// stub
pub struct Pmix;
impl Pmix {
    /// stub
    pub fn connect() -> Result<alone::Alone, BootError> {
        alone::Alone::new()
    }
}
