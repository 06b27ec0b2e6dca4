//! The controller's certificates over the years, as seen by clients that verify them with their own
//! clock: renewed without a restart, a failed handshake or a rejected login; and external
//! certificates in their place.

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

use overkeep::testing::{
    admin_socket::{Command, socket},
    change::{
        Administrator, Certificates, ChangeContext, Changes, KINDS, NewFile, PasswordRules,
        SealedKeys, enrollment, first_start,
    },
    clock::Clock,
    config::{Config, Span},
    controller::{self, Controller},
    entity::{AmountLimit, Enrollment, Identity, Record, Tags, enrollment::Method},
    pki::{
        AlternativeNames, Certificate, Material, PublicKey,
        jwt::{self, Claimed, Verifier},
    },
    store::Progress,
};
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

#[test]
fn eleven_years_without_a_restart() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.sessions.timeout = Span::minutes(90 * 24 * 60)
    });
    // Alice's client renews its certificate as it should; the sensor's never does.
    let (mut alice, sensor) = (Device::enrolled(&server), Device::enrolled(&server));
    let mut open = alice.connect();
    let token = text(&open.log_in()["token"]).to_owned();
    let (mut leaves, mut keys, mut intermediates, mut trusted) = (
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
        Vec::new(),
    );
    for step in 0..101 {
        server.clock.advance(40 * DAY);
        server.run_due_jobs();
        open.ask("GET", "/edge/client/v1/current-api-session", &token, None);
        open = alice.connect();
        let [leaf, intermediate] = open.shown().try_into().unwrap();
        leaves.insert(leaf.fingerprint());
        keys.insert(leaf.public_key().der().to_vec());
        intermediates.insert(intermediate.fingerprint());
        alice.authorities = listed(&open.ask("GET", "/.well-known/est/cacerts", "", None));
        trusted.push(alice.authorities.len());
        trusted.dedup();
        let session = open.log_in();
        let (chain, _) = alice.own.as_ref().unwrap();
        let own = Certificate::first(chain).unwrap();
        if server.clock.now().seconds() > own.not_after() - (own.not_after() - own.not_before()) / 3
        {
            alice.own = Some(extended(&mut open, &session));
            alice.connect().log_in();
        }
        if step % 10 == 0 && trusted != [2, 3, 2] {
            sensor.connect().log_in();
        }
    }
    let refused =
        sensor
            .connect()
            .answer("POST", "/edge/client/v1/authenticate?method=cert", "", None);
    assert_eq!(
        refused.0, 401,
        "certificates of the old intermediate must end with it"
    );
    assert!(
        leaves.len() >= 14,
        "expected a new certificate every eight or nine months: {}",
        leaves.len()
    );
    assert_eq!(
        (keys.len(), intermediates.len()),
        (1, 2),
        "expected one key all the time, and a new intermediate after 6.7 years"
    );
    assert_eq!(
        trusted,
        [2, 3, 2],
        "the old intermediate must be trusted beside the new one until it ends"
    );
}

/// Renews a device's certificate before the current one ends.
fn extended(open: &mut TlsConnection, session: &Json) -> (String, Arc<Key>) {
    let (key, token) = (Arc::new(Key::new()), text(&session["token"]));
    let path = format!(
        "/edge/client/v1/current-identity/authenticators/{}/extend",
        text(&session["authenticatorId"])
    );
    let answer = open.data(
        "POST",
        &path,
        token,
        Some(json!({ "clientCertCsr": key.request() })),
    );
    let chain = text(&answer["clientCert"]).to_owned();
    open.ask(
        "POST",
        &format!("{path}-verify"),
        token,
        Some(json!({ "clientCert": chain })),
    );
    (chain, key)
}

