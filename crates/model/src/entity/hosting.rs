//! The preference among hosts of the same service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Compared before cost: `required` hosts come first, `failed` ones last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TerminatorPrecedence")]
pub enum Precedence {
    #[default]
    Default,
    Required,
    Failed,
}

impl Precedence {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Required => "required",
            Self::Failed => "failed",
        }
    }
}
