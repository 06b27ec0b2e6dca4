//! The floors: what cannot be left out of one side of an encrypted connection.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
};

use dryoc::classic::crypto_secretstream_xchacha20poly1305::{
    Header, Key, State, crypto_secretstream_xchacha20poly1305_init_pull as init_pull,
    crypto_secretstream_xchacha20poly1305_init_push as init_push,
    crypto_secretstream_xchacha20poly1305_pull as pull,
    crypto_secretstream_xchacha20poly1305_push as push,
};
use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConnection, ServerConfig, ServerConnection,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    runtime::Runtime,
};

use super::{spent::Spent, stage::Running, tls::trusting};

/// The argument that makes this program a copier.
pub const COPY: &str = "copy-to";
/// The bytes of a message, as the client sends them.
const MESSAGE: usize = (16 << 10) - 17;
/// How many messages are measured: a third of a gigabyte.
const MESSAGES: usize = 20_000;
const GB: f64 = 1e9;

/// Copies each connection to the target, until it is killed.
pub fn copy(target: &str) {
    Runtime::new().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        while let Ok((mut near, _)) = listener.accept().await {
            let target = target.to_owned();
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let ((mut from, mut to), (mut back, mut forth)) = (near.split(), far.split());
                tokio::join!(copied(&mut from, &mut forth), copied(&mut back, &mut to));
            });
        }
    });
}

async fn copied(from: &mut (impl AsyncReadExt + Unpin), to: &mut (impl AsyncWriteExt + Unpin)) {
    let mut buffer = vec![0; MESSAGE];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    drop(to.shutdown().await);
}

/// A copier as a child process, and its address.
pub fn copier(target: SocketAddr) -> (Running, SocketAddr) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([COPY, &target.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (Running(process), line.trim().parse().unwrap())
}

/// The CPU seconds of a closure in this process.
fn seconds(work: impl FnOnce()) -> f64 {
    let before = Spent::of(std::process::id());
    work();
    Spent::of(std::process::id()).since(&before)
}

/// CPU seconds for a gigabyte: encrypted, and decrypted.
pub fn cipher() -> (f64, f64) {
    let (key, mut header) = (Key::default(), Header::default());
    let (mut sender, mut receiver) = (State::new(), State::new());
    init_push(&mut sender, &mut header, &key);
    init_pull(&mut receiver, &header, &key);
    let message = vec![7; MESSAGE];
    let mut sealed = vec![vec![0; MESSAGE + 17]; MESSAGES / 10];
    let (mut encrypting, mut decrypting) = (0.0, 0.0);
    for _ in 0..10 {
        encrypting += seconds(|| {
            for place in &mut sealed {
                push(&mut sender, place, &message, None, 0).unwrap();
            }
        });
        let mut text = vec![0; MESSAGE];
        decrypting += seconds(|| {
            for place in &sealed {
                let mut tag = 0;
                pull(&mut receiver, &mut text, &mut tag, place, None).unwrap();
            }
        });
    }
    let carried = (MESSAGE * MESSAGES) as f64 / GB;
    (encrypting / carried, decrypting / carried)
}

/// CPU seconds for a gigabyte over TLS in memory: written, and read.
pub fn tls() -> (f64, f64) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = Arc::new(trusting().with_no_client_auth());
    let mut client = ClientConnection::new(client, name).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut flight = Vec::new();
        client.write_tls(&mut flight).unwrap();
        read(&mut server, &flight);
        let mut flight = Vec::new();
        server.write_tls(&mut flight).unwrap();
        let mut flight = flight.as_slice();
        while !flight.is_empty() {
            client.read_tls(&mut flight).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    // A message of the channel, with its head.
    let message = vec![7; MESSAGE + 17 + 60];
    let (mut writing, mut reading) = (0.0, 0.0);
    for _ in 0..10 {
        let mut sent = Vec::with_capacity((message.len() + 200) * MESSAGES / 10);
        writing += seconds(|| {
            for _ in 0..MESSAGES / 10 {
                client.writer().write_all(&message).unwrap();
                while client.wants_write() {
                    client.write_tls(&mut sent).unwrap();
                }
            }
        });
        reading += seconds(|| read(&mut server, &sent));
    }
    let carried = (MESSAGE * MESSAGES) as f64 / GB;
    (writing / carried, reading / carried)
}

fn read(server: &mut ServerConnection, mut sent: &[u8]) {
    let mut text = vec![0; 64 << 10];
    while !sent.is_empty() {
        server.read_tls(&mut sent).unwrap();
        server.process_new_packets().unwrap();
        loop {
            match server.reader().read(&mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What a copier uses for a gigabyte in CPU seconds: `upload` sends it to the server.
pub fn sockets(server: SocketAddr, carry: impl Fn(&mut TcpStream)) -> f64 {
    let (process, at) = copier(server);
    let before = Spent::of(process.0.id());
    carry(&mut TcpStream::connect(at).unwrap());
    Spent::of(process.0.id()).since(&before)
}