#[test]
fn holders_are_asked_to_renew() {
    let server = TestServer::start();
    let (mut alice, bob) = (Device::enrolled(&server), Device::enrolled(&server));
    let wishes = |session: &Json| {
        (
            session["isCertExtendRequested"].clone(),
            session["isCertKeyRollRequested"].clone(),
        )
    };
    let (none, both) = ((json!(false), json!(false)), (json!(true), json!(true)));
    let mut open = alice.connect();
    let session = open.log_in();
    let (token, id) = (
        text(&session["token"]).to_owned(),
        text(&session["authenticatorId"]).to_owned(),
    );
    assert_eq!(wishes(&session), none);
    let shown = |id: &str| {
        server
            .admin
            .get(&format!("/authenticators/{id}"))
            .expect(200)
            .data()
            .clone()
    };
    assert_eq!(
        (
            &shown(&id)["isExtendRequested"],
            &shown(&id)["isKeyRollRequested"]
        ),
        (&json!(false), &json!(false))
    );
    assert!(shown(&id).get("extendRequestedAt").is_none());

    let ask = format!("/authenticators/{id}/request-extend");
    server
        .admin
        .post(&ask, json!({ "rollKeys": true }))
        .expect(200);
    assert_eq!(
        (
            &shown(&id)["isExtendRequested"],
            &shown(&id)["isKeyRollRequested"]
        ),
        (&json!(true), &json!(true))
    );
    assert!(shown(&id)["extendRequestedAt"].is_string());
    // The open session and a new one say so; the session of another device does not.
    let current = open.data("GET", "/edge/client/v1/current-api-session", &token, None);
    assert_eq!(wishes(&current), both);
    assert_eq!(wishes(&alice.connect().log_in()), both);
    assert_eq!(wishes(&bob.connect().log_in()), none);
    let listed = server
        .admin
        .get(&format!("/api-sessions/{}", text(&session["id"])))
        .expect(200);
    assert_eq!(wishes(listed.data()), both);

    let (identity, service) = (
        text(&session["identityId"]),
        server.service("web", json!({})),
    );
    let explained = || {
        let why = server
            .admin
            .get(&format!(
                "/overkeep/v1/explain?identity={identity}&service={service}&type=Dial"
            ))
            .expect(200);
        why.data()["authentication"]["credentials"][0]["isExtendRequested"].clone()
    };
    assert_eq!(explained(), true);

    alice.own = Some(extended(&mut open, &session));
    assert_eq!(explained(), Json::Null);
    assert_eq!(wishes(&alice.connect().log_in()), none);
    assert_eq!(shown(&id)["isExtendRequested"], json!(false));

    // One identity, then everybody.
    let all = "/overkeep/v1/certificates/request-extend";
    let of_alice = server
        .admin
        .post(all, json!({ "identityId": identity }))
        .expect(200);
    assert_eq!(of_alice.data()["certificates"], 1);
    assert_eq!(
        wishes(&alice.connect().log_in()),
        (json!(true), json!(false))
    );
    assert_eq!(wishes(&bob.connect().log_in()), none);
    assert_eq!(
        server.admin.post(all, json!({})).expect(200).data()["certificates"],
        2
    );
    assert_eq!(wishes(&bob.connect().log_in()), (json!(true), json!(false)));
    server
        .admin
        .post(all, json!({ "identityId": "nobody" }))
        .expect(404);
    let password = server
        .admin
        .get("/authenticators?filter=method%3D%22updb%22")
        .expect(200)
        .data()[0]["id"]
        .clone();
    server
        .admin
        .post(
            &format!("/authenticators/{}/request-extend", text(&password)),
            json!({}),
        )
        .expect(409);
    server
        .admin
        .post("/authenticators/nothing/request-extend", json!({}))
        .expect(404);
}

