//! A running controller and helpers for records.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use model::{clock::Clock, config::Config};
use overkeep::testing::controller::{self, Controller};
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

/// The password of every identity made with `TestServer::user`.
pub const PASSWORD: &str = "a-password-of-a-test";

/// A controller in this process, with a data file of its own.
pub struct TestServer {
    pub clock: Clock,
    pub admin: Caller,
    pub password: String,
    roots: Arc<Vec<Certificate<'static>>>,
    // Dropped before its directory.
    controller: Controller,
    directory: Option<TempDir>,
}

/// A caller at the management interface of a controller that a test started itself. Its certificate
/// authorities are fetched from `url`.
pub fn trusting(url: &str) -> Caller {
    let url: Arc<str> = url.into();
    let roots = Arc::new(authorities(&url));
    Caller {
        agent: agent(&roots, None),
        url,
        base: Base::Management,
        token: None,
    }
}

impl TestServer {
    /// With the system clock and the settings of tests.
    pub fn start() -> Self {
        Self::with(Clock::system(), |_| ())
    }

    /// With a clock that moves only when a test sets it.
    pub fn with_manual_clock() -> Self {
        Self::with(Clock::manual(Clock::system().now()), |_| ())
    }

    /// With this clock, after `adapt` changed the settings.
    pub fn with(clock: Clock, adapt: impl FnOnce(&mut Config)) -> Self {
        Self::on(TempDir::new().unwrap(), None, clock, adapt)
    }

    /// With the built-in router, which is disabled in other test controllers.
    pub fn with_router() -> Self {
        Self::with(Clock::system(), |config| config.router.enabled = true)
    }

    /// Stops it and starts another controller on its file, with other settings.
    pub fn restarted(mut self, adapt: impl FnOnce(&mut Config)) -> Self {
        let (clock, password, directory) = (
            self.clock.clone(),
            self.password.clone(),
            self.directory.take().unwrap(),
        );
        drop(self);
        Self::on(directory, Some(password), clock, adapt)
    }

    /// Starts another controller on a copy of its current file, as if this one had been killed.
    pub fn killed(&self, adapt: impl FnOnce(&mut Config)) -> Self {
        Self::on_copy(&self.data(), &self.password, self.clock.clone(), adapt)
    }

