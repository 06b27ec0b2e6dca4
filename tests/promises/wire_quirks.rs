//! Behaviour that clients depend on and that is easily overlooked: blanks, nulls, and the order of
//! errors.

use overkeep::testing::{
    change::KINDS,
    clock::{Clock, Timestamp},
    config::Config,
    controller,
    entity::{ExternalJwtSigner, Id, PostureCheck, Record},
    store::{decode, encode},
};
use serde_json::{Value as Json, json};

use crate::harness::{
    Authority, Base, Caller, PASSWORD, TestServer, fresh, shared, stores, trusting,
};

fn admin() -> &'static Caller {
    &shared().admin
}

/// A member of the record at a path.
fn member(path: &str, name: &str) -> Json {
    admin().get(path).expect(200).data()[name].clone()
}

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
fn wrong_role_entries_are_named() {
    let policy = |roles: Json| json!({ "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": roles, "serviceRoles": ["#all"] });
    let lists = [
        (json!(["#all", "#all"]), "[#all #all]"),
        (json!(["@none", "#all"]), "[#all @none]"),
        (json!(["x", "#all"]), "[x]"),
        (json!(["z", "#b", "a"]), "[z a]"),
        (json!(["@z", "#b", "@a"]), "[a z]"),
    ];
    for (roles, shown) in lists {
        let refused = admin().post("/service-policies", policy(roles)).refused(
            400,
            "COULD_NOT_VALIDATE",
            "identityRoles",
        );
        assert_eq!(refused.json["error"]["cause"]["value"], shown);
    }
    let body = json!({ "name": fresh("service"), "encryptionRequired": true, "roleAttributes": ["fine", "@z", "#a"] });
    let refused =
        admin()
            .post("/services", body)
            .refused(400, "COULD_NOT_VALIDATE", "roleAttributes");
    assert_eq!(refused.json["error"]["cause"]["value"], "@z");
}

#[test]
fn first_missing_member_is_told() {
    for (path, body, first) in [
        ("/services", json!({}), "encryptionRequired"),
        ("/identities", json!({}), "isAdmin"),
        ("/cas", json!({}), "certPem"),
        ("/configs", json!({}), "configTypeId"),
        (
            "/identities",
            json!({ "name": "a", "isAdmin": false, "type": "x", "defaultHostingCost": -1 }),
            "defaultHostingCost",
        ),
        (
            "/posture-checks",
            json!({ "name": "a", "typeId": "PROCESS_MULTI" }),
            "processes",
        ),
        // Members of all forms come before members of one form.
        ("/posture-checks", json!({ "typeId": "DOMAIN" }), "name"),
    ] {
        admin()
            .post(path, body)
            .refused(400, "COULD_NOT_VALIDATE", first);
    }
}

