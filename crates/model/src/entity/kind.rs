//! What is known of a kind without its records: its names, how its records are stored, what only
//! code may set in them.

use std::any::Any;

use serde::{Serialize, de::DeserializeOwned};

use super::noun::plural;
use crate::error::{Error, Result};

/// The names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The singular in camel case, used in texts, links and the store: `servicePolicy`.
    pub name: &'static str,
    /// The plural as a path segment: `service-policies`.
    pub path: &'static str,
    /// The singular in texts for people: `service policy`, `external JWT signer`.
    pub noun: &'static str,
}

impl Kind {
    /// The plural in camel case: `servicePolicies`.
    pub fn names(&self) -> String {
        plural(self.name)
    }

    /// The plural in texts for people: `service policies`.
    pub fn nouns(&self) -> String {
        plural(self.noun)
    }
}

/// How a kind's `spec` is encoded inside its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecEncoding {
    /// bincode.
    Binary,
    /// JSON text, for shapes that bincode cannot decode (`tag`, `flatten`).
    Text,
}

/// The number of tombstones written before a record was made.
pub type Epoch = u64;

/// A kind whose records have a part that only code may set.
pub trait Stateful {
    /// The part of a record that only code sets.
    type State: Serialize + DeserializeOwned + Clone + Default + Send + Sync + 'static;
}

/// The error for a version that [`Entity::upgrade`](super::Entity::upgrade) does not know.
pub(crate) fn unreadable(version: u8) -> Error {
    Error::Internal(format!("this release cannot read version {version}"))
}

/// The stored spec and state of a record, not decoded yet.
pub trait Stored {
    /// Decodes them as the structs of one version; may be called only once.
    ///
    /// # Errors
    /// The bytes do not decode as these structs.
    fn read<S: DeserializeOwned, T: DeserializeOwned>(
        &mut self,
        spec: SpecEncoding,
    ) -> Result<(S, T)>;
}

/// A record whose kind is known only at run time; always a `Record<E>` of the kind requested.
pub type AnyRecord = Box<dyn Any + Send + Sync>;
