//! How a key becomes an identity: one-time tokens, and certificates of other authorities, are redeemed for credentials; and how a
//! certificate of ours is renewed.
//!
//! Not here: issuing the tokens (`change/enrollment.rs`), what certificates look like (`pki/`), who trusts whom
//! (`authentication/trust.rs`). Start reading at [`redeem`]; each method has a file of its name.
//! Invariant: a refusal leaves the enrollment as it was, a success uses it up, and both the credential and the end of the enrollment
//! are in one transaction. What costs time (requests, signatures, passwords) is done before it, and what it rests on is looked at
//! again in it.

mod ca;
mod erott;
pub mod extension;
mod ott;
mod ottca;
mod reserved;
mod router;
mod trott;
mod updb;

use std::{net::IpAddr, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

pub use ca::enroll as enroll_by_certificate;
pub use reserved::Reserved;
pub use router::extend as extend_router;

use crate::{
    authentication::Passwords,
    change::{Change, Changes},
    clock::Timestamp,
    entity::{Enrollment, Facts, Record, enrollment::Method},
    error::{Error, Refusal, Result},
    pki::{self, AlternativeNames, Certificate, Csr, Keystore, Validity},
    store::{Read, Store},
};

/// Years that issued certificates are good for.
const YEARS: u16 = 1;

/// What enrolling is done with.
pub struct EnrollmentContext<'d> {
    pub store: &'d Store,
    pub changes: &'d Changes,
    pub keystore: &'d Arc<Keystore>,
    pub passwords: &'d Passwords,
    /// What routers may not be called.
    pub reserved: &'d Reserved,
    pub now: Timestamp,
    /// Where the request comes from.
    pub address: Option<IpAddr>,
}

/// What somebody hands in to enroll.
#[derive(Clone)]
pub enum EnrollmentRequest {
    Nothing,
    /// A certificate request in PEM, for most methods.
    Text(String),
    /// An object with members such as `password`, `certCsr`, `name`.
    Object(Map<String, Json>),
}

/// What somebody shows and hands in to redeem a token.
pub struct Request {
    pub token: String,
    /// The method it must be of; none: whatever it is of.
    pub method: Option<Method>,
    pub offer: EnrollmentRequest,
    /// What the connection presented, leaf first. Possession of the leaf's key is proven, nothing else is.
    pub chain: Vec<Certificate>,
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
    /// The server certificate of a router and the authorities between it and the root, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cert: Option<String>,
}

/// Redeems a token.
///
/// # Errors
/// The token is unknown or has expired, or what the method needs is missing or wrong.
pub async fn redeem(context: &EnrollmentContext<'_>, request: Request) -> Result<Issued> {
    let enrollment = context.store.read(|tx| outstanding(tx, &request.token))?;
    let method = enrollment.spec.method;
    if request.method.is_some_and(|meant| meant != method) {
        return Err(unknown());
    }
    let known = enrollment.spec.identity_id.as_ref().map(|identity| context.changes.known_as(identity));
    let context = &EnrollmentContext { changes: known.as_ref().unwrap_or(context.changes), ..*context };
    match method {
        Method::Ott => ott::redeem(context, enrollment, &request.offer).await,
        Method::OttCa => ottca::redeem(context, enrollment, &request.chain).await,
        Method::Updb => updb::redeem(context, enrollment, &request.offer).await,
        Method::ErOtt => erott::redeem(context, enrollment, &request.offer).await,
        Method::TrOtt => trott::redeem(context, enrollment, &request.offer).await,
    }
}

fn unknown() -> Error {
    Error::Refused(Refusal::InvalidEnrollmentToken)
}

fn outstanding(tx: &Read<'_>, token: &str) -> Result<Record<Enrollment>> {
    let enrollment = tx.find_by::<Enrollment>("token", token)?.ok_or_else(unknown)?;
    if enrollment.spec.expires_at < tx.now() { Err(Error::Refused(Refusal::EnrollmentExpired)) } else { Ok(enrollment) }
}

/// Uses an enrollment up. It must still be as it was found: somebody else may have been faster.
fn use_up(change: &Change<'_, '_>, enrollment: &Record<Enrollment>) -> Result<()> {
    outstanding(change, &enrollment.spec.token)?;
    change.delete(&enrollment.id)
}

fn unprocessable() -> Error {
    Error::Refused(Refusal::CouldNotProcessCsr)
}

fn parsed(csr: &str) -> Result<Csr> {
    Csr::parse(csr).map_err(|_| unprocessable())
}

/// A client certificate with the key and subject of a request.
fn client_certificate(context: &EnrollmentContext<'_>, csr: &Csr, names: &AlternativeNames) -> Result<Certificate> {
    let validity = Validity::years(YEARS, context.now.seconds());
    context.keystore.authority().issue_client(csr, names, validity).map_err(unissued)
}

/// Why a certificate was not issued: for what is in the request, unless the authority is at its end.
pub fn unissued(reason: pki::Error) -> Error {
    match reason {
        pki::Error::Expired => Error::Internal("no certificate can be issued: the authority is outside of its validity".into()),
        _ => unprocessable(),
    }
}
