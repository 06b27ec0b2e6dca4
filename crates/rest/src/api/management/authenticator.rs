//! Credentials that administrators create without an enrollment, change, or delete.

use model::{
    clock::Timestamp,
    entity::{
        Authenticator, Ca, Credential, Id, Identity, Record, Tags, TypedLookup,
        authenticator::check_username,
    },
    error::{Error, Refusal, Result},
};
use pki::Certificate;
use policy::{
    authentication::trust::{self, ChainPolicy},
    change::{
        Change,
        authenticator::{self, NewAuthenticator, PasswordEdit},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    answer::{CreatedLocation, NoData},
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    extractor::{Body, IfMatch},
};

/// A new credential.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{ "identityId": "VbeD75dzZNfC", "method": "updb", "username": "alice", "password": "correct horse" }]))]
pub(crate) struct AuthenticatorCreate {
    identity_id: Id<Identity>,
    /// `updb` for a user name and password, `cert` for a certificate.
    method: String,
    #[serde(default)]
    #[schemars(with = "String")]
    username: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    password: Option<String>,
    /// One certificate, PEM.
    #[serde(default)]
    #[schemars(with = "String")]
    cert_pem: Option<String>,
    #[serde(default)]
    tags: Tags,
}

/// POST /authenticators
pub(crate) async fn create(
    call: Call,
    Body(new): Body<AuthenticatorCreate>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<CreatedLocation>> {
    let (credential, ca) = match new.method.as_str() {
        "updb" => (updb(&call, &new).await?, None),
        "cert" => cert(&call, &new)?,
        _ => return Err(Error::invalid("method", "must be updb or cert", new.method)),
    };
    let wanted = NewAuthenticator {
        identity: new.identity_id,
        credential,
        ca,
        tags: new.tags,
    };
    mode.run(&call, move |change| add(change, wanted)).await
}

async fn updb(call: &Call, new: &AuthenticatorCreate) -> Result<Credential> {
    let needed = |value: &Option<String>, field: &str| {
        value
            .clone()
            .filter(|v| !v.is_empty())
            .ok_or_else(|| Error::missing(field, "is required", ""))
    };
    let (username, password) = (
        needed(&new.username, "username")?,
        needed(&new.password, "password")?,
    );
    check_username(&username)?;
    Ok(Credential::Updb {
        username,
        password: call
            .state
            .logins
            .passwords
            .hash_for(
                &call.state.store,
                &new.identity_id,
                call.peer.address,
                password,
            )
            .await?,
    })
}

/// The certificate credential, and the third-party authority that issued the certificate, if any.
/// At the time of issue, the chain of the certificate must have been valid and must have ended at a
/// trusted authority.
fn cert(call: &Call, new: &AuthenticatorCreate) -> Result<(Credential, Option<Id<Ca>>)> {
    let pem = new
        .cert_pem
        .as_deref()
        .filter(|pem| !pem.trim().is_empty())
        .ok_or_else(|| Error::missing("certPem", "is required", ""))?;
    let certificate =
        Certificate::only(pem).map_err(|_| Error::Refused(Refusal::CouldNotParsePemBlock))?;
    let (credential, how) = (
        Credential::certificate(&certificate),
        ChainPolicy::of_login(certificate.not_before()),
    );
    let chain = [certificate];
    let [leaf] = &chain;
    if trust::is_ours(&call.state.keystore, &chain, how) {
        return Ok((credential, None));
    }
    let ca = call
        .state
        .store
        .read(|tx| trust::authority(tx, &chain, how, |ca| ca.state.is_verified))?;
    match ca {
        Some(ca) => Ok((credential, Some(ca.id))),
        None => {
            let reason = call
                .state
                .store
                .read(|tx| trust::refusal(tx, &call.state.keystore, leaf, how.now))?;
            Err(Error::invalid("certPem", reason, ""))
        }
    }
}

fn add(change: &Change<'_, '_>, wanted: NewAuthenticator) -> Result<CreatedLocation> {
    change.get(&wanted.identity)?;
    let same = |other: &Record<Authenticator>| {
        other.spec.credential.method() == wanted.credential.method()
    };
    if change
        .linked::<Authenticator>("identity", wanted.identity.as_str())?
        .iter()
        .any(same)
    {
        return Err(Error::Refused(Refusal::MaxAuthenticatorMethodsReached));
    }
    authenticator::add(change, wanted).map(|record| CreatedLocation::new(&record.id))
}

/// A new user name and password.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AuthenticatorUpdate {
    #[schemars(length(min = 4, max = 100))]
    username: String,
    #[schemars(length(min = 5, max = 100))]
    password: String,
    #[serde(default)]
    tags: Tags,
}

/// A new user name, password, or both, and tags.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AuthenticatorPatch {
    #[serde(default)]
    #[schemars(length(min = 4, max = 100))]
    username: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 5, max = 100))]
    password: Option<String>,
    #[serde(default)]
    #[schemars(with = "Tags")]
    tags: Option<Tags>,
}

/// PUT /authenticators/{id}
pub(crate) async fn replace(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    Body(new): Body<AuthenticatorUpdate>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    set(
        call,
        id,
        known,
        PasswordEdit {
            username: Some(new.username),
            password: Some(new.password),
            tags: Some(new.tags),
        },
        mode,
    )
    .await
}

/// PATCH /authenticators/{id}
pub(crate) async fn patch(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    Body(new): Body<AuthenticatorPatch>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
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
        mode,
    )
    .await
}

/// Applies an edit with a plain-text password.
async fn set(
    call: Call,
    id: Id<Authenticator>,
    known: IfMatch,
    mut edit: PasswordEdit,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let stored = call.state.store.read(|tx| tx.get(&id))?;
    if stored.spec.credential.username().is_none() {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    }
    if let Some(password) = edit.password {
        edit.password = Some(
            call.state
                .logins
                .passwords
                .hash_for(
                    &call.state.store,
                    &stored.spec.identity_id,
                    call.peer.address,
                    password,
                )
                .await?,
        );
    }
    // A caller's own session continues after a change of its own password, as at
    // `/current-identity/authenticators`.
    let caller = call.caller()?;
    let spared = (stored.spec.identity_id == caller.identity.id).then(|| caller.session.id.clone());
    let work = move |change: &Change<'_, '_>| {
        let stored = change.get(&id)?;
        known.check(&stored)?;
        authenticator::edit(change, stored, edit, spared.as_ref()).map(|()| NoData)
    };
    mode.run(&call, work).await
}

/// What the holder of the certificate is asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestExtendAuthenticator {
    /// Whether the holder should also make a new key.
    #[serde(default)]
    roll_keys: bool,
}

/// POST /authenticators/{id}/request-extend
pub(crate) async fn request_extension(
    call: Call,
    id: Id<Authenticator>,
    Body(wanted): Body<RequestExtendAuthenticator>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    mode.run(&call, move |change| {
        authenticator::request_extension(change, &id, wanted.roll_keys).map(|()| NoData)
    })
    .await
}

/// The new expiry of the enrollment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReEnroll {
    expires_at: Timestamp,
}

/// POST /authenticators/{id}/re-enroll
pub(crate) async fn re_enroll(
    call: Call,
    id: Id<Authenticator>,
    Body(how): Body<ReEnroll>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<CreatedLocation>> {
    let re_enroll = move |change: &Change<'_, '_>| {
        authenticator::re_enroll(change, &id, how.expires_at)
            .map(|made| CreatedLocation::new(&made.id))
    };
    mode.run(&call, re_enroll).await
}
