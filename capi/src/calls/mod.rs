//! The functions of the header, by object.

pub mod am;
pub mod comm;
pub mod cq;
pub mod datatype;
pub mod device;
pub mod epoch;
pub mod group;
pub mod message;
pub mod other_jobs;
pub mod rankmap;
pub mod rma;
pub mod win;