    /// On a copy of a data file or snapshot, with its administrator's password.
    pub fn on_copy(
        file: &Path,
        password: &str,
        clock: Clock,
        adapt: impl FnOnce(&mut Config),
    ) -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::copy(file, directory.path().join("data")).unwrap();
        Self::on(directory, Some(password.to_owned()), clock, adapt)
    }

    fn on(
        directory: TempDir,
        password: Option<String>,
        clock: Clock,
        adapt: impl FnOnce(&mut Config),
    ) -> Self {
        secrets::scan_log();
        let mut config = Config {
            data: directory.path().join("data"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
            ..Config::default()
        };
        config.passwords.cost = 10;
        config.http.workers = 2;
        config.router.enabled = false;
        adapt(&mut config);
        config.check().unwrap();
        let controller =
            controller::start(&config, clock.clone()).unwrap_or_else(|e| panic!("{e}"));
        let url: Arc<str> = format!("https://{}", controller.bound()).into();
        let password =
            password.unwrap_or_else(|| controller.generated_password().unwrap().to_owned());
        controller.password_was_seen().unwrap();
        let roots = Arc::new(authorities(&url));
        let anonymous = Caller {
            agent: agent(&roots, None),
            url,
            base: Base::Management,
            token: None,
        };
        let admin = anonymous.log_in("admin", &password);
        Self {
            clock,
            admin,
            password,
            roots,
            controller,
            directory: Some(directory),
        }
    }

    /// Removes the file's name. The open file stays usable and is freed when the process ends,
    /// however it ends.
    pub fn unlinked(mut self) -> Self {
        drop(self.directory.take());
        self
    }

    /// Its clients do not verify its certificate: they use the system clock, and the test may move
    /// the controller's clock by years.
    pub fn unverified(mut self) -> Self {
        self.roots = Arc::default();
        self.admin.agent = agent(&self.roots, None);
        self
    }

    /// The address of its listener.
    pub fn bound(&self) -> SocketAddr {
        self.controller.bound()
    }

    /// The address of its metrics listener.
    pub fn metrics_bound(&self) -> SocketAddr {
        self.controller.metrics_bound().unwrap()
    }

    /// The address where only remote routers connect.
    pub fn control_bound(&self) -> SocketAddr {
        self.controller.control_bound().unwrap()
    }

    /// The built-in edge router.
    pub fn router(&self) -> &fabric::built_in_router::Router {
        self.controller.router()
    }

    /// Its data file.
    pub fn data(&self) -> PathBuf {
        self.directory.as_ref().unwrap().path().join("data")
    }

    /// Runs the periodic work that is due.
    pub fn run_due_jobs(&self) {
        self.controller.run_due_jobs();
    }

    /// Stops it. Returns the directory with its file, `data`.
    pub fn closed(mut self) -> TempDir {
        self.directory.take().unwrap()
    }

    /// A caller without a session, at the client interface.
    pub fn anonymous(&self) -> Caller {
        Caller {
            token: None,
            base: Base::Client,
            ..self.admin.clone()
        }
    }

    /// A caller without a session whose connections present a certificate. `chain` is PEM, the leaf
    /// first.
    pub fn with_certificate(&self, chain: &str, key: &Key) -> Caller {
        let certificates: Vec<Certificate<'static>> = blocks(chain)
            .iter()
            .map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap())
            .collect();
        let own = ClientCert::new_with_certs(&certificates, key.private());
        Caller {
            agent: agent(&self.roots, Some(own)),
            ..self.anonymous()
        }
    }

    /// Creates an identity with the members of `more`. Returns its id.
    pub fn identity(&self, name: &str, more: Json) -> String {
        let mut body = json!({ "name": name, "type": "Device", "isAdmin": false });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.admin.post("/identities", body).expect(201).id()
    }

    /// A new identity that is logged in by password, at the client interface, and its id.
    pub fn user(&self, name: &str, more: Json) -> (String, Caller) {
        let id = self.identity(name, more);
        self.give_password(&id, name);
        (id, self.anonymous().log_in(name, PASSWORD))
    }

    /// Gives an identity the password of all test users.
    pub fn give_password(&self, identity: &str, username: &str) {
        let body = json!({ "method": "updb", "identityId": identity, "username": username, "password": PASSWORD });
        self.admin.post("/authenticators", body).expect(201);
    }

    /// Logs in an identity that was made with `TestServer::user`.
    pub fn log_in_again(&self, name: &str) -> Caller {
        self.anonymous().log_in(name, PASSWORD)
    }

    /// Creates a service with the members of `more`. Returns its id.
    pub fn service(&self, name: &str, more: Json) -> String {
        let mut body = json!({ "name": name, "encryptionRequired": true });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.admin.post("/services", body).expect(201).id()
    }

    /// Creates a service policy. Returns its id.
    pub fn service_policy(&self, right: &str, identities: &[&str], services: &[&str]) -> String {
        let name = fresh("service-policy");
        let body = json!({ "name": name, "type": right, "semantic": "AnyOf", "identityRoles": identities, "serviceRoles": services });
        self.admin.post("/service-policies", body).expect(201).id()
    }

    /// Creates an edge router over which an identity reaches a service. Returns its id.
    pub fn router_between(&self, identity: &str, service: &str) -> String {
        let id = self
            .admin
            .post("/edge-routers", json!({ "name": fresh("router") }))
            .expect(201)
            .id();
        self.allow_service_over(identity, service, &id);
        id
    }

    /// Lets an identity reach a service over an edge router.
    pub fn allow_service_over(&self, identity: &str, service: &str, router: &str) {
        self.allow_router(identity, router);
        self.router_policy(
            "/service-edge-router-policies",
            "serviceRoles",
            service,
            router,
        );
    }

    /// Lets an identity use an edge router.
    pub fn allow_router(&self, identity: &str, router: &str) {
        self.router_policy("/edge-router-policies", "identityRoles", identity, router);
    }

    fn router_policy(&self, path: &str, member: &str, other: &str, router: &str) {
        let roles = |id: &str| json!([format!("@{id}")]);
        let body = json!({ "name": fresh("router-policy"), "semantic": "AnyOf", "edgeRouterRoles": roles(router), member: roles(other) });
        self.admin.post(path, body).expect(201);
    }

    /// Deletes every service edge router policy.
    pub fn close_routers(&self) {
        let policies = self
            .admin
            .get("/service-edge-router-policies?limit=500")
            .expect(200);
        for policy in policies.data().as_array().unwrap() {
            self.admin
                .delete(&format!(
                    "/service-edge-router-policies/{}",
                    policy["id"].as_str().unwrap()
                ))
                .expect(200);
        }
    }
}

/// Connections that trust `roots`, or any certificate if there are none.
fn agent(roots: &Arc<Vec<Certificate<'static>>>, own: Option<ClientCert>) -> Agent {
    let tls = tls()
        .root_certs(RootCerts::Specific(roots.clone()))
        .disable_verification(roots.is_empty())
        .client_cert(own);
    agent_over(tls.build())
}

fn tls() -> TlsConfigBuilder {
    TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
}

fn agent_over(tls: TlsConfig) -> Agent {
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .allow_non_standard_methods(true);
    config
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into()
}

/// The authorities of the controller at `url`, fetched without verification as a new client does.
fn authorities(url: &Arc<str>) -> Vec<Certificate<'static>> {
    let unverifying = agent_over(tls().disable_verification(true).build());
    let unverifying = Caller {
        agent: unverifying,
        url: url.clone(),
        base: Base::Client,
        token: None,
    };
    let found = listed(&unverifying.get("/.well-known/est/cacerts").expect(200).text);
    found
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect()
}

/// The authorities in the text of `/.well-known/est/cacerts`.
pub fn listed(text: &str) -> Vec<CertificateDer<'static>> {
    let text: String = text.split_whitespace().collect();
    let der = STANDARD.decode(text).unwrap();
    let found: Vec<_> = certificates(&der)
        .into_iter()
        .map(|der| CertificateDer::from(der.to_vec()))
        .collect();
    assert!(!found.is_empty(), "no certificate in the answer");
    found
}

/// The certificates anywhere in a DER structure.
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
    pem.split_inclusive(END)
        .filter(|block| block.contains(END))
        .map(str::to_owned)
        .collect()
}
