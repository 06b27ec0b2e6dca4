//! Certificates that the controller renews, and holders that are asked to renew theirs.

use super::*;

#[test]
fn eleven_years_without_a_restart() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.sessions.timeout = Span::minutes(90 * 24 * 60)
    });
    // Alice's client renews its certificate as it should; the sensor's never does.
    let (mut alice, sensor) = (Device::enrolled(&server), Device::enrolled(&server));
    let mut open = alice.connect();
    let token = text(&open.log_in()["token"]).to_owned();
    let (mut leaves, mut keys, mut intermediates, mut trusted) = (
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
        Vec::new(),
    );
    for step in 0..101 {
        server.clock.advance(40 * DAY);
        server.run_due_jobs();
        open.ask("GET", "/edge/client/v1/current-api-session", &token, None);
        open = alice.connect();
        let [leaf, intermediate] = open.shown().try_into().unwrap();
        leaves.insert(leaf.fingerprint());
        keys.insert(leaf.public_key().der().to_vec());
        intermediates.insert(intermediate.fingerprint());
        alice.authorities = listed(&open.ask("GET", "/.well-known/est/cacerts", "", None));
        trusted.push(alice.authorities.len());
        trusted.dedup();
        let session = open.log_in();
        let (chain, _) = alice.own.as_ref().unwrap();
        let own = Certificate::first(chain).unwrap();
        if server.clock.now().seconds() > own.not_after() - (own.not_after() - own.not_before()) / 3
        {
            alice.own = Some(extended(&mut open, &session));
            alice.connect().log_in();
        }
        if step % 10 == 0 && trusted != [2, 3, 2] {
            sensor.connect().log_in();
        }
    }
    let refused =
        sensor
            .connect()
            .answer("POST", "/edge/client/v1/authenticate?method=cert", "", None);
    assert_eq!(
        refused.0, 401,
        "certificates of the old intermediate must end with it"
    );
    assert!(
        leaves.len() >= 14,
        "expected a new certificate every eight or nine months: {}",
        leaves.len()
    );
    assert_eq!(
        (keys.len(), intermediates.len()),
        (1, 2),
        "expected one key all the time, and a new intermediate after 6.7 years"
    );
    assert_eq!(
        trusted,
        [2, 3, 2],
        "the old intermediate must be trusted beside the new one until it ends"
    );
}

/// Renews a device's certificate before the current one ends.
fn extended(open: &mut TlsConnection, session: &Json) -> (String, Arc<Key>) {
    let (key, token) = (Arc::new(Key::new()), text(&session["token"]));
    let path = format!(
        "/edge/client/v1/current-identity/authenticators/{}/extend",
        text(&session["authenticatorId"])
    );
    let answer = open.data(
        "POST",
        &path,
        token,
        Some(json!({ "clientCertCsr": key.request() })),
    );
    let chain = text(&answer["clientCert"]).to_owned();
    open.ask(
        "POST",
        &format!("{path}-verify"),
        token,
        Some(json!({ "clientCert": chain })),
    );
    (chain, key)
}

