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
    /// Every rule that the request breaks, if it breaks more than one; `cause` tells the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// A rule that a request breaks.
#[derive(Serialize, JsonSchema)]
pub struct Violation {
    /// The member of the request, if a single one is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong with it, and what would be right.
    pub reason: String,
    /// What was sent, as far as it may be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
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

/// How an error looks. Programs print message and cause one behind the other, so that neither says what the other does.
struct ErrorRow {
    status: u16,
    code: &'static str,
    message: String,
    cause: Option<Cause>,
}

impl ErrorRow {
    /// An error of which the message says everything.
    fn plain(status: u16, code: &'static str, error: &Error) -> Self {
        Self { status, code, message: error.to_string(), cause: None }
    }

    /// A general message, behind which the cause says what exactly is wrong.
    fn because(status: u16, code: &'static str, message: &str, reason: impl ToString) -> Self {
        let cause = Cause::Other { code: "UNHANDLED".into(), message: reason.to_string() };
        Self { status, code, message: message.into(), cause: Some(cause) }
    }

    fn nested(status: u16, code: &'static str, inner: &str, error: &Error) -> Self {
        let cause = Cause::Nested { code: inner.into(), message: error.to_string(), request_id: String::new() };
        Self { status, code, message: Refusal::CouldNotProcessCsr.to_string(), cause: Some(cause) }
    }

    fn posture(failed: &BTreeMap<String, Vec<error::FailedCheck>>, error: &Error) -> Self {
        let shown = |check: &error::FailedCheck| FailedCheck { id: check.id.clone(), type_id: check.type_id, is_passing: false };
        let data = failed.iter().map(|(policy, checks)| (policy.clone(), checks.iter().map(shown).collect())).collect();
        let cause = Cause::Posture { message: "the data has the checks that fail, by policy".into(), data };
        Self { status: 409, code: "INVALID_POSTURE", message: error.to_string(), cause: Some(cause) }
    }