#[test]
fn blank_list_parameters_are_ignored() {
    let server = shared();
    let config_type = admin()
        .post("/config-types", json!({ "name": fresh("type") }))
        .expect(201)
        .id();
    let body = json!({ "name": fresh("config"), "configTypeId": config_type, "data": { "a": 1 } });
    let config = admin().post("/configs", body).expect(201).id();
    let service = server.service(&fresh("service"), json!({ "configs": [config] }));
    let body = json!({ "username": "admin", "password": server.password, "configTypes": ["all"] });
    let token = server
        .anonymous()
        .at(Base::Management)
        .post("/authenticate?method=password", body)
        .expect(200)
        .data()["token"]
        .clone();
    let caller = admin().with_token(token.as_str().unwrap());
    let only = format!("id = \"{service}\"");
    for blank in ["&configTypes=", "&asIdentity="] {
        let listed = caller.list("/services", &only, blank).expect(200);
        assert_eq!(
            listed.data()[0]["config"]
                .as_object()
                .map(|config| config.len()),
            Some(1),
            "{blank}: {}",
            listed.text
        );
    }
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

#[test]
fn member_names_ignore_case() {
    let name = fresh("any case");
    let id = admin()
        .post(
            "/identities",
            json!({ "NAME": name, "Type": "Device", "IsAdmin": false }),
        )
        .expect(201)
        .id();
    let path = format!("/identities/{id}");
    assert_eq!(member(&path, "name"), name.as_str());
    admin()
        .patch(&path, json!({ "NAME": "another" }))
        .expect(200);
    assert_eq!(
        member(&path, "name"),
        name.as_str(),
        "member names in a PATCH are case-sensitive"
    );
    shared().give_password(&id, &name);
    let body = json!({ "USERNAME": name, "Password": PASSWORD, "sdkInfo": { "appID": "a" }, "EnvInfo": { "OS": "b" } });
    shared()
        .anonymous()
        .post("/authenticate?method=password", body)
        .expect(200);
    let shown = admin().get(&path).expect(200);
    assert_eq!(
        (
            &shown.data()["sdkInfo"]["appId"],
            &shown.data()["envInfo"]["os"]
        ),
        (&json!("a"), &json!("b"))
    );
}

#[test]
fn nested_member_names_ignore_case() {
    let systems = |of: &str| json!([{ "type": of, "versions": [] }]);
    let check =
        json!({ "name": fresh("check"), "typeId": "OS", "operatingSystems": systems("Windows") });
    let path = format!(
        "/posture-checks/{}",
        admin().post("/posture-checks", check).expect(201).id()
    );
    let spelled =
        json!({ "typeId": "OS", "operatingSystems": [{ "Type": "Linux", "Versions": ["5.4.0"] }] });
    admin().patch(&path, spelled).expect(200);
    assert_eq!(
        member(&path, "operatingSystems"),
        json!([{ "type": "Linux", "versions": ["5.4.0"] }])
    );
    admin()
        .patch(
            &path,
            json!({ "typeId": "OS", "OPERATINGSYSTEMS": systems("macOS") }),
        )
        .expect(200);
    assert_eq!(
        member(&path, "operatingSystems"),
        json!([{ "type": "Linux", "versions": ["5.4.0"] }])
    );
}

#[test]
fn syntax_comes_before_permission() {
    let (_, somebody) = shared().user(&fresh("somebody"), json!({}));
    let somebody = somebody.at(Base::Management);
    somebody
        .post("/services", json!({}))
        .refused(400, "COULD_NOT_VALIDATE", "encryptionRequired");
    somebody
        .ask("POST", "/services")
        .body("application/json", "{")
        .send()
        .refused(400, "COULD_NOT_PARSE_BODY", "");
    somebody
        .get("/services?limit=x")
        .refused(400, "COULD_NOT_VALIDATE", "limit");
    let name = fresh("service");
    somebody
        .post(
            "/services",
            json!({ "name": name, "encryptionRequired": true }),
        )
        .refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        admin()
            .list("/services", &format!("name = \"{name}\""), "")
            .expect(200)
            .total(),
        0
    );
    somebody
        .with_token("nobody's")
        .post("/services", json!({}))
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn trace_length_may_be_signed() {
    let path = format!(
        "/identities/{}/trace",
        shared().identity(&fresh("traced"), json!({}))
    );
    for length in ["0", "+5m", "-5m", "-0", "1.5h"] {
        admin()
            .put(&path, json!({ "enabled": true, "duration": length }))
            .expect(200);
    }
    for nonsense in ["", "+", "--5m", "5", "m"] {
        admin()
            .put(&path, json!({ "enabled": true, "duration": nonsense }))
            .refused(400, "COULD_NOT_VALIDATE", "duration");
    }
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

#[test]
fn answers_are_neither_stored_nor_sniffed() {
    let server = TestServer::with(Clock::system(), |config| {
        config.metrics.listen = Some("127.0.0.1:0".parse().unwrap());
        config.http.cors_origins = vec!["https://page.example".into()];
    });
    let headers = |answer: &ureq::http::HeaderMap| {
        let of = |name: &str| {
            answer
                .get(name)
                .map_or("", |value| value.to_str().unwrap())
                .to_owned()
        };
        (of("cache-control"), of("x-content-type-options"))
    };
    let api = ("no-store".to_owned(), "nosniff".to_owned());
    let asked = [
        ("GET", "/edge/management/v1/identities"),
        ("GET", "/edge/client/v1/current-identity"),
        ("GET", "/overkeep/v1/history"),
        ("GET", "/overkeep/v1/events"),
        ("GET", "/overkeep/v1/openapi.json"),
        ("GET", "/fabric/v1/routers"),
        ("GET", "/edge/management/v1/nothing"),
        ("PUT", "/edge/management/v1/identities"),
        ("POST", "/edge/management/v1/services"),
        ("GET", "//health"),
        ("GET", "//ready"),
        ("GET", "//version"),
        ("HEAD", "//health"),
        ("GET", "//.well-known/est/cacerts"),
        ("GET", "//nowhere/at/all"),
        ("OPTIONS", "/edge/management/v1/identities"),
    ];
    for caller in [&server.admin, &server.anonymous()] {
        for (method, path) in asked {
            let answer = caller
                .ask(method, path)
                .header("origin", "https://page.example")
                .header("access-control-request-method", "GET");
            assert_eq!(headers(&answer.send().headers), api, "{method} {path}");
        }
    }
    for path in ["//", "//docs", "//docs/swagger-ui.css", "//page/main.js"] {
        let answer = server
            .anonymous()
            .ask("GET", path)
            .header("accept", "text/html, */*")
            .send();
        assert_eq!(
            (answer.status, headers(&answer.headers)),
            (200, ("no-cache".into(), "nosniff".into())),
            "{path}"
        );
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    for path in ["metrics", "nothing"] {
        let answer = agent
            .get(format!("http://{}/{path}", server.metrics_bound()))
            .call()
            .unwrap();
        assert_eq!(headers(answer.headers()), api, "{path}");
    }
}
