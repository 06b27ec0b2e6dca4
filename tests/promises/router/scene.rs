//! A controller with its router, and identities with channels to it. Channels run in memory unless
//! a test says otherwise.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use fabric::network::ChannelPeer;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde_json::json;
use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    net::TcpStream,
    runtime::Runtime,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::frame::Frame;

use super::sdk::{self, Conn, Host, Options, PATIENCE, Refused, Sdk};
use crate::harness::{Caller, Key, TestServer, fresh, speaking};

/// The runtime of the tests' SDKs.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
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
pub fn soon(holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !holds() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// The answer to a hello; none if the connection is closed instead.
pub async fn answer(mut stream: DuplexStream, hello: &[u8]) -> Option<Frame> {
    stream.write_all(hello).await.unwrap();
    sdk::read(&mut stream).await.ok().flatten()
}

/// An identity that is logged in by its certificate.
#[derive(Clone)]
pub struct Member {
    pub id: String,
    pub name: String,
    pub caller: Caller,
    pub leaf: CertificateDer<'static>,
    pub key: Arc<Key>,
}

impl Member {
    /// A new identity.
    pub fn new(server: &TestServer, name: &str) -> Self {
        let name = fresh(name);
        let id = server.identity(&name, json!({ "enrollment": { "ott": true } }));
        let key = Key::new();
        let path = format!("/enroll?method=ott&token={}", server.token_of(&id));
        let issued = server
            .anonymous()
            .ask("POST", &path)
            .body("application/pkcs10", key.request())
            .send()
            .expect(200);
        let pem = issued.data()["cert"].as_str().unwrap();
        let caller = server.with_certificate(pem, &key).log_in_by_certificate();
        Self::showing(id, name, caller, pem, key)
    }

    /// A logged-in identity, and the certificate of its channels.
    pub fn showing(id: String, name: String, caller: Caller, pem: &str, key: Key) -> Self {
        let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        Self {
            id,
            name,
            caller,
            leaf,
            key: Arc::new(key),
        }
    }

    /// The token of the API session.
    pub fn token(&self) -> &str {
        self.caller.token.as_deref().unwrap()
    }

    /// SHA-1 of the certificate, as routers report it.
    pub fn fingerprint(&self) -> String {
        pki::Certificate::from_der(&self.leaf)
            .unwrap()
            .fingerprint()
    }

    /// The token of a session for a service.
    pub fn session(&self, service: &str, right: &str) -> String {
        let session = self
            .caller
            .post("/sessions", json!({ "serviceId": service, "type": right }))
            .expect(201);
        session.data()["token"].as_str().unwrap().to_owned()
    }

    /// A TLS connection to the controller with these ALPN protocols and these certificates, signed
    /// with the member's key.
    pub async fn tls(
        &self,
        at: SocketAddr,
        offers: &[&str],
        chain: Vec<CertificateDer<'static>>,
        is_old: bool,
    ) -> TlsStream<TcpStream> {
        self.try_tls(at, offers, chain, is_old).await.unwrap()
    }

    /// The same; the error is that of the handshake.
    pub async fn try_tls(
        &self,
        at: SocketAddr,
        offers: &[&str],
        chain: Vec<CertificateDer<'static>>,
        is_old: bool,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let key = PrivateKeyDer::try_from(self.key.der()).unwrap();
        let versions = if is_old {
            &[&rustls::version::TLS12]
        } else {
            rustls::ALL_VERSIONS
        };
        let mut config = speaking(versions)
            .with_client_auth_cert(chain, key)
            .unwrap();
        config.alpn_protocols = offers
            .iter()
            .map(|offer| offer.as_bytes().to_vec())
            .collect();
        let socket = TcpStream::connect(at).await.unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), socket)
            .await
    }

    /// A connection to the router in memory, before the hello.
    pub fn stream(&self, server: &TestServer) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(256 << 10);
        server
            .router()
            .serve(
                theirs,
                ChannelPeer {
                    address: None,
                    leaf: Some(self.leaf.clone()),
                },
            )
            .unwrap();
        ours
    }

    /// Opens a channel to the router; the error is its refusal.
    pub async fn try_connect(&self, server: &TestServer, options: Options) -> Result<Sdk, Refused> {
        Sdk::connect(self.stream(server), self.token(), options).await
    }

    /// Opens a channel to the router.
    pub async fn connect(&self, server: &TestServer, options: Options) -> Sdk {
        self.try_connect(server, options).await.unwrap()
    }
}

/// A service, an identity that hosts it and one that may dial it.
pub struct Scene {
    pub server: TestServer,
    pub service: String,
    pub host: Member,
    pub client: Member,
    /// The ids of the policies that allow it.
    pub bind: String,
    pub dial: String,
}

impl Scene {
    pub fn new() -> Self {
        Self::on(TestServer::with_router(), false)
    }

    /// On this server, with a service that requires encryption or does not.
    pub fn on(server: TestServer, is_encrypted: bool) -> Self {
        let service = server.service(
            &fresh("service"),
            json!({ "encryptionRequired": is_encrypted }),
        );
        let (host, client) = (Member::new(&server, "host"), Member::new(&server, "client"));
        let of = |member: &Member| format!("@{}", member.id);
        let bind = server.service_policy("Bind", &[&of(&host)], &[&format!("@{service}")]);
        let dial = server.service_policy("Dial", &[&of(&client)], &[&format!("@{service}")]);
        Self {
            server,
            service,
            host,
            client,
            bind,
            dial,
        }
    }

    /// A channel of the host with a binding of the service.
    pub async fn hosted(&self, options: Options) -> Host {
        let sdk = self.host.connect(&self.server, options).await;
        sdk.host(&self.host.session(&self.service, "Bind"))
            .await
            .unwrap()
    }

    /// A channel of the client, and the token of its session for the service.
    pub async fn dialler(&self, options: Options) -> (Sdk, String) {
        (
            self.client.connect(&self.server, options).await,
            self.client.session(&self.service, "Dial"),
        )
    }

    /// Both ends of a new connection.
    pub async fn connected(&self, options: Options) -> (Conn, Conn, Host) {
        let mut host = self.hosted(options).await;
        let (sdk, token) = self.dialler(options).await;
        let (client, accepted) = tokio::join!(sdk.dial(&token), host.accept());
        (client.unwrap(), accepted, host)
    }
}
