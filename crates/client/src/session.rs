//! The log-in of an identity: its services, the sessions for them, and the channels to routers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::{sync::Mutex as AsyncMutex, time::sleep};

use crate::{
    Binding, Channel, Connection,
    binding::{Bind, Precedence},
    connection::{Dial, DialError},
    controller::{Controller, RequestError, or_default, tls},
    identity_file::IdentityFile,
    posture::{self, PosturePolicy, PostureQuery},
    renewal,
    routers::{EdgeRouter, RouterError, Routers},
    status::{Describe, SessionStatus},
};

/// How long a host may take until it accepts.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often posture is looked at.
const POSTURE: Duration = Duration::from_secs(20);
/// The pause after a renewal of the certificate that failed.
const AFTER_RENEWAL: Duration = Duration::from_secs(3_600);
/// Services of one answer, and the most of all that are looked at.
const PAGE: usize = 250;
const SERVICES: usize = 20_000;

/// A service, as its identity sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub id: String,
    pub name: String,
    /// Whether both ends encrypt what they send.
    #[serde(default)]
    pub encryption_required: bool,
    #[serde(default, deserialize_with = "or_default")]
    permissions: Vec<String>,
    /// Its configs, by the names of their types.
    #[serde(default, deserialize_with = "or_default")]
    pub config: BTreeMap<String, Json>,
    #[serde(rename = "postureQueries", default, deserialize_with = "or_default")]
    posture: Vec<PosturePolicy>,
}

/// Asks for the code of a second factor. Blocks. The error is for people.
pub type AskCode = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// What a log-in may use beside the identity.
#[derive(Clone, Default)]
pub struct LogInOptions {
    /// The file of the identity, which a renewed certificate is written to. Without it the
    /// certificate is not renewed.
    pub file: Option<PathBuf>,
    pub ask_code: Option<AskCode>,
}

/// What a host says about a terminator that it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// A name of the listener, which stays the same through reconnects.
    pub listener: String,
    /// The identity of the terminator, by which it can be dialed.
    pub terminator: Option<String>,
    pub cost: u16,
    pub precedence: Precedence,
}

impl Offer {
    /// A terminator that is like any other one.
    pub fn new(listener: String) -> Self {
        Self {
            listener,
            terminator: None,
            cost: 0,
            precedence: Precedence::Default,
        }
    }
}

/// What an identity may do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    Dial,
    Bind,
}

impl Right {
    /// In requests and answers.
    fn name(self) -> &'static str {
        match self {
            Self::Dial => "Dial",
            Self::Bind => "Bind",
        }
    }

    /// For people.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Bind => "host",
        }
    }
}

impl Service {
    /// Whether the identity that sees the service may do this with it.
    pub fn grants(&self, right: Right) -> bool {
        self.permissions.iter().any(|one| one == right.name())
    }
}

/// Why a log-in, a dial or a binding failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the identity needs a second factor: {0}")]
    SecondFactor(String),
    #[error(
        "the identity file holds no certificate, and other ways to log in are not supported yet"
    )]
    NoCertificate,
    #[error("there is no service {0} that the identity may use")]
    NoService(String),
    #[error("the identity may not {right} the service {service}")]
    NoRight {
        right: &'static str,
        service: String,
    },
    #[error(transparent)]
    Router(#[from] RouterError),
    #[error("{service}: {error}")]
    Dial { service: String, error: DialError },
}

impl SessionError {
    /// Whether the session for the service, or the API session below it, may have ended.
    fn may_be_outdated(&self) -> bool {
        match self {
            Self::Dial { error, .. } => error.may_be_outdated(),
            // Routers refuse a channel of an API session that has ended.
            Self::Router(_) => true,
            _ => false,
        }
    }
}

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

/// The answer to a log-in.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoggedIn {
    token: String,
    #[serde(default, deserialize_with = "or_default")]
    auth_queries: Vec<AuthQuery>,
    identity: Named,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) identity_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) authenticator_id: String,
    /// How long the session lives without a request.
    #[serde(default, deserialize_with = "or_default")]
    expiration_seconds: u64,
    #[serde(default, deserialize_with = "or_default")]
    is_cert_extendable: bool,
    #[serde(default, deserialize_with = "or_default")]
    is_cert_extend_requested: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) is_cert_key_roll_requested: bool,
}

/// What a log-in still wants.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthQuery {
    #[serde(default, deserialize_with = "or_default")]
    type_id: String,
}