#[test]
fn new_server_key_lists_invalid_tokens() {
    let server = TestServer::start();
    let device = Device::enrolled(&server);
    let name = fresh("late");
    let id = server.identity(&name, json!({ "enrollment": { "ott": true } }));
    let told = || {
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["enrollment"]["ott"]
            .clone()
    };
    let shown = |device: &Device| device.connect().shown()[0].public_key().clone();
    let (before, old) = (told(), shown(&device));
    assert!(
        verifies(&before, &old)
            && !server
                .tell(Command::ListCertificates)
                .contains(text(&before["id"]))
    );

    let lines = server.tell(Command::RenewKey);
    let new = shown(&device);
    assert_ne!(old, new);
    for said in [lines, server.tell(Command::ListCertificates)] {
        assert!(
            said.contains(text(&before["id"])) && said.contains(&name) && said.contains("/refresh"),
            "{said}"
        );
    }
    assert!(!verifies(&told(), &new));
    let end = server.clock.now().plus(DAY).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{}/refresh", text(&before["id"])),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    assert!(verifies(&told(), &new));
    assert!(
        !server
            .tell(Command::ListCertificates)
            .contains(text(&before["id"]))
    );
    device.connect().log_in();
}

fn adoption(material: &Material) -> Command {
    let (certificate, key) = (
        material.intermediate.certificate.clone(),
        material.intermediate.key.clone(),
    );
    Command::AdoptAuthority {
        certificate,
        key,
        bundle: material.root.certificate.clone(),
    }
}

#[test]
fn adopted_authorities_issue_until_their_successor() {
    let server = TestServer::start();
    let made = || {
        Material::generate(
            &AlternativeNames::of_hosts(["old.test"]),
            server.clock.now().seconds(),
        )
        .unwrap()
    };
    let (other, stranger) = (made(), made());
    let said = server.tell(adoption(&other));
    assert!(said.contains("signs from now on"), "{said}");
    let device = Device::enrolled(&server);
    let signer = Certificate::only(&other.intermediate.certificate).unwrap();
    let chain = Certificate::bundle(&device.own.as_ref().unwrap().0).unwrap();
    assert!(chain[0].is_signed_by(&signer) && device.connect().shown()[0].is_signed_by(&signer));
    device.connect().log_in();

    assert!(server.refused(adoption(&stranger)).contains("do not trust"));
    let wrong = Command::AdoptAuthority {
        certificate: stranger.intermediate.certificate.clone(),
        key: other.intermediate.key.clone(),
        bundle: stranger.root.certificate.clone(),
    };
    assert!(
        server
            .refused(wrong)
            .contains("signing key: the key does not belong")
    );
    let lost = Command::AdoptAuthority {
        certificate: other.intermediate.certificate.clone(),
        key: other.intermediate.key.clone(),
        bundle: stranger.root.certificate.clone(),
    };
    assert!(server.refused(lost).contains("root bundle: "));
    device.connect().log_in();

    let issuer = Issuer::from_ca_cert_pem(
        &other.root.certificate,
        KeyPair::from_pem(&other.root.key).unwrap(),
    )
    .unwrap();
    let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params
        .distinguished_name
        .push(DnType::CommonName, "successor");
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let next = Command::AdoptAuthority {
        certificate,
        key: key.serialize_pem().into(),
        bundle: other.root.certificate.clone(),
    };
    assert!(server.tell(next).contains("successor"));
    assert!(!device.connect().shown()[0].is_signed_by(&signer));
    device.connect().log_in();
    Device::enrolled(&server).connect().log_in();
    let server = server.restarted(|_| {});
    let device = Device {
        at: server.bound(),
        ..device
    };
    device.connect().log_in();
    assert_eq!(server.tell(Command::Check), "nothing is wrong");
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

#[test]
fn tokens_outlive_a_renewed_leaf() {
    let server = TestServer::with_manual_clock();
    let id = server.identity(&fresh("late"), json!({ "enrollment": { "ott": true } }));
    let first = kid(&server
        .admin
        .get(&format!("/identities/{id}"))
        .expect(200)
        .data()["enrollment"]["ott"]);
    let (clock, device) = (
        server.clock.clone(),
        Device::new(&server.clock, server.bound()),
    );
    for _ in 0..2 {
        clock.advance(250 * DAY);
        server.run_due_jobs();
    }
    let shown = device.connect().shown()[0].fingerprint();
    assert!(
        shown != first
            && knows(&device, &first)
            && knows(&device, &shown)
            && !knows(&device, "other")
    );

    let directory = server.closed();
    let config = settings(directory.path());
    let running = controller::start(&config, clock).unwrap();
    let device = Device {
        at: running.bound(),
        ..device
    };
    assert!(knows(&device, &first), "also after a restart");
    ask(&socket::beside(&config.data), &Command::RenewKey)
        .unwrap()
        .unwrap();
    assert!(
        !knows(&device, &first) && !knows(&device, &shown),
        "after a new key the previous key ids must be unknown"
    );
    running.stop();
}

fn verifies(enrollment: &Json, key: &PublicKey) -> bool {
    Verifier::new(key)
        .unwrap()
        .verify::<Json>(text(&enrollment["jwt"]))
        .is_ok()
}

/// An external authority: a root, and an intermediate that signs.
struct Elsewhere {
    root: CertifiedIssuer<'static, KeyPair>,
    between: CertifiedIssuer<'static, KeyPair>,
}

impl Elsewhere {
    fn new() -> Self {
        let params = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let root =
            CertifiedIssuer::self_signed(params("Elsewhere Root"), KeyPair::generate().unwrap())
                .unwrap();
        let between =
            CertifiedIssuer::signed_by(params("Elsewhere"), KeyPair::generate().unwrap(), &root)
                .unwrap();
        Self { root, between }
    }

    /// Writes a server's chain, with the root at its end, and its key into the two files.
    fn issue(&self, key: &KeyPair, files: &[PathBuf; 2]) {
        self.issue_until(2999, key, files);
    }

    fn issue_until(&self, year: i32, key: &KeyPair, [chain, secret]: &[PathBuf; 2]) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let leaf = params.signed_by(key, &self.between).unwrap();
        fs::write(
            chain,
            [leaf.pem(), self.between.pem(), self.root.pem()].concat(),
        )
        .unwrap();
        fs::write(secret, key.serialize_pem()).unwrap();
    }
}

