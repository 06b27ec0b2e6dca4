//! The log-in of an identity: its services, the sessions for them, and the channels to routers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    Binding, Channel, Connection,
    binding::Bind,
    connection::{Dial, DialError},
    controller::{Controller, RequestError, or_default, tls},
    identity_file::IdentityFile,
    routers::{EdgeRouter, RouterError, Routers},
};

/// How long a host may take until it accepts.
const PATIENCE: Duration = Duration::from_secs(15);

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
}

/// What an identity may do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    fn verb(self) -> &'static str {
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
    #[error("the identity needs a second factor, which is not supported yet")]
    SecondFactor,
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
    controller: Controller,
    has_certificate: bool,
    routers: Routers,
    login: Mutex<LoggedIn>,
    /// Held during a log-in, so that several callers log in once.
    logging_in: AsyncMutex<()>,
    /// The sessions for services that are dialed, by the id of the service.
    dial_sessions: Mutex<HashMap<String, Arc<ServiceSession>>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedIn {
    token: String,
    #[serde(default, deserialize_with = "or_default")]
    auth_queries: Vec<Json>,
    identity: Named,
    /// How long the session lives without a request.
    #[serde(default, deserialize_with = "or_default")]
    expiration_seconds: u64,
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
        let session = Self(Arc::new(Inner {
            controller: Controller::of(identity)?,
            has_certificate: identity.certificate().is_some(),
            routers: Routers::new(tls(identity)?),
            login: Mutex::default(),
            logging_in: AsyncMutex::default(),
            dial_sessions: Mutex::default(),
        }));
        session.renew("").await?;
        Ok(session)
    }

    /// The name of the identity.
    pub fn identity(&self) -> String {
        self.0.login.lock().identity.name.clone()
    }

    fn token(&self) -> String {
        self.0.login.lock().token.clone()
    }

    /// Logs in again, unless somebody else has done so since `former` was the token.
    async fn renew(&self, former: &str) -> Result<(), SessionError> {
        let _one = self.0.logging_in.lock().await;
        if self.token() != former {
            return Ok(());
        }
        if !self.0.has_certificate {
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
        let controller = &self.0.controller;
        let login: LoggedIn = controller
            .ask(Method::POST, path, None, Some(about))
            .await?;
        let is_complete = login.auth_queries.is_empty();
        *self.0.login.lock() = login;
        if !is_complete {
            self.log_out().await;
            return Err(SessionError::SecondFactor);
        }
        self.0.dial_sessions.lock().clear();
        self.0.routers.forget();
        Ok(())
    }

    /// Asks with the token of the session; once more after a new log-in if it has ended.
    async fn ask<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        body: Option<Json>,
    ) -> Result<T, SessionError> {
        let controller = &self.0.controller;
        let token = self.token();
        let (first, again) = (method.clone(), body.clone());
        match controller.ask(first, path, Some(&token), body).await {
            Err(error) if error.is_of_session() => {
                self.renew(&token).await?;
                let token = self.token();
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
        let (controller, token) = (&self.0.controller, self.token());
        let path = "/current-api-session";
        let ended = controller.ask::<Json>(Method::DELETE, path, Some(&token), None);
        if let Err(error) = ended.await {
            tracing::debug!(%error, "the API session could not be ended");
        }
    }

    /// Keeps the API session alive for as long as this is awaited. Each request renews it.
    pub async fn keep_alive(&self) {
        loop {
            let life = self.0.login.lock().expiration_seconds;
            tokio::time::sleep(Duration::from_secs((life / 2).clamp(10, 300))).await;
            let kept = self.ask::<Json>(Method::GET, "/current-api-session", None);
            if let Err(error) = kept.await {
                tracing::warn!(%error, "the API session could not be renewed");
            }
        }
    }

    async fn service_session(
        &self,
        service: &Service,
        right: Right,
    ) -> Result<Arc<ServiceSession>, SessionError> {
        if !service.grants(right) {
            return Err(SessionError::NoRight {
                right: right.verb(),
                service: service.name.clone(),
            });
        }
        let body = json!({ "serviceId": service.id, "type": right.name() });
        let session: ServiceSession = self.ask(Method::POST, "/sessions", Some(body)).await?;
        Ok(Arc::new(session))
    }

    async fn dial_session(&self, service: &Service) -> Result<Arc<ServiceSession>, SessionError> {
        if let Some(known) = self.0.dial_sessions.lock().get(&service.id) {
            return Ok(Arc::clone(known));
        }
        let session = self.service_session(service, Right::Dial).await?;
        let mut sessions = self.0.dial_sessions.lock();
        sessions.insert(service.id.clone(), Arc::clone(&session));
        Ok(session)
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
                self.0.dial_sessions.lock().remove(&service.id);
                self.dial_once(service, terminator, app_data).await
            }
            other => other,
        }
    }

    async fn dial_once(
        &self,
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let session = self.dial_session(service).await?;
        let channel = self.channel(&session.edge_routers).await?;
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

    /// Hosts a service at one router.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn bind(&self, service: &Service, listener: &str) -> Result<Binding, SessionError> {
        let session = self.service_session(service, Right::Bind).await?;
        let channel = self.channel(&session.edge_routers).await?;
        let bind = Bind {
            session: &session.token,
            is_encrypted: service.encryption_required,
            terminator: None,
            cost: 0,
            listener,
        };
        let bound = Binding::bind(&channel, &bind).await;
        bound.map_err(|error| SessionError::Dial {
            service: service.name.clone(),
            error,
        })
    }

    /// An open channel to one of these routers, or a new one to the first that answers.
    async fn channel(&self, routers: &[EdgeRouter]) -> Result<Channel, SessionError> {
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
