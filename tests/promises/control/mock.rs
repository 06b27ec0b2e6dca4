//! A router controlled by a test.

mod conversations;

use std::{
    collections::BTreeSet,
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use model::clock::Clock;
use prost::Message;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::{
    control::{content, edge, fabric},
    frame::{Builder, Frame, FrameLimits, HEAD, Head, content as common, key as common_key},
};

use super::known_identities::KnownIdentities;
use crate::harness::{Key, TestServer, fresh, speaking};

/// The timeout of every wait.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 64 << 20,
};

fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    });
    &RUNTIME
}

/// Runs a future to its end.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(test)
}

/// Waits until a condition holds. Returns whether it does.
pub async fn soon(holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !holds() && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    holds()
}

/// A server without the built-in router, which soon gives up circuits without a path.
pub fn server() -> TestServer {
    TestServer::with(Clock::system(), |config| {
        config.routers.reroute_timeout = "2s".parse().unwrap()
    })
}

/// The record of a router and its certificate.
pub struct Enrolled {
    pub id: String,
    pub leaf: CertificateDer<'static>,
    pub key: Arc<Key>,
}

impl Enrolled {
    pub fn new(server: &TestServer) -> Self {
        let id = server
            .admin
            .post("/edge-routers", json!({ "name": fresh("router") }))
            .expect(201)
            .id();
        Self::re_enrolled(server, id)
    }

    /// A router that only forwards.
    pub fn transit(server: &TestServer) -> Self {
        let id = server
            .admin
            .post("/transit-routers", json!({ "name": fresh("transit") }))
            .expect(201)
            .id();
        Self::of_kind(server, "transit-routers", "trott", id)
    }

    /// Enrolls the router with this id.
    pub fn re_enrolled(server: &TestServer, id: String) -> Self {
        Self::of_kind(server, "edge-routers", "erott", id)
    }

    fn of_kind(server: &TestServer, kind: &str, method: &str, id: String) -> Self {
        let shown = server.admin.get(&format!("/{kind}/{id}")).expect(200);
        Self::redeem(
            server,
            id,
            method,
            shown.data()["enrollmentToken"].as_str().unwrap(),
        )
    }

    /// Enrolls the router with this id by this method with its enrollment token.
    pub fn redeem(server: &TestServer, id: String, method: &str, token: &str) -> Self {
        let key = Key::new();
        let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
        let issued = server
            .anonymous()
            .post(&format!("/enroll?method={method}&token={token}"), requests)
            .expect(200);
        let pem = issued.data()["cert"].as_str().unwrap();
        Self {
            id,
            leaf: CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(),
            key: Arc::new(key),
        }
    }

    /// The record, as administrators see it.
    pub fn shown(&self, server: &TestServer) -> Json {
        server
            .admin
            .get(&format!("/edge-routers/{}", self.id))
            .expect(200)
            .data()
            .clone()
    }

    /// A TLS connection with this protocol.
    pub async fn tls(&self, at: SocketAddr, protocol: &str) -> TlsStream<TcpStream> {
        self.try_tls(at, protocol).await.unwrap()
    }

    async fn try_tls(&self, at: SocketAddr, protocol: &str) -> io::Result<TlsStream<TcpStream>> {
        let key = PrivateKeyDer::try_from(self.key.der()).unwrap();
        let mut config = speaking(rustls::ALL_VERSIONS)
            .with_client_auth_cert(vec![self.leaf.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let socket = TcpStream::connect(at).await?;
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), socket)
            .await
    }

    /// The hello of a router of version 1.1.15; a reconnect names its previous connection.
    pub fn hello(&self, before: Option<&str>) -> Frame {
        let hello = Builder::new(common::HELLO).text(
            common_key::VERSION,
            "v1.1.15|local|2020-01-01 01:01:01|linux|amd64",
        );
        let mut hello = hello
            .optional(common_key::CONNECTION_ID, before)
            .body(self.id.as_bytes());
        hello.set_sequence(-1);
        hello
    }

