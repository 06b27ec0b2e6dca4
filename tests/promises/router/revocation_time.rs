//! Access ends at once: the end of a circuit follows the change without a pause, for each cause.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    revocation_load::{causes, prepared, scene_on},
    scene::{Scene, run},
    sdk::{Conn, Options},
};

/// The rounds of each cause, of which the fastest counts, so that a delay by other work of the host
/// does not.
const ROUNDS: usize = 3;
/// The end may take so many times as long as a change of an uninvolved record and a round trip over
/// the router. Either takes some milliseconds; a timer of a second or a poll misses this by far.
const RATIO: u32 = 10;

/// A change that concerns nobody, and a message to the host and back.
async fn floor(scene: &Scene, uninvolved: &str, client: &mut Conn, host: &mut Conn) -> Duration {
    let start = Instant::now();
    scene
        .server
        .admin
        .patch(
            &format!("/identities/{uninvolved}"),
            json!({ "tags": { "seen": "yes" } }),
        )
        .expect(200);
    client.send(b"ping").await;
    host.data().await;
    host.send(b"pong").await;
    client.data().await;
    start.elapsed()
}

#[test]
fn circuits_end_without_a_pause() {
    let mut scene = scene_on(prepared());
    let uninvolved = scene.server.identity("uninvolved", json!({}));
    let (mut floors, mut ends) = (Vec::new(), Vec::new());
    for cause in causes() {
        let mut fastest = Duration::MAX;
        for _ in 0..ROUNDS {
            scene = scene_on(scene.server);
            (cause.before)(&scene);
            run(async {
                let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
                floors.push(floor(&scene, &uninvolved, &mut client, &mut host).await);
                (cause.take)(&scene);
                // From the answer to the change on.
                let start = Instant::now();
                client.ended().await;
                fastest = fastest.min(start.elapsed());
            });
        }
        ends.push((cause.name, fastest));
    }
    floors.sort();
    let floor = floors[floors.len() / 2];
    for (cause, time) in ends {
        assert!(
            time < RATIO * floor,
            "{cause}: the circuit ended {time:?} after the answer; a change and a round trip take {floor:?}"
        );
    }
}
