//! API tokens. They are created and revoked; their scope never changes.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    authentication::ApiTokens,
    change::{Change, Lifecycle},
    entity::{ApiToken, FactsExt, Id, Record},
    error::{Error, Result},
    http::{
        answer::{Done, Made},
        call::Call,
        envelope::Location,
        extractor::{Create, IfMatch},
        token_scope::ScopeWords,
    },
};

/// The allowed words in scopes. They are set when all route tables are built.
pub(crate) type Scopes = Arc<OnceLock<ScopeWords>>;

/// A new API token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewApiToken {
    #[serde(flatten)]
    location: Location,
    /// The secret. It is shown only here.
    token: String,
}

/// POST /api-tokens
pub(crate) async fn create(scopes: Scopes, call: Call, Create(mut draft): Create<ApiToken>) -> Result<Made<NewApiToken>> {
    let words = scopes.get().ok_or_else(|| Error::Internal("the words of scopes are not set".into()))?;
    words.check(&draft.spec)?;
    if draft.spec.identity_id.as_str().is_empty() {
        draft.spec.identity_id = call.identity()?.id.clone();
    }
    let secret = ApiTokens::secret()?;
    let hash = ApiTokens::hash(&secret);
    let create = move |change: &Change<'_, '_>| {
        let mut record = Record::new(Id::from_text(ApiToken::new_id()), change.now(), draft.spec);
        record.tags = draft.tags;
        record.state.hash = hash;
        change.insert(record)
    };
    let made = call.changes.run(create).await?;
    Ok(Made(NewApiToken { location: Location::of(&made.id), token: secret.to_string() }))
}

/// DELETE /api-tokens/{id}
pub(crate) async fn revoke(call: Call, id: Id<ApiToken>, known: IfMatch) -> Result<Done> {
    let revoke = move |change: &Change<'_, '_>| {
        let token = change.get(&id)?;
        known.check(&token)?;
        change.delete_record(token)
    };
    call.changes.run(revoke).await.map(|()| Done)
}
