//! The token that an administrator gives to whoever is to enroll.

use std::fmt;

use pki::jwt::claims_of;
use serde::Deserialize;

use super::{error::EnrollmentError, method::EnrollmentMethod};
use crate::identity_file::address;

/// The greatest length of a token, in bytes. Those in use have about 1 KiB.
const MAX_LENGTH: usize = 64 << 10;

/// A token as it claims to be. The first connection proves who signed it.
#[derive(Clone)]
pub struct EnrollmentToken {
    text: String,
    controller: String,
    claims: Claims,
}

#[derive(Clone, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    #[serde(default)]
    jti: String,
    em: EnrollmentMethod,
    exp: Option<i64>,
}

impl EnrollmentToken {
    /// Reads the compact form of a token; white space around it has no meaning.
    ///
    /// # Errors
    /// [`EnrollmentError::Token`].
    pub fn read(text: &str) -> Result<Self, EnrollmentError> {
        let text = text.trim();
        if text.len() > MAX_LENGTH {
            let reason = "it is longer than 64 KiB".to_owned();
            return Err(EnrollmentError::Token(reason));
        }
        let claims: Claims =
            claims_of(text).map_err(|error| EnrollmentError::Token(error.to_string()))?;
        let controller = address(&claims.iss).ok_or_else(|| {
            EnrollmentError::Token("its issuer is not an address of https".to_owned())
        })?;
        Ok(Self {
            text: text.to_owned(),
            controller,
            claims,
        })
    }

    /// How it is redeemed.
    pub fn method(&self) -> EnrollmentMethod {
        self.claims.em
    }

    /// The address of the client interface of the controller that issued it.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The id of the identity, or of the authority, for which it was issued.
    pub fn subject(&self) -> &str {
        &self.claims.sub
    }

    /// Its compact form.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The secret that is redeemed.
    pub(super) fn id(&self) -> &str {
        &self.claims.jti
    }

    /// When it ends, in unix seconds.
    pub(super) fn end(&self) -> Option<i64> {
        self.claims.exp
    }
}

impl fmt::Debug for EnrollmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EnrollmentToken({} of {})",
            self.claims.em, self.controller
        )
    }
}