/// One file for both settings, with words around the blocks.
#[test]
fn certificate_and_key_share_a_file() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key", "both.pem"].map(|name| directory.path().join(name));
    let [chain, secret, both] = &files;
    Elsewhere::new().issue(
        &KeyPair::generate().unwrap(),
        &[chain.clone(), secret.clone()],
    );
    let texts = [chain, secret].map(|path| fs::read_to_string(path).unwrap());
    fs::write(
        both,
        format!("Made by hand.\n{}\nIts key:\n{}", texts[0], texts[1]),
    )
    .unwrap();
    fs::set_permissions(both, fs::Permissions::from_mode(0o600)).unwrap();
    let server = TestServer::with(Clock::system(), |config| {
        (config.tls.certificate, config.tls.key) = (Some(both.clone()), Some(both.clone()));
    });
    let shown = Device::enrolled(&server).connect().shown();
    assert_eq!(shown[0].pem(), Certificate::first(&texts[0]).unwrap().pem());
}

#[test]
fn foreign_certificate_is_replaced_while_serving() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key"].map(|name| directory.path().join(name));
    let (elsewhere, key) = (Elsewhere::new(), KeyPair::generate().unwrap());
    elsewhere.issue(&key, &files);
    // A login here trusts only what /.well-known/est/cacerts lists.
    let server = TestServer::with(Clock::system(), |config| {
        (config.tls.certificate, config.tls.key) = (Some(files[0].clone()), Some(files[1].clone()));
    });
    let device = Device::enrolled(&server);
    let name = fresh("late");
    let id = server.identity(&name, json!({ "enrollment": { "ott": true } }));
    let told = || {
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["enrollment"]["ott"]
            .clone()
    };
    let shown = || device.connect().shown();
    let first = shown();
    assert_eq!(first.len(), 2, "the root is not sent");
    assert!(
        verifies(&told(), first[0].public_key()),
        "tokens are signed with the key that is shown"
    );
    device.connect().log_in();
    let status = server.tell(Command::ListCertificates);
    assert!(
        status.contains("external: ") && status.contains("external issuer: CN=Elsewhere Root"),
        "{status}"
    );

    let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    for bad in [other.serialize_pem(), String::new(), "no key".into()] {
        fs::write(&files[1], bad).unwrap();
        server.run_due_jobs();
        assert_eq!(
            shown(),
            first,
            "a certificate without its key must not be used"
        );
    }
    fs::remove_file(&files[1]).unwrap();
    server.run_due_jobs();
    elsewhere.issue_until(2020, &other, &files);
    server.run_due_jobs();
    assert_eq!(shown(), first, "an expired certificate must not be used");

    let before = kid(&told());
    elsewhere.issue(&key, &files);
    server.run_due_jobs();
    assert_ne!(shown()[0], first[0], "another certificate");
    assert!(knows(&device, &before), "of the same key");

    elsewhere.issue(&other, &files);
    server.run_due_jobs();
    let second = shown();
    assert_ne!(second[0], first[0]);
    assert!(!knows(&device, &before));
    let status = server.tell(Command::ListCertificates);
    assert!(
        status.contains(text(&told()["id"])),
        "after a new key the previous token must be listed as unusable: {status}"
    );
    assert!(server.refused(Command::RenewKey).contains("tls.key"));
    device.connect().log_in();
}

