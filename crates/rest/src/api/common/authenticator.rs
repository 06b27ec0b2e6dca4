//! The caller's own credentials: listing, password changes with the current password, and renewal
//! of certificates.

use model::{
    entity::{
        Amount, Authenticator, Credential, Entity, FilterNames, HalLinks, Id, Record, Tags,
        TypedLookup, missing,
    },
    error::{Error, Refusal, Result},
};
use policy::{
    authentication::{Requester, login},
    change::{
        Change,
        authenticator::{self, PasswordEdit},
    },
    enrollment::extension::{self, CertificateOwner, Extended},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{Read, Scope};

use crate::{
    answer::{Data, NoData, Tagged},
    call::Call,
    conditional::entity_tag,
    envelope::Detail,
    extractor::{Body, IfMatch, Query},
    list_body::{StreamedList, listed},
    listing::Listing,
};

/// A credential as shown to its owner.
pub(crate) type OwnAuthenticator = Detail<<Authenticator as Entity>::View>;

fn render(tx: &Read<'_>, record: &Record<Authenticator>) -> Result<OwnAuthenticator> {
    let mut detail = Detail::new(record, Authenticator::view(record, tx)?);
    detail.links = HalLinks::default().with(
        "self",
        format_args!("current-identity/authenticators/{}", record.id),
    );
    Ok(detail)
}

/// A credential of the caller; those of others are not found.
fn own(call: &Call, id: &Id<Authenticator>) -> Result<Record<Authenticator>> {
    let record = call.state.store.read(|tx| tx.get(id))?;
    if record.spec.identity_id == call.identity()?.id {
        return Ok(record);
    }
    Err(missing(Authenticator::KIND, id))
}

/// GET /current-identity/authenticators
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<OwnAuthenticator>> {
    let wanted = Scope::Having {
        field: "identity",
        value: call.identity()?.id.to_string(),
    };
    listed(&call, listing, FilterNames::WHOLE, |_| Ok(wanted), render).await
}

/// GET /current-identity/authenticators/{id}
pub(crate) async fn detail(call: Call, id: Id<Authenticator>) -> Result<Tagged<OwnAuthenticator>> {
    let record = own(&call, &id)?;
    Ok(Tagged {
        data: call.state.store.read(|tx| render(tx, &record))?,
        tag: entity_tag(&record)?,
    })
}

/// A new user name and password.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthenticatorUpdateWithCurrent {
    #[schemars(length(min = 4, max = 100))]
    username: String,
    #[schemars(length(min = 5, max = 100))]
    password: String,
    #[schemars(length(min = 5, max = 100))]
    current_password: String,
    /// Unchanged by default.
    #[serde(default)]
    #[schemars(with = "Tags")]
    tags: Option<Tags>,
}

/// A new user name, password, or both.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthenticatorPatchWithCurrent {
    #[serde(default)]
    #[schemars(length(min = 4, max = 100))]
    username: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 5, max = 100))]
    password: Option<String>,
    #[schemars(length(min = 5, max = 100))]
    current_password: String,
    /// Unchanged by default.
    #[serde(default)]
    #[schemars(with = "Tags")]
    tags: Option<Tags>,
}

/// PUT /current-identity/authenticators/{id}
pub(crate) async fn replace(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    Body(new): Body<AuthenticatorUpdateWithCurrent>,
) -> Result<NoData> {
    let edit = PasswordEdit {
        username: Some(new.username),
        password: Some(new.password),
        tags: new.tags,
    };
    set(call, id, known, edit, new.current_password).await
}

/// PATCH /current-identity/authenticators/{id}
pub(crate) async fn patch(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    Body(new): Body<AuthenticatorPatchWithCurrent>,
) -> Result<NoData> {
    // An empty map changes nothing, as in every PATCH.
    let tags = new
        .tags
        .filter(|tags| tags.0.values().any(|tag| !tag.is_null()));
    set(
        call,
        id,
        known,
        PasswordEdit {
            username: new.username,
            password: new.password,
            tags,
        },
        new.current_password,
    )
    .await
}

/// Applies an edit with a plain-text password, if the current password is correct.
async fn set(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    mut edit: PasswordEdit,
    current: String,
) -> Result<NoData> {
    if let Some(tags) = &edit.tags {
        tags.check("tags")?;
        tags.amount()
            .check("tags", Amount::default(), call.changes.most_of_clients())?;
    }
    let Record {
        spec: Authenticator {
            identity_id,
            credential,
        },
        ..
    } = own(&call, &id)?;
    let Credential::Updb {
        username,
        password: stored,
    } = credential
    else {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    };
    let asker = Requester {
        address: call.peer.address,
        name: username,
    };
    let right = call
        .state
        .logins
        .passwords
        .verify(&asker, current, Some(stored.clone()))
        .await?;
    let policy = call.identity()?.spec.auth_policy();
    let wrong = if right {
        None
    } else {
        Some(
            call.state
                .store
                .read(|tx| tx.get(policy))?
                .spec
                .primary
                .updb,
        )
    };
    if !login::count(
        &call.changes,
        &call.state.logins.passwords,
        &identity_id,
        wrong.as_ref(),
        call.now,
    )
    .await?
    {
        return Err(Error::Refused(Refusal::WrongCurrentPassword));
    }
    if let Some(password) = edit.password {
        edit.password = Some(
            call.state
                .logins
                .passwords
                .hash_for(&call.state.store, &identity_id, call.peer.address, password)
                .await?,
        );
    }
    let session = call.caller()?.session.id.clone();
    let set = move |change: &Change<'_, '_>| {
        let own = change.get(&id)?;
        known.check(&own)?;
        // If another request has set the password meanwhile, that password is kept.
        if !matches!(&own.spec.credential, Credential::Updb { password, .. } if *password == stored)
        {
            return Err(Error::Refused(Refusal::WrongCurrentPassword));
        }
        authenticator::edit(change, own, edit, Some(&session))
    };
    call.changes.run(set).await.map(|()| NoData)
}

fn certificate_owner(call: &Call) -> Result<CertificateOwner> {
    let caller = call.caller()?;
    Ok(CertificateOwner {
        identity: caller.identity.id.clone(),
        session: caller.session.id.clone(),
    })
}

/// A certificate request for a new key.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IdentityExtendEnrollmentRequest {
    /// PEM.
    client_cert_csr: String,
}

/// POST /current-identity/authenticators/{id}/extend, POST /authenticators/{id}/extend
pub(crate) async fn extend(
    call: Call,
    id: Id<Authenticator>,
    Body(asked): Body<IdentityExtendEnrollmentRequest>,
) -> Result<Data<Extended>> {
    extension::extend(
        &call.context(),
        certificate_owner(&call)?,
        id,
        &call.chain(),
        &asked.client_cert_csr,
    )
    .await
    .map(Data)
}

/// The renewed certificate, to confirm that it arrived.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IdentityExtendValidateEnrollmentRequest {
    /// PEM; only the first certificate is read.
    client_cert: String,
}

/// POST /current-identity/authenticators/{id}/extend-verify, POST
/// /authenticators/{id}/extend-verify
pub(crate) async fn confirm(
    call: Call,
    id: Id<Authenticator>,
    Body(shown): Body<IdentityExtendValidateEnrollmentRequest>,
) -> Result<NoData> {
    extension::confirm(
        &call.context(),
        certificate_owner(&call)?,
        id,
        shown.client_cert,
    )
    .await
    .map(|()| NoData)
}
