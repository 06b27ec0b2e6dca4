//! What can be wrong with keys, requests and certificates.

pub type Result<T> = std::result::Result<T, Error>;

/// One variant per thing a caller may want to answer differently. The texts name no secret and repeat no input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text holds no complete PEM block.
    #[error("no PEM block")]
    NoPem,
    /// A PEM block of another kind than asked for.
    #[error("a PEM block CERTIFICATE was expected")]
    WrongBlock,
    /// More than white space between PEM blocks or behind the last one, or more blocks than asked for.
    #[error("something besides the expected PEM blocks")]
    Trailing,
    /// Not the DER structure it should be, or bytes behind it.
    #[error("not the expected DER structure")]
    BadDer,
    /// A certificate request that is readable but refused.
    #[error("certificate request refused: {0}")]
    Csr(&'static str),
    /// A key kind or signature algorithm that this controller does not work with.
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
    /// A signature that does not verify.
    #[error("the signature does not verify")]
    BadSignature,
    /// No way from the certificate to one of the trusted authorities.
    #[error("not signed by a trusted authority")]
    Untrusted,
    /// Outside of its dates: expired, or not valid yet.
    #[error("outside of its validity")]
    Expired,
    /// The extended key usage does not allow what the certificate is presented for.
    #[error("not meant for this use")]
    WrongUsage,
    /// An authority was expected, the certificate is not one.
    #[error("not a certificate authority")]
    NotACa,
    /// The private key belongs to another certificate.
    #[error("key and certificate do not belong together")]
    KeyMismatch,
    /// A private key that cannot be used: not unencrypted PKCS#8, or damaged.
    #[error("unusable private key")]
    BadKey,
    /// A name that cannot stand in a certificate.
    #[error("a name cannot be written into a certificate")]
    BadName,
    /// A token that is malformed, expired, or not signed by the key.
    #[error("token refused: {0}")]
    Token(String),
    /// Making a certificate or a TLS configuration failed for a reason that is not the caller's.
    #[error("internal: {0}")]
    Internal(String),
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
