//! A running controller and what belongs to it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use overkeep::{
    clock::Clock,
    config::Config,
    controller::{self, Controller},
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, RootCerts, TlsConfig, TlsConfigBuilder},
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{
    caller::{Base, Caller},
    enrolling::Key,
    fresh, secrets,
};

/// The password of everybody who was made with `TestServer::user`.
pub const PASSWORD: &str = "a-password-of-a-test";

/// A controller in this process, on a file of its own.
pub struct TestServer {
    pub clock: Clock,
    pub admin: Caller,
    pub password: String,
    roots: Arc<Vec<Certificate<'static>>>,
    // Ends before its directory does.
    controller: Controller,
    directory: Option<TempDir>,
}

/// Somebody at the management interface of a controller that a test started itself.
pub fn trusting(url: &str) -> Caller {
    let url: Arc<str> = url.into();
    let roots = Arc::new(authorities(&url));
    Caller { agent: agent(&roots, None), url, base: Base::Management, token: None }
}

impl TestServer {
    /// With the host's clock and the settings of tests.
    pub fn start() -> Self {
        Self::with(Clock::system(), |_| ())
    }

    /// With a clock that stands still until it is moved.
    pub fn standing_still() -> Self {
        Self::with(Clock::manual(Clock::system().now()), |_| ())
    }

    /// With a clock and settings of its own.
    pub fn with(clock: Clock, adapt: impl FnOnce(&mut Config)) -> Self {
        Self::on(TempDir::new().unwrap(), None, clock, adapt)
    }

    /// With the built-in router, which other controllers of tests do without.
    pub fn with_router() -> Self {
        Self::with(Clock::system(), |config| config.router.enabled = true)
    }

    /// Stops it and starts another one on its file, with other settings.
    pub fn restarted(mut self, adapt: impl FnOnce(&mut Config)) -> Self {
        let (clock, password, directory) = (self.clock.clone(), self.password.clone(), self.directory.take().unwrap());
        drop(self);
        Self::on(directory, Some(password), clock, adapt)
    }

