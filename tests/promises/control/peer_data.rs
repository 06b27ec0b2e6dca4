//! What the ends of a circuit tell each other when it opens: only what is known passes, because a
//! router or an SDK takes the rest for its own.

use std::collections::BTreeSet;

use prost::Message;
use serde_json::json;
use wire::{
    control::{
        NumberedBytes, content,
        edge::{self, CreateTerminatorResult},
        fabric, key, tunnel,
    },
    frame::{Builder, Frame, value},
    link::flag,
};

use super::{
    built_in_links::Linked,
    circuits::Scene,
    mock::{MockRouter, run},
};
use crate::router::sdk::{self, Options};

/// The keys that pass from the router of a client to that of a host: key, caller, application data,
/// marker, and what version 2 adds.
const TO_HOST: [u32; 7] = [1003, 1008, 1011, 1025, 1114, 1115, 1116];
/// Keys that mean something to the router or to an SDK: the reply to a request, heartbeats,
/// reflected headers, the connection, the method of encryption, the circuit, flow control, results
/// of routes, addresses, payloads of links, and numbers that no header has.
const FOREIGN: [u32; 20] = [
    0, 1, 2, 5, 6, 128, 200, 255, 1000, 1002, 1009, 1014, 1026, 1028, 1033, 1101, 1102, 1110, 2256,
    4711,
];

/// All of these keys, each with a value.
fn all() -> Vec<(u32, Vec<u8>)> {
    TO_HOST
        .iter()
        .chain(&FOREIGN)
        .map(|key| (*key, format!("value of {key}").into_bytes()))
        .collect()
}

fn entries(all: &[(u32, Vec<u8>)]) -> Vec<NumberedBytes> {
    let beyond = [
        (u32::MAX, b"beyond".to_vec()),
        (1 << 31, b"negative".to_vec()),
    ];
    all.iter()
        .cloned()
        .chain(beyond)
        .map(|(key, value)| NumberedBytes::new(key, value))
        .collect()
}

/// The result of a route that adds all keys which do not tell the result itself.
async fn accept_with_all(router: &mut MockRouter) -> fabric::Route {
    let frame = router.next_of(content::ROUTE).await;
    let route = fabric::Route::decode(frame.body()).unwrap();
    let is_own = |key: u32| [1, 1101, 1102].contains(&key);
    let result = Builder::reply(content::ROUTE_RESULT, &frame)
        .u32(key::ROUTE_ATTEMPT, route.attempt)
        .flag(key::ROUTE_SUCCESS, true);
    let result = all()
        .iter()
        .filter(|(key, _)| !is_own(*key))
        .fold(result, |result, (key, value)| {
            result.bytes(i32::try_from(*key).unwrap(), value)
        });
    router.send(result.body(route.circuit_id.as_bytes())).await;
    route
}

fn keys_of_route(route: &fabric::Route) -> BTreeSet<u32> {
    route
        .egress
        .as_ref()
        .unwrap()
        .peer_data
        .iter()
        .map(|entry| entry.key.unwrap_or_default())
        .collect()
}

fn keys_of_answer(answer: &Frame) -> BTreeSet<u32> {
    value::bytes_by_number(answer.header(key::PEER_DATA).unwrap())
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn dial(scene_token: &str, fingerprint: &str) -> Frame {
    let peer_data = all();
    Builder::new(content::CREATE_CIRCUIT)
        .bytes(key::PEER_DATA, &value::of_bytes_by_number(&peer_data))
        .text(key::SESSION_TOKEN, scene_token)
        .bytes(key::FINGERPRINTS, &value::of_texts(&[fingerprint]))
        .text(key::INSTANCE, "")
        .empty()
}

#[test]
fn known_peer_data_passes_between_routers() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let asked = edge::CreateTerminator {
            address: "terminator".into(),
            session_token: scene.host.session(&scene.service, "Bind"),
            fingerprints: vec![scene.host.fingerprint()],
            peer_data: entries(&all()),
            ..Default::default()
        };
        let answer = router
            .ask(
                Builder::new(content::CREATE_TERMINATOR).body(&asked.encode_to_vec()),
                content::CREATE_TERMINATOR_RESPONSE,
            )
            .await;
        let answer = edge::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "{answer:?}"
        );

        let request = router
            .send(dial(&scene.dial_token(), &scene.client.fingerprint()))
            .await;
        let route = accept_with_all(&mut router).await;
        assert_eq!(keys_of_route(&route), TO_HOST.into());
        let answer = router.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        assert_eq!(
            (answer.reply_for(), keys_of_answer(&answer)),
            (Some(request), [1003].into())
        );
    });
}

