//! What a client may cost before it is authenticated: bytes, and time that each byte does not extend.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use overkeep::testing::{
    clock::Clock,
    config::Span,
    frame::{Builder, content},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    scene::{Member, run, soon},
    sdk::{Options, Sdk, key},
};
use crate::harness::{TestServer, speaking};

/// A server whose handshakes may take two seconds, with room for 16 of them.
fn server() -> TestServer {
    TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_handshakes = 16;
        config.http.handshake_timeout = Span::seconds(2);
    })
}

/// Sends one byte after the other, with a pause after each, until the connection is closed. Returns how many were sent.
async fn drip(mut stream: TcpStream, bytes: &[u8]) -> usize {
    stream.set_nodelay(true).unwrap();
    for (sent, byte) in bytes.iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answer = [0; 64];
        let is_closed = matches!(stream.try_read(&mut answer), Ok(0)) || stream.write_all(&[*byte]).await.is_err();
        if is_closed {
            return sent;
        }
    }
    bytes.len()
}

/// The start of a TLS record with the start of a ClientHello of almost 16 MiB.
const CLIENT_HELLO: [u8; 9] = [22, 3, 1, 0x40, 0x00, 1, 0xff, 0xff, 0xff];

#[test]
fn dripping_client_hellos_are_cut_off() {
    let server = server();
    run(async {
        let bytes = [&CLIENT_HELLO[..], &[0; 2000]].concat();
        // More than there are slots for handshakes.
        let dripping: Vec<_> = (0..32)
            .map(|_| {
                let (at, bytes) = (server.bound(), bytes.clone());
                tokio::spawn(async move { drip(TcpStream::connect(at).await.unwrap(), &bytes).await })
            })
            .collect();
        for one in dripping {
            assert!(one.await.unwrap() < bytes.len(), "a byte now and then keeps the connection");
        }
        server.admin.get("/version").expect(200);
    });
}

/// The first line of the answer to a request from this address of the host.
async fn answered(from: [u8; 4], at: SocketAddr) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let stream = socket.connect(at).await.unwrap();
    let mut config = speaking(rustls::ALL_VERSIONS).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    first_line(&mut stream).await
}

