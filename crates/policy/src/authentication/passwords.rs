//! Hashing and checking passwords on a bounded number of threads.
//!
//! scrypt (RFC 7914) costs tens of milliseconds and 16 MiB by design. It runs on one or two threads
//! of low priority behind a bounded and fair queue (`fair_queue.rs`), so that a flood of logins
//! slows only logins.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use model::{
    clock::Timestamp,
    config,
    entity::{Id, Identity, TypedLookup},
    error::{Error, Result},
};
use scrypt::{
    Params, Scrypt,
    password_hash::{PasswordHasher, PasswordVerifier},
    phc::PasswordHash,
};
use store::Store;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::{
    fair_queue::{FairQueue, JobOutcome, Requester},
    password_failures::{FailureCount, WrongPasswords},
};
use crate::priority::lower_priority;

/// Seconds in `retry-after` when the queue is full.
const RETRY: u32 = 2;
/// Block size and parallelism of scrypt; with N = 2^14 a hash takes 16 MiB.
const BLOCKS: u32 = 8;
const LANES: u32 = 1;
/// The `nice` value of the threads: they get a third of another thread's share.
const NICE: i32 = 5;

/// The queue; dropping it ends the threads.
struct Queue(Arc<FairQueue>);

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Hashes and checks passwords, and counts the wrong ones. Cheap to clone.
#[derive(Clone)]
pub struct Passwords {
    wrong: Arc<WrongPasswords>,
    queue: Arc<Queue>,
    scrypt: Scrypt,
    /// The highest cost (log2 N) of a hash seen so far or made from now on.
    costliest: Arc<AtomicU8>,
    /// How long lockouts that follow one another may become, in minutes.
    longest_lockout: i64,
}

impl Passwords {
    /// Starts the threads that the settings ask for.
    ///
    /// # Errors
    /// scrypt does not accept the cost, or the operating system cannot start a thread.
    pub fn new(settings: &config::PasswordConfig) -> Result<Self> {
        let config::PasswordConfig {
            slots,
            queue,
            cost,
            remembered,
            max_lockout_minutes: longest_lockout,
            ..
        } = *settings;
        let params = Params::new(cost, BLOCKS, LANES)
            .map_err(|e| Error::Internal(format!("the cost of passwords: {e}")))?;
        let scrypt = Scrypt::new_with_params(params);
        let queue = Queue(Arc::new(FairQueue::new(queue)));
        for _ in 0..slots {
            let waiting = queue.0.clone();
            let spawned = thread::Builder::new()
                .name("passwords".into())
                .spawn(move || run_jobs(&waiting));
            spawned.map_err(|e| Error::Internal(format!("a thread for passwords: {e}")))?;
        }
        let (wrong, costliest) = (
            Arc::new(WrongPasswords::new(remembered)),
            Arc::new(AtomicU8::new(cost)),
        );
        Ok(Self {
            wrong,
            queue: Arc::new(queue),
            scrypt,
            costliest,
            longest_lockout,
        })
    }

    /// The hash to store for an identity's new password, in the PHC string format. Every password
    /// that a request sets passes here. `address` is the source address of the request.
    ///
    /// # Errors
    /// The identity does not exist, its auth policy rejects the password, or the queue is full
    /// ([`Error::Busy`]).
    pub async fn hash_for(
        &self,
        store: &Store,
        identity: &Id<Identity>,
        address: Option<IpAddr>,
        password: String,
    ) -> Result<String> {
        let policy = store.read(|tx| tx.get(tx.get(identity)?.spec.auth_policy()))?;
        policy.spec.primary.updb.check_password(&password)?;
        let asker = Requester {
            address,
            name: identity.to_string(),
        };
        let (scrypt, password) = (self.scrypt, Zeroizing::new(password));
        self.run_queued(&asker, move || phc_string(&scrypt, &password))
            .await?
    }

    /// Whether a password matches the stored hash. Takes as long without a stored hash.
    ///
    /// # Errors
    /// [`Error::Busy`]: the queue is full and this job was dropped.
    pub async fn verify(
        &self,
        asker: &Requester,
        password: String,
        stored: Option<String>,
    ) -> Result<bool> {
        let (costliest, password) = (self.costliest.clone(), Zeroizing::new(password));
        self.run_queued(asker, move || {
            matches(&password, stored.as_deref(), &costliest)
        })
        .await
    }

