//! The shape of an answer with an error.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Meta;

/// An answer with an error.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorEnvelope {
    pub error: ApiError,
    pub meta: Meta,
}

/// An error.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiError {
    /// The code for programs.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// The id of the request in the log.
    pub request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Every broken rule, if there are several; `cause` has the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<RuleViolation>,
}

/// A broken rule.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RuleViolation {
    /// The member of the request, if the rule is about a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong, and what is allowed.
    pub reason: String,
    /// The value that was sent, if it may be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The cause of an error.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Cause {
    /// A member of the request that breaks a rule.
    Field {
        field: String,
        reason: String,
        value: String,
    },
    /// Data about the conflict.
    Data {
        message: String,
        data: BTreeMap<&'static str, String>,
    },
    /// An error inside another one.
    #[serde(rename_all = "camelCase")]
    Nested {
        code: String,
        message: String,
        request_id: String,
    },
    /// The failing posture checks, by policy.
    Posture {
        message: String,
        data: BTreeMap<String, Vec<FailedCheck>>,
    },
    /// Any other cause.
    Other { code: String, message: String },
}

/// A failing posture check.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedCheck {
    pub id: String,
    pub type_id: &'static str,
    pub is_passing: bool,
}
