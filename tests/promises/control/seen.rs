//! What administrators see of remote routers and of the identities connected to them.

use std::thread;

use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{content, edge, fabric},
    frame::Builder,
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, run, server, soon},
};
use crate::harness::{Base, TestServer};

/// Reports which identities are connected.
async fn events(router: &mut MockRouter, identities: &[(&str, bool)], full_state: bool) {
    let event = |(id, is_connected): &(&str, bool)| edge::ConnectEvent {
        identity_id: (*id).into(),
        is_connected: *is_connected,
        connect_times: Vec::new(),
    };
    let events = edge::ConnectEvents {
        events: identities.iter().map(event).collect(),
        full_state,
    };
    router
        .send(Builder::new(content::CONNECT_EVENTS).body(&events.encode_to_vec()))
        .await;
}

fn is_connected(server: &TestServer, identity: &str) -> bool {
    server
        .admin
        .get(&format!("/identities/{identity}"))
        .expect(200)
        .data()["hasEdgeRouterConnection"]
        == true
}

#[test]
fn identities_at_a_router_are_shown() {
    let scene = Scene::new();
    let (server, host, client) = (
        &scene.server,
        scene.host.id.as_str(),
        scene.client.id.as_str(),
    );
    run(async {
        let mut router = scene.router.online(server).await;
        scene.hosted(&mut router, "terminator").await;
        assert!(is_connected(server, host) && !is_connected(server, client));
        // An identity that may not use the router is not shown.
        let admin = server.admin.get("/current-identity").expect(200).id();
        events(&mut router, &[(client, true), (&admin, true)], true).await;
        assert!(
            soon(|| is_connected(server, client)).await
                && !is_connected(server, host)
                && !is_connected(server, &admin)
        );
        events(&mut router, &[(client, false), (host, true)], false).await;
        assert!(soon(|| is_connected(server, host)).await && !is_connected(server, client));
        drop(router);
        assert!(soon(|| !is_connected(server, host)).await);
    });
}

fn rows(server: &TestServer, router: &Enrolled) -> Vec<Json> {
    let path = format!(
        "/history?filter=id%3D%22{}%22%20and%20action%20in%20%5B%22connect%22%2C%22disconnect%22%5D",
        router.id
    );
    server
        .admin
        .at(Base::Overkeep)
        .get(&path)
        .expect(200)
        .data()
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn routers_come_and_go_in_history() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        drop(router.online(&server).await);
        assert!(soon(|| router.shown(&server)["isOnline"] == false).await);
        // One that is back soon leaves no further row.
        drop(router.reconnect(&server).await);
        assert!(
            soon(|| rows(&server, &router).len() == 2).await,
            "{:?}",
            rows(&server, &router)
        );
        let [gone, came] = &rows(&server, &router)[..] else {
            panic!("{:?}", rows(&server, &router))
        };
        assert_eq!(
            (came["action"].as_str(), gone["action"].as_str()),
            (Some("connect"), Some("disconnect"))
        );
        assert_eq!(
            (&came["name"], &came["after"]["version"]),
            (&router.shown(&server)["name"], &"v1.1.15".into())
        );
        assert!(
            gone["after"]["reason"].is_string() && gone["after"]["at"].is_string(),
            "{gone}"
        );
    });
}

#[test]
fn routers_are_asked_for_values() {
    let server = server();
    let (router, other) = (Enrolled::new(&server), Enrolled::new(&server));
    let ask = |of: &str| {
        let question = json!({ "appRegex": of, "requestedValues": ["links"] });
        server.admin.at(Base::Fabric).post("/inspections", question)
    };
    let (mut connected, mut second) =
        run(async { (router.online(&server).await, other.online(&server).await) });
    for (of, count) in [(router.id.as_str(), 1), (".*", 2)] {
        let answer = thread::scope(|scope| {
            let asking = scope.spawn(|| ask(of).expect(200));
            run(async {
                answer_inspection(&mut connected, r#"{"links":[]}"#).await;
                if count == 2 {
                    answer_inspection(&mut second, "no JSON").await;
                }
            });
            asking.join().unwrap()
        });
        let values = answer.json["values"].as_array().unwrap();
        let own = values
            .iter()
            .find(|value| value["appId"] == router.id.as_str())
            .unwrap();
        assert_eq!(
            (values.len(), &own["value"]),
            (count, &json!({ "links": [] })),
            "{}",
            answer.json
        );
        assert_eq!(answer.json["success"], true);
    }
    ask("(a+)+$").expect(400);
}

async fn answer_inspection(router: &mut MockRouter, value: &str) {
    let frame = router.next_of(content::INSPECT_REQUEST).await;
    let values = vec![fabric::InspectValue {
        name: "links".into(),
        value: value.into(),
    }];
    let answer = fabric::InspectResponse {
        success: true,
        errors: Vec::new(),
        values,
    };
    router
        .send(Builder::reply(content::INSPECT_RESPONSE, &frame).body(&answer.encode_to_vec()))
        .await;
}