#[test]
fn unusable_certificate_files_are_named() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key"].map(|name| directory.path().join(name));
    let mut config = settings(directory.path());
    (config.tls.certificate, config.tls.key) = (Some(files[0].clone()), Some(files[1].clone()));
    let refusal = || {
        controller::start(&config, Clock::system())
            .err()
            .map(|reason| reason.to_string())
            .unwrap_or_default()
    };
    let said = refusal();
    assert!(
        said.contains("tls.certificate") && said.contains("chain.pem") && !said.contains('\n'),
        "{said}"
    );
    let (elsewhere, key) = (Elsewhere::new(), KeyPair::generate().unwrap());
    elsewhere.issue(&key, &files);
    fs::write(&files[1], KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(
        refusal().contains("does not belong to the certificate"),
        "{}",
        refusal()
    );
    // The owner of the host still has access.
    assert!(
        controller::host(&config, &Command::ListAdministrators)
            .unwrap()
            .act(Command::ListAdministrators, &Arc::new(Progress::default()))
            .is_ok()
    );
}

#[test]
fn certificate_covers_all_advertised_names() {
    let directory = TempDir::new().unwrap();
    let mut config = settings(directory.path());
    let start = |config: &Config| {
        let running = controller::start(config, Clock::system()).unwrap();
        let device = Device::new(&Clock::system(), running.bound());
        let leaf = device.connect().shown().swap_remove(0);
        (running, leaf)
    };
    config.advertise = vec![
        "one.test:1280".parse().unwrap(),
        "[2001:db8::1]:1280".parse().unwrap(),
    ];
    let (running, first) = start(&config);
    assert!(
        ["one.test", "2001:db8::1", "localhost", "127.0.0.1", "::1"]
            .iter()
            .all(|host| first.is_for(host))
    );
    let version = trusting(&format!("https://{}", running.bound()))
        .get("/version")
        .expect(200);
    let urls = &version.data()["apiVersions"]["edge"]["v1"]["apiBaseUrls"];
    assert_eq!(
        *urls,
        json!([
            "https://one.test:1280/edge/client/v1",
            "https://[2001:db8::1]:1280/edge/client/v1"
        ])
    );
    assert_eq!(running.advertised(), "one.test:1280");
    let admin = trusting(&format!("https://{}", running.bound()))
        .log_in("admin", running.generated_password().unwrap());
    let late = fresh("late");
    admin.post("/identities", json!({ "name": late, "type": "Device", "isAdmin": false, "enrollment": { "ott": true } })).expect(201);
    let status = |data: &Path| {
        ask(&socket::beside(data), &Command::ListCertificates)
            .unwrap()
            .unwrap()
            .join("\n")
    };
    assert!(!status(&config.data).contains(&late));
    running.stop();
    // A command on a stopped controller need not repeat the advertised addresses.
    let stopped = || {
        let (looked, look) = (
            controller::host(&settings(directory.path()), &Command::ListCertificates).unwrap(),
            Command::ListCertificates,
        );
        let told = looked.act(look, &Arc::new(Progress::default())).unwrap();
        looked.store.close();
        format!("{told:?}")
    };
    assert!(!stopped().contains(&late), "{}", stopped());

    assert_eq!(restarted(&config, &start), first, "nothing changed");
    config.advertise = vec![
        "two.test:443".parse().unwrap(),
        "192.0.2.7:443".parse().unwrap(),
    ];
    let (running, second) = start(&config);
    assert!(second.is_for("two.test") && second.is_for("192.0.2.7"));
    assert_eq!(second.public_key(), first.public_key());
    let said = status(&config.data);
    assert!(
        said.contains(&late) && said.contains("https://one.test:1280") && said.contains("/refresh"),
        "sent nowhere: {said}"
    );
    running.stop();
    assert!(stopped().contains("https://one.test:1280"), "{}", stopped());
}

