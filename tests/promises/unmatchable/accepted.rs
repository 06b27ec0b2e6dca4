//! What is accepted by name, and what says so.

use super::*;

/// Sends a change as a creation, a replacement, a patch and a preview, which all accept it and name
/// the members.
fn named(admin: &Caller, path: &str, body: &Json, patch: &Json, members: &str) {
    let made = admin.post(path, body.clone()).expect(201);
    let mut again = body.clone();
    again["name"] = fresh("again").into();
    let preview = admin.post(&format!("{path}?preview=true"), again);
    let one = format!("{path}/{}", made.id());
    let all: [Answer; 4] = [
        made,
        preview.expect(200),
        admin.put(&one, body.clone()).expect(200),
        admin.patch(&one, patch.clone()).expect(200),
    ];
    for answer in all {
        assert_eq!(answer.header(HEADER), members, "{}: {body}", answer.request);
    }
}

#[test]
fn recorded_checks_are_accepted_by_name() {
    let admin = &shared().admin;
    for (demand, members) in [
        (
            process(&[
                ("hashes", json!(["AB12", "cd34"])),
                ("signerFingerprint", json!("AA:BB:cc")),
            ]),
            "process.hashes, process.signerFingerprint",
        ),
        // A SHA-256 hash.
        (
            process(&[("hashes", json!(["ab".repeat(32)]))]),
            "process.hashes",
        ),
        (
            processes(
                "AllOf",
                &[
                    one("macOS", "/Apps/a", &["AB"], &["Ab:Cd"]),
                    one("WindowsServer", "C:\\b.exe", &[], &[]),
                ],
            ),
            "processes.0.hashes, processes.0.signerFingerprints, processes",
        ),
    ] {
        let mut patch = demand.clone();
        patch["tags"] = json!({ "a": 1 });
        named(admin, "/posture-checks", &check(&demand), &patch, members);
    }
}

#[test]
fn recorded_claims_are_accepted_by_name() {
    let admin = &shared().admin;
    let split = ("parser", json!("SPLIT"));
    for (claim, members) in [
        (
            vec![("matcher", json!("SUFFIX"))],
            "externalIdClaim.matcherCriteria",
        ),
        (vec![split.clone()], "externalIdClaim.parserCriteria"),
        (
            vec![("matcher", json!("SUFFIX")), split.clone()],
            "externalIdClaim.matcherCriteria, externalIdClaim.parserCriteria",
        ),
        (
            vec![
                ("location", json!("SAN_URI")),
                ("matcher", json!("PREFIX")),
                ("matcherCriteria", json!("spiffe://plant/")),
            ],
            "externalIdClaim.matcher",
        ),
        (
            vec![
                split.clone(),
                ("parserCriteria", json!("|")),
                ("index", json!(9)),
            ],
            "",
        ),
        (
            vec![("location", json!("SAN_EMAIL")), ("index", json!(3))],
            "",
        ),
        (
            vec![
                ("location", json!("SAN_URI")),
                ("matcher", json!("SCHEME")),
                ("matcherCriteria", json!("X-a+1.b")),
            ],
            "",
        ),
    ] {
        let body = authority(&claim);
        let made = admin.post("/cas", body.clone()).expect(201);
        let path = format!("/cas/{}", made.id());
        let put = admin.put(&path, body.clone()).expect(200);
        let patched = admin
            .patch(&path, json!({ "externalIdClaim": body["externalIdClaim"] }))
            .expect(200);
        for answer in [made, put, patched] {
            assert_eq!(
                answer.header(HEADER),
                members,
                "{}: {claim:?}",
                answer.request
            );
        }
    }
}

#[test]
fn blank_issuers_are_accepted_by_name() {
    let body = json!({ "name": fresh("idp"), "issuer": " ", "audience": "overlay", "enabled": true, "jwksEndpoint": "https://idp.test" });
    named(
        &shared().admin,
        "/external-jwt-signers",
        &body,
        &json!({ "audience": "other" }),
        "issuer",
    );
}

/// Stores a posture check as an earlier release or another controller has it.
fn stored(server: TestServer, id: &str, demand: &Json) -> TestServer {
    let spec: PostureCheck = serde_json::from_value(check(demand)).unwrap();
    let (password, clock) = (server.password.clone(), server.clock.clone());
    let closed = server.closed();
    let store = stores::of(KINDS).start(&closed.path().join("data"));
    let id = Id::<PostureCheck>::from_text(id);
    store
        .write_blocking(move |tx| tx.insert(Record::new(id, Timestamp::from_millis(1), spec)))
        .unwrap();
    store.close();
    TestServer::on_copy(&closed.path().join("data"), &password, clock, |_| ())
}

