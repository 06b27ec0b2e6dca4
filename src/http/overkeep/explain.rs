//! Why somebody may or may not.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    access::Right,
    error::Result,
    explain::{self, Explanation},
    http::{answer::Shown, argument::Query, call::Call},
};

/// Who may use what?
#[derive(Deserialize, JsonSchema)]
pub struct Question {
    /// Id or name.
    identity: String,
    /// Id or name.
    service: String,
    #[serde(rename = "type")]
    right: Right,
}

/// GET /explain
pub async fn explain(call: Call, Query(asked): Query<Question>) -> Result<Shown<Explanation>> {
    let Question { identity, service, right } = &asked;
    let (access, posture) = (&call.access, Some(&call.posture));
    let question = explain::Question { identity, service, right: *right, access, posture };
    call.store.read(|tx| explain::explain(tx, &question)).map(Shown)
}
