//! One-time codes (TOTP, RFC 6238) and recovery codes: creation, sealed storage, checks.

use std::{net::IpAddr, sync::Arc};

use model::{
    clock::Timestamp,
    config,
    entity::{
        Id, Identity, Mfa, Record,
        mfa::{CodePurpose, UsedCode},
    },
    error::{Error, Refusal, Result},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pki::{self, Seal};
use serde::{Deserialize, Serialize};
use totp_rs::{Builder, Secret, Totp};

use super::{
    code_attempt::Attempt,
    code_failures::{CorrectCode, WrongCodes},
};

/// The issuer that an authenticator app shows.
const ISSUER: &str = "openziti.io";
/// Length of the shared secret (RFC 4226 section 4 recommends 160 bits).
const SECRET_BYTES: usize = 20;
const RECOVERY_CODES: usize = 20;
const RECOVERY_CODE_LENGTH: usize = 6;
/// The alphabet of recovery codes (RFC 4648 section 6).
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// A code is accepted this many steps before and after its own.
const SKEW: u16 = 2;

/// The content of [`Mfa`]'s sealed bytes, as JSON.
#[derive(Serialize, Deserialize)]
struct Secrets {
    secret: Vec<u8>,
    recovery_codes: Vec<String>,
}

/// What an accepted code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedCode {
    /// The one-time code of this step (30-second steps since 1970).
    Step(u64),
    /// The recovery code at this index of the list.
    Recovery(usize),
}

/// Creates and judges codes. Cheap to clone.
#[derive(Clone)]
pub struct Codes {
    seal: Arc<Seal>,
    wrong: Arc<WrongCodes>,
}

impl Codes {
    /// Codes sealed with `seal`, a key of this controller; `limits` bounds wrong codes.
    pub fn new(seal: Seal, limits: &config::CodeConfig) -> Self {
        Self {
            seal: Arc::new(seal),
            wrong: Arc::new(WrongCodes::new(limits)),
        }
    }

    /// A second factor for an identity: new secret and recovery codes, not verified.
    ///
    /// # Errors
    /// The random number generator fails.
    pub fn create(&self, identity: &Id<Identity>) -> Result<Mfa> {
        let secrets = Secrets {
            secret: pki::random::<SECRET_BYTES>().map_err(internal)?.to_vec(),
            recovery_codes: recovery_codes()?,
        };
        Ok(Mfa {
            identity_id: identity.clone(),
            sealed: self.sealed(identity, &secrets)?,
            is_verified: false,
        })
    }

    /// Replaces the recovery codes.
    ///
    /// # Errors
    /// The random number generator fails, or the record was sealed with another key.
    pub fn renew(&self, mfa: &mut Mfa) -> Result<()> {
        let secrets = Secrets {
            recovery_codes: recovery_codes()?,
            ..self.opened(mfa)?
        };
        mfa.sealed = self.sealed(&mfa.identity_id, &secrets)?;
        Ok(())
    }

    /// The recovery codes.
    ///
    /// # Errors
    /// The record was sealed with another key.
    pub fn recovery_codes(&self, mfa: &Mfa) -> Result<Vec<String>> {
        self.opened(mfa).map(|secrets| secrets.recovery_codes)
    }

    /// The URL that an authenticator app reads: issuer, name and secret.
    ///
    /// # Errors
    /// The record was sealed with another key.
    pub fn provisioning_url(&self, mfa: &Mfa, name: &str) -> Result<String> {
        let secret = Secret::from(self.opened(mfa)?.secret).to_base32();
        Ok(format!(
            "otpauth://totp/{ISSUER}:{}?issuer={ISSUER}&secret={secret}",
            escaped(name)
        ))
    }

