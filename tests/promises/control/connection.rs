//! Which routers may connect, and how a connection ends.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use model::clock::Clock;
use serde_json::json;
use wire::{
    control::{content, key},
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, run, server, soon},
    recorded_connections::connections_of,
};
use crate::harness::{Base, Key, TestServer, fresh};

#[test]
fn an_enrolled_router_is_shown_online() {
    let server = server();
    let router = Enrolled::new(&server);
    assert_eq!(router.shown(&server)["isOnline"], false);
    run(async {
        let mut connected = router.connect(&server).await;
        let answer = connected.answer.take().unwrap();
        // Capability bits 1 to 4.
        assert_eq!(answer.header(key::CAPABILITIES), Some(&[0b1_1110][..]));
        let version = answer.text(common_key::VERSION).unwrap();
        assert_eq!(version.split('|').count(), 5, "{version}");
        assert!(
            soon(|| router.shown(&server)["syncStatus"] == "SYNC_HELLO").await,
            "{}",
            router.shown(&server)
        );
        connected.introduce().await;
        assert!(
            soon(|| router.shown(&server)["syncStatus"] == "SYNC_DONE").await,
            "{}",
            router.shown(&server)
        );
        let shown = router.shown(&server);
        assert_eq!(shown["isOnline"], true);
        assert_eq!(shown["hostname"], "router.example");
        assert_eq!(
            shown["supportedProtocols"],
            json!({ "tls": "tls://router.example:3022" })
        );
        assert_eq!(shown["versionInfo"]["version"], "v1.1.15");
        assert_eq!(shown["versionInfo"]["arch"], "amd64");
        drop(connected);
        assert!(soon(|| router.shown(&server)["isOnline"] == false).await);
        assert_eq!(router.shown(&server)["supportedProtocols"], json!({}));
    });
}

#[test]
fn refused_routers_learn_why() {
    let server = server();
    let router = Enrolled::new(&server);
    let refused = |router: &Enrolled| {
        run(async {
            router
                .try_connect(&server, router.hello(None))
                .await
                .err()
                .expect("a refusal")
        })
    };
    let path = format!("/edge-routers/{}", router.id);
    server
        .admin
        .patch(&path, json!({ "disabled": true }))
        .expect(200);
    assert!(refused(&router).contains("disabled"));
    server
        .admin
        .patch(&path, json!({ "disabled": false }))
        .expect(200);
    run(async { drop(router.connect(&server).await) });

    // A certificate of the controller that belongs to another router.
    let other = Enrolled::new(&server);
    let borrowed = Enrolled {
        id: router.id.clone(),
        leaf: other.leaf.clone(),
        key: other.key.clone(),
    };
    assert!(refused(&borrowed).contains("not the one that the router has now"));
    // A certificate of another authority.
    let stranger = crate::harness::Authority::new("stranger");
    let key = Key::new();
    let pem = stranger.issue(&router.id, &key);
    let leaf = rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap();
    let forged = Enrolled {
        id: router.id.clone(),
        leaf,
        key: std::sync::Arc::new(key),
    };
    assert!(refused(&forged).contains("not issued by this controller"));

    server
        .admin
        .post(&format!("{path}/re-enroll"), json!({}))
        .expect(200);
    assert!(refused(&router).contains("not enrolled"));
    let re_enrolled = Enrolled::re_enrolled(&server, router.id.clone());
    assert!(refused(&router).contains("not the one that the router has now"));
    run(async { drop(re_enrolled.connect(&server).await) });
    server.admin.delete(&path).expect(200);
    assert!(refused(&re_enrolled).contains("there is no router with this id"));
    let known = Enrolled {
        id: fresh("unknown"),
        ..other
    };
    assert!(refused(&known).contains("there is no router with this id"));
}

