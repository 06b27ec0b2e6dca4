//! Bytes between two endpoints of this program.

use std::time::Duration;

use client::{Binding, Connection, DialError, Forwarding, ReceiveError, SessionError, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::timeout,
};

use super::{Network, bind, lead};
use crate::router::scene::run;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that sends back what it receives, until the client has finished.
pub(super) async fn echo() -> String {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = server.accept().await {
            tokio::spawn(async move {
                let (mut input, mut output) = socket.split();
                drop(tokio::io::copy(&mut input, &mut output).await);
                drop(output.shutdown().await);
            });
        }
    });
    address
}

/// Hosts the service of a network with an echo server, and returns a port that leads to it.
async fn port(network: &Network) -> std::net::SocketAddr {
    let (session, service) = network.session(&network.host).await;
    let target: Target = echo().await.parse().unwrap();
    lead(session, &service, target);
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = port.local_addr().unwrap();
    let forwarding = forwarding(network).await;
    hosted(&forwarding).await;
    tokio::spawn(forwarding.serve_connections(port));
    address
}

async fn forwarding(network: &Network) -> Forwarding {
    let (session, service) = network.session(&network.dialer).await;
    Forwarding::new(session, service, None)
}

/// Waits until the service can be dialed.
async fn hosted(forwarding: &Forwarding) {
    let dialed = async {
        while forwarding.dial().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, dialed).await.unwrap();
}

/// What comes back of what is sent through a port.
async fn sent_back(port: std::net::SocketAddr, data: &[u8]) -> Vec<u8> {
    try_to_send(port, data).await.unwrap()
}

/// The same. It fails if the connection is reset, because the service cannot be dialed.
async fn try_to_send(port: std::net::SocketAddr, data: &[u8]) -> std::io::Result<Vec<u8>> {
    let socket = TcpStream::connect(port).await?;
    let (mut input, mut output) = socket.into_split();
    let data = data.to_vec();
    let sending = async {
        output.write_all(&data).await?;
        output.shutdown().await
    };
    let mut back = Vec::new();
    let both = async { tokio::try_join!(sending, input.read_to_end(&mut back)) };
    timeout(PATIENCE, both).await.unwrap()?;
    Ok(back)
}

