//! Whether an identity can log in, and by what.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Obstacle, edits};
use crate::{
    clock::Timestamp,
    entity::{ApiSession, Authenticator, Enrollment, ExternalJwtSigner, Facts, FactsExt, Identity, Record, authenticator},
    error::Result,
    store::Read,
};

/// How an identity stands to logging in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedAuthentication")]
pub struct Authentication {
    /// Whether it can log in, or why not.
    pub state: State,
    /// When a locked identity is let in again, or when the token of one that never enrolled ends or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What it may log in with.
    pub credentials: Vec<Means>,
}

/// The states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthenticationState")]
pub enum State {
    /// It can log in.
    Ready,
    /// Shut out until somebody enables it.
    Disabled,
    /// Shut out for some time, by an administrator or for wrong passwords.
    Locked,
    /// It was given a token to enroll with, and has not used it.
    NeverEnrolled,
    /// There is nothing that it could log in with.
    NoCredential,
}

/// Something to log in with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedCredential")]
pub struct Means {
    pub method: Method,
    /// Whether the auth policy of the identity lets it log in this way.
    pub is_allowed: bool,
}

/// The ways to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedMethod")]
pub enum Method {
    /// User name and password.
    Updb,
    /// A client certificate.
    Cert,
    /// Its external id, in a certificate of another authority or a token of another issuer.
    ExternalId,
    /// Its id, in a token of another issuer.
    ExternalJwt,
}

/// How an identity stands to logging in, and what keeps it from it.
///
/// # Errors
/// A record cannot be read.
pub fn judge(tx: &Read<'_>, identity: &Record<Identity>) -> Result<(Authentication, Vec<Obstacle>)> {
    let (id, now) = (identity.id.as_str(), tx.now());
    let mut obstacles = Vec::new();
    let credentials = means(tx, identity)?;
    let shut_out = identity.state.is_disabled(now);
    if shut_out {
        obstacles.push(edits::disabled(identity));
    }
    let issued = tx.linked::<Enrollment>("identity", id)?;
    let outstanding = issued.iter().max_by_key(|enrollment| enrollment.spec.expires_at);
    // Whoever has a session need not log in.
    if credentials.is_empty() && !tx.has::<ApiSession>("identity", id)? {
        obstacles.push(edits::no_credential(identity, outstanding, now));
    }
    let (state, until) = match (shut_out, identity.state.disabled_until, outstanding) {
        (true, None, _) => (State::Disabled, None),
        (true, until, _) => (State::Locked, until),
        (false, _, Some(enrollment)) if credentials.is_empty() => (State::NeverEnrolled, Some(enrollment.spec.expires_at)),
        (false, ..) if credentials.is_empty() => (State::NoCredential, None),
        (false, ..) => (State::Ready, None),
    };
    Ok((Authentication { state, until, credentials }, obstacles))
}

/// Everything there is to log in with.
fn means(tx: &Read<'_>, identity: &Record<Identity>) -> Result<Vec<Means>> {
    let allowed = tx.get(identity.spec.auth_policy())?.spec.primary;
    let mut means: Vec<Means> = Vec::new();
    for held in tx.linked::<Authenticator>("identity", identity.id.as_str())? {
        means.push(match held.spec.credential.method() {
            authenticator::Method::Updb => Means { method: Method::Updb, is_allowed: allowed.updb.allowed },
            authenticator::Method::Cert => Means { method: Method::Cert, is_allowed: allowed.cert.allowed },
        });
    }
    if identity.spec.external_id.is_some() {
        means.push(Means { method: Method::ExternalId, is_allowed: allowed.cert.allowed || allowed.ext_jwt.allowed });
    }
    let mut by_id = false;
    tx.each::<ExternalJwtSigner>(|signer| {
        let chosen = allowed.ext_jwt.allowed_signers.is_empty() || allowed.ext_jwt.allowed_signers.contains(&signer.id);
        by_id |= allowed.ext_jwt.allowed && chosen && signer.spec.enabled && !signer.spec.use_external_id;
        Ok(())
    })?;
    means.extend(by_id.then_some(Means { method: Method::ExternalJwt, is_allowed: true }));
    Ok(means)
}