#[test]
fn known_peer_data_passes_between_tunnelers() {
    let scene = Scene::new();
    let (server, own) = (&scene.server, format!("@{}", scene.router.id));
    server
        .admin
        .patch(
            &format!("/edge-routers/{}", scene.router.id),
            json!({ "isTunnelerEnabled": true }),
        )
        .expect(200);
    for right in ["Bind", "Dial"] {
        server.service_policy(right, &[&own], &[&format!("@{}", scene.service)]);
    }
    let name = server
        .admin
        .get(&format!("/services/{}", scene.service))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    run(async {
        let mut router = scene.router.online(server).await;
        let (service_name, peer_data) = (name.clone(), entries(&all()));
        let asked = tunnel::CreateTerminator {
            service_name,
            address: "tunnelled".into(),
            peer_data,
            ..Default::default()
        };
        router
            .ask(
                Builder::new(content::TUNNEL_TERMINATOR).body(&asked.encode_to_vec()),
                content::TUNNEL_TERMINATOR_RESPONSE,
            )
            .await;
        let first = tunnel::CreateCircuit {
            service_name: name.clone(),
            peer_data: entries(&all()),
            ..Default::default()
        };
        let second = tunnel::CreateCircuitV2 {
            service_name: name,
            peer_data: entries(&all()),
            ..Default::default()
        };
        for (kind, body) in [
            (content::TUNNEL_CIRCUIT, first.encode_to_vec()),
            (content::TUNNEL_CIRCUIT_V2, second.encode_to_vec()),
        ] {
            router.send(Builder::new(kind).body(&body)).await;
            assert_eq!(
                keys_of_route(&accept_with_all(&mut router).await),
                TO_HOST.into()
            );
            let answered = match kind {
                content::TUNNEL_CIRCUIT => {
                    router
                        .receive::<tunnel::CreateCircuitResponse>(content::TUNNEL_CIRCUIT_RESPONSE)
                        .await
                        .peer_data
                }
                _ => {
                    router
                        .receive::<tunnel::CreateCircuitV2Response>(
                            content::TUNNEL_CIRCUIT_V2_RESPONSE,
                        )
                        .await
                        .peer_data
                }
            };
            assert_eq!(
                answered
                    .into_iter()
                    .filter_map(|entry| entry.key)
                    .collect::<BTreeSet<_>>(),
                [1003].into()
            );
        }
    });
}

/// The keys of a message to an SDK.
fn keys_of(frame: &Frame) -> BTreeSet<i32> {
    frame.headers().map(|(key, _)| key).collect()
}

#[test]
fn known_peer_data_passes_from_here() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::LIBZITI).await;
        let with_all = |connect: Builder| {
            let own = |key: u32| [1000, 1028].contains(&key);
            all()
                .iter()
                .filter(|(key, _)| !own(*key))
                .fold(connect, |connect, (key, value)| {
                    connect.bytes(i32::try_from(*key).unwrap(), value)
                })
        };
        let (client, route) = tokio::join!(
            sdk.dial_with(&token, with_all),
            accept_with_all(&mut linked.router)
        );
        assert_eq!(keys_of_route(&route), [1003, 1008, 1011, 1025].into());
        let client = client.unwrap();
        let expected = [
            1,
            sdk::key::CONNECTION,
            sdk::key::CIRCUIT,
            sdk::key::PUBLIC_KEY,
        ];
        assert_eq!(keys_of(&client.made_by), expected.into());
        assert_eq!(
            client.made_by.text(sdk::key::PUBLIC_KEY),
            Some("value of 1003")
        );
    });
}

#[test]
fn known_peer_data_passes_to_here() {
    run(async {
        let mut linked = Linked::new().await;
        let mut listener = linked.scene.hosted(Options::GO).await;
        let token = linked.scene.client.session(&linked.scene.service, "Dial");
        let request = linked
            .router
            .send(dial(&token, &linked.scene.client.fingerprint()))
            .await;
        let with_all = |answer: Builder| {
            let own = |key: u32| [1, 1000].contains(&key);
            all()
                .iter()
                .filter(|(key, _)| !own(*key))
                .fold(answer, |answer, (key, value)| {
                    answer.bytes(i32::try_from(*key).unwrap(), value)
                })
        };
        let accepting = async {
            let dialed = listener.dialed().await;
            listener.answer(dialed, with_all).await
        };
        let (mut host, route) = tokio::join!(accepting, linked.router.accept_route());
        let answer = linked
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        assert_eq!(
            (answer.reply_for(), keys_of_answer(&answer)),
            (Some(request), [1003].into())
        );
        let expected = [1000, 1003, 1008, 1011, 1012, 1025, 1026, 1034, 1035];
        assert_eq!(keys_of(&host.made_by), expected.into());
        linked
            .link
            .give(&route.circuit_id, 0, flag::START, b"")
            .await;
        linked.link.give(&route.circuit_id, 1, 0, b"ping").await;
        assert_eq!(host.data().await, b"ping");
    });
}
