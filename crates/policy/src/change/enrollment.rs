//! Issuing enrollments: a one-time token, and the signed JWT that carries it to a client.

use model::{
    clock::Timestamp,
    entity::{Enrollment, Record, Tags, TypedLookup},
    error::{Error, Refusal, Result},
};
use pki::jwt::Claimed;
use serde::Serialize;
use uuid::Uuid;

use super::{Change, ChangeContext, Changes, Draft, Lifecycle, ids::short_id};

impl Lifecycle for Enrollment {
    fn new_id() -> String {
        short_id()
    }
}

/// The claims of an enrollment token (RFC 7519). Clients read every one of them.
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

impl ChangeContext {
    /// The enrollment with a new one-time token, and the JWT that carries it.
    fn sign(&self, mut enrollment: Enrollment, expires_at: Timestamp) -> Result<Enrollment> {
        let token = Uuid::new_v4().to_string();
        let issuer = self.issuer();
        let claims = Claims {
            em: enrollment.method.as_str(),
            exp: expires_at.seconds(),
            jti: &token,
            iss: &issuer,
            sub: enrollment.subject(),
            aud: [""],
            ctrls: None,
        };
        let signed = self.keystore.signer().sign(&claims);
        enrollment.jwt =
            signed.map_err(|e| Error::Internal(format!("signing an enrollment token: {e}")))?;
        (enrollment.token, enrollment.expires_at) = (token, expires_at);
        Ok(enrollment)
    }
}

impl Changes {
    /// Signs an enrollment before it is stored. Signing takes most of a millisecond; in the
    /// transaction it would delay every other write.
    ///
    /// # Errors
    /// Signing fails.
    pub fn sign(&self, enrollment: Enrollment, expires_at: Timestamp) -> Result<Enrollment> {
        self.context.sign(enrollment, expires_at)
    }
}

impl Change<'_, '_> {
    /// [`Changes::sign`] for an enrollment whose content is only known in the transaction.
    ///
    /// # Errors
    /// Signing fails.
    pub(crate) fn sign(&self, enrollment: Enrollment, expires_at: Timestamp) -> Result<Enrollment> {
        self.context.sign(enrollment, expires_at)
    }
}

/// The enrollment, signed again if the key of the listener changed since it was signed.
///
/// # Errors
/// Signing fails.
pub fn up_to_date(enrollment: Enrollment, change: &Change<'_, '_>) -> Result<Enrollment> {
    let signer = change.context.keystore.signer();
    let is_current =
        Claimed::read(&enrollment.jwt).is_ok_and(|token| signer.is_known_as(&token.key));
    let expires_at = enrollment.expires_at;
    if is_current {
        Ok(enrollment)
    } else {
        change.sign(enrollment, expires_at)
    }
}

/// Stores a new, signed enrollment.
///
/// # Errors
/// Signing again or storing fails.
pub fn issue(
    enrollment: Enrollment,
    tags: Tags,
    change: &Change<'_, '_>,
) -> Result<Record<Enrollment>> {
    change.create(Draft {
        tags,
        spec: up_to_date(enrollment, change)?,
    })
}

/// Like [`issue`], for an identity, which may have only one enrollment of each method, expired or
/// not.
///
/// # Errors
/// There is one already, or as in [`issue`].
pub fn issue_once(
    enrollment: Enrollment,
    tags: Tags,
    change: &Change<'_, '_>,
) -> Result<Record<Enrollment>> {
    let others = change.linked::<Enrollment>("identity", enrollment.subject())?;
    if others
        .iter()
        .any(|other| other.spec.method == enrollment.method)
    {
        return Err(Error::Refused(Refusal::EnrollmentExists {
            method: enrollment.method.as_str(),
        }));
    }
    issue(enrollment, tags, change)
}
