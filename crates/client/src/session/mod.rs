//! The log-in of an identity: its services, the sessions for them, and the channels to routers.

mod connect;
mod error;
mod login;
mod renewal;
mod service;
mod upkeep;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    controller::{Controller, RequestError, or_default, tls},
    identity_file::IdentityFile,
    posture::{self, PostureQuery},
    routers::{EdgeRouter, Routers},
    status::{Describe, SessionStatus},
};
pub use error::SessionError;
pub use login::{AskCode, LogInOptions};
use login::{AuthQuery, LoggedIn, environment};
pub use service::{Offer, Right, Service};

/// Services of one answer, and the most of all that are looked at.
const PAGE: usize = 250;
const SERVICES: usize = 20_000;

/// The API session of an identity. Cheap to clone.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    controller: Mutex<Controller>,
    identity: Mutex<IdentityFile>,
    options: LogInOptions,
    routers: Routers,
    login: Mutex<LoggedIn>,
    /// Held during a log-in, so that several callers log in once.
    logging_in: AsyncMutex<()>,
    /// The sessions for services, by the right and the id of the service.
    service_sessions: Mutex<HashMap<(Right, String), Arc<ServiceSession>>>,
    posture: Mutex<Posture>,
    /// What this session is used for.
    services: Mutex<Vec<Describe>>,
    /// Until when no renewal of the certificate is tried, after one that failed.
    renewal_pause: Mutex<Option<Instant>>,
}

/// What the services in use want to know about this machine, and what was reported last.
#[derive(Default)]
struct Posture {
    queries: BTreeSet<PostureQuery>,
    reported: Vec<Json>,
}

/// The right to dial or to host one service.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSession {
    token: String,
    #[serde(default, deserialize_with = "or_default")]
    edge_routers: Vec<EdgeRouter>,
}