    fn field(status: u16, code: &'static str, message: String, field: &str, reason: &str, value: &str) -> Self {
        let cause = Cause::Field { field: field.into(), reason: reason.into(), value: value.into() };
        Self { status, code, message, cause: Some(cause) }
    }
}

/// What is said of a member before the reason.
fn about(field: &str, reason: &str) -> String {
    let is_missing = ["is required", "a body is required"].iter().any(|start| reason.starts_with(start));
    format!("{field} is {}", if is_missing { "missing" } else { "not accepted" })
}

/// A rule that a request breaks, for the list of all.
fn violation(error: &Error) -> Violation {
    let of = |field: &str, reason: String, value: &str| {
        let value = Some(value).filter(|value| !value.is_empty()).map(str::to_owned);
        Violation { field: Some(field.into()), reason: brief(&reason), value }
    };
    match error {
        Error::Invalid { field, reason, value } => of(field, reason.clone(), value),
        Error::Duplicate { field, value } => of(field, error.to_string(), value),
        Error::NotFound { field: Some(field), id, .. } => of(field, error.to_string(), id),
        other => Violation { field: None, reason: brief(&other.to_string()), value: None },
    }
}

/// Several violations, with the face of the first.
fn several(errors: &[Error]) -> ErrorRow {
    let Some(first) = errors.first() else { return face(&Error::Internal("no error among several".into())) };
    let fields: Vec<String> = errors.iter().filter_map(|error| violation(error).field).collect();
    let message = match fields.as_slice() {
        [] => format!("{} things are not accepted", errors.len()),
        fields => format!("{} things are not accepted: {}", errors.len(), fields.join(", ")),
    };
    ErrorRow { message, ..face(first) }
}

fn face(error: &Error) -> ErrorRow {
    match error {
        Error::NotFound { field: Some(field), id, .. } => {
            ErrorRow::field(404, "NOT_FOUND", about(field, ""), field, &error.to_string(), id)
        }
        Error::NotFound { field: None, .. } => ErrorRow::because(404, "NOT_FOUND", "there is no such record", error),
        Error::Invalid { field, reason, value } => ErrorRow::field(400, "COULD_NOT_VALIDATE", about(field, reason), field, reason, value),
        Error::Duplicate { field, value } => {
            ErrorRow::field(400, "COULD_NOT_VALIDATE", format!("this {field} is taken"), field, &error.to_string(), value)
        }
        Error::Several(errors) => several(errors),
        Error::Incomplete(_) => ErrorRow::because(400, "COULD_NOT_VALIDATE", "the request is not complete", error),
        Error::Unparseable(_) => ErrorRow::because(400, "COULD_NOT_PARSE_BODY", "the body cannot be read", error),
        Error::Filter(_) => ErrorRow::because(400, "INVALID_FILTER", "the filter cannot be used", error),
        Error::Sort(_) => ErrorRow::because(400, "INVALID_SORT_IDENTIFIER", "the order cannot be used", error),
        Error::Referenced { field, by } => {
            // Of several that stand in the way clients know one to be named; the sentence for people tells all.
            let (first, reason) = (by.first().map_or("", String::as_str), "others refer to the record");
            ErrorRow::field(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", error.to_string(), field, reason, &format!("[{first}]"))
        }
        Error::BadReference(_) => {
            ErrorRow::because(400, "REFERENCED_ENTITY_NOT_FOUND", "the request does not fit together, or names what is not there", error)
        }
        Error::NotDeletable(_) => ErrorRow::because(400, "ENTITY_CAN_NOT_BE_DELETED", "the record cannot be deleted", error),
        Error::NotUpdatable(_) => ErrorRow::because(400, "ENTITY_CAN_NOT_BE_UPDATED", "the record cannot be changed", error),
        Error::Changed => ErrorRow::plain(412, "PRECONDITION_FAILED", error),
        Error::Unauthorized { anonymous: true } => {
            ErrorRow::because(401, "UNAUTHORIZED", &error.to_string(), "the token of a session is expected in the header zt-session")
        }
        Error::Unauthorized { anonymous: false } => ErrorRow::plain(401, "UNAUTHORIZED", error),
        Error::InvalidAuth => ErrorRow::plain(401, "INVALID_AUTH", error),
        Error::CertificateInUse { fingerprint } => {
            let data = BTreeMap::from([("fingerprint", fingerprint.clone())]);
            let cause = Cause::Data { message: "it is the credential of an identity already".into(), data };
            ErrorRow { status: 409, code: "CERT_IN_USE", message: error.to_string(), cause: Some(cause) }
        }
        Error::InvalidPosture(failed) => ErrorRow::posture(failed, error),
        Error::Refused(refusal) => refused(*refusal, error),
        Error::Busy { .. } => ErrorRow::plain(429, "SERVER_TOO_MANY_REQUESTS", error),
        Error::Storage(_) => ErrorRow::plain(503, "STORAGE_UNAVAILABLE", error),
        Error::Damaged { .. } | Error::Internal(_) => ErrorRow::plain(500, "UNHANDLED", error),
    }
}

fn refused(refusal: Refusal, error: &Error) -> ErrorRow {
    let (status, code) = match refusal {
        Refusal::InvalidEnrollmentToken => (400, "INVALID_ENROLLMENT_TOKEN"),
        Refusal::EnrollmentExpired => (400, "ENROLLMENT_EXPIRED"),
        Refusal::EnrollmentExists { method } => {
            return ErrorRow::field(409, "ENROLLMENT_EXISTS", error.to_string(), "method", "is that of the other enrollment", method);
        }
        Refusal::CouldNotProcessCsr => {
            let reason = "it cannot be read, its signature does not verify, or it asks for what is not issued";
            return ErrorRow::because(400, "COULD_NOT_PROCESS_CSR", &error.to_string(), reason);
        }
        Refusal::RouterCommonName => {
            return ErrorRow::nested(400, "COULD_NOT_PROCESS_CSR", "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID", error);
        }
        Refusal::RouterCsr => return ErrorRow::nested(400, "COULD_NOT_PROCESS_CSR", "COULD_NOT_PROCESS_CSR", error),
        Refusal::MissingOrInvalidCsr => {
            return ErrorRow::because(400, "MISSING_OR_INVALID_CSR", "the certificate requests are not accepted", error);
        }
        Refusal::InvalidContentType => (400, "INVALID_CONTENT_TYPE"),
        Refusal::NoEdgeRoutersAvailable => (400, "NO_EDGE_ROUTERS_AVAILABLE"),
        Refusal::CouldNotParsePemBlock => {
            return ErrorRow::because(400, "COULD_NOT_PARSE_PEM_BLOCK", "the certificate cannot be read", error);
        }
        Refusal::MaxAuthenticatorMethodsReached => (409, "MAX_AUTHENTICATOR_METHODS_REACHED"),
        Refusal::InvalidCertPem => (400, "INVALID_CERT_PEM"),
        Refusal::MfaExists => (409, "MFA_EXISTS"),
        Refusal::MfaNotEnrolled => (409, "MFA_NOT_ENROLLED"),
        Refusal::MfaInvalidToken => (400, "MFA_INVALID_TOKEN"),
        Refusal::CannotUpdateAuthenticator => (409, "CAN_NOT_UPDATE_AUTHENTICATOR"),
        Refusal::WrongCurrentPassword => {
            return ErrorRow::field(401, "UNAUTHORIZED", error.to_string(), "currentPassword", "is not accepted", "");
        }
        Refusal::InvalidClientCert => (400, "INVALID_CLIENT_CERT"),
        Refusal::CertFailedValidation => (400, "CERT_FAILED_VALIDATION"),
        Refusal::EnrollmentCaNotValid => (400, "ENROLLMENT_CA_NOT_VALID"),
        Refusal::EnrollmentNoValidCas => (400, "ENROLLMENT_NO_VALID_CAS"),
        Refusal::MissingCertClaim => (400, "MISSING_CERT_CLAIM"),
        Refusal::CaAlreadyVerified => (409, "CA_ALREADY_VERIFIED"),
        Refusal::CertificateIsNotCa => (400, "CERTIFICATE_IS_NOT_CA"),
        Refusal::ExpectedPemCertificate => {
            return ErrorRow::because(400, "EXPECTED_PEM_CERTIFICATE", "the certificate cannot be read", error);
        }
        Refusal::CouldNotParseDerBlock => {
            return ErrorRow::because(400, "COULD_NOT_PARSE_DER_BLOCK", "the certificate cannot be read", error);
        }
        Refusal::InvalidCommonName => (400, "INVALID_COMMON_NAME"),
        Refusal::CertificateFailedValidation => {
            return ErrorRow::because(400, "CERTIFICATE_FAILED_VALIDATION", "the certificate is not accepted", error);
        }
        Refusal::CannotUpdateRouter => (409, "CAN_NOT_UPDATE_ROUTER"),
        Refusal::RateLimited => (429, "RATE_LIMITED"),
        Refusal::TooLarge => (413, "REQUEST_ENTITY_TOO_LARGE"),
        Refusal::HeadTooLarge => (431, "REQUEST_HEADER_FIELDS_TOO_LARGE"),
        Refusal::TooSlow => (408, "REQUEST_TIMEOUT"),
        Refusal::MethodNotAllowed => {
            return ErrorRow::because(405, "METHOD_NOT_ALLOWED", "the request is not one that this controller knows", error);
        }
        Refusal::UnknownPath => return ErrorRow::because(404, "NOT_FOUND", "the request is not one that this controller knows", error),
        Refusal::Timeout => (503, "TIMEOUT"),
    };
    ErrorRow::plain(status, code, error)
}

/// So many letters of a text are told at most.
const LONGEST: usize = 1000;

/// A text for people: without certificates and keys in it, and no longer than anybody reads.
fn brief(text: &str) -> String {
    let whole = match text.split_once("-----BEGIN ") {
        Some((before, _)) => format!("{before}(PEM)"),
        None => text.to_owned(),
    };
    if whole.chars().nth(LONGEST).is_some() { whole.chars().take(LONGEST).chain(['…']).collect() } else { whole }
}

/// The same of a cause. What was sent is repeated as it was: clients know it so.
fn brief_cause(mut cause: Cause) -> Cause {
    match &mut cause {
        Cause::Field { reason: text, .. } | Cause::Data { message: text, .. } | Cause::Nested { message: text, .. } => *text = brief(text),
        Cause::Posture { message: text, .. } | Cause::Other { message: text, .. } => *text = brief(text),
    }
    cause
}

/// The reply for an error. What nobody outside needs to know goes to the log.
pub fn reply(error: &Error, request_id: &str) -> Reply {
    let ErrorRow { status, code, message, mut cause } = face(error);
    if let Some(Cause::Nested { request_id: inner, .. }) = &mut cause {
        *inner = request_id.to_owned();
    }
    if status >= 500 {
        tracing::error!(%error, code, "request failed");
    }
    let message = if status == 500 { "an unexpected error; the log has more under the request id".into() } else { brief(&message) };
    let violations = if let Error::Several(errors) = error { errors.iter().map(violation).collect() } else { Vec::new() };
    let error_of = ApiError { code: code.into(), message, request_id: request_id.into(), cause: cause.map(brief_cause), violations };
    let envelope = ErrorEnvelope { error: error_of, meta: Meta::default() };
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
