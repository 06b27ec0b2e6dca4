//! Certificates that a router gets over its connection, before the present ones end.

use pki::Certificate;
use prost::Message;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use wire::{
    control::{content, edge},
    frame::Builder,
};

use super::mock::{Enrolled, MockRouter, run, server, soon};
use crate::harness::TestServer;

/// Asks for certificates of the same key.
async fn renewed(connected: &mut MockRouter, router: &Enrolled) -> (Enrolled, String) {
    let asked = edge::ExtendEnrollment {
        client_cert_csr: router.key.request_as(&router.id),
        server_cert_csr: router.key.request_as(&router.id),
        require_verification: true,
    };
    connected
        .send(Builder::new(content::EXTEND_ENROLLMENT).body(&asked.encode_to_vec()))
        .await;
    let issued: edge::EnrollmentCertificates =
        connected.receive(content::ENROLLMENT_CERTIFICATES).await;
    assert!(
        issued.server_cert_pem.contains("CERTIFICATE")
            && issued.ca_certs_pem.contains("CERTIFICATE")
    );
    let leaf = CertificateDer::from_pem_slice(issued.client_cert_pem.as_bytes()).unwrap();
    (
        Enrolled {
            id: router.id.clone(),
            leaf,
            key: router.key.clone(),
        },
        issued.client_cert_pem,
    )
}

/// Confirms a certificate. Returns the text of the answer, which is empty if it was accepted.
async fn confirm(connected: &mut MockRouter, pem: &str) -> String {
    let shown = edge::ExtendEnrollmentVerify {
        client_cert_pem: pem.into(),
    };
    let answer = connected
        .ask(
            Builder::new(content::EXTEND_ENROLLMENT_VERIFY).body(&shown.encode_to_vec()),
            content::ERROR,
        )
        .await;
    edge::Refusal::decode(answer.body()).unwrap().message
}

fn is_current(server: &TestServer, router: &Enrolled) -> bool {
    router.shown(server)["fingerprint"]
        == Certificate::from_der(&router.leaf)
            .unwrap()
            .fingerprint()
            .as_str()
}

#[test]
fn a_connected_router_renews_its_certificates() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        let (newer, pem) = renewed(&mut connected, &router).await;
        assert!(
            is_current(&server, &router) && !is_current(&server, &newer),
            "before it is confirmed"
        );
        let other = Enrolled::new(&server);
        let stranger = Certificate::from_der(&other.leaf).unwrap().pem();
        assert!(!confirm(&mut connected, &stranger).await.is_empty());
        assert_eq!(confirm(&mut connected, &pem).await, "");
        assert!(is_current(&server, &newer));
        // The connection stays. The older certificate counts until the newer one was used.
        assert_eq!(
            confirm(&mut connected, &pem).await,
            "",
            "a repeated message"
        );
        drop(connected);
        let connected = newer.reconnect(&server).await;
        assert!(soon(|| newer.shown(&server)["unverifiedFingerprint"].is_null()).await);
        drop(connected);
        let refusal = router
            .try_connect(&server, router.hello(Some("1")))
            .await
            .err()
            .expect("a refusal");
        assert!(
            refusal.contains("not the one that the router has now"),
            "{refusal}"
        );
    });
}

#[test]
fn a_lost_confirmation_locks_nobody_out() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        let (newer, pem) = renewed(&mut connected, &router).await;
        assert_eq!(confirm(&mut connected, &pem).await, "");
        drop(connected);
        // The answer did not reach the router, which goes on with the certificate that it has.
        let connected = router.reconnect(&server).await;
        assert!(soon(|| is_current(&server, &router)).await && !is_current(&server, &newer));
        assert!(soon(|| router.shown(&server)["unverifiedFingerprint"].is_null()).await);
        drop(connected);
    });
}

#[test]
fn requests_of_others_are_refused() {
    let server = server();
    let (router, other) = (Enrolled::new(&server), Enrolled::new(&server));
    run(async {
        let mut connected = router.online(&server).await;
        let asked = edge::ExtendEnrollment {
            client_cert_csr: router.key.request_as(&other.id),
            server_cert_csr: router.key.request(),
            require_verification: false,
        };
        connected
            .send(Builder::new(content::EXTEND_ENROLLMENT).body(&asked.encode_to_vec()))
            .await;
        let (newer, _) = renewed(&mut connected, &router).await;
        assert!(
            is_current(&server, &router)
                && !is_current(&server, &newer)
                && is_current(&server, &other)
        );
    });
}
