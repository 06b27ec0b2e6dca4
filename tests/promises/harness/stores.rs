//! Stores without a controller: `stores::of(KINDS).start(&path)`, `stores::of(KINDS).in_memory()`.
//! A component that follows commits opens the store, subscribes, and then starts it: `open`,
//! `open_in_memory`, `open_on`.

use std::path::Path;

use redb::{StorageBackend, backends::InMemoryBackend};
use store::{KindEntry, OpenError, OpenStore, Options, Store};

/// How a store for a test is opened.
pub struct Stores {
    kinds: &'static [KindEntry],
    options: Options,
}

/// Stores of these kinds, with the default options.
pub fn of(kinds: &'static [KindEntry]) -> Stores {
    Stores {
        kinds,
        options: Options::default(),
    }
}

impl Stores {
    /// The same with other options.
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// For tests of what opening refuses.
    pub fn try_open(self, file: &Path) -> Result<OpenStore, OpenError> {
        Store::open(file, self.kinds, self.options)
    }

    /// For tests of what opening refuses.
    pub fn try_open_on(self, backend: impl StorageBackend) -> Result<OpenStore, OpenError> {
        Store::open_on(backend, self.kinds, self.options)
    }

    pub fn open(self, file: &Path) -> OpenStore {
        self.try_open(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    pub fn open_on(self, backend: impl StorageBackend) -> OpenStore {
        self.try_open_on(backend).unwrap()
    }

    pub fn open_in_memory(self) -> OpenStore {
        self.open_on(InMemoryBackend::new())
    }

    pub fn start(self, file: &Path) -> Store {
        self.open(file).start().unwrap()
    }

    pub fn start_on(self, backend: impl StorageBackend) -> Store {
        self.open_on(backend).start().unwrap()
    }

    pub fn in_memory(self) -> Store {
        self.open_in_memory().start().unwrap()
    }

    /// A file opened for reading only.
    pub fn open_read_only(self, file: &Path) -> Store {
        Store::open_read_only(file, self.kinds, self.options)
            .unwrap()
            .start()
            .unwrap()
    }
}
