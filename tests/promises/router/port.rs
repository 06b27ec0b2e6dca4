//! One port: the protocol is recognized by ALPN or by the first byte.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use overkeep::testing::{clock::Clock, config::Span};
use rustls::{
    SignatureScheme, client::ResolvesClientCert, pki_types::ServerName, sign::CertifiedKey,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Event, Options, Sdk},
};
use crate::harness::{Base, PASSWORD, TestServer, fresh, speaking};

const REQUEST: &[u8] =
    b"GET /edge/client/v1/version HTTP/1.1\r\nhost: it\r\nconnection: close\r\n\r\n";

#[test]
fn sdks_reach_the_shared_port() {
    let scene = Scene::new();
    let at = scene.server.bound();
    run(async {
        let host = Sdk::connect(
            scene
                .host
                .tls(at, &["ziti-edge"], vec![scene.host.leaf.clone()], false)
                .await,
            scene.host.token(),
            Options::GO,
        );
        let host = host.await.unwrap();
        let mut listener = host
            .host(&scene.host.session(&scene.service, "Bind"))
            .await
            .unwrap();
        let token = scene.client.session(&scene.service, "Dial");
        for (offers, is_old) in [
            (&[][..], false),
            (&[], true),
            (&["ziti-edge"], false),
            (&["h2", "ziti-edge"], true),
        ] {
            let stream = scene
                .client
                .tls(at, offers, vec![scene.client.leaf.clone()], is_old)
                .await;
            let sdk = Sdk::connect(stream, scene.client.token(), Options::C)
                .await
                .unwrap();
            let (client, accepted) = tokio::join!(sdk.dial(&token), listener.accept());
            let (mut client, accepted) = (client.unwrap(), accepted);
            client.send(b"over TLS").await;
            tokio::spawn(accepted.echo());
            assert_eq!(client.data().await, b"over TLS", "{offers:?} {is_old}");
        }
        let shown = scene.server.router().channels();
        assert!(
            shown
                .iter()
                .any(|channel| channel.identity_id == scene.host.id),
            "{shown:?}"
        );
        assert!(
            shown.iter().all(|channel| channel
                .address
                .is_some_and(|address| address.ip().is_loopback())),
            "{shown:?}"
        );
        let log_in = json!({ "sdkInfo": { "type": "ziti-sdk-golang", "version": "1.9.0" } });
        scene
            .host
            .caller
            .post("/authenticate?method=cert", log_in)
            .expect(200);
        let of_host = format!("identity.id = \"{}\"", scene.host.id);
        let listed = scene
            .server
            .admin
            .at(Base::Overkeep)
            .list("/channels", &of_host, "")
            .expect(200);
        let one = &listed.data()[0];
        let of = ["sdk", "sdkVersion", "hello"].map(|name| one[name].as_str().unwrap());
        assert_eq!(
            (listed.total(), &one["identity"]["name"], of),
            (
                1,
                &json!(scene.host.name),
                ["ziti-sdk-golang", "1.9.0", "test-sdk"]
            )
        );
        assert!(
            one["address"]
                .as_str()
                .unwrap()
                .parse::<SocketAddr>()
                .is_ok()
                && one["since"].is_string(),
            "{one}"
        );
    });
}

#[test]
fn rest_works_without_alpn() {
    let scene = Scene::new();
    let at = scene.server.bound();
    run(async {
        for offers in [&["http/1.1"][..], &["h2", "http/1.1"], &[]] {
            let mut stream = scene
                .client
                .tls(at, offers, vec![scene.client.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains("apiVersions"),
                "{offers:?}: {answer}"
            );
        }
        // The bytes read for that belong to the request, and the client certificate counts.
        let mut stream = scene
            .client
            .tls(at, &[], vec![scene.client.leaf.clone()], false)
            .await;
        let request = "POST /edge/client/v1/authenticate?method=cert HTTP/1.1\r\nhost: it\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        for byte in request.as_bytes() {
            stream.write_all(&[*byte]).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(&scene.client.id),
            "{answer}"
        );
    });
}

#[test]
fn proven_certificate_counts() {
    let scene = Scene::new();
    let at = scene.server.bound();
    let stranger = Member::new(&scene.server, "stranger");
    run(async {
        // The stranger appends the certificate of another identity to its own.
        let chain = vec![stranger.leaf.clone(), scene.client.leaf.clone()];
        let refused = Sdk::connect(
            stranger.tls(at, &[], chain, false).await,
            scene.client.token(),
            Options::GO,
        )
        .await
        .err()
        .unwrap();
        assert_eq!(
            refused.text,
            "the client certificate does not belong to the API session"
        );
    });
}

/// Counts the authorities that a server names when it asks for a client certificate.
#[derive(Debug)]
struct NamedAuthorities(AtomicUsize);

