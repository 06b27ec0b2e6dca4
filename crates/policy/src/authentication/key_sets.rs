//! Key sets (JWKS) of external signers: fetched when an unknown key is needed, and cached.
//!
//! A fetch runs on a blocking thread, one at a time per signer. Only requests with a token of that
//! signer wait for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    config,
    entity::{ExternalJwtSigner, Record, signer_url::SignerUrl},
    error::{Error, Result},
    outbound::{HttpClient, HttpError},
};
use pki::{Verifiers, jwt::Verifier};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::issuer_error::IssuerError;

/// Seconds in `retry-after` when too many requests wait.
const RETRY: u32 = 1;
const NO_ADDRESS: &str = "its JWKS endpoint is not an http or https URL";

/// The cached key sets. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KeySets(Arc<Inner>);

struct Inner {
    settings: config::KeySetConfig,
    client: OnceLock<Result<HttpClient, HttpError>>,
    fetches: Semaphore,
    /// By signer id.
    sources: Mutex<HashMap<String, Arc<Source>>>,
}

/// The key set of one version of a signer.
struct Source {
    signer: String,
    endpoint: String,
    written_at: Timestamp,
    state: Mutex<State>,
    fetching: tokio::sync::Mutex<()>,
    /// One permit per waiting request.
    permits: Semaphore,
}

#[derive(Default)]
struct State {
    /// The set and the time of its fetch.
    keys: Option<(Verifiers, Timestamp)>,
    /// The time of the last attempt, and whether it succeeded.
    tried: Option<(Timestamp, bool)>,
}

impl KeySets {
    /// Starts with an empty cache.
    pub(crate) fn new(settings: config::KeySetConfig) -> Self {
        let fetches = Semaphore::new(settings.fetches);
        Self(Arc::new(Inner {
            settings,
            client: OnceLock::new(),
            fetches,
            sources: Mutex::default(),
        }))
    }

    /// The keys with this id of a signer with this endpoint. Waits at most as long as one fetch may
    /// take, including the wait for another one.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many requests wait for this signer's keys. Waiting requests occupy
    /// connections, because their bodies are not read yet.
    pub(crate) async fn find(
        &self,
        signer: &Record<ExternalJwtSigner>,
        endpoint: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Verifier>> {
        let source = self.source(signer, endpoint);
        let settings = &self.0.settings;
        if let Some((keys, age)) = source.find(id, now, settings) {
            if age > settings.refresh.duration() && source.is_due(now, settings) {
                drop(self.fetching(&source, now));
            }
            return Ok(keys);
        }
        let _permit = source
            .permits
            .try_acquire()
            .map_err(|_| Error::Busy { retry_after: RETRY })?;
        drop(tokio::time::timeout(settings.timeout.duration(), self.fetching(&source, now)).await);
        Ok(source
            .find(id, now, settings)
            .map(|(keys, _)| keys)
            .unwrap_or_default())
    }

    /// The source of a signer; a new one if the signer was written since.
    fn source(&self, signer: &Record<ExternalJwtSigner>, endpoint: &str) -> Arc<Source> {
        let mut sources = self
            .0
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = sources
            .get(signer.id.as_str())
            .filter(|known| known.endpoint == endpoint && known.written_at == signer.updated_at);
        if let Some(known) = known {
            return known.clone();
        }
        if sources.len() >= self.0.settings.kept {
            sources.clear();
        }
        let source = Arc::new(Source {
            signer: signer.id.to_string(),
            endpoint: endpoint.to_owned(),
            written_at: signer.updated_at,
            state: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            permits: Semaphore::new(self.0.settings.waiting),
        });
        sources.insert(signer.id.to_string(), source.clone());
        source
    }

    /// Starts a fetch that continues when its caller is dropped: others wait for its result.
    fn fetching(&self, source: &Arc<Source>, now: Timestamp) -> JoinHandle<()> {
        let (sets, source) = (self.clone(), source.clone());
        tokio::spawn(async move { sets.fetch(&source, now).await })
    }

    /// Fetches a set, unless the last attempt is recent.
    async fn fetch(&self, source: &Source, now: Timestamp) {
        let _fetching = source.fetching.lock().await;
        if !source.is_due(now, &self.0.settings) {
            return;
        }
        source.with(|state| state.tried = Some((now, false)));
        if let Err(error) = admit(&source.endpoint, &self.0.settings) {
            return tracing::warn!(
                signer = source.signer,
                reason = error.to_string(),
                "no key set is fetched"
            );
        }
        let _slot = self.0.fetches.acquire().await;
        let (inner, endpoint) = (self.0.clone(), source.endpoint.clone());
        let fetched = tokio::task::spawn_blocking(move || {
            let client = inner
                .client
                .get_or_init(|| HttpClient::of_system(inner.settings.timeout.duration()));
            get(
                client.as_ref().map_err(Clone::clone)?,
                &endpoint,
                &inner.settings,
            )
        });
        match fetched.await.unwrap_or_else(|stopped| Err(stopped.into())) {
            Ok(keys) => source.keep(keys, now),
            Err(error) => tracing::warn!(
                endpoint = source.endpoint,
                reason = error.to_string(),
                "a key set could not be fetched"
            ),
        }
    }
}

impl Source {
    /// The keys with this id and the age of their set; `None` if there are none.
    fn find(
        &self,
        id: &str,
        now: Timestamp,
        settings: &config::KeySetConfig,
    ) -> Option<(Vec<Verifier>, Duration)> {
        self.with(|state| {
            let (keys, at) = state.keys.as_ref()?;
            let age = now.apart(*at);
            let found = keys.get(id);
            (!found.is_empty() && age <= settings.lifetime.duration())
                .then(|| (found.to_vec(), age))
        })
    }

    /// Keeps a set. Skipped keys are logged when they differ from those of the last set.
    fn keep(&self, keys: Verifiers, now: Timestamp) {
        self.with(|state| {
            let known = state
                .keys
                .as_ref()
                .map_or(&[][..], |(known, _)| known.skipped());
            if keys.skipped() != known && !keys.skipped().is_empty() {
                tracing::warn!(
                    signer = self.signer,
                    skipped = keys.skipped().join("; "),
                    "keys of a key set are not used"
                );
            }
            *state = State {
                keys: Some((keys, now)),
                tried: Some((now, true)),
            };
        });
    }

    fn is_due(&self, now: Timestamp, settings: &config::KeySetConfig) -> bool {
        self.with(|state| match state.tried {
            None => true,
            Some((at, true)) => now.apart(at) >= settings.pause.duration(),
            Some((at, false)) => now.apart(at) >= settings.pause_after_failure.duration(),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Checks that keys may be fetched from an endpoint. An earlier release accepted any address.
///
/// # Errors
/// [`IssuerError::Url`], which does not repeat the address: it may hold a secret.
pub fn admit(endpoint: &str, settings: &config::KeySetConfig) -> Result<(), IssuerError> {
    SignerUrl::read(endpoint)
        .ok_or(NO_ADDRESS)
        .and_then(|url| url.admit(settings.allow_http))
        .map_err(IssuerError::Url)
}

/// Fetches a key set. Blocks.
///
/// # Errors
/// There is no answer, or it is not a key set.
pub fn get(
    client: &HttpClient,
    endpoint: &str,
    settings: &config::KeySetConfig,
) -> Result<Verifiers, IssuerError> {
    let answer = client.get(endpoint, settings.max_bytes)?;
    if answer.status != 200 {
        return Err(IssuerError::Status(answer.status));
    }
    Verifiers::read(&answer.body, settings.max_keys).map_err(IssuerError::KeySet)
}
