//! Members that nothing can ever match: refused with their names, or accepted with a header and
//! found by doctor where acceptance is recorded.

use overkeep::testing::{
    change::KINDS,
    clock::Timestamp,
    entity::{Id, PostureCheck, Record},
};
use serde_json::{Value as Json, json};

use crate::command_line::on_host;
use crate::harness::{Answer, Authority, Caller, TestServer, fresh, shared, stores};

/// The header that names them.
const HEADER: &str = "overkeep-unmatchable-members";
const SHA1: &str = "00112233445566778899aabbccddeeff00112233";

fn sha512() -> String {
    "ab:".repeat(64)
}

fn check(demand: &Json) -> Json {
    let mut body = json!({ "name": fresh("check"), "roleAttributes": ["strict"] });
    body.as_object_mut()
        .unwrap()
        .extend(demand.as_object().unwrap().clone());
    body
}

fn os(systems: Json) -> Json {
    json!({ "typeId": "OS", "operatingSystems": systems })
}

fn process(members: &[(&str, Json)]) -> Json {
    let mut process = json!({ "osType": "Linux", "path": "/bin/guard" });
    members
        .iter()
        .for_each(|(name, value)| process[*name] = value.clone());
    json!({ "typeId": "PROCESS", "process": process })
}

fn processes(semantic: &str, list: &[Json]) -> Json {
    json!({ "typeId": "PROCESS_MULTI", "semantic": semantic, "processes": list })
}

fn one(system: &str, path: &str, hashes: &[&str], signers: &[&str]) -> Json {
    json!({ "osType": system, "path": path, "hashes": hashes, "signerFingerprints": signers })
}

/// Demands that are refused, with the member that the error names.
fn refused_demands() -> Vec<(Json, &'static str)> {
    let linux = |versions: Json| json!({ "type": "Linux", "versions": versions });
    let good = one("Linux", "/bin/a", &[], &[]);
    let several = |bad: Json| processes("AnyOf", &[good.clone(), bad]);
    let mut demands = vec![
        (
            os(json!([
                linux(json!([">=1.0.0"])),
                linux(json!([">=2.0.0"]))
            ])),
            "operatingSystems",
        ),
        (
            os(json!([linux(json!([])), { "type": "Windows", "versions": [] }, linux(json!([]))])),
            "operatingSystems",
        ),
        (
            several(one("Linux", "/bin/a", &["ab"], &[])),
            "processes.1.path",
        ),
        (several(one("Linux", "", &[], &[])), "processes.1.path"),
        (several(one("Linux", " ", &[], &[])), "processes.1.path"),
        (
            several(one("Linux", "/bin/b", &["ab", ""], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &[" - "], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &["sha512:abcd"], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &[], &[""])),
            "processes.1.signerFingerprints",
        ),
        (
            several(one("Linux", "/bin/b", &[], &["::"])),
            "processes.1.signerFingerprints",
        ),
        (process(&[("path", json!(""))]), "process.path"),
        (process(&[("path", json!("\t"))]), "process.path"),
        (process(&[("hashes", json!([""]))]), "process.hashes"),
        (
            process(&[("hashes", json!([sha512(), "zz"]))]),
            "process.hashes",
        ),
        (
            process(&[("hashes", json!([format!("0x{}", "ab".repeat(64))]))]),
            "process.hashes",
        ),
        (
            process(&[("signerFingerprint", json!(" "))]),
            "process.signerFingerprint",
        ),
        (
            process(&[("signerFingerprint", json!(":-:"))]),
            "process.signerFingerprint",
        ),
        (
            process(&[("signerFingerprint", json!("my signer"))]),
            "process.signerFingerprint",
        ),
    ];
    for range in [
        "<0.0.0",
        ">=2.0.0 <1.0.0",
        "1.0.0 2.0.0",
        "!x",
        "1.x 2.x || <0.0.0",
    ] {
        demands.push((
            os(json!([linux(json!(["5.4.0", range]))])),
            "operatingSystems",
        ));
    }
    for address in [
        "",
        " ",
        "zz",
        "00:1b",
        "00:1b:44:11:3a:b",
        "00:1b:44:11:3a:b7:00",
        "aabbccddeefg",
        "0xaabbccddeeff",
        "MAC aabbccddeeff",
    ] {
        demands.push((
            json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", address] }),
            "macAddresses",
        ));
    }
    for domain in ["", "  ", " corp", "corp\n"] {
        demands.push((
            json!({ "typeId": "DOMAIN", "domains": ["lab", domain] }),
            "domains",
        ));
    }
    demands
}