#[test]
fn record_changes_end_a_connection() {
    let server = server();
    let router = Enrolled::new(&server);
    let path = format!("/edge-routers/{}", router.id);
    run(async {
        let mut connected = router.connect(&server).await;
        server.admin.patch(&path, json!({ "cost": 7 })).expect(200);
        connected.send(Builder::new(common::PING).empty()).await;
        assert!(
            connected
                .next_of(common::RESULT)
                .await
                .is_set(common_key::SUCCESS),
            "a changed cost ends no connection"
        );
        server
            .admin
            .patch(&path, json!({ "disabled": true }))
            .expect(200);
        assert!(connected.ends().await);
        server
            .admin
            .patch(&path, json!({ "disabled": false }))
            .expect(200);
        let mut connected = router.connect(&server).await;
        server
            .admin
            .post(&format!("{path}/re-enroll"), json!({}))
            .expect(200);
        assert!(connected.ends().await);
        let re_enrolled = Enrolled::re_enrolled(&server, router.id.clone());
        let mut connected = re_enrolled.connect(&server).await;
        server.admin.delete(&path).expect(200);
        assert!(connected.ends().await);
    });
}

#[test]
fn a_reconnect_replaces_the_old_connection() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut first = router.connect(&server).await;
        // Another process with the same certificate is rejected while the first is connected.
        let refusal = router
            .try_connect(&server, router.hello(None))
            .await
            .err()
            .expect("a refusal");
        assert!(refusal.contains("already connected"), "{refusal}");
        // The same process reconnects before the controller knows that the old connection is dead.
        let mut second = router.reconnect(&server).await;
        assert!(first.ends().await);
        assert!(soon(|| router.shown(&server)["isOnline"] == true).await);
        second.introduce().await;
        assert!(soon(|| router.shown(&server)["syncStatus"] == "SYNC_DONE").await);
    });
}

#[test]
fn routers_have_an_own_port() {
    let server = TestServer::with(Clock::system(), |config| {
        config.routers.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    });
    let router = Enrolled::new(&server);
    assert_ne!(server.control_bound(), server.bound());
    run(async {
        for (at, before) in [(server.control_bound(), None), (server.bound(), Some("1"))] {
            let _connected = router
                .try_connect_at(at, router.hello(before))
                .await
                .unwrap();
            assert!(soon(|| router.shown(&server)["isOnline"] == true).await);
        }
    });
    let url = format!("https://{}/version", server.control_bound());
    assert!(
        server.anonymous().agent.get(&url).call().is_err(),
        "this port serves no REST"
    );
}

#[test]
fn malformed_bytes_end_a_connection() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let message = |headers: u32, body: u32| {
            [
                &[3, 6, 9, 12][..],
                &content::METRICS.to_le_bytes(),
                &[0; 4],
                &headers.to_le_bytes(),
                &body.to_le_bytes(),
            ]
            .concat()
        };
        // 4 GiB, 2 GiB, and one byte more than is read.
        let too_long = [
            message(0, u32::MAX),
            message(u32::MAX, 0),
            message(0, 1 << 31),
            message(0, (4 << 20) + 1),
            message((64 << 10) + 1, 0),
        ];
        for bytes in too_long
            .into_iter()
            .chain([b"no magic number and then some more".to_vec()])
        {
            let mut connected = router.connect(&server).await;
            connected.send_bytes(&bytes).await;
            assert!(connected.ends().await);
            assert!(soon(|| router.shown(&server)["isOnline"] == false).await);
        }
        // Bodies that are not valid protobuf and unknown message types are ignored.
        let mut connected = router.connect(&server).await;
        let of_router = [
            1004, 1007, 1022, 1034, 1035, 1038, 1042, 1053, 20001, 20203, 20209, 20213, 20216,
            20218, 20302, 20400, 31_337,
        ];
        for content_type in of_router {
            connected
                .send(Builder::new(content_type).body(&[0xff; 64]))
                .await;
        }
        connected.send(Builder::new(common::PING).empty()).await;
        assert!(
            connected
                .next_of(common::RESULT)
                .await
                .is_set(common_key::SUCCESS)
        );
    });
}

/// A recorded hello in the name of another router.
fn hello_of(recorded: &Frame, router: &str) -> Frame {
    let start = Builder::new(recorded.content_type());
    let mut hello = recorded
        .headers()
        .fold(start, |builder, (key, value)| builder.bytes(key, value))
        .body(router.as_bytes());
    hello.set_sequence(recorded.sequence());
    hello
}

