//! Whether an identity can log in, and with which credentials.

use model::{
    clock::Timestamp,
    entity::{ApiSession, Enrollment, Identity, Lookup, Record, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::{
    case::Case,
    credentials::{self, ExplainedCredential},
    edits,
    obstacle::Obstacle,
    second_factors::{self, SecondFactor},
};

/// The log-in state of an identity.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedAuthentication")]
pub(crate) struct Authentication {
    /// Whether it can log in, or why not.
    pub(crate) state: State,
    /// When a locked identity is unlocked, or when the enrollment token of one that never enrolled
    /// expires or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    /// The credentials it has.
    pub(crate) credentials: Vec<ExplainedCredential>,
    /// What is required besides a credential. The verdict assumes that it is given where the
    /// identity can give it, and is no where it cannot.
    pub(crate) second_factors: Vec<SecondFactor>,
}

/// The log-in states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthenticationState")]
pub(crate) enum State {
    /// It can log in, if it can also give the required second factors.
    Ready,
    /// Disabled until an administrator enables it.
    Disabled,
    /// Disabled for some time, by an administrator or because of wrong passwords.
    Locked,
    /// It, or the edge router whose tunneler it is, has an unused enrollment token.
    NeverEnrolled,
    /// It has no credential.
    NoCredential,
    /// It has credentials, but the auth policy, or the certificate authority that issued its
    /// certificate, allows none of them.
    NotAllowed,
}

/// The newest complete session of an identity. A session lacks no token of an external signer,
/// because that comes with every request.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn logged_in(
    tx: &Read<'_>,
    identity: &Record<Identity>,
) -> Result<Option<Record<ApiSession>>> {
    let secondary = tx.get(identity.spec.auth_policy())?.spec.secondary;
    let sessions = tx.linked::<ApiSession>("identity", identity.id.as_str())?;
    let complete = sessions
        .into_iter()
        .filter(|session| !session.spec.lacks_code(&secondary));
    Ok(complete.max_by_key(|session| session.created_at))
}

/// The log-in state of an identity, and the obstacles to logging in.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn obstacles(tx: &Read<'_>, case: &Case<'_>) -> Result<(Authentication, Vec<Obstacle>)> {
    let identity = &case.identity;
    let (id, now) = (identity.id.as_str(), tx.now());
    let mut obstacles = Vec::new();
    let policy = tx.get(identity.spec.auth_policy())?;
    let credentials = credentials::credentials(tx, identity, &policy)?;
    let is_allowed = credentials.iter().any(|means| means.is_allowed);
    let shut_out = identity.state.is_disabled(now);
    if shut_out {
        obstacles.push(edits::disabled(identity));
    }
    let outstanding = outstanding(tx, id)?;
    // An identity with a complete session need not log in.
    if !is_allowed && case.session.is_none() {
        match credentials.as_slice() {
            [] => obstacles.push(edits::no_credential(identity, outstanding.as_ref(), now)),
            credentials => obstacles.extend(edits::not_allowed(identity, credentials)),
        }
    }
    let (state, until) = match (shut_out, identity.state.disabled_until, outstanding) {
        (true, None, _) => (State::Disabled, None),
        (true, until, _) => (State::Locked, until),
        (false, _, Some(enrollment)) if credentials.is_empty() => {
            (State::NeverEnrolled, Some(enrollment.spec.expires_at))
        }
        (false, ..) if credentials.is_empty() => (State::NoCredential, None),
        (false, ..) if !is_allowed => (State::NotAllowed, None),
        (false, ..) => (State::Ready, None),
    };
    let second_factors = second_factors::asked_of(tx, identity, &policy)?;
    obstacles.extend(second_factors::missing(case, &second_factors));
    Ok((
        Authentication {
            state,
            until,
            credentials,
            second_factors,
        },
        obstacles,
    ))
}

/// The unused enrollment of an identity or of the edge router whose tunneler it is; of several the
/// one that expires last.
fn outstanding(tx: &Read<'_>, identity: &str) -> Result<Option<Record<Enrollment>>> {
    let mut issued = tx.linked::<Enrollment>("identity", identity)?;
    // The identity of a tunneler has the id of its router.
    issued.extend(tx.linked::<Enrollment>("edgeRouter", identity)?);
    Ok(issued
        .into_iter()
        .max_by_key(|enrollment| enrollment.spec.expires_at))
}
