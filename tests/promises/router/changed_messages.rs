//! Conversations of an SDK with random changes: the router reads or refuses them, nothing panics,
//! and other channels are served.

use tokio::io::AsyncWriteExt;
use wire::frame::{Builder, Frame, content};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Options, key, kind},
};
use crate::fuzz::{change, target};

/// The messages of an SDK that hosts, dials and sends, after its hello.
fn conversation(bind: &str, dial: &str) -> Vec<Frame> {
    let on = |content_type, id| Builder::new(content_type).u32(key::CONNECTION, id);
    let xgress = |content_type| {
        Builder::new(content_type)
            .text(key::XGRESS_CIRCUIT, "circuit")
            .u32(key::XGRESS_FLAGS, 2)
    };
    vec![
        Builder::new(content::LATENCY).bytes(128, &[1; 8]).empty(),
        on(kind::BIND, 1)
            .flag(key::ROUTER_CONNECTION, true)
            .bytes(key::LISTENER, b"listener")
            .u16(key::COST, 7)
            .body(bind.as_bytes()),
        on(kind::CONNECT, 2)
            .text(key::CALLER, "it")
            .bytes(key::PUBLIC_KEY, &[3; 32])
            .bytes(key::APP_DATA, b"{}")
            .body(dial.as_bytes()),
        on(kind::DATA, 2)
            .u32(1001, 1)
            .bytes(128, &[7; 16])
            .body(&[1; 100]),
        on(kind::UPDATE_BIND, 1)
            .u16(key::COST, 9)
            .bytes(key::PRECEDENCE, &[1])
            .body(bind.as_bytes()),
        on(kind::HEALTH_EVENT, 1)
            .flag(key::HEALTH_PASSED, true)
            .body(bind.as_bytes()),
        on(kind::TRACE_ROUTE, 2)
            .u32(key::TRACE_HOPS, 2)
            .u64(key::TRACE_TIME, 1)
            .empty(),
        on(kind::DIAL_SUCCESS, 1)
            .i32(1, 2)
            .body(&5_u32.to_le_bytes()),
        on(kind::DIAL_FAILED, 1).i32(1, 3).body(b"no"),
        xgress(kind::XGRESS_PAYLOAD).body(b"data"),
        xgress(kind::XGRESS_ACK).body(&[0; 4]),
        Builder::new(kind::XGRESS_CONTROL).body(b"\x01circuit"),
        Builder::new(kind::XGRESS_CLOSE).body(b"circuit"),
        on(kind::STATE_CLOSED, 2).body(b"done"),
        on(kind::UNBIND, 1).body(bind.as_bytes()),
    ]
}

#[test]
#[ignore = "endurance"]
fn changed_conversations_harm_nobody() {
    let scene = Scene::new();
    let stranger = Member::new(&scene.server, "stranger");
    let (of_stranger, of_service) = (format!("@{}", stranger.id), format!("@{}", scene.service));
    let [bind, dial] = ["Bind", "Dial"].map(|right| {
        scene
            .server
            .service_policy(right, &[&of_stranger], &[&of_service]);
        stranger.session(&scene.service, right)
    });
    let hello = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, stranger.token())
        .body(b"it")
        .into_bytes()
        .to_vec();
    let messages = conversation(&bind, &dial);
    let (client, mut host, _listener) = run(scene.connected(Options::GO));
    target("conversations of SDKs", 100, |rng| {
        let mut bytes = hello.clone();
        if rng.percent(20) {
            change(&mut bytes, rng);
        }
        for _ in 0..rng.below(30) {
            let mut message = rng.pick(&messages).clone().into_bytes().to_vec();
            if rng.percent(30) {
                change(&mut message, rng);
            }
            bytes.extend(message);
        }
        run(async {
            let mut stream = stranger.stream(&scene.server);
            // The connection may be closed before all of it is read.
            let _ = stream.write_all(&bytes).await;
            if rng.percent(50) {
                let _ = stream.shutdown().await;
            }
            client.send(b"still here").await;
            assert_eq!(host.data().await, b"still here");
        });
    });
    let router = scene.server.router();
    assert!(
        soon(|| router.channels().len() == 2 && router.circuits().len() == 1),
        "{:?}",
        router.channels()
    );
    assert!(
        soon(|| router.queued_bytes() == 0),
        "{}",
        router.queued_bytes()
    );
    assert!(soon(|| scene
        .server
        .admin
        .get("/terminators")
        .expect(200)
        .total()
        == 1));
}
