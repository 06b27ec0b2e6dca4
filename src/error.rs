//! What can go wrong, in the words of the domain. How an error looks on the wire is decided once, in `http/error.rs`.
//!
//! Not here: status codes, envelopes, log lines. Start reading at [`Error`]. Invariant: no variant carries a secret.

use std::collections::BTreeMap;

/// The result of everything that can fail for a reason a caller may see.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// So many rules that a request breaks are told at most.
const MOST: usize = 20;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No record of this kind has this id. `field` names the member of a body that held the id, if one did.
    #[error("{kind} with id {id} not found")]
    NotFound { kind: &'static str, id: String, field: Option<String> },
    /// A member of a body, a query parameter or a header breaks a rule.
    #[error("{field}: {reason}")]
    Invalid { field: String, reason: String, value: String },
    /// A value that must be unique is taken.
    #[error("{field} must be unique")]
    Duplicate { field: String, value: String },
    /// Several rules that one request breaks: at least two, none of them `Several`, and first the one that counts where only one can be told.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    /// Something that the request must say is missing, and no single member is to blame.
    #[error("{0}")]
    Incomplete(String),
    /// A body that is no JSON or holds a member of the wrong JSON type.
    #[error("{0}")]
    Unparseable(String),
    /// A `filter` that cannot be read or does not fit the kind.
    #[error("{0}")]
    Filter(String),
    /// A `sort` that cannot be read or does not fit the kind.
    #[error("{0}")]
    Sort(String),
    /// The record cannot be deleted while others refer to it; `by` are ids of those.
    #[error("{field}: referenced by {by:?}")]
    Referenced { field: &'static str, by: Vec<String> },
    /// A request names something that does not exist or does not go together with the rest of it.
    #[error("{0}")]
    BadReference(String),
    /// The record belongs to the system and cannot be deleted.
    #[error("{0}")]
    NotDeletable(String),
    /// The record belongs to the system and cannot be changed.
    #[error("{0}")]
    NotUpdatable(String),
    /// The record is not the one that the sender knows (RFC 9110 section 13.1.1).
    #[error("the record has changed since it was read")]
    Changed,
    /// No valid session, or one without the permission. `anonymous`: no token was sent at all.
    #[error("no session, or not permitted")]
    Unauthorized { anonymous: bool },
    /// The credentials were refused; deliberately without a reason.
    #[error("authentication failed")]
    InvalidAuth,
    /// The certificate with this fingerprint belongs to somebody already.
    #[error("the certificate is in use")]
    CertificateInUse { fingerprint: String },
    /// No policy that grants the right has all its posture checks passed. By policy: the checks that fail.
    #[error("the posture checks of no policy that grants this pass")]
    InvalidPosture(BTreeMap<String, Vec<FailedCheck>>),
    /// A refusal that has a name of its own on the wire.
    #[error("{0}")]
    Refused(Refusal),
    /// A bounded queue is full. Worth another try after some seconds.
    #[error("too many requests")]
    Busy { retry_after: u32 },
    /// A stored record cannot be read: its checksum or its bytes are wrong.
    #[error("the stored {kind} {id} is damaged: {reason}")]
    Damaged { kind: &'static str, id: String, reason: String },
    /// The file cannot be read or written at the moment.
    #[error("storage: {0}")]
    Storage(String),
    /// A defect of ours. The text goes to the log only.
    #[error("{0}")]
    Internal(String),
}

/// A posture check that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub id: String,
    /// What kind of thing it demands.
    pub type_id: &'static str,
}

/// Refusals with a wire code of their own; the text is what a person reads.
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
    #[error("the certificate request is not in the name of the router's id")]
    RouterCommonName,
    #[error("the router's certificate request cannot be processed")]
    RouterCsr,
    #[error("a certificate request is missing or not usable")]
    MissingOrInvalidCsr,
    #[error("the content type is not one this operation takes")]
    InvalidContentType,
    #[error("no edge router is available to the identity and the service")]
    NoEdgeRoutersAvailable,
    #[error("the text holds no PEM certificate, or more than one")]
    CouldNotParsePemBlock,
    #[error("the identity has an authenticator of this method already")]
    MaxAuthenticatorMethodsReached,
    #[error("one PEM certificate is expected")]
    InvalidCertPem,
    #[error("the identity has one-time codes already")]
    MfaExists,
    #[error("the identity has no one-time codes")]
    MfaNotEnrolled,
    #[error("the code is wrong, or was used")]
    MfaInvalidToken,
    #[error("an authenticator of this kind, or in this state, cannot be changed so")]
    CannotUpdateAuthenticator,
    #[error("the current password is not the one given")]
    WrongCurrentPassword,
    #[error("the certificate is not the one that waits to be confirmed")]
    InvalidClientCert,
    #[error("no certificate was presented that the certificate authority issued for clients and that is valid now")]
    CertFailedValidation,
    #[error("the certificate authority is not verified, or does not take part in this kind of enrollment")]
    EnrollmentCaNotValid,
    #[error("there is no certificate authority to enroll with")]
    EnrollmentNoValidCas,
    #[error("the certificate does not say who it is for where its authority wants it said")]
    MissingCertClaim,
    #[error("the certificate authority is verified already")]
    CaAlreadyVerified,
    #[error("the certificate is not one of a certificate authority")]
    CertificateIsNotCa,
    #[error("the text holds a PEM block of something else than a certificate")]
    ExpectedPemCertificate,
    #[error("the PEM block holds no readable certificate")]
    CouldNotParseDerBlock,
    #[error("the common name is not the verification token")]
    InvalidCommonName,
    #[error("the certificate does not verify with that of the certificate authority")]
    CertificateFailedValidation,
    #[error("an edge router is changed among the edge routers")]
    CannotUpdateRouter,
    #[error("the database is at work already, or was a moment ago")]
    RateLimited,
    #[error("the body is larger than this controller takes here")]
    TooLarge,
    #[error("the path and the headers are larger than this controller takes")]
    HeadTooLarge,
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error("no such method on this path")]
    MethodNotAllowed,
    #[error("no such path")]
    UnknownPath,
    #[error("the request took too long")]
    Timeout,
}

impl Error {
    /// A rule that the member `field` breaks; `value` is shown to the sender, so it must not be a secret.
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into(), value: value.into() }
    }

    /// What several checks of one request refuse together. A fault of ours or of the file is told at once and alone.
    ///
    /// # Errors
    /// That of a check that fails alone; [`Error::Several`], in the order of the checks, if more than one does.
    pub fn all(checks: impl IntoIterator<Item = Result<()>>) -> Result<()> {
        let mut refused = Vec::new();
        for check in checks {
            match check {
                Ok(()) => {}
                Err(Self::Several(more)) => refused.extend(more),
                Err(fault @ (Self::Storage(_) | Self::Damaged { .. } | Self::Internal(_))) => return Err(fault),
                Err(other) => refused.push(other),
            }
        }
        Self::several(refused).map_or(Ok(()), Err)
    }

    /// These errors as one; nothing if there is none. Of very many only the first are told.
    pub fn several(mut errors: Vec<Self>) -> Option<Self> {
        errors.truncate(MOST);
        if errors.len() > 1 { Some(Self::Several(errors)) } else { errors.pop() }
    }

    /// The same error, said of a member of the request instead of the path.
    #[must_use]
    pub fn in_field(self, name: &str) -> Self {
        match self {
            Self::NotFound { kind, id, .. } => Self::NotFound { kind, id, field: Some(name.into()) },
            other => other,
        }
    }
}
