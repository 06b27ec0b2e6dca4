//! Declared networks: the whole network as one document, its export, and the application of such a document.
//!
//! Nothing here names a kind. A kind takes part if a route table has a row that replaces its records (`extractor.rs` notes it there), and if
//! its records have unique names; what is known of it comes from its facts and its schema (`kind.rs`). References are written as names
//! (`names.rs`). Not here: the requests (`api/overkeep/network.rs`), and YAML (`cli/`). Start with `export.rs` and `apply.rs`.
//!
//! Invariant: applying an exported document to the network it came from changes nothing.

pub(crate) mod apply;
pub(crate) mod assertion;
pub(crate) mod export;
pub(crate) mod kind;
pub(crate) mod kinds;
pub(crate) mod names;
