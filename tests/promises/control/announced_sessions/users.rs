//! Which sessions a router learns of.

use super::*;

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
