//! The measuring tools of the command `rankway`, for tests and benches as well.

pub mod observe;