    /// Counts whether a password of an identity was correct. `limit` consecutive wrong ones are too
    /// many; 0 means no limit.
    pub fn count(
        &self,
        identity: &Id<Identity>,
        right: bool,
        limit: i64,
        now: Timestamp,
    ) -> FailureCount {
        self.wrong.count(identity.as_str(), right, limit, now)
    }

    /// For how many minutes too many wrong passwords lock an identity out, if its auth policy says
    /// `minutes`: twice as long as the time before, if no right password came in between. 0 means
    /// until it is enabled.
    pub(crate) fn lockout(&self, identity: &Id<Identity>, minutes: i64) -> i64 {
        let before = self.wrong.lockouts(identity.as_str()).min(i64::BITS - 2);
        minutes
            .saturating_mul(1 << before)
            .min(self.longest_lockout.max(minutes))
    }

    /// Counts the wrong passwords of an identity from zero again, after too many of them.
    /// `is_locked`: they have locked it out.
    pub(crate) fn begin_again(&self, identity: &Id<Identity>, is_locked: bool, now: Timestamp) {
        self.wrong.begin_again(identity.as_str(), is_locked, now);
    }

    /// Forgets the wrong passwords of an identity.
    pub fn forgive(&self, identity: &Id<Identity>) {
        self.wrong.forget(identity.as_str());
    }

    /// The hash of a password, computed at once without the queue. For the owner of the host; the
    /// caller checks the auth policy.
    ///
    /// # Errors
    /// The random number generator fails.
    pub fn hash_now(&self, password: &str) -> Result<String> {
        phc_string(&self.scrypt, password)
    }

    async fn run_queued<T: Send + 'static>(
        &self,
        asker: &Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = move |outcome: JobOutcome| {
            // No hash is computed for a caller that is gone.
            if !reply.is_closed() {
                drop(reply.send((outcome == JobOutcome::Now).then(work)));
            }
        };
        self.queue.0.push(asker, Box::new(job));
        let done = answer
            .await
            .map_err(|_| Error::Internal("a password hash stopped".into()))?;
        done.ok_or(Error::Busy { retry_after: RETRY })
    }
}

/// Runs jobs until the queue is closed.
fn run_jobs(waiting: &FairQueue) {
    lower_priority(NICE);
    while let Some(job) = waiting.pop() {
        // A job that panics drops its reply, so its caller gets an error.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(
            || job(JobOutcome::Now),
        )));
    }
}

/// Whether a password matches the stored hash. Takes as long as the costliest hash seen so far,
/// whatever is stored: the time reveals neither which user names exist nor which hashes have an
/// older cost.
fn matches(password: &str, stored: Option<&str>, costliest: &AtomicU8) -> bool {
    let hash = stored.and_then(|text| PasswordHash::new(text).ok());
    let cost = hash
        .as_ref()
        .and_then(|hash| Params::try_from(hash).ok())
        .map(|params| params.log_n());
    let known = cost.unwrap_or_default();
    let costliest = costliest.fetch_max(known, Ordering::Relaxed).max(known);
    let right = hash.is_some_and(|hash| {
        Scrypt::default()
            .verify_password(password.as_bytes(), &hash)
            .is_ok()
    });
    match cost {
        // Each cost is twice the one before, so these hashes together take the time that is
        // missing.
        Some(cost) => (cost..costliest).for_each(|less| discard_hash(password, less)),
        None => discard_hash(password, costliest),
    }
    right
}

/// Computes a hash of this cost and discards it.
fn discard_hash(password: &str, cost: u8) {
    const SALT: [u8; 16] = [0; 16];
    let mut output = [0; 32];
    let made = Params::new(cost, BLOCKS, LANES)
        .map(|params| scrypt::scrypt(password.as_bytes(), &SALT, &params, &mut output));
    let _ = std::hint::black_box((made, output));
}

fn phc_string(scrypt: &Scrypt, password: &str) -> Result<String> {
    let hash = scrypt
        .hash_password(password.as_bytes())
        .map_err(|e| Error::Internal(format!("a password hash: {e}")))?;
    Ok(hash.to_string())
}
