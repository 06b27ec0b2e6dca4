//! All steps from an empty file to a delivered message: `cargo run --release --example
//! first_service`.
//!
//! A controller starts in this process on a temporary file. Everything after that is done as from
//! another machine: HTTPS requests, each printed with the essential part of its answer, and at the
//! end two connections to the built-in router, made by the small SDK in `tests/sdk`.

// An example may panic on failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../tests/sdk/mod.rs"]
mod sdk;
#[path = "../benches/common/tls.rs"]
mod tls;

use std::sync::Arc;

use model::{clock::Clock, config::Config};
use overkeep::testing::controller;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject,
};
use sdk::{Host, Options, Sdk, encryption::Keys};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use ureq::{
    Agent,
    http::Request,
    tls::{Certificate, ClientCert, PrivateKey, TlsConfig, parse_pem},
};

const MANAGEMENT: &str = "/edge/management/v1";
const CLIENT: &str = "/edge/client/v1";

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("overkeep.redb");
    let config = Config {
        data,
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        ..Config::default()
    };
    let controller = controller::start(&config, Clock::system()).expect("a controller");
    let password = controller
        .generated_password()
        .expect("a new file has a new password");
    controller
        .password_was_seen()
        .expect("a file that can be written");
    let server = format!("https://{}", controller.advertised());
    println!(
        "A controller runs at {server}, on an empty file. It made up a password for its administrator."
    );

    step(
        "The administrator logs in with it. The session token of the answer goes with every request from here on.",
    );
    let mut admin = Caller::new(&server, None);
    let session = admin.post(
        &format!("{MANAGEMENT}/authenticate?method=password"),
        &json!({ "username": "admin", "password": password }),
        &["/data/identity/name", "/data/expiresAt"],
    );
    admin.token = text(&session, "/data/token");

    step(
        "Somebody is to use a service and somebody is to host it: two identities, each with a one-time enrollment.",
    );
    let [alice, host] = ["alice", "database-host"].map(|name| identity(&admin, name));

    step(
        "Alice's laptop makes a key, which stays there, and trades the one-time token and a certificate request for a certificate.",
    );
    let mut alice = enroll(&admin, &server, &alice);
    let mut host = enroll(&admin, &server, &host);

    step("The service, with a setting for clients: the address that they intercept for it.");
    let services = service(&admin);

    step(
        "Who may do what is said by policies over role attributes: clients dial databases, hosts bind them.",
    );
    policies(&admin);

    step(
        "Traffic runs over edge routers. The controller is one itself: the first start made it, open to everybody and for every service.",
    );
    admin.get(
        &format!("{MANAGEMENT}/edge-routers"),
        &[
            "/data/0/name",
            "/data/0/isOnline",
            "/data/0/supportedProtocols",
        ],
    );

    step(
        "Alice logs in with the certificate of her connection, without a password. So does the host.",
    );
    for caller in [&mut alice, &mut host] {
        let session = caller.post(
            &format!("{CLIENT}/authenticate?method=cert"),
            &json!({ "configTypes": ["all"] }),
            &["/data/identity/name"],
        );
        caller.token = text(&session, "/data/token");
    }

    step("She sees the one service that she may dial, and its setting.");
    alice.get(
        &format!("{CLIENT}/services"),
        &["/data/0/name", "/data/0/permissions", "/data/0/config"],
    );

    step(
        "She opens a session to dial it: what a client library does right before it connects. The host opens one to bind it.",
    );
    let sessions = format!("{CLIENT}/sessions");
    let shown = [
        "/data/type",
        "/data/service/name",
        "/data/id",
        "/data/edgeRouters/0/urls",
    ];
    let dial = alice.post(
        &sessions,
        &json!({ "serviceId": services, "type": "Dial" }),
        &shown,
    );
    let bind = host.post(
        &sessions,
        &json!({ "serviceId": services, "type": "Bind" }),
        &shown,
    );

    step("The administrator sees both sessions.");
    admin.get(
        &format!("{MANAGEMENT}/sessions"),
        &[
            "/meta/pagination/totalCount",
            "/data/0/type",
            "/data/1/type",
        ],
    );

    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(carry(&admin, (&alice, &dial), (&host, &bind)));

    step("Done. Everything is in one file, which goes with this example.");
    controller.stop();
}

