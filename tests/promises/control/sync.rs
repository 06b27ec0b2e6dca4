//! API sessions and sessions as they are reported to routers.

use std::collections::BTreeSet;

use overkeep::testing::{
    control_channel::message::{content, edge},
    frame::Builder,
    pki::Certificate,
};
use prost::Message;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::json;

use super::mock::{Enrolled, run, server};
use crate::{harness::Key, router::scene::Member};

#[test]
fn full_state_holds_every_session() {
    let server = server();
    let members: Vec<_> = (0..3).map(|_| Member::new(&server, "member")).collect();
    // More than fit into one message.
    let mut tokens: BTreeSet<String> = members.iter().map(|member| member.token().to_owned()).collect();
    for _ in 0..110 {
        tokens.insert(members[0].caller.log_in_by_certificate().token.unwrap());
    }
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.connect(&server).await;
        let sessions = connected.introduce().await;
        let found: BTreeSet<String> = sessions.iter().map(|session| session.token.clone()).collect();
        assert!(tokens.is_subset(&found), "{} of {}", found.intersection(&tokens).count(), tokens.len());
        let of_member = sessions.iter().find(|session| session.token == members[1].token()).unwrap();
        assert!(of_member.cert_fingerprints.contains(&members[1].fingerprint()), "{of_member:?}");
        assert!(sessions.is_sorted_by_key(|session| session.id.clone()));
    });
}

#[test]
fn session_changes_come_in_order() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        let member = Member::new(&server, "member");
        let added = loop {
            let added: edge::ApiSessionAdded = connected.receive(content::API_SESSION_ADDED).await;
            assert!(!added.is_full_state);
            if let Some(session) = added.api_sessions.into_iter().find(|session| session.token == member.token()) {
                break session;
            }
        };
        assert!(added.cert_fingerprints.contains(&member.fingerprint()));
        let service = server.service(&crate::harness::fresh("service"), json!({}));
        server.allow_service_over(&member.id, &service, &router.id);
        server.service_policy("Dial", &[&format!("@{}", member.id)], &[&format!("@{service}")]);
        let token = member.session(&service, "Dial");
        let id =
            server.admin.get(&format!("/sessions?filter=token%3D%22{token}%22")).expect(200).data()[0]["id"].as_str().unwrap().to_owned();
        server.admin.delete(&format!("/sessions/{id}")).expect(200);
        let removed: edge::Removed = connected.receive(content::SESSION_REMOVED).await;
        assert!(removed.ids.contains(&id), "{removed:?}");
        server.admin.delete(&format!("/identities/{}", member.id)).expect(200);
        let removed: edge::Removed = connected.receive(content::API_SESSION_REMOVED).await;
        assert!(removed.tokens.contains(&member.token().to_owned()), "{removed:?}");
    });
}

#[test]
fn new_certificates_are_reported() {
    let server = server();
    let router = Enrolled::new(&server);
    let name = crate::harness::fresh("user");
    let (_, user) = server.user(&name, json!({}));
    run(async {
        let mut connected = router.online(&server).await;
        let key = Key::new();
        let issued = user.post("/current-api-session/certificates", json!({ "csr": key.request() })).expect(201);
        let updated: edge::ApiSessionUpdated = connected.receive(content::API_SESSION_UPDATED).await;
        let [session] = &updated.api_sessions[..] else { panic!("{updated:?}") };
        assert_eq!(Some(&session.token), user.token.as_ref());
        let pem = issued.data()["certificate"].as_str().unwrap();
        let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let fingerprint = Certificate::from_der(&leaf).unwrap().fingerprint();
        assert_eq!(session.cert_fingerprints, [fingerprint]);
        user.delete(&format!("/current-api-session/certificates/{}", issued.id())).expect(200);
        let updated: edge::ApiSessionUpdated = connected.receive(content::API_SESSION_UPDATED).await;
        assert_eq!((&updated.api_sessions[0].token, updated.api_sessions[0].cert_fingerprints.len()), (&session.token, 0));
    });
}

#[test]
fn a_router_asks_for_ended_sessions() {
    let server = server();
    let (router, member) = (Enrolled::new(&server), Member::new(&server, "member"));
    let service = server.service(&crate::harness::fresh("service"), json!({}));
    server.allow_service_over(&member.id, &service, &router.id);
    server.service_policy("Dial", &[&format!("@{}", member.id)], &[&format!("@{service}")]);
    let token = member.session(&service, "Dial");
    run(async {
        let mut connected = router.online(&server).await;
        let request = edge::ValidateSessions { session_tokens: vec![token.clone(), "gone".into()] };
        connected.send(Builder::new(content::VALIDATE_SESSIONS).body(&request.encode_to_vec())).await;
        let removed: edge::Removed = connected.receive(content::SESSION_REMOVED).await;
        assert_eq!((&removed.tokens, &removed.ids), (&vec!["gone".to_owned()], &vec!["gone".to_owned()]));
        let heartbeat = edge::ApiSessionHeartbeat { tokens: vec![member.token().to_owned(), "ended".into()] };
        connected.send(Builder::new(content::API_SESSION_HEARTBEAT).body(&heartbeat.encode_to_vec())).await;
        let removed: edge::Removed = connected.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(removed.tokens, ["ended"]);
        // A router that missed a part gets the full state again.
        let request = edge::RequestResync { reason: "missed".into() };
        connected.send(Builder::new(content::REQUEST_RESYNC).body(&request.encode_to_vec())).await;
        assert!(connected.full_state().await.iter().any(|session| session.token == member.token()));
    });
}