/// The first line of the answer to a request; blank if the connection is closed.
async fn first_line(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> String {
    let _ = stream.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn drips_delay_their_own_network() {
    const DRIPPING: usize = 160;
    let server = server();
    run(async {
        let at = server.bound();
        let bytes = [&CLIENT_HELLO[..], &[0; 2000]].concat();
        let (sending, cut_off) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let dripping: Vec<_> = (0..DRIPPING)
            .map(|_| {
                let (bytes, sending, cut_off) = (bytes.clone(), sending.clone(), cut_off.clone());
                tokio::spawn(async move {
                    let stream = TcpStream::connect(at).await.unwrap();
                    sending.fetch_add(1, Ordering::SeqCst);
                    drip(stream, &bytes).await;
                    cut_off.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        // They hold all places, and most of them wait for one.
        while sending.load(Ordering::SeqCst) < DRIPPING {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(answered([127, 0, 0, 2], at).await, "HTTP/1.1 200 OK");
        let before = cut_off.load(Ordering::SeqCst);
        assert!(before < DRIPPING / 2, "{before} connections of another network were served before");
        dripping.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

#[test]
fn large_client_certificates_are_refused() {
    let server = server();
    let member = Member::new(&server, "member");
    run(async {
        let of = |bytes: usize| vec![member.leaf.clone(); bytes / member.leaf.len()];
        for is_old in [false, true] {
            for (bytes, is_served) in [(16 << 10, true), (18 << 10, false), (60 << 10, false)] {
                let mut stream = match member.try_tls(server.bound(), &["http/1.1"], of(bytes), is_old).await {
                    Ok(stream) => stream,
                    Err(_) if !is_served => continue,
                    Err(error) => panic!("{bytes} bytes: {error}"),
                };
                assert_eq!(first_line(&mut stream).await, if is_served { "HTTP/1.1 200 OK" } else { "" }, "{bytes} bytes");
            }
        }
        let stream = member.tls(server.bound(), &["ziti-edge"], of(16 << 10), false).await;
        Sdk::connect(stream, member.token(), Options::GO).await.unwrap();
        let stream = member.tls(server.bound(), &["ziti-edge"], of(18 << 10), false).await;
        Sdk::connect(stream, member.token(), Options::GO).await.err().unwrap();
    });
}

/// Sends to this address until a write fails or nothing is taken for a second. Returns the number of bytes, and whether a write failed.
async fn flood(at: SocketAddr, mut record: Vec<u8>) -> (usize, bool) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let mut sent = 0;
    loop {
        match timeout(Duration::from_secs(1), stream.write(&record)).await {
            Ok(Ok(count)) => sent += count,
            Ok(Err(_)) => return (sent, true),
            Err(_) => return (sent, false),
        }
        record.fill(0);
    }
}

#[test]
fn endless_client_hellos_are_cut_off() {
    const CONNECTIONS: usize = 16;
    /// What is read of a ClientHello: the limit of 16 KiB, and one step of 2 KiB.
    const READ: usize = 18 << 10;
    let server = server();
    run(async {
        let mut record = CLIENT_HELLO.to_vec();
        record.resize(READ, 0);
        // What the operating system buffers for a connection that is accepted and never read.
        let unread = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (accepted, (buffered, _)) = tokio::join!(unread.accept(), flood(unread.local_addr().unwrap(), record.clone()));
        let floods = (0..CONNECTIONS).map(|_| flood(server.bound(), record.clone()));
        let sent: Vec<_> = futures_util::future::join_all(floods).await;
        assert!(sent.iter().all(|(_, is_cut_off)| *is_cut_off), "an endless ClientHello is not refused: {sent:?}");
        let total: usize = sent.iter().map(|(sent, _)| sent).sum();
        assert!(total <= CONNECTIONS * (buffered + READ), "{CONNECTIONS} connections sent {total} bytes; {buffered} are buffered for one");
        drop(accepted);
        server.admin.get("/version").expect(200);
    });
}

#[test]
fn dripping_hellos_are_cut_off() {
    let server = server();
    let member = Member::new(&server, "member");
    let hello = Builder::new(content::HELLO).text(key::SESSION_TOKEN, member.token()).body(&[b'x'; 4000]).into_bytes();
    run(async {
        // Authentication begins with the first complete message: these hold places of unauthenticated clients.
        let mut dripping = Vec::new();
        for _ in 0..8 {
            let (member, hello, at) = (member.clone(), hello.clone(), server.bound());
            dripping.push(tokio::spawn(async move {
                let mut stream = member.tls(at, &["ziti-edge"], vec![member.leaf.clone()], false).await;
                for (sent, byte) in hello.iter().enumerate() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let written = async {
                        stream.write_all(&[*byte]).await?;
                        stream.flush().await
                    };
                    if written.await.is_err() {
                        return sent;
                    }
                }
                hello.len()
            }));
        }
        for one in dripping {
            assert!(one.await.unwrap() < hello.len(), "a byte now and then keeps the connection");
        }
        assert!(soon(|| server.router().traffic().hellos_missing == 8), "{:?}", server.router().traffic());
        member.connect(&server, Options::GO).await;
    });
}

#[test]
fn unread_refusals_hold_no_place() {
    let server = server();
    let member = Member::new(&server, "member");
    let refused = Builder::new(content::HELLO).text(key::SESSION_TOKEN, "nobody's").empty().into_bytes();
    run(async {
        let mut unread = Vec::new();
        for _ in 0..32 {
            let mut stream = member.tls(server.bound(), &["ziti-edge"], vec![member.leaf.clone()], false).await;
            stream.write_all(&refused).await.unwrap();
            unread.push(stream);
        }
        assert!(soon(|| server.router().traffic().hellos_refused == 32));
        let stream = member.tls(server.bound(), &["ziti-edge"], vec![member.leaf.clone()], false).await;
        Sdk::connect(stream, member.token(), Options::GO).await.unwrap();
        drop(unread);
    });
}
