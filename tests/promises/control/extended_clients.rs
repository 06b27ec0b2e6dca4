//! Channels of clients while their certificate is renewed: libziti takes the new one as soon as it
//! has arrived, and confirms it afterwards.

use pki::Certificate;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::json;
use wire::control::{
    content,
    edge::{self, CreateTerminatorResult},
};

use super::mock::{Enrolled, run};
use crate::{
    harness::{Base, TestServer, fresh},
    router::{scene::Member, sdk::Options},
};

fn fingerprint(pem: &str) -> String {
    let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    Certificate::from_der(&leaf).unwrap().fingerprint()
}

#[test]
fn extended_certificates_open_channels_before_confirmation() {
    let server = TestServer::with_router();
    let (member, other, router) = (
        Member::new(&server, "member"),
        Member::new(&server, "other"),
        Enrolled::new(&server),
    );
    let services = [(); 2].map(|()| server.service(&fresh("service"), json!({})));
    for service in &services {
        server.allow_service_over(&member.id, service, &router.id);
        server.service_policy(
            "Bind",
            &[&format!("@{}", member.id)],
            &[&format!("@{service}")],
        );
    }
    let client = member.caller.at(Base::Client);
    let id = client.get("/current-api-session").expect(200).data()["authenticatorId"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/current-identity/authenticators/{id}/extend");
    run(async {
        let mut connected = router.online(&server).await;
        // With the same key, as libziti does.
        let extended = client
            .post(&path, json!({ "clientCertCsr": member.key.request() }))
            .expect(200);
        let pem = extended.data()["clientCert"].as_str().unwrap();
        let renewed = Member {
            leaf: CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(),
            ..member.clone()
        };
        let (old, new) = (member.fingerprint(), fingerprint(pem));
        assert_ne!(old, new);
        // Routers learn of the new one before a channel can be opened with it.
        let told: edge::ApiSessionUpdated = connected.receive(content::API_SESSION_UPDATED).await;
        let told = told
            .api_sessions
            .iter()
            .find(|session| session.token == member.token())
            .unwrap();
        assert!(
            [&old, &new]
                .into_iter()
                .all(|one| told.cert_fingerprints.contains(one)),
            "{told:?}"
        );
        for of in [&member, &renewed] {
            let channel = of.connect(&server, Options::GO).await;
            assert!(!channel.is_closed());
        }
        for (number, shown) in [&old, &new].into_iter().enumerate() {
            let answer = connected
                .bind(
                    &format!("terminator-{number}"),
                    &member.session(&services[number], "Bind"),
                    shown,
                )
                .await;
            assert_eq!(
                answer.result(),
                CreateTerminatorResult::Success,
                "{answer:?}"
            );
        }
        // A certificate of somebody else is refused, also if he has extended it.
        let own = other.caller.at(Base::Client);
        let id = own.get("/current-api-session").expect(200).data()["authenticatorId"]
            .as_str()
            .unwrap()
            .to_owned();
        let path_of_other = format!("/current-identity/authenticators/{id}/extend");
        let of_other = own
            .post(
                &path_of_other,
                json!({ "clientCertCsr": other.key.request() }),
            )
            .expect(200);
        let of_other = of_other.data()["clientCert"].as_str().unwrap();
        let leaf = CertificateDer::from_pem_slice(of_other.as_bytes()).unwrap();
        let refused = Member {
            leaf,
            key: other.key.clone(),
            ..member.clone()
        }
        .try_connect(&server, Options::GO)
        .await;
        assert!(
            refused
                .is_err_and(|refused| refused.text.contains("does not belong to the API session"))
        );

        client
            .post(&format!("{path}-verify"), json!({ "clientCert": pem }))
            .expect(200);
        renewed.connect(&server, Options::GO).await;
        let mut told: edge::ApiSessionUpdated =
            connected.receive(content::API_SESSION_UPDATED).await;
        while told.api_sessions.iter().all(|session| {
            session.token != member.token() || session.cert_fingerprints.contains(&old)
        }) {
            told = connected.receive(content::API_SESSION_UPDATED).await;
        }
        assert!(
            told.api_sessions
                .iter()
                .any(|session| session.cert_fingerprints.contains(&new)),
            "{told:?}"
        );
        assert!(
            member.try_connect(&server, Options::GO).await.is_err(),
            "the old one is replaced"
        );
    });
}
