//! What ends when a time limit is over: limits are shortened.

use std::time::Duration;

use overkeep::testing::{
    clock::Clock,
    config::Config,
    control_channel::message::{content, fabric},
};

use super::{
    circuits::Scene,
    links::report,
    mock::{Enrolled, run, soon},
};
use crate::harness::{Base, TestServer};

const SHORT: Duration = Duration::from_millis(300);

fn scene(adapt: impl FnOnce(&mut Config)) -> Scene {
    Scene::on(TestServer::with(Clock::system(), adapt))
}

#[test]
fn absent_routers_are_forgotten() {
    let scene = scene(|config| config.routers.times.forget_after = Some(SHORT));
    let other = Enrolled::new(&scene.server);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let circuit = router.circuit(&scene.dial_token(), &scene.client.fingerprint()).await;
        report(&mut router, &["link"], &other.id).await;
        let has = |path: String| scene.server.admin.at(Base::Overkeep).get(&path).status == 200;
        assert!(soon(|| has("/links/link".into())).await);
        // A router that comes back in time keeps everything.
        drop(router);
        let router = scene.router.reconnect(&scene.server).await;
        tokio::time::sleep(SHORT * 2).await;
        assert!(has(format!("/circuits/{circuit}")) && has("/links/link".into()));
        assert_eq!(scene.terminators(), ["terminator"]);
        drop(router);
        assert!(soon(|| !has(format!("/circuits/{circuit}")) && !has("/links/link".into())).await);
        assert!(soon(|| scene.terminators().is_empty()).await);
        // It is told of it when it is back.
        let mut router = scene.router.reconnect(&scene.server).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (circuit, true));
    });
}
