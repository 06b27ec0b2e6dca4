//! The validity of certificates, and their serial numbers.

use super::{Certificate, Error, Result};
use rcgen::SerialNumber;
use ring::rand::{SecureRandom, SystemRandom};
use time::OffsetDateTime;

const YEAR: i64 = 365 * 24 * 60 * 60;
const SESSION: i64 = 12 * 60 * 60;
/// Issued certificates are valid from this many seconds before now, for clocks that are slow.
pub const BACKDATE: i64 = 60;

/// The first and last second in which a certificate is valid, in unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

impl Validity {
    /// From a minute ago for `years` years of 365 days.
    pub fn years(years: u16, now: i64) -> Self {
        Self {
            not_before: now - BACKDATE,
            not_after: now + i64::from(years) * YEAR,
        }
    }

    /// The same, but not beyond the end of the signing authority, after which nobody can verify the
    /// certificate.
    pub(super) fn within(self, authority: &Certificate) -> Self {
        Self {
            not_after: self.not_after.min(authority.not_after()),
            ..self
        }
    }

    /// From now for exactly 12 hours.
    pub fn session(now: i64) -> Self {
        Self {
            not_before: now,
            not_after: now + SESSION,
        }
    }
}

/// 128 random bits, positive. rcgen's default is a hash of the key, which is the same for every
/// certificate of that key.
pub(super) fn serial() -> Result<SerialNumber> {
    let mut bytes = [0; 17];
    let [_, random @ ..] = &mut bytes;
    SystemRandom::new()
        .fill(random)
        .map_err(|_| Error::Internal("no randomness".into()))?;
    Ok(SerialNumber::from_slice(&bytes))
}

pub(super) fn date(seconds: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|_| Error::Internal("a date out of range".into()))
}
