//! Which routers a session offers.

use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{content, fabric},
    frame::Builder,
};

use super::{
    mock::{Enrolled, run, soon},
    mock_link::MockLink,
};
use crate::{
    harness::{TestServer, fresh},
    router::scene::Member,
};

fn offered(session: &Json) -> Vec<&str> {
    session["edgeRouters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|router| router["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_session_offers_linked_routers() {
    let server = TestServer::with_router();
    let router = Enrolled::new(&server);
    let member = Member::new(&server, "member");
    let name_of = |id: &str| {
        server
            .admin
            .get(&format!("/edge-routers/{id}"))
            .expect(200)
            .data()["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (built_in, external) = (name_of("built-in"), name_of(&router.id));
    let [first_service, second_service] = ["here", "there"]
        .map(|name| server.service(&fresh(name), json!({ "roleAttributes": [name] })));
    // Both services may use both routers.
    let listed = server
        .admin
        .get("/service-edge-router-policies")
        .expect(200);
    let of_built_in = listed.data()[0]["id"].as_str().unwrap().to_owned();
    for service in [&first_service, &second_service] {
        server.allow_service_over(&member.id, service, &router.id);
    }
    server.service_policy(
        "Dial",
        &[&format!("@{}", member.id)],
        &[&format!("@{first_service}"), &format!("@{second_service}")],
    );
    run(async {
        let mut online = router.online(&server).await;
        let dial = |service: &str| {
            member
                .caller
                .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
                .expect(201)
        };
        let routers = |service: &str| {
            member
                .caller
                .get(&format!("/services/{service}/edge-routers"))
                .expect(200)
        };
        assert_eq!(offered(dial(&first_service).data()), [built_in.as_str()]);
        assert_eq!(offered(routers(&first_service).data()), [built_in.as_str()]);
        // With a link between them every client reaches every host.
        let link = fabric::RouterLink {
            id: "link".into(),
            destination_router_id: "built-in".into(),
            protocol: "tls".into(),
            iteration: 1,
            ..Default::default()
        };
        let report = fabric::RouterLinks {
            links: vec![link],
            full_refresh: false,
        };
        online
            .send(Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()))
            .await;
        let _link = MockLink::try_open(&server, &router, MockLink::hello("link", &router.id))
            .await
            .unwrap();
        let mut both = [built_in.as_str(), external.as_str()];
        both.sort_unstable();
        let sorted = |of: &Json| {
            let mut names: Vec<String> = offered(of).into_iter().map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        assert!(soon(|| sorted(dial(&first_service).data()) == both).await);
        assert_eq!(sorted(routers(&first_service).data()), both);
        online.fault(fabric::FaultSubject::Link, "link").await;
        assert!(soon(|| offered(dial(&first_service).data()) == [built_in.as_str()]).await);
        // A service that may not use the built-in router is offered over the others.
        let policy = json!({ "serviceRoles": ["#here"] });
        server
            .admin
            .patch(
                &format!("/service-edge-router-policies/{of_built_in}"),
                policy,
            )
            .expect(200);
        assert_eq!(offered(dial(&second_service).data()), [external.as_str()]);
        assert_eq!(
            offered(routers(&second_service).data()),
            [external.as_str()]
        );
        assert_eq!(offered(dial(&first_service).data()), [built_in.as_str()]);
        // With the built-in router disabled the others serve every service that may use them.
        let policy = json!({ "serviceRoles": ["#all"] });
        server
            .admin
            .patch(
                &format!("/service-edge-router-policies/{of_built_in}"),
                policy,
            )
            .expect(200);
        server
            .admin
            .patch("/edge-routers/built-in", json!({ "disabled": true }))
            .expect(200);
        assert!(offered(dial(&first_service).data()).contains(&external.as_str()));
    });
}
