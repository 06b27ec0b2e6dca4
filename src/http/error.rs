//! How an error of ours looks on the wire: one table, from [`Error`] to status, code and cause.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{answer::Reply, envelope::Meta, header::Header};
use crate::error::{self, Error, Refusal};

/// An answer that is an error.
#[derive(Serialize, JsonSchema)]
pub struct ErrorEnvelope {
    pub error: ApiError,
    pub meta: Meta,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiError {
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// Under this id the request stands in the log.
    pub request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Why.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cause {
    /// A member of the request that breaks a rule.
    Field { field: String, reason: String, value: String },
    /// What is in the way.
    Data { message: String, data: BTreeMap<&'static str, String> },
    /// A refusal behind the refusal.
    #[serde(rename_all = "camelCase")]
    Nested { code: String, message: String, request_id: String },
    /// Posture checks that fail, by policy.
    Posture { message: String, data: BTreeMap<String, Vec<FailedCheck>> },
    /// Anything else.
    Other { code: String, message: String },
}

/// A posture check that fails.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedCheck {
    id: String,
    type_id: &'static str,
    is_passing: bool,
}

/// Status, code, and what the cause says.
struct Face {
    status: u16,
    code: &'static str,
    cause: Option<Cause>,
}

impl Face {
    fn new(status: u16, code: &'static str, error: &Error) -> Self {
        Self { status, code, cause: Some(Cause::Other { code: "UNHANDLED".into(), message: error.to_string() }) }
    }

    fn nested(status: u16, code: &'static str, inner: &str, error: &Error) -> Self {
        let cause = Cause::Nested { code: inner.into(), message: error.to_string(), request_id: String::new() };
        Self { status, code, cause: Some(cause) }
    }

    fn posture(failed: &BTreeMap<String, Vec<error::FailedCheck>>, error: &Error) -> Self {
        let shown = |check: &error::FailedCheck| FailedCheck { id: check.id.clone(), type_id: check.type_id, is_passing: false };
        let data = failed.iter().map(|(policy, checks)| (policy.clone(), checks.iter().map(shown).collect())).collect();
        Self { status: 409, code: "INVALID_POSTURE", cause: Some(Cause::Posture { message: error.to_string(), data }) }
    }

    fn field(status: u16, code: &'static str, field: &str, reason: &str, value: &str) -> Self {
        Self { status, code, cause: Some(Cause::Field { field: field.into(), reason: reason.into(), value: value.into() }) }
    }
}

/// That a value is taken. Of a name programs know it by these words, as they are, and go on with the record that has it.
fn taken(field: &str) -> &'static str {
    if field == "name" { "name is must be unique" } else { "must be unique" }
}

fn face(error: &Error) -> Face {
    match error {
        Error::NotFound { field: Some(field), id, .. } => Face::field(404, "NOT_FOUND", field, &error.to_string(), id),
        Error::NotFound { field: None, .. } => Face::new(404, "NOT_FOUND", error),
        Error::Invalid { field, reason, value } => Face::field(400, "COULD_NOT_VALIDATE", field, reason, value),
        Error::Duplicate { field, value } => Face::field(400, "COULD_NOT_VALIDATE", field, taken(field), value),
        Error::Incomplete(_) => Face::new(400, "COULD_NOT_VALIDATE", error),
        Error::Unparseable(_) => Face::new(400, "COULD_NOT_PARSE_BODY", error),
        Error::Filter(_) => Face::new(400, "INVALID_FILTER", error),
        Error::Sort(_) => Face::new(400, "INVALID_SORT_IDENTIFIER", error),
        Error::Referenced { field, by } => {
            // Of several that stand in the way clients know one to be named; the sentence for people tells all.
            let first = by.first().map_or("", String::as_str);
            Face::field(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", field, &error.to_string(), &format!("[{first}]"))
        }
        Error::BadReference(_) => Face::new(400, "REFERENCED_ENTITY_NOT_FOUND", error),
        Error::NotDeletable(_) => Face::new(400, "ENTITY_CAN_NOT_BE_DELETED", error),
        Error::NotUpdatable(_) => Face::new(400, "ENTITY_CAN_NOT_BE_UPDATED", error),
        Error::Changed => Face::new(412, "PRECONDITION_FAILED", error),
        Error::Unauthorized { anonymous: true } => Face::new(401, "UNAUTHORIZED", error),
        Error::Unauthorized { anonymous: false } => Face { status: 401, code: "UNAUTHORIZED", cause: None },
        Error::InvalidAuth => Face::new(401, "INVALID_AUTH", error),
        Error::CertificateInUse { fingerprint } => {
            let data = BTreeMap::from([("fingerprint", fingerprint.clone())]);
            Face { status: 409, code: "CERT_IN_USE", cause: Some(Cause::Data { message: error.to_string(), data }) }
        }
        Error::InvalidPosture(failed) => Face::posture(failed, error),
        Error::Refused(refusal) => refused(*refusal, error),
        Error::Busy { .. } => Face::new(429, "SERVER_TOO_MANY_REQUESTS", error),
        Error::Storage(_) => Face { status: 503, code: "STORAGE_UNAVAILABLE", cause: None },
        Error::Damaged { .. } | Error::Internal(_) => Face { status: 500, code: "UNHANDLED", cause: None },
    }
}

fn refused(refusal: Refusal, error: &Error) -> Face {
    let (status, code) = match refusal {
        Refusal::InvalidEnrollmentToken => (400, "INVALID_ENROLLMENT_TOKEN"),
        Refusal::EnrollmentExpired => (400, "ENROLLMENT_EXPIRED"),
        Refusal::EnrollmentExists { method } => return Face::field(409, "ENROLLMENT_EXISTS", "method", &error.to_string(), method),
        Refusal::CouldNotProcessCsr => (400, "COULD_NOT_PROCESS_CSR"),
        Refusal::RouterCommonName => return Face::nested(400, "COULD_NOT_PROCESS_CSR", "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID", error),
        Refusal::RouterCsr => return Face::nested(400, "COULD_NOT_PROCESS_CSR", "COULD_NOT_PROCESS_CSR", error),
        Refusal::MissingOrInvalidCsr => (400, "MISSING_OR_INVALID_CSR"),
        Refusal::InvalidContentType => (400, "INVALID_CONTENT_TYPE"),
        Refusal::NoEdgeRoutersAvailable => (400, "NO_EDGE_ROUTERS_AVAILABLE"),
        Refusal::CouldNotParsePemBlock => (400, "COULD_NOT_PARSE_PEM_BLOCK"),
        Refusal::MaxAuthenticatorMethodsReached => (409, "MAX_AUTHENTICATOR_METHODS_REACHED"),
        Refusal::InvalidCertPem => (400, "INVALID_CERT_PEM"),
        Refusal::MfaExists => (409, "MFA_EXISTS"),
        Refusal::MfaNotEnrolled => (409, "MFA_NOT_ENROLLED"),
        Refusal::MfaInvalidToken => (400, "MFA_INVALID_TOKEN"),
        Refusal::CannotUpdateAuthenticator => (409, "CAN_NOT_UPDATE_AUTHENTICATOR"),
        Refusal::WrongCurrentPassword => return Face::field(401, "UNAUTHORIZED", "currentPassword", &error.to_string(), ""),
        Refusal::InvalidClientCert => (400, "INVALID_CLIENT_CERT"),
        Refusal::CertFailedValidation => (400, "CERT_FAILED_VALIDATION"),
        Refusal::EnrollmentCaNotValid => (400, "ENROLLMENT_CA_NOT_VALID"),
        Refusal::EnrollmentNoValidCas => (400, "ENROLLMENT_NO_VALID_CAS"),
        Refusal::MissingCertClaim => (400, "MISSING_CERT_CLAIM"),
        Refusal::CaAlreadyVerified => (409, "CA_ALREADY_VERIFIED"),
        Refusal::CertificateIsNotCa => (400, "CERTIFICATE_IS_NOT_CA"),
        Refusal::ExpectedPemCertificate => (400, "EXPECTED_PEM_CERTIFICATE"),
        Refusal::CouldNotParseDerBlock => (400, "COULD_NOT_PARSE_DER_BLOCK"),
        Refusal::InvalidCommonName => (400, "INVALID_COMMON_NAME"),
        Refusal::CertificateFailedValidation => (400, "CERTIFICATE_FAILED_VALIDATION"),
        Refusal::CannotUpdateRouter => (409, "CAN_NOT_UPDATE_ROUTER"),
        Refusal::RateLimited => (429, "RATE_LIMITED"),
        Refusal::TooLarge => (413, "REQUEST_ENTITY_TOO_LARGE"),
        Refusal::HeadTooLarge => (431, "REQUEST_HEADER_FIELDS_TOO_LARGE"),
        Refusal::TooSlow => (408, "REQUEST_TIMEOUT"),
        Refusal::MethodNotAllowed => (405, "METHOD_NOT_ALLOWED"),
        Refusal::UnknownPath => (404, "NOT_FOUND"),
        Refusal::Timeout => (503, "TIMEOUT"),
    };
    Face::new(status, code, error)
}

/// The reply for an error. What nobody outside needs to know goes to the log.
pub fn reply(error: &Error, request_id: &str) -> Reply {
    let Face { status, code, mut cause } = face(error);
    if let Some(Cause::Nested { request_id: inner, .. }) = &mut cause {
        *inner = request_id.to_owned();
    }
    if status >= 500 {
        tracing::error!(%error, code, "request failed");
    }
    let message = if status == 500 { "an unexpected error; the log has more under the request id".into() } else { error.to_string() };
    let envelope =
        ErrorEnvelope { error: ApiError { code: code.into(), message, request_id: request_id.into(), cause }, meta: Meta::default() };
    let mut reply =
        Reply::json(status, &envelope).unwrap_or(Reply { status, media: "application/json", body: Vec::new().into(), headers: Vec::new() });
    reply.headers.extend(retry_after(error).map(|seconds| (Header::RetryAfter.name(), seconds.to_string())));
    reply
}

/// In how many seconds it is worth another try, if it is.
fn retry_after(error: &Error) -> Option<u32> {
    match error {
        Error::Busy { retry_after } => Some(*retry_after),
        Error::Refused(Refusal::RateLimited) => Some(60),
        Error::Refused(Refusal::Timeout | Refusal::TooSlow) | Error::Storage(_) => Some(2),
        _ => None,
    }
}
