//! How a key becomes an identity: one-time tokens are redeemed for certificates.
//!
//! Not here: issuing the tokens (`change/enrollment.rs`), what certificates look like (`pki/`). Start reading at [`redeem`].
//! Invariant: a refusal leaves the enrollment as it was, a success uses it up, and both the certificate's authenticator and the end of
//! the enrollment are in one transaction.
//!
//! Further methods are further arms of the match in [`redeem`]; each gets a file of its own.

mod ott;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    change::{Change, Changes},
    entity::{Enrollment, Record, enrollment::Method},
    error::{Error, Refusal, Result},
    pki::Holdings,
};
use std::sync::Arc;

/// What somebody sends to enroll.
#[derive(Debug, Clone)]
pub struct Request {
    pub token: String,
    /// A certificate request in PEM.
    pub csr: String,
}

/// What an enrollment yields.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EnrollmentCerts")]
pub struct Issued {
    /// The authorities to trust, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The certificate and the authorities between it and the root, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The server certificate of a router, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cert: Option<String>,
}

/// Redeems a token.
///
/// # Errors
/// The token is unknown or has expired, or what the method needs is missing or wrong.
pub async fn redeem(changes: &Changes, holdings: Arc<Holdings>, request: Request) -> Result<Issued> {
    changes
        .run(move |change| {
            let enrollment = outstanding(change, &request.token)?;
            match enrollment.spec.method {
                Method::Ott => ott::redeem(change, &holdings, &enrollment, &request.csr),
                _ => Err(Error::Refused(Refusal::InvalidEnrollMethod)),
            }
        })
        .await
}

fn outstanding(change: &Change<'_, '_>, token: &str) -> Result<Record<Enrollment>> {
    let unknown = Error::Refused(Refusal::InvalidEnrollmentToken);
    let enrollment = change.find_by::<Enrollment>("token", token)?.ok_or(unknown)?;
    if enrollment.spec.expires_at < change.now() { Err(Error::Refused(Refusal::EnrollmentExpired)) } else { Ok(enrollment) }
}