/// Creates an identity with a one-time enrollment and returns its id.
fn identity(admin: &Caller, name: &str) -> String {
    let role = if name == "alice" { "clients" } else { "hosts" };
    let new = json!({ "name": name, "type": "Device", "isAdmin": false, "roleAttributes": [role], "enrollment": { "ott": true } });
    text(
        &admin.post(&format!("{MANAGEMENT}/identities"), &new, &["/data/id"]),
        "/data/id",
    )
}

/// Enrolls an identity as its device would; from now on it connects with its certificate.
fn enroll(admin: &Caller, server: &str, identity: &str) -> Caller {
    let shown = admin.get(
        &format!("{MANAGEMENT}/identities/{identity}"),
        &["/data/name", "/data/enrollment/ott/expiresAt"],
    );
    let token = text(&shown, "/data/enrollment/ott/token");
    let key = KeyPair::generate().expect("a key");
    let request = CertificateParams::default()
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .expect("a request");
    let issued = Caller::new(server, None).enroll(&token, &request);
    let chain: Vec<Certificate<'static>> = parse_pem(text(&issued, "/data/cert").as_bytes())
        .filter_map(|item| {
            if let Ok(ureq::tls::PemItem::Certificate(certificate)) = item {
                Some(certificate)
            } else {
                None
            }
        })
        .collect();
    let own = PrivateKey::from_pem(key.serialize_pem().as_bytes()).expect("a key");
    let caller = Caller::new(server, Some(ClientCert::new_with_certs(&chain, own)));
    Caller {
        chain: text(&issued, "/data/cert"),
        key: key.serialize_der(),
        ..caller
    }
}

/// Creates the service and returns its id.
fn service(admin: &Caller) -> String {
    let types = admin.get(
        &format!("{MANAGEMENT}/config-types?filter=name%3D%22intercept.v1%22"),
        &["/data/0/name"],
    );
    let intercept = json!({ "protocols": ["tcp"], "addresses": ["database.internal"], "portRanges": [{ "low": 5432, "high": 5432 }] });
    let config = json!({ "name": "database address", "configTypeId": text(&types, "/data/0/id"), "data": intercept });
    let config = text(
        &admin.post(&format!("{MANAGEMENT}/configs"), &config, &["/data/id"]),
        "/data/id",
    );
    let new = json!({ "name": "database", "encryptionRequired": true, "roleAttributes": ["databases"], "configs": [config] });
    text(
        &admin.post(&format!("{MANAGEMENT}/services"), &new, &["/data/id"]),
        "/data/id",
    )
}

fn policies(admin: &Caller) {
    for (name, right, who) in [
        ("clients dial", "Dial", "#clients"),
        ("hosts bind", "Bind", "#hosts"),
    ] {
        let new = json!({ "name": name, "type": right, "semantic": "AnyOf", "identityRoles": [who], "serviceRoles": ["#databases"] });
        admin.post(
            &format!("{MANAGEMENT}/service-policies"),
            &new,
            &["/data/id"],
        );
    }
}

/// Sends messages from Alice to the host and answers back, encrypted end to end. The ids of
/// accepted connections are assigned by the router for newer libraries, and by the library itself
/// for older ones: both are done.
async fn carry(admin: &Caller, alice: (&Caller, &Value), host: (&Caller, &Value)) {
    step(
        "Both connect to the router that their sessions name. The host hosts the service there: a terminator appears.",
    );
    let (at_host, keys) = (channel(host, Options::GO).await, Keys::new());
    let hosted = at_host
        .host_sealed(&text(host.1, "/data/token"), &keys)
        .await
        .expect("a bind");
    admin.get(
        &format!("{MANAGEMENT}/terminators"),
        &[
            "/data/0/service/name",
            "/data/0/router/name",
            "/data/0/binding",
        ],
    );

    step(
        "Alice dials. Each end has shown the other a public key: the router carries what it cannot read.",
    );
    let (at_alice, token) = (
        channel(alice, Options::GO).await,
        text(alice.1, "/data/token"),
    );
    let mut hosted = ask_and_answer(&at_alice, &token, hosted, &keys).await;

    step("The administrator sees the circuit while it lasts.");
    let (dialed, _accepted) =
        tokio::join!(at_alice.dial_sealed(&token), hosted.accept_sealed(&keys));
    admin.get(
        "/overkeep/v1/circuits",
        &[
            "/data/0/client/identity/name",
            "/data/0/service/name",
            "/data/0/host/identity/name",
        ],
    );
    dialed.expect("a connection").conn.close().await;

    step(
        "The same with older client libraries, which assign the ids of accepted connections themselves.",
    );
    hosted.unbind().await;
    let (at_host, at_alice) = (
        channel(host, Options::C).await,
        channel(alice, Options::C).await,
    );
    let hosted = at_host
        .host_sealed(&text(host.1, "/data/token"), &keys)
        .await
        .expect("a bind");
    ask_and_answer(&at_alice, &token, hosted, &keys).await;
}

