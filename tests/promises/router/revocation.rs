//! Loss of access: everything that depended on it is closed, and everything else stays open.

use std::time::Duration;

use overkeep::testing::{clock::Clock, config::Span};
use serde_json::json;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Event, Host, Options, PATIENCE, Sdk},
};
use crate::{
    explain::verify,
    harness::{TestServer, fresh},
};

/// A circuit of other identities that must stay open.
struct Bystander {
    client: Conn,
    host: Conn,
    _listener: Host,
}

impl Bystander {
    async fn beside(scene: &Scene) -> Self {
        let service = scene
            .server
            .service(&fresh("bystander"), json!({ "encryptionRequired": false }));
        let (host, client) = (
            Member::new(&scene.server, "other-host"),
            Member::new(&scene.server, "other-client"),
        );
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", host.id)],
            &[&format!("@{service}")],
        );
        scene.server.service_policy(
            "Dial",
            &[&format!("@{}", client.id)],
            &[&format!("@{service}")],
        );
        let mut listener = host
            .connect(&scene.server, Options::GO)
            .await
            .host(&host.session(&service, "Bind"))
            .await
            .unwrap();
        let sdk = client.connect(&scene.server, Options::GO).await;
        let token = client.session(&service, "Dial");
        let (client, host) = tokio::join!(sdk.dial(&token), listener.accept());
        Self {
            client: client.unwrap(),
            host,
            _listener: listener,
        }
    }

    async fn stands(&mut self) {
        self.client.send(b"still here").await;
        assert_eq!(self.host.data().await, b"still here");
    }
}

/// What ends: the client's circuit, the host's binding, or a channel.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Circuit,
    CircuitAndBinding,
    ClientsChannel,
    HostsChannel,
}

/// Runs one cause on a new scene and checks what it ends.
fn ends(of: Ends, cause: impl Fn(&Scene, &Sdk)) {
    ends_on(Scene::new(), of, cause);
}

fn ends_on(scene: Scene, of: Ends, cause: impl Fn(&Scene, &Sdk)) {
    run(async {
        let mut bystander = Bystander::beside(&scene).await;
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        client.send(b"before").await;
        assert_eq!(host.data().await, b"before");
        cause(&scene, &client.sdk);
        match of {
            Ends::ClientsChannel => client.sdk.closed().await,
            _ => {
                let ended = client.ended().await;
                assert!(!ended.text.is_empty(), "{ended:?}");
                if of != Ends::HostsChannel {
                    assert!(ended.structured.unwrap().contains("\"retryHint\":2"));
                }
            }
        }
        match of {
            Ends::HostsChannel => host.sdk.closed().await,
            _ => assert!(!host.ended().await.text.is_empty()),
        }
        if of == Ends::CircuitAndBinding {
            assert_eq!(listener.ended().await.text, "session ended");
            assert!(soon(|| scene
                .server
                .admin
                .list(
                    "/terminators",
                    &format!("service = \"{}\"", scene.service),
                    ""
                )
                .expect(200)
                .total()
                == 0));
        } else if of != Ends::HostsChannel {
            assert!(listener.is_idle() && !listener.sdk.is_closed());
        }
        bystander.stands().await;
        assert_eq!(scene.server.router().circuits().len(), 1);
    });
}

fn delete(scene: &Scene, path: &str) {
    scene.server.admin.delete(path).expect(200);
}

#[test]
fn with_the_policy_to_dial() {
    ends(Ends::Circuit, |scene, _| {
        delete(scene, &format!("/service-policies/{}", scene.dial))
    });
    ends(Ends::Circuit, |scene, _| {
        let none = json!({ "identityRoles": ["#nobody"] });
        scene
            .server
            .admin
            .patch(&format!("/service-policies/{}", scene.dial), none)
            .expect(200);
    });
    ends(Ends::Circuit, |scene, _| {
        scene
            .server
            .admin
            .patch(
                &format!("/service-policies/{}", scene.dial),
                json!({ "type": "Bind" }),
            )
            .expect(200);
    });
}

#[test]
fn with_the_policy_to_bind() {
    ends(Ends::CircuitAndBinding, |scene, _| {
        delete(scene, &format!("/service-policies/{}", scene.bind))
    });
}