#[test]
fn old_checks_can_be_changed() {
    let server = stored(
        TestServer::start(),
        "old",
        &json!({ "typeId": "MAC", "macAddresses": ["", "001b44113ab7"] }),
    );
    let path = "/posture-checks/old";
    let renamed = server
        .admin
        .patch(path, json!({ "typeId": "MAC", "name": fresh("renamed") }))
        .expect(200);
    assert_eq!(renamed.header(HEADER), "macAddresses");
    let whole = server.admin.get(path).expect(200).data().clone();
    server.admin.put(path, whole).expect(200);
    // What is wrong and new is refused all the same.
    server
        .admin
        .patch(path, json!({ "typeId": "MAC", "macAddresses": ["zz"] }))
        .refused(400, "COULD_NOT_VALIDATE", "macAddresses");
    server
        .admin
        .patch(
            path,
            json!({ "typeId": "MAC", "macAddresses": ["001b44113ab7"] }),
        )
        .expect(200);
    assert_eq!(
        server
            .admin
            .patch(path, json!({ "typeId": "MAC", "name": fresh("again") }))
            .expect(200)
            .header(HEADER),
        ""
    );
}

#[test]
fn doctor_finds_unmatchable_members() {
    let server = TestServer::start();
    let found = || {
        let served = server.admin.get("/overkeep/v1/doctor").expect(200);
        let finding = served
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == "checks and claims")
            .unwrap()
            .clone();
        (
            finding["healthy"] == true,
            finding["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert!(found().0, "{}", found().1);
    let claim = authority(&[("parser", json!("SPLIT"))]);
    let name = claim["name"].as_str().unwrap().to_owned();
    server.admin.post("/cas", claim).expect(201);
    let short = check(&process(&[("hashes", json!(["ab"]))]));
    let id = server
        .admin
        .post("/posture-checks", short.clone())
        .expect(201)
        .id();
    let (is_good, detail) = found();
    let parts = [
        &name,
        "externalIdClaim.parserCriteria",
        short["name"].as_str().unwrap(),
        "process.hashes has 2 hexadecimal digits instead of 128",
    ];
    assert!(
        !is_good
            && parts.iter().all(|part| detail.contains(part))
            && detail.contains("match 2 members"),
        "{detail}"
    );
    let told = on_host(&server, &["doctor"]).out;
    assert!(
        told.contains("FAIL checks and claims") && told.contains(&name),
        "{told}"
    );
    server
        .admin
        .delete(&format!("/posture-checks/{id}"))
        .expect(200);
    assert!(found().1.contains("match 1 members"), "{}", found().1);
}

#[test]
fn commands_warn_of_unmatchable_members() {
    let (server, home) = (TestServer::start(), tempfile::TempDir::new().unwrap());
    std::fs::write(home.path().join("password"), &server.password).unwrap();
    let remote = |words: &[&str]| crate::contexts::run(home.path(), &[], words);
    remote(&[
        "login",
        &crate::contexts::url(&server),
        "--password-file",
        "password",
        "--yes",
    ])
    .good();
    let file = |name: &str, json: &Json| {
        let path = home.path().join(name);
        std::fs::write(&path, json.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let short = process(&[
        ("hashes", json!(["ab"])),
        ("signerFingerprint", json!("cd")),
    ]);
    let sound = process(&[
        ("hashes", json!([sha512()])),
        ("signerFingerprint", json!(SHA1)),
    ]);
    let (short, sound) = (file("short", &short), file("sound", &sound));
    let tags = file(
        "tags",
        &json!({ "typeId": "PROCESS", "tags": { "a": "b" } }),
    );
    let warning =
        "overkeep: warning: nothing can ever match: process.hashes, process.signerFingerprint\n";
    for is_remote in [false, true] {
        let name = fresh("check");
        for (words, told) in [
            (
                vec![
                    "create",
                    "posture-check",
                    &name,
                    "--json",
                    &short,
                    "--preview",
                ],
                warning,
            ),
            (
                vec!["create", "posture-check", &name, "--json", &short],
                warning,
            ),
            (
                vec!["update", "posture-check", &name, "--json", &tags],
                warning,
            ),
            (
                vec![
                    "update",
                    "posture-check",
                    &name,
                    "--type-id",
                    "PROCESS",
                    "--add-role",
                    "strict",
                ],
                warning,
            ),
            (vec!["show", "posture-check", &name], ""),
            (
                vec!["update", "posture-check", &name, "--json", &tags, "--quiet"],
                "",
            ),
            (vec!["update", "posture-check", &name, "--json", &sound], ""),
        ] {
            let ran = if is_remote {
                remote(&words)
            } else {
                on_host(&server, &words)
            };
            assert_eq!(
                (ran.status, ran.err.as_str()),
                (0, told),
                "{words:?}: {}",
                ran.out
            );
        }
    }
}