#[derive(Clone, Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
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

    fn token(&self) -> String {
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

    /// Keeps the API session alive, the certificate valid and the posture known, for as long as
    /// this is awaited.
    pub async fn keep_alive(&self) {
        let keeping = async {
            self.renew_certificate().await;
            loop {
                let life = self.0.login.lock().expiration_seconds;
                sleep(Duration::from_secs((life / 2).clamp(10, 300))).await;
                if let Err(error) = self.refresh().await {
                    tracing::warn!(%error, "the API session could not be renewed");
                }
            }
        };
        let reporting = async {
            loop {
                sleep(POSTURE).await;
                if let Err(error) = self.report_posture().await {
                    tracing::debug!(%error, "the posture could not be reported");
                }
            }
        };
        tokio::join!(keeping, reporting);
    }

    /// Renews the API session, and the certificate of the identity if that is due.
    ///
    /// # Errors
    /// What a request can fail with.
    pub async fn refresh(&self) -> Result<(), SessionError> {
        let login: LoggedIn = self.ask(Method::GET, "/current-api-session", None).await?;
        {
            let mut present = self.0.login.lock();
            if present.token == login.token {
                *present = login;
            }
        }
        self.renew_certificate().await;
        Ok(())
    }

    /// Renews the certificate of the identity if that is due. A failure is logged once an hour.
    async fn renew_certificate(&self) {
        let (identity, login) = (self.0.identity.lock().clone(), self.0.login.lock().clone());
        let Some(leaf) = identity.certificate().and_then(|own| own.leaf()) else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed());
        let is_due = login.is_cert_extend_requested
            || login.is_cert_key_roll_requested
            || renewal::is_due(leaf, now);
        let is_paused = self
            .0
            .renewal_pause
            .lock()
            .is_some_and(|end| end > Instant::now());
        if !is_due || is_paused {
            return;
        }
        let renewed = match &self.0.options.file {
            _ if !login.is_cert_extendable => {
                Err("the controller does not renew certificates of its authority".to_owned())
            }
            None => Err("its file is not known".to_owned()),
            Some(file) => renewal::renew(self, &login, &identity, file)
                .await
                .map_err(|error| error.to_string()),
        };
        let renewed = renewed.and_then(|renewed| match renewed {
            Some(renewed) => self.take(&renewed).map_err(|error| error.to_string()),
            None => Ok(()),
        });
        match renewed {
            Ok(()) => tracing::info!(identity = %self.identity(), "the certificate is renewed"),
            Err(error) => {
                *self.0.renewal_pause.lock() = Some(Instant::now() + AFTER_RENEWAL);
                let end = leaf.not_after();
                let identity = self.identity();
                tracing::warn!(%identity, %error, end, "the certificate is not renewed");
            }
        }
    }

    /// Uses an identity with another certificate from now on. Open channels stay.
    fn take(&self, identity: &IdentityFile) -> Result<(), RequestError> {
        *self.0.controller.lock() = Controller::of(identity)?;
        self.0.routers.set_tls(tls(identity)?);
        *self.0.identity.lock() = identity.clone();
        let mut login = self.0.login.lock();
        login.is_cert_extend_requested = false;
        login.is_cert_key_roll_requested = false;
        Ok(())
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

    /// Dials a service, or one of its terminators by its identity. A session that has ended is
    /// replaced once.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn dial(
        &self,
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let first = self.dial_once(service, terminator, app_data).await;
        match first {
            Err(error) if error.may_be_outdated() => {
                self.forget_session(service, Right::Dial);
                self.dial_once(service, terminator, app_data).await
            }
            other => other,
        }
    }

    /// The edge routers over which a service can be dialed, as far as they are online.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn routers(&self, service: &Service) -> Result<Vec<EdgeRouter>, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        let online = session
            .edge_routers
            .iter()
            .filter(|one| one.address().is_some());
        Ok(online.cloned().collect())
    }

    async fn dial_once(
        &self,
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        self.dial_over(&session.edge_routers, service, terminator, app_data)
            .await
    }

    /// Dials a service over one of these routers.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn dial_over(
        &self,
        routers: &[EdgeRouter],
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        let (_, channel) = self.channel(routers).await?;
        let caller = self.identity();
        let dial = Dial {
            session: &session.token,
            caller: &caller,
            is_encrypted: service.encryption_required,
            terminator,
            app_data,
            patience: PATIENCE,
        };
        let dialed = Connection::dial(&channel, &dial).await;
        dialed.map_err(|error| SessionError::Dial {
            service: service.name.clone(),
            error,
        })
    }

    /// Offers a terminator of a service at one router, which is none of those in `taken`. Returns
    /// the address of that router as well.
    ///
    /// # Errors
    /// [`SessionError`]. [`RouterError::AllTaken`] if every router of the service is taken.
    pub async fn bind(
        &self,
        service: &Service,
        offer: &Offer,
        taken: &HashSet<String>,
    ) -> Result<(Binding, String), SessionError> {
        let session = self.service_session(service, Right::Bind).await?;
        let free: Vec<EdgeRouter> = session
            .edge_routers
            .iter()
            .filter(|router| router.address().is_some_and(|one| !taken.contains(one)))
            .cloned()
            .collect();
        if free.is_empty() && !taken.is_empty() {
            return Err(RouterError::AllTaken.into());
        }
        let (address, channel) = self.channel(&free).await?;
        let bind = Bind {
            session: &session.token,
            is_encrypted: service.encryption_required,
            terminator: offer.terminator.as_deref(),
            cost: offer.cost,
            precedence: offer.precedence,
            listener: &offer.listener,
        };
        let bound = Binding::bind(&channel, &bind).await;
        bound
            .map(|binding| (binding, address))
            .map_err(|error| SessionError::Dial {
                service: service.name.clone(),
                error,
            })
    }

    /// An open channel to one of these routers, or a new one to the first that answers; with the
    /// address of the router.
    pub(crate) async fn channel(
        &self,
        routers: &[EdgeRouter],
    ) -> Result<(String, Channel), SessionError> {
        Ok(self.0.routers.channel(routers, &self.token()).await?)
    }
}

/// A description of this machine, for administrators.
fn environment() -> Json {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    json!({
        "os": text(name.sysname()).to_ascii_lowercase(),
        "osRelease": text(name.release()),
        "osVersion": text(name.version()),
        "arch": text(name.machine()),
        "hostname": text(name.nodename()),
    })
}

/// A value in a query.
fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
