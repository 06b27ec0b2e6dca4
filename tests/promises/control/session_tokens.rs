//! The tokens of sessions, and the public keys with which routers verify them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use overkeep::testing::{
    control_channel::message::{
        content,
        model::{ChangeSet, KeyUsage, Model, PublicKey},
    },
    entity::{FilterNames, Session},
    pki::{Certificate, jwt::Verifier},
    query::{Query, Window},
    store::{Candidates, ListPlan, Scope},
};
use prost::Message;
use serde_json::{Value as Json, json};

use super::{
    circuits::Scene,
    mock::{MockRouter, run},
};

/// The public keys that a router receives next.
async fn keys(router: &mut MockRouter) -> Vec<PublicKey> {
    let changes = ChangeSet::decode(router.next_of(content::CHANGE_SET).await.body()).unwrap();
    assert!(changes.is_synthetic && changes.index == 0);
    let key = |model| match model {
        Some(Model::PublicKey(key)) => key,
        other => panic!("{other:?} is no public key"),
    };
    changes.changes.into_iter().map(|event| key(event.model)).collect()
}

#[test]
fn a_router_can_verify_session_tokens() {
    let scene = Scene::new();
    let token = scene.dial_token();
    run(async {
        let mut router = scene.router.connect(&scene.server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        assert!(hello.is_set(overkeep::testing::control_channel::message::key::DATA_MODEL));
        router.answer_hello(&hello, true).await;
        let keys = keys(&mut router).await;
        let header = token.split('.').next().unwrap();
        let header: Json = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        assert_eq!(header["typ"], "JWT");
        let key = keys.iter().find(|key| key.kid == header["kid"].as_str().unwrap()).unwrap();
        assert_eq!(key.usages, [i32::from(KeyUsage::JwtValidation)]);
        let certificate = Certificate::from_der(&key.data).unwrap();
        let claims: Json = Verifier::new(certificate.public_key()).unwrap().verify(&token).unwrap();
        let session = scene.server.admin.get(&format!("/sessions/{}", claims["jti"].as_str().unwrap())).expect(200).data().clone();
        assert_eq!(session["token"], token.as_str());
        let expected = json!({
            "sub": scene.service, "aud": ["openziti"], "jti": session["id"], "z_asid": session["apiSessionId"], "z_iid": scene.client.id,
            "z_t": "s", "z_st": "Dial", "z_leg": true,
        });
        expected.as_object().unwrap().iter().for_each(|(name, value)| assert_eq!(&claims[name], value, "{name}"));
        assert!(claims["exp"].as_i64().unwrap() > claims["iat"].as_i64().unwrap());
        let authorities = keys.iter().filter(|key| key.usages == [i32::from(KeyUsage::ClientX509CertValidation)]).count();
        assert!(authorities >= 2, "a root and an intermediate: {authorities}");
    });
}

#[test]
fn a_token_leads_to_its_session() {
    let scene = Scene::new();
    let (dial, bind) = (scene.dial_token(), scene.host.session(&scene.service, "Bind"));
    let sessions = |filter: &str| scene.server.admin.list("/sessions", filter, "").expect(200);
    assert_eq!(sessions(&format!("token = \"{dial}\"")).each("token"), [dial.as_str()]);
    assert_eq!(sessions(&format!("token in [\"{dial}\", \"{bind}\"]")).total(), 2);
    assert_eq!(sessions(&format!("token = \"{dial}x\"")).total(), 0, "the id alone is not enough");
    assert_eq!(sessions(&format!("token != \"{dial}\"")).total(), 1);
    assert_eq!(sessions("token = \"00000000-0000-0000-0000-000000000000\"").total(), 0);
    let plan = |filter: &str| {
        let query = Query::parse(filter, FilterNames::<Session>::ALL).unwrap();
        let window = Window::new(&query, None, None);
        ListPlan::<Session>::of(query, window, Scope::All).candidates()
    };
    assert_eq!(plan(&format!("token = \"{dial}\"")), Candidates::Id);
    assert_eq!(plan(&format!("token in [\"{dial}\", \"x\"]")), Candidates::Scope, "one of an earlier version");
    assert_eq!(plan(&format!("token != \"{dial}\"")), Candidates::Scope);
}

#[test]
fn a_session_keeps_its_token() {
    let scene = Scene::new();
    assert_eq!(scene.dial_token(), scene.dial_token());
    assert_ne!(scene.dial_token(), scene.host.session(&scene.service, "Bind"));
}
