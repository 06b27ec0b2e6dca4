//! A stop of the controller while routers are connected.

use std::time::{Duration, Instant};

use model::{clock::Clock, config::Span};
use prost::Message;
use wire::{
    control::{content, edge},
    frame::Builder,
    link::flag,
};

use super::{
    built_in_links::Linked,
    mock::{Enrolled, run},
};
use crate::{
    harness::TestServer,
    router::{scene::Scene, sdk::Options},
};

/// More than a stop takes on a busy machine (half a second for circuits over routers, and a second
/// for clients to close), and less than what would be waited for: circuits here, and peers that do
/// not read.
const LONG: Duration = Duration::from_secs(8);

/// Programs of two routers keep their circuits open, and neither the routers nor the host read or
/// close anything.
#[test]
fn routers_delay_no_stop() {
    run(async {
        let server = TestServer::with(Clock::system(), |config| {
            config.router.enabled = true;
            config.router.drain_timeout = Span::seconds(60);
        });
        let mut linked = Linked::on(Scene::on(server, false)).await;
        let mut listener = linked.scene.hosted(Options::GO).await;
        let (token, fingerprint) = (
            linked.scene.client.session(&linked.scene.service, "Dial"),
            linked.scene.client.fingerprint(),
        );
        linked.router.dial(&token, &fingerprint).await;
        let (host, route) = tokio::join!(listener.accept(), linked.router.accept_route());
        let mut known = 0;
        host.send(b"early").await;
        linked
            .link
            .give(&route.circuit_id, 0, flag::START, b"")
            .await;
        assert_eq!(
            linked.link.take(&route.circuit_id, &mut known).await.data[..],
            b"early"[..]
        );
        let other = Enrolled::new(&linked.scene.server);
        let mut unread = other.online(&linked.scene.server).await;
        // The answers fill what the connection holds.
        let unknown = edge::ValidateSessions {
            session_tokens: (0..20_000)
                .map(|number| format!("{number:0>120}"))
                .collect(),
        };
        for _ in 0..3 {
            unread
                .send(Builder::new(content::VALIDATE_SESSIONS).body(&unknown.encode_to_vec()))
                .await;
        }
        let server = linked.scene.server;
        let began = Instant::now();
        tokio::task::spawn_blocking(|| drop(server.closed()))
            .await
            .unwrap();
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        drop((linked.router, linked.link, unread, host));
    });
}
