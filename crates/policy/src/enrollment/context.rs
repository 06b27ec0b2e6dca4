//! Inputs and results of all enrollment methods, and the steps that several share.

use std::{net::IpAddr, sync::Arc};

use model::{
    clock::Timestamp,
    entity::{Enrollment, Lookup, Record, enrollment::Method},
    error::{Error, Refusal, Result},
};
use pki::{self, AlternativeNames, Certificate, Csr, Keystore, Validity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use store::{Read, Store};

use super::reserved::Reserved;
use crate::{
    authentication::Passwords,
    change::{Change, Changes},
};

/// The validity of issued certificates, in years.
pub(super) const YEARS: u16 = 1;

/// What the enrollment methods need.
pub struct EnrollmentContext<'d> {
    pub store: &'d Store,
    pub changes: &'d Changes,
    pub keystore: &'d Arc<Keystore>,
    pub passwords: &'d Passwords,
    /// The names that routers may not have.
    pub reserved: &'d Reserved,
    pub now: Timestamp,
    /// The address that the request comes from.
    pub address: Option<IpAddr>,
}

/// The body of an enrollment request.
pub enum EnrollmentRequest {
    Nothing,
    /// A certificate request in PEM, for most methods.
    Text(String),
    Members(EnrollmentMembers),
}

/// The members of a JSON body. Each method requires some of them and ignores the others.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentMembers {
    pub password: Option<Member>,
    pub name: Option<Member>,
    /// PEM, for a client certificate.
    pub cert_csr: Option<Member>,
    /// PEM, for a server certificate.
    pub server_cert_csr: Option<Member>,
}

/// A member that must be a text if the method reads it.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Member {
    Text(String),
    Other(IgnoredAny),
}

impl Member {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

impl EnrollmentRequest {
    /// The members; `None` for a body that is not JSON.
    pub(super) fn members(&self) -> Option<&EnrollmentMembers> {
        match self {
            Self::Members(members) => Some(members),
            Self::Nothing | Self::Text(_) => None,
        }
    }
}

/// A request to redeem a token.
pub struct Request {
    pub token: String,
    /// The method that the token must be of; `None` for any.
    pub method: Option<Method>,
    pub body: EnrollmentRequest,
    /// The certificates that the connection presented, leaf first. TLS has proven possession of the
    /// leaf's key, nothing else.
    pub chain: Vec<Certificate>,
}

/// The result of an enrollment.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EnrollmentCerts")]
pub struct Issued {
    /// The authorities to trust, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The certificate and the authorities between it and the root, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The server certificate of a router and the authorities between it and the root, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cert: Option<String>,
    /// The user name of a new password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) username: Option<String>,
}

pub(super) fn unknown() -> Error {
    Error::Refused(Refusal::InvalidEnrollmentToken)
}

/// Deletes an enrollment, which must still be as it was found, because another request may have
/// used it meanwhile.
pub(super) fn use_up(change: &Change<'_, '_>, enrollment: &Record<Enrollment>) -> Result<()> {
    outstanding(change.read(), &enrollment.spec.token)?;
    change.delete(&enrollment.id)
}

pub(super) fn unprocessable() -> Error {
    Error::Refused(Refusal::CouldNotProcessCsr)
}

pub(super) fn parsed(csr: &str) -> Result<Csr> {
    Csr::parse(csr).map_err(|_| unprocessable())
}

/// A client certificate with the key and subject of a request.
pub(super) fn client_certificate(
    context: &EnrollmentContext<'_>,
    csr: &Csr,
    names: &AlternativeNames,
) -> Result<Certificate> {
    let validity = Validity::years(YEARS, context.now.seconds());
    context
        .keystore
        .authority()
        .issue_client(csr, names, validity)
        .map_err(unissued)
}

/// The error for a certificate that was not issued: the request is blamed, unless the authority has
/// expired.
pub fn unissued(reason: pki::Error) -> Error {
    match reason {
        pki::Error::Expired => Error::Internal(
            "no certificate can be issued: the authority is outside of its validity".into(),
        ),
        _ => unprocessable(),
    }
}

pub(super) fn outstanding(tx: &Read<'_>, token: &str) -> Result<Record<Enrollment>> {
    let enrollment = tx
        .find_by::<Enrollment>("token", token)?
        .ok_or_else(unknown)?;
    if enrollment.spec.expires_at < tx.now() {
        Err(Error::Refused(Refusal::EnrollmentExpired))
    } else {
        Ok(enrollment)
    }
}
