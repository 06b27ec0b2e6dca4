//! The part of a record that a request may write.

use model::entity::{Entity, Tags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The members of the kind and the tags. Only read from and written as JSON.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(bound = "E: Entity")]
#[schemars(bound = "E: JsonSchema", rename = "{E}Draft")]
pub struct Draft<E> {
    /// Labels: a text, number, boolean or null under each key.
    #[serde(default)]
    pub tags: Tags,
    #[serde(flatten)]
    pub spec: E,
}