#[test]
fn with_a_role() {
    let by_role = |right: &'static str, of: fn(&Scene) -> (&str, &str), end: Ends| {
        ends(end, move |scene, _| {
            let (identity, policy) = of(scene);
            // First the role grants the right in addition, then it alone does, then it is removed.
            let path = format!("/identities/{identity}");
            scene
                .server
                .admin
                .patch(&path, json!({ "roleAttributes": ["staff"] }))
                .expect(200);
            scene
                .server
                .service_policy(right, &["#staff"], &[&format!("@{}", scene.service)]);
            delete(scene, &format!("/service-policies/{policy}"));
            assert_eq!(scene.server.router().circuits().len(), 2, "still allowed");
            scene
                .server
                .admin
                .patch(&path, json!({ "roleAttributes": ["retired"] }))
                .expect(200);
        });
    };
    by_role(
        "Dial",
        |scene| (&scene.client.id, &scene.dial),
        Ends::Circuit,
    );
    by_role(
        "Bind",
        |scene| (&scene.host.id, &scene.bind),
        Ends::CircuitAndBinding,
    );
}

#[test]
fn with_a_session() {
    ends(Ends::Circuit, |scene, _| {
        let session = scene.client.caller.get("/sessions").expect(200).each("id")[0].to_owned();
        scene
            .client
            .caller
            .delete(&format!("/sessions/{session}"))
            .expect(200);
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        let session = scene.host.caller.get("/sessions").expect(200).each("id")[0].to_owned();
        delete(scene, &format!("/sessions/{session}"));
    });
}

#[test]
fn with_an_api_session() {
    ends(Ends::ClientsChannel, |scene, _| {
        drop(
            scene
                .client
                .caller
                .delete("/current-api-session")
                .expect(200),
        )
    });
    ends(Ends::HostsChannel, |scene, _| {
        let of_host = format!("identity = \"{}\"", scene.host.id);
        let session = scene
            .server
            .admin
            .list("/api-sessions", &of_host, "")
            .expect(200)
            .each("id")[0]
            .to_owned();
        delete(scene, &format!("/api-sessions/{session}"));
    });
}

#[test]
fn with_an_identity() {
    ends(Ends::ClientsChannel, |scene, _| {
        delete(scene, &format!("/identities/{}", scene.client.id))
    });
    ends(Ends::HostsChannel, |scene, _| {
        delete(scene, &format!("/identities/{}", scene.host.id))
    });
    ends(Ends::ClientsChannel, |scene, _| {
        scene
            .server
            .admin
            .post(
                &format!("/identities/{}/disable", scene.client.id),
                json!({ "durationMinutes": 0 }),
            )
            .expect(200);
    });
}

#[test]
fn circuits_end_with_the_credential() {
    ends(Ends::ClientsChannel, |scene, _| {
        let of_client = format!("identity = \"{}\"", scene.client.id);
        let credential = scene
            .server
            .admin
            .list("/authenticators", &of_client, "")
            .expect(200)
            .each("id")[0]
            .to_owned();
        delete(scene, &format!("/authenticators/{credential}"));
    });
}

#[test]
fn with_the_service() {
    ends(Ends::CircuitAndBinding, |scene, _| {
        delete(scene, &format!("/services/{}", scene.service))
    });
}

#[test]
fn with_the_way_over_the_router() {
    let scoped = |scene: &Scene| {
        // Other identities keep their access to the router.
        for (path, member) in [
            ("/edge-router-policies", "identityRoles"),
            ("/service-edge-router-policies", "serviceRoles"),
        ] {
            let id = scene.server.admin.get(path).expect(200).each("id")[0].to_owned();
            let all = scene
                .server
                .admin
                .get(if member == "identityRoles" {
                    "/identities"
                } else {
                    "/services"
                })
                .expect(200);
            let others: Vec<_> = all
                .each("id")
                .into_iter()
                .map(|id| format!("@{id}"))
                .collect();
            scene
                .server
                .admin
                .patch(&format!("{path}/{id}"), json!({ member: others }))
                .expect(200);
        }
    };
    let without = |scene: &Scene, path: &str, member: &str, whom: &str| {
        let policy = scene.server.admin.get(path).expect(200);
        let (id, roles) = (
            policy.each("id")[0].to_owned(),
            policy.data()[0][member].clone(),
        );
        let left: Vec<_> = roles
            .as_array()
            .unwrap()
            .iter()
            .filter(|role| *role != &json!(format!("@{whom}")))
            .cloned()
            .collect();
        assert_ne!(left.len(), roles.as_array().unwrap().len());
        scene
            .server
            .admin
            .patch(&format!("{path}/{id}"), json!({ member: left }))
            .expect(200);
    };
    ends(Ends::Circuit, |scene, _| {
        scoped(scene);
        assert_eq!(scene.server.router().circuits().len(), 2);
        without(
            scene,
            "/edge-router-policies",
            "identityRoles",
            &scene.client.id,
        );
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        scoped(scene);
        without(
            scene,
            "/edge-router-policies",
            "identityRoles",
            &scene.host.id,
        );
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        scoped(scene);
        without(
            scene,
            "/service-edge-router-policies",
            "serviceRoles",
            &scene.service,
        );
    });
}

