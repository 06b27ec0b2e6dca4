//! A router that behaves like the recorded router 2.0.3, and its connections: the first one, cuts,
//! and the restart of either side.

use std::time::Duration;

use serde_json::json;
use wire::{
    control::{content, key},
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    circuits::Scene,
    known_identities::KnownIdentities,
    mock::{Enrolled, MockRouter, run, server, soon},
    recorded_connections::connections_in,
};
use crate::harness::{Base, TestServer};

/// A real router waits for two seconds between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts until a test gives up.
const ATTEMPTS: u32 = 20;

/// The recorded connections of a router 2.0.3: the messages that it has sent, beginning with its
/// hello.
pub fn recorded(section: &str) -> Vec<Vec<Frame>> {
    connections_in(
        include_bytes!("../../data/router-2.0.3-frames.txt.gz"),
        section,
    )
}

/// A recorded hello with these headers in the place of its own, in the name of another router.
fn hello_like(recorded: &Frame, router: &str, headers: &[(i32, &[u8])]) -> Frame {
    let is_other = |key: i32| headers.iter().all(|(other, _)| *other != key);
    let others = recorded
        .headers()
        .filter(|(key, _)| is_other(*key))
        .chain(headers.iter().copied());
    let mut hello = others
        .fold(Builder::new(common::HELLO), |hello, (key, value)| {
            hello.bytes(key, value)
        })
        .body(router.as_bytes());
    hello.set_sequence(-1);
    hello
}

/// The process of a router. It keeps the id and the secret of its group from the first answer, and
/// refuses any other secret.
pub struct RouterTwo<'e> {
    enrolled: &'e Enrolled,
    first: Frame,
    again: Frame,
    /// What it sends after an accepted hello.
    following: Vec<Frame>,
    group: Option<(Vec<u8>, Vec<u8>)>,
    /// How often it has dialed without a connection.
    iteration: u32,
    refused: u32,
    /// What it knows when it connects.
    pub identities: KnownIdentities,
}

impl<'e> RouterTwo<'e> {
    pub fn new(enrolled: &'e Enrolled) -> Self {
        let connections = recorded("connect-then-cut.overkeep");
        let [first, again] = [0, 1].map(|number: usize| connections[number][0].clone());
        let is_sent =
            |frame: &&Frame| [content::ROUTER_LINKS, 20505].contains(&frame.content_type());
        let following = connections[0][1..]
            .iter()
            .filter(is_sent)
            .take(2)
            .cloned()
            .collect();
        Self {
            enrolled,
            first,
            again,
            following,
            group: None,
            iteration: 0,
            refused: 0,
            identities: KnownIdentities::default(),
        }
    }

    fn hello(&mut self) -> Frame {
        let id = self.enrolled.id.as_str();
        let Some((group, secret)) = &self.group else {
            return hello_like(&self.first, id, &[]);
        };
        self.iteration += 1;
        let group = [group, format!("-{}", self.iteration).as_bytes()].concat();
        hello_like(
            &self.again,
            id,
            &[
                (common_key::CONNECTION_ID, &group),
                (key::GROUP_SECRET, secret),
            ],
        )
    }

    /// Dials once. `None` if the router does not accept the answer.
    async fn dial(&mut self, server: &TestServer) -> Option<MockRouter> {
        let hello = self.hello();
        let mut router = match self.enrolled.try_connect(server, hello).await {
            Ok(router) => router,
            Err(reason) => panic!("{reason}"),
        };
        router.identities = std::mem::take(&mut self.identities);
        let answer = router.answer.clone().unwrap();
        let secret = answer
            .header(key::GROUP_SECRET)
            .expect("no group secret header found for multi channel")
            .to_vec();
        assert!(!secret.is_empty());
        let (_, known) = self.group.get_or_insert_with(|| {
            (
                answer.header(common_key::CONNECTION_ID).unwrap().to_vec(),
                secret.clone(),
            )
        });
        if *known != secret {
            self.refused += 1;
            return None;
        }
        assert_eq!(
            (
                answer.text(common_key::CHANNEL_TYPE),
                answer.is_set(common_key::IS_GROUPED)
            ),
            (Some("ctrl.default"), true)
        );
        for frame in &self.following {
            router.send(frame.clone()).await;
        }
        let hello = router.next_of(content::SERVER_HELLO).await;
        router.answer_hello(&hello, true).await;
        router.full_state().await;
        Some(router)
    }

