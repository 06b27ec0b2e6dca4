//! One identity cannot use up the channels and circuits that all identities share.

use model::clock::Clock;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::Options,
};
use crate::harness::TestServer;

/// A scene in which one identity may have 16 circuits and 4 channels.
fn scene() -> Scene {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.max_circuits_per_identity = 16;
        config.router.max_channels_per_identity = 4;
    });
    Scene::on(server, false)
}

/// Another identity that may dial the scene's service.
fn another(scene: &Scene) -> Member {
    let other = Member::new(&scene.server, "other");
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", other.id)],
        &[&format!("@{}", scene.service)],
    );
    other
}

#[test]
fn one_identity_leaves_circuits_to_others() {
    let scene = scene();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (first, token) = scene.dialler(Options::GO).await;
        let second = scene.client.connect(&scene.server, Options::GO).await;
        let mut open = Vec::new();
        for number in 0..16 {
            let sdk = if number % 2 == 0 { &first } else { &second };
            let (client, accepted) = tokio::join!(sdk.dial(&token), host.accept());
            open.push((client.unwrap(), accepted));
        }
        for sdk in [&first, &second] {
            let refused = sdk.dial(&token).await.err().unwrap();
            assert_eq!(
                refused.text,
                "the identity has as many circuits as router.max-circuits-per-identity allows"
            );
            assert!(refused.structured.unwrap().contains("\"retryHint\":1"));
        }
        assert!(host.is_idle(), "a host does not hear of refused dials");

        let other = another(&scene);
        let sdk = other.connect(&scene.server, Options::GO).await;
        let session = other.session(&scene.service, "Dial");
        let (client, _accepted) = tokio::join!(sdk.dial(&session), host.accept());
        client.unwrap();

        // A circuit that ends makes room, on any channel of the identity.
        open.pop().unwrap().0.close().await;
        assert!(soon(|| scene.server.router().circuits().len() == 16));
        let (client, _accepted) = tokio::join!(first.dial(&token), host.accept());
        client.unwrap();
        second.dial(&token).await.err().unwrap();
    });
}

#[test]
fn one_identity_leaves_channels_to_others() {
    let scene = scene();
    run(async {
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(scene.client.connect(&scene.server, Options::GO).await);
        }
        let refused = scene
            .client
            .try_connect(&scene.server, Options::GO)
            .await
            .err()
            .unwrap();
        assert_eq!(
            refused.text,
            "the identity has as many channels as router.max-channels-per-identity allows"
        );
        assert!(
            open.iter().all(|sdk| !sdk.is_closed()),
            "open channels stay"
        );
        scene.host.connect(&scene.server, Options::GO).await;
        assert!(
            soon(|| scene.server.router().queued_bytes() == 0),
            "a refused channel holds no memory"
        );

        open.pop();
        assert!(soon(|| scene
            .server
            .router()
            .channels()
            .iter()
            .filter(|one| one.identity_id == scene.client.id)
            .count()
            == 3));
        open.push(scene.client.connect(&scene.server, Options::GO).await);
        scene
            .client
            .try_connect(&scene.server, Options::GO)
            .await
            .err()
            .unwrap();
    });
}

#[test]
fn failed_dials_use_up_no_share() {
    let scene = scene();
    run(async {
        let (sdk, token) = scene.dialler(Options::GO).await;
        for _ in 0..40 {
            let refused = sdk.dial(&token).await.err().unwrap();
            assert!(
                refused.text.ends_with("has no terminators"),
                "{}",
                refused.text
            );
        }
    });
}