fn some(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn all_bytes_arrive_and_each_direction_ends_alone() {
    for is_encrypted in [true, false] {
        let network = Network::new(is_encrypted);
        run(async {
            let port = port(&network).await;
            for length in [0, 1, 16 << 10, 1 << 20, 10 << 20] {
                let data = some(length);
                let back = sent_back(port, &data).await;
                assert!(back == data, "{length} bytes, encrypted: {is_encrypted}");
            }
        });
    }
}

#[test]
fn a_hundred_connections_run_at_once() {
    let network = Network::new(true);
    run(async {
        let port = port(&network).await;
        let data = some(100_000);
        let all: Vec<_> = (0..100)
            .map(|_| {
                let data = data.clone();
                tokio::spawn(async move { sent_back(port, &data).await == data })
            })
            .collect();
        for one in all {
            assert!(one.await.unwrap());
        }
    });
}

#[test]
fn datagrams_keep_their_borders() {
    let network = Network::new(true);
    run(async {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = format!("udp:{}", server.local_addr().unwrap());
        let (session, service) = network.session(&network.host).await;
        lead(session, &service, target.parse().unwrap());
        tokio::spawn(async move {
            let mut buffer = vec![0; 70_000];
            while let Ok((length, from)) = server.recv_from(&mut buffer).await {
                server.send_to(&buffer[..length], from).await.unwrap();
            }
        });
        let forwarding = forwarding(&network).await;
        hosted(&forwarding).await;
        let port = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = port.local_addr().unwrap();
        tokio::spawn(forwarding.serve_datagrams(port));
        // Two senders, each with several datagrams at once.
        for base in [1, 300] {
            let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            client.connect(address).await.unwrap();
            let sent: Vec<Vec<u8>> = [base, 1_400, 9_000, base + 1].map(some).to_vec();
            for datagram in &sent {
                client.send(datagram).await.unwrap();
            }
            for datagram in &sent {
                let mut back = vec![0; 70_000];
                let length = timeout(PATIENCE, client.recv(&mut back)).await.unwrap();
                assert!(back[..length.unwrap()] == *datagram);
            }
        }
    });
}

#[test]
fn dialers_learn_why_they_are_refused() {
    let network = Network::new(true);
    run(async {
        let (session, service) = network.session(&network.dialer).await;
        let unknown = session.service("no such service").await;
        assert!(matches!(unknown, Err(SessionError::NoService(_))));
        let nobody = session.dial(&service, None, None).await.err().unwrap();
        assert!(
            nobody.to_string().contains("has no terminators"),
            "{nobody}"
        );
        let refused = bind(&session, &service).await.err().unwrap();
        assert!(matches!(refused, SessionError::NoRight { .. }), "{refused}");
        // Nothing listens at the target.
        let (hosting, hosted) = network.session(&network.host).await;
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = taken.local_addr().unwrap().to_string();
        drop(taken);
        lead(hosting, &hosted, target.parse().unwrap());
        let told = async {
            loop {
                let refused = session.dial(&service, None, None).await.err().unwrap();
                if refused.to_string().contains("cannot be reached") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.unwrap();
    });
}

#[test]
fn a_lost_session_ends_connections_and_is_made_anew() {
    let network = Network::new(true);
    run(async {
        let (hosting, service) = network.session(&network.host).await;
        let mut binding: Binding = bind(&hosting, &service).await.unwrap();
        let (session, dialed) = network.session(&network.dialer).await;
        let connecting = async { session.dial(&dialed, None, None).await.unwrap() };
        let accepting = async { binding.next().await.unwrap().accept().await.unwrap() };
        let (connection, accepted) = tokio::join!(connecting, accepting);
        let connection: Connection = connection;
        let (_sender, mut receiver) = connection.split();
        network.end_sessions(&network.dialer_id).await;
        let ended = timeout(PATIENCE, receiver.receive()).await.unwrap();
        assert!(
            matches!(ended, Ok(None) | Err(ReceiveError::Channel(_))),
            "{ended:?}"
        );
        drop(accepted);
        let connecting = async { session.dial(&dialed, None, None).await.unwrap() };
        let accepting = async { binding.next().await.unwrap().accept().await.unwrap() };
        let (_one, _other) = timeout(PATIENCE, async { tokio::join!(connecting, accepting) })
            .await
            .unwrap();
    });
}

#[test]
fn hosts_come_back_after_their_session_has_ended() {
    let network = Network::new(true);
    run(async {
        let port = port(&network).await;
        assert_eq!(sent_back(port, b"before").await, b"before");
        network.end_sessions(&network.host_id).await;
        let again = async {
            while try_to_send(port, b"after").await.ok().as_deref() != Some(b"after") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, again).await.unwrap();
    });
}

#[test]
fn hosts_reject_with_their_own_words() {
    let network = Network::new(false);
    run(async {
        let (hosting, service) = network.session(&network.host).await;
        let mut binding = bind(&hosting, &service).await.unwrap();
        let (session, dialed) = network.session(&network.dialer).await;
        let connecting = async { session.dial(&dialed, None, Some(b"hello")).await.err() };
        let rejecting = async {
            let dialer = binding.next().await.unwrap();
            assert_eq!(dialer.name(), Some(session.identity().as_str()));
            assert_eq!(dialer.app_data(), Some(&b"hello"[..]));
            dialer.reject("not today").await;
        };
        let (refused, ()) = tokio::join!(connecting, rejecting);
        let Some(SessionError::Dial {
            error: DialError::Refused { text, .. },
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert!(text.contains("not today"), "{text}");
    });
}
