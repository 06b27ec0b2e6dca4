//! Explains why an identity may or may not use a service.

use model::error::Result;
use policy::{
    access::Right,
    explain::{self, Explanation},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{answer::Data, call::Call, extractor::Query};

/// The parameters of an explanation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExplainParameters {
    /// Id or name.
    identity: String,
    /// Id or name.
    service: String,
    #[serde(rename = "type")]
    right: Right,
}

/// GET /explain
pub(crate) async fn explain(
    call: Call,
    Query(asked): Query<ExplainParameters>,
) -> Result<Data<Explanation>> {
    let (access, posture, hosting) = (
        call.state.access.clone(),
        call.state.posture.clone(),
        call.state.network.hosting.clone(),
    );
    // This is a scan, because an identity may have thousands of sessions, and all signers and
    // certificate authorities are read.
    let explained = call.state.store.scan(move |tx| {
        let ExplainParameters {
            identity,
            service,
            right,
        } = &asked;
        let (right, posture, hosting) = (*right, Some(&posture), Some(&hosting));
        explain::explain(
            tx,
            &explain::Question {
                identity,
                service,
                right,
                access: &access,
                posture,
                hosting,
            },
        )
    });
    explained.await.map(Data)
}
