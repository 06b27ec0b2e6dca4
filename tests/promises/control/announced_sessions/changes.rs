//! Sessions that come and go with rights and states.

use super::*;

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
