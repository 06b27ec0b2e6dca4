//! API sessions and sessions as they are reported to routers.

use std::{collections::BTreeSet, time::Duration};

use pki::Certificate;
use prost::Message;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value as Json, json};
use wire::{
    control::{content, edge, key},
    frame::{Builder, Frame},
};

use super::mock::{Enrolled, MockRouter, run, server};
use crate::{harness::Key, router::scene::Member};

#[test]
fn full_state_holds_every_session() {
    let server = server();
    let members: Vec<_> = (0..3).map(|_| Member::new(&server, "member")).collect();
    // More than fit into one message.
    let mut tokens: BTreeSet<String> = members
        .iter()
        .map(|member| member.token().to_owned())
        .collect();
    for _ in 0..110 {
        tokens.insert(members[0].caller.log_in_by_certificate().token.unwrap());
    }
    let router = Enrolled::new(&server);
    members
        .iter()
        .for_each(|member| server.allow_router(&member.id, &router.id));
    run(async {
        let mut connected = router.connect(&server).await;
        let sessions = connected.introduce().await;
        let found: BTreeSet<String> = sessions
            .iter()
            .map(|session| session.token.clone())
            .collect();
        assert!(
            tokens.is_subset(&found),
            "{} of {}",
            found.intersection(&tokens).count(),
            tokens.len()
        );
        let of_member = sessions
            .iter()
            .find(|session| session.token == members[1].token())
            .unwrap();
        assert!(
            of_member
                .cert_fingerprints
                .contains(&members[1].fingerprint()),
            "{of_member:?}"
        );
        assert!(sessions.is_sorted_by_key(|session| session.id.clone()));
    });
}

#[test]
fn slow_router_gets_state_whole() {
    let server = server();
    let member = Member::new(&server, "member");
    // The full state has several parts.
    (0..110).for_each(|_| drop(member.caller.log_in_by_certificate()));
    let router = Enrolled::new(&server);
    server.allow_router(&member.id, &router.id);
    run(async {
        let mut connected = router.connect(&server).await;
        let hello = connected.next_of(content::SERVER_HELLO).await;
        // More than the buffers of the connection hold is to be written before the full state.
        let unknown = edge::ValidateSessions {
            session_tokens: (0..20_000)
                .map(|number| format!("{number:0>120}"))
                .collect(),
        };
        for _ in 0..3 {
            connected
                .send(Builder::new(content::VALIDATE_SESSIONS).body(&unknown.encode_to_vec()))
                .await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        connected.answer_hello(&hello, false).await;
        // A router 1.1.15 asks again every 20 seconds, as long as parts arrive.
        let request = edge::RequestResync {
            reason: "timeout, did not receive all updates in time".into(),
        };
        let request = || Builder::new(content::REQUEST_RESYNC).body(&request.encode_to_vec());
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            connected.send(request()).await;
        }
        let first = state_id(&connected.next_of(content::API_SESSION_ADDED).await);
        assert_eq!(
            state_id(&connected.next_of(content::API_SESSION_ADDED).await),
            first,
            "it begins again"
        );
        // One repetition is granted after the end.
        connected.send(request()).await;
        connected.full_state().await;
        connected.send(request()).await;
        assert_no_state_comes(&mut connected).await;
        let token = member.caller.log_in_by_certificate().token.unwrap();
        assert_eq!(connected.gained().await[0].token, token);
    });
}

/// Asserts that a router is not told of API sessions for a while.
async fn assert_no_state_comes(router: &mut MockRouter) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let frames = router.rest().await;
    assert!(
        frames
            .iter()
            .all(|frame| frame.content_type() != content::API_SESSION_ADDED),
        "{frames:?}"
    );
}

/// The id of the full state of a part.
fn state_id(part: &Frame) -> String {
    let state: Json = serde_json::from_slice(part.header(key::SYNC_STATE).unwrap()).unwrap();
    state["id"].as_str().unwrap().to_owned()
}

