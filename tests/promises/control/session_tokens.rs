//! The tokens of sessions, and the public keys with which routers verify them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use model::entity::{FilterNames, Session};
use pki::{KeyKind, PublicKey as Verifying, jwt::Verifier};
use prost::Message;
use query::{Query, Window};
use serde_json::{Value as Json, json};
use store::{Candidates, ListPlan, Scope};
use wire::{
    control::{
        content, edge,
        model::{ChangeSet, KeyUsage, Model, PublicKey},
    },
    frame::Builder,
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, run, soon},
};

/// The public keys that a router receives next.
async fn keys(router: &mut MockRouter) -> Vec<PublicKey> {
    let changes = ChangeSet::decode(router.next_of(content::CHANGE_SET).await.body()).unwrap();
    assert!(changes.is_synthetic && changes.index == 0);
    let key = |model| match model {
        Some(Model::PublicKey(key)) => key,
        other => panic!("{other:?} is no public key"),
    };
    changes
        .changes
        .into_iter()
        .map(|event| key(event.model))
        .collect()
}

#[test]
fn a_router_can_verify_session_tokens() {
    let scene = Scene::new();
    let token = scene.dial_token();
    run(async {
        let mut router = scene.router.connect(&scene.server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        assert!(hello.is_set(wire::control::key::DATA_MODEL));
        router.answer_hello(&hello, true).await;
        let keys = keys(&mut router).await;
        let header = token.split('.').next().unwrap();
        let header: Json =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        assert_eq!(
            (&header["typ"], &header["alg"]),
            (&json!("JWT"), &json!("ES256"))
        );
        let key = keys
            .iter()
            .find(|key| key.kid == header["kid"].as_str().unwrap())
            .unwrap();
        assert_eq!(key.usages, [i32::from(KeyUsage::JwtValidation)]);
        // A PKIX public key.
        assert_eq!(key.format, 1);
        let public = Verifying::from_der(&key.data);
        assert_eq!(public.kind().unwrap(), KeyKind::P256);
        let claims: Json = Verifier::new(&public).unwrap().verify(&token).unwrap();
        let session = scene
            .server
            .admin
            .get(&format!("/sessions/{}", claims["jti"].as_str().unwrap()))
            .expect(200)
            .data()
            .clone();
        assert_eq!(session["token"], token.as_str());
        let expected = json!({
            "sub": scene.service, "aud": ["openziti"], "jti": session["id"], "z_asid": session["apiSessionId"], "z_iid": scene.client.id,
            "z_t": "s", "z_st": "Dial", "z_leg": true,
        });
        expected
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(name, value)| assert_eq!(&claims[name], value, "{name}"));
        assert!(claims["exp"].as_i64().unwrap() > claims["iat"].as_i64().unwrap());
        let authorities = keys
            .iter()
            .filter(|key| key.usages == [i32::from(KeyUsage::ClientX509CertValidation)])
            .count();
        assert!(
            authorities >= 2,
            "a root and an intermediate: {authorities}"
        );
    });
}

fn is_signed(token: &str) -> bool {
    token.starts_with("ey") && token.matches('.').count() == 2
}

