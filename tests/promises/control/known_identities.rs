//! The identities that routers of version 2 know: those of the SDKs that can connect to them, and
//! no others.

use std::collections::BTreeMap;

use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content, edge,
        model::{Action, ChangeSet, DataState, Event, Identity, Model},
    },
    frame::Frame,
};

use super::{
    circuits::Scene,
    mock::{MockRouter, run},
    router_two::RouterTwo,
};
use crate::{
    harness::{TestServer, fresh},
    router::scene::Member,
};

/// The part of the data model of a router 2.0.3 that it uses for the channels of SDKs.
#[derive(Default)]
pub struct KnownIdentities {
    identities: BTreeMap<String, Identity>,
    /// The identities of the API sessions with which an SDK may have opened a channel, by token.
    channels: BTreeMap<String, String>,
    /// What it would log as an error, and channels that it would close although their API session
    /// goes on.
    faults: Vec<String>,
}

impl KnownIdentities {
    pub fn take(&mut self, frame: &Frame) {
        match frame.content_type() {
            content::CHANGE_SET => {
                let changes = ChangeSet::decode(frame.body()).unwrap();
                assert!(
                    changes.is_synthetic || changes.index > 0,
                    "it is out of order"
                );
                changes
                    .changes
                    .into_iter()
                    .for_each(|event| self.apply(event));
            }
            content::DATA_STATE => {
                self.identities.clear();
                DataState::decode(frame.body())
                    .unwrap()
                    .events
                    .into_iter()
                    .for_each(|event| self.apply(event));
            }
            content::API_SESSION_ADDED => {
                let added = edge::ApiSessionAdded::decode(frame.body()).unwrap();
                self.channels.extend(
                    added
                        .api_sessions
                        .into_iter()
                        .map(|session| (session.token, session.identity_id)),
                );
            }
            content::API_SESSION_REMOVED => {
                let removed = edge::Removed::decode(frame.body()).unwrap();
                self.channels
                    .retain(|token, _| !removed.tokens.contains(token));
            }
            _ => return,
        }
        let unknown = self
            .channels
            .values()
            .filter(|id| !self.identities.contains_key(*id));
        self.faults.extend(
            unknown.map(|id| format!("after a {}: identity {id} not found", frame.content_type())),
        );
    }

    fn apply(&mut self, event: Event) {
        let Some(Model::Identity(identity)) = event.model else {
            return;
        };
        if event.action == i32::from(Action::Delete) {
            self.identities.remove(&identity.id);
        } else {
            self.identities.insert(identity.id.clone(), identity);
        }
    }
}

/// Reads until the router knows exactly these identities.
async fn knows(router: &mut MockRouter, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    for _ in 0..500 {
        router.rest().await;
        if router.identities.identities.keys().eq(expected.iter()) {
            assert_eq!(router.identities.faults, [""; 0]);
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!(
        "it knows {:?} and not {expected:?}",
        router.identities.identities.keys()
    );
}

/// The id of the present API session of a member.
fn api_session(server: &TestServer, token: &str) -> String {
    server
        .admin
        .get(&format!("/api-sessions?filter=token%3D%22{token}%22"))
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn routers_know_identities_of_programs() {
    let scene = Scene::new();
    let (server, admin) = (&scene.server, &scene.server.admin);
    let _stranger = Member::new(server, "stranger");
    run(async {
        let mut router = RouterTwo::new(&scene.router).connect(server).await;
        let (host, client) = (scene.host.id.as_str(), scene.client.id.as_str());
        knows(&mut router, &[host, client]).await;
        let bare = |id: &str| {
            (
                id.to_owned(),
                Identity {
                    id: id.into(),
                    name: id.into(),
                    ..Identity::default()
                },
            )
        };
        assert_eq!(
            router.identities.identities,
            BTreeMap::from([bare(host), bare(client)]),
            "no more than the id"
        );

        // One that may use the router later, and has two API sessions.
        let late = Member::new(server, "late");
        let second = late.caller.log_in_by_certificate().token.unwrap();
        let policy = json!({
            "name": fresh("policy"),
            "semantic": "AnyOf",
            "identityRoles": [format!("@{}", late.id)],
            "edgeRouterRoles": [format!("@{}", scene.router.id)],
        });
        let policy = admin.post("/edge-router-policies", policy).expect(201).id();
        knows(&mut router, &[host, client, &late.id]).await;
        admin
            .delete(&format!(
                "/api-sessions/{}",
                api_session(server, late.token())
            ))
            .expect(200);
        while router.identities.channels.contains_key(late.token()) {
            router.next().await.unwrap();
        }
        knows(&mut router, &[host, client, &late.id]).await;
        admin
            .delete(&format!("/api-sessions/{}", api_session(server, &second)))
            .expect(200);
        knows(&mut router, &[host, client]).await;
        let _third = late.caller.log_in_by_certificate();
        knows(&mut router, &[host, client, &late.id]).await;
        admin
            .delete(&format!("/edge-router-policies/{policy}"))
            .expect(200);
        knows(&mut router, &[host, client]).await;
        admin
            .post(
                &format!("/identities/{client}/disable"),
                json!({ "durationMinutes": 0 }),
            )
            .expect(200);
        knows(&mut router, &[host]).await;
        admin.delete(&format!("/identities/{host}")).expect(200);
        knows(&mut router, &[]).await;
    });
}

/// A whole model replaces everything that the router knows.
#[test]
fn whole_models_keep_identities_of_programs() {
    let scene = Scene::new();
    let (server, path) = (&scene.server, format!("/edge-routers/{}", scene.router.id));
    let (own, host, client) = (
        scene.router.id.as_str(),
        scene.host.id.as_str(),
        scene.client.id.as_str(),
    );
    let enable = |is_enabled: bool| {
        drop(
            server
                .admin
                .patch(&path, json!({ "isTunnelerEnabled": is_enabled }))
                .expect(200),
        )
    };
    run(async {
        let mut process = RouterTwo::new(&scene.router);
        let mut router = process.connect(server).await;
        enable(true);
        knows(&mut router, &[own, host, client]).await;
        let name = scene.router.shown(server)["name"].clone();
        for cut in 0..3 {
            let log_in = scene.client.caller.log_in_by_certificate();
            router.gained().await;
            drop(log_in);
            process.identities = std::mem::take(&mut router.identities);
            drop(router);
            router = process.connect(server).await;
            router.next_of(content::DATA_STATE).await;
            knows(&mut router, &[own, host, client]).await;
            assert_eq!(
                name,
                router.identities.identities[own].name.as_str(),
                "cut {cut}: it is as its model says"
            );
        }
        enable(false);
        knows(&mut router, &[host, client]).await;
    });
}

#[test]
fn earlier_routers_learn_no_identities() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.connect(&scene.server).await;
        router.hello_unasked().await;
        router.full_state().await;
        drop(scene.client.caller.log_in_by_certificate());
        router.gained().await;
        router.rest().await;
        assert!(router.identities.identities.is_empty());
    });
}
