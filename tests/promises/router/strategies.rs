//! The strategies by which a service chooses among its hosts.

use serde_json::json;

use super::{
    scene::{Scene, run, soon},
    sdk::{Options, key},
};

const DIALS: usize = 80;

/// How many of some dials, one after the other, a cheap and an expensive host get.
fn shares(strategy: &str) -> [usize; 2] {
    let scene = Scene::new();
    scene
        .server
        .admin
        .patch(
            &format!("/services/{}", scene.service),
            json!({ "terminatorStrategy": strategy }),
        )
        .expect(200);
    run(async {
        let hosting = scene.host.connect(&scene.server, Options::GO).await;
        let token = scene.host.session(&scene.service, "Bind");
        let mut cheap = hosting
            .host_with(&token, |bind| {
                bind.u16(key::COST, 200).bytes(key::LISTENER, b"cheap")
            })
            .await
            .unwrap();
        let mut expensive = hosting
            .host_with(&token, |bind| {
                bind.u16(key::COST, 800).bytes(key::LISTENER, b"expensive")
            })
            .await
            .unwrap();
        let (sdk, token) = scene.dialler(Options::GO).await;
        let mut shares = [0, 0];
        for _ in 0..DIALS {
            let (dialed, at) = tokio::join!(sdk.dial(&token), async {
                tokio::select! {
                    _ = cheap.accept() => 0,
                    _ = expensive.accept() => 1,
                }
            });
            shares[at] += 1;
            dialed.unwrap().close().await;
            assert!(soon(|| scene.server.router().circuits().is_empty()));
        }
        shares
    })
}

#[test]
fn random_shares_dials_among_hosts() {
    // It fails by chance less often than once in a million runs.
    let [cheap, expensive] = shares("random");
    assert!(
        cheap > DIALS / 8 && expensive > DIALS / 8,
        "random: {cheap} and {expensive}"
    );
}
