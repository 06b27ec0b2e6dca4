//! What a session keeps: the certificate of its identity, a second factor, and posture.

use std::{
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use client::{IdentityFile, LogInOptions, Session, SessionError, pending};
use serde_json::json;

use super::{Network, enrolled, written};
use crate::{
    harness::{TestServer, fresh},
    router::scene::run,
};

/// The fingerprint of the certificate in the file of an identity.
fn fingerprint(path: &std::path::Path) -> String {
    let identity = IdentityFile::read(path).unwrap();
    identity
        .certificate()
        .unwrap()
        .leaf()
        .unwrap()
        .fingerprint()
}

#[test]
fn certificates_are_renewed_when_that_is_asked_for() {
    let server = TestServer::start();
    let (id, identity) = enrolled(&server, "alice");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("alice.json");
    written(&identity, &path);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let options = LogInOptions {
        file: Some(path.clone()),
        ask_code: None,
    };
    let log_in = |identity: IdentityFile| {
        let options = options.clone();
        run(async move { Session::log_in_with(&identity, options).await })
    };
    let session = log_in(identity.clone()).unwrap();
    let refresh = || run(async { session.refresh().await.unwrap() });
    let first = fingerprint(&path);
    refresh();
    assert_eq!(fingerprint(&path), first, "nothing is due");
    let authenticators = server
        .admin
        .list("/authenticators", &format!("identity=\"{id}\""), "");
    let authenticator = authenticators.expect(200).each("id")[0].to_owned();
    let ask = |roll: bool| {
        let path = format!("/authenticators/{authenticator}/request-extend");
        let body = json!({ "rollKeys": roll });
        server.admin.post(&path, body).expect(200);
    };
    let key = |path: &std::path::Path| {
        let identity = IdentityFile::read(path).unwrap();
        identity.certificate().unwrap().key().public()
    };
    let first_key = key(&path);
    ask(false);
    refresh();
    let second = fingerprint(&path);
    assert_ne!(second, first);
    assert!(key(&path) == first_key);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!pending(&path).exists());
    // The former certificate does not count any more, the session does, and the new one logs in.
    assert!(run(async { Session::log_in(&identity).await.is_err() }));
    assert!(
        log_in(identity)
            .unwrap()
            .holds(&IdentityFile::read(&path).unwrap())
    );
    refresh();
    assert_eq!(fingerprint(&path), second);
    ask(true);
    refresh();
    assert_ne!(fingerprint(&path), second);
    assert!(key(&path) != first_key);
    log_in(IdentityFile::read(&path).unwrap()).unwrap();
}

/// An identity with a renewed certificate: its file before, its file now, and where that is.
struct Renewed {
    server: TestServer,
    id: String,
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    former: String,
}

impl Renewed {
    fn new() -> Self {
        let server = TestServer::start();
        let (id, identity) = enrolled(&server, "alice");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("alice.json");
        written(&identity, &path);
        let former = std::fs::read_to_string(&path).unwrap();
        let renewed = Self {
            server,
            id,
            _directory: directory,
            path,
            former,
        };
        let session = renewed.log_in(&identity).unwrap();
        renewed.ask();
        run(async { session.refresh().await.unwrap() });
        assert_ne!(
            std::fs::read_to_string(&renewed.path).unwrap(),
            renewed.former
        );
        renewed
    }

    /// Asks for a renewal.
    fn ask(&self) {
        let filter = format!("identity=\"{}\"", self.id);
        let authenticators = self.server.admin.list("/authenticators", &filter, "");
        let authenticator = authenticators.expect(200).each("id")[0].to_owned();
        let path = format!("/authenticators/{authenticator}/request-extend");
        let body = json!({ "rollKeys": true });
        self.server.admin.post(&path, body).expect(200);
    }

    fn log_in(&self, identity: &IdentityFile) -> Result<Session, SessionError> {
        let options = LogInOptions {
            file: Some(self.path.clone()),
            ask_code: None,
        };
        run(async move { Session::log_in_with(identity, options).await })
    }
}

