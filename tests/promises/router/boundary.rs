//! What a client may cost before it is authenticated: bytes, and time that each byte does not
//! extend.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::{clock::Clock, config::Span};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use wire::frame::{Builder, content};

use super::{
    scene::{Member, run, soon},
    sdk::{Options, PATIENCE, Sdk, key},
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

/// Sends one byte after the other, with a pause after each, until the connection is closed. Returns
/// how many were sent.
async fn drip(mut stream: TcpStream, bytes: &[u8]) -> usize {
    stream.set_nodelay(true).unwrap();
    for (sent, byte) in bytes.iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answer = [0; 64];
        let is_closed = matches!(stream.try_read(&mut answer), Ok(0))
            || stream.write_all(&[*byte]).await.is_err();
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
                tokio::spawn(
                    async move { drip(TcpStream::connect(at).await.unwrap(), &bytes).await },
                )
            })
            .collect();
        for one in dripping {
            assert!(
                one.await.unwrap() < bytes.len(),
                "a byte now and then keeps the connection"
            );
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
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    first_line(&mut stream).await
}

/// The first line of the answer to a request; blank if the connection is closed.
async fn first_line(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> String {
    let _ = stream
        .write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
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
        assert!(
            before < DRIPPING / 2,
            "{before} connections of another network were served before"
        );
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
                let mut stream = match member
                    .try_tls(server.bound(), &["http/1.1"], of(bytes), is_old)
                    .await
                {
                    Ok(stream) => stream,
                    Err(_) if !is_served => continue,
                    Err(error) => panic!("{bytes} bytes: {error}"),
                };
                assert_eq!(
                    first_line(&mut stream).await,
                    if is_served { "HTTP/1.1 200 OK" } else { "" },
                    "{bytes} bytes"
                );
            }
        }
        let stream = member
            .tls(server.bound(), &["ziti-edge"], of(16 << 10), false)
            .await;
        Sdk::connect(stream, member.token(), Options::GO)
            .await
            .unwrap();
        let stream = member
            .tls(server.bound(), &["ziti-edge"], of(18 << 10), false)
            .await;
        Sdk::connect(stream, member.token(), Options::GO)
            .await
            .err()
            .unwrap();
    });
}

/// A TLS record with 4 KiB of a ClientHello of 60 KiB, which TLS itself allows; `is_first` if it
/// has its beginning.
fn part_of_a_client_hello(is_first: bool) -> Vec<u8> {
    let mut record = vec![22, 3, 1, 0x10, 0x00];
    record.extend_from_slice(if is_first { &[1, 0, 0xf0, 0] } else { &[0; 4] });
    record.resize(5 + (4 << 10), 0);
    record
}

#[test]
fn long_client_hellos_are_cut_off() {
    const CONNECTIONS: usize = 16;
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_handshakes = CONNECTIONS;
        // Only the number of bytes can end it within this test.
        config.http.handshake_timeout = Span::minutes(1);
    });
    run(async {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(server.bound()).await.unwrap();
            // 12 KiB are read, and the rest is waited for.
            for number in 0..3 {
                stream
                    .write_all(&part_of_a_client_hello(number == 0))
                    .await
                    .unwrap();
            }
            open.push(stream);
        }
        for stream in &mut open {
            let answer = timeout(Duration::from_millis(20), stream.read(&mut [0; 64])).await;
            assert!(
                answer.is_err(),
                "12 KiB of a ClientHello are refused: {answer:?}"
            );
        }
        // With 16 KiB and the heads of four records it is closed. Nothing more is sent: a
        // controller that took more would wait for it.
        for stream in &mut open {
            stream
                .write_all(&part_of_a_client_hello(false))
                .await
                .unwrap();
            let answer = timeout(PATIENCE, stream.read(&mut [0; 64])).await;
            assert!(
                matches!(answer, Ok(Ok(0) | Err(_))),
                "more than 16 KiB of a ClientHello are taken: {answer:?}"
            );
        }
        server.admin.get("/version").expect(200);
    });
}

#[test]
fn dripping_hellos_are_cut_off() {
    let server = server();
    let member = Member::new(&server, "member");
    let hello = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, member.token())
        .body(&[b'x'; 4000])
        .into_bytes();
    run(async {
        // Authentication begins with the first complete message: these hold places of
        // unauthenticated clients.
        let mut dripping = Vec::new();
        for _ in 0..8 {
            let (member, hello, at) = (member.clone(), hello.clone(), server.bound());
            dripping.push(tokio::spawn(async move {
                let mut stream = member
                    .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                    .await;
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
            assert!(
                one.await.unwrap() < hello.len(),
                "a byte now and then keeps the connection"
            );
        }
        assert!(
            soon(|| server.router().traffic().hellos_missing == 8),
            "{:?}",
            server.router().traffic()
        );
        member.connect(&server, Options::GO).await;
    });
}

#[test]
fn unread_refusals_hold_no_place() {
    let server = server();
    let member = Member::new(&server, "member");
    let refused = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, "nobody's")
        .empty()
        .into_bytes();
    run(async {
        let mut unread = Vec::new();
        for _ in 0..32 {
            let mut stream = member
                .tls(
                    server.bound(),
                    &["ziti-edge"],
                    vec![member.leaf.clone()],
                    false,
                )
                .await;
            stream.write_all(&refused).await.unwrap();
            unread.push(stream);
        }
        assert!(soon(|| server.router().traffic().hellos_refused == 32));
        let stream = member
            .tls(
                server.bound(),
                &["ziti-edge"],
                vec![member.leaf.clone()],
                false,
            )
            .await;
        Sdk::connect(stream, member.token(), Options::GO)
            .await
            .unwrap();
        drop(unread);
    });
}
