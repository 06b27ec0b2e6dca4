//! Requests to the issuers of external signers, at most so many at a time, and what each issuer
//! publishes about itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use model::{
    clock::Timestamp,
    config,
    entity::{ExternalJwtSigner, Id, Record, signer_url::SignerUrl},
    error::{Error, Result},
    outbound::{HttpAnswer, HttpClient, HttpError},
};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::issuer_error::{IssuerError, shortened};

/// Seconds in `retry-after` when too many requests to issuers wait.
const RETRY: u32 = 1;
/// The maximum bytes of an answer of an issuer.
pub(super) const MAX_ANSWER: u64 = 256 << 10;
/// The maximum length of each URL that an issuer publishes, in bytes.
const MAX_URL: usize = 2048;
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The issuers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Issuers(Arc<Inner>);

struct Inner {
    settings: config::KeySetConfig,
    client: OnceLock<Result<HttpClient, HttpError>>,
    /// Requests to issuers at the same time.
    requests: Arc<Semaphore>,
    /// Requests to issuers that wait or are in progress.
    places: Arc<Semaphore>,
    /// By the id of the signer.
    known: Mutex<HashMap<String, Fetched>>,
}

/// What an issuer publishes about itself (OpenID Connect Discovery 1.0, section 3).
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
}

/// The metadata of one version of a signer, or why they could not be fetched.
struct Fetched {
    written_at: Timestamp,
    at: Timestamp,
    found: Result<Arc<Metadata>, IssuerError>,
}

impl Issuers {
    /// Nothing is known yet. Requests have the limits of fetched key sets.
    pub(super) fn new(settings: config::KeySetConfig) -> Self {
        let (requests, places) = (
            Arc::new(Semaphore::new(settings.fetches)),
            Arc::new(Semaphore::new(settings.waiting)),
        );
        Self(Arc::new(Inner {
            settings,
            client: OnceLock::new(),
            requests,
            places,
            known: Mutex::default(),
        }))
    }

    /// What the issuer publishes, or why that is unknown. Fetched again as key sets are. A fetch
    /// continues if its caller is dropped, so that its failure counts.
    pub(super) async fn metadata(
        &self,
        signer: &Record<ExternalJwtSigner>,
        url: &str,
        now: Timestamp,
    ) -> Result<Result<Arc<Metadata>, IssuerError>> {
        if let Some(fetched) = self.0.fetched(signer, now) {
            return Ok(fetched);
        }
        let from = url.trim_end_matches('/');
        let from = if from.ends_with(WELL_KNOWN) {
            from.to_owned()
        } else {
            format!("{from}{WELL_KNOWN}")
        };
        let (issuers, id, name, written_at) = (
            self.clone(),
            signer.id.clone(),
            signer.spec.name.clone(),
            signer.updated_at,
        );
        let fetch = tokio::spawn(async move {
            let found = match admit(&from, issuers.0.settings.allow_http) {
                Ok(()) => issuers
                    .ask(move |client| client.get(&from, MAX_ANSWER))
                    .await?
                    .and_then(|body| issuers.0.metadata_in(&body)),
                Err(error) => Err(error),
            };
            if let Err(error) = &found {
                tracing::warn!(
                    signer = name,
                    reason = shortened(error),
                    "the OpenID Connect metadata of the signer could not be read"
                );
            }
            let found = found.map(Arc::new);
            issuers.0.note(
                &id,
                Fetched {
                    written_at,
                    at: now,
                    found: found.clone(),
                },
            );
            Ok(found)
        });
        fetch
            .await
            .unwrap_or_else(|stopped| Ok(Err(stopped.into())))
    }

    /// The body of a successful answer of an issuer, or why there is none.
    pub(super) async fn ask(
        &self,
        question: impl FnOnce(&HttpClient) -> Result<HttpAnswer, HttpError> + Send + 'static,
    ) -> Result<Result<Vec<u8>, IssuerError>> {
        let most = self.0.settings.timeout.duration();
        let busy = Error::Busy { retry_after: RETRY };
        let Ok(place) = self.0.places.clone().try_acquire_owned() else {
            return Err(busy);
        };
        let Ok(Ok(slot)) =
            tokio::time::timeout(most, self.0.requests.clone().acquire_owned()).await
        else {
            return Err(busy);
        };
        let inner = self.0.clone();
        // The thread holds the permits: it goes on if the caller is dropped.
        let asked = tokio::task::spawn_blocking(move || {
            let _held = (place, slot);
            let client = inner.client.get_or_init(|| HttpClient::of_system(most));
            let answer = question(client.as_ref().map_err(Clone::clone)?)?;
            if answer.status == 200 {
                Ok(answer.body)
            } else {
                Err(IssuerError::Status(answer.status))
            }
        });
        Ok(asked.await.unwrap_or_else(|stopped| Err(stopped.into())))
    }
}

impl Inner {
    /// What was fetched for this version of a signer; `None` if it must be fetched again.
    fn fetched(
        &self,
        signer: &Record<ExternalJwtSigner>,
        now: Timestamp,
    ) -> Option<Result<Arc<Metadata>, IssuerError>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fetched = known
            .get(signer.id.as_str())
            .filter(|fetched| fetched.written_at == signer.updated_at)?;
        let lasts = if fetched.found.is_ok() {
            &self.settings.refresh
        } else {
            &self.settings.pause_after_failure
        };
        (now.apart(fetched.at) < lasts.duration()).then(|| fetched.found.clone())
    }

    fn note(&self, signer: &Id<ExternalJwtSigner>, fetched: Fetched) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.settings.kept {
            known.clear();
        }
        known.insert(signer.to_string(), fetched);
    }

    fn metadata_in(&self, body: &[u8]) -> Result<Metadata, IssuerError> {
        let metadata: Metadata =
            serde_json::from_slice(body).map_err(|error| IssuerError::Metadata(Arc::new(error)))?;
        for endpoint in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
            admit(endpoint, self.settings.allow_http)?;
        }
        if [
            &metadata.issuer,
            &metadata.authorization_endpoint,
            &metadata.token_endpoint,
        ]
        .into_iter()
        .any(|url| url.len() > MAX_URL)
        {
            return Err(IssuerError::LongUrl(MAX_URL));
        }
        if metadata.authorization_endpoint.contains('#') {
            return Err(IssuerError::Fragment);
        }
        Ok(metadata)
    }
}

fn admit(url: &str, allow_http: bool) -> Result<(), IssuerError> {
    SignerUrl::read(url)
        .ok_or("an endpoint is not an http or https URL")
        .and_then(|url| url.admit(allow_http))
        .map_err(IssuerError::Url)
}