#[test]
fn a_renewal_that_was_cut_off_is_found_at_the_next_log_in() {
    let renewed = Renewed::new();
    let present = std::fs::read_to_string(&renewed.path).unwrap();
    // The program ended after the controller had confirmed, and before the file was renamed.
    std::fs::write(pending(&renewed.path), &present).unwrap();
    std::fs::write(&renewed.path, &renewed.former).unwrap();
    let identity = IdentityFile::read(&renewed.path).unwrap();
    renewed.log_in(&identity).unwrap();
    assert_eq!(std::fs::read_to_string(&renewed.path).unwrap(), present);
    assert!(!pending(&renewed.path).exists());
    // One that was never confirmed, or cannot be read, is thrown away.
    for text in [renewed.former.as_str(), "{ \"ztAPI\": "] {
        std::fs::write(pending(&renewed.path), text).unwrap();
        let identity = IdentityFile::read(&renewed.path).unwrap();
        renewed.log_in(&identity).unwrap();
        assert_eq!(std::fs::read_to_string(&renewed.path).unwrap(), present);
        assert!(!pending(&renewed.path).exists());
    }
}

#[test]
fn a_certificate_that_another_process_renewed_is_taken() {
    let renewed = Renewed::new();
    let identity = IdentityFile::read(&renewed.path).unwrap();
    let [one, other] = [(); 2].map(|()| renewed.log_in(&identity).unwrap());
    renewed.ask();
    run(async { one.refresh().await.unwrap() });
    // The other one renews nothing: it finds the file.
    let text = std::fs::read_to_string(&renewed.path).unwrap();
    run(async { other.refresh().await.unwrap() });
    assert_eq!(std::fs::read_to_string(&renewed.path).unwrap(), text);
    renewed.ask();
    run(async { one.refresh().await.unwrap() });
    let filter = format!("identity=\"{}\"", renewed.id);
    let sessions = renewed.server.admin.list("/api-sessions", &filter, "");
    for id in sessions.expect(200).each("id") {
        let path = format!("/api-sessions/{id}");
        renewed.server.admin.delete(&path).expect(200);
    }
    run(async { other.refresh().await.unwrap() });
    assert!(other.holds(&IdentityFile::read(&renewed.path).unwrap()));
}

#[test]
fn codes_are_asked_for_once_a_log_in() {
    let server = TestServer::start();
    let (id, identity) = enrolled(&server, "alice");
    // The second factor is set up in another session.
    let name = fresh("alice");
    server.give_password(&id, &name);
    let user = server.log_in_again(&name);
    user.post("/current-identity/mfa", json!({})).expect(201);
    let recovery = crate::explain::verify(&user);
    let asked = Arc::new(AtomicUsize::new(0));
    let log_in = |code: Option<&str>| {
        let code = code.map(str::to_owned);
        let (asked, identity) = (Arc::clone(&asked), identity.clone());
        let ask_code = code.map(|code| -> client::AskCode {
            Arc::new(move || {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(code.clone())
            })
        });
        let options = LogInOptions {
            file: None,
            ask_code,
        };
        run(async move { Session::log_in_with(&identity, options).await.err() })
    };
    assert!(matches!(log_in(None), Some(SessionError::SecondFactor(_))));
    assert!(matches!(
        log_in(Some("000000")),
        Some(SessionError::SecondFactor(_))
    ));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(log_in(Some(&recovery[0])).is_none());
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn posture_is_reported_before_a_service_is_used() {
    let network = Network::new(true);
    let admin = &network.server.admin;
    let role = fresh("checked");
    let check = json!({
        "name": fresh("check"), "typeId": "OS", "roleAttributes": [role],
        "operatingSystems": [{ "type": "Linux", "versions": [">=1.0.0"] }],
    });
    let check = admin.post("/posture-checks", check).expect(201).id();
    let filter = "type=1 or type=2";
    for policy in admin
        .list("/service-policies", filter, "")
        .expect(200)
        .each("id")
    {
        let body = json!({ "postureCheckRoles": [format!("#{role}")] });
        admin
            .patch(&format!("/service-policies/{policy}"), body)
            .expect(200);
    }
    run(async {
        let (hosting, service) = network.session(&network.host).await;
        let mut binding = super::bind(&hosting, &service).await.unwrap();
        let (session, dialed) = network.session(&network.dialer).await;
        let connecting = async { session.dial(&dialed, None, None).await.unwrap() };
        let accepting = async { binding.next().await.unwrap().accept().await.unwrap() };
        let (_one, _other) = tokio::join!(connecting, accepting);
    });
    // The checks count: one that this machine cannot pass refuses it.
    let systems = json!([{ "type": "Linux", "versions": [">=99.0.0"] }]);
    let body = json!({ "typeId": "OS", "operatingSystems": systems });
    admin
        .patch(&format!("/posture-checks/{check}"), body)
        .expect(200);
    let refused = run(async {
        let (session, dialed) = network.session(&network.dialer).await;
        session.dial(&dialed, None, None).await.err().unwrap()
    });
    assert!(refused.to_string().contains("posture"), "{refused}");
}
