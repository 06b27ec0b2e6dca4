//! Dials are bounded in bytes: neither a host that does not read nor a client that dials without
//! end takes memory or channels from others.

use model::clock::Clock;
use wire::frame::{Builder, content};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Options, key, kind},
};
use crate::harness::TestServer;

/// The maximum bytes that a dial passes on to its host.
const MAX_PASSED_ON: usize = 16 << 10;

#[test]
fn application_data_of_dials_is_bounded() {
    let scene = Scene::new();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let with =
            |bytes: usize| move |connect: Builder| connect.bytes(key::APP_DATA, &vec![7; bytes]);
        let (client, accepted) =
            tokio::join!(sdk.dial_with(&token, with(MAX_PASSED_ON)), host.accept());
        client.unwrap();
        assert_eq!(
            accepted.made_by.header(key::APP_DATA),
            Some(&[7; MAX_PASSED_ON][..])
        );

        let refused = sdk
            .dial_with(&token, with(MAX_PASSED_ON + 1))
            .await
            .err()
            .unwrap();
        assert!(
            refused.text.contains("at most 16384 are passed on"),
            "{}",
            refused.text
        );
        assert!(refused.structured.unwrap().contains("\"retryHint\":3"));
        let key_as_well = |connect: Builder| {
            connect
                .bytes(key::APP_DATA, &[0; MAX_PASSED_ON])
                .bytes(key::PUBLIC_KEY, &[0; 32])
        };
        sdk.dial_with(&token, key_as_well).await.err().unwrap();
        assert!(host.is_idle(), "a host does not hear of refused dials");
    });
}

#[test]
fn an_answer_passes_on_as_little() {
    let scene = Scene::new();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let dialing = tokio::spawn(async move { sdk.dial(&token).await.err().unwrap() });
        let dial = host.dialed().await;
        let answer = Builder::reply(kind::DIAL_SUCCESS, &dial)
            .bytes(key::PUBLIC_KEY, &[0; MAX_PASSED_ON + 1]);
        let id = dial.u32(key::ROUTER_CONNECTION).unwrap();
        host.sdk
            .send(answer.u32(key::CONNECTION, host.id).body(&id.to_le_bytes()))
            .await
            .unwrap();
        assert!(
            dialing
                .await
                .unwrap()
                .text
                .contains("at most 16384 are passed on")
        );
        assert!(scene.server.router().circuits().is_empty());
    });
}

#[test]
fn dials_leave_room_for_answers() {
    let scene = Scene::new();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        host.sdk.pause();
        let mut dialing = Vec::new();
        for _ in 0..60 {
            let (sdk, token) = (sdk.clone(), token.clone());
            dialing.push(tokio::spawn(async move {
                let app_data = |connect: Builder| connect.bytes(key::APP_DATA, &[0; MAX_PASSED_ON]);
                sdk.dial_with(&token, app_data)
                    .await
                    .map(|client| client.id)
            }));
        }
        let queued = || scene.server.router().queued_bytes();
        assert!(soon(|| queued() > 100 << 10), "{}", queued());
        // The host reads nothing and asks on, like one whose application is suspended.
        for _ in 0..50 {
            host.sdk
                .send(Builder::new(content::LATENCY).bytes(128, &[1; 8]).empty())
                .await
                .unwrap();
        }
        sdk.ask(Builder::new(content::PING).empty()).await.unwrap();
        assert!(
            queued() <= (128 + 64 + 16) << 10,
            "half of the control queue, what the writer holds, and the answers: {}",
            queued()
        );
        assert!(!host.sdk.is_closed());
        host.sdk.resume();
        let echoing = tokio::spawn(async move {
            loop {
                drop(host.accept().await);
            }
        });
        for one in dialing {
            drop(one.await.unwrap());
        }
        sdk.dial(&token).await.unwrap();
        echoing.abort();
    });
}

#[test]
fn pending_dials_are_bounded_by_identity() {
    // Dials and binds in progress may take an eighth of the 4 MiB, and those of one identity a
    // quarter of that.
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.max_total_mib = 4;
    });
    let scene = Scene::on(server, false);
    let other = Member::new(&scene.server, "other");
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", other.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (first, token) = scene.dialler(Options::GO).await;
        let second = scene.client.connect(&scene.server, Options::GO).await;
        let app_data = |connect: Builder| connect.bytes(key::APP_DATA, &[0; MAX_PASSED_ON]);
        let (mut pending, mut dials) = (Vec::new(), Vec::new());
        for sdk in [&first, &second, &first] {
            let (sdk, token) = (sdk.clone(), token.clone());
            pending.push(tokio::spawn(async move {
                sdk.dial_with(&token, app_data)
                    .await
                    .map(|client| client.id)
            }));
            dials.push(host.dialed().await);
        }
        for sdk in [&first, &second] {
            let refused = sdk.dial_with(&token, app_data).await.err().unwrap();
            assert_eq!(
                refused.text,
                "too many dials and binds of the identity are in progress"
            );
            assert!(refused.structured.unwrap().contains("\"retryHint\":1"));
        }
        let (sdk, session) = (
            other.connect(&scene.server, Options::GO).await,
            other.session(&scene.service, "Dial"),
        );
        let (client, _accepted) = tokio::join!(sdk.dial_with(&session, app_data), host.accept());
        client.unwrap();

        // An answer makes room.
        for dial in dials {
            host.refuse(&dial, "not now").await;
        }
        for one in pending {
            one.await.unwrap().unwrap_err();
        }
        let (client, _accepted) = tokio::join!(first.dial_with(&token, app_data), host.accept());
        client.unwrap();
    });
}
