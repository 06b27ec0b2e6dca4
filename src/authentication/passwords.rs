//! Hashing and checking passwords, a bounded number at a time.
//!
//! scrypt (RFC 7914) costs tens of milliseconds and 16 MiB by design. It runs on blocking threads of its own, one or two at once,
//! with a bounded queue in front, so that a flood of logins slows nobody but itself.

use std::sync::Arc;

use scrypt::{
    Params, Scrypt,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::failures::WrongPasswords;
use crate::{
    clock::Timestamp,
    entity::{FactsExt, Id, Identity},
    error::{Error, Result},
    store::Store,
};

/// Where to come back when the queue is full, in seconds.
const RETRY: u32 = 2;
/// Block size and parallelism of scrypt; with N = 2^14 that is 16 MiB.
const BLOCKS: u32 = 8;
const LANES: u32 = 1;

/// Hashes and checks passwords, and counts the wrong ones. Cheap to clone.
#[derive(Clone)]
pub struct Passwords {
    wrong: Arc<WrongPasswords>,
    slots: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    scrypt: Scrypt,
    decoy: Arc<str>,
}

impl Passwords {
    /// At most `slots` hashes at once and `queue` waiting; `cost` is log2 of scrypt's N.
    ///
    /// # Errors
    /// The cost is not one of scrypt's, or there is no randomness.
    pub fn new(slots: usize, queue: usize, cost: u8) -> Result<Self> {
        let params = Params::new(cost, BLOCKS, LANES).map_err(|e| Error::Internal(format!("the cost of passwords: {e}")))?;
        let scrypt = Scrypt::new_with_params(params);
        let decoy = hashed(&scrypt, "nobody has this password")?.into();
        Ok(Self {
            wrong: Arc::default(),
            slots: Arc::new(Semaphore::new(slots)),
            queue: Arc::new(Semaphore::new(slots + queue)),
            scrypt,
            decoy,
        })
    }

    /// The text to store for a new password of an identity, in the PHC string format. Every password that a request sets comes through here.
    ///
    /// # Errors
    /// There is no such identity, its auth policy does not allow the password, or the queue is full.
    pub async fn hash_for(&self, store: &Store, identity: &Id<Identity>, password: String) -> Result<String> {
        let policy = store.read(|tx| tx.get(tx.get(identity)?.spec.auth_policy()))?;
        policy.spec.primary.updb.check_password(&password)?;
        self.hash(password).await
    }

    async fn hash(&self, password: String) -> Result<String> {
        let scrypt = self.scrypt;
        self.queued(move || hashed(&scrypt, &password)).await?
    }

    /// Whether a password is the one stored. Without a stored one it takes as long and is wrong, so that nobody learns from the time
    /// which user names exist.
    ///
    /// # Errors
    /// The queue is full.
    pub async fn verify(&self, password: String, stored: Option<String>) -> Result<bool> {
        let (scrypt, known) = (self.scrypt, stored.is_some());
        let text = stored.unwrap_or_else(|| self.decoy.to_string());
        let fits =
            self.queued(move || PasswordHash::new(&text).is_ok_and(|hash| scrypt.verify_password(password.as_bytes(), &hash).is_ok()));
        Ok(fits.await? && known)
    }

    /// One more wrong password of an identity; how many that makes in a row.
    pub fn count_wrong(&self, identity: &Id<Identity>, now: Timestamp) -> i64 {
        self.wrong.count(identity.as_str(), now)
    }

    /// Forgets the wrong passwords of an identity.
    pub fn forgive(&self, identity: &Id<Identity>) {
        self.wrong.forget(identity.as_str());
    }

    /// The text to store for a password, at once. For the owner of the host, whom nobody waits behind; what the auth policy says of it is
    /// asked elsewhere.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn hash_now(&self, password: &str) -> Result<String> {
        hashed(&self.scrypt, password)
    }

    async fn queued<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let _place: SemaphorePermit<'_> = self.queue.try_acquire().map_err(|_| Error::Busy { retry_after: RETRY })?;
        let slot = self.slots.clone().acquire_owned().await.map_err(|e| Error::Internal(e.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(slot);
            result
        });
        done.await.map_err(|e| Error::Internal(format!("a password hash: {e}")))
    }
}

fn hashed(scrypt: &Scrypt, password: &str) -> Result<String> {
    let hash = scrypt.hash_password(password.as_bytes()).map_err(|e| Error::Internal(format!("a password hash: {e}")))?;
    Ok(hash.to_string())
}
