//! A controller with a router, a dialing and a hosting identity, and a service without end-to-end
//! encryption.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::json;
use tokio::{net::TcpStream, runtime::Runtime};
use tokio_rustls::TlsConnector;
use wire::frame::Builder;

use super::{
    controller::{self, BY_CERTIFICATE, CLIENT, Controller, MANAGEMENT},
    elsewhere::{GoRouter, go_controller},
    floor::Plain,
    sdk::{Conn, Host, Options, PATIENCE, Sdk, key, kind},
    wire::{Manner, Wire},
};

/// The controller, the relay and the identities.
pub struct Stage {
    pub runtime: Runtime,
    /// The router; without one, the controller's own.
    router: Option<GoRouter>,
    pub controller: Controller,
    pub plain: Plain,
    pub dialer: User,
    pub host: User,
}

/// An identity that is logged in and has sessions for services.
pub struct User {
    tls: Arc<ClientConfig>,
    /// The token of its API session, and its header line.
    token: String,
    pub head: String,
    sessions: Vec<Sessions>,
}

/// The tokens of the sessions of one identity for one service.
struct Sessions {
    to_dial: String,
    to_host: String,
}

impl Stage {
    pub fn new(directory: &Path) -> Self {
        Self::on(Self::controller(directory), None)
    }

    fn controller(directory: &Path) -> Controller {
        // The idle channels are all of one identity.
        Controller::start(
            directory,
            &[("OVERKEEP_ROUTER_MAX_CHANNELS_PER_IDENTITY", "1000000")],
        )
    }

    /// Kills the controller and starts it again on its file, which is in this directory.
    pub fn restarted(self, directory: &Path) -> Self {
        drop(self.controller);
        Self {
            controller: Self::controller(directory),
            ..self
        }
    }

    /// With a Go router instead of the controller's own; `program` is its executable.
    pub fn elsewhere(directory: &Path, program: &Path) -> Self {
        let controller = Controller::start(directory, &[("OVERKEEP_ROUTER_ENABLED", "false")]);
        let router = GoRouter::start(&controller, directory, program);
        Self::on(controller, Some(router))
    }

    /// With a Go controller and its router; `program` is the executable of both.
    pub fn of_go(directory: &Path, program: &Path) -> Self {
        let (controller, router) = go_controller(directory, program);
        Self::on(controller, Some(router))
    }

    fn on(controller: Controller, router: Option<GoRouter>) -> Self {
        for right in ["Dial", "Bind"] {
            let policy = json!({ "name": right, "type": right, "semantic": "AnyOf", "identityRoles": ["#all"], "serviceRoles": ["#all"] });
            controller.create("/service-policies", &policy);
        }
        let services = [service(&controller, "measured")];
        let [dialer, host] = ["dialer", "host"].map(|name| User::new(&controller, name, &services));
        Self {
            runtime: Runtime::new().unwrap(),
            router,
            controller,
            plain: Plain::start(),
            dialer,
            host,
        }
    }

    /// A further identity that dials and hosts so many services of its own.
    pub fn other(&self, name: &str, services: usize) -> User {
        let services: Vec<String> = (0..services)
            .map(|number| service(&self.controller, &format!("{name} {number}")))
            .collect();
        User::new(&self.controller, name, &services)
    }

    /// The process id of the router.
    pub fn router(&self) -> u32 {
        self.router
            .as_ref()
            .map_or(self.controller.id(), |router| router.process.id())
    }

    /// The address of the router.
    fn at(&self) -> SocketAddr {
        self.router
            .as_ref()
            .map_or(self.controller.at, |router| router.at)
    }

    /// A channel of a user.
    pub async fn channel(&self, user: &User) -> Sdk {
        self.try_channel(user).await.unwrap()
    }

    /// The same; none if the connection is closed before the channel is open.
    pub async fn try_channel(&self, user: &User) -> Option<Sdk> {
        let at = self.at();
        let tcp = TcpStream::connect(at).await.ok()?;
        tcp.set_nodelay(true).ok()?;
        let stream = TlsConnector::from(user.tls.clone())
            .connect(ServerName::IpAddress(at.ip().into()), tcp)
            .await
            .ok()?;
        Sdk::connect(stream, &user.token, Options::GO).await.ok()
    }

