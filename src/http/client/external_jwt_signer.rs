//! External JWT signers as somebody sees them who has no session yet.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    entity::{ExternalJwtSigner, Record},
    error::Result,
    http::{
        answer::Page,
        argument::Query,
        call::Call,
        envelope::Detail,
        verbs::{Listing, of_ids, page},
    },
};

/// What somebody needs to know to get a token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClientExternalJwtSignerDetail")]
pub struct View {
    name: String,
    /// Where a person gets a token.
    #[schemars(extend("format" = "url"))]
    external_auth_url: Option<String>,
}

/// GET /external-jwt-signers: those that count.
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Detail<View>>> {
    call.store
        .scan(move |tx| {
            let mut enabled = Vec::new();
            tx.each::<ExternalJwtSigner>(|signer| {
                enabled.extend(signer.spec.enabled.then(|| signer.id.into_text()));
                Ok(())
            })?;
            page::<ExternalJwtSigner, _>(tx, &listing, of_ids(&enabled), |record| Ok(see(record)))
        })
        .await
}

/// Without tags: they are notes of administrators.
fn see(record: &Record<ExternalJwtSigner>) -> Detail<View> {
    let view = View { name: record.spec.name.clone(), external_auth_url: record.spec.external_auth_url.clone() };
    Detail { tags: crate::entity::Tags::default(), ..Detail::new(record, view) }
}
