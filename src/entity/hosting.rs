//! How a host is weighed against others of the same service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Before cost is looked at: hosts that are `required` go first, those that have `failed` last.
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
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Required => "required",
            Self::Failed => "failed",
        }
    }
}
