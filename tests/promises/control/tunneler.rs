//! Routers that host and dial services themselves.

use overkeep::testing::{
    control_channel::message::{NumberedBytes, content, fabric::FaultSubject, tunnel},
    frame::Builder,
};
use prost::Message;
use serde_json::json;

use super::{
    circuits::Scene,
    mock::{MockRouter, run, soon},
};

/// Opens the API session of the tunneler.
async fn open(router: &mut MockRouter) -> tunnel::CreateApiSessionResponse {
    let asked = tunnel::CreateApiSession { config_types: vec!["host.v1".into(), "unknown".into()], ..Default::default() };
    let frame = Builder::new(content::TUNNEL_API_SESSION).body(&asked.encode_to_vec());
    let answer = router.ask(frame, content::TUNNEL_API_SESSION_RESPONSE).await;
    tunnel::CreateApiSessionResponse::decode(answer.body()).unwrap()
}

async fn services(router: &mut MockRouter, last: &[u8]) -> tunnel::ServicesList {
    router.send(Builder::new(content::TUNNEL_LIST_SERVICES).body(last)).await;
    router.receive(content::TUNNEL_SERVICES).await
}

fn hosting(service: &str, id: &str) -> tunnel::CreateTerminator {
    tunnel::CreateTerminator { service_name: service.into(), address: id.into(), start_time: 7, ..Default::default() }
}

#[test]
fn a_router_hosts_and_dials_itself() {
    let scene = Scene::new();
    let (server, path) = (&scene.server, format!("/edge-routers/{}", scene.router.id));
    let name = server.admin.get(&format!("/services/{}", scene.service)).expect(200).data()["name"].as_str().unwrap().to_owned();
    run(async {
        let mut router = scene.router.online(server).await;
        let frame = Builder::new(content::TUNNEL_API_SESSION).empty();
        let refused = router.ask(frame, content::ERROR).await;
        assert!(String::from_utf8_lossy(refused.body()).contains("isTunnelerEnabled"));
        server.admin.patch(&path, json!({ "isTunnelerEnabled": true })).expect(200);
        let opened = open(&mut router).await;
        assert_eq!(
            (&opened.identity_id, &opened.identity_name),
            (&scene.router.id, &scene.router.shown(server)["name"].as_str().unwrap().into())
        );
        assert_eq!(open(&mut router).await.session_id, opened.session_id, "the same session again");

        let empty = services(&mut router, b"").await;
        assert!(empty.services.is_empty());
        let own = format!("@{}", scene.router.id);
        let bind = server.service_policy("Bind", &[&own], &[&format!("@{}", scene.service)]);
        server.service_policy("Dial", &[&own], &[&format!("@{}", scene.service)]);
        let types = server.admin.get("/config-types?filter=name%3D%22host.v1%22").expect(200).data()[0]["id"].clone();
        let data = json!({ "protocol": "tcp", "address": "localhost", "port": 80 });
        let config = server.admin.post("/configs", json!({ "name": "of-tunneler", "configTypeId": types, "data": data })).expect(201).id();
        server.admin.patch(&format!("/services/{}", scene.service), json!({ "configs": [config] })).expect(200);
        let list = services(&mut router, &empty.last_update).await;
        assert_eq!((list.services[0].name.as_str(), list.services[0].permissions.concat()), (name.as_str(), "BindDial".into()));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&list.services[0].config).unwrap(), json!({ "host.v1": data }));

        let frame = Builder::new(content::TUNNEL_TERMINATOR).body(&hosting(&name, "tunnelled").encode_to_vec());
        let answer = router.ask(frame.clone(), content::TUNNEL_TERMINATOR_RESPONSE).await;
        let answer = tunnel::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert_eq!((answer.terminator_id.as_str(), answer.start_time, answer.session.is_some()), ("tunnelled", 7, true));
        let session = answer.session.unwrap();
        let answer = router.ask(frame, content::TUNNEL_TERMINATOR_RESPONSE).await;
        let answer = tunnel::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert_eq!(answer.session.as_ref(), Some(&session), "a router that gets no session ends");
        let shown = server.admin.get("/terminators/tunnelled").expect(200);
        assert_eq!(shown.data()["binding"], "tunnel");

        let asked = tunnel::CreateCircuit { service_name: name.clone(), ..Default::default() };
        let request = router.send(Builder::new(content::TUNNEL_CIRCUIT).body(&asked.encode_to_vec())).await;
        let route = router.accept_route().await;
        assert_eq!(route.egress.unwrap().binding, "tunnel");
        let answer = router.next_of(content::TUNNEL_CIRCUIT_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(tunnel::CreateCircuitResponse::decode(answer.body()).unwrap().circuit_id, route.circuit_id);
        router.fault(FaultSubject::Egress, &route.circuit_id).await;

        // Its data for the host are bounded, as those of SDKs.
        let long = NumberedBytes { key: Some(1), value: Some(vec![0; 33 << 10]) };
        let asked = tunnel::CreateCircuit { service_name: name.clone(), peer_data: vec![long], ..Default::default() };
        let refusal = router.ask(Builder::new(content::TUNNEL_CIRCUIT).body(&asked.encode_to_vec()), content::ERROR).await;
        assert!(String::from_utf8_lossy(refusal.body()).contains("at most 32768 are passed on"), "{refusal:?}");

        // Others cannot host without a right, and the terminator ends with it.
        let frame = Builder::new(content::TUNNEL_TERMINATOR).body(&hosting("unknown", "other").encode_to_vec());
        router.ask(frame, content::ERROR).await;
        server.admin.delete(&format!("/service-policies/{bind}")).expect(200);
        assert!(soon(|| scene.terminators().is_empty()).await);
        let unknown = router.ask(Builder::new(content::TUNNEL_REMOVE_TERMINATOR).body(b"tunnelled"), content::ERROR).await;
        assert!(String::from_utf8_lossy(unknown.body()).contains("not found"));
        server.admin.patch(&path, json!({ "isTunnelerEnabled": false })).expect(200);
        let frame = Builder::new(content::TUNNEL_TERMINATOR).body(&hosting(&name, "tunnelled").encode_to_vec());
        router.ask(frame, content::ERROR).await;
    });
}
