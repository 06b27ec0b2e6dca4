//! API tokens. They are created and revoked; their scope never changes.

use model::{
    entity::{ApiToken, Id, Record, TypedLookup},
    error::Result,
};
use policy::{
    authentication::ApiTokens,
    change::{Change, Lifecycle},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    answer::{CreatedData, NoData},
    call::Call,
    envelope::Location,
    extractor::{Create, IfMatch},
    permission::Permission::Admin,
    route::Routes,
    token_scope::ScopeNames,
};

/// Adds the row that creates API tokens, whose scopes have words of all other rows.
pub(crate) fn creation(routes: Routes, words: &ScopeNames) -> Routes {
    routes
        .post("/api-tokens", Admin, create)
        .summary("Creates an API token with a scope. The answer holds its secret, which is not shown again.")
        .words_of("kinds", &words.kinds)
        .words_of("actions", &words.actions)
        .refuses(&[404])
}

/// A new API token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewApiToken {
    #[serde(flatten)]
    location: Location,
    /// The secret. It is shown only here.
    token: String,
    /// The parts of the scope that lead to every right, such as `create identities`. Empty without
    /// a scope.
    escalations: Vec<String>,
}

/// POST /api-tokens
async fn create(
    call: Call,
    Create(mut draft): Create<ApiToken>,
) -> Result<CreatedData<NewApiToken>> {
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
    let escalations = made.spec.escalation_words();
    Ok(CreatedData(NewApiToken {
        location: Location::of(&made.id),
        token: secret.to_string(),
        escalations,
    }))
}

/// DELETE /api-tokens/{id}
pub(crate) async fn revoke(call: Call, id: Id<ApiToken>, known: IfMatch) -> Result<NoData> {
    let revoke = move |change: &Change<'_, '_>| {
        let token = change.get(&id)?;
        known.check(&token)?;
        change.delete_record(token)
    };
    call.changes.run(revoke).await.map(|()| NoData)
}
