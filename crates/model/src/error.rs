//! The errors of the domain. `rest/src/error_row.rs` maps them to the wire.
//!
//! Not here: status codes, envelopes, log lines. Start reading at [`Error`]. Invariant: no variant
//! carries a secret.

use std::collections::BTreeMap;

/// The result of every function that can fail for a reason a caller may see.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The maximum number of broken rules reported per request.
const LIMIT: usize = 20;

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No record of this kind has this id. `field` names the member of a body that held the id, if
    /// one did.
    #[error("{kind} with id {id} not found")]
    NotFound {
        kind: &'static str,
        id: String,
        field: Option<String>,
    },
    /// A member of a body, a query parameter or a header breaks a rule.
    #[error("{field}: {reason}")]
    Invalid {
        field: String,
        reason: String,
        value: String,
        /// Whether the rule is that the member must be there.
        is_missing: bool,
    },
    /// A value that must be unique is taken.
    #[error("{field} must be unique")]
    Duplicate { field: String, value: String },
    /// Several rules that one request breaks: at least two errors, none of them `Several`. An
    /// answer with room for only one error shows the first.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    /// The request lacks something that cannot be attributed to a single member.
    #[error("{0}")]
    Incomplete(String),
    /// A body that is not JSON or holds a member of the wrong JSON type.
    #[error("{0}")]
    Unparseable(String),
    /// A `filter` that is malformed or does not fit the kind.
    #[error("{0}")]
    Filter(String),
    /// A `sort` that is malformed or does not fit the kind.
    #[error("{0}")]
    Sort(String),
    /// The record cannot be deleted while other records refer to it; `by` lists their ids.
    #[error("{field}: referenced by {by:?}")]
    Referenced {
        field: &'static str,
        by: Vec<String>,
    },
    /// A request names something that does not exist or conflicts with the rest of the request.
    #[error("{0}")]
    BadReference(String),
    /// The record belongs to the system and cannot be deleted.
    #[error("{0}")]
    NotDeletable(String),
    /// The record belongs to the system and cannot be changed.
    #[error("{0}")]
    NotUpdatable(String),
    /// `If-Match` names another version than the stored one (RFC 9110 section 13.1.1).
    #[error("the record has changed since it was read")]
    Changed,
    /// No valid session, or one without the permission. `anonymous`: no token was sent at all.
    #[error("no session, or not permitted")]
    Unauthorized { anonymous: bool },
    /// The credentials were rejected. The error deliberately does not give the reason.
    #[error("authentication failed")]
    InvalidAuth,
    /// The certificate with this fingerprint already belongs to an authenticator.
    #[error("the certificate is in use")]
    CertificateInUse { fingerprint: String },
    /// Every policy that grants the right has a failing posture check. Maps a policy's id to its
    /// failing checks.
    #[error("every policy that grants this right has a failing posture check")]
    InvalidPosture(BTreeMap<String, Vec<FailedCheck>>),
    /// The certificate that should prove the possession of an authority's key does not. The text is
    /// half a sentence.
    #[error("{0}")]
    ProofRefused(String),
    /// A rejection that has its own code on the wire.
    #[error("{0}")]
    Refused(Refusal),
    /// A bounded queue is full. The caller may retry after `retry_after` seconds.
    #[error("too many requests")]
    Busy { retry_after: u32 },
    /// A stored record cannot be read: its checksum or its bytes are wrong.
    #[error("the stored {kind} {id} is damaged: {reason}")]
    Damaged {
        kind: &'static str,
        id: String,
        reason: String,
    },
    /// The file cannot be read or written at the moment.
    #[error("storage: {0}")]
    Storage(String),
    /// A defect of this program. The text goes to the log only.
    #[error("{0}")]
    Internal(String),
}

/// A failing posture check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub id: String,
    /// The wire name of what the check demands, for example `OS`.
    pub type_id: &'static str,
}

