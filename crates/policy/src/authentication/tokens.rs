//! Tokens (JWT) of external signers: as a primary credential, and as a second factor with every
//! request.

use std::{sync::Arc, time::Duration};

use model::{
    clock::Timestamp,
    config,
    entity::{ExternalJwtSigner, Id, Identity, LoginBasis, Record},
    error::{Error, Result},
    hidden_text,
};
use pki::{
    Certificate,
    jwt::{Claimed, Verifier},
};
use serde_json::{Map, Value as Json};
use store::{Read, Store};

use super::{Caller, key_sets::KeySets, login::Principal};

/// Checks tokens. Cheap to clone.
#[derive(Clone)]
pub struct Tokens {
    key_sets: KeySets,
    /// The maximum length of a token in bytes; longer ones are rejected unread.
    longest: usize,
    /// How far a signer's clock may be ahead of ours: many signers set `nbf` to the time of issue.
    ahead: Duration,
}

/// The identity that a valid token names, whether or not it exists, and the token's signer.
struct Named {
    identity: Id<Identity>,
    signer: Id<ExternalJwtSigner>,
}

impl Tokens {
    /// Checks tokens with these settings.
    pub fn new(settings: &config::TokenConfig, key_sets: config::KeySetConfig) -> Self {
        Self {
            key_sets: KeySets::new(key_sets),
            longest: settings.max_bytes,
            ahead: settings.ahead.duration(),
        }
    }

    /// Checks a token as the primary credential of a login.
    ///
    /// # Errors
    /// [`Error::InvalidAuth`] for a token that is not valid; [`Error::Busy`] if too many requests
    /// wait for the signer's keys.
    pub async fn login(&self, store: &Store, now: Timestamp, token: &str) -> Result<Principal> {
        let Named { identity, signer } = self
            .verify(store, now, token)
            .await?
            .ok_or(Error::InvalidAuth)?;
        Ok(Principal {
            identity,
            basis: LoginBasis::Token(signer),
            judged: None,
            certificate: None,
        })
    }

    /// Removes the caller's outstanding token query if `token` answers it: signed by the signer
    /// that the caller's policy requires, and naming the caller's own identity.
    ///
    /// # Errors
    /// The store cannot be read; [`Error::Busy`] as in [`Tokens::login`].
    pub async fn satisfy(
        &self,
        store: &Store,
        now: Timestamp,
        token: Option<&str>,
        caller: &mut Arc<Caller>,
    ) -> Result<()> {
        let Some(token) = token.filter(|_| caller.queries.iter().any(|query| query.is_token()))
        else {
            return Ok(());
        };
        let Some(named) = self.verify(store, now, token).await? else {
            return Ok(());
        };
        if caller.second_signer.as_ref() == Some(&named.signer)
            && named.identity == caller.identity.id
        {
            Arc::make_mut(caller)
                .queries
                .retain(|query| !query.is_token());
        }
        Ok(())
    }

    /// The identity that a valid token names: signed with the key it names by an enabled signer it
    /// names, within its dates, for our audience.
    async fn verify(&self, store: &Store, now: Timestamp, token: &str) -> Result<Option<Named>> {
        let Some(claimed) = Some(token)
            .filter(|token| token.len() <= self.longest)
            .and_then(|token| Claimed::read(token).ok())
        else {
            return Ok(None);
        };
        let found = store.read(|tx| tx.find_by::<ExternalJwtSigner>("issuer", &claimed.issuer))?;
        let Some(signer) = found.filter(|signer| signer.spec.enabled && !claimed.issuer.is_empty())
        else {
            return Ok(None);
        };
        let keys = self.keys(&signer, &claimed.key, now).await?;
        let Some(claims) = keys
            .iter()
            .find_map(|key| key.verify::<Map<String, Json>>(token).ok())
        else {
            return Ok(None);
        };
        match subject(&claims, &signer.spec, now, self.ahead) {
            Some(subject) => store.read(|tx| named(tx, subject, signer)),
            None => Ok(None),
        }
    }

    /// The signer's keys with the id that the token names.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many requests wait for the signer's keys.
    async fn keys(
        &self,
        signer: &Record<ExternalJwtSigner>,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Verifier>> {
        if let Some(endpoint) = &signer.spec.jwks_endpoint {
            return self.key_sets.find(signer, endpoint, id, now).await;
        }
        let own = signer
            .spec
            .kid
            .as_deref()
            .or(signer.state.fingerprint.as_deref());
        let pem = signer.spec.cert_pem.as_deref().filter(|_| own == Some(id));
        let key = pem.and_then(|pem| {
            Certificate::only(pem)
                .and_then(|certificate| Verifier::new(certificate.public_key()))
                .ok()
        });
        Ok(key.into_iter().collect())
    }
}

/// The subject of a verified token, if its dates and audience are valid (RFC 7519, section 4.1).
/// `exp` is required.
fn subject<'c>(
    claims: &'c Map<String, Json>,
    signer: &ExternalJwtSigner,
    now: Timestamp,
    ahead: Duration,
) -> Option<&'c str> {
    let date = |name: &str| claims.get(name).map(|date| date.as_f64().ok_or(()));
    let now = now.seconds() as f64;
    let begun =
        date("nbf").is_none_or(|date| date.is_ok_and(|date| date <= now + ahead.as_secs_f64()));
    // A token without `exp` would never expire, even if it is stolen.
    let over = date("exp").is_none_or(|date| date.is_ok_and(|date| date <= now) || date.is_err());
    let for_us = match claims.get("aud") {
        Some(Json::String(audience)) => *audience == signer.audience,
        Some(Json::Array(several)) => several
            .iter()
            .any(|audience| audience.as_str() == Some(&signer.audience)),
        _ => false,
    };
    let subject = claims.get(&signer.claims_property).and_then(Json::as_str);
    subject.filter(|subject| {
        begun && !over && for_us && !subject.is_empty() && !hidden_text::is_in(subject)
    })
}

/// The identity that the claim names.
fn named(tx: &Read<'_>, subject: &str, signer: Record<ExternalJwtSigner>) -> Result<Option<Named>> {
    let by_id = || Some(Id::from_text(subject));
    let identity = if signer.spec.use_external_id {
        tx.find_id_by::<Identity>("externalId", subject)?
    } else {
        by_id()
    };
    Ok(identity.map(|identity| Named {
        identity,
        signer: signer.id,
    }))
}
