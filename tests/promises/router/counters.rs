//! Counters for monitoring: each event is counted once, and the gauges show what is open.

use fabric::{built_in_router::TrafficInfo, network::ChannelPeer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use wire::frame::Builder;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Options, key, kind},
};
use crate::command_line::on_host;
use crate::harness::{Base, fresh};

/// Waits until the counters of the router have these values.
fn settled(scene: &Scene, expected: TrafficInfo) {
    soon(|| scene.server.router().traffic() == expected);
    assert_eq!(scene.server.router().traffic(), expected);
}

#[test]
fn hellos_and_channels_are_counted() {
    let scene = Scene::new();
    let (mut client, router) = (scene.client.clone(), scene.server.router());
    assert_eq!(router.traffic(), TrafficInfo::default());
    run(async {
        let first = client.connect(&scene.server, Options::GO).await;
        settled(
            &scene,
            TrafficInfo {
                channels_opened: 1,
                channels: 1,
                ..TrafficInfo::default()
            },
        );
        // No message, the beginning of a message, and bytes that are not a message.
        for (bytes, is_open) in [
            (&b""[..], false),
            (&[0x03, 0x06], false),
            (&b"GET / HTTP/1.1\r\nhost: it\r\n\r\n"[..], true),
        ] {
            let (mut ours, theirs) = tokio::io::duplex(1 << 10);
            let served = router.serve(theirs, ChannelPeer::default()).unwrap();
            ours.write_all(bytes).await.unwrap();
            if !is_open {
                drop(ours);
            }
            served.await.unwrap();
        }
        client.leaf = scene.host.leaf.clone();
        assert!(
            client
                .try_connect(&scene.server, Options::GO)
                .await
                .is_err()
        );
        let expected = TrafficInfo {
            channels_opened: 1,
            channels: 1,
            hellos_missing: 2,
            malformed: 1,
            hellos_refused: 1,
            ..TrafficInfo::default()
        };
        settled(&scene, expected);
        first.send_bytes(&[0xff; 64]).await.unwrap();
        settled(
            &scene,
            TrafficInfo {
                malformed: 2,
                channels: 0,
                channels_closed: 1,
                ..expected
            },
        );
        let second = scene.client.connect(&scene.server, Options::GO).await;
        second.leave().await;
        second.closed().await;
        settled(
            &scene,
            TrafficInfo {
                malformed: 2,
                channels: 0,
                channels_opened: 2,
                channels_closed: 2,
                ..expected
            },
        );
    });
}

#[test]
fn binds_dials_and_bytes_are_counted() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, mut listener) = scene.connected(Options::GO).await;
        let mut expected = TrafficInfo {
            channels: 2,
            channels_opened: 2,
            binds: 1,
            binds_accepted: 1,
            circuits: 1,
            circuits_opened: 1,
            ..TrafficInfo::default()
        };
        settled(&scene, expected);
        client.send(&[1; 1000]).await;
        host.data().await;
        host.send(&[2; 300]).await;
        (expected.client_bytes, expected.host_bytes) = (1000, 300);
        settled(&scene, expected);
        let dial = scene.client.session(&scene.service, "Dial");
        // The host rejects the dial; the session is unknown; no host has the instance id.
        let (refused, ()) = tokio::join!(client.sdk.dial(&dial), async {
            let dial = listener.dialed().await;
            listener.refuse(&dial, "no").await;
        });
        refused.err().unwrap();
        client.sdk.dial("no session").await.err().unwrap();
        client
            .sdk
            .dial_with(&dial, |connect| connect.bytes(key::INSTANCE, b"nobody"))
            .await
            .err()
            .unwrap();
        client
            .sdk
            .ask(Builder::new(kind::CONNECT).body(dial.as_bytes()))
            .await
            .unwrap();
        (expected.dials_failed, expected.dials_refused) = (3, 1);
        settled(&scene, expected);
        listener.sdk.host("no session").await.err().unwrap();
        expected.binds_refused = 1;
        settled(&scene, expected);
        client.close().await;
        host.ended().await;
        (expected.circuits, expected.circuits_closed) = (0, 1);
        settled(&scene, expected);
        listener.unbind().await.unwrap();
        (expected.binds, expected.binds_ended) = (0, 1);
        settled(&scene, expected);
        let shown = scene
            .server
            .admin
            .at(Base::Overkeep)
            .get("/traffic")
            .expect(200);
        let of = |name: &str| shown.data()[name].as_u64().unwrap();
        assert_eq!(
            (
                of("clientBytes"),
                of("hostBytes"),
                of("dialsFailed"),
                of("channels")
            ),
            (1000, 300, 3, 2)
        );
    });
}