impl Session {
    /// Logs in.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn log_in(identity: &IdentityFile) -> Result<Self, SessionError> {
        Self::log_in_with(identity, LogInOptions::default()).await
    }

    /// Logs in, with a second factor if one is needed and can be had.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn log_in_with(
        identity: &IdentityFile,
        options: LogInOptions,
    ) -> Result<Self, SessionError> {
        let session = Self(Arc::new(Inner {
            controller: Mutex::new(Controller::of(identity)?),
            routers: Routers::new(tls(identity)?),
            identity: Mutex::new(identity.clone()),
            options,
            login: Mutex::default(),
            logging_in: AsyncMutex::default(),
            service_sessions: Mutex::default(),
            posture: Mutex::default(),
            services: Mutex::default(),
            renewal_pause: Mutex::default(),
        }));
        session.renew("").await?;
        Ok(session)
    }

    /// Whether both are the same session.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The name of the identity.
    pub fn identity(&self) -> String {
        self.0.login.lock().identity.name.clone()
    }

    /// Adds a service to the status of the session, until its description ends.
    pub(crate) fn describe(&self, service: Describe) {
        self.0.services.lock().push(service);
    }

    /// What the session is used for now.
    pub fn status(&self) -> SessionStatus {
        let mut services = Vec::new();
        self.0.services.lock().retain(|describe| {
            let described = describe();
            let is_there = described.is_some();
            services.extend(described);
            is_there
        });
        let identity = self.0.identity.lock();
        let leaf = identity.certificate().and_then(|own| own.leaf());
        SessionStatus {
            identity: self.identity(),
            controller: self.controller().present(),
            certificate_end: leaf.map(pki::Certificate::not_after),
            routers: self.0.routers.status(),
            services,
        }
    }

    pub(super) fn token(&self) -> String {
        self.0.login.lock().token.clone()
    }

    fn controller(&self) -> Controller {
        self.0.controller.lock().clone()
    }

    /// Logs in again, unless somebody else has done so since `former` was the token.
    async fn renew(&self, former: &str) -> Result<(), SessionError> {
        let _one = self.0.logging_in.lock().await;
        if self.token() != former {
            return Ok(());
        }
        if self.0.identity.lock().certificate().is_none() {
            return Err(SessionError::NoCertificate);
        }
        let about = json!({
            "sdkInfo": {
                "type": "overkeep",
                "version": env!("CARGO_PKG_VERSION"),
                "appId": "overkeep",
                "appVersion": env!("CARGO_PKG_VERSION"),
            },
            "envInfo": environment(),
            "configTypes": ["all"],
        });
        let path = "/authenticate?method=cert";
        let login: LoggedIn = self
            .controller()
            .ask(Method::POST, path, None, Some(about))
            .await?;
        let wanted = login.auth_queries.clone();
        *self.0.login.lock() = login;
        if !wanted.is_empty()
            && let Err(error) = self.give_code(&wanted).await
        {
            self.log_out().await;
            return Err(error);
        }
        self.0.service_sessions.lock().clear();
        self.0.posture.lock().reported.clear();
        self.0.routers.forget();
        Ok(())
    }

    /// Gives the code of a second factor.
    async fn give_code(&self, wanted: &[AuthQuery]) -> Result<(), SessionError> {
        let is_code = |query: &AuthQuery| ["MFA", "TOTP"].contains(&query.type_id.as_str());
        if let Some(other) = wanted.iter().find(|query| !is_code(query)) {
            let text = format!("one of the type {} is not supported yet", other.type_id);
            return Err(SessionError::SecondFactor(text));
        }
        let ask_code = self.0.options.ask_code.clone();
        let ask_code = ask_code.ok_or_else(|| {
            SessionError::SecondFactor("there is nobody to ask for a code".to_owned())
        })?;
        let code = tokio::task::spawn_blocking(move || ask_code()).await;
        let code = code.map_err(|_| RequestError::GivenUp)?;
        let code = code.map_err(SessionError::SecondFactor)?;
        let (controller, token) = (self.controller(), self.token());
        let body = json!({ "code": code.trim() });
        let path = "/authenticate/mfa";
        let asked = controller.ask::<Json>(Method::POST, path, Some(&token), Some(body));
        match asked.await {
            Ok(_) => Ok(()),
            Err(RequestError::Refused { reason, .. }) => Err(SessionError::SecondFactor(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks with the token of the session; once more after a new log-in if it has ended.
    pub(crate) async fn ask<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        body: Option<Json>,
    ) -> Result<T, SessionError> {
        let controller = self.controller();
        let token = self.token();
        let (first, again) = (method.clone(), body.clone());
        match controller.ask(first, path, Some(&token), body).await {
            Err(error) if error.is_of_session() => {
                self.renew(&token).await?;
                let (controller, token) = (self.controller(), self.token());
                Ok(controller.ask(method, path, Some(&token), again).await?)
            }
            other => Ok(other?),
        }
    }

    /// A service by its name.
    ///
    /// # Errors
    /// [`SessionError::NoService`] and what a request can fail with.
    pub async fn service(&self, name: &str) -> Result<Service, SessionError> {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        let filter = encoded(&format!("name = \"{quoted}\""));
        let path = format!("/services?filter={filter}&limit=1");
        let found: Vec<Service> = self.ask(Method::GET, &path, None).await?;
        let found = found.into_iter().find(|service| service.name == name);
        found.ok_or_else(|| SessionError::NoService(name.to_owned()))
    }

    /// Ends the API session.
    pub async fn log_out(&self) {
        let (controller, token) = (self.controller(), self.token());
        let path = "/current-api-session";
        let ended = controller.ask::<Json>(Method::DELETE, path, Some(&token), None);
        if let Err(error) = ended.await {
            tracing::debug!(%error, "the API session could not be ended");
        }
    }

    /// Reports what the services in use want to know about this machine, if it has changed.
    async fn report_posture(&self) -> Result<(), SessionError> {
        let queries = self.0.posture.lock().queries.clone();
        if queries.is_empty() {
            return Ok(());
        }
        let answers = tokio::task::spawn_blocking(move || posture::answers(&queries)).await;
        let answers = answers.map_err(|_| RequestError::GivenUp)?;
        if answers.is_empty() || self.0.posture.lock().reported == answers {
            return Ok(());
        }
        let body = Json::Array(answers.clone());
        let path = "/posture-response-bulk";
        self.ask::<Json>(Method::POST, path, Some(body)).await?;
        self.0.posture.lock().reported = answers;
        Ok(())
    }

    /// Every service that the identity sees.
    ///
    /// # Errors
    /// What a request can fail with.
    pub async fn services(&self) -> Result<Vec<Service>, SessionError> {
        let mut all: Vec<Service> = Vec::new();
        loop {
            let path = format!("/services?limit={PAGE}&offset={}", all.len());
            let page: Vec<Service> = self.ask(Method::GET, &path, None).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last || all.len() >= SERVICES {
                return Ok(all);
            }
        }
    }

    /// When something last changed for the identity, as a text that is another one then.
    ///
    /// # Errors
    /// What a request can fail with.
    pub(crate) async fn last_change(&self) -> Result<String, SessionError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Updates {
            last_change_at: String,
        }
        let path = "/current-api-session/service-updates";
        let updates: Updates = self.ask(Method::GET, path, None).await?;
        Ok(updates.last_change_at)
    }

    /// What the controller says about the identity.
    ///
    /// # Errors
    /// What a request can fail with.
    pub(crate) async fn about_identity<T>(&self) -> Result<T, SessionError>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        self.ask(Method::GET, "/current-identity", None).await
    }

    /// The session for a service, which is kept until it is [outdated](Self::forget_session).
    async fn service_session(
        &self,
        service: &Service,
        right: Right,
    ) -> Result<Arc<ServiceSession>, SessionError> {
        let key = (right, service.id.clone());
        if let Some(known) = self.0.service_sessions.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        if !service.grants(right) {
            return Err(SessionError::NoRight {
                right: right.verb(),
                service: service.name.clone(),
            });
        }
        let queries = posture::queries(&service.posture);
        if !queries.is_empty() {
            self.0.posture.lock().queries.extend(queries);
            self.report_posture().await?;
        }
        let body = json!({ "serviceId": service.id, "type": right.name() });
        let session: ServiceSession = self.ask(Method::POST, "/sessions", Some(body)).await?;
        let session = Arc::new(session);
        let mut sessions = self.0.service_sessions.lock();
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// Takes another session for a service the next time.
    pub(crate) fn forget_session(&self, service: &Service, right: Right) {
        let key = (right, service.id.clone());
        self.0.service_sessions.lock().remove(&key);
    }
}

/// A value in a query.
fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
