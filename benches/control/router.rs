//! A simulated remote router: it enrolls, connects, and accepts every route.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::BytesMut;
use parking_lot::Mutex;
use prost::Message;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::TcpStream,
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::{
    control::{content, edge, fabric, key},
    frame::{Builder, Frame, FrameLimits, HEAD, Head, content as common, key as common_key, value},
};

use super::{
    controller::{CLIENT, Controller, MANAGEMENT},
    tls::trusting,
};

const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 64 << 20,
};
const PATIENCE: Duration = Duration::from_secs(60);
/// The attempt number of routes that replace a path.
const REROUTE: u32 = 99_969_996;

/// What a router was told, and when.
pub enum Told {
    /// The first part of the path of a circuit was replaced.
    Rerouted(Instant),
    SessionsRemoved(Instant),
}

/// A connected router.
pub struct Router {
    pub id: String,
    writer: Arc<AsyncMutex<WriteHalf<TlsStream<TcpStream>>>>,
    sequence: Arc<AtomicI32>,
    answers: Answers,
    pub told: AsyncMutex<mpsc::UnboundedReceiver<Told>>,
    /// The number of other routers that it was told to be connected.
    pub peers: Arc<AtomicUsize>,
    reading: JoinHandle<()>,
}

type Answers = Arc<Mutex<HashMap<i32, oneshot::Sender<Frame>>>>;

/// The record of a router, and how to connect with its certificate.
pub struct Enrolled {
    pub id: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Enrolled {
    pub fn new(controller: &Controller, name: &str) -> Self {
        let id = controller.create("/edge-routers", &json!({ "name": name }));
        let shown = controller
            .open()
            .ask(
                "GET",
                &format!("{MANAGEMENT}/edge-routers/{id}"),
                &controller.admin,
                "",
            )
            .expect("a router");
        let token = text(&shown.body, "/data/enrollmentToken");
        let keys = KeyPair::generate().expect("a key");
        let request = || {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, id.as_str());
            params
                .serialize_request(&keys)
                .and_then(|request| request.pem())
                .expect("a request")
        };
        let requests = json!({ "certCsr": request(), "serverCertCsr": request() }).to_string();
        let answer = controller.open().ask(
            "POST",
            &format!("{CLIENT}/enroll?method=erott&token={token}"),
            "",
            &requests,
        );
        let pem = text(&answer.expect("a certificate").body, "/data/cert");
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|der| der.expect("PEM"))
            .collect();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(keys.serialize_der()));
        let mut tls = trusting()
            .with_client_auth_cert(chain, key)
            .expect("a certificate and its key");
        tls.alpn_protocols = vec![b"ziti-ctrl".to_vec()];
        Self {
            id,
            tls: Arc::new(tls),
        }
    }

    /// Connects, and waits for the full state.
    pub async fn connect(&self, controller: &Controller) -> Router {
        self.try_connect(controller.at, None)
            .await
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// The same; `before` is the id of its previous connection. The error is why it was turned
    /// away.
    pub async fn try_connect(
        &self,
        at: SocketAddr,
        before: Option<&str>,
    ) -> Result<Router, String> {
        let socket = TcpStream::connect(at)
            .await
            .map_err(|error| error.to_string())?;
        socket.set_nodelay(true).expect("an option");
        let name = ServerName::IpAddress(at.ip().into());
        let mut stream = TlsConnector::from(self.tls.clone())
            .connect(name, socket)
            .await
            .map_err(|error| error.to_string())?;
        let hello = Builder::new(common::HELLO).text(
            common_key::VERSION,
            "v1.1.15|bench|2020-01-01 01:01:01|linux|amd64",
        );
        let mut hello = hello
            .optional(common_key::CONNECTION_ID, before)
            .body(self.id.as_bytes());
        hello.set_sequence(-1);
        stream
            .write_all(hello.as_bytes())
            .await
            .map_err(|error| error.to_string())?;
        let (mut reader, writer) = split(stream);
        let answer = read(&mut reader).await.ok_or("the connection has ended")?;
        if !answer.is_set(common_key::SUCCESS) {
            return Err(String::from_utf8_lossy(answer.body()).into_owned());
        }
        let (telling, told) = mpsc::unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let (answers, sequence, writer) = (
            Answers::default(),
            Arc::new(AtomicI32::new(1)),
            Arc::new(AsyncMutex::new(writer)),
        );
        let peers = Arc::<AtomicUsize>::default();
        let state = Reading {
            writer: writer.clone(),
            sequence: sequence.clone(),
            answers: answers.clone(),
            telling,
            ready: Some(ready),
            peers: peers.clone(),
        };
        let reading = tokio::spawn(state.run(reader));
        let router = Router {
            id: self.id.clone(),
            writer,
            sequence,
            answers,
            told: AsyncMutex::new(told),
            peers,
            reading,
        };
        match timeout(PATIENCE, is_ready).await {
            Ok(Ok(())) => Ok(router),
            Ok(Err(_)) => Err("the connection has ended before the full state".into()),
            Err(_) => Err("no full state in time".into()),
        }
    }
}