#[test]
fn version_two_connects_as_recorded() {
    let server = server();
    let router = Enrolled::new(&server);
    let recorded = connections_of("v2.0.3|");
    assert_eq!(
        recorded.iter().map(Vec::len).collect::<Vec<_>>(),
        [5, 1, 1],
        "two connections, and a second one of the same group"
    );
    run(async {
        let mut connected = router
            .try_connect(&server, hello_of(&recorded[0][0], &router.id))
            .await
            .unwrap();
        let answer = connected.answer.take().unwrap();
        assert!(
            answer
                .header(key::GROUP_SECRET)
                .is_some_and(|secret| !secret.is_empty())
        );
        // Bit 5, which is not among them, would have the router open more connections.
        assert_eq!(answer.header(key::CAPABILITIES_V2), Some(&[0b101_1110][..]));
        assert_eq!(answer.header(key::CAPABILITIES), None);
        assert_eq!(
            answer.text(common_key::VERSION).unwrap().split('|').count(),
            5
        );
        assert!(
            connected
                .next_of(content::SERVER_HELLO)
                .await
                .is_set(key::DATA_MODEL)
        );
        for frame in &recorded[0][1..] {
            connected.send(frame.clone()).await;
        }
        connected.next_of(content::API_SESSION_ADDED).await;
        let listeners = server
            .admin
            .at(Base::Fabric)
            .get(&format!("/routers/{}", router.id))
            .expect(200);
        assert_eq!(
            listeners.data()["listenerAddresses"],
            json!([{ "address": "tls:127.0.0.1:17472", "protocol": "tls" }])
        );
        assert!(soon(|| router.shown(&server)["syncStatus"] == "SYNC_DONE").await);
        let shown = router.shown(&server);
        assert_eq!(
            (&shown["versionInfo"]["version"], &shown["hostname"]),
            (&json!("v2.0.3"), &json!("127.0.0.1"))
        );
        assert_eq!(
            shown["supportedProtocols"],
            json!({ "tls": "tls://127.0.0.1:17471" })
        );
        let second = router
            .try_connect(&server, hello_of(&recorded[2][0], &router.id))
            .await
            .err()
            .expect("a refusal");
        assert_eq!(second, "a router may have only one connection");
        connected
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        drop(connected);
        assert!(soon(|| router.shown(&server)["isOnline"] == false).await);
        let _first = router
            .try_connect(&server, hello_of(&recorded[1][0], &router.id))
            .await
            .unwrap();
        // A hello with the secret of a group is of the same process, whatever it is; one that only
        // names the group is of another one.
        let again = |key| {
            let start = Builder::new(common::HELLO).text(key, "1");
            recorded[1][0]
                .headers()
                .fold(start, |builder, (key, value)| builder.bytes(key, value))
                .body(router.id.as_bytes())
        };
        let other = router
            .try_connect(&server, again(common_key::CONNECTION_ID))
            .await
            .err()
            .expect("a refusal");
        assert!(other.contains("already connected"), "{other}");
        router
            .try_connect(&server, again(key::GROUP_SECRET))
            .await
            .unwrap();
    });
}

#[test]
fn routers_are_forgotten_after_last_absence() {
    let forget_after = Duration::from_secs(10);
    let scene = Scene::on(TestServer::with(Clock::system(), |config| {
        config.routers.forget_after = "10s".parse().unwrap()
    }));
    let is_online = || scene.router.shown(&scene.server)["isOnline"] == true;
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        drop(router);
        assert!(soon(|| !is_online()).await);
        tokio::time::sleep(forget_after / 4).await;
        drop(scene.router.reconnect(&scene.server).await);
        let left = Instant::now();
        assert!(soon(|| !is_online()).await);
        assert!(soon(|| scene.terminators().is_empty()).await);
        assert!(
            left.elapsed() >= forget_after,
            "forgotten after its first absence"
        );
    });
}
