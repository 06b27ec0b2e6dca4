//! The table from [`Error`] to status, code, message and cause.

use std::collections::BTreeMap;

use model::error::{self, Error, Refusal};

use super::error_shape::{Cause, FailedCheck, RuleViolation};

/// The answer to an error. Clients print the message followed by the cause, so the cause does not
/// repeat the message.
pub(super) struct ErrorRow {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    pub cause: Option<Cause>,
}

impl ErrorRow {
    /// An error whose message is complete.
    fn plain(status: u16, code: &'static str, error: &Error) -> Self {
        Self {
            status,
            code,
            message: error.to_string(),
            cause: None,
        }
    }

    /// A general message; the cause has the details.
    fn with_cause(status: u16, code: &'static str, message: &str, reason: impl ToString) -> Self {
        let cause = Cause::Other {
            code: "UNHANDLED".into(),
            message: reason.to_string(),
        };
        Self {
            status,
            code,
            message: message.into(),
            cause: Some(cause),
        }
    }

    fn nested(status: u16, code: &'static str, inner: &str, error: &Error) -> Self {
        let cause = Cause::Nested {
            code: inner.into(),
            message: error.to_string(),
            request_id: String::new(),
        };
        Self {
            status,
            code,
            message: Refusal::CouldNotProcessCsr.to_string(),
            cause: Some(cause),
        }
    }

    fn posture(failed: &BTreeMap<String, Vec<error::FailedCheck>>, error: &Error) -> Self {
        let shown = |check: &error::FailedCheck| FailedCheck {
            id: check.id.clone(),
            type_id: check.type_id,
            is_passing: false,
        };
        let data = failed
            .iter()
            .map(|(policy, checks)| (policy.clone(), checks.iter().map(shown).collect()))
            .collect();
        let cause = Cause::Posture {
            message: "the data lists the failing checks by policy".into(),
            data,
        };
        Self {
            status: 409,
            code: "INVALID_POSTURE",
            message: error.to_string(),
            cause: Some(cause),
        }
    }

    fn field(
        status: u16,
        code: &'static str,
        message: String,
        field: &str,
        reason: &str,
        value: &str,
    ) -> Self {
        let cause = Cause::Field {
            field: field.into(),
            reason: reason.into(),
            value: value.into(),
        };
        Self {
            status,
            code,
            message,
            cause: Some(cause),
        }
    }
}

/// The message about a member.
fn member_message(field: &str, is_missing: bool) -> String {
    let fault = if is_missing {
        "missing"
    } else {
        "not accepted"
    };
    format!("{field} is {fault}")
}

/// Several broken rules. Status, code and cause are those of the first.
fn several(errors: &[Error]) -> ErrorRow {
    let Some(first) = errors.first() else {
        return error_row(&Error::Internal("a list of errors is empty".into()));
    };
    let fields: Vec<String> = errors
        .iter()
        .filter_map(|error| violation(error).field)
        .collect();
    let message = match fields.as_slice() {
        [] => format!("{} rules are broken", errors.len()),
        fields => format!("{} rules are broken: {}", errors.len(), fields.join(", ")),
    };
    ErrorRow {
        message,
        ..error_row(first)
    }
}

