//! Windows of elements of one Rust type.
//!
//! A [`TypedWindow`] is a [`Window`](super::Window) whose unit is an element: what it moves are
//! slices of `T`, what it counts are elements, and nothing about it is unsafe.
//! [`Communicator::window`](super::Communicator::window) makes one. Its calls
//! are those of [`Access`](super::Access) with the types put in, inline; nothing is added to
//! the path of an operation.
//!
//! * [`TypedWindow::put_slice`], [`TypedWindow::get_slice`] and their like are
//!   done with their buffers when they return.
//! * [`TypedWindow::scope`] has operations that are under way together, until
//!   the scope ends.
//! * [`TypedWindow::local`] is this process's own memory, a [`LocalView`].

mod builder;
mod local;
mod pod;
mod scope;
mod window;

pub use builder::WindowBuilder;
pub use local::LocalView;
pub use pod::Pod;
pub(crate) use pod::{bytes_of, bytes_of_mut};
pub use scope::Scope;
pub use window::TypedWindow;
