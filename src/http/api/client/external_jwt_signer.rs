//! External JWT signers as somebody sees them who has no session yet.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    entity::{ExternalJwtSigner, Record, Words, external_jwt_signer::TargetToken},
    error::Result,
    http::{
        call::Call,
        envelope::Detail,
        extractor::Query,
        list_body::{Joined, Wanted, listed_with},
        listing::Listing,
    },
    store::Read,
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
    /// What the program calls itself there.
    client_id: Option<String>,
    /// What it asks for there.
    scopes: Vec<String>,
    /// Which of the tokens it gets there logs in.
    target_token: TargetToken,
}

/// What is shown of one: anybody may ask.
const WORDS: Words<ExternalJwtSigner> = Words::only(&["id", "createdAt", "updatedAt", "name"]);

/// GET /external-jwt-signers: those that count.
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Joined<Detail<View>>> {
    let wanted = |tx: &Read<'_>| {
        let mut enabled = Vec::new();
        tx.each::<ExternalJwtSigner>(|signer| {
            enabled.extend(signer.spec.enabled.then(|| signer.id.into_text()));
            Ok(())
        })?;
        Ok(Wanted::Ids(enabled))
    };
    listed_with(&call, listing, &WORDS, WORDS.names().collect(), wanted, |_, record| Ok(see(record))).await
}

/// Without tags: they are notes of administrators.
fn see(record: &Record<ExternalJwtSigner>) -> Detail<View> {
    let ExternalJwtSigner { name, external_auth_url, client_id, scopes, target_token, .. } = record.spec.clone();
    let view = View { name, external_auth_url, client_id, scopes, target_token };
    Detail { tags: crate::entity::Tags::default(), ..Detail::new(record, view) }
}