    /// A channel that hosts the service.
    pub async fn hosting(&self) -> Host {
        let host = self
            .channel(&self.host)
            .await
            .host(&self.host.sessions[0].to_host)
            .await
            .unwrap();
        // The Go router answers before the controller knows the terminator.
        self.terminators(true).await;
        host
    }

    /// Unbinds the only host, so that the next circuits go to another one. Open circuits stay.
    pub async fn unbind(&self, host: &Host) {
        // The Go router does not answer; its terminator is gone when the controller has heard of
        // it.
        host.sdk
            .send(
                Builder::new(kind::UNBIND)
                    .u32(key::CONNECTION, host.id)
                    .body(host.token.as_bytes()),
            )
            .await
            .unwrap();
        self.terminators(false).await;
    }

    /// Waits until the service has a terminator, or none.
    async fn terminators(&self, expected: bool) {
        let start = Instant::now();
        while self.has_terminators() != expected {
            assert!(
                start.elapsed() < PATIENCE,
                "a terminator is there: {}",
                !expected
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The bytes that are queued for channels.
    pub fn queued_bytes(&self) -> f64 {
        let path = "/overkeep/v1/channels?limit=500";
        let answer = self
            .controller
            .open()
            .ask("GET", path, &self.controller.admin, "")
            .expect("a list");
        let list: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        list["data"]
            .as_array()
            .expect("channels")
            .iter()
            .filter_map(|channel| channel["queuedBytes"].as_f64())
            .sum()
    }

    fn has_terminators(&self) -> bool {
        let path = format!("{MANAGEMENT}/terminators?limit=1");
        let answer = self
            .controller
            .open()
            .ask("GET", &path, &self.controller.admin, "")
            .expect("a list");
        let list: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        list["meta"]["pagination"]["totalCount"] != 0
    }

    /// Both ends of a new circuit: the dialer's and the host's.
    pub async fn circuit(&self, dialer: &Sdk, host: &mut Host) -> (Conn, Conn) {
        let (dialed, accepted) = tokio::join!(self.dial(dialer), host.accept());
        (dialed, accepted)
    }

    /// Dials the service; the caller accepts elsewhere.
    pub async fn dial(&self, dialer: &Sdk) -> Conn {
        dialer.dial(&self.dialer.sessions[0].to_dial).await.unwrap()
    }

    /// Both ends of a circuit from a user to itself for one of its services, each on a new channel;
    /// none if it does not come about, for example because the router closes a channel.
    pub async fn circuit_of(&self, user: &User, service: usize) -> Option<(Conn, Conn)> {
        let sessions = &user.sessions[service];
        let mut host = self
            .try_channel(user)
            .await?
            .host(&sessions.to_host)
            .await
            .ok()?;
        let dialer = self.try_channel(user).await?;
        let accepting = tokio::spawn(async move { host.accept().await });
        match dialer.dial(&sessions.to_dial).await {
            Ok(dialed) => Some((dialed, accepting.await.ok()?)),
            Err(_) => {
                accepting.abort();
                None
            }
        }
    }
}

/// A service without end-to-end encryption.
fn service(controller: &Controller, name: &str) -> String {
    controller.create(
        "/services",
        &json!({ "name": name, "encryptionRequired": false }),
    )
}

impl User {
    fn new(controller: &Controller, name: &str, services: &[String]) -> Self {
        let (_, manner) = controller.enrolled(name);
        let mut wire = Wire::open(controller.at, &manner).unwrap();
        let head = controller::session(&wire.ask("POST", BY_CERTIFICATE, "", "").unwrap().body);
        let mut session = |service: &String, right: &str| {
            let wanted = json!({ "serviceId": service, "type": right }).to_string();
            let made = wire
                .ask("POST", &format!("{CLIENT}/sessions"), &head, &wanted)
                .unwrap()
                .body;
            let made: serde_json::Value = serde_json::from_slice(&made).unwrap();
            made["data"]["token"]
                .as_str()
                .expect("a session")
                .to_owned()
        };
        let both = |service| Sessions {
            to_dial: session(service, "Dial"),
            to_host: session(service, "Bind"),
        };
        let sessions = services.iter().map(both).collect();
        let token = head.trim_start_matches("zt-session: ").trim().to_owned();
        Self {
            tls: tls(&manner),
            token,
            head,
            sessions,
        }
    }
}

fn tls(manner: &Manner) -> Arc<ClientConfig> {
    manner.tls().clone()
}
