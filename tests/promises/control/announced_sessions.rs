//! Routers learn only of API sessions that an SDK can show to them, and act only for identities
//! that may use them.

use std::time::Duration;

use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{content, edge},
    frame::{Builder, Frame, content as common},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, bind_request, run, server, soon},
};
use crate::{
    harness::{Base, Caller, Key, TestServer, fresh},
    router::scene::Member,
};

/// What a router was sent up to now.
async fn sent_to(router: &mut MockRouter) -> Vec<Frame> {
    // Routers are told by tasks of their own.
    tokio::time::sleep(Duration::from_millis(300)).await;
    router.rest().await
}

fn mention(frames: &[Frame], text: &str) -> bool {
    frames.iter().any(|frame| {
        frame
            .as_bytes()
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

/// A certificate for the API session of a caller.
fn certify(caller: &Caller) -> String {
    caller
        .post(
            "/current-api-session/certificates",
            json!({ "csr": Key::new().request() }),
        )
        .expect(201)
        .id()
}

/// The tokens of the API sessions that it learns of next.
async fn added(router: &mut MockRouter) -> Vec<String> {
    router
        .gained()
        .await
        .into_iter()
        .map(|session| session.token)
        .collect()
}

async fn removed(router: &mut MockRouter) -> Vec<String> {
    router
        .receive::<edge::Removed>(content::API_SESSION_REMOVED)
        .await
        .tokens
}

fn router_policy(server: &TestServer, identity_roles: &str, router_roles: &str) -> String {
    let roles = json!({ "name": fresh("policy"), "semantic": "AnyOf", "identityRoles": [identity_roles], "edgeRouterRoles": [router_roles] });
    server
        .admin
        .post("/edge-router-policies", roles)
        .expect(201)
        .id()
}

#[test]
fn transit_routers_learn_no_sessions() {
    let server = server();
    router_policy(&server, "#all", "#all");
    let (member, transit) = (Member::new(&server, "member"), Enrolled::transit(&server));
    run(async {
        let mut connected = transit.connect(&server).await;
        connected.hello_unasked().await;
        let request = edge::RequestResync {
            reason: "missed".into(),
        };
        connected
            .send(Builder::new(content::REQUEST_RESYNC).body(&request.encode_to_vec()))
            .await;
        let later = member.caller.log_in_by_certificate();
        let heartbeat = edge::ApiSessionHeartbeat {
            tokens: vec![member.token().to_owned()],
        };
        connected
            .send(Builder::new(content::API_SESSION_HEARTBEAT).body(&heartbeat.encode_to_vec()))
            .await;
        server
            .admin
            .delete(&format!("/identities/{}", member.id))
            .expect(200);
        let frames = sent_to(&mut connected).await;
        for token in [
            member.token(),
            later.token.as_deref().unwrap(),
            server.admin.token.as_deref().unwrap(),
        ] {
            assert!(!mention(&frames, token), "{frames:?}");
        }
        let of_edge_routers = |frame: &&Frame| (20_000..21_000).contains(&frame.content_type());
        assert_eq!(
            frames.iter().filter(of_edge_routers).count(),
            0,
            "{frames:?}"
        );
    });
}

#[test]
fn routers_learn_of_their_users_only() {
    let server = server();
    let [allowed, stranger] = ["allowed", "stranger"].map(|name| Member::new(&server, name));
    let [router, other] = [(); 2].map(|()| Enrolled::new(&server));
    server.allow_router(&allowed.id, &router.id);
    server.allow_router(&stranger.id, &other.id);
    run(async {
        for is_later in [false, true] {
            let mut connected = if is_later {
                router.reconnect(&server).await
            } else {
                router.connect(&server).await
            };
            let hello = connected.next_of(content::SERVER_HELLO).await;
            connected.answer_hello(&hello, is_later).await;
            let tokens: Vec<String> = connected
                .full_state()
                .await
                .into_iter()
                .map(|session| session.token)
                .collect();
            assert!(tokens.contains(&allowed.token().to_owned()), "{tokens:?}");
            let logged_in = stranger.caller.log_in_by_certificate();
            let session = logged_in.get("/current-api-session").expect(200).id();
            let certificate = certify(&logged_in);
            logged_in
                .delete(&format!("/current-api-session/certificates/{certificate}"))
                .expect(200);
            server
                .admin
                .delete(&format!("/api-sessions/{session}"))
                .expect(200);
            let again = allowed.caller.log_in_by_certificate().token.unwrap();
            assert_eq!(added(&mut connected).await, [again]);
            let frames = sent_to(&mut connected).await;
            for token in [
                stranger.token(),
                logged_in.token.as_deref().unwrap(),
                server.admin.token.as_deref().unwrap(),
            ] {
                assert!(
                    !tokens.contains(&token.to_owned()) && !mention(&frames, token),
                    "{frames:?}"
                );
            }
        }
    });
}

#[test]
fn sessions_without_certificate_never_leave() {
    let server = server();
    router_policy(&server, "#all", "#all");
    // With a certificate of its own, and a password.
    let member = Member::new(&server, "member");
    server.give_password(&member.id, &member.name);
    let router = Enrolled::new(&server);
    run(async {
        let by_password = server.log_in_again(&member.name);
        let mut connected = router.connect(&server).await;
        let tokens: Vec<String> = connected
            .introduce()
            .await
            .into_iter()
            .map(|session| session.token)
            .collect();
        assert_eq!(
            tokens,
            [member.token()],
            "the administrator and the member are logged in by password, too"
        );
        let admin = server.anonymous().log_in("admin", &server.password);
        admin.delete("/current-api-session").expect(200);
        let frames = sent_to(&mut connected).await;
        for token in
            [&admin, &by_password, &server.admin].map(|caller| caller.token.as_deref().unwrap())
        {
            assert!(!mention(&frames, token), "{frames:?}");
        }
        // A certificate of the identity is none of the session.
        let certificate = certify(&by_password);
        assert_eq!(
            added(&mut connected).await,
            [by_password.token.clone().unwrap()]
        );
        by_password
            .delete(&format!("/current-api-session/certificates/{certificate}"))
            .expect(200);
        assert_eq!(
            removed(&mut connected).await,
            [by_password.token.clone().unwrap()]
        );
        certify(&server.admin.at(Base::Client));
        assert_eq!(
            added(&mut connected).await,
            [server.admin.token.clone().unwrap()]
        );
    });
}

/// How the right to use a router ends and begins.
#[test]
fn sessions_follow_rights_to_routers() {
    let server = server();
    let (member, router) = (Member::new(&server, "member"), Enrolled::new(&server));
    let password = fresh("by-password");
    let (other, _) = server.user(&password, json!({}));
    let path = |kind: &str, id: &str| format!("/{kind}/{id}");
    run(async {
        let mut connected = router.online(&server).await;
        let token = vec![member.token().to_owned()];
        let policy = router_policy(
            &server,
            &format!("@{}", member.id),
            &format!("@{}", router.id),
        );
        assert_eq!(added(&mut connected).await, token, "a policy is created");
        let change = |roles: Json| {
            server
                .admin
                .patch(&path("edge-router-policies", &policy), roles)
                .expect(200)
        };
        change(json!({ "identityRoles": [format!("@{other}")] }));
        assert_eq!(
            removed(&mut connected).await,
            token,
            "it is for another identity"
        );
        change(json!({ "identityRoles": ["#staff"] }));
        server
            .admin
            .patch(
                &path("identities", &member.id),
                json!({ "roleAttributes": ["staff"] }),
            )
            .expect(200);
        assert_eq!(
            added(&mut connected).await,
            token,
            "the identity gets its role"
        );
        change(json!({ "edgeRouterRoles": ["#near"] }));
        assert_eq!(
            removed(&mut connected).await,
            token,
            "it is for other routers"
        );
        server
            .admin
            .patch(
                &path("edge-routers", &router.id),
                json!({ "roleAttributes": ["near"] }),
            )
            .expect(200);
        assert_eq!(
            added(&mut connected).await,
            token,
            "the router gets its role"
        );
        server
            .admin
            .patch(
                &path("identities", &member.id),
                json!({ "roleAttributes": [] }),
            )
            .expect(200);
        assert_eq!(
            removed(&mut connected).await,
            token,
            "the identity loses its role"
        );
        server
            .admin
            .patch(
                &path("identities", &member.id),
                json!({ "roleAttributes": ["staff"] }),
            )
            .expect(200);
        assert_eq!(added(&mut connected).await, token);
        server
            .admin
            .delete(&path("edge-router-policies", &policy))
            .expect(200);
        assert_eq!(
            removed(&mut connected).await,
            token,
            "the policy is deleted"
        );
        // A session that ends without a right is not mentioned.
        let logged_in = member.caller.log_in_by_certificate();
        logged_in.delete("/current-api-session").expect(200);
        server.allow_router(&member.id, &router.id);
        assert_eq!(added(&mut connected).await, token);
        assert!(!mention(
            &sent_to(&mut connected).await,
            logged_in.token.as_deref().unwrap()
        ));
    });
}

#[test]
fn second_factors_keep_sessions_here() {
    let server = server();
    let (member, router) = (Member::new(&server, "member"), Enrolled::new(&server));
    server.allow_router(&member.id, &router.id);
    let policy = server
        .admin
        .post("/auth-policies", auth_policy(false))
        .expect(201)
        .id();
    run(async {
        let mut connected = router.online(&server).await;
        server
            .admin
            .patch(
                &format!("/identities/{}", member.id),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        let token = vec![member.token().to_owned()];
        server
            .admin
            .put(&format!("/auth-policies/{policy}"), auth_policy(true))
            .expect(200);
        assert_eq!(
            removed(&mut connected).await,
            token,
            "a second factor is outstanding"
        );
        server
            .admin
            .patch(
                &format!("/identities/{}", member.id),
                json!({ "authPolicyId": "default" }),
            )
            .expect(200);
        assert_eq!(added(&mut connected).await, token);
        server
            .admin
            .patch(
                &format!("/identities/{}", member.id),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        assert_eq!(removed(&mut connected).await, token);
        server
            .admin
            .put(&format!("/auth-policies/{policy}"), auth_policy(false))
            .expect(200);
        assert_eq!(added(&mut connected).await, token);
    });
}

fn auth_policy(requires_code: bool) -> Json {
    json!({
        "name": "policy",
        "primary": {
            "cert": { "allowed": true, "allowExpiredCerts": true },
            "updb": { "allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0, "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false, "requireSpecialChar": false },
            "extJwt": { "allowed": false, "allowedSigners": [] },
        },
        "secondary": { "requireTotp": requires_code },
    })
}

/// When an API session was last active, in the mind of the controller.
fn last_activity(server: &TestServer, member: &Member) -> String {
    let listed = server
        .admin
        .list(
            "/api-sessions",
            &format!("identity = \"{}\"", member.id),
            "",
        )
        .expect(200);
    listed.data()[0]["cachedLastActivityAt"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn routers_keep_no_strangers_active() {
    let scene = Scene::on(TestServer::with_manual_clock());
    let (server, clock) = (&scene.server, &scene.server.clock);
    let stranger = Member::new(server, "stranger");
    // It may use the service, and another router.
    let other = Enrolled::new(server);
    server.allow_router(&stranger.id, &other.id);
    server.allow_service_over(&scene.client.id, &scene.service, &other.id);
    for right in ["Dial", "Bind"] {
        server.service_policy(
            right,
            &[&format!("@{}", stranger.id)],
            &[&format!("@{}", scene.service)],
        );
    }
    let [dial, bind] = ["Dial", "Bind"].map(|right| stranger.session(&scene.service, right));
    let id_of = |token: &str| {
        server
            .admin
            .list("/sessions", &format!("token = \"{token}\""), "")
            .expect(200)
            .data()[0]["id"]
            .clone()
    };
    let dial_id = id_of(&dial);
    run(async {
        let mut router = scene.router.online(server).await;
        let [of_stranger, of_client] =
            [&stranger, &scene.client].map(|member| last_activity(server, member));
        clock.advance(Duration::from_secs(60));
        let tokens = vec![
            stranger.token().to_owned(),
            scene.client.token().to_owned(),
            server.admin.token.clone().unwrap(),
        ];
        let heartbeat = edge::ApiSessionHeartbeat { tokens };
        router
            .send(Builder::new(content::API_SESSION_HEARTBEAT).body(&heartbeat.encode_to_vec()))
            .await;
        let removed: edge::Removed = router.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(
            removed.tokens,
            [stranger.token(), server.admin.token.as_deref().unwrap()],
            "to the router they are ended ones"
        );
        assert!(soon(|| last_activity(server, &scene.client) > of_client).await);
        assert_eq!(last_activity(server, &stranger), of_stranger);

        // Their sessions are nothing to the router either.
        let (code, _) = router.refused(&dial, &stranger.fingerprint()).await;
        assert_eq!(code, 5);
        let answer = router
            .bind("terminator", &bind, &stranger.fingerprint())
            .await;
        assert_ne!(answer.result(), edge::CreateTerminatorResult::Success);
        router
            .ask(
                bind_request("again", &bind, &stranger.fingerprint()),
                content::CREATE_TERMINATOR_RESPONSE,
            )
            .await;
        let request = edge::ValidateSessions {
            session_tokens: vec![scene.dial_token(), dial.clone()],
        };
        router
            .send(Builder::new(content::VALIDATE_SESSIONS).body(&request.encode_to_vec()))
            .await;
        let removed: edge::Removed = router.receive(content::SESSION_REMOVED).await;
        assert_eq!(json!(removed.ids), json!([dial_id]));
        assert_eq!(
            last_activity(server, &stranger),
            of_stranger,
            "none of it counts as activity"
        );
        let shown = server
            .admin
            .get(&format!("/identities/{}", stranger.id))
            .expect(200);
        assert_eq!(shown.data()["hasEdgeRouterConnection"], false);

        // It is not told of their end.
        stranger.caller.delete("/current-api-session").expect(200);
        let frames = sent_to(&mut router).await;
        assert!(
            !mention(&frames, stranger.token()) && !mention(&frames, dial_id.as_str().unwrap()),
            "{frames:?}"
        );
        router
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
    });
}

/// A router 1.1.15 forgets what it is told within a second after an empty full state, or what is
/// older than the newest API session of one.
#[test]
fn sessions_come_with_another_state() {
    let server = server();
    let (member, router) = (Member::new(&server, "member"), Enrolled::new(&server));
    run(async {
        let mut connected = router.online(&server).await;
        server.allow_router(&member.id, &router.id);
        let tokens: Vec<String> = connected
            .full_state()
            .await
            .into_iter()
            .map(|session| session.token)
            .collect();
        assert_eq!(
            tokens,
            [member.token()],
            "a router may forget what it is told after a full state, but not what is in one"
        );
        // A newer one stays known.
        let (_newer, router) = (
            member.caller.log_in_by_certificate(),
            Enrolled::new(&server),
        );
        server.allow_router(&member.id, &router.id);
        let mut connected = router.online(&server).await;
        let newest = member.caller.log_in_by_certificate().token.unwrap();
        assert_eq!(added(&mut connected).await, [newest]);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let frames = connected.rest().await;
        assert!(
            frames
                .iter()
                .all(|frame| frame.content_type() != content::API_SESSION_ADDED),
            "{frames:?}"
        );
    });
}

#[test]
fn tunnelers_are_known_to_themselves() {
    let server = server();
    router_policy(&server, "#all", "#all");
    let [router, other] = [(); 2].map(|()| Enrolled::new(&server));
    server
        .admin
        .patch(
            &format!("/edge-routers/{}", router.id),
            json!({ "isTunnelerEnabled": true }),
        )
        .expect(200);
    run(async {
        let [mut own, mut another] = [router.online(&server).await, other.online(&server).await];
        let asked = wire::control::tunnel::CreateApiSession::default();
        let answer = own
            .ask(
                Builder::new(content::TUNNEL_API_SESSION).body(&asked.encode_to_vec()),
                content::TUNNEL_API_SESSION_RESPONSE,
            )
            .await;
        let opened =
            wire::control::tunnel::CreateApiSessionResponse::decode(answer.body()).unwrap();
        assert!(!mention(&sent_to(&mut another).await, &opened.token));
        drop(own);
        let mut own = router.reconnect(&server).await;
        assert!(
            own.introduce()
                .await
                .iter()
                .any(|session| session.token == opened.token)
        );
        server
            .admin
            .delete(&format!("/api-sessions/{}", opened.session_id))
            .expect(200);
        assert_eq!(removed(&mut own).await, [opened.token.as_str()]);
        assert!(!mention(&sent_to(&mut another).await, &opened.token));
    });
}
