//! The stores of benches.

use std::path::Path;

use store::{KindEntry, OpenStore, Options, Store};

/// A store of these kinds in a file, with the default options.
pub fn start(file: &Path, kinds: &'static [KindEntry]) -> Store {
    Store::open(file, kinds, Options::default())
        .and_then(OpenStore::start)
        .expect("a store")
}