/// Rejections with their own wire code; the text is the message for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the enrollment token is unknown or used up")]
    InvalidEnrollmentToken,
    #[error("the enrollment has expired")]
    EnrollmentExpired,
    #[error("an enrollment of this method is outstanding already")]
    EnrollmentExists { method: &'static str },
    #[error("the certificate request cannot be processed")]
    CouldNotProcessCsr,
    #[error("the certificate request does not have the router's id as its common name")]
    RouterCommonName,
    #[error("the router's certificate request cannot be processed")]
    RouterCsr,
    #[error("a certificate request is missing or not usable")]
    MissingOrInvalidCsr,
    #[error("this operation does not accept the content type")]
    InvalidContentType,
    #[error("no edge router is available to the identity and the service")]
    NoEdgeRoutersAvailable,
    #[error("the text must hold exactly one PEM certificate")]
    CouldNotParsePemBlock,
    #[error("the identity has an authenticator of this method already")]
    MaxAuthenticatorMethodsReached,
    #[error("one PEM certificate is expected")]
    InvalidCertPem,
    #[error("one-time codes (TOTP) are already set up for the identity")]
    MfaExists,
    #[error("one-time codes (TOTP) are not set up for the identity")]
    MfaNotEnrolled,
    #[error("the code is wrong, or was used")]
    MfaInvalidToken,
    #[error("this change is not possible for an authenticator of this kind or in this state")]
    CannotUpdateAuthenticator,
    #[error("the current password is wrong")]
    WrongCurrentPassword,
    #[error("the certificate is not the extended certificate that awaits confirmation")]
    InvalidClientCert,
    #[error(
        "the connection presented no client certificate that the certificate authority issued and that is valid now"
    )]
    CertFailedValidation,
    #[error(
        "the certificate authority is not verified, or is not enabled for this enrollment method"
    )]
    EnrollmentCaNotValid,
    #[error("this controller has no third-party certificate authority to enroll with")]
    EnrollmentNoValidCas,
    #[error("the certificate lacks the external id that its certificate authority requires")]
    MissingCertClaim,
    #[error("the certificate authority is verified already")]
    CaAlreadyVerified,
    #[error("the certificate is not a CA certificate")]
    CertificateIsNotCa,
    #[error("the text holds a PEM block that is not a certificate")]
    ExpectedPemCertificate,
    #[error("the PEM block holds no readable certificate")]
    CouldNotParseDerBlock,
    #[error("the common name is not the verification token")]
    InvalidCommonName,
    #[error("an edge router can only be changed under /edge-routers")]
    CannotUpdateRouter,
    #[error(
        "a database operation is running, or one was started less than a minute ago; try again later"
    )]
    RateLimited,
    #[error("the body is larger than the limit of this operation")]
    TooLarge,
    #[error("the path and the headers are larger than the limit")]
    HeadTooLarge,
    #[error("the URL is longer than this controller accepts")]
    TargetTooLong,
    #[error("the body did not arrive within the time limit")]
    TooSlow,
    #[error("the path does not allow this method")]
    MethodNotAllowed,
    #[error("no such path")]
    UnknownPath,
    #[error("the request exceeded the time limit")]
    Timeout,
}

impl Error {
    /// A rule that the member `field` breaks. `value` is shown to the sender, so it must not be a
    /// secret.
    pub fn invalid(
        field: impl Into<String>,
        reason: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            field: field.into(),
            reason: reason.into(),
            value: value.into(),
            is_missing: false,
        }
    }

    /// A required member `field` is not there. `value` is what stands for it: nothing, or an empty
    /// list.
    pub fn missing(
        field: impl Into<String>,
        reason: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            field: field.into(),
            reason: reason.into(),
            value: value.into(),
            is_missing: true,
        }
    }

    /// Collects the failures of several checks of one request. A failure of storage or of this
    /// program is returned at once and alone.
    ///
    /// # Errors
    /// The error of the only failing check, or [`Error::Several`] in the order of the checks.
    pub fn all(checks: impl IntoIterator<Item = Result<()>>) -> Result<()> {
        let mut refused = Vec::new();
        for check in checks {
            match check {
                Ok(()) => {}
                Err(Self::Several(more)) => refused.extend(more),
                Err(fault @ (Self::Storage(_) | Self::Damaged { .. } | Self::Internal(_))) => {
                    return Err(fault);
                }
                Err(other) => refused.push(other),
            }
        }
        Self::several(refused).map_or(Ok(()), Err)
    }

    /// Joins errors into one; `None` if there is none. Only the first [`LIMIT`] are kept.
    pub fn several(mut errors: Vec<Self>) -> Option<Self> {
        errors.truncate(LIMIT);
        if errors.len() > 1 {
            Some(Self::Several(errors))
        } else {
            errors.pop()
        }
    }

    /// The same error, attributed to a member of the request instead of the path.
    #[must_use]
    pub(crate) fn in_field(self, name: &str) -> Self {
        match self {
            Self::NotFound { kind, id, .. } => Self::NotFound {
                kind,
                id,
                field: Some(name.into()),
            },
            other => other,
        }
    }
}
