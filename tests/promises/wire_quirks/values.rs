//! Values that clients send and that mean something else elsewhere.

use super::*;

#[test]
fn blank_names_are_names() {
    let name = " ".repeat(fresh("").len());
    let body = json!({ "name": name, "encryptionRequired": true });
    let id = admin().post("/services", body.clone()).expect(201).id();
    admin()
        .post("/services", body)
        .refused(400, "COULD_NOT_VALIDATE", "name");
    let found = admin()
        .list("/services", &format!("name = \"{name}\""), "")
        .expect(200);
    assert_eq!(found.each("id"), [id.as_str()]);
    admin().delete(&format!("/services/{id}")).expect(200);
}

#[test]
fn blank_patch_values_count() {
    let server = shared();
    let identity = server.identity(
        &fresh("host"),
        json!({ "defaultHostingPrecedence": "failed" }),
    );
    let path = format!("/identities/{identity}");
    admin()
        .patch(&path, json!({ "defaultHostingPrecedence": "" }))
        .expect(200);
    assert_eq!(member(&path, "defaultHostingPrecedence"), "default");

    let (service, router) = (
        server.service(&fresh("service"), json!({})),
        admin()
            .post("/edge-routers", json!({ "name": fresh("router") }))
            .expect(201)
            .id(),
    );
    let body = json!({ "service": service, "router": router, "binding": "b", "address": "tcp:a:1", "precedence": "required" });
    let path = format!(
        "/terminators/{}",
        admin().post("/terminators", body).expect(201).id()
    );
    admin()
        .patch(&path, json!({ "precedence": "" }))
        .expect(200);
    assert_eq!(member(&path, "precedence"), "default");

    // A required member cannot be blank either.
    let path = format!(
        "/service-policies/{}",
        server.service_policy("Dial", &[], &[])
    );
    for name in ["semantic", "type"] {
        let before = member(&path, name);
        admin()
            .patch(&path, json!({ name: "" }))
            .refused(400, "COULD_NOT_VALIDATE", name);
        assert_eq!(member(&path, name), before);
    }
}

#[test]
fn unchanged_patch_moves_updated_at() {
    let server = shared();
    let service = server.service(&fresh("service"), json!({}));
    let paths = [
        (
            format!(
                "/identities/{}",
                server.identity(&fresh("somebody"), json!({}))
            ),
            json!({ "type": "User" }),
        ),
        (
            format!("/services/{service}"),
            json!({ "encryptionRequired": false }),
        ),
    ];
    for (path, patch) in paths {
        let before = admin().get(&path).expect(200);
        std::thread::sleep(std::time::Duration::from_millis(5));
        admin().patch(&path, patch).expect(200);
        let after = admin().get(&path).expect(200);
        assert_ne!(before.data()["updatedAt"], after.data()["updatedAt"]);
        for name in ["type", "encryptionRequired"] {
            assert_eq!(before.data()[name], after.data()[name], "{path}");
        }
    }
}

#[test]
fn maps_of_nulls_change_nothing() {
    let server = shared();
    let service = server.service(&fresh("service"), json!({}));
    let costs = json!({ "serviceHostingCosts": { &service: 7 }, "serviceHostingPrecedences": { &service: "failed" } });
    let path = format!(
        "/identities/{}",
        server.identity(&fresh("host"), costs.clone())
    );
    for name in ["serviceHostingCosts", "serviceHostingPrecedences"] {
        admin()
            .patch(&path, json!({ name: { &service: null } }))
            .expect(200);
        assert_eq!(member(&path, name), costs[name]);
    }
    let name = fresh("tagged");
    server.user(&name, json!({}));
    let path = format!(
        "/authenticators/{}",
        admin()
            .list("/authenticators", &format!("updbUsername = \"{name}\""), "")
            .expect(200)
            .each("id")[0]
    );
    admin()
        .patch(&path, json!({ "tags": { "shift": "day" } }))
        .expect(200);
    for nothing in [json!({}), json!({ "shift": null })] {
        admin().patch(&path, json!({ "tags": nothing })).expect(200);
        assert_eq!(member(&path, "tags"), json!({ "shift": "day" }));
    }
}

#[test]
fn blank_name_format_defaults_once() {
    let id = shared().add_ca(&Authority::new(&fresh("authority")));
    let path = format!("/cas/{id}");
    admin()
        .patch(&path, json!({ "identityNameFormat": "[caId]" }))
        .expect(200);
    for blank in ["", "  "] {
        admin()
            .patch(&path, json!({ "identityNameFormat": blank }))
            .expect(200);
        assert_eq!(member(&path, "identityNameFormat"), "[caId]");
    }
    admin().delete(&path).expect(200);
}

