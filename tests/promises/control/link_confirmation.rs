//! A link counts when the router at its other end has confirmed it: one router alone cannot lead
//! circuits to others.

use prost::Message;
use serde_json::json;
use wire::{
    control::{content, fabric},
    frame::{Builder, content as common},
};

use super::{
    links::{Far, link_of, measure, report},
    mock::{Enrolled, MockRouter, run, soon},
    mock_link::{self, MockLink},
};
use crate::{
    harness::{Base, TestServer},
    router::scene,
};

fn usable(server: &TestServer) -> u64 {
    server
        .admin
        .at(Base::Overkeep)
        .get("/links?filter=isUsable%3Dtrue")
        .expect(200)
        .total()
}

/// Both routers connected, with the service hosted at the far one, and a link that only the near
/// one has reported.
async fn reported(far_scene: &Far) -> (MockRouter, MockRouter) {
    let scene = &far_scene.scene;
    let (mut near, mut far) = (
        scene.router.online(&scene.server).await,
        far_scene.far.online(&scene.server).await,
    );
    scene.hosted(&mut far, "terminator").await;
    report(&mut near, &["link"], &far_scene.far.id).await;
    near.ask(Builder::new(common::PING).empty(), common::RESULT)
        .await;
    (near, far)
}

async fn finds_no_path(far_scene: &Far, near: &mut MockRouter) {
    let (code, text) = near
        .refused(
            &far_scene.scene.dial_token(),
            &far_scene.scene.client.fingerprint(),
        )
        .await;
    assert!(code == 1 && text.contains("no path from router"), "{text}");
    assert_eq!(usable(&far_scene.scene.server), 0);
    let shown = far_scene
        .scene
        .server
        .admin
        .at(Base::Fabric)
        .get("/links/link")
        .expect(200);
    assert_eq!(shown.data()["state"], "Pending");
}

async fn leads_over_the_link(far_scene: &Far, near: &mut MockRouter, far: &mut MockRouter) {
    assert!(soon(|| usable(&far_scene.scene.server) == 1).await);
    let [route, _] = far_scene.circuit(near, far).await;
    assert_eq!(link_of(&route), "link");
}

#[test]
fn links_of_one_router_carry_nothing() {
    let far_scene = Far::new();
    let third = Enrolled::new(&far_scene.scene.server);
    run(async {
        let (mut near, mut far) = reported(&far_scene).await;
        finds_no_path(&far_scene, &mut near).await;
        // Nothing that the router itself, or a third one, says makes it count.
        report(&mut near, &["link"], &far_scene.far.id).await;
        near.verify(&far_scene.far).await;
        measure(&mut near, "link", 1.0).await;
        let mut other = third.online(&far_scene.scene.server).await;
        other.verify(&far_scene.scene.router).await;
        measure(&mut other, "link", 1.0).await;
        report(&mut other, &["link"], &far_scene.scene.router.id).await;
        other
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        // The other end asks about a third router, and about this one with another certificate.
        far.verify(&third).await;
        let asked = fabric::VerifyRouter {
            router_id: far_scene.scene.router.id.clone(),
            fingerprints: vec!["00".into()],
        };
        far.ask(
            Builder::new(content::VERIFY_ROUTER).body(&asked.encode_to_vec()),
            common::RESULT,
        )
        .await;
        far.ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        finds_no_path(&far_scene, &mut near).await;
        far.verify(&far_scene.scene.router).await;
        leads_over_the_link(&far_scene, &mut near, &mut far).await;
    });
}

#[test]
fn measurements_confirm_a_link() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = reported(&far_scene).await;
        finds_no_path(&far_scene, &mut near).await;
        measure(&mut far, "link", 1.0).await;
        leads_over_the_link(&far_scene, &mut near, &mut far).await;
    });
}

#[test]
fn reports_of_both_ends_confirm() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = reported(&far_scene).await;
        report(&mut far, &["link"], &far_scene.scene.router.id).await;
        leads_over_the_link(&far_scene, &mut near, &mut far).await;
    });
}

/// Answers the next question for links with these ids and routers at the other end.
async fn list(router: &mut MockRouter, links: &[(&str, &str)]) {
    let question = router.next_of(content::INSPECT_REQUEST).await;
    assert_eq!(
        fabric::InspectRequest::decode(question.body())
            .unwrap()
            .requested_values,
        ["links"]
    );
    let links: Vec<_> = links
        .iter()
        .map(|(id, dest)| json!({ "id": id, "iteration": 1, "dest": dest, "dialed": false }))
        .collect();
    let value = fabric::InspectValue {
        name: "links".into(),
        value: json!({ "links": links, "errors": null }).to_string(),
    };
    let answer = fabric::InspectResponse {
        success: true,
        errors: Vec::new(),
        values: vec![value],
    };
    router
        .send(Builder::reply(content::INSPECT_RESPONSE, &question).body(&answer.encode_to_vec()))
        .await;
}

#[test]
fn restarted_controllers_ask_for_links() {
    let far_scene = Far::new();
    run(async {
        drop(far_scene.linked(&["link"]).await);
        let server = &far_scene.scene.server.killed(|_| ());
        let mut near = far_scene.scene.router.reconnect(server).await;
        let mut far = far_scene.far.reconnect(server).await;
        report(&mut near, &["link"], &far_scene.far.id).await;
        let near_id = far_scene.scene.router.id.as_str();
        // It may not have it yet, and knows others by this id or with this router.
        list(&mut far, &[]).await;
        list(&mut far, &[("other", near_id), ("link", "another")]).await;
        assert_eq!(usable(server), 0);
        list(&mut far, &[("other", "another"), ("link", near_id)]).await;
        assert!(soon(|| usable(server) == 1).await);
    });
}

#[test]
fn restarted_routers_confirm_anew() {
    let far_scene = Far::new();
    run(async {
        let (mut near, far) = far_scene.linked(&["link"]).await;
        near.fault(fabric::FaultSubject::Link, "link").await;
        drop(far);
        assert!(soon(|| far_scene.far.shown(&far_scene.scene.server)["isOnline"] == false).await);
        let mut far = far_scene.far.online(&far_scene.scene.server).await;
        far_scene.scene.hosted(&mut far, "terminator").await;
        report(&mut near, &["link"], &far_scene.far.id).await;
        near.ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        finds_no_path(&far_scene, &mut near).await;
        far.verify(&far_scene.scene.router).await;
        leads_over_the_link(&far_scene, &mut near, &mut far).await;
    });
}

#[test]
fn links_here_need_a_connection() {
    let scene = scene::Scene::new();
    let [far, other] = [(); 2].map(|()| Enrolled::new(&scene.server));
    run(async {
        let (mut router, mut liar) = (
            far.online(&scene.server).await,
            other.online(&scene.server).await,
        );
        mock_link::report(&mut router, "link", "built-in").await;
        mock_link::report(&mut liar, "phantom", "built-in").await;
        let known = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links")
                .expect(200)
                .total()
        };
        assert!(soon(|| known() == 2).await);
        assert_eq!(usable(&scene.server), 0);
        // The report may come before the connection.
        let _link = MockLink::try_open(&scene.server, &far, MockLink::hello("link", &far.id))
            .await
            .unwrap();
        assert!(soon(|| usable(&scene.server) == 1).await);
        // A connection of another router with the id of a link that is reported confirms nothing.
        let _lie = MockLink::try_open(&scene.server, &far, MockLink::hello("phantom", &far.id))
            .await
            .unwrap();
        liar.ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        assert_eq!(usable(&scene.server), 1);
    });
}
