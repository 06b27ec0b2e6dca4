//! Errors about keys, requests and certificates.

use std::borrow::Cow;

pub type Result<T> = std::result::Result<T, Error>;

/// One variant per error that callers may answer differently. The texts contain no secrets and no
/// input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text has no complete PEM block.
    #[error("no PEM block")]
    NoPem,
    /// A file without a private key.
    #[error("no private key")]
    NoKey,
    /// A PEM block with another label than required.
    #[error("the PEM block must be a CERTIFICATE")]
    WrongBlock,
    /// Text other than white space between or after PEM blocks, or more blocks than allowed.
    #[error("unexpected text or PEM blocks")]
    Trailing,
    /// Not the required DER structure, or trailing bytes.
    #[error("not the expected DER structure")]
    BadDer,
    /// A certificate request that can be read but is rejected.
    #[error("certificate request rejected: {0}")]
    Csr(&'static str),
    /// An unsupported kind of key, signature algorithm or other part, by name.
    #[error("unsupported: {0}")]
    Unsupported(Cow<'static, str>),
    /// The issuer of a certificate is not the subject of the other one.
    #[error("issued by another authority")]
    OtherIssuer,
    /// A signature that does not verify.
    #[error("the signature does not verify")]
    BadSignature,
    /// No chain from the certificate to a trusted authority.
    #[error("not signed by a trusted authority")]
    Untrusted,
    /// Expired or not valid yet.
    #[error("expired or not valid yet")]
    Expired,
    /// The extended key usage does not allow the use.
    #[error("the extended key usage does not allow this use")]
    WrongUsage,
    /// The certificate must be an authority and is not one.
    #[error("not a certificate authority")]
    NotACa,
    /// The private key does not belong to the certificate.
    #[error("the key does not belong to the certificate")]
    KeyMismatch,
    /// An unusable private key: not unencrypted PKCS#8, or damaged.
    #[error("unusable private key")]
    BadKey,
    /// A name that cannot be in a certificate.
    #[error("a name is not allowed in a certificate")]
    BadName,
    /// A token that is malformed, expired, or not signed by the key.
    #[error("token rejected: {0}")]
    Token(String),
    /// A certificate or TLS configuration could not be made, and the caller is not to blame.
    #[error("internal: {0}")]
    Internal(String),
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