    /// Connects; the controller must accept.
    pub async fn connect(&self, server: &TestServer) -> MockRouter {
        self.try_connect(server, self.hello(None))
            .await
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// The same for a process that was connected before.
    pub async fn reconnect(&self, server: &TestServer) -> MockRouter {
        self.try_connect(server, self.hello(Some("1")))
            .await
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Connects; the error is the reason of the rejection.
    pub async fn try_connect(
        &self,
        server: &TestServer,
        hello: Frame,
    ) -> Result<MockRouter, String> {
        self.try_connect_at(server.bound(), hello).await
    }

    /// The same at another address.
    pub async fn try_connect_at(&self, at: SocketAddr, hello: Frame) -> Result<MockRouter, String> {
        let stream = self
            .try_tls(at, "ziti-ctrl")
            .await
            .map_err(|error| error.to_string())?;
        self.try_connect_over(stream, hello).await
    }

    /// The same over an open TLS connection.
    pub async fn try_connect_over(
        &self,
        mut stream: TlsStream<TcpStream>,
        hello: Frame,
    ) -> Result<MockRouter, String> {
        stream.write_all(hello.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut router = MockRouter {
            stream,
            sequence: 0,
            answer: None,
            known: BTreeSet::new(),
            gained: Vec::new(),
            identities: KnownIdentities::default(),
        };
        let answer = router.next().await.ok_or("the connection was closed")?;
        if !answer.is_set(common_key::SUCCESS) {
            return Err(String::from_utf8_lossy(answer.body()).into_owned());
        }
        assert_eq!(
            (answer.content_type(), answer.sequence()),
            (common::RESULT, -1)
        );
        router.answer = Some(answer);
        Ok(router)
    }

    /// Connects, reports its listener, and receives the full state.
    pub async fn online(&self, server: &TestServer) -> MockRouter {
        let mut router = self.connect(server).await;
        router.introduce().await;
        router
    }
}

/// A request for a terminator.
pub fn bind_request(id: &str, token: &str, fingerprint: &str) -> Frame {
    let request_body = edge::CreateTerminator {
        address: id.into(),
        session_token: token.into(),
        fingerprints: vec![fingerprint.into()],
        ..Default::default()
    };
    Builder::new(content::CREATE_TERMINATOR).body(&request_body.encode_to_vec())
}

/// A connected router.
pub struct MockRouter {
    stream: TlsStream<TcpStream>,
    sequence: i32,
    /// The answer to its hello.
    pub answer: Option<Frame>,
    /// The tokens of the API sessions that it knows.
    known: BTreeSet<String>,
    /// API sessions of full states that it did not know before, and those of other messages.
    gained: Vec<edge::ApiSession>,
    pub identities: KnownIdentities,
}

impl MockRouter {
    /// The next message; none if the connection has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; HEAD];
            self.stream.read_exact(&mut head).await.ok()?;
            let decoded = Head::decode(&head, LIMITS).unwrap();
            let mut bytes = BytesMut::from(&head[..]);
            bytes.resize(decoded.size(), 0);
            self.stream.read_exact(&mut bytes[HEAD..]).await.ok()?;
            Some(Frame::decode(bytes, LIMITS).unwrap())
        };
        let frame = timeout(PATIENCE, read).await.expect("a message in time")?;
        self.identities.take(&frame);
        match frame.content_type() {
            content::API_SESSION_ADDED => {
                let added = edge::ApiSessionAdded::decode(frame.body()).unwrap();
                let gained = added
                    .api_sessions
                    .into_iter()
                    .filter(|session| !added.is_full_state || !self.known.contains(&session.token));
                self.gained.extend(gained);
                self.known
                    .extend(self.gained.iter().map(|session| session.token.clone()));
            }
            content::API_SESSION_REMOVED => {
                let removed = edge::Removed::decode(frame.body()).unwrap();
                self.known.retain(|token| !removed.tokens.contains(token));
            }
            _ => {}
        }
        Some(frame)
    }

    /// The API sessions that the next message adds, or the next full state that has others than
    /// before.
    pub async fn gained(&mut self) -> Vec<edge::ApiSession> {
        self.gained.clear();
        while self.gained.is_empty() {
            self.next_of(content::API_SESSION_ADDED).await;
        }
        self.take_gained()
    }

    /// The API sessions of the messages since the last call that it did not know.
    pub fn take_gained(&mut self) -> Vec<edge::ApiSession> {
        std::mem::take(&mut self.gained)
    }

    /// The next message of a type. Messages of other types are skipped, heartbeats are answered.
    pub async fn next_of(&mut self, content_type: i32) -> Frame {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "no {content_type} in time");
            let frame = self
                .next()
                .await
                .unwrap_or_else(|| panic!("the connection has ended before a {content_type}"));
            if let Some(clock) = frame.u64(common_key::HEARTBEAT) {
                self.send(
                    Builder::new(common::HEARTBEAT)
                        .u64(common_key::HEARTBEAT_ECHO, clock)
                        .empty(),
                )
                .await;
            }
            if frame.content_type() == content_type {
                return frame;
            }
        }
    }

    /// The next message of a type, decoded.
    pub async fn receive<M: Message + Default>(&mut self, content_type: i32) -> M {
        M::decode(self.next_of(content_type).await.body()).unwrap()
    }

    /// Whether the connection ends.
    pub async fn ends(&mut self) -> bool {
        let ended = async { while self.next().await.is_some() {} };
        timeout(PATIENCE, ended).await.is_ok()
    }

    /// Asks about the certificate of a router that dials a link to this one. Does not wait for the
    /// answer. Returns the number of the question.
    pub async fn verify(&mut self, dialing: &Enrolled) -> i32 {
        let shown = pki::Certificate::from_der(&dialing.leaf)
            .unwrap()
            .fingerprint();
        let asked = fabric::VerifyRouter {
            router_id: dialing.id.clone(),
            fingerprints: vec![shown],
        };
        self.send(Builder::new(content::VERIFY_ROUTER).body(&asked.encode_to_vec()))
            .await
    }

    /// Sends a message. Returns its sequence number.
    pub async fn send(&mut self, mut frame: Frame) -> i32 {
        self.sequence += 1;
        frame.set_sequence(self.sequence);
        self.stream.write_all(frame.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
        self.sequence
    }

    /// Sends bytes that need not be a message.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// What the controller has sent up to now and was not read yet, without heartbeats.
    pub async fn rest(&mut self) -> Vec<Frame> {
        let (ping, mut rest) = (
            self.send(Builder::new(common::PING).empty()).await,
            Vec::new(),
        );
        loop {
            let frame = self.next().await.expect("the connection stays");
            if frame.reply_for() == Some(ping) {
                return rest;
            }
            if frame.content_type() != common::HEARTBEAT {
                rest.push(frame);
            }
        }
    }

    /// Sends a request and waits for the answer of this type.
    pub async fn ask(&mut self, frame: Frame, answer: i32) -> Frame {
        let sequence = self.send(frame).await;
        loop {
            let found = self.next_of(answer).await;
            if found.reply_for() == Some(sequence) {
                return found;
            }
        }
    }
}