#[test]
fn with_what_an_endpoint_reports() {
    let check = |scene: &Scene| {
        let body = json!({ "name": fresh("domain"), "typeId": "DOMAIN", "domains": ["good.example"], "roleAttributes": ["office"] });
        scene
            .server
            .admin
            .post("/posture-checks", body)
            .expect(201)
            .id()
    };
    let respond = |scene: &Scene, check: &str, domain: &str| {
        let body = json!({ "id": check, "typeId": "DOMAIN", "domain": domain });
        scene
            .client
            .caller
            .post("/posture-response", body)
            .expect(201);
    };
    let demanding = |scene: &Scene| {
        let path = format!("/service-policies/{}", scene.dial);
        scene
            .server
            .admin
            .patch(&path, json!({ "postureCheckRoles": ["#office"] }))
            .expect(200);
    };
    ends(Ends::Circuit, |scene, _| {
        let check = check(scene);
        respond(scene, &check, "good.example");
        demanding(scene);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "the check passes"
        );
        respond(scene, &check, "bad.example");
    });
    ends(Ends::Circuit, |scene, _| {
        check(scene);
        demanding(scene);
    });
}

#[test]
fn with_time_alone_and_no_sweep() {
    // No periodic review runs during the test.
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.sessions.sweep_interval = Span::minutes(60);
    });
    ends_on(Scene::on(server, false), Ends::Circuit, |scene, _| {
        let check = json!({ "name": fresh("code"), "typeId": "MFA", "timeoutSeconds": 6, "roleAttributes": ["coded"] });
        scene
            .server
            .admin
            .post("/posture-checks", check)
            .expect(201);
        scene
            .client
            .caller
            .post("/current-identity/mfa", json!(null))
            .expect(201);
        let codes = verify(&scene.client.caller);
        scene
            .client
            .caller
            .post("/authenticate/mfa", json!({ "code": codes[0] }))
            .expect(200);
        let path = format!("/service-policies/{}", scene.dial);
        scene
            .server
            .admin
            .patch(&path, json!({ "postureCheckRoles": ["#coded"] }))
            .expect(200);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "the code counts for some seconds"
        );
    });
}

#[test]
fn with_a_demanded_second_factor() {
    let policy = |scene: &Scene, is_demanded: bool| {
        let body = json!({
            "name": fresh("policy"),
            "primary": {
                "cert": { "allowed": true, "allowExpiredCerts": false },
                "updb": { "allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 5, "minPasswordLength": 5,
                    "requireMixedCase": false, "requireNumberChar": false, "requireSpecialChar": false },
                "extJwt": { "allowed": false, "allowedSigners": [] },
            },
            "secondary": { "requireTotp": is_demanded },
        });
        let policy = scene
            .server
            .admin
            .post("/auth-policies", body)
            .expect(201)
            .id();
        scene
            .server
            .admin
            .patch(
                &format!("/identities/{}", scene.client.id),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        policy
    };
    ends(Ends::Circuit, |scene, _| drop(policy(scene, true)));
    ends(Ends::Circuit, |scene, _| {
        let policy = policy(scene, false);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "no second factor is demanded"
        );
        scene
            .server
            .admin
            .patch(
                &format!("/auth-policies/{policy}"),
                json!({ "secondary": { "requireTotp": true } }),
            )
            .expect(200);
    });
}

