//! What becomes of tokens when the key that signed them changes.

use super::*;

#[test]
fn new_server_key_lists_invalid_tokens() {
    let server = TestServer::start();
    let device = Device::enrolled(&server);
    let name = fresh("late");
    let id = server.identity(&name, json!({ "enrollment": { "ott": true } }));
    let told = || {
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["enrollment"]["ott"]
            .clone()
    };
    let shown = |device: &Device| device.connect().shown()[0].public_key().clone();
    let (before, old) = (told(), shown(&device));
    assert!(
        verifies(&before, &old)
            && !server
                .tell(Command::ListCertificates)
                .contains(text(&before["id"]))
    );

    let lines = server.tell(Command::RenewKey);
    let new = shown(&device);
    assert_ne!(old, new);
    for said in [lines, server.tell(Command::ListCertificates)] {
        assert!(
            said.contains(text(&before["id"])) && said.contains(&name) && said.contains("/refresh"),
            "{said}"
        );
    }
    assert!(!verifies(&told(), &new));
    let end = server.clock.now().plus(DAY).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{}/refresh", text(&before["id"])),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    assert!(verifies(&told(), &new));
    assert!(
        !server
            .tell(Command::ListCertificates)
            .contains(text(&before["id"]))
    );
    device.connect().log_in();
}

#[test]
fn tokens_outlive_a_renewed_leaf() {
    let server = TestServer::with_manual_clock();
    let id = server.identity(&fresh("late"), json!({ "enrollment": { "ott": true } }));
    let first = kid(&server
        .admin
        .get(&format!("/identities/{id}"))
        .expect(200)
        .data()["enrollment"]["ott"]);
    let (clock, device) = (
        server.clock.clone(),
        Device::new(&server.clock, server.bound()),
    );
    for _ in 0..2 {
        clock.advance(250 * DAY);
        server.run_due_jobs();
    }
    let shown = device.connect().shown()[0].fingerprint();
    assert!(
        shown != first
            && knows(&device, &first)
            && knows(&device, &shown)
            && !knows(&device, "other")
    );

    let directory = server.closed();
    let config = settings(directory.path());
    let running = controller::start(&config, clock).unwrap();
    let device = Device {
        at: running.bound(),
        ..device
    };
    assert!(knows(&device, &first), "also after a restart");
    ask(&socket::beside(&config.data), &Command::RenewKey)
        .unwrap()
        .unwrap();
    assert!(
        !knows(&device, &first) && !knows(&device, &shown),
        "after a new key the previous key ids must be unknown"
    );
    running.stop();
}

#[test]
fn tokens_are_resigned_by_new_keys() {
    jwt::install();
    let directory = TempDir::new().unwrap();
    let store = stores::of(KINDS).start(&directory.path().join("data"));
    let (sealed_keys, address) = (SealedKeys::default(), "controller.test:1280");
    let hosts = AlternativeNames::of_hosts(["controller.test"]);
    let administrator = Administrator {
        username: "admin".into(),
        password: "no hash".into(),
        is_unseen: false,
    };
    let passwords = PasswordRules::of(&Config::default().passwords);
    first_start(
        &store,
        &sealed_keys,
        NewFile {
            hosts,
            administrator: Some(administrator),
            router: false,
            passwords,
        },
    )
    .unwrap();
    let certificates =
        Certificates::open(&store, &sealed_keys, vec![address.parse().unwrap()], None).unwrap();
    let context = ChangeContext {
        plain_key_sets: false,
        keystore: certificates.keystore().clone(),
        address: address.into(),
        identity_enrollment: DAY,
        router_enrollment: DAY,
        members: AmountLimit::of(&Config::default().members),
        client_members: AmountLimit::of_clients(&Config::default().members),
    };
    let changes = Changes::new(store.clone(), context);
    let mut identities = Vec::new();
    let mut noted = |identity: Record<Identity>| {
        identities.push(identity.id);
        Ok(())
    };
    store.read(|tx| tx.each(&mut noted)).unwrap();
    let now = Clock::system().now();
    let wanted = changes
        .sign(
            Enrollment::of_identity(Method::Ott, identities.remove(0)),
            now.plus(DAY),
        )
        .unwrap();
    certificates.renew_key(now).unwrap();
    let stored = changes
        .run_blocking(move |change| enrollment::issue(wanted, Tags::default(), change))
        .unwrap();
    assert!(
        certificates
            .keystore()
            .signer()
            .has_signed(&stored.spec.jwt)
    );
    assert_eq!(certificates.unusable_files(now).unwrap().len(), 0);
}
