//! Whether an identity can log in, and by what.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    case::Case,
    credentials::{self, Means},
    edits,
    obstacle::Obstacle,
    second_factors::{self, SecondFactor},
};
use crate::{
    clock::Timestamp,
    entity::{ApiSession, Enrollment, Facts, FactsExt, Identity, Record},
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
    /// What it is asked for besides. The verdict is for somebody who has given it, and a no where nobody can.
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
    /// There is, but its auth policy, or the authority that issued its certificate, lets in by none of it.
    NotAllowed,
}

/// The newest session of an identity in which nothing is outstanding. A token of another issuer comes with every request, and no session
/// ever has it.
///
/// # Errors
/// A record cannot be read.
pub fn logged_in(tx: &Read<'_>, identity: &Record<Identity>) -> Result<Option<Record<ApiSession>>> {
    let secondary = tx.get(identity.spec.auth_policy())?.spec.secondary;
    let sessions = tx.linked::<ApiSession>("identity", identity.id.as_str())?;
    let complete = sessions.into_iter().filter(|session| !session.spec.lacks_code(&secondary));
    Ok(complete.max_by_key(|session| session.created_at))
}

/// How an identity stands to logging in, and what keeps it from it.
///
/// # Errors
/// A record cannot be read.
pub fn judge(tx: &Read<'_>, case: &Case<'_>) -> Result<(Authentication, Vec<Obstacle>)> {
    let identity = &case.identity;
    let (id, now) = (identity.id.as_str(), tx.now());
    let mut obstacles = Vec::new();
    let policy = tx.get(identity.spec.auth_policy())?;
    let credentials = credentials::means(tx, identity, &policy)?;
    let is_allowed = credentials.iter().any(|means| means.is_allowed);
    let shut_out = identity.state.is_disabled(now);
    if shut_out {
        obstacles.push(edits::disabled(identity));
    }
    let outstanding = outstanding(tx, id)?;
    // Whoever is logged in need not log in.
    if !is_allowed && case.session.is_none() {
        match credentials.as_slice() {
            [] => obstacles.push(edits::no_credential(identity, outstanding.as_ref(), now)),
            credentials => obstacles.extend(edits::not_allowed(identity, credentials)),
        }
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
    obstacles.extend(second_factors::missing(case, &second_factors));
    Ok((Authentication { state, until, credentials, second_factors }, obstacles))
}

/// The token that an identity, or the edge router whose tunneler it is, was given to enroll with; of several the one that is good longest.
fn outstanding(tx: &Read<'_>, identity: &str) -> Result<Option<Record<Enrollment>>> {
    let mut issued = tx.linked::<Enrollment>("identity", identity)?;
    // A tunneler's identity has the id of its router.
    issued.extend(tx.linked::<Enrollment>("edgeRouter", identity)?);
    Ok(issued.into_iter().max_by_key(|enrollment| enrollment.spec.expires_at))
}
