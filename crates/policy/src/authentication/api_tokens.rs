//! API tokens in use: maps secrets to callers. Only the hash of a secret is stored.

use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use model::{
    clock::Timestamp,
    entity::{ApiSession, ApiToken, Entity, Id, Identity, Kind, Record, TypedLookup},
    error::{Error, Result},
};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use store::{Cache, DependencyRecorder, OpenStore, Store};
use zeroize::Zeroizing;

use super::Caller;

/// The beginning of every secret, by which scanners for leaked secrets recognize one.
const PREFIX: &str = "ovk_";
/// The length of a secret: the prefix and 32 random bytes.
const LENGTH: usize = PREFIX.len() + 43;
/// The size of the cache of callers, of about 2 KB each.
const CALLERS: usize = 2_000;
/// The kinds of which a caller is made.
const MADE_OF: &[Kind] = &[ApiToken::KIND, Identity::KIND];

/// Resolves API tokens. Cheap to clone.
#[derive(Clone)]
pub struct ApiTokens {
    /// Cached callers by the hash of the secret.
    callers: Cache<Caller>,
}

impl ApiTokens {
    /// Resolves the API tokens of a store.
    pub fn following(store: &OpenStore) -> Self {
        Self {
            callers: Cache::following(store, |kind| MADE_OF.contains(&kind), CALLERS),
        }
    }

    /// Whether a text has the form of a secret, whether or not a token has it.
    pub fn is_one(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// A new secret.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn secret() -> Result<Zeroizing<String>> {
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new()
            .fill(&mut *bytes)
            .map_err(|_| Error::Internal("the system gives no random bytes".into()))?;
        Ok(Zeroizing::new(format!(
            "{PREFIX}{}",
            BASE64URL_NOPAD.encode(&*bytes)
        )))
    }

    /// The hash of a secret, as stored.
    pub fn hash(secret: &str) -> String {
        HEXLOWER.encode(digest(&SHA256, secret.as_bytes()).as_ref())
    }

    /// The caller of a secret, if its token has not ended and its identity is not disabled.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn resolve(
        &self,
        store: &Store,
        secret: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<Caller>>> {
        if secret.len() != LENGTH {
            return Ok(None);
        }
        let hash = Self::hash(secret);
        let known = self.callers.find(&hash);
        let known = if known.is_some() {
            known
        } else {
            self.look_up(store, &hash, secret)?
        };
        let good = |caller: &Caller| {
            !caller.identity.state.is_disabled(now)
                && caller
                    .token
                    .as_ref()
                    .is_some_and(|token| !token.spec.is_over(now))
        };
        Ok(known.filter(|caller| good(caller)))
    }

    fn look_up(&self, store: &Store, hash: &str, secret: &str) -> Result<Option<Arc<Caller>>> {
        let at = self.callers.now();
        store.read(|tx| {
            let lookup = DependencyRecorder::new(tx);
            let Some(token) = lookup.linked::<ApiToken>("hash", hash)?.pop() else {
                return Ok(None);
            };
            let Some(identity) = lookup.find(&token.spec.identity_id)? else {
                return Ok(None);
            };
            let caller = Arc::new(Caller {
                session: session(&token, secret),
                identity,
                queries: Vec::new(),
                token: Some(token),
                second_signer: None,
            });
            if let Some(dependencies) = lookup.dependencies() {
                self.callers.insert(hash, caller.clone(), dependencies, at);
            }
            Ok(Some(caller))
        })
    }
}

/// A session that is not stored. Its id is that of the API token.
fn session(token: &Record<ApiToken>, secret: &str) -> Record<ApiSession> {
    let spec = ApiSession {
        token: secret.into(),
        identity_id: token.spec.identity_id.clone(),
        authenticator_id: String::new(),
        config_types: Vec::new(),
        ip_address: String::new(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: token.created_at,
    };
    Record::new(Id::from_text(token.id.as_str()), token.created_at, spec)
}
