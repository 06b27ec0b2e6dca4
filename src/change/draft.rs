//! What a request may write of a record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Tags};

/// Tags beside the members of the kind. Only ever read from and written as JSON.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(bound = "E: Entity")]
#[schemars(bound = "E: JsonSchema", rename = "{E}Draft")]
pub struct Draft<E> {
    /// Labels for people and scripts: text, number, boolean or null under each key.
    #[serde(default)]
    pub tags: Tags,
    #[serde(flatten)]
    pub spec: E,
}