#[test]
fn disabled_router_serves_nobody() {
    let scene = Scene::new();
    let set = |is_disabled: bool| {
        drop(
            scene
                .server
                .admin
                .patch("/edge-routers/built-in", json!({ "disabled": is_disabled }))
                .expect(200),
        )
    };
    run(async {
        let (client, host, _listener) = scene.connected(Options::GO).await;
        set(true);
        client.sdk.closed().await;
        host.sdk.closed().await;
        assert!(
            scene
                .client
                .try_connect(&scene.server, Options::GO)
                .await
                .is_err()
        );
        set(false);
        scene.connected(Options::GO).await;
    });
    assert!(soon(|| scene
        .server
        .admin
        .get("/edge-routers/built-in")
        .expect(200)
        .data()["isOnline"]
        == true));
}

#[test]
fn unrelated_changes_end_no_circuit() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        let admin = &scene.server.admin;
        admin
            .patch(
                &format!("/identities/{}", scene.client.id),
                json!({ "name": fresh("renamed"), "roleAttributes": ["more"] }),
            )
            .expect(200);
        admin
            .patch(
                &format!("/services/{}", scene.service),
                json!({ "name": fresh("renamed"), "roleAttributes": ["more"] }),
            )
            .expect(200);
        let second_policy = scene.server.service_policy("Dial", &["#all"], &["#all"]);
        admin
            .delete(&format!("/service-policies/{}", scene.dial))
            .expect(200);
        let replacement = scene.server.service_policy(
            "Dial",
            &[&format!("@{}", scene.client.id)],
            &[&format!("@{}", scene.service)],
        );
        admin
            .delete(&format!("/service-policies/{second_policy}"))
            .expect(200);
        admin
            .patch(
                &format!("/service-policies/{replacement}"),
                json!({ "semantic": "AllOf" }),
            )
            .expect(200);
        admin
            .post("/posture-checks", json!({ "name": fresh("check"), "typeId": "DOMAIN", "domains": ["x"], "roleAttributes": ["x"] }))
            .expect(201);
        let certificate = format!("/current-identity/authenticators/{}", {
            let own = scene
                .client
                .caller
                .get("/current-identity/authenticators")
                .expect(200);
            own.each("id")[0].to_owned()
        });
        let key = crate::harness::Key::new();
        scene
            .client
            .caller
            .post(
                &format!("{certificate}/extend"),
                json!({ "clientCertCsr": key.request() }),
            )
            .expect(200);
        client.send(b"untouched").await;
        assert_eq!(host.data().await, b"untouched");
        // Reviews run one after the other: when a later one has closed something, all earlier ones
        // are done.
        assert!(listener.is_idle());
        tokio::time::sleep(Duration::from_millis(50)).await;
        host.send(b"both ways").await;
        assert_eq!(client.data().await, b"both ways");
    });
}

#[test]
fn racing_dials_do_not_slip_through() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        tokio::spawn(host.echo());
        for _ in 0..5 {
            let (sdk, token) = scene.dialler(Options::GO).await;
            let policy = scene
                .server
                .admin
                .list("/service-policies", "type = 1", "")
                .expect(200)
                .each("id")
                .first()
                .map(ToString::to_string);
            let policy = policy.unwrap_or_else(|| scene.dial.clone());
            let dialing = {
                let (sdk, token) = (sdk.clone(), token.clone());
                tokio::spawn(async move {
                    let mut open = Vec::new();
                    loop {
                        match sdk.dial(&token).await {
                            Ok(conn) => open.push(conn),
                            Err(_) => return open,
                        }
                    }
                })
            };
            tokio::time::sleep(Duration::from_millis(20)).await;
            scene
                .server
                .admin
                .delete(&format!("/service-policies/{policy}"))
                .expect(200);
            let mut open = tokio::time::timeout(PATIENCE, dialing)
                .await
                .unwrap()
                .unwrap();
            for conn in &mut open {
                while !matches!(conn.next().await, Event::Closed(_) | Event::Lost) {}
            }
            assert!(soon(|| scene.server.router().circuits().is_empty()));
            scene.server.service_policy(
                "Dial",
                &[&format!("@{}", scene.client.id)],
                &[&format!("@{}", scene.service)],
            );
        }
    });
}
