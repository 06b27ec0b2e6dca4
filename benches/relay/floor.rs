//! The floors: a relay that only copies, in a process of its own, and a single TLS connection.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use rcgen::generate_simple_self_signed;
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::Mutex,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::tls::trusting;

/// The argument that makes this program the relay.
pub const PLAIN: &str = "plain-relay";
const CHUNK: usize = 32 << 10;
/// The first byte of a connection that waits for a peer.
const HOST: u8 = b'h';
/// The first byte of a connection that the relay itself reads to its end.
const SINK: u8 = b's';

/// The relay as a child process; dropping it stops it.
pub struct Plain {
    pub process: Child,
    at: SocketAddr,
}

type Accepted = server::TlsStream<TcpStream>;
type TlsConnection = client::TlsStream<TcpStream>;

/// Runs the relay until it is killed.
pub fn relay() {
    Runtime::new().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("plain relay at {}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(own()));
        let waiting: Arc<Mutex<Vec<Accepted>>> = Arc::default();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tcp.set_nodelay(true).unwrap();
            let (acceptor, waiting) = (acceptor.clone(), waiting.clone());
            tokio::spawn(async move {
                let mut stream = acceptor.accept(tcp).await.unwrap();
                match stream.read_u8().await.unwrap() {
                    HOST => waiting.lock().await.push(stream),
                    SINK => {
                        while stream
                            .read(&mut [0; CHUNK * 2])
                            .await
                            .is_ok_and(|count| count > 0)
                        {}
                    }
                    _ => {
                        let host = waiting.lock().await.remove(0);
                        let ((from, to), (back, forth)) = (split(stream), split(host));
                        tokio::spawn(copy(from, forth));
                        copy(back, to).await;
                    }
                }
            });
        }
    });
}

fn own() -> ServerConfig {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    builder
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap()
}

async fn copy(mut from: ReadHalf<Accepted>, mut to: WriteHalf<Accepted>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    drop(to.shutdown().await);
}

impl Plain {
    pub fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg(PLAIN)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(process.stdout.take().unwrap()),
            &mut said,
        )
        .unwrap();
        let at = said
            .split_whitespace()
            .find_map(|word| word.parse().ok())
            .unwrap();
        Self { process, at }
    }

    async fn open(&self, first: u8) -> TlsConnection {
        let tcp = TcpStream::connect(self.at).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let tls = Arc::new(trusting().with_no_client_auth());
        let mut stream = TlsConnector::from(tls)
            .connect(ServerName::IpAddress(self.at.ip().into()), tcp)
            .await
            .unwrap();
        stream.write_u8(first).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    /// Sends so many bytes over each of some connections through the relay. Returns the duration in
    /// seconds.
    pub async fn carry(&self, connections: usize, bytes: usize) -> f64 {
        let mut pairs = Vec::new();
        for _ in 0..connections {
            pairs.push(self.pair().await);
        }
        let start = Instant::now();
        let carried: Vec<_> = pairs
            .into_iter()
            .map(|(dialer, host)| {
                (
                    tokio::spawn(write(dialer, bytes)),
                    tokio::spawn(read(host, bytes)),
                )
            })
            .collect();
        for (written, read) in carried {
            let _open = written.await.unwrap();
            read.await.unwrap();
        }
        start.elapsed().as_secs_f64()
    }

    /// The round trips of single bytes between a client and a host, in milliseconds: quiet, and
    /// beside the transfer of another pair.
    pub async fn pings(&self, count: usize) -> [Vec<f64>; 2] {
        let (mut near, mut far) = self.pair().await;
        tokio::spawn(async move {
            let mut byte = [0];
            while far.read_exact(&mut byte).await.is_ok()
                && far.write_all(&byte).await.is_ok()
                && far.flush().await.is_ok()
            {}
        });
        let quiet = round_trips(&mut near, count).await;
        let (mut from, to) = self.pair().await;
        let sending = tokio::spawn(async move {
            let chunk = vec![7; CHUNK];
            while from.write_all(&chunk).await.is_ok() {}
        });
        let reading = tokio::spawn(read(to, usize::MAX));
        let beside = round_trips(&mut near, count).await;
        sending.abort();
        reading.abort();
        [quiet, beside]
    }

    /// A client and the host that the relay connects it to.
    async fn pair(&self) -> (TlsConnection, TlsConnection) {
        let host = self.open(HOST).await;
        // The relay must know the host before a client asks for one.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        (self.open(b'd').await, host)
    }

    /// Sends so many bytes to the relay process over one connection.
    pub async fn fill(&self, bytes: usize) {
        let mut stream = write(self.open(SINK).await, bytes).await;
        drop(stream.shutdown().await);
        while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn write(mut to: TlsConnection, bytes: usize) -> TlsConnection {
    let chunk = vec![7; CHUNK];
    for _ in 0..bytes / CHUNK {
        to.write_all(&chunk).await.unwrap();
    }
    to.flush().await.unwrap();
    to
}

async fn round_trips(over: &mut TlsConnection, count: usize) -> Vec<f64> {
    let (mut times, mut byte) = (Vec::with_capacity(count), [1]);
    for _ in 0..count {
        let start = Instant::now();
        over.write_all(&byte).await.unwrap();
        over.flush().await.unwrap();
        over.read_exact(&mut byte).await.unwrap();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times
}

async fn read(mut from: TlsConnection, bytes: usize) {
    let (mut left, mut buffer) = (bytes, vec![0; 64 << 10]);
    while left > 0 {
        left -= from.read(&mut buffer).await.unwrap();
    }
}