#[test]
fn posture_lists_are_sets() {
    let made = |body: Json| {
        let id = admin().post("/posture-checks", body).expect(201).id();
        admin()
            .get(&format!("/posture-checks/{id}"))
            .expect(200)
            .data()
            .clone()
    };
    let system = |kind: &str, versions: &[&str]| json!({ "type": kind, "versions": versions });
    let systems = [
        system("Linux", &["2.0.0", "1.0.0", "2.0.0"]),
        system("Android", &["9.0.0"]),
    ];
    let os = made(json!({ "name": fresh("os"), "typeId": "OS", "operatingSystems": systems }));
    let shown = os["operatingSystems"].as_array().unwrap();
    assert_eq!(shown.len(), 2);
    assert!(
        shown.contains(&system("Linux", &["1.0.0", "2.0.0"]))
            && shown.contains(&system("Android", &["9.0.0"]))
    );

    let process = json!({ "osType": "Linux", "path": "/a", "hashes": ["EF", "ab", "AB"] });
    assert_eq!(
        made(json!({ "name": fresh("process"), "typeId": "PROCESS", "process": process }))["process"]
            ["hashes"],
        json!(["ab", "ef"])
    );

    let of = |path: &str, hashes: &[&str]| json!({ "osType": "Linux", "path": path, "hashes": hashes, "signerFingerprints": hashes });
    let processes = [of("/b", &[]), of("/a", &["B", "A", "A"])];
    let multi = made(
        json!({ "name": fresh("multi"), "typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": processes }),
    );
    let shown = multi["processes"].as_array().unwrap();
    let first = shown
        .iter()
        .find(|process| process["path"] == "/a")
        .unwrap();
    assert_eq!(
        (shown.len(), &first["hashes"], &first["signerFingerprints"]),
        (2, &json!(["A", "B"]), &json!(["A", "B"]))
    );
}

#[test]
fn old_posture_lists_are_normalized() {
    let os = |version: &str| json!({ "type": "Linux", "versions": [version] });
    let body =
        json!({ "name": "os", "typeId": "OS", "operatingSystems": [os("1.0.0"), os("2.0.0")] });
    let check: PostureCheck = serde_json::from_value(body).unwrap();
    let mut bytes = encode(&Record::new(
        Id::from_text("os"),
        Timestamp::from_millis(1),
        check,
    ))
    .unwrap();
    bytes[0] = 1;
    let mut sum = crc32fast::Hasher::new();
    for part in [&b"os"[..], &bytes[..1], &bytes[5..]] {
        sum.update(part);
    }
    bytes[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
    let read = decode::<PostureCheck>("os", &bytes).unwrap();
    assert_eq!(
        serde_json::to_value(&read.spec).unwrap()["operatingSystems"],
        json!([os("2.0.0")])
    );
}

#[test]
fn null_is_an_empty_list() {
    let path = format!(
        "/identities/{}/service-configs",
        shared().identity(&fresh("somebody"), json!({}))
    );
    admin().post(&path, Json::Null).expect(200);
    admin()
        .ask("DELETE", &path)
        .json(&Json::Null)
        .send()
        .expect(200);
}

/// A CA certificate with a key of this kind, PEM.
fn with_key(kind: &[&str]) -> String {
    let directory = tempfile::TempDir::new().unwrap();
    let args = [
        "req", "-x509", "-nodes", "-subj", "/CN=odd", "-keyout", "key",
    ];
    let made = std::process::Command::new("openssl")
        .args(args)
        .args(kind)
        .current_dir(directory.path())
        .output()
        .unwrap();
    String::from_utf8(made.stdout).unwrap()
}

const P521: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp521r1"];

#[test]
fn unusable_certificate_keys_are_refused() {
    let sent = |kind: &[&str]| {
        let pem = with_key(kind);
        let authority = json!({
            "name": fresh("odd"), "certPem": pem, "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true,
            "isOttCaEnrollmentEnabled": true, "identityRoles": []
        });
        let signer = json!({ "name": fresh("odd"), "certPem": pem, "issuer": fresh("issuer"), "audience": "a", "enabled": true });
        [
            admin().post("/cas", authority),
            admin().post("/external-jwt-signers", signer),
        ]
    };
    for kind in [&P521[..], &["-newkey", "rsa:1024"]] {
        for answer in sent(kind) {
            answer.refused(400, "COULD_NOT_VALIDATE", "certPem");
        }
    }
    for answer in sent(&["-newkey", "rsa:2048"]) {
        answer.expect(201);
    }
}

#[test]
fn unusable_signers_can_be_disabled() {
    let server = TestServer::start();
    let password = server.password.clone();
    let directory = server.closed();
    let data = directory.path().join("data");
    let body = json!({ "name": "large", "certPem": with_key(&P521), "issuer": "i", "kid": "k", "audience": "a", "enabled": true });
    let signer: ExternalJwtSigner = serde_json::from_value(body).unwrap();
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(|tx| {
            tx.insert(Record::new(
                Id::from_text("large"),
                Timestamp::from_millis(1),
                signer,
            ))
        })
        .unwrap();
    store.close();

    let config = Config {
        data,
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", &password);
    admin
        .patch("/external-jwt-signers/large", json!({ "enabled": false }))
        .expect(200);
    assert_eq!(
        admin.get("/external-jwt-signers/large").expect(200).data()["enabled"],
        false
    );
}
