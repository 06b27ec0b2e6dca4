//! Whether an identity can log in, and by what.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    MOST, Obstacle, edits,
    second_factors::{self, SecondFactor},
};
use crate::{
    clock::Timestamp,
    entity::{
        ApiSession, Authenticator, Ca, Enrollment, ExternalJwtSigner, Facts, FactsExt, Identity, Record,
        auth_policy::{ExtJwt, Primary},
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
    /// What it is asked for besides. The verdict is for somebody who has given it.
    pub second_factors: Vec<SecondFactor>,
}

/// The states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthenticationState")]
pub enum State {
    /// It can log in, if it can also give what is asked for besides.
    Ready,
    /// Shut out until somebody enables it.
    Disabled,
    /// Shut out for some time, by an administrator or for wrong passwords.
    Locked,
    /// It, or the edge router whose tunneler it is, was given a token to enroll with, and has not used it.
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
    /// Changes of the auth policy of which any one would allow it.
    #[serde(skip)]
    pub allowing: Vec<Allowing>,
}

/// A change of an auth policy that lets more people in.
#[derive(Debug)]
pub struct Allowing {
    /// What becomes of its member `primary`.
    pub primary: Json,
    /// What it allows then, in a sentence.
    pub words: String,
}

impl Allowing {
    fn passwords() -> Self {
        Self { primary: json!({ "updb": { "allowed": true } }), words: "passwords".into() }
    }

    fn certificates() -> Self {
        Self { primary: json!({ "cert": { "allowed": true } }), words: "certificates".into() }
    }

    fn tokens(ext_jwt: Json, whose: &str) -> Self {
        Self { primary: json!({ "extJwt": ext_jwt }), words: format!("tokens of {whose}") }
    }
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
    let policy = tx.get(identity.spec.auth_policy())?;
    let credentials = means(tx, identity, &policy.spec.primary)?;
    let is_allowed = credentials.iter().any(|means| means.is_allowed);
    let shut_out = identity.state.is_disabled(now);
    if shut_out {
        obstacles.push(edits::disabled(identity));
    }
    let outstanding = outstanding(tx, id)?;
    // Whoever has a session need not log in.
    if !is_allowed && !tx.has::<ApiSession>("identity", id)? {
        obstacles.push(match credentials.as_slice() {
            [] => edits::no_credential(identity, outstanding.as_ref(), now),
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
    let second_factors = second_factors::asked_of(tx, identity, &policy)?;
    Ok((Authentication { state, until, credentials, second_factors }, obstacles))
}

/// The token that an identity, or the edge router whose tunneler it is, was given to enroll with; of several the one that is good longest.
fn outstanding(tx: &Read<'_>, identity: &str) -> Result<Option<Record<Enrollment>>> {
    let mut issued = tx.linked::<Enrollment>("identity", identity)?;
    // A tunneler's identity has the id of its router.
    issued.extend(tx.linked::<Enrollment>("edgeRouter", identity)?);
    Ok(issued.into_iter().max_by_key(|enrollment| enrollment.spec.expires_at))
}

/// Everything there is to log in with.
fn means(tx: &Read<'_>, identity: &Record<Identity>, allowed: &Primary) -> Result<Vec<Means>> {
    let mut means: Vec<Means> = Vec::new();
    for held in tx.linked::<Authenticator>("identity", identity.id.as_str())? {
        let (method, is_allowed, allowing) = match held.spec.credential.method() {
            authenticator::Method::Updb => (Method::Updb, allowed.updb.allowed, Allowing::passwords()),
            authenticator::Method::Cert => (Method::Cert, allowed.cert.allowed, Allowing::certificates()),
        };
        means.push(Means { method, is_allowed, allowing: vec![allowing] });
    }
    let others = Others::read(tx)?;
    if identity.spec.external_id.is_some() {
        means.extend(others.by_external_id(allowed));
    }
    let by_id = others.signers_by_id.iter().any(|signer| allowed.ext_jwt.lets_in(&signer.id));
    means.extend(by_id.then_some(Means { method: Method::ExternalJwt, is_allowed: true, allowing: Vec::new() }));
    Ok(means)
}

/// Who else says who somebody is.
struct Others {
    /// Whether an authority does, by a claim in its certificates that holds an external id.
    by_claim: bool,
    /// The enabled signers whose tokens hold external ids.
    signers: Vec<Record<ExternalJwtSigner>>,
    /// The other enabled ones: their tokens hold the ids of identities.
    signers_by_id: Vec<Record<ExternalJwtSigner>>,
}

impl Others {
    fn read(tx: &Read<'_>) -> Result<Self> {
        let (mut by_claim, mut enabled) = (false, Vec::new());
        tx.each_readable::<Ca>(|ca| {
            by_claim |= ca.lets_in_by_claim();
            Ok(())
        })?;
        tx.each_readable::<ExternalJwtSigner>(|signer| {
            enabled.extend(signer.spec.enabled.then_some(signer));
            Ok(())
        })?;
        let (signers, signers_by_id) = enabled.into_iter().partition(|signer| signer.spec.use_external_id);
        Ok(Self { by_claim, signers, signers_by_id })
    }

    /// An external id, if anybody knows identities by theirs.
    fn by_external_id(&self, allowed: &Primary) -> Option<Means> {
        let by_token = self.signers.iter().any(|signer| allowed.ext_jwt.lets_in(&signer.id));
        let is_allowed = (self.by_claim && allowed.cert.allowed) || by_token;
        let by_claim = self.by_claim.then(Allowing::certificates);
        let allowing: Vec<Allowing> = by_claim.into_iter().chain(allowing_tokens(&allowed.ext_jwt, &self.signers)).collect();
        (!allowing.is_empty()).then_some(Means { method: Method::ExternalId, is_allowed, allowing })
    }
}

/// What would let tokens of any of these signers in. A list of signers is only added to: an empty one stands for all of them.
fn allowing_tokens(ext_jwt: &ExtJwt, signers: &[Record<ExternalJwtSigner>]) -> Vec<Allowing> {
    if signers.iter().any(|signer| ext_jwt.lists(&signer.id)) {
        let whose = if ext_jwt.allowed_signers.is_empty() { "every signer" } else { "the signers that it lists" };
        return vec![Allowing::tokens(json!({ "allowed": true }), whose)];
    }
    let adding = |signer: &Record<ExternalJwtSigner>| {
        let listed: Vec<_> = ext_jwt.allowed_signers.iter().chain([&signer.id]).collect();
        let name = &signer.spec.name;
        if ext_jwt.allowed {
            return Allowing::tokens(json!({ "allowedSigners": listed }), name);
        }
        Allowing::tokens(json!({ "allowed": true, "allowedSigners": listed }), &format!("{name} and of the signers that it lists"))
    };
    signers.iter().take(MOST).map(adding).collect()
}