    /// Judges a code and records its use. A one-time code is accepted only as far as its step was
    /// not used for another purpose ([`CodePurpose::may_use`]); an accepted recovery code is
    /// removed.
    ///
    /// # Errors
    /// [`Refusal::MfaInvalidToken`]; [`Error::Busy`] after too many of those.
    pub fn verify(
        &self,
        record: &mut Record<Mfa>,
        attempt: &Attempt,
        purpose: CodePurpose,
        now: Timestamp,
    ) -> Result<AcceptedCode> {
        let Attempt { code, session, .. } = attempt;
        let wrong = Error::Refused(Refusal::MfaInvalidToken);
        if code.is_empty() {
            return Err(wrong);
        }
        let mut secrets = self.opened(&record.spec)?;
        let totp = totp(&secrets)?;
        let identity = record.spec.identity_id.clone();
        let known = recent(std::mem::take(&mut record.state.used), now);
        let proof = self.wrong.check(identity.as_str(), attempt, now, || {
            if let Some(step) = totp.check(code, now.seconds().unsigned_abs()) {
                let used: Vec<&UsedCode> = known.iter().filter(|used| used.step == step).collect();
                let code = CorrectCode {
                    proof: AcceptedCode::Step(step),
                    is_first: used.is_empty(),
                    step: Some(step),
                };
                return Ok(purpose.may_use(session, &used).then_some(code));
            }
            let is_taken = matches!(
                purpose,
                CodePurpose::Enter | CodePurpose::Renew | CodePurpose::Remove
            );
            let place = || {
                secrets
                    .recovery_codes
                    .iter()
                    .position(|known| same(known, code))
            };
            let recovery = |at| CorrectCode {
                proof: AcceptedCode::Recovery(at),
                is_first: true,
                step: None,
            };
            Ok(if is_taken {
                place().map(recovery)
            } else {
                None
            })
        })?;
        record.state.used = known;
        match proof {
            Some(AcceptedCode::Step(step)) => record.state.used.push(UsedCode {
                step,
                session: session.clone(),
                purpose,
            }),
            Some(AcceptedCode::Recovery(at)) => {
                secrets.recovery_codes.remove(at);
                record.spec.sealed = self.sealed(&identity, &secrets)?;
            }
            None => {}
        }
        proof.ok_or(wrong)
    }

    /// Rejects an attempt beyond the limit before any work is done for it.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn admit(&self, identity: &Id<Identity>, attempt: &Attempt, now: Timestamp) -> Result<()> {
        self.wrong.admit(identity.as_str(), attempt, now)
    }

    /// Notes that an identity has shown a certificate from an address. Attempts from there have an
    /// allowance of their own.
    pub fn know(&self, identity: &Id<Identity>, address: Option<IpAddr>, now: Timestamp) {
        self.wrong.know(identity.as_str(), address, now);
    }

    /// Forgets the wrong codes of an identity.
    pub fn forgive(&self, identity: &Id<Identity>) {
        self.wrong.forget(identity.as_str());
    }

    fn sealed(&self, identity: &Id<Identity>, secrets: &Secrets) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(secrets)
            .map_err(|e| Error::Internal(format!("secrets as text: {e}")))?;
        self.seal.seal(&context(identity), &text).map_err(internal)
    }

    fn opened(&self, mfa: &Mfa) -> Result<Secrets> {
        let damaged = || Error::Damaged {
            kind: "mfa",
            id: mfa.identity_id.to_string(),
            reason: "it was sealed with another key, or its bytes are damaged".into(),
        };
        let text = self
            .seal
            .open(&context(&mfa.identity_id), &mfa.sealed)
            .map_err(|_| damaged())?;
        serde_json::from_slice(&text).map_err(|_| damaged())
    }
}

/// The uses of codes that are still within the accepted steps.
pub fn recent(used: Vec<UsedCode>, now: Timestamp) -> Vec<UsedCode> {
    let oldest = (now.seconds().unsigned_abs() / 30).saturating_sub(u64::from(SKEW));
    used.into_iter()
        .filter(|used| used.step >= oldest)
        .collect()
}

fn context(identity: &Id<Identity>) -> String {
    format!("mfa {identity}")
}

fn totp(secrets: &Secrets) -> Result<Totp> {
    let built = Builder::new()
        .with_secret(Secret::from(secrets.secret.clone()))
        .with_skew(SKEW)
        .build();
    built.map_err(|e| Error::Internal(format!("a secret for one-time codes: {e}")))
}

fn recovery_codes() -> Result<Vec<String>> {
    let mut codes = Vec::with_capacity(RECOVERY_CODES);
    while codes.len() < RECOVERY_CODES {
        let random = pki::random::<RECOVERY_CODE_LENGTH>().map_err(internal)?;
        let code: String = random
            .iter()
            .filter_map(|byte| LETTERS.get(usize::from(byte % 32)))
            .map(|letter| char::from(*letter))
            .collect();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    Ok(codes)
}

/// Compares two texts in constant time.
fn same(known: &str, given: &str) -> bool {
    Secret::from(known.as_bytes()) == Secret::from(given.as_bytes())
}

fn internal(error: pki::Error) -> Error {
    Error::Internal(error.to_string())
}

/// Percent-encodes a text for the path of a URL: every byte but letters, digits and `-._~` (RFC
/// 3986, section 2.1).
fn escaped(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}