pub(super) fn error_row(error: &Error) -> ErrorRow {
    match error {
        Error::NotFound {
            field: Some(field),
            id,
            ..
        } => ErrorRow::field(
            404,
            "NOT_FOUND",
            member_message(field, false),
            field,
            &error.to_string(),
            id,
        ),
        Error::NotFound { field: None, .. } => {
            ErrorRow::with_cause(404, "NOT_FOUND", "there is no such record", error)
        }
        Error::Invalid {
            field,
            reason,
            value,
            is_missing,
        } => ErrorRow::field(
            400,
            "COULD_NOT_VALIDATE",
            member_message(field, *is_missing),
            field,
            reason,
            value,
        ),
        Error::Duplicate { field, value } => ErrorRow::field(
            400,
            "COULD_NOT_VALIDATE",
            format!("this {field} is taken"),
            field,
            &error.to_string(),
            value,
        ),
        Error::Several(errors) => several(errors),
        Error::Incomplete(_) => ErrorRow::with_cause(
            400,
            "COULD_NOT_VALIDATE",
            "the request is not complete",
            error,
        ),
        Error::Unparseable(_) => ErrorRow::with_cause(
            400,
            "COULD_NOT_PARSE_BODY",
            "the body cannot be read",
            error,
        ),
        Error::Filter(_) => {
            ErrorRow::with_cause(400, "INVALID_FILTER", "the filter cannot be used", error)
        }
        Error::Sort(_) => ErrorRow::with_cause(
            400,
            "INVALID_SORT_IDENTIFIER",
            "the sort order cannot be used",
            error,
        ),
        Error::Referenced { field, by } => {
            // Clients expect one of the referring records in the cause; the message lists all.
            let (first, reason) = (
                by.first().map_or("", String::as_str),
                "other records refer to this record",
            );
            ErrorRow::field(
                409,
                "CAN_NOT_DELETE_REFERENCED_ENTITY",
                error.to_string(),
                field,
                reason,
                &format!("[{first}]"),
            )
        }
        Error::BadReference(_) => ErrorRow::with_cause(
            400,
            "REFERENCED_ENTITY_NOT_FOUND",
            "the request names something that does not exist, or contradicts itself",
            error,
        ),
        Error::NotDeletable(_) => ErrorRow::with_cause(
            400,
            "ENTITY_CAN_NOT_BE_DELETED",
            "the record cannot be deleted",
            error,
        ),
        Error::NotUpdatable(_) => ErrorRow::with_cause(
            400,
            "ENTITY_CAN_NOT_BE_UPDATED",
            "the record cannot be changed",
            error,
        ),
        Error::Changed => ErrorRow::plain(412, "PRECONDITION_FAILED", error),
        Error::Unauthorized { anonymous: true } => ErrorRow::with_cause(
            401,
            "UNAUTHORIZED",
            &error.to_string(),
            "the token of a session is expected in the header zt-session",
        ),
        Error::Unauthorized { anonymous: false } => ErrorRow::plain(401, "UNAUTHORIZED", error),
        Error::InvalidAuth => ErrorRow::plain(401, "INVALID_AUTH", error),
        Error::CertificateInUse { fingerprint } => {
            let data = BTreeMap::from([("fingerprint", fingerprint.clone())]);
            let cause = Cause::Data {
                message: "the certificate is already the credential of an identity".into(),
                data,
            };
            ErrorRow {
                status: 409,
                code: "CERT_IN_USE",
                message: error.to_string(),
                cause: Some(cause),
            }
        }
        Error::InvalidPosture(failed) => ErrorRow::posture(failed, error),
        Error::ProofRefused(_) => ErrorRow::with_cause(
            400,
            "CERTIFICATE_FAILED_VALIDATION",
            "the certificate is not accepted",
            error,
        ),
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
            return ErrorRow::field(
                409,
                "ENROLLMENT_EXISTS",
                error.to_string(),
                "method",
                "an enrollment with this method is outstanding",
                method,
            );
        }
        Refusal::CouldNotProcessCsr => {
            let reason = "it is malformed, its signature is invalid, or it asks for something that is not issued";
            return ErrorRow::with_cause(400, "COULD_NOT_PROCESS_CSR", &error.to_string(), reason);
        }
        Refusal::RouterCommonName => {
            return ErrorRow::nested(
                400,
                "COULD_NOT_PROCESS_CSR",
                "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
                error,
            );
        }
        Refusal::RouterCsr => {
            return ErrorRow::nested(400, "COULD_NOT_PROCESS_CSR", "COULD_NOT_PROCESS_CSR", error);
        }
        Refusal::MissingOrInvalidCsr => {
            return ErrorRow::with_cause(
                400,
                "MISSING_OR_INVALID_CSR",
                "the certificate requests are not accepted",
                error,
            );
        }
        Refusal::InvalidContentType => (400, "INVALID_CONTENT_TYPE"),
        Refusal::NoEdgeRoutersAvailable => (400, "NO_EDGE_ROUTERS_AVAILABLE"),
        Refusal::CouldNotParsePemBlock => {
            return ErrorRow::with_cause(
                400,
                "COULD_NOT_PARSE_PEM_BLOCK",
                "the certificate cannot be read",
                error,
            );
        }
        Refusal::MaxAuthenticatorMethodsReached => (409, "MAX_AUTHENTICATOR_METHODS_REACHED"),
        Refusal::InvalidCertPem => (400, "INVALID_CERT_PEM"),
        Refusal::MfaExists => (409, "MFA_EXISTS"),
        Refusal::MfaNotEnrolled => (409, "MFA_NOT_ENROLLED"),
        Refusal::MfaInvalidToken => (400, "MFA_INVALID_TOKEN"),
        Refusal::CannotUpdateAuthenticator => (409, "CAN_NOT_UPDATE_AUTHENTICATOR"),
        Refusal::WrongCurrentPassword => {
            return ErrorRow::field(
                401,
                "UNAUTHORIZED",
                error.to_string(),
                "currentPassword",
                "is not accepted",
                "",
            );
        }
        Refusal::InvalidClientCert => (400, "INVALID_CLIENT_CERT"),
        Refusal::CertFailedValidation => (400, "CERT_FAILED_VALIDATION"),
        Refusal::EnrollmentCaNotValid => (400, "ENROLLMENT_CA_NOT_VALID"),
        Refusal::EnrollmentNoValidCas => (400, "ENROLLMENT_NO_VALID_CAS"),
        Refusal::MissingCertClaim => (400, "MISSING_CERT_CLAIM"),
        Refusal::CaAlreadyVerified => (409, "CA_ALREADY_VERIFIED"),
        Refusal::CertificateIsNotCa => (400, "CERTIFICATE_IS_NOT_CA"),
        Refusal::ExpectedPemCertificate => {
            return ErrorRow::with_cause(
                400,
                "EXPECTED_PEM_CERTIFICATE",
                "the certificate cannot be read",
                error,
            );
        }
        Refusal::CouldNotParseDerBlock => {
            return ErrorRow::with_cause(
                400,
                "COULD_NOT_PARSE_DER_BLOCK",
                "the certificate cannot be read",
                error,
            );
        }
        Refusal::InvalidCommonName => (400, "INVALID_COMMON_NAME"),
        Refusal::CannotUpdateRouter => (409, "CAN_NOT_UPDATE_ROUTER"),
        Refusal::RateLimited => (429, "RATE_LIMITED"),
        Refusal::TooLarge => (413, "REQUEST_ENTITY_TOO_LARGE"),
        Refusal::HeadTooLarge => (431, "REQUEST_HEADER_FIELDS_TOO_LARGE"),
        Refusal::TargetTooLong => (414, "URI_TOO_LONG"),
        Refusal::TooSlow => (408, "REQUEST_TIMEOUT"),
        Refusal::MethodNotAllowed => {
            return ErrorRow::with_cause(
                405,
                "METHOD_NOT_ALLOWED",
                "this controller does not know the request",
                error,
            );
        }
        Refusal::UnknownPath => {
            return ErrorRow::with_cause(
                404,
                "NOT_FOUND",
                "this controller does not know the request",
                error,
            );
        }
        Refusal::Timeout => (503, "TIMEOUT"),
    };
    ErrorRow::plain(status, code, error)
}

