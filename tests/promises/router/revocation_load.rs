//! Loss of access while a thousand circuits and some binds depend on it and a thousand other
//! circuits carry traffic.

use std::time::Instant;

use serde_json::json;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Event, Options, Sdk},
};
use crate::harness::{TestServer, fresh};

pub const MANY: usize = 1000;
/// Terminators of the service, whose host loses its right to bind in some cases.
const BINDS: usize = 50;
/// Circuits of another client to the same service, which stay open if only the client loses access.
const OTHER_CIRCUITS: usize = 20;

/// Whose access ends: the client's alone, or the host's or service's too.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Client,
    Host,
}

/// A change that takes access away.
pub struct Cause {
    pub name: &'static str,
    whose: Whose,
    /// Before the circuits are dialed.
    pub before: fn(&Scene),
    pub take: fn(&Scene),
}

fn delete(scene: &Scene, path: &str) {
    scene.server.admin.delete(path).expect(200);
}

fn nothing(_: &Scene) {}

fn roles(scene: &Scene, who: &Member, roles: &[&str]) {
    scene
        .server
        .admin
        .patch(
            &format!("/identities/{}", who.id),
            json!({ "roleAttributes": roles }),
        )
        .expect(200);
}

/// Grants a right by a role of the identity alone.
fn by_role(scene: &Scene, who: &Member, right: &str, policy: &str) {
    roles(scene, who, &["routed", &who.name]);
    scene.server.service_policy(
        right,
        &[&format!("#{}", who.name)],
        &[&format!("@{}", scene.service)],
    );
    delete(scene, &format!("/service-policies/{policy}"));
}

fn respond(scene: &Scene, who: &Member, domain: &str) {
    let check = scene
        .server
        .admin
        .get("/posture-checks")
        .expect(200)
        .each("id")[0]
        .to_owned();
    who.caller
        .post(
            "/posture-response",
            json!({ "id": check, "typeId": "DOMAIN", "domain": domain }),
        )
        .expect(201);
}

/// Demands a posture check, which the identity passes.
fn demand(scene: &Scene, who: &Member, policy: &str) {
    respond(scene, who, "good.example");
    scene
        .server
        .admin
        .patch(
            &format!("/service-policies/{policy}"),
            json!({ "postureCheckRoles": ["#office"] }),
        )
        .expect(200);
}

fn delete_session(scene: &Scene, who: &Member) {
    let session = who.caller.get("/sessions").expect(200).each("id")[0].to_owned();
    delete(scene, &format!("/sessions/{session}"));
}

