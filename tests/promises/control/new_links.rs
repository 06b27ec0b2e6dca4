//! Links that are reported for the first time, which the router that has accepted them may not know
//! yet, or again.

use prost::Message;
use wire::{
    control::{
        content,
        fabric::{self, FaultSubject},
        key,
    },
    frame::{Builder, content as common},
};

use super::{
    links::{Far, link_of, report},
    mock::{Enrolled, MockRouter, run, soon},
};

/// Refuses the next route as a router does that does not know its link. Returns the route.
async fn refuse(router: &mut MockRouter) -> fabric::Route {
    let frame = router.next_of(content::ROUTE).await;
    let route = fabric::Route::decode(frame.body()).unwrap();
    let link = link_of(&route);
    let fault = fabric::Fault {
        subject: FaultSubject::Link.into(),
        id: link.clone(),
        iteration: 0,
    };
    router
        .send(Builder::new(content::FAULT).body(&fault.encode_to_vec()))
        .await;
    let result =
        Builder::reply(content::ROUTE_RESULT, &frame).u32(key::ROUTE_ATTEMPT, route.attempt);
    let result = result
        .text(
            key::ROUTE_ERROR,
            &format!("invalid link destination {link}"),
        )
        .bytes(key::ROUTE_ERROR_CODE, &[0]);
    router.send(result.body(route.circuit_id.as_bytes())).await;
    route
}

/// Whether a router is told nothing about links before it is answered.
async fn hears_of_no_fault(router: &mut MockRouter) -> bool {
    let sequence = router.send(Builder::new(common::PING).empty()).await;
    loop {
        let frame = router.next().await.unwrap();
        if frame.content_type() == content::FAULT {
            return false;
        }
        if frame.reply_for() == Some(sequence) {
            return true;
        }
    }
}

#[test]
fn reroutes_wait_for_new_links() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        let [route, _] = far_scene.circuit(&mut near, &mut far).await;
        near.fault(FaultSubject::Link, "link-1").await;
        report(&mut near, &["link-2"], &far_scene.far.id).await;
        assert_eq!(link_of(&near.accept_route().await), "link-2");
        let refused = refuse(&mut far).await;
        assert_eq!(
            (&refused.circuit_id, link_of(&refused).as_str()),
            (&route.circuit_id, "link-2")
        );
        let again = [near.accept_route().await, far.accept_route().await];
        assert!(
            again
                .iter()
                .all(|again| again.circuit_id == route.circuit_id && link_of(again) == "link-2")
        );
        assert!(hears_of_no_fault(&mut near).await, "the link is closed");
        assert_eq!(far_scene.links().len(), 1);
    });
}

#[test]
fn dials_wait_for_new_links() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        near.dial(
            &far_scene.scene.dial_token(),
            &far_scene.scene.client.fingerprint(),
        )
        .await;
        for _ in 0..3 {
            near.accept_route().await;
            refuse(&mut far).await;
        }
        let routes = [near.accept_route().await, far.accept_route().await];
        assert_eq!(routes[1].egress.as_ref().unwrap().destination, "terminator");
        near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        let shown = far_scene
            .scene
            .server
            .admin
            .get("/terminators/terminator")
            .expect(200);
        assert_eq!(shown.data()["dynamicCost"], 2, "the host has not failed");
    });
}

#[test]
fn dialing_routers_lose_new_links() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        let fault = fabric::Fault {
            subject: FaultSubject::Link.into(),
            id: "link-1".into(),
            iteration: 0,
        };
        near.send(Builder::new(content::FAULT).body(&fault.encode_to_vec()))
            .await;
        assert_eq!(
            far.receive::<fabric::Fault>(content::FAULT).await.id,
            "link-1"
        );
        assert!(soon(|| far_scene.links().is_empty()).await);
    });
}

#[test]
fn circuits_leave_links_led_elsewhere() {
    let far_scene = Far::new();
    let server = &far_scene.scene.server;
    let third = Enrolled::new(server);
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1", "link-2"]).await;
        let _third = third.online(server).await;
        let [route, _] = far_scene.circuit(&mut near, &mut far).await;
        let moved = link_of(&route);
        let lead = |iteration: u32| {
            let (id, destination_router_id, protocol) =
                (moved.clone(), third.id.clone(), "tls".into());
            let link = fabric::RouterLink {
                id,
                destination_router_id,
                protocol,
                iteration,
                ..Default::default()
            };
            Builder::new(content::ROUTER_LINKS).body(
                &fabric::RouterLinks {
                    links: vec![link],
                    full_refresh: false,
                }
                .encode_to_vec(),
            )
        };
        let destination = || {
            far_scene
                .links()
                .iter()
                .find(|link| link["id"] == moved.as_str())
                .unwrap()["destRouter"]["id"]
                .clone()
        };
        // A report that is not newer than the one before is ignored.
        near.send(lead(1)).await;
        assert!(hears_of_no_fault(&mut near).await && destination() == far_scene.far.id.as_str());
        near.send(lead(2)).await;
        let told: fabric::Fault = far.receive(content::FAULT).await;
        assert_eq!(
            (&told.id, told.subject(), told.iteration),
            (&moved, FaultSubject::Link, 1)
        );
        for router in [&mut near, &mut far] {
            let again = router.accept_route().await;
            assert!(again.circuit_id == route.circuit_id && link_of(&again) != moved);
        }
        assert_eq!(
            (destination(), far_scene.links().len()),
            (third.id.as_str().into(), 2)
        );
    });
}