#[test]
fn pauses_of_readers_are_counted() {
    let scene = Scene::new();
    run(async {
        let (client, host, _listener) = scene.connected(Options::GO).await;
        host.sdk.pause();
        let sending = tokio::spawn(async move {
            for _ in 0..100 {
                client.send(&[0; 64 << 10]).await;
            }
        });
        assert!(soon(|| scene.server.router().traffic().reader_pauses > 0));
        let traffic = scene.server.router().traffic();
        assert!(
            traffic.queued_bytes > 0 && traffic.cut_off == 0,
            "{traffic:?}"
        );
        sending.abort();
    });
}

/// The entries of a list, and whether it was streamed in chunks.
fn entries_of(scene: &Scene, base: Base, path: &str) -> (bool, Vec<Value>) {
    let answer = scene.server.admin.at(base).get(path).expect(200);
    (
        answer.header("content-length").is_empty(),
        answer.data().as_array().unwrap().clone(),
    )
}

#[test]
fn lists_of_circuits_come_in_parts() {
    let mut scene = Scene::new();
    let long = "x".repeat(3000);
    scene.client = Member::new(&scene.server, &long);
    scene.service = scene
        .server
        .service(&fresh(&long), json!({ "encryptionRequired": false }));
    let (host, client) = (
        format!("@{}", scene.host.id),
        format!("@{}", scene.client.id),
    );
    scene
        .server
        .service_policy("Bind", &[&host], &[&format!("@{}", scene.service)]);
    scene
        .server
        .service_policy("Dial", &[&client], &[&format!("@{}", scene.service)]);
    run(async {
        let mut listener = scene.hosted(Options::GO).await;
        let (mut ends, token) = (Vec::new(), scene.client.session(&scene.service, "Dial"));
        for _ in 0..100 {
            let sdk = scene.client.connect(&scene.server, Options::GO).await;
            let (client, host) = tokio::join!(sdk.dial(&token), listener.accept());
            ends.push((client.unwrap(), host));
        }
        let sorted = "sort=client.channelId%20desc&";
        for (base, path) in [
            (Base::Overkeep, "/circuits?"),
            (Base::Overkeep, &format!("/circuits?{sorted}")),
            (Base::Fabric, "/circuits?"),
        ] {
            let (is_streamed, circuits) = entries_of(&scene, base, &format!("{path}limit=-1"));
            assert!(
                is_streamed && circuits.len() == 100,
                "{path}: {} circuits",
                circuits.len()
            );
            let pages: Vec<Value> = (0..100)
                .step_by(30)
                .flat_map(|at| entries_of(&scene, base, &format!("{path}limit=30&offset={at}")).1)
                .collect();
            assert_eq!(pages, circuits, "{path}");
        }
        let (is_streamed, channels) = entries_of(&scene, Base::Overkeep, "/channels?limit=-1");
        assert!(
            is_streamed && channels.len() == 101,
            "{} channels",
            channels.len()
        );
        drop(ends);
    });
}

#[test]
fn connected_identities_and_routers_are_listed() {
    let scene = Scene::new();
    run(async {
        let _first = scene.client.connect(&scene.server, Options::GO).await;
        let _second = scene.client.connect(&scene.server, Options::GO).await;
        let name = scene
            .server
            .admin
            .get(&format!("/identities/{}", scene.client.id))
            .expect(200)
            .data()["name"]
            .clone();
        let json = |words: &[&str]| {
            serde_json::from_str::<Value>(&on_host(&scene.server, words).good()).unwrap()
        };
        let online = json(&["online", "--filter", "kind = \"identity\"", "-o", "json"]);
        assert_eq!(online.as_array().unwrap().len(), 2, "{online}");
        for one in online.as_array().unwrap() {
            assert_eq!(
                (&one["name"], &one["recordId"], &one["kind"]),
                (&name, &json!(scene.client.id), &json!("identity"))
            );
            assert!(
                one["address"].is_string() && one["since"].is_string(),
                "{one}"
            );
        }
        let routers = json(&[
            "list",
            "online",
            "--filter",
            "kind != \"identity\"",
            "-o",
            "json",
        ]);
        assert_eq!(
            (&routers[0]["name"], &routers[0]["kind"], &routers[1]),
            (&json!("built-in"), &json!("edge-router"), &Value::Null)
        );
        let table = on_host(&scene.server, &["sessions"]).good();
        let token = scene.server.admin.token.clone().unwrap();
        let head = table.lines().next().unwrap();
        assert!(
            head.contains("IDENTITY")
                && head.contains("LAST-ACTIVITY-AT")
                && table.contains(name.as_str().unwrap()),
            "{table}"
        );
        assert!(
            !head.contains("TOKEN") && !table.contains(&token),
            "{table}"
        );
    });
}
