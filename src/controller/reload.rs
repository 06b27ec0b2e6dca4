//! The configuration changes that a running controller applies on SIGHUP, for `overkeep run`.
//!
//! Not here: how the configuration is read (`cli/run.rs`). Start at [`Reload::read`]. Invariant: an
//! invalid configuration changes nothing, and nothing here ends the process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::{
    config::{Config, Reread},
    error::Result,
};
use policy::change::{Certificates, addresses::FormerAddress};
use rest::AppState;
use serde_json::Value as Json;

use super::settings::limits;
use crate::logging;

/// The keys that are applied without a restart.
pub(crate) const RELOADED: [&str; 6] = [
    "log.level",
    "http.cors-origins",
    "http.request-timeout",
    "http.max-body-bytes",
    "http.max-open-body-bytes",
    "sessions.certificates",
];

/// What a reload changes in a running controller.
pub(crate) struct Reload {
    /// The configuration in effect.
    running: Mutex<Config>,
    state: Arc<AppState>,
    certificates: Arc<Certificates>,
}

impl Reload {
    /// For a controller that was started with this configuration.
    pub(crate) fn new(
        config: Config,
        state: Arc<AppState>,
        certificates: Arc<Certificates>,
    ) -> Self {
        Self {
            running: Mutex::new(config),
            state,
            certificates,
        }
    }

    /// Who enrolled under addresses that are not the first advertised one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn former_addresses(&self) -> Result<Vec<FormerAddress>> {
        self.certificates.former_addresses()
    }

    /// Reads the configuration again and applies what needs no restart.
    pub(crate) fn read(&self, again: &Reread) {
        match again() {
            Ok(config) => self.take(&config),
            Err(error) => tracing::warn!(
                reason = error.to_string(),
                "the configuration is invalid; nothing was changed"
            ),
        }
    }

    /// Applies what needs no restart, and logs each key that changed.
    pub(crate) fn take(&self, wanted: &Config) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes(&running, wanted);
        let (reloaded, others): (Vec<_>, Vec<_>) = changes
            .iter()
            .partition(|change| RELOADED.contains(&change.key.as_str()));
        for Change { key, before, after } in &reloaded {
            tracing::info!(key, %before, %after, "the configuration was changed");
        }
        for Change { key, before, after } in others {
            tracing::warn!(key, %before, %after, "the configuration was changed; this needs a restart");
        }
        if changes.is_empty() {
            tracing::info!("the configuration has not changed");
        }
        running.log.level.clone_from(&wanted.log.level);
        running
            .http
            .cors_origins
            .clone_from(&wanted.http.cors_origins);
        running.http.request_timeout = wanted.http.request_timeout;
        running.http.max_body_bytes = wanted.http.max_body_bytes;
        running.http.max_open_body_bytes = wanted.http.max_open_body_bytes;
        running.sessions.certificates = wanted.sessions.certificates;
        self.state.limits.store(Arc::new(limits(&running)));
        self.certificates.reload(self.state.clock.now());
        if let Err(error) = logging::change(&running.log) {
            tracing::warn!(
                reason = error.to_string(),
                "the log level cannot be changed; the previous one stays"
            );
        }
    }
}

/// A key whose value changed.
struct Change {
    key: String,
    before: Json,
    after: Json,
}

fn changes(before: &Config, after: &Config) -> Vec<Change> {
    let (before, mut after) = (values(before), values(after));
    let pairs = before
        .into_iter()
        .map(|(key, before)| (after.remove(&key).unwrap_or_default(), key, before));
    pairs
        .filter(|(after, _, before)| before != after)
        .map(|(after, key, before)| Change { key, before, after })
        .collect()
}

/// Every key with its value.
fn values(config: &Config) -> BTreeMap<String, Json> {
    let mut values = BTreeMap::new();
    collect(
        "",
        serde_json::to_value(config).unwrap_or_default(),
        &mut values,
    );
    values
}

fn collect(path: &str, value: Json, values: &mut BTreeMap<String, Json>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                collect(
                    &if path.is_empty() {
                        name
                    } else {
                        format!("{path}.{name}")
                    },
                    value,
                    values,
                );
            }
        }
        leaf => drop(values.insert(path.to_owned(), leaf)),
    }
}