impl ResolvesClientCert for NamedAuthorities {
    fn resolve(&self, authorities: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(authorities.len(), Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn certificates_of_any_authority_are_requested() {
    let scene = Scene::new();
    run(async {
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let named = Arc::new(NamedAuthorities(AtomicUsize::new(usize::MAX)));
            let config = Arc::new(speaking(versions).with_client_cert_resolver(named.clone()));
            let socket = TcpStream::connect(scene.server.bound()).await.unwrap();
            TlsConnector::from(config)
                .connect(ServerName::try_from("localhost").unwrap(), socket)
                .await
                .unwrap();
            // A client whose certificate is of none of the named authorities would send none.
            assert_eq!(named.0.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn router_port_serves_no_rest() {
    let listen = |config: &mut overkeep::testing::config::Config| {
        config.router.enabled = true;
        config.router.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    };
    let scene = Scene::on(TestServer::with(Clock::system(), listen), false);
    let shown = scene.server.admin.get("/edge-routers/built-in").expect(200);
    let address = shown.data()["supportedProtocols"]["tls"]
        .as_str()
        .unwrap()
        .strip_prefix("tls://")
        .unwrap()
        .to_owned();
    let at: SocketAddr = address.parse().unwrap();
    assert_ne!(at, scene.server.bound());
    run(async {
        for at in [at, scene.server.bound()] {
            let stream = scene
                .client
                .tls(at, &[], vec![scene.client.leaf.clone()], false)
                .await;
            Sdk::connect(stream, scene.client.token(), Options::GO)
                .await
                .unwrap();
        }
        let mut stream = scene
            .client
            .tls(at, &[], vec![scene.client.leaf.clone()], false)
            .await;
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "this port serves no REST");
    });
}

#[test]
fn disabled_router_leaves_rest_working() {
    let server = TestServer::start();
    let member = Member::new(&server, "member");
    run(async {
        let mut stream = member
            .tls(server.bound(), &[], vec![member.leaf.clone()], false)
            .await;
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    assert!(server.router().id().is_none() && server.router().channels().is_empty());
}

#[test]
fn unauthenticated_clients_hold_half_the_handshakes() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_handshakes = 16;
        config.http.handshake_timeout = Span::minutes(1);
    });
    let (member, at, router) = (
        Member::new(&server, "member"),
        server.bound(),
        server.router(),
    );
    let connection = || {
        let member = member.clone();
        async move {
            member
                .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                .await
        }
    };
    run(async {
        let mut silent = Vec::new();
        for _ in 0..8 {
            silent.push(connection().await);
        }
        let ninth = tokio::spawn(connection());
        for _ in 0..20 {
            let mut stream = member
                .tls(at, &["http/1.1"], vec![member.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        assert!(
            !ninth.is_finished(),
            "the ninth unauthenticated client got a slot"
        );
        let known = Sdk::connect(silent.pop().unwrap(), member.token(), Options::GO)
            .await
            .unwrap();
        silent.push(ninth.await.unwrap());
        assert_eq!(router.traffic().channels, 1);
        // An incomplete hello does not keep its slot for long.
        for stream in &mut silent {
            stream.write_all(&[3, 6, 9]).await.unwrap();
        }
        assert_eq!(
            silent[0].read(&mut [0]).await.unwrap_or(0),
            0,
            "it is closed"
        );
        assert!(soon(|| router.traffic().hellos_missing == 8));
        Sdk::connect(connection().await, member.token(), Options::GO)
            .await
            .unwrap();
        assert!(!known.is_closed());
    });
}

#[test]
fn both_kinds_of_connections_are_counted() {
    const ALL: usize = 16;
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_connections = ALL;
        config.http.workers = 1;
    });
    let (member, at) = (Member::new(&server, "member"), server.bound());
    run(async {
        let mut open = Vec::new();
        // Callers of this test keep connections as well.
        while let Ok(stream) = tokio::time::timeout(
            Duration::from_secs(3),
            member.tls(at, &["ziti-edge"], vec![member.leaf.clone()], false),
        )
        .await
        {
            open.push(
                Sdk::connect(stream, member.token(), Options::GO)
                    .await
                    .unwrap(),
            );
            assert!(open.len() <= ALL, "more connections than allowed");
        }
        let request = tokio::spawn(async move {
            let mut stream = member
                .tls(at, &["http/1.1"], vec![member.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(
            !request.is_finished() && !open.is_empty(),
            "a connection beyond the limit is served"
        );
        open.truncate(open.len() / 2);
        assert!(request.await.unwrap().starts_with("HTTP/1.1 200"));
    });
}

/// A scene whose stop waits a second for open circuits.
fn soon_stopped() -> Scene {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.drain_timeout = "1s".parse().unwrap();
    });
    Scene::on(server, false)
}

/// libziti 0.29.3 takes the answer to its next hello for the rest of an incomplete message, and
/// connects no more.
#[test]
fn stop_cuts_no_message() {
    let scene = soon_stopped();
    let router = scene.server.router();
    let sdk = run(async {
        let (mut client, host, listener) = scene.connected(Options::GO).await;
        let sdk = client.sdk.clone();
        sdk.pause();
        tokio::spawn(async move {
            while !listener.sdk.is_closed() {
                host.send(&[0; 32 << 10]).await;
            }
        });
        tokio::spawn(async move { while client.message().await.is_some() {} });
        sdk
    });
    assert!(
        soon(|| router.queued_bytes() > 512 << 10),
        "{}",
        router.queued_bytes()
    );
    std::thread::scope(|scope| {
        scope.spawn(|| router.drain());
        assert!(
            soon(|| router.queued_bytes() < 256 << 10),
            "{}",
            router.queued_bytes()
        );
        sdk.resume();
    });
    run(sdk.closed());
    assert!(!sdk.was_cut());
}

#[test]
fn stop_ends_circuits_in_time() {
    let scene = soon_stopped();
    let (mut client, mut host, mut listener) = run(scene.connected(Options::GO));
    let (server, member) = (scene.server, scene.host);
    let stopping = std::thread::spawn(move || drop(server.closed()));
    run(async {
        for conn in [&mut client, &mut host] {
            let ended = conn.ended().await;
            assert_eq!(ended.text, "the router is stopping");
            assert!(ended.structured.unwrap().contains("\"retryHint\":1"));
        }
        assert!(
            listener.message().await.is_none(),
            "a host that was told would bind again"
        );
        // libziti 0.29.3 refreshes its API session now; without an answer it would never host
        // again.
        member.caller.get("/current-api-session").expect(200);
        client.sdk.closed().await;
        assert_eq!(client.next().await, Event::Lost);
    });
    stopping.join().unwrap();
}

#[test]
fn stop_waits_for_open_circuits() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.drain_timeout = Span::minutes(1);
    });
    let scene = Scene::on(server, false);
    let (mut client, token) = run(async {
        tokio::spawn(scene.hosted(Options::GO).await.echo());
        let (sdk, token) = scene.dialler(Options::GO).await;
        (sdk.dial(&token).await.unwrap(), token)
    });
    let server = scene.server;
    let stopping = std::thread::spawn(move || drop(server.closed()));
    run(async {
        let refused = loop {
            match client.sdk.dial(&token).await {
                Ok(earlier) => earlier.close().await,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.text, "the router is stopping");
        assert!(refused.structured.unwrap().contains("\"retryHint\":1"));
        for _ in 0..20 {
            client.send(&[7; 50_000]).await;
            assert_eq!(client.data().await, [7; 50_000]);
        }
        assert!(!stopping.is_finished());
        client.close().await;
    });
    // Every wait of the tests is shorter than the limit of the stop.
    assert!(
        soon(|| stopping.is_finished()),
        "the stop waits although the circuit has ended"
    );
    stopping.join().unwrap();
}

#[test]
fn many_hellos_leave_logins_their_share() {
    let scene = Scene::new();
    let (at, router) = (scene.server.bound(), scene.server.router());
    let name = fresh("user");
    scene.server.user(&name, json!({}));
    run(async {
        let connect = |number: usize| {
            let member = if number.is_multiple_of(2) {
                scene.client.clone()
            } else {
                scene.host.clone()
            };
            async move {
                let stream = member
                    .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                    .await;
                Sdk::connect(stream, member.token(), Options::GO)
                    .await
                    .unwrap()
            }
        };
        let mut idle = Vec::new();
        for number in 0..100 {
            idle.push(connect(number).await);
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let hellos: Vec<_> = (0..50)
            .map(|number| {
                let (one, stopped) = (connect(number), stopped.clone());
                let member = scene.client.clone();
                tokio::spawn(async move {
                    drop(one.await);
                    let mut count = 1;
                    while !*stopped.borrow() {
                        let stream = member
                            .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                            .await;
                        drop(
                            Sdk::connect(stream, member.token(), Options::GO)
                                .await
                                .unwrap(),
                        );
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let anonymous = scene.server.anonymous();
        // Log-ins one after the other, each on its own connection.
        let log_in = move || {
            let body = json!({ "username": name, "password": PASSWORD });
            anonymous
                .ask("POST", "/authenticate?method=password")
                .header("connection", "close")
                .json(&body)
                .send()
                .expect(200);
        };
        tokio::task::spawn_blocking(move || (0..20).for_each(|_| log_in()))
            .await
            .unwrap();
        let before = router.traffic().channels_opened;
        stop.send(true).unwrap();
        let mut opened = 0;
        for one in hellos {
            opened += one.await.unwrap();
        }
        assert!(
            before > 150 && opened >= 50,
            "{opened} hellos, {before} of them meanwhile"
        );
        assert!(
            soon(|| router.traffic().channels == 100),
            "{:?}",
            router.traffic()
        );
        assert!(idle.iter().all(|sdk| !sdk.is_closed()));
    });
}
