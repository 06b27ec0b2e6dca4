//! Issuing enrollments: a one-time token, and the signed text that carries it to a client.

use serde::Serialize;
use uuid::Uuid;

use super::{Change, Lifecycle, lifecycle::short_id};
use crate::{
    clock::Timestamp,
    entity::{Enrollment, FactsExt, Id, Record},
    error::{Error, Refusal, Result},
};

impl Lifecycle for Enrollment {
    fn new_id() -> String {
        short_id()
    }
}

/// What an enrollment token says (RFC 7519). Clients read every one of these members.
#[derive(Serialize)]
struct Claims<'c> {
    em: &'c str,
    exp: i64,
    jti: &'c str,
    iss: &'c str,
    sub: &'c str,
    aud: [&'c str; 1],
    ctrls: Option<Vec<String>>,
}

/// A new token for the enrollment, and the signed text that says whom it is for.
///
/// # Errors
/// Signing fails.
pub fn renew(enrollment: &mut Enrollment, expires_at: Timestamp, change: &Change<'_, '_>) -> Result<()> {
    let token = Uuid::new_v4().to_string();
    let issuer = change.surroundings.issuer();
    let claims = Claims {
        em: enrollment.method.as_str(),
        exp: expires_at.seconds(),
        jti: &token,
        iss: &issuer,
        sub: enrollment.subject(),
        aud: [""],
        ctrls: None,
    };
    enrollment.jwt =
        change.surroundings.holdings.signer().sign(&claims).map_err(|e| Error::Internal(format!("signing an enrollment token: {e}")))?;
    (enrollment.token, enrollment.expires_at) = (token, expires_at);
    Ok(())
}

/// Stores a new enrollment with a token of its own.
///
/// # Errors
/// Signing or storing fails.
pub fn issue(mut enrollment: Enrollment, expires_at: Timestamp, change: &Change<'_, '_>) -> Result<Record<Enrollment>> {
    renew(&mut enrollment, expires_at, change)?;
    change.insert(Record::new(Id::from_text(Enrollment::new_id()), change.now(), enrollment))
}

/// The same for an identity, which may have one of each method outstanding, expired or not.
///
/// # Errors
/// There is one, or as in [`issue`].
pub fn issue_once(enrollment: Enrollment, expires_at: Timestamp, change: &Change<'_, '_>) -> Result<Record<Enrollment>> {
    let others = change.linked::<Enrollment>("identity", enrollment.subject())?;
    if others.iter().any(|other| other.spec.method == enrollment.method) {
        return Err(Error::Refused(Refusal::EnrollmentExists { method: enrollment.method.as_str() }));
    }
    issue(enrollment, expires_at, change)
}