    /// Dials until it accepts the answer.
    pub async fn connect(&mut self, server: &TestServer) -> MockRouter {
        for _ in 0..ATTEMPTS {
            if let Some(router) = self.dial(server).await {
                return router;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("refused {} answers: incorrect group secret", self.refused);
    }
}

/// The ids of the open circuits.
fn circuits(scene: &Scene) -> Vec<String> {
    let listed = scene
        .server
        .admin
        .at(Base::Overkeep)
        .get("/circuits")
        .expect(200);
    listed
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|circuit| circuit["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn ten_cuts_end_no_circuits() {
    let scene = Scene::new();
    run(async {
        let mut process = RouterTwo::new(&scene.router);
        let mut router = process.connect(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        for cut in 0..10 {
            let before = router;
            // The controller may not know yet that the old connection is dead.
            if cut % 2 == 0 {
                drop(before);
                router = process.connect(&scene.server).await;
            } else {
                router = process.connect(&scene.server).await;
                drop(before);
            }
            assert_eq!(
                (circuits(&scene), scene.terminators()),
                (vec![circuit.clone()], vec!["terminator".to_owned()]),
                "cut {cut}"
            );
        }
        assert_eq!((process.refused, process.iteration), (0, 10));
        assert!(soon(|| scene.router.shown(&scene.server)["syncStatus"] == "SYNC_DONE").await);
        // It serves as before.
        router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
    });
}

#[test]
fn started_routers_have_no_circuits() {
    let scene = Scene::new();
    run(async {
        let mut router = RouterTwo::new(&scene.router).connect(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        drop(router);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        let mut process = RouterTwo::new(&scene.router);
        let _router = process.connect(&scene.server).await;
        assert_eq!(process.refused, 0);
        assert!(
            soon(|| circuits(&scene).is_empty() && scene.terminators().is_empty()).await,
            "{:?}",
            circuits(&scene)
        );
    });
}

#[test]
fn restarted_controllers_take_routers_back() {
    let scene = Scene::new();
    run(async {
        let mut process = RouterTwo::new(&scene.router);
        // The number of the connection, with which a new controller begins again, is not by chance
        // the one that the router knows.
        for _ in 0..5 {
            drop(process.connect(&scene.server).await);
        }
        let mut server = scene.server.killed(|_| ());
        for restart in 0..3 {
            drop(process.connect(&server).await);
            assert_eq!(process.refused, 0, "restart {restart}");
            server = server.killed(|_| ());
        }
    });
}

#[test]
fn recorded_redials_get_their_secret() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut count = 0;
        for section in [
            "connect-then-cut.overkeep",
            "connect-then-cut.upstream-2.0.3",
            "restart.overkeep",
        ] {
            let hellos = recorded(section)
                .into_iter()
                .map(|connection| connection[0].clone());
            for recorded in hellos.filter(|hello| {
                hello.header(key::GROUP_SECRET).is_some() && hello.is_set(key::HELLO_IS_FIRST)
            }) {
                let connected = router
                    .try_connect(&server, hello_like(&recorded, &router.id, &[]))
                    .await
                    .unwrap();
                let answer = connected.answer.unwrap();
                for key in [
                    common_key::CONNECTION_ID,
                    common_key::CHANNEL_TYPE,
                    common_key::IS_GROUPED,
                    key::GROUP_SECRET,
                ] {
                    assert_eq!(
                        answer.header(key),
                        recorded.header(key),
                        "{section}, key {key}"
                    );
                }
                count += 1;
            }
        }
        assert_eq!(count, 13);
        // A secret of any bytes, and one that is longer than is kept.
        let again = recorded("connect-then-cut.overkeep")[1][0].clone();
        for length in [1, 16, 64, 65] {
            let secret: Vec<u8> = (0..length).map(|number| 255 - number).collect();
            match router
                .try_connect(
                    &server,
                    hello_like(&again, &router.id, &[(key::GROUP_SECRET, &secret)]),
                )
                .await
            {
                Ok(connected) => assert_eq!(
                    (
                        connected.answer.unwrap().header(key::GROUP_SECRET),
                        length < 65
                    ),
                    (Some(&secret[..]), true)
                ),
                Err(reason) => assert!(
                    length == 65 && reason.contains("secret"),
                    "{length}: {reason}"
                ),
            }
        }
    });
}

/// A router that was connected to a controller of version 2 opens two connections for as long as it
/// runs.
#[test]
fn groups_of_another_controller_stay_whole() {
    let scene = Scene::new();
    let of_group = |number: usize, changed: &[(i32, &[u8])]| {
        hello_like(
            &recorded("connect-then-cut.upstream-2.0.3")[number][0],
            &scene.router.id,
            changed,
        )
    };
    run(async {
        let open = |hello| scene.router.try_connect(&scene.server, hello);
        // The further one alone: what it belongs to does not exist.
        assert_eq!(
            open(of_group(3, &[])).await.err().unwrap(),
            "a router may have only one connection"
        );
        let mut high = open(of_group(2, &[])).await.unwrap();
        assert_eq!(
            high.answer.as_ref().unwrap().text(common_key::CHANNEL_TYPE),
            Some("ctrl.high")
        );
        let mut default = open(of_group(3, &[])).await.unwrap();
        let answer = default.answer.take().unwrap();
        assert_eq!(
            (answer.text(0), answer.text(7), answer.header(10)),
            (
                Some("XmgN-1"),
                Some("ctrl.default"),
                of_group(3, &[]).header(10)
            )
        );
        // What comes over the further one is processed, and answered over the first one.
        let hello = high.next_of(content::SERVER_HELLO).await;
        default.answer_hello(&hello, true).await;
        high.full_state().await;
        assert!(soon(|| scene.router.shown(&scene.server)["hostname"] == "router.example").await);
        default.send(Builder::new(common::PING).empty()).await;
        assert!(
            high.next_of(common::RESULT)
                .await
                .is_set(common_key::SUCCESS)
        );
        // Others are refused, and more than the router has a use for.
        let other = [(common_key::CONNECTION_ID, &b"XmgN-2"[..])];
        assert_eq!(
            open(of_group(3, &other)).await.err().unwrap(),
            "a router may have only one connection"
        );
        let other = [(key::GROUP_SECRET, &b"another"[..])];
        assert_eq!(
            open(of_group(3, &other)).await.err().unwrap(),
            "a router may have only one connection"
        );
        let low = open(of_group(3, &[(common_key::CHANNEL_TYPE, b"ctrl.low")]))
            .await
            .unwrap();
        assert_eq!(
            open(of_group(3, &[])).await.err().unwrap(),
            "a router may have only three connections"
        );
        drop(low);
        // A further one that is lost comes back alone, and the first one goes on.
        drop(default);
        let mut default = reopened(&scene, of_group(3, &[])).await;
        default.send(Builder::new(common::PING).empty()).await;
        assert!(
            high.next_of(common::RESULT)
                .await
                .is_set(common_key::SUCCESS)
        );
        // With the first one all are lost, so that the router begins again.
        drop(high);
        assert!(default.ends().await);
        let mut high = open(of_group(2, &[(common_key::CONNECTION_ID, b"XmgN-2")]))
            .await
            .unwrap();
        high.introduce().await;
        scene
            .server
            .admin
            .patch(
                &format!("/edge-routers/{}", scene.router.id),
                json!({ "disabled": true }),
            )
            .expect(200);
        assert!(high.ends().await);
        assert_eq!(
            open(of_group(3, &[])).await.err().unwrap(),
            "the router is disabled"
        );
    });
}

/// Opens a connection as soon as the controller has noticed that the one before it was lost.
async fn reopened(scene: &Scene, hello: Frame) -> MockRouter {
    for _ in 0..100 {
        match scene.router.try_connect(&scene.server, hello.clone()).await {
            Ok(router) => return router,
            Err(reason) => assert_eq!(reason, "a router may have only three connections"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("the lost connection is still counted");
}
