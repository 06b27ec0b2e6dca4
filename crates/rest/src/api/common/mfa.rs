//! The caller's second factor, and the code that completes a session.

use model::{
    entity::{ApiSession, Entity, HalLinks, Id, Identity, Mfa, Record, mfa::View},
    error::Result,
};
use policy::{
    authentication::{Attempt, Codes, mfa},
    change::Change,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::qr::Picture;
use crate::{
    answer::{CreatedLocation, Data, NoData},
    call::Call,
    envelope::Detail,
    extractor::{Body, Headers, OptionalBody},
};

const PATH: &str = "current-identity/mfa";

/// A code that completes a session.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct MfaAuth {
    /// Six digits of an app, or a recovery code.
    code: String,
}

/// A code that confirms an operation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct MfaValidation {
    /// Six digits of an app, or a recovery code where the operation accepts one.
    code: String,
}

/// A code in a header, for requests without a body.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CodeHeader {
    #[serde(rename = "mfa-validation-code", default)]
    code: Option<String>,
}

/// Recovery codes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DetailMfaRecoveryCodes")]
pub(crate) struct RecoveryCodes {
    recovery_codes: Vec<String>,
}

/// POST /authenticate/mfa
pub(crate) async fn authenticate(call: Call, Body(given): Body<MfaAuth>) -> Result<NoData> {
    pass(&call, given.code, mfa::enter).await
}

/// POST /current-identity/mfa/verify
pub(crate) async fn verify(call: Call, Body(given): Body<MfaValidation>) -> Result<NoData> {
    mfa::may_set_up(call.caller()?)?;
    pass(&call, given.code, mfa::verify).await
}

/// A step in which a session passes the second factor with a code.
type MfaStep = fn(&Change<'_, '_>, &Codes, &Record<ApiSession>, &Attempt) -> Result<()>;

/// Runs a step in which the caller's session passes the second factor. Every such step is run by
/// this function.
async fn pass(call: &Call, code: String, step: MfaStep) -> Result<NoData> {
    let (codes, session, attempt) = (
        call.state.logins.codes.clone(),
        call.caller()?.session.clone(),
        attempt(call, code)?,
    );
    call.changes
        .run(move |change| step(change, &codes, &session, &attempt))
        .await
        .map(|()| NoData)
}

/// An attempt with a code. If the limit of attempts is reached, the attempt is rejected here and
/// does not occupy the writer.
fn attempt(call: &Call, code: String) -> Result<Attempt> {
    let caller = call.caller()?;
    let session = &caller.session;
    let credential = session.spec.authenticator_id.clone();
    let attempt = Attempt {
        code,
        session: session.id.clone(),
        credential,
        address: call.peer.address,
    };
    call.state
        .logins
        .codes
        .admit(&caller.identity.id, &attempt, call.now)?;
    Ok(attempt)
}

/// POST /current-identity/mfa
pub(crate) async fn enroll(call: Call) -> Result<CreatedLocation> {
    mfa::may_set_up(call.caller()?)?;
    let codes = call.state.logins.codes.clone();
    let id = change_own(&call, move |change, identity| {
        mfa::enroll(change, &codes, identity)
    })
    .await?;
    Ok(CreatedLocation::at(PATH, &id))
}

/// GET /current-identity/mfa
pub(crate) async fn detail(call: Call) -> Result<Data<Detail<View>>> {
    let identity = call.identity()?;
    let (record, mut view) = call.state.store.read(|tx| {
        let record = mfa::of(tx, &identity.id)?;
        let view = Mfa::view(&record, tx)?;
        Ok((record, view))
    })?;
    if !record.spec.is_verified {
        mfa::may_set_up(call.caller()?)?;
        view.provisioning_url = Some(
            call.state
                .logins
                .codes
                .provisioning_url(&record.spec, &identity.spec.name)?,
        );
        view.recovery_codes = Some(call.state.logins.codes.recovery_codes(&record.spec)?);
    }
    Ok(Data(linked(&record, view)))
}

/// GET /current-identity/mfa/qr-code
pub(crate) async fn qr_code(call: Call) -> Result<Picture> {
    mfa::may_set_up(call.caller()?)?;
    let identity = call.identity()?;
    let record = call
        .state
        .store
        .read(|tx| mfa::unverified(tx, &identity.id))?;
    Picture::of(
        &call
            .state
            .logins
            .codes
            .provisioning_url(&record.spec, &identity.spec.name)?,
        "name",
    )
}

/// DELETE /current-identity/mfa
pub(crate) async fn remove(call: Call, Headers(header): Headers<CodeHeader>) -> Result<NoData> {
    let (codes, attempt) = (
        call.state.logins.codes.clone(),
        attempt(&call, header.code.unwrap_or_default())?,
    );
    change_own(&call, move |change, identity| {
        mfa::remove(change, &codes, identity, &attempt)
    })
    .await?;
    call.state.logins.codes.forgive(&call.identity()?.id);
    Ok(NoData)
}

/// GET /current-identity/mfa/recovery-codes
pub(crate) async fn recovery_codes(
    call: Call,
    OptionalBody(given): OptionalBody<MfaValidation>,
    Headers(header): Headers<CodeHeader>,
) -> Result<Data<Detail<RecoveryCodes>>> {
    let code = given
        .map(|body| body.code)
        .filter(|code| !code.is_empty())
        .or(header.code)
        .unwrap_or_default();
    let (codes, attempt) = (call.state.logins.codes.clone(), attempt(&call, code)?);
    let record = change_own(&call, move |change, identity| {
        mfa::show(change, &codes, identity, &attempt)
    })
    .await?;
    let recovery_codes = call.state.logins.codes.recovery_codes(&record.spec)?;
    Ok(Data(linked(&record, RecoveryCodes { recovery_codes })))
}

/// POST /current-identity/mfa/recovery-codes
pub(crate) async fn renew_recovery_codes(
    call: Call,
    Body(given): Body<MfaValidation>,
) -> Result<NoData> {
    let (codes, attempt) = (call.state.logins.codes.clone(), attempt(&call, given.code)?);
    change_own(&call, move |change, identity| {
        mfa::renew(change, &codes, identity, &attempt)
    })
    .await
    .map(|()| NoData)
}

/// A change to the caller's own identity.
async fn change_own<T: Send + 'static>(
    call: &Call,
    job: impl FnOnce(&Change<'_, '_>, &Id<Identity>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let identity = call.identity()?.id.clone();
    call.changes.run(move |change| job(change, &identity)).await
}

fn linked<V>(record: &Record<Mfa>, view: V) -> Detail<V> {
    let links = HalLinks::default()
        .with("self", PATH)
        .with("current-identity", "current-identity");
    let links = if record.spec.is_verified {
        links.with("recovery-codes", format_args!("{PATH}/recovery-codes"))
    } else {
        links
            .with("verify", format_args!("{PATH}/verify"))
            .with("qr", format_args!("{PATH}/qr-code"))
    };
    Detail {
        links,
        ..Detail::new(record, view)
    }
}
