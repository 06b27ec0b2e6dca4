//! Certificates from files of the operator.

use super::*;

/// An external authority: a root, and an intermediate that signs.
struct Elsewhere {
    root: CertifiedIssuer<'static, KeyPair>,
    between: CertifiedIssuer<'static, KeyPair>,
}

impl Elsewhere {
    fn new() -> Self {
        let params = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let root =
            CertifiedIssuer::self_signed(params("Elsewhere Root"), KeyPair::generate().unwrap())
                .unwrap();
        let between =
            CertifiedIssuer::signed_by(params("Elsewhere"), KeyPair::generate().unwrap(), &root)
                .unwrap();
        Self { root, between }
    }

    /// Writes a server's chain, with the root at its end, and its key into the two files.
    fn issue(&self, key: &KeyPair, files: &[PathBuf; 2]) {
        self.issue_until(2999, key, files);
    }

    fn issue_until(&self, year: i32, key: &KeyPair, [chain, secret]: &[PathBuf; 2]) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let leaf = params.signed_by(key, &self.between).unwrap();
        fs::write(
            chain,
            [leaf.pem(), self.between.pem(), self.root.pem()].concat(),
        )
        .unwrap();
        fs::write(secret, key.serialize_pem()).unwrap();
    }
}

/// One file for both settings, with words around the blocks.
#[test]
fn certificate_and_key_share_a_file() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key", "both.pem"].map(|name| directory.path().join(name));
    let [chain, secret, both] = &files;
    Elsewhere::new().issue(
        &KeyPair::generate().unwrap(),
        &[chain.clone(), secret.clone()],
    );
    let texts = [chain, secret].map(|path| fs::read_to_string(path).unwrap());
    fs::write(
        both,
        format!("Made by hand.\n{}\nIts key:\n{}", texts[0], texts[1]),
    )
    .unwrap();
    fs::set_permissions(both, fs::Permissions::from_mode(0o600)).unwrap();
    let server = TestServer::with(Clock::system(), |config| {
        (config.tls.certificate, config.tls.key) = (Some(both.clone()), Some(both.clone()));
    });
    let shown = Device::enrolled(&server).connect().shown();
    assert_eq!(shown[0].pem(), Certificate::first(&texts[0]).unwrap().pem());
}

#[test]
fn foreign_certificate_is_replaced_while_serving() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key"].map(|name| directory.path().join(name));
    let (elsewhere, key) = (Elsewhere::new(), KeyPair::generate().unwrap());
    elsewhere.issue(&key, &files);
    // A login here trusts only what /.well-known/est/cacerts lists.
    let server = TestServer::with(Clock::system(), |config| {
        (config.tls.certificate, config.tls.key) = (Some(files[0].clone()), Some(files[1].clone()));
    });
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
    let shown = || device.connect().shown();
    let first = shown();
    assert_eq!(first.len(), 2, "the root is not sent");
    assert!(
        verifies(&told(), first[0].public_key()),
        "tokens are signed with the key that is shown"
    );
    device.connect().log_in();
    let status = server.tell(Command::ListCertificates);
    assert!(
        status.contains("external: ") && status.contains("external issuer: CN=Elsewhere Root"),
        "{status}"
    );

    let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    for bad in [other.serialize_pem(), String::new(), "no key".into()] {
        fs::write(&files[1], bad).unwrap();
        server.run_due_jobs();
        assert_eq!(
            shown(),
            first,
            "a certificate without its key must not be used"
        );
    }
    fs::remove_file(&files[1]).unwrap();
    server.run_due_jobs();
    elsewhere.issue_until(2020, &other, &files);
    server.run_due_jobs();
    assert_eq!(shown(), first, "an expired certificate must not be used");

    let before = kid(&told());
    elsewhere.issue(&key, &files);
    server.run_due_jobs();
    assert_ne!(shown()[0], first[0], "another certificate");
    assert!(knows(&device, &before), "of the same key");

    elsewhere.issue(&other, &files);
    server.run_due_jobs();
    let second = shown();
    assert_ne!(second[0], first[0]);
    assert!(!knows(&device, &before));
    let status = server.tell(Command::ListCertificates);
    assert!(
        status.contains(text(&told()["id"])),
        "after a new key the previous token must be listed as unusable: {status}"
    );
    assert!(server.refused(Command::RenewKey).contains("tls.key"));
    device.connect().log_in();
}

#[test]
fn unusable_certificate_files_are_named() {
    let directory = TempDir::new().unwrap();
    let files = ["chain.pem", "chain.key"].map(|name| directory.path().join(name));
    let mut config = settings(directory.path());
    (config.tls.certificate, config.tls.key) = (Some(files[0].clone()), Some(files[1].clone()));
    let refusal = || {
        controller::start(&config, Clock::system())
            .err()
            .map(|reason| reason.to_string())
            .unwrap_or_default()
    };
    let said = refusal();
    assert!(
        said.contains("tls.certificate") && said.contains("chain.pem") && !said.contains('\n'),
        "{said}"
    );
    let (elsewhere, key) = (Elsewhere::new(), KeyPair::generate().unwrap());
    elsewhere.issue(&key, &files);
    fs::write(&files[1], KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(
        refusal().contains("does not belong to the certificate"),
        "{}",
        refusal()
    );
    // The owner of the host still has access.
    assert!(
        controller::host(&config, &Command::ListAdministrators)
            .unwrap()
            .act(Command::ListAdministrators, &Arc::new(Progress::default()))
            .is_ok()
    );
}
