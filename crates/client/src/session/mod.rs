//! The log-in of an identity: its services, the sessions for them, and the channels to routers.

mod authentication;
mod connect;
mod error;
mod login;
mod renewal;
mod service;
mod service_sessions;
mod upkeep;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    controller::{Controller, RequestError, tls},
    identity_file::IdentityFile,
    posture::{self, Machine, PostureQuery},
    routers::Routers,
    status::{Describe, SessionStatus},
};
pub use error::SessionError;
pub use login::{AskCode, LogInOptions};
use login::{LoggedIn, RefusedLogIn};
pub use service::{Offer, Right, Service};
use service_sessions::{ServiceSession, ServiceSessions};

/// After so long posture is reported again.
const REPORTED: Duration = Duration::from_secs(300);
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
    /// The last log-in that was refused, for as long as no other one is tried.
    refusal: Mutex<Option<RefusedLogIn>>,
    service_sessions: ServiceSessions,
    posture: Mutex<Posture>,
    machine: Arc<Mutex<Machine>>,
    /// What this session is used for.
    services: Mutex<Vec<Describe>>,
    /// Until when no renewal of the certificate is tried.
    renewal_pause: Mutex<Option<Instant>>,
}

/// What the services in use want to know about this machine, and what was reported last, and when.
#[derive(Default)]
struct Posture {
    /// By the id of the service.
    queries: HashMap<String, BTreeSet<PostureQuery>>,
    reported: Option<(Vec<Json>, Instant)>,
}

impl Posture {
    fn queries(&self) -> BTreeSet<PostureQuery> {
        self.queries.values().flatten().cloned().collect()
    }

    /// Whether these answers are what was reported, and not long ago: a controller that was
    /// restarted has forgotten them.
    fn is_known(&self, answers: &[Json]) -> bool {
        let reported = self.reported.as_ref();
        reported.is_some_and(|(known, at)| known == answers && at.elapsed() < REPORTED)
    }
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
            service_sessions: ServiceSessions::default(),
            posture: Mutex::default(),
            machine: Arc::default(),
            refusal: Mutex::default(),
            services: Mutex::default(),
            renewal_pause: Mutex::default(),
        }));
        session.renew("").await?;
        Ok(session)
    }

    /// Whether the session logs in with this certificate, at these controllers.
    pub fn holds(&self, identity: &IdentityFile) -> bool {
        let own = self.0.identity.lock();
        own.controllers() == identity.controllers() && own.fingerprint() == identity.fingerprint()
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
        let mut services = self.0.services.lock();
        // Those that have ended are dropped once in a while.
        if services.len().is_power_of_two() {
            services.retain(|describe| describe().is_some());
        }
        services.push(service);
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

    /// Reports what the services in use want to know about this machine, if it has changed or was
    /// reported long ago.
    async fn report_posture(&self) -> Result<(), SessionError> {
        let queries = self.0.posture.lock().queries();
        if queries.is_empty() {
            return Ok(());
        }
        let machine = Arc::clone(&self.0.machine);
        let answers = tokio::task::spawn_blocking(move || machine.lock().answers(&queries)).await;
        let answers = answers.map_err(|_| RequestError::GivenUp)?;
        if answers.is_empty() || self.0.posture.lock().is_known(&answers) {
            return Ok(());
        }
        let body = Json::Array(answers.clone());
        let path = "/posture-response-bulk";
        self.ask::<Json>(Method::POST, path, Some(body)).await?;
        self.0.posture.lock().reported = Some((answers, Instant::now()));
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
        let asked = async {
            if !service.grants(right) {
                return Err(SessionError::NoRight {
                    right: right.verb(),
                    service: service.name.clone(),
                });
            }
            self.add_posture(service);
            self.report_posture().await?;
            let body = json!({ "serviceId": service.id, "type": right.name() });
            self.ask(Method::POST, "/sessions", Some(body)).await
        };
        let sessions = &self.0.service_sessions;
        let login = || self.token();
        sessions.get(right, &service.id, login, asked).await
    }

    /// Answers the posture checks of a service from now on.
    fn add_posture(&self, service: &Service) {
        let queries = posture::queries(&service.posture);
        let mut posture = self.0.posture.lock();
        if queries.is_empty() {
            posture.queries.remove(&service.id);
        } else {
            posture.queries.insert(service.id.clone(), queries);
        }
    }

    /// Forgets a service that is not used any more, by its id.
    pub(crate) fn forget_service(&self, id: &str) {
        self.0.service_sessions.forget(id);
        self.0.posture.lock().queries.remove(id);
    }

    /// Takes another session for a service the next time, and reports posture before.
    pub(crate) fn forget_session(&self, service: &Service, right: Right) {
        self.0.service_sessions.outdate(right, &service.id);
        self.0.posture.lock().reported = None;
    }
}

/// A value in a query.
fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
