//! Requests to a controller, with the certificate of an identity.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, header};
use model::outbound::HttpClient;
use pki::{ServerVerifier, client_config};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value as Json;

use crate::{api_error::ApiError, identity_file::IdentityFile};

/// How long one request and its answer may take.
const MOST: Duration = Duration::from_secs(30);
/// The most bytes of an answer. A page of services has less than a tenth of it.
const MAX_LENGTH: u64 = 16 << 20;

/// Why a request to a controller failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{controller}: {reason}")]
    NoAnswer { controller: String, reason: String },
    #[error("{controller} refused: {reason}")]
    Refused {
        controller: String,
        status: u16,
        /// In capitals; empty if the controller gave none.
        code: String,
        reason: String,
    },
    #[error("{controller}: the answer cannot be used: {reason}")]
    Answer { controller: String, reason: String },
    #[error("the identity names no controller")]
    NoAddress,
    #[error("the request was given up")]
    GivenUp,
    #[error("TLS cannot be set up: {0}")]
    Tls(pki::Error),
}

impl RequestError {
    /// Whether the controller does not know the API session (any more).
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::Refused { status: 401, .. })
    }
}

/// The client interface of the controllers of one network. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Controller {
    client: HttpClient,
    /// The addresses of its client interface, the preferred one first.
    addresses: Arc<[String]>,
    /// The place of the one that answered last.
    present: Arc<AtomicUsize>,
}

/// The form of every answer that is no error.
#[derive(Deserialize)]
pub(crate) struct Envelope<T> {
    pub(crate) data: T,
}

impl Controller {
    /// The controllers of an identity.
    ///
    /// # Errors
    /// [`RequestError::Tls`].
    pub(crate) fn of(identity: &IdentityFile) -> Result<Self, RequestError> {
        let tls = tls(identity)?;
        Ok(Self {
            client: HttpClient::with_tls(Arc::new(tls), MOST),
            addresses: identity.controllers().into(),
            present: Arc::default(),
        })
    }

    /// The address of the one that answered last.
    pub(crate) fn present(&self) -> String {
        let place = self.present.load(Ordering::Relaxed);
        self.addresses.get(place).cloned().unwrap_or_default()
    }

    /// Sends a request to the first controller that answers, and returns the `data` of the answer.
    /// `path` is below the client interface. A session is named by its token.
    ///
    /// # Errors
    /// [`RequestError`].
    pub(crate) async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Json>,
    ) -> Result<T, RequestError> {
        let (this, path) = (self.clone(), path.to_owned());
        let token = token.map(str::to_owned);
        let asked = tokio::task::spawn_blocking(move || {
            let first = this.present.load(Ordering::Relaxed);
            let mut failure = None;
            let all = this.addresses.iter().enumerate();
            for (place, address) in all.cycle().skip(first).take(this.addresses.len()) {
                match this.ask_one(address, &method, &path, token.as_deref(), body.as_ref()) {
                    Err(error @ RequestError::NoAnswer { .. }) => failure = Some(error),
                    other => {
                        this.present.store(place, Ordering::Relaxed);
                        return other;
                    }
                }
            }
            Err(failure.unwrap_or(RequestError::NoAddress))
        });
        asked.await.unwrap_or(Err(RequestError::GivenUp))
    }

    fn ask_one<T: DeserializeOwned>(
        &self,
        address: &str,
        method: &Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Json>,
    ) -> Result<T, RequestError> {
        let controller = || address.to_owned();
        let body = body.map(Json::to_string);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{address}{path}"))
            .header(header::ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = token {
            request = request.header("zt-session", token);
        }
        let body = body.unwrap_or_default();
        let no_answer = |reason: String| RequestError::NoAnswer {
            controller: controller(),
            reason,
        };
        let request = request
            .body(body.as_bytes())
            .map_err(|error| no_answer(error.to_string()))?;
        let answer = self.client.send(request, MAX_LENGTH);
        let answer = answer.map_err(|error| no_answer(error.to_string()))?;
        if !(200..300).contains(&answer.status) {
            let ApiError { code, reason } = ApiError::of(&answer);
            return Err(RequestError::Refused {
                controller: controller(),
                status: answer.status,
                code,
                reason,
            });
        }
        serde_json::from_slice::<Envelope<T>>(&answer.body)
            .map(|envelope| envelope.data)
            .map_err(|error| RequestError::Answer {
                controller: controller(),
                reason: error.to_string(),
            })
    }
}

/// A member that may be null: some controllers write that for an empty list.
pub(crate) fn or_default<'d, T, D>(from: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'d>,
    D: Deserializer<'d>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The TLS configuration of an identity, for controllers and for routers.
///
/// # Errors
/// [`RequestError::Tls`].
pub(crate) fn tls(identity: &IdentityFile) -> Result<rustls::ClientConfig, RequestError> {
    let of_file = identity.authorities().iter().map(|one| one.der().clone());
    let mut trusted: Vec<_> = of_file.collect();
    if trusted.is_empty() {
        trusted = model::outbound::system_authorities();
    }
    let verifier = Arc::new(ServerVerifier::new(&trusted));
    client_config(verifier, identity.certificate()).map_err(RequestError::Tls)
}