/// The next change of sessions that a router is told: the type of the message, and the tokens of
/// API sessions or the ids of sessions.
async fn change(router: &mut MockRouter) -> (i32, Vec<String>) {
    loop {
        let frame = router.next().await.expect("the connection stays");
        let texts: Vec<String> = match frame.content_type() {
            content::API_SESSION_ADDED => router
                .take_gained()
                .into_iter()
                .map(|session| session.token)
                .collect(),
            content::API_SESSION_REMOVED => edge::Removed::decode(frame.body()).unwrap().tokens,
            content::SESSION_REMOVED => edge::Removed::decode(frame.body()).unwrap().ids,
            _ => continue,
        };
        if !texts.is_empty() {
            return (frame.content_type(), texts);
        }
    }
}

#[test]
fn session_changes_come_in_order() {
    let server = server();
    let router = Enrolled::new(&server);
    let member = Member::new(&server, "member");
    let services = [(); 2].map(|()| server.service(&crate::harness::fresh("service"), json!({})));
    for service in &services {
        server.allow_service_over(&member.id, service, &router.id);
        server.service_policy(
            "Dial",
            &[&format!("@{}", member.id)],
            &[&format!("@{service}")],
        );
    }
    run(async {
        let mut connected = router.online(&server).await;
        let log_ins: Vec<_> = (0..4)
            .map(|_| member.caller.log_in_by_certificate())
            .collect();
        let tokens: Vec<_> = log_ins
            .iter()
            .map(|log_in| log_in.token.clone().unwrap())
            .collect();
        let mut added = Vec::new();
        while added.len() < tokens.len() {
            let (content_type, texts) = change(&mut connected).await;
            assert_eq!(content_type, content::API_SESSION_ADDED);
            added.extend(texts);
        }
        assert_eq!(added, tokens);
        let session = |service: &String| {
            log_ins[1]
                .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
                .expect(201)
                .id()
        };
        let sessions = services.each_ref().map(session);
        let end =
            |path: &str, id: &str| drop(server.admin.delete(&format!("/{path}/{id}")).expect(200));
        let api_sessions: Vec<_> = log_ins
            .iter()
            .map(|log_in| {
                log_in.get("/current-api-session").expect(200).data()["id"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        // Not in the order in which they were created.
        end("api-sessions", &api_sessions[2]);
        end("sessions", &sessions[1]);
        end("api-sessions", &api_sessions[0]);
        end("sessions", &sessions[0]);
        end("api-sessions", &api_sessions[3]);
        let removed = [
            (content::API_SESSION_REMOVED, &tokens[2]),
            (content::SESSION_REMOVED, &sessions[1]),
            (content::API_SESSION_REMOVED, &tokens[0]),
            (content::SESSION_REMOVED, &sessions[0]),
            (content::API_SESSION_REMOVED, &tokens[3]),
        ];
        for (content_type, text) in removed {
            assert_eq!(
                change(&mut connected).await,
                (content_type, vec![text.clone()])
            );
        }
        server
            .admin
            .delete(&format!("/identities/{}", member.id))
            .expect(200);
        let mut ended = BTreeSet::new();
        while !(ended.contains(&tokens[1]) && ended.contains(member.token())) {
            let (content_type, tokens) = change(&mut connected).await;
            assert_eq!(content_type, content::API_SESSION_REMOVED);
            ended.extend(tokens);
        }
    });
}

#[test]
fn new_certificates_are_reported() {
    let server = server();
    let router = Enrolled::new(&server);
    let name = crate::harness::fresh("user");
    let (id, user) = server.user(&name, json!({}));
    server.allow_router(&id, &router.id);
    run(async {
        let mut connected = router.online(&server).await;
        let issue = || {
            user.post(
                "/current-api-session/certificates",
                json!({ "csr": Key::new().request() }),
            )
            .expect(201)
        };
        let fingerprint = |issued: &crate::harness::Answer| {
            let leaf = CertificateDer::from_pem_slice(
                issued.data()["certificate"].as_str().unwrap().as_bytes(),
            )
            .unwrap();
            Certificate::from_der(&leaf).unwrap().fingerprint()
        };
        // The router learns of a session that was opened by password with its first certificate,
        // and of its end with its last one.
        let [first, second] = [issue(), issue()];
        let gained = connected.gained().await;
        let [session] = &gained[..] else {
            panic!("{gained:?}")
        };
        assert_eq!(Some(&session.token), user.token.as_ref());
        let mut known = session.cert_fingerprints.clone();
        if known.len() == 1 {
            assert_eq!(known, [fingerprint(&first)]);
            known = connected
                .receive::<edge::ApiSessionUpdated>(content::API_SESSION_UPDATED)
                .await
                .api_sessions
                .remove(0)
                .cert_fingerprints;
        }
        assert_eq!(
            BTreeSet::from_iter(known),
            BTreeSet::from([fingerprint(&first), fingerprint(&second)])
        );
        user.delete(&format!("/current-api-session/certificates/{}", first.id()))
            .expect(200);
        let updated: edge::ApiSessionUpdated =
            connected.receive(content::API_SESSION_UPDATED).await;
        assert_eq!(
            (
                &updated.api_sessions[0].token,
                &updated.api_sessions[0].cert_fingerprints
            ),
            (&session.token, &vec![fingerprint(&second)])
        );
        user.delete(&format!(
            "/current-api-session/certificates/{}",
            second.id()
        ))
        .expect(200);
        let removed: edge::Removed = connected.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(removed.tokens, std::slice::from_ref(&session.token));
    });
}

#[test]
fn a_router_asks_for_ended_sessions() {
    let server = server();
    let (router, member) = (Enrolled::new(&server), Member::new(&server, "member"));
    let service = server.service(&crate::harness::fresh("service"), json!({}));
    server.allow_service_over(&member.id, &service, &router.id);
    server.service_policy(
        "Dial",
        &[&format!("@{}", member.id)],
        &[&format!("@{service}")],
    );
    let token = member.session(&service, "Dial");
    run(async {
        let mut connected = router.online(&server).await;
        let request = edge::ValidateSessions {
            session_tokens: vec![token.clone(), "gone".into()],
        };
        connected
            .send(Builder::new(content::VALIDATE_SESSIONS).body(&request.encode_to_vec()))
            .await;
        let removed: edge::Removed = connected.receive(content::SESSION_REMOVED).await;
        assert_eq!(
            (&removed.tokens, &removed.ids),
            (&vec!["gone".to_owned()], &vec!["gone".to_owned()])
        );
        let heartbeat = edge::ApiSessionHeartbeat {
            tokens: vec![member.token().to_owned(), "ended".into()],
        };
        connected
            .send(Builder::new(content::API_SESSION_HEARTBEAT).body(&heartbeat.encode_to_vec()))
            .await;
        let removed: edge::Removed = connected.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(removed.tokens, ["ended"]);
        // A router that missed a part gets the full state again.
        let request = edge::RequestResync {
            reason: "missed".into(),
        };
        connected
            .send(Builder::new(content::REQUEST_RESYNC).body(&request.encode_to_vec()))
            .await;
        assert!(
            connected
                .full_state()
                .await
                .iter()
                .any(|session| session.token == member.token())
        );
    });
}

#[test]
fn repeated_introductions_cause_one_state() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.connect(&server).await;
        let hello = connected.next_of(content::SERVER_HELLO).await;
        connected.answer_hello(&hello, true).await;
        connected.full_state().await;
        for _ in 0..20 {
            connected.answer_hello(&hello, true).await;
        }
        // The first repetition counts as a request for a full state, of which one is granted in ten
        // minutes.
        connected.full_state().await;
        assert_no_state_comes(&mut connected).await;
    });
}
