//! External JWT signers as shown before a login.

use model::{
    entity::{ExternalJwtSigner, FilterNames, Record, external_jwt_signer::TargetToken},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Read, Scope};

use crate::{
    call::Call,
    envelope::Detail,
    extractor::Query,
    list_body::{StreamedList, listed_with},
    listing::Listing,
};

/// What a client needs to obtain a token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClientExternalJwtSignerDetail")]
pub(crate) struct View {
    name: String,
    /// The address at which a person obtains a token.
    #[schemars(extend("format" = "url"))]
    external_auth_url: Option<String>,
    /// The client id for that address.
    client_id: Option<String>,
    /// The scopes to request there.
    scopes: Vec<String>,
    /// Which of the obtained tokens is used for the login.
    target_token: TargetToken,
}

/// The filterable names; the operation is public.
const FILTER_NAMES: FilterNames<ExternalJwtSigner> =
    FilterNames::only(&["id", "createdAt", "updatedAt", "name"]);

/// GET /external-jwt-signers: the enabled ones.
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    let wanted = |tx: &Read<'_>| {
        let mut enabled = Vec::new();
        tx.each::<ExternalJwtSigner>(|signer| {
            enabled.extend(signer.spec.enabled.then(|| signer.id.into_text()));
            Ok(())
        })?;
        Ok(Scope::Ids(enabled))
    };
    listed_with(
        &call,
        listing,
        &FILTER_NAMES,
        FILTER_NAMES.names().collect(),
        wanted,
        |_, record| Ok(render(record)),
    )
    .await
}

/// Without tags, which are notes of administrators.
fn render(record: &Record<ExternalJwtSigner>) -> Detail<View> {
    let ExternalJwtSigner {
        name,
        external_auth_url,
        client_id,
        scopes,
        target_token,
        ..
    } = record.spec.clone();
    let view = View {
        name,
        external_auth_url,
        client_id,
        scopes,
        target_token,
    };
    Detail {
        tags: model::entity::Tags::default(),
        ..Detail::new(record, view)
    }
}