/// One entry of the list of broken rules.
pub(super) fn violation(error: &Error) -> RuleViolation {
    let of = |field: &str, reason: String, value: &str| {
        let value = Some(value)
            .filter(|value| !value.is_empty())
            .map(str::to_owned);
        RuleViolation {
            field: Some(field.into()),
            reason: shortened(&reason),
            value,
        }
    };
    match error {
        Error::Invalid {
            field,
            reason,
            value,
            ..
        } => of(field, reason.clone(), value),
        Error::Duplicate { field, value } => of(field, error.to_string(), value),
        Error::NotFound {
            field: Some(field),
            id,
            ..
        } => of(field, error.to_string(), id),
        other => RuleViolation {
            field: None,
            reason: shortened(&other.to_string()),
            value: None,
        },
    }
}

/// The maximum characters of a text.
const MAX_LENGTH: usize = 1000;

/// Shortens a text for people and removes PEM blocks.
pub(super) fn shortened(text: &str) -> String {
    let whole = match text.split_once("-----BEGIN ") {
        Some((before, _)) => format!("{before}(PEM)"),
        None => text.to_owned(),
    };
    if whole.chars().nth(MAX_LENGTH).is_some() {
        whole.chars().take(MAX_LENGTH).chain(['…']).collect()
    } else {
        whole
    }
}
