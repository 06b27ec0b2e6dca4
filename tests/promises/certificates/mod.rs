//! The controller's certificates over the years, as seen by clients that verify them with their own
//! clock: renewed without a restart, a failed handshake or a rejected login; and external
//! certificates in their place.

mod addresses;
mod files;
mod renewal;
mod tokens;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use model::{
    clock::Clock,
    config::{Config, Span},
    entity::{AmountLimit, Enrollment, Identity, Record, Tags, enrollment::Method},
};
use overkeep::testing::{
    admin_socket::{Command, socket},
    controller::{self, Controller},
};
use policy::change::{
    Administrator, Certificates, ChangeContext, Changes, KINDS, NewFile, PasswordRules, SealedKeys,
    enrollment, first_start,
};
use store::Progress;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P384_SHA384,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    time_provider::TimeProvider,
};

use serde_json::{Value as Json, json};

use pki::{
    AlternativeNames, Certificate, Material, PublicKey,
    jwt::{self, Claimed, Verifier},
};
use tempfile::TempDir;

use crate::admin_socket::ask;

use crate::harness::{Key, TestServer, fresh, listed, stores, trusting};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A client with a clock, trusted authorities, and optionally a certificate.
#[derive(Clone)]
struct Device {
    clock: Clock,
    at: SocketAddr,
    authorities: Vec<CertificateDer<'static>>,
    own: Option<(String, Arc<Key>)>,
}

#[derive(Debug)]
struct ByClock(Clock);

impl TimeProvider for ByClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(
            self.0.now().seconds().try_into().unwrap(),
        )))
    }
}

impl Device {
    /// A client that trusts the authorities listed by a controller.
    fn new(clock: &Clock, at: SocketAddr) -> Self {
        let anonymous = trusting(&format!("https://{at}"));
        let authorities = listed(&anonymous.get("//.well-known/est/cacerts").expect(200).text);
        Self {
            clock: clock.clone(),
            at,
            authorities,
            own: None,
        }
    }

    /// A client with the certificate of a new identity, and that identity's id.
    fn enrolled(server: &TestServer) -> Self {
        let id = server.identity(&fresh("device"), json!({ "enrollment": { "ott": true } }));
        let key = Arc::new(Key::new());
        let path = format!("/enroll?method=ott&token={}", server.token_of(&id));
        let issued = server
            .anonymous()
            .ask("POST", &path)
            .body("application/pkcs10", key.request())
            .send()
            .expect(200);
        let own = Some((issued.data()["cert"].as_str().unwrap().to_owned(), key));
        Self {
            own,
            ..Self::new(&server.clock, server.bound())
        }
    }

    /// Opens a connection; panics if the controller's certificate does not verify.
    fn connect(&self) -> TlsConnection {
        let mut roots = RootCertStore::empty();
        self.authorities
            .iter()
            .for_each(|authority| roots.add(authority.clone()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_details(provider, Arc::new(ByClock(self.clock.clone())));
        let builder = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = Certificate::bundle(chain)
                    .unwrap()
                    .iter()
                    .map(|certificate| certificate.der().clone())
                    .collect();
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::Pkcs8(key.der().into()))
                    .unwrap()
            }
        };
        let name = ServerName::IpAddress(self.at.ip().into());
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(self.at).unwrap());
        stream
            .conn
            .complete_io(&mut stream.sock)
            .unwrap_or_else(|error| panic!("at {}: {error}", self.clock.now()));
        TlsConnection(stream)
    }
}

/// The certificate that a controller presents.
pub fn shown_by(server: &TestServer) -> Certificate {
    Device::new(&server.clock, server.bound())
        .connect()
        .shown()
        .swap_remove(0)
}

/// An open connection.
struct TlsConnection(StreamOwned<ClientConnection, TcpStream>);

impl TlsConnection {
    /// The presented chain, leaf first.
    fn shown(&self) -> Vec<Certificate> {
        self.0
            .conn
            .peer_certificates()
            .unwrap()
            .iter()
            .map(|der| Certificate::from_der(der).unwrap())
            .collect()
    }

    /// Sends a request that must be answered with 2xx.
    fn ask(&mut self, method: &str, path: &str, token: &str, body: Option<Json>) -> String {
        let (status, body) = self.answer(method, path, token, body);
        assert_eq!(status / 100, 2, "{method} {path}: {body}");
        body
    }

    fn answer(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Json>,
    ) -> (u16, String) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nzt-session: {token}\r\ncontent-type: application/json\r\n"
        );
        write!(self.0, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let (mut head, mut byte) = (String::new(), [0]);
        while !head.ends_with("\r\n\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0].into());
        }
        let head = head.to_lowercase();
        let length = head
            .split("content-length: ")
            .nth(1)
            .unwrap_or("0")
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (
            head["http/1.1 ".len()..][..3].parse().unwrap(),
            String::from_utf8(body).unwrap(),
        )
    }

    fn data(&mut self, method: &str, path: &str, token: &str, body: Option<Json>) -> Json {
        serde_json::from_str::<Json>(&self.ask(method, path, token, body)).unwrap()["data"].take()
    }

    /// Logs in by the certificate of the connection.
    fn log_in(&mut self) -> Json {
        self.data(
            "POST",
            "/edge/client/v1/authenticate?method=cert",
            "",
            Some(json!({})),
        )
    }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

/// Whether a controller proves that it holds the key with this id, and lists the key under that id.
fn knows(device: &Device, kid: &str) -> bool {
    let nonce = "5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11";
    let asked = json!({ "keyId": kid, "nonce": nonce });
    let mut line = device.connect();
    let (status, said) = line.answer("POST", "/edge/client/v1/enroll/challenge", "", Some(asked));
    let keys: Json =
        serde_json::from_str(&line.ask("GET", "/edge/client/v1/enroll/jwks", "", None)).unwrap();
    let keys = keys["keys"].as_array().unwrap();
    let listed = keys.iter().find(|key| key["kid"] == kid);
    if let Some(key) = listed {
        assert!(
            status == 200
                && said.contains(kid)
                && key["n"] == keys[0]["n"]
                && key["x"] == keys[0]["x"],
            "{said} {key}"
        );
    } else {
        assert!(
            status == 400 && said.contains("COULD_NOT_VALIDATE") && said.contains("keyId"),
            "{said}"
        );
    }
    listed.is_some()
}

/// The fingerprint of the certificate whose key signed an enrollment's token.
fn kid(enrollment: &Json) -> String {
    Claimed::read(text(&enrollment["jwt"])).unwrap().key
}

fn verifies(enrollment: &Json, key: &PublicKey) -> bool {
    Verifier::new(key)
        .unwrap()
        .verify::<Json>(text(&enrollment["jwt"]))
        .is_ok()
}

fn restarted(
    config: &Config,
    start: &impl Fn(&Config) -> (Controller, Certificate),
) -> Certificate {
    let (running, leaf) = start(config);
    running.stop();
    leaf
}

fn settings(directory: &Path) -> Config {
    let mut config = Config {
        data: directory.join("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    config.passwords.cost = 10;
    config
}

/// The output of commands of the host's owner.
impl TestServer {
    fn tell(&self, command: Command) -> String {
        ask(&socket::beside(&self.data()), &command)
            .unwrap()
            .unwrap()
            .join("\n")
    }

    fn refused(&self, command: Command) -> String {
        ask(&socket::beside(&self.data()), &command)
            .unwrap()
            .unwrap_err()
    }
}