#[test]
fn holders_are_asked_to_renew() {
    let server = TestServer::start();
    let (mut alice, bob) = (Device::enrolled(&server), Device::enrolled(&server));
    let wishes = |session: &Json| {
        (
            session["isCertExtendRequested"].clone(),
            session["isCertKeyRollRequested"].clone(),
        )
    };
    let (none, both) = ((json!(false), json!(false)), (json!(true), json!(true)));
    let mut open = alice.connect();
    let session = open.log_in();
    let (token, id) = (
        text(&session["token"]).to_owned(),
        text(&session["authenticatorId"]).to_owned(),
    );
    assert_eq!(wishes(&session), none);
    let shown = |id: &str| {
        server
            .admin
            .get(&format!("/authenticators/{id}"))
            .expect(200)
            .data()
            .clone()
    };
    assert_eq!(
        (
            &shown(&id)["isExtendRequested"],
            &shown(&id)["isKeyRollRequested"]
        ),
        (&json!(false), &json!(false))
    );
    assert!(shown(&id).get("extendRequestedAt").is_none());

    let ask = format!("/authenticators/{id}/request-extend");
    server
        .admin
        .post(&ask, json!({ "rollKeys": true }))
        .expect(200);
    assert_eq!(
        (
            &shown(&id)["isExtendRequested"],
            &shown(&id)["isKeyRollRequested"]
        ),
        (&json!(true), &json!(true))
    );
    assert!(shown(&id)["extendRequestedAt"].is_string());
    // The open session and a new one say so; the session of another device does not.
    let current = open.data("GET", "/edge/client/v1/current-api-session", &token, None);
    assert_eq!(wishes(&current), both);
    assert_eq!(wishes(&alice.connect().log_in()), both);
    assert_eq!(wishes(&bob.connect().log_in()), none);
    let listed = server
        .admin
        .get(&format!("/api-sessions/{}", text(&session["id"])))
        .expect(200);
    assert_eq!(wishes(listed.data()), both);

    let (identity, service) = (
        text(&session["identityId"]),
        server.service("web", json!({})),
    );
    let explained = || {
        let why = server
            .admin
            .get(&format!(
                "/overkeep/v1/explain?identity={identity}&service={service}&type=Dial"
            ))
            .expect(200);
        why.data()["authentication"]["credentials"][0]["isExtendRequested"].clone()
    };
    assert_eq!(explained(), true);

    alice.own = Some(extended(&mut open, &session));
    assert_eq!(explained(), Json::Null);
    assert_eq!(wishes(&alice.connect().log_in()), none);
    assert_eq!(shown(&id)["isExtendRequested"], json!(false));

    // One identity, then everybody.
    let all = "/overkeep/v1/certificates/request-extend";
    let of_alice = server
        .admin
        .post(all, json!({ "identityId": identity }))
        .expect(200);
    assert_eq!(of_alice.data()["certificates"], 1);
    assert_eq!(
        wishes(&alice.connect().log_in()),
        (json!(true), json!(false))
    );
    assert_eq!(wishes(&bob.connect().log_in()), none);
    assert_eq!(
        server.admin.post(all, json!({})).expect(200).data()["certificates"],
        2
    );
    assert_eq!(wishes(&bob.connect().log_in()), (json!(true), json!(false)));
    server
        .admin
        .post(all, json!({ "identityId": "nobody" }))
        .expect(404);
    let password = server
        .admin
        .get("/authenticators?filter=method%3D%22updb%22")
        .expect(200)
        .data()[0]["id"]
        .clone();
    server
        .admin
        .post(
            &format!("/authenticators/{}/request-extend", text(&password)),
            json!({}),
        )
        .expect(409);
    server
        .admin
        .post("/authenticators/nothing/request-extend", json!({}))
        .expect(404);
}

fn adoption(material: &Material) -> Command {
    let (certificate, key) = (
        material.intermediate.certificate.clone(),
        material.intermediate.key.clone(),
    );
    Command::AdoptAuthority {
        certificate,
        key,
        bundle: material.root.certificate.clone(),
    }
}

#[test]
fn adopted_authorities_issue_until_their_successor() {
    let server = TestServer::start();
    let made = || {
        Material::generate(
            &AlternativeNames::of_hosts(["old.test"]),
            server.clock.now().seconds(),
        )
        .unwrap()
    };
    let (other, stranger) = (made(), made());
    let said = server.tell(adoption(&other));
    assert!(said.contains("signs from now on"), "{said}");
    let device = Device::enrolled(&server);
    let signer = Certificate::only(&other.intermediate.certificate).unwrap();
    let chain = Certificate::bundle(&device.own.as_ref().unwrap().0).unwrap();
    assert!(chain[0].is_signed_by(&signer) && device.connect().shown()[0].is_signed_by(&signer));
    device.connect().log_in();

    assert!(server.refused(adoption(&stranger)).contains("do not trust"));
    let wrong = Command::AdoptAuthority {
        certificate: stranger.intermediate.certificate.clone(),
        key: other.intermediate.key.clone(),
        bundle: stranger.root.certificate.clone(),
    };
    assert!(
        server
            .refused(wrong)
            .contains("signing key: the key does not belong")
    );
    let lost = Command::AdoptAuthority {
        certificate: other.intermediate.certificate.clone(),
        key: other.intermediate.key.clone(),
        bundle: stranger.root.certificate.clone(),
    };
    assert!(server.refused(lost).contains("root bundle: "));
    device.connect().log_in();

    let issuer = Issuer::from_ca_cert_pem(
        &other.root.certificate,
        KeyPair::from_pem(&other.root.key).unwrap(),
    )
    .unwrap();
    let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params
        .distinguished_name
        .push(DnType::CommonName, "successor");
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let next = Command::AdoptAuthority {
        certificate,
        key: key.serialize_pem().into(),
        bundle: other.root.certificate.clone(),
    };
    assert!(server.tell(next).contains("successor"));
    assert!(!device.connect().shown()[0].is_signed_by(&signer));
    device.connect().log_in();
    Device::enrolled(&server).connect().log_in();
    let server = server.restarted(|_| {});
    let device = Device {
        at: server.bound(),
        ..device
    };
    device.connect().log_in();
    assert_eq!(server.tell(Command::Check), "nothing is wrong");
}