/// What the reader of a router needs.
struct Reading {
    writer: Arc<AsyncMutex<WriteHalf<TlsStream<TcpStream>>>>,
    sequence: Arc<AtomicI32>,
    answers: Answers,
    telling: mpsc::UnboundedSender<Told>,
    ready: Option<oneshot::Sender<()>>,
    peers: Arc<AtomicUsize>,
}

impl Reading {
    async fn run(mut self, mut reader: ReadHalf<TlsStream<TcpStream>>) {
        while let Some(frame) = read(&mut reader).await {
            if let Some(clock) = frame.u64(common_key::HEARTBEAT) {
                self.send(
                    Builder::new(common::HEARTBEAT)
                        .u64(common_key::HEARTBEAT_ECHO, clock)
                        .empty(),
                )
                .await;
            }
            if let Some(waiting) = frame
                .reply_for()
                .and_then(|sequence| self.answers.lock().remove(&sequence))
            {
                drop(waiting.send(frame));
                continue;
            }
            match frame.content_type() {
                content::SERVER_HELLO => {
                    let answer = edge::ClientHello {
                        version: "v1.1.15".into(),
                        hostname: "bench".into(),
                        ..Default::default()
                    };
                    self.send(
                        Builder::reply(content::CLIENT_HELLO, &frame).body(&answer.encode_to_vec()),
                    )
                    .await;
                }
                content::API_SESSION_ADDED => {
                    let state = frame
                        .header(key::SYNC_STATE)
                        .and_then(|state| serde_json::from_slice::<Value>(state).ok());
                    if state.is_some_and(|state| state["isLast"] == true) {
                        self.ready.take().map(|ready| ready.send(()));
                    }
                }
                content::PEER_STATE_CHANGES => {
                    let told = fabric::PeerStateChanges::decode(frame.body())
                        .expect("changes")
                        .changes;
                    let connected = told
                        .iter()
                        .filter(|change| change.state() == fabric::PeerState::Healthy)
                        .count();
                    self.peers.fetch_add(connected, Ordering::Relaxed);
                }
                content::ROUTE => {
                    let route = fabric::Route::decode(frame.body()).expect("a route");
                    let result = Builder::reply(content::ROUTE_RESULT, &frame)
                        .u32(key::ROUTE_ATTEMPT, route.attempt);
                    self.send(
                        result
                            .flag(key::ROUTE_SUCCESS, true)
                            .body(route.circuit_id.as_bytes()),
                    )
                    .await;
                    if route.attempt == REROUTE {
                        drop(self.telling.send(Told::Rerouted(Instant::now())));
                    }
                }
                content::SESSION_REMOVED => {
                    drop(self.telling.send(Told::SessionsRemoved(Instant::now())))
                }
                _ => {}
            }
        }
    }

    async fn send(&self, mut frame: Frame) {
        frame.set_sequence(self.sequence.fetch_add(1, Ordering::Relaxed));
        let mut writer = self.writer.lock().await;
        drop(writer.write_all(frame.as_bytes()).await);
        drop(writer.flush().await);
    }
}

