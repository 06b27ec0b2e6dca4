//! What every stored record has: an id, times, tags, a spec and a state.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{kind::Stateful, value::Tags};
use crate::clock::Timestamp;

/// The id of a record of kind `E`. In JSON and on disk it is its text.
pub struct Id<E>(String, PhantomData<fn() -> E>);

impl<E> Id<E> {
    /// An id with this text, whether or not such a record exists.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into(), PhantomData)
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of the id, owned.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl<E> Clone for Id<E> {
    fn clone(&self) -> Self {
        Self::from_text(self.0.clone())
    }
}
impl<E> PartialEq for Id<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<E> Eq for Id<E> {}
impl<E> PartialOrd for Id<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Id<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<E> fmt::Debug for Id<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<E> fmt::Display for Id<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<E> Default for Id<E> {
    fn default() -> Self {
        Self::from_text("")
    }
}
impl<E> Serialize for Id<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
impl<'de, E> Deserialize<'de> for Id<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from_text)
    }
}
impl<E> JsonSchema for Id<E> {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A stored record: what a request may write (`spec`), what only code may (`state`), and what every
/// kind has.
#[derive(Debug, Clone)]
pub struct Record<E: Stateful> {
    pub id: Id<E>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub tags: Tags,
    /// Whether it belongs to the system; then no request may change or delete it.
    pub is_system: bool,
    pub spec: E,
    pub state: E::State,
}

impl<E: Stateful> Record<E> {
    /// A new record, created and changed at `now`.
    pub fn new(id: Id<E>, now: Timestamp, spec: E) -> Self {
        Self {
            id,
            created_at: now,
            updated_at: now,
            tags: Tags::default(),
            is_system: false,
            spec,
            state: E::State::default(),
        }
    }
}
