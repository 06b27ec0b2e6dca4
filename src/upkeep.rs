//! Periodic work: sessions that idled too long go, what is only known in memory is written down, and the server certificate is renewed.
//!
//! Invariant: nothing here decides whether a session is over, it only clears away what is.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    authentication::Sessions,
    change::{self, Changes},
    clock::Clock,
    config,
    entity::{ApiSession, FactsExt, Id},
    error::Result,
    pki::{AlternativeNames, Holdings},
    store::Store,
};

/// What the work is done on.
pub struct Upkeep {
    pub store: Store,
    pub changes: Changes,
    pub sessions: Sessions,
    pub clock: Clock,
    pub settings: config::Sessions,
    pub holdings: Arc<Holdings>,
    /// What the server certificate must name.
    pub hosts: AlternativeNames,
}

/// Upkeep that runs until it is stopped.
pub struct Running {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts on a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(self) -> std::io::Result<Running> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("upkeep".into()).spawn(move || self.run(&stopped))?;
        Ok(Running { stop, thread: Some(thread) })
    }

    fn run(&self, stop: &(Mutex<bool>, Condvar)) {
        let mut written = Instant::now();
        while !waited(stop, self.settings.sweep_interval.duration()) {
            if written.elapsed() >= self.settings.activity_interval.duration() {
                written = Instant::now();
                tell("writing activity", self.write_activity());
            }
            tell("ending idle sessions", self.sweep());
            tell("renewing the server certificate", self.renew_leaf());
        }
        tell("writing activity", self.write_activity());
    }

    /// Writes when sessions were last active, in batches.
    fn write_activity(&self) -> Result<()> {
        loop {
            let batch = self.sessions.take_unwritten(self.settings.activity_batch);
            if batch.is_empty() {
                return Ok(());
            }
            self.changes.run_blocking(move |change| {
                for (id, at) in batch {
                    if let Some(mut session) = change.find(&id)? {
                        session.spec.last_activity_at = at;
                        change.put(session)?;
                    }
                }
                Ok(())
            })?;
        }
    }

    /// Renews the server certificate in time, without a restart.
    fn renew_leaf(&self) -> Result<()> {
        if change::renew_leaf(&self.store, &self.holdings, &self.hosts, self.clock.now())? {
            tracing::info!("renewed the server certificate");
        }
        Ok(())
    }

    /// Deletes sessions that are over, in batches.
    fn sweep(&self) -> Result<()> {
        let now = self.clock.now();
        let mut over = Vec::new();
        self.store.read(|tx| {
            tx.each::<ApiSession>(|session| {
                over.extend(self.sessions.is_over(&session, now).then(|| session.id.clone()));
                Ok(())
            })
        })?;
        for batch in over.chunks(self.settings.sweep_batch) {
            let batch: Vec<Id<ApiSession>> = batch.to_vec();
            batch.iter().for_each(|id| self.sessions.forget(id.as_str()));
            self.changes.run_blocking(move |change| {
                for id in &batch {
                    if change.find(id)?.is_some() {
                        change.delete(id)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn tell(what: &str, result: Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, "{what} failed");
    }
}

/// Waits, and says whether it is time to stop.
fn waited((stopped, bell): &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let guard = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    let (guard, _) = bell.wait_timeout_while(guard, time, |stopped| !*stopped).unwrap_or_else(PoisonError::into_inner);
    *guard
}

impl Drop for Running {
    fn drop(&mut self) {
        let (stopped, bell) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        bell.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
