//! What is known of a kind without its records: its names, how its records are stored, what only code may set in them.

use std::any::Any;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// The names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// One of them, in camel case, as it stands in texts, links and the store: `servicePolicy`.
    pub name: &'static str,
    /// Many of them, as a path segment: `service-policies`.
    pub path: &'static str,
}

/// How a kind's `spec` is written inside its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// bincode.
    Binary,
    /// JSON text, for shapes that bincode cannot read back (`tag`, `flatten`).
    Text,
}

/// Counts endings: how many there had been when something was made.
pub type Epoch = u64;

/// A kind whose records have a part that only code may set.
pub trait Stateful {
    /// What only code may set.
    type State: Serialize + DeserializeOwned + Clone + Default + Send + Sync + 'static;
}

/// The refusal of a version that [`Entity::upgrade`](super::Entity::upgrade) does not know.
pub fn unreadable(version: u8) -> Error {
    Error::Internal(format!("version {version} is not one this release reads"))
}

/// The stored spec and state of one record, as yet unread.
pub trait Stored {
    /// Reads them as the structs of one version; once only.
    ///
    /// # Errors
    /// The bytes are no such structs.
    fn read<S: DeserializeOwned, T: DeserializeOwned>(&mut self, spec: Disk) -> Result<(S, T)>;
}

/// A record whose kind is known only at run time; always a `Record<E>` of the kind asked for.
pub type AnyRecord = Box<dyn Any + Send + Sync>;