fn restarted(
    config: &Config,
    start: &impl Fn(&Config) -> (Controller, Certificate),
) -> Certificate {
    let (running, leaf) = start(config);
    running.stop();
    leaf
}

#[test]
fn clients_connect_over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this host has none
    }
    let directory = TempDir::new().unwrap();
    let config = Config {
        listen: "[::1]:0".parse().unwrap(),
        ..settings(directory.path())
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    assert!(running.advertised().starts_with("[::1]:"));
    Device::new(&Clock::system(), running.bound())
        .connect()
        .ask("GET", "/version", "", None);
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

#[test]
fn tokens_are_resigned_by_new_keys() {
    jwt::install();
    let directory = TempDir::new().unwrap();
    let store = stores::of(KINDS).start(&directory.path().join("data"));
    let (sealed_keys, address) = (SealedKeys::default(), "controller.test:1280");
    let hosts = AlternativeNames::of_hosts(["controller.test"]);
    let administrator = Administrator {
        username: "admin".into(),
        password: "no hash".into(),
        is_unseen: false,
    };
    let passwords = PasswordRules::of(&Config::default().passwords);
    first_start(
        &store,
        &sealed_keys,
        NewFile {
            hosts,
            administrator: Some(administrator),
            router: false,
            passwords,
        },
    )
    .unwrap();
    let certificates =
        Certificates::open(&store, &sealed_keys, vec![address.parse().unwrap()], None).unwrap();
    let context = ChangeContext {
        plain_key_sets: false,
        keystore: certificates.keystore().clone(),
        address: address.into(),
        identity_enrollment: DAY,
        router_enrollment: DAY,
        members: AmountLimit::of(&Config::default().members),
        client_members: AmountLimit::of_clients(&Config::default().members),
    };
    let changes = Changes::new(store.clone(), context);
    let mut identities = Vec::new();
    let mut noted = |identity: Record<Identity>| {
        identities.push(identity.id);
        Ok(())
    };
    store.read(|tx| tx.each(&mut noted)).unwrap();
    let now = Clock::system().now();
    let wanted = changes
        .sign(
            Enrollment::of_identity(Method::Ott, identities.remove(0)),
            now.plus(DAY),
        )
        .unwrap();
    certificates.renew_key(now).unwrap();
    let stored = changes
        .run_blocking(move |change| enrollment::issue(wanted, Tags::default(), change))
        .unwrap();
    assert!(certificates.keystore().signer().signed(&stored.spec.jwt));
    assert_eq!(certificates.unusable_files(now).unwrap().len(), 0);
}
