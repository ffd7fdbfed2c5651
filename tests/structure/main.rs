//! The structure that the documents promise: the field's names, files of a length
//! that can be read, imports that run one way. Reads the sources as text; needs no
//! feature and no network library. docs/architecture/structure.md says what to do
//! about a fault.

mod files;
mod imports;
mod items;
mod layers;
mod names;
mod public;
mod reader;