fn disable(scene: &Scene, who: &Member) {
    scene
        .server
        .admin
        .post(
            &format!("/identities/{}/disable", who.id),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
}

fn api_session_of(scene: &Scene, who: &Member) -> String {
    scene
        .server
        .admin
        .list("/api-sessions", &format!("identity = \"{}\"", who.id), "")
        .expect(200)
        .each("id")[0]
        .to_owned()
}

/// Every change after which a circuit ends.
pub fn causes() -> Vec<Cause> {
    let cause = |name, whose, before, take| Cause {
        name,
        whose,
        before,
        take,
    };
    vec![
        cause("policy to dial deleted", Whose::Client, nothing, |scene| {
            delete(scene, &format!("/service-policies/{}", scene.dial))
        }),
        cause("policy to bind deleted", Whose::Host, nothing, |scene| {
            delete(scene, &format!("/service-policies/{}", scene.bind))
        }),
        cause(
            "role of the client taken away",
            Whose::Client,
            |scene| by_role(scene, &scene.client, "Dial", &scene.dial),
            |scene| roles(scene, &scene.client, &["routed"]),
        ),
        cause(
            "role of the host taken away",
            Whose::Host,
            |scene| by_role(scene, &scene.host, "Bind", &scene.bind),
            |scene| roles(scene, &scene.host, &["routed"]),
        ),
        cause(
            "session of the client deleted",
            Whose::Client,
            nothing,
            |scene| delete_session(scene, &scene.client),
        ),
        cause(
            "session of the host deleted",
            Whose::Host,
            nothing,
            |scene| delete_session(scene, &scene.host),
        ),
        cause(
            "API session of the client deleted",
            Whose::Client,
            nothing,
            |scene| {
                delete(
                    scene,
                    &format!("/api-sessions/{}", api_session_of(scene, &scene.client)),
                );
            },
        ),
        cause(
            "API session of the host deleted",
            Whose::Host,
            nothing,
            |scene| {
                delete(
                    scene,
                    &format!("/api-sessions/{}", api_session_of(scene, &scene.host)),
                );
            },
        ),
        cause("client disabled", Whose::Client, nothing, |scene| {
            disable(scene, &scene.client)
        }),
        cause("host disabled", Whose::Host, nothing, |scene| {
            disable(scene, &scene.host)
        }),
        cause("client deleted", Whose::Client, nothing, |scene| {
            delete(scene, &format!("/identities/{}", scene.client.id))
        }),
        cause("host deleted", Whose::Host, nothing, |scene| {
            delete(scene, &format!("/identities/{}", scene.host.id))
        }),
        cause(
            "posture of the client lost",
            Whose::Client,
            |scene| demand(scene, &scene.client, &scene.dial),
            |scene| respond(scene, &scene.client, "bad.example"),
        ),
        cause(
            "posture of the host lost",
            Whose::Host,
            |scene| demand(scene, &scene.host, &scene.bind),
            |scene| respond(scene, &scene.host, "bad.example"),
        ),
        cause(
            "router lost for the client",
            Whose::Client,
            nothing,
            |scene| roles(scene, &scene.client, &["elsewhere"]),
        ),
        cause("router lost for the host", Whose::Host, nothing, |scene| {
            roles(scene, &scene.host, &["elsewhere"])
        }),
        cause("service deleted", Whose::Host, nothing, |scene| {
            delete(scene, &format!("/services/{}", scene.service))
        }),
    ]
}

/// An identity that may use the router.
fn member(server: &TestServer, name: &str) -> Member {
    let member = Member::new(server, name);
    server
        .admin
        .patch(
            &format!("/identities/{}", member.id),
            json!({ "roleAttributes": ["routed"] }),
        )
        .expect(200);
    member
}

/// Another service with a host and a client, on a controller that others use as well.
pub fn scene_on(server: TestServer) -> Scene {
    let service = server.service(&fresh("service"), json!({ "encryptionRequired": false }));
    let (host, client) = (member(&server, "host"), member(&server, "client"));
    let bind = server.service_policy(
        "Bind",
        &[&format!("@{}", host.id)],
        &[&format!("@{service}")],
    );
    let dial = server.service_policy(
        "Dial",
        &[&format!("@{}", client.id)],
        &[&format!("@{service}")],
    );
    Scene {
        server,
        service,
        host,
        client,
        bind,
        dial,
    }
}

/// Hosts the service some times on one channel.
async fn host(scene: &Scene) -> Sdk {
    let sdk = scene.host.connect(&scene.server, Options::GO).await;
    let token = scene.host.session(&scene.service, "Bind");
    for host in futures_util::future::join_all((0..BINDS).map(|_| sdk.host(&token))).await {
        tokio::spawn(host.unwrap().echo());
    }
    sdk
}

/// Opens some circuits.
pub async fn dial(sdk: &Sdk, token: &str, count: usize) -> Vec<Conn> {
    let mut open = Vec::with_capacity(count);
    while open.len() < count {
        let dials = (0..100.min(count - open.len())).map(|_| sdk.dial(token));
        open.extend(
            futures_util::future::join_all(dials)
                .await
                .into_iter()
                .map(Result::unwrap),
        );
    }
    open
}

/// Every circuit sends; the echo is read later.
async fn load(circuits: &[Conn]) {
    for conn in circuits {
        conn.send(&[1; 1000]).await;
    }
}

/// Whether each circuit still carries traffic both ways.
async fn all_stand(circuits: &mut [Conn]) {
    for conn in circuits {
        conn.send(b"last").await;
        let mut received = conn.data().await;
        while received != b"last" {
            received = conn.data().await;
        }
    }
}

async fn all_end(circuits: &mut [Conn]) {
    for conn in circuits {
        while !matches!(conn.next().await, Event::Closed(_) | Event::Lost) {}
    }
}

/// A controller whose router is open to identities with a role, with a posture check.
pub fn prepared() -> TestServer {
    let server = TestServer::with_router();
    let policy = server
        .admin
        .get("/edge-router-policies")
        .expect(200)
        .each("id")[0]
        .to_owned();
    server
        .admin
        .patch(
            &format!("/edge-router-policies/{policy}"),
            json!({ "identityRoles": ["#routed"] }),
        )
        .expect(200);
    let check = json!({ "name": fresh("domain"), "typeId": "DOMAIN", "domains": ["good.example"], "roleAttributes": ["office"] });
    server.admin.post("/posture-checks", check).expect(201);
    server
}

#[test]
#[ignore = "endurance"]
fn causes_end_a_thousand_circuits_each() {
    let mut scene = scene_on(prepared());
    let (mut standing, _host, _client) = run(async {
        let listening = host(&scene).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        (dial(&sdk, &token, MANY).await, listening, sdk)
    });
    for cause in causes() {
        scene = scene_on(scene.server);
        (cause.before)(&scene);
        let other = member(&scene.server, "other");
        scene.server.service_policy(
            "Dial",
            &[&format!("@{}", other.id)],
            &[&format!("@{}", scene.service)],
        );
        run(async {
            let hosting = host(&scene).await;
            let (sdk, token) = scene.dialler(Options::GO).await;
            let mut ending = dial(&sdk, &token, MANY).await;
            let others = other.connect(&scene.server, Options::GO).await;
            let mut other_circuits = dial(
                &others,
                &other.session(&scene.service, "Dial"),
                OTHER_CIRCUITS,
            )
            .await;
            assert_eq!(
                scene.server.router().circuits().len(),
                2 * MANY + OTHER_CIRCUITS,
                "{}",
                cause.name
            );
            load(&ending).await;
            load(&standing).await;
            load(&other_circuits).await;
            let began = Instant::now();
            (cause.take)(&scene);
            all_end(&mut ending).await;
            println!(
                "{}: {MANY} circuits ended after {:?}",
                cause.name,
                began.elapsed()
            );
            let left = match cause.whose {
                Whose::Client => {
                    all_stand(&mut other_circuits).await;
                    (MANY + OTHER_CIRCUITS, 2 * BINDS as u64)
                }
                Whose::Host => {
                    all_end(&mut other_circuits).await;
                    (MANY, BINDS as u64)
                }
            };
            let open = || {
                (
                    scene.server.router().circuits().len(),
                    scene.server.router().traffic().binds,
                )
            };
            assert!(soon(|| open() == left), "{}: {:?}", cause.name, open());
            all_stand(&mut standing).await;
            for sdk in [sdk, others, hosting] {
                sdk.leave().await;
            }
        });
        assert!(
            soon(|| scene.server.router().circuits().len() == MANY),
            "{}",
            cause.name
        );
    }
}
