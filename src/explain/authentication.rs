//! Whether an identity can log in, and by what.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{Obstacle, edits};
use crate::{
    clock::Timestamp,
    entity::{
        ApiSession, Authenticator, Ca, Enrollment, ExternalJwtSigner, Facts, FactsExt, Id, Identity, Record, auth_policy::Primary,
        authenticator,
    },
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
    /// There is, but its auth policy allows none of it.
    NotAllowed,
}

/// Something to log in with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedCredential")]
pub struct Means {
    pub method: Method,
    /// Whether the auth policy of the identity lets it log in this way.
    pub is_allowed: bool,
    /// What of the auth policy would allow it.
    #[serde(skip)]
    pub allowing: Json,
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

impl Method {
    /// In a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Updb => "passwords",
            Self::Cert => "certificates",
            Self::ExternalId => "external ids",
            Self::ExternalJwt => "tokens of other issuers",
        }
    }
}

/// How an identity stands to logging in, and what keeps it from it.
///
/// # Errors
/// A record cannot be read.
pub fn judge(tx: &Read<'_>, identity: &Record<Identity>) -> Result<(Authentication, Vec<Obstacle>)> {
    let (id, now) = (identity.id.as_str(), tx.now());
    let mut obstacles = Vec::new();
    let policy = tx.get(identity.spec.auth_policy())?;
    let credentials = means(tx, identity, &policy.spec.primary)?;
    let is_allowed = credentials.iter().any(|means| means.is_allowed);
    let shut_out = identity.state.is_disabled(now);
    if shut_out {
        obstacles.push(edits::disabled(identity));
    }
    let issued = tx.linked::<Enrollment>("identity", id)?;
    let outstanding = issued.iter().max_by_key(|enrollment| enrollment.spec.expires_at);
    // Whoever has a session need not log in.
    if !is_allowed && !tx.has::<ApiSession>("identity", id)? {
        obstacles.push(match credentials.as_slice() {
            [] => edits::no_credential(identity, outstanding, now),
            credentials => edits::not_allowed(identity, &policy, credentials),
        });
    }
    let (state, until) = match (shut_out, identity.state.disabled_until, outstanding) {
        (true, None, _) => (State::Disabled, None),
        (true, until, _) => (State::Locked, until),
        (false, _, Some(enrollment)) if credentials.is_empty() => (State::NeverEnrolled, Some(enrollment.spec.expires_at)),
        (false, ..) if credentials.is_empty() => (State::NoCredential, None),
        (false, ..) if !is_allowed => (State::NotAllowed, None),
        (false, ..) => (State::Ready, None),
    };
    Ok((Authentication { state, until, credentials }, obstacles))
}

/// Everything there is to log in with.
fn means(tx: &Read<'_>, identity: &Record<Identity>, allowed: &Primary) -> Result<Vec<Means>> {
    let (updb, cert) = (json!({ "updb": { "allowed": true } }), json!({ "cert": { "allowed": true } }));
    let mut means: Vec<Means> = Vec::new();
    for held in tx.linked::<Authenticator>("identity", identity.id.as_str())? {
        means.push(match held.spec.credential.method() {
            authenticator::Method::Updb => Means { method: Method::Updb, is_allowed: allowed.updb.allowed, allowing: updb.clone() },
            authenticator::Method::Cert => Means { method: Method::Cert, is_allowed: allowed.cert.allowed, allowing: cert.clone() },
        });
    }
    let (mut by_ca, mut signers) = (false, Vec::new());
    tx.each_readable::<Ca>(|ca| {
        by_ca |= ca.lets_in_by_claim();
        Ok(())
    })?;
    tx.each_readable::<ExternalJwtSigner>(|signer| {
        signers.extend(signer.spec.enabled.then_some((signer.spec.use_external_id, signer.id)));
        Ok(())
    })?;
    let ext_jwt = &allowed.ext_jwt;
    let is_chosen =
        |id: &Id<ExternalJwtSigner>| ext_jwt.allowed && (ext_jwt.allowed_signers.is_empty() || ext_jwt.allowed_signers.contains(id));
    let of = |external: bool| signers.iter().filter(move |(is_external, _)| *is_external == external);
    let by_token = json!({ "extJwt": { "allowed": true, "allowedSigners": [] } });
    if identity.spec.external_id.is_some() && (by_ca || of(true).next().is_some()) {
        let is_allowed = (by_ca && allowed.cert.allowed) || of(true).any(|(_, id)| is_chosen(id));
        means.push(Means { method: Method::ExternalId, is_allowed, allowing: if by_ca { cert } else { by_token.clone() } });
    }
    means.extend(of(false).any(|(_, id)| is_chosen(id)).then_some(Means {
        method: Method::ExternalJwt,
        is_allowed: true,
        allowing: by_token,
    }));
    Ok(means)
}
