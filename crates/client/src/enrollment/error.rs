//! Why an enrollment fails.

use super::method::EnrollmentMethod;
use crate::identity_file::IdentityFileError;

/// Why an enrollment failed.
#[derive(Debug, thiserror::Error)]
pub enum EnrollmentError {
    #[error("the token cannot be read: {0}")]
    Token(String),
    #[error("the token has ended {0} seconds ago by the clock of this machine: ask for a new one")]
    Ended(i64),
    #[error("the token is for method {0}, which needs {1}")]
    Credential(EnrollmentMethod, &'static str),
    #[error("{controller}: the server did not sign the token, or does not answer: {reason}")]
    Unproven { controller: String, reason: String },
    #[error("{controller}: {reason}")]
    NoAnswer { controller: String, reason: String },
    #[error("{controller} refused: {reason}")]
    Refused {
        controller: String,
        /// The code of the controller's error, in capitals; empty if it gave none.
        code: String,
        reason: String,
    },
    #[error("{controller}: the answer cannot be used: {reason}")]
    Answer { controller: String, reason: String },
    #[error(transparent)]
    File(#[from] IdentityFileError),
    #[error(transparent)]
    Pki(#[from] pki::Error),
}
