//! Types that several kinds of policies share.

use query::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the attributes of a role list match a record: it has all of them (`AllOf`) or at least one
/// (`AnyOf`). A record listed by its id matches either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Semantic {
    AllOf,
    AnyOf,
}

/// What a service policy grants: to reach a service (`Dial`) or to host it (`Bind`). No stored
/// policy is `Invalid`; it is shown to an administrator who sees a service without having either
/// right.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "DialBind")]
pub enum PolicyType {
    Dial,
    Bind,
    Invalid,
}

impl Semantic {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllOf => "AllOf",
            Self::AnyOf => "AnyOf",
        }
    }
}

impl PolicyType {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dial => "Dial",
            Self::Bind => "Bind",
            Self::Invalid => "Invalid",
        }
    }

    /// The number for it in filters of service policies.
    pub fn number(self) -> Value<'static> {
        match self {
            Self::Dial => Value::Integer(1),
            Self::Bind => Value::Integer(2),
            Self::Invalid => Value::Null,
        }
    }
}
