//! Declared networks: the whole network as one document, its export, and the application of such a
//! document.
//!
//! This module names no kind. A kind occurs in network documents if its records have unique names
//! and a row of a route table replaces its records (the argument type `Replace` in `extractor.rs`
//! records that in the row). `kind.rs` derives everything about the kind from its definition and
//! its schema. References are written as names (`names.rs`). Not here: the requests
//! (`api/overkeep/network.rs`), and YAML (`cli/`). Start with `export.rs` and `apply.rs`.
//!
//! Invariant: applying an exported document to the network it came from changes nothing.

pub(crate) mod apply;
pub(crate) mod assertion;
pub(crate) mod defaults;
mod differences;
pub(crate) mod export;
pub(crate) mod kind;
pub(crate) mod kinds;
pub(crate) mod names;