#[test]
fn tokens_are_signed_where_needed() {
    let scene = Scene::new();
    let other = Enrolled::new(&scene.server);
    run(async {
        let mut early = scene.router.online(&scene.server).await;
        let token = scene.dial_token();
        assert!(!is_signed(&token) && token.len() > 36, "{token}");
        assert_eq!(scene.dial_token(), token);
        scene.hosted(&mut early, "terminator").await;
        early.circuit(&token, &scene.client.fingerprint()).await;
        // A router 1.1 that is told of the end of a session looks for the token, a later one for
        // the id.
        let id = scene
            .server
            .admin
            .list("/sessions", &format!("token = \"{token}\""), "")
            .expect(200)
            .data()[0]["id"]
            .clone();
        scene
            .server
            .admin
            .delete(&format!("/sessions/{}", id.as_str().unwrap()))
            .expect(200);
        let removed: edge::Removed = early.receive(content::SESSION_REMOVED).await;
        assert_eq!(
            (json!(removed.tokens), json!(removed.ids)),
            (json!([token]), json!([id]))
        );
        let request = edge::ValidateSessions {
            session_tokens: vec![token.clone()],
        };
        early
            .send(Builder::new(content::VALIDATE_SESSIONS).body(&request.encode_to_vec()))
            .await;
        let removed: edge::Removed = early.receive(content::SESSION_REMOVED).await;
        assert_eq!(
            (json!(removed.tokens), json!(removed.ids)),
            (json!([token]), json!([id]))
        );

        // With a later router, which the client may use, tokens are signed; without it those of the
        // host are not.
        let opaque = scene.dial_token();
        assert!(!is_signed(&opaque) && opaque != token);
        let mut later = other.connect(&scene.server).await;
        let hello = later.next_of(content::SERVER_HELLO).await;
        later.answer_hello(&hello, true).await;
        later.full_state().await;
        scene
            .server
            .allow_service_over(&scene.client.id, &scene.service, &other.id);
        let removed: edge::Removed = early.receive(content::SESSION_REMOVED).await;
        assert_eq!(removed.tokens, [opaque], "the SDK opens another one");
        assert!(is_signed(&scene.dial_token()));
        assert!(!is_signed(&scene.host.session(&scene.service, "Bind")));
        // It is known while it is away.
        drop(later);
        assert!(soon(|| other.shown(&scene.server)["isOnline"] == false).await);
        let again = scene.client.caller.log_in_by_certificate();
        let opened = again
            .post("/sessions", json!({ "serviceId": scene.service }))
            .expect(201);
        assert!(is_signed(opened.data()["token"].as_str().unwrap()));
        // The first router is replaced by a later one: the session of the host ends, and another
        // one has a signed token.
        drop(early);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        let bind = scene.host.session(&scene.service, "Bind");
        assert!(!is_signed(&bind));
        let mut upgraded = scene.router.connect(&scene.server).await;
        let hello = upgraded.next_of(content::SERVER_HELLO).await;
        upgraded.answer_hello(&hello, true).await;
        let opened = || {
            scene
                .server
                .admin
                .list("/sessions", &format!("token = \"{bind}\""), "")
                .expect(200)
                .total()
        };
        assert!(soon(|| opened() == 0).await);
        assert!(is_signed(&scene.host.session(&scene.service, "Bind")));
    });
}

#[test]
fn a_token_leads_to_its_session() {
    let scene = Scene::new();
    let (dial, bind) = (
        scene.dial_token(),
        scene.host.session(&scene.service, "Bind"),
    );
    let sessions = |filter: &str| scene.server.admin.list("/sessions", filter, "").expect(200);
    assert_eq!(
        sessions(&format!("token = \"{dial}\"")).each("token"),
        [dial.as_str()]
    );
    assert_eq!(
        sessions(&format!("token in [\"{dial}\", \"{bind}\"]")).total(),
        2
    );
    assert_eq!(
        sessions(&format!("token = \"{dial}x\"")).total(),
        0,
        "the id alone is not enough"
    );
    assert_eq!(sessions(&format!("token != \"{dial}\"")).total(), 1);
    assert_eq!(
        sessions("token = \"00000000-0000-0000-0000-000000000000\"").total(),
        0
    );
    let plan = |filter: &str| {
        let query = Query::parse(filter, FilterNames::<Session>::ALL).unwrap();
        let window = Window::new(&query, None, None);
        ListPlan::<Session>::of(query, window, Scope::All).candidates()
    };
    assert_eq!(plan(&format!("token = \"{dial}\"")), Candidates::Id);
    assert_eq!(
        plan(&format!("token in [\"{dial}\", \"x\"]")),
        Candidates::Scope,
        "one of an earlier version"
    );
    assert_eq!(plan(&format!("token != \"{dial}\"")), Candidates::Scope);
}

#[test]
fn a_session_keeps_its_token() {
    let scene = Scene::new();
    assert_eq!(scene.dial_token(), scene.dial_token());
    assert_ne!(
        scene.dial_token(),
        scene.host.session(&scene.service, "Bind")
    );
}
