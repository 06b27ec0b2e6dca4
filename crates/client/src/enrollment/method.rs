//! The ways to enroll.

use std::fmt;

use serde::Deserialize;

/// How a token is redeemed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnrollmentMethod {
    /// Once, for a certificate.
    Ott,
    /// Once, with a certificate of a known authority.
    OttCa,
    /// By anybody with a certificate of a known authority.
    Ca,
    /// Once, for a password.
    Updb,
    /// By anybody: it tells the address and the authorities only.
    Network,
}

impl EnrollmentMethod {
    /// Its name in tokens and requests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ott => "ott",
            Self::OttCa => "ottca",
            Self::Ca => "ca",
            Self::Updb => "updb",
            Self::Network => "network",
        }
    }
}

impl fmt::Display for EnrollmentMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