    /// Starts another one on a copy of its file as it is now, as if this one had been killed.
    pub fn killed(&self, adapt: impl FnOnce(&mut Config)) -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::copy(self.data(), directory.path().join("data")).unwrap();
        Self::on(directory, Some(self.password.clone()), self.clock.clone(), adapt)
    }

    fn on(directory: TempDir, password: Option<String>, clock: Clock, adapt: impl FnOnce(&mut Config)) -> Self {
        secrets::listen();
        let mut config =
            Config { data: directory.path().join("data"), listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), ..Config::default() };
        config.passwords.cost = 10;
        config.http.workers = 2;
        config.router.enabled = false;
        adapt(&mut config);
        config.check().unwrap();
        let controller = controller::start(&config, clock.clone()).unwrap_or_else(|e| panic!("{e}"));
        let url: Arc<str> = format!("https://{}", controller.bound()).into();
        let password = password.unwrap_or_else(|| controller.generated_password().unwrap().to_owned());
        controller.password_was_seen().unwrap();
        let roots = Arc::new(authorities(&url));
        let nobody = Caller { agent: agent(&roots, None), url, base: Base::Management, token: None };
        let admin = nobody.log_in("admin", &password);
        Self { clock, admin, password, roots, controller, directory: Some(directory) }
    }

    /// Takes the file's name away: it stays open, and is gone however the process ends.
    pub fn unnamed(mut self) -> Self {
        drop(self.directory.take());
        self
    }

    /// Its clients look at no certificate of its: they go by the clock of the machine, and its own may be moved by years.
    pub fn unverified(mut self) -> Self {
        self.roots = Arc::default();
        self.admin.agent = agent(&self.roots, None);
        self
    }

    /// Where it listens.
    pub fn bound(&self) -> SocketAddr {
        self.controller.bound()
    }

    /// Where it serves metrics.
    pub fn metrics_bound(&self) -> SocketAddr {
        self.controller.metrics_bound().unwrap()
    }

    /// The edge router inside.
    pub fn router(&self) -> &overkeep::network::Router {
        self.controller.router()
    }

    /// Its data file.
    pub fn data(&self) -> PathBuf {
        self.directory.as_ref().unwrap().path().join("data")
    }

    /// Does what the controller does every few seconds.
    pub fn look_after(&self) {
        self.controller.look_after();
    }

    /// Ends it. Answers the directory with its file, `data`.
    pub fn closed(mut self) -> TempDir {
        self.directory.take().unwrap()
    }

    /// Somebody without a session, at the client interface.
    pub fn nobody(&self) -> Caller {
        Caller { token: None, base: Base::Client, ..self.admin.clone() }
    }

    /// Somebody whose connections show a certificate. `chain` is PEM, the leaf first.
    pub fn bearer(&self, chain: &str, key: &Key) -> Caller {
        let certificates: Vec<Certificate<'static>> =
            blocks(chain).iter().map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap()).collect();
        let own = ClientCert::new_with_certs(&certificates, key.private());
        Caller { agent: agent(&self.roots, Some(own)), ..self.nobody() }
    }

    /// A new identity; `more` goes into its body. Answers the id.
    pub fn identity(&self, name: &str, more: Json) -> String {
        let mut body = json!({ "name": name, "type": "Device", "isAdmin": false });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.admin.post("/identities", body).expect(201).id()
    }

    /// A new identity that is logged in by password, at the client interface, and its id.
    pub fn user(&self, name: &str, more: Json) -> (String, Caller) {
        let id = self.identity(name, more);
        self.give_password(&id, name);
        (id, self.nobody().log_in(name, PASSWORD))
    }

    /// Gives an identity the password that all have here.
    pub fn give_password(&self, identity: &str, username: &str) {
        let body = json!({ "method": "updb", "identityId": identity, "username": username, "password": PASSWORD });
        self.admin.post("/authenticators", body).expect(201);
    }

    /// Logs somebody in who was made with `TestServer::user`.
    pub fn again(&self, name: &str) -> Caller {
        self.nobody().log_in(name, PASSWORD)
    }

    /// A new service. Answers the id.
    pub fn service(&self, name: &str, more: Json) -> String {
        let mut body = json!({ "name": name, "encryptionRequired": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.admin.post("/services", body).expect(201).id()
    }

    /// A new service policy, and its id.
    pub fn service_policy(&self, right: &str, identities: &[&str], services: &[&str]) -> String {
        let name = fresh("service-policy");
        let body = json!({ "name": name, "type": right, "semantic": "AnyOf", "identityRoles": identities, "serviceRoles": services });
        self.admin.post("/service-policies", body).expect(201).id()
    }

    /// A new edge router over which an identity reaches a service, and its id.
    pub fn router_between(&self, identity: &str, service: &str) -> String {
        let id = self.admin.post("/edge-routers", json!({ "name": fresh("router") })).expect(201).id();
        self.open_to(identity, service, &id);
        id
    }

    /// Lets an identity reach a service over an edge router.
    pub fn open_to(&self, identity: &str, service: &str, router: &str) {
        self.over(identity, router);
        self.router_policy("/service-edge-router-policies", "serviceRoles", service, router);
    }

    /// Lets an identity use an edge router.
    pub fn over(&self, identity: &str, router: &str) {
        self.router_policy("/edge-router-policies", "identityRoles", identity, router);
    }

    fn router_policy(&self, path: &str, member: &str, other: &str, router: &str) {
        let roles = |id: &str| json!([format!("@{id}")]);
        let body = json!({ "name": fresh("router-policy"), "semantic": "AnyOf", "edgeRouterRoles": roles(router), member: roles(other) });
        self.admin.post(path, body).expect(201);
    }

    /// Deletes every policy that lets services use edge routers.
    pub fn close_routers(&self) {
        let policies = self.admin.get("/service-edge-router-policies?limit=500").expect(200);
        for policy in policies.data().as_array().unwrap() {
            self.admin.delete(&format!("/service-edge-router-policies/{}", policy["id"].as_str().unwrap())).expect(200);
        }
    }
}

/// Connections of somebody who trusts `roots`, or whomever, if there are none.
fn agent(roots: &Arc<Vec<Certificate<'static>>>, own: Option<ClientCert>) -> Agent {
    let tls = tls().root_certs(RootCerts::Specific(roots.clone())).disable_verification(roots.is_empty()).client_cert(own);
    agent_over(tls.build())
}

fn tls() -> TlsConfigBuilder {
    TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
}

fn agent_over(tls: TlsConfig) -> Agent {
    let config = Agent::config_builder().tls_config(tls).http_status_as_error(false).allow_non_standard_methods(true);
    config.timeout_global(Some(Duration::from_secs(60))).build().into()
}

/// The authorities of the controller at `url`, as a client fetches them before it can trust anything.
fn authorities(url: &Arc<str>) -> Vec<Certificate<'static>> {
    let anybody = agent_over(tls().disable_verification(true).build());
    let anybody = Caller { agent: anybody, url: url.clone(), base: Base::Client, token: None };
    let found = listed(&anybody.get("/.well-known/est/cacerts").expect(200).text);
    found.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
}

/// The authorities in the text of `/.well-known/est/cacerts`.
pub fn listed(text: &str) -> Vec<CertificateDer<'static>> {
    let text: String = text.split_whitespace().collect();
    let der = STANDARD.decode(text).unwrap();
    let found: Vec<_> = certificates(&der).into_iter().map(|der| CertificateDer::from(der.to_vec())).collect();
    assert!(!found.is_empty(), "no certificate in the answer");
    found
}

/// The certificates somewhere in a structure, one behind the other.
fn certificates(mut der: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !der.is_empty() {
        match X509Certificate::from_der(der) {
            Ok((rest, _)) => {
                found.push(&der[..der.len() - rest.len()]);
                der = rest;
            }
            Err(_) => der = &der[1..],
        }
    }
    found
}

/// The blocks of a PEM text.
fn blocks(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END).filter(|block| block.contains(END)).map(str::to_owned).collect()
}