#[test]
fn checks_nothing_satisfies_are_refused() {
    let admin = &shared().admin;
    for (demand, member) in refused_demands() {
        let body = check(&demand);
        admin
            .post("/posture-checks", body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(
            admin
                .list("/posture-checks", &format!("name = {}", body["name"]), "")
                .expect(200)
                .total(),
            0
        );

        let sound = match demand["typeId"].as_str().unwrap() {
            "OS" => os(json!([{ "type": "macOS", "versions": [] }])),
            "MAC" => json!({ "typeId": "MAC", "macAddresses": ["aa:aa:aa:aa:aa:aa"] }),
            "DOMAIN" => json!({ "typeId": "DOMAIN", "domains": ["corp"] }),
            "PROCESS" => process(&[]),
            _ => processes("AllOf", &[one("Linux", "/z", &[], &[])]),
        };
        let path = format!(
            "/posture-checks/{}",
            admin
                .post("/posture-checks", check(&sound))
                .expect(201)
                .id()
        );
        let before = admin.get(&path).expect(200).data().clone();
        admin
            .put(&path, body)
            .refused(400, "COULD_NOT_VALIDATE", member);
        admin
            .patch(&path, demand)
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(admin.get(&path).expect(200).data(), &before);
    }
}

#[test]
fn every_broken_value_is_named() {
    let demand = processes(
        "AnyOf",
        &[one("Linux", "", &["x"], &["y"]), one("Linux", "", &[], &[])],
    );
    let refused = shared()
        .admin
        .post("/posture-checks", check(&demand))
        .expect(400);
    let fields: Vec<&str> = refused.json["error"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].as_str().unwrap())
        .collect();
    let wanted = [
        "processes.0.path",
        "processes.0.hashes",
        "processes.0.signerFingerprints",
        "processes.1.path",
        "processes.1.path",
    ];
    assert_eq!(fields, wanted, "{}", refused.text);
}

#[test]
fn matchable_checks_are_not_named() {
    let linux = |versions: Json| json!({ "type": "Linux", "versions": versions });
    let sound = [
        os(
            json!([linux(json!([">=5.0.0 <6.0.0", "7.x", "!8.0.0"])), { "type": "Windows", "versions": [] }]),
        ),
        json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", "001b.4411.3ab7", "02-00-00-00-00-02", "0011223344556677"] }),
        json!({ "typeId": "DOMAIN", "domains": ["Corp", "two words", "ü"] }),
        process(&[
            ("hashes", json!([sha512()])),
            ("signerFingerprint", json!(SHA1)),
        ]),
        process(&[("hashes", json!([])), ("signerFingerprint", json!(""))]),
        processes(
            "AllOf",
            &[
                one("Windows", "C:\\a.exe", &[&sha512()], &[SHA1]),
                one("WindowsServer", "C:\\a.exe", &[], &[]),
            ],
        ),
        processes(
            "AnyOf",
            &[one("Linux", "/a", &[], &[]), one("macOS", "/a", &[], &[])],
        ),
        json!({ "typeId": "MFA" }),
    ];
    for demand in sound {
        let made = shared()
            .admin
            .post("/posture-checks", check(&demand))
            .expect(201);
        assert_eq!(made.header(HEADER), "", "{demand}");
    }
}

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

fn authority(claim: &[(&str, Json)]) -> Json {
    let name = fresh("authority");
    let mut body = json!({
        "name": name, "certPem": Authority::new(&name).pem(), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
        "isOttCaEnrollmentEnabled": false, "identityRoles": [], "identityNameFormat": "",
        "externalIdClaim": {
            "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0
        }
    });
    claim
        .iter()
        .for_each(|(name, value)| body["externalIdClaim"][*name] = value.clone());
    body
}

#[test]
fn claims_nothing_matches_are_refused() {
    let admin = &shared().admin;
    let (uri, scheme) = (("location", json!("SAN_URI")), ("matcher", json!("SCHEME")));
    let criteria = |text: &str| ("matcherCriteria", json!(text));
    for (claim, member) in [
        (
            vec![("matcher", json!("PREFIX"))],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![
                ("location", json!("SAN_EMAIL")),
                ("matcher", json!("PREFIX")),
            ],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone()],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("spiffe:")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("spiffe://plant")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("1x")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria(" spiffe")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), ("matcher", json!("SUFFIX")), criteria("/x")],
            "externalIdClaim.matcher",
        ),
        (vec![("index", json!(1))], "externalIdClaim.index"),
        (
            vec![
                ("matcher", json!("SUFFIX")),
                criteria(".x"),
                ("index", json!(2)),
            ],
            "externalIdClaim.index",
        ),
        (
            vec![
                ("parser", json!("SPLIT")),
                ("parserCriteria", json!(",")),
                ("index", json!(70_000)),
            ],
            "externalIdClaim.index",
        ),
    ] {
        let body = authority(&claim);
        admin
            .post("/cas", body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        let path = format!(
            "/cas/{}",
            admin.post("/cas", authority(&[])).expect(201).id()
        );
        admin
            .put(&path, body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        admin
            .patch(&path, json!({ "externalIdClaim": body["externalIdClaim"] }))
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(
            admin.get(&path).expect(200).data()["externalIdClaim"]["matcher"],
            "ALL"
        );
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