/// Alice dials, asks and gets an answer. Returns the host for further connections.
async fn ask_and_answer(at_alice: &Sdk, token: &str, mut hosted: Host, keys: &Keys) -> Host {
    let (dialed, accepted) = tokio::join!(at_alice.dial_sealed(token), hosted.accept_sealed(keys));
    let (mut alice, mut host) = (dialed.expect("a connection"), accepted);
    alice.send(b"select 6 * 7").await;
    let question = String::from_utf8(host.next().await.expect("a message")).expect("text");
    println!("  the host received {question:?}");
    host.send(b"42").await;
    let answer = String::from_utf8(alice.next().await.expect("an answer")).expect("text");
    println!("  alice received {answer:?}");
    assert_eq!((question.as_str(), answer.as_str()), ("select 6 * 7", "42"));
    alice.conn.close().await;
    hosted
}

/// A channel to the router that a session names.
async fn channel((caller, session): (&Caller, &Value), options: Options) -> Sdk {
    let url = text(session, "/data/edgeRouters/0/urls/tls");
    let at: std::net::SocketAddr = url
        .trim_start_matches("tls://")
        .parse()
        .expect("an address");
    let stream = TcpStream::connect(at).await.expect("a connection");
    let chain = CertificateDer::pem_slice_iter(caller.chain.as_bytes())
        .map(|der| der.expect("PEM"))
        .collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(caller.key.clone()));
    let tls = tls::trusting()
        .with_client_auth_cert(chain, key)
        .expect("a certificate and its key");
    let stream = TlsConnector::from(Arc::new(tls))
        .connect(ServerName::from(at.ip()), stream)
        .await
        .expect("a handshake");
    Sdk::connect(stream, &caller.token, options)
        .await
        .expect("a channel")
}

/// A client with a connection, and optionally a certificate and a session.
struct Caller {
    agent: Agent,
    server: String,
    token: String,
    /// The certificate and those above it as PEM, and its key as PKCS#8; empty without one.
    chain: String,
    key: Vec<u8>,
}

impl Caller {
    fn new(server: &str, certificate: Option<ClientCert>) -> Self {
        // This example and its controller are one process, so that nothing is verified. Real
        // clients verify the controller's certificate with the authorities from GET
        // /.well-known/est/cacerts.
        let tls = TlsConfig::builder()
            .disable_verification(true)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .client_cert(certificate)
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .new_agent();
        Self {
            agent,
            server: server.into(),
            token: String::new(),
            chain: String::new(),
            key: Vec::new(),
        }
    }

    fn get(&self, path: &str, essential: &[&str]) -> Value {
        self.send("GET", path, "application/json", String::new(), essential)
    }

    fn post(&self, path: &str, body: &Value, essential: &[&str]) -> Value {
        self.send(
            "POST",
            path,
            "application/json",
            body.to_string(),
            essential,
        )
    }

    fn enroll(&self, token: &str, request: &str) -> Value {
        self.send(
            "POST",
            &format!("{CLIENT}/enroll?method=ott&token={token}"),
            "application/x-pem-file",
            request.into(),
            &[],
        )
    }

    /// Sends a request and prints it with the members of the answer that `essential` points at.
    fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: String,
        essential: &[&str],
    ) -> Value {
        println!("  {method} {path}");
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("content-type", media);
        if !self.token.is_empty() {
            request = request.header("zt-session", &self.token);
        }
        let mut response = self
            .agent
            .run(request.body(body).expect("a request"))
            .expect("an answer");
        let answer: Value = response.body_mut().read_json().expect("JSON");
        let shown = essential.iter().filter_map(|at| {
            Some(format!(
                "{} = {}",
                at.trim_start_matches("/data/"),
                answer.pointer(at)?
            ))
        });
        println!(
            "    {} {}",
            response.status().as_u16(),
            shown.collect::<Vec<_>>().join(", ")
        );
        assert!(response.status().is_success(), "{answer:#}");
        answer
    }
}

fn step(words: &str) {
    println!("\n{words}");
}

fn text(answer: &Value, at: &str) -> String {
    answer
        .pointer(at)
        .and_then(Value::as_str)
        .expect("a text in the answer")
        .to_owned()
}