impl Router {
    pub async fn send(
        &self,
        mut frame: Frame,
        wants_answer: bool,
    ) -> Option<oneshot::Receiver<Frame>> {
        let (waiting, answer) = oneshot::channel();
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        frame.set_sequence(sequence);
        if wants_answer {
            self.answers.lock().insert(sequence, waiting);
        }
        let mut writer = self.writer.lock().await;
        writer
            .write_all(frame.as_bytes())
            .await
            .expect("a connection");
        writer.flush().await.expect("a connection");
        wants_answer.then_some(answer)
    }

    async fn ask(&self, frame: Frame) -> Frame {
        let answer = self.send(frame, true).await.expect("an answer is wanted");
        timeout(PATIENCE, answer)
            .await
            .expect("no answer")
            .expect("a connection")
    }

    /// Reports links to other routers, by id and router.
    pub async fn link(&self, links: &[(String, &str)]) {
        let link = |(id, to): &(String, &str)| fabric::RouterLink {
            id: id.clone(),
            destination_router_id: (*to).to_owned(),
            protocol: "tls".into(),
            iteration: 1,
            ..Default::default()
        };
        let report = fabric::RouterLinks {
            links: links.iter().map(link).collect(),
            full_refresh: false,
        };
        self.send(
            Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()),
            false,
        )
        .await;
        self.ask(Builder::new(common::PING).empty()).await;
    }

    /// Reports the loss of a link.
    pub async fn lose(&self, link: &str) {
        let fault = fabric::Fault {
            subject: fabric::FaultSubject::Link.into(),
            id: link.to_owned(),
            iteration: 1,
        };
        self.send(
            Builder::new(content::FAULT).body(&fault.encode_to_vec()),
            false,
        )
        .await;
    }

    /// Creates a terminator for a session.
    pub async fn bind(&self, id: &str, token: &str, fingerprint: &str) {
        let wanted = edge::CreateTerminator {
            address: id.into(),
            session_token: token.into(),
            fingerprints: vec![fingerprint.into()],
            ..Default::default()
        };
        let answer = self
            .ask(Builder::new(content::CREATE_TERMINATOR).body(&wanted.encode_to_vec()))
            .await;
        let answer = edge::CreateTerminatorResponse::decode(answer.body()).expect("an answer");
        assert_eq!(
            answer.result(),
            edge::CreateTerminatorResult::Success,
            "{answer:?}"
        );
    }

    /// Opens a circuit.
    pub async fn dial(&self, token: &str, fingerprint: &str) {
        let wanted = Builder::new(content::CREATE_CIRCUIT)
            .bytes(
                key::PEER_DATA,
                &value::of_bytes_by_number(&[(1008, "caller")]),
            )
            .text(key::SESSION_TOKEN, token)
            .bytes(key::FINGERPRINTS, &value::of_texts(&[fingerprint]))
            .text(key::INSTANCE, "");
        let answer = self.ask(wanted.empty()).await;
        assert_eq!(
            answer.content_type(),
            content::CREATE_CIRCUIT_RESPONSE,
            "{}",
            String::from_utf8_lossy(answer.body())
        );
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The next message; none if the connection has ended.
async fn read(reader: &mut ReadHalf<TlsStream<TcpStream>>) -> Option<Frame> {
    let mut head = [0; HEAD];
    reader.read_exact(&mut head).await.ok()?;
    let mut bytes = BytesMut::from(&head[..]);
    bytes.resize(Head::decode(&head, LIMITS).ok()?.size(), 0);
    reader.read_exact(&mut bytes[HEAD..]).await.ok()?;
    Frame::decode(bytes, LIMITS).ok()
}

/// A text in an answer.
pub fn text(answer: &[u8], pointer: &str) -> String {
    let json: Value = serde_json::from_slice(answer).unwrap_or_default();
    json.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer}: {}", String::from_utf8_lossy(answer)))
        .to_owned()
}
