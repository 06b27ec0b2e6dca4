//! The network of another controller as a file.

use std::{collections::HashMap, path::Path};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{HttpsServer, TestServer, answer_json},
};

/// The file that `overkeep import` prints about a controller.
fn imported(server: &TestServer, flags: &[&str]) -> Ran {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::write(home.path().join("password"), &server.password).unwrap();
    let url = format!("https://{}", server.bound());
    let line = [
        &["import", "--from", &url, "--password-file", "password"],
        flags,
    ]
    .concat();
    Ran::of(
        line.join(" "),
        program(home.path()).args(&line).output().unwrap(),
    )
}

/// A controller that answers lists of records. `null` in a list is a record whose page cannot be
/// shown; `never` is a list that never can be shown.
fn upstream(home: &Path, lists: Json) -> String {
    let server = HttpsServer::bind(&home.join("ca"));
    let url = server.url.clone();
    server.run(move |target, _| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let number = |name: &str, usual: usize| query.get(name).map_or(usual, |text| text.parse().unwrap());
        let name = path.rsplit('/').next().unwrap();
        if name == "authenticate" {
            return answer_json("200 OK", &json!({ "data": { "token": "x" } }).to_string());
        }
        let all = lists[name].as_array().cloned().unwrap_or_default();
        let (limit, offset) = (number("limit", 10), number("offset", 0));
        let page: Vec<&Json> = all.iter().skip(offset).take(limit).collect();
        if lists[name] == "never" || page.iter().any(|record| record.is_null()) {
            let cause = "could not convert *model.Enrollment with id [X] to API entity: router with id Y not found";
            let error = json!({ "code": "NOT_FOUND", "message": "The resource was not found", "cause": { "message": cause } });
            return answer_json("404 Not Found", &json!({ "error": error, "meta": {} }).to_string());
        }
        let meta = json!({ "pagination": { "limit": limit, "offset": offset, "totalCount": all.len() } });
        answer_json("200 OK", &json!({ "data": page, "meta": meta }).to_string())
    });
    url
}

/// Imports the lists of a controller.
fn imported_lists(lists: Json, flags: &[&str]) -> (TempDir, Ran) {
    let home = TempDir::new().unwrap();
    let url = upstream(home.path(), lists);
    std::fs::write(home.path().join("password"), "a long passphrase").unwrap();
    let line = [
        &[
            "import",
            "--from",
            &url,
            "--password-file",
            "password",
            "--ca",
            "ca",
        ],
        flags,
    ]
    .concat();
    let ran = Ran::of(
        line.join(" "),
        program(home.path()).args(&line).output().unwrap(),
    );
    (home, ran)
}

fn identity(id: &str) -> Json {
    json!({ "id": id, "name": format!("name of {id}"), "type": "Default", "isAdmin": false })
}

fn exported(server: &TestServer) -> Json {
    serde_saphyr::from_str(&on_host(server, &["export"]).good()).unwrap()
}

#[test]
fn imported_networks_equal_their_source() {
    let (old, new) = (TestServer::start(), TestServer::start());
    let on_old = |words: &[&str]| on_host(&old, words).good();
    on_old(&[
        "create",
        "config",
        "web",
        "--config-type-id",
        "host.v1",
        "--member-data",
        r#"{"protocol":"tcp","address":"a","port":1}"#,
    ]);
    on_old(&["create", "config-type", "gadget.v1"]);
    on_old(&[
        "create",
        "service",
        "web",
        "--configs",
        "web",
        "--role-attributes",
        "inside",
        "--tags",
        "team=x",
    ]);
    on_old(&[
        "create",
        "identity",
        "alice",
        "--role-attributes",
        "staff",
        "--external-id",
        "alice@example.com",
        "--enroll",
        "ott",
    ]);
    on_old(&[
        "create",
        "edge-router",
        "oslo",
        "--role-attributes",
        "north",
    ]);
    on_old(&["create", "edge-router", "bergen", "--is-tunneler-enabled"]);
    on_old(&[
        "update",
        "identity",
        "bergen",
        "--role-attributes",
        "tunnelers",
    ]);
    let policy = [
        "create",
        "service-policy",
        "dial",
        "--type",
        "Dial",
        "--semantic",
        "AnyOf",
    ];
    on_old(
        &[
            policy.as_slice(),
            &[
                "--identity-roles",
                "@alice,#staff",
                "--service-roles",
                "@web",
            ],
        ]
        .concat(),
    );
    on_old(&[
        "create",
        "service-edge-router-policy",
        "s",
        "--edge-router-roles",
        "@oslo",
        "--service-roles",
        "#all",
    ]);
    on_old(&[
        "create",
        "edge-router-policy",
        "e",
        "--edge-router-roles",
        "#north",
        "--identity-roles",
        "@alice,@bergen",
    ]);
    let id = old
        .admin
        .get("/services?filter=name%3D%22web%22")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    on_old(&[
        "update",
        "identity",
        "alice",
        "--service-hosting-costs",
        &json!({ id: 7 }).to_string(),
    ]);

    let file = new.data().with_file_name("old.yaml");
    let printed = imported(&old, &["--yes"]).good();
    assert!(
        printed.contains("# Identities to enroll again") && printed.contains(": alice"),
        "{printed}"
    );
    assert!(
        printed.contains("Edge routers to enroll again") && !printed.contains("Default Admin"),
        "{printed}"
    );
    std::fs::write(&file, &printed).unwrap();
    on_host(&new, &["apply", file.to_str().unwrap()]).good();
    assert_eq!(exported(&new), exported(&old));
    assert_eq!(
        on_host(&new, &["plan", file.to_str().unwrap()]).good(),
        "nothing to do"
    );
}

#[test]
fn sources_must_be_trusted_and_open() {
    let old = TestServer::start();
    imported(&old, &[]).bad(1, &["fingerprint"]);
    imported(&old, &["--yes", "--user", "nobody"]).bad(1, &[]);
    let home = tempfile::TempDir::new().unwrap();
    let output = program(home.path())
        .args(["import", "--from", "http://old:1280", "--yes"])
        .output()
        .unwrap();
    Ran::of("import".into(), output).bad(2, &["--from", "https://"]);
}

#[test]
fn imports_into_new_files() {
    let (old, home) = (TestServer::start(), tempfile::TempDir::new().unwrap());
    on_host(
        &old,
        &[
            "create",
            "identity",
            "alice",
            "--role-attributes",
            "staff",
            "--enroll",
            "ott",
        ],
    )
    .good();
    on_host(&old, &["create", "edge-router", "oslo"]).good();
    let (_, _) = old.enrolled("device");
    let into = home.path().join("new.redb");
    let flags = ["--yes", "--into", into.to_str().unwrap()];
    let said = imported(&old, &flags).good();
    for word in [
        "no authority was adopted",
        "alice (ott)",
        "(certificate)",
        "routers that enroll again",
        ": oslo",
        "is complete",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let run = |line: &[&str]| {
        Ran::of(
            line.join(" "),
            program(home.path()).args(line).output().unwrap(),
        )
    };
    assert!(
        run(&["check", into.to_str().unwrap()])
            .good()
            .contains("nothing is wrong")
    );
    assert!(
        run(&["admin", "list", "--data", into.to_str().unwrap()])
            .good()
            .contains("Default Admin")
    );
    imported(&old, &flags).bad(1, &["--into", "exists already"]);
    imported(
        &old,
        &[
            "--yes",
            "--signing-cert",
            "x",
            "--signing-key",
            "x",
            "--root-bundle",
            "x",
        ],
    )
    .bad(2, &["--into"]);
    let another = home.path().join("another.redb");
    let wrong = [
        "--yes",
        "--into",
        another.to_str().unwrap(),
        "--signing-cert",
        "password",
        "--signing-key",
        "password",
        "--root-bundle",
        "password",
    ];
    imported(&old, &wrong).bad(1, &["signing certificate"]);
    assert!(std::fs::read_dir(home.path()).unwrap().all(|entry| {
        !entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with("another")
    }));
}

#[test]
fn exports_for_openziti_name_references() {
    let server = TestServer::start();
    let on = |words: &[&str]| on_host(&server, words).good();
    on(&[
        "create",
        "config",
        "web",
        "--config-type-id",
        "host.v1",
        "--member-data",
        r#"{"protocol":"tcp","address":"a","port":1}"#,
    ]);
    on(&["create", "service", "web", "--configs", "web"]);
    on(&[
        "create",
        "posture-check",
        "system",
        "--type-id",
        "OS",
        "--operating-systems",
        r#"[{"type":"Linux","versions":[]}]"#,
    ]);
    on(&["create", "identity", "alice"]);
    let policy = [
        "create",
        "service-policy",
        "--type",
        "Dial",
        "--semantic",
        "AnyOf",
        "--identity-roles",
        "@alice",
        "--service-roles",
        "@web",
    ];
    on(&[policy.as_slice(), &["open"]].concat());
    on(&[
        policy.as_slice(),
        &["checked", "--posture-check-roles", "@system"],
    ]
    .concat());
    let said = on(&["export", "--openziti"]);
    assert!(
        said.contains(
            "# Left out, because they name posture checks: policies to create again: checked"
        ),
        "{said}"
    );
    assert!(
        said.contains("# Identities to enroll again: alice"),
        "{said}"
    );
    let file: Json = serde_saphyr::from_str(&said).unwrap();
    assert_eq!(file["services"][0]["configs"], json!(["@web"]));
    assert_eq!(file["configs"][0]["configType"], "@host.v1");
    assert_eq!(
        (
            &file["identities"][0]["authPolicy"],
            &file["identities"][0]["roleAttributes"]
        ),
        (&json!("@Default"), &json!([]))
    );
    assert_eq!(file["servicePolicies"].as_array().unwrap().len(), 1);
    assert_eq!(
        file["servicePolicies"][0]["identityRoles"],
        json!(["@alice"])
    );
    assert_eq!(
        (&file["edgeRouters"], &file["authPolicies"]),
        (&json!([]), &json!([]))
    );
}

#[test]
fn tunnelers_move_out_by_name() {
    let server = TestServer::with_router();
    let on = |words: &[&str]| on_host(&server, words).good();
    on(&["create", "edge-router", "oslo", "--is-tunneler-enabled"]);
    on(&[
        "update",
        "identity",
        "oslo",
        "--role-attributes",
        "tunnelers",
    ]);
    on(&["create", "service", "web"]);
    let policy = [
        "create",
        "service-policy",
        "bind",
        "--type",
        "Bind",
        "--semantic",
        "AnyOf",
    ];
    on(&[
        policy.as_slice(),
        &["--identity-roles", "@oslo", "--service-roles", "@web"],
    ]
    .concat());
    on(&[
        "create",
        "edge-router-policy",
        "e",
        "--edge-router-roles",
        "@oslo",
        "--identity-roles",
        "@oslo",
    ]);
    on(&[
        "create",
        "service-edge-router-policy",
        "s",
        "--edge-router-roles",
        "@oslo",
        "--service-roles",
        "@web",
    ]);
    on(&[
        "create",
        "edge-router-policy",
        "both",
        "--edge-router-roles",
        "@built-in,@oslo",
        "--identity-roles",
        "#all",
    ]);
    on(&[
        "create",
        "edge-router-policy",
        "only",
        "--edge-router-roles",
        "@built-in",
        "--identity-roles",
        "#all",
    ]);
    let said = on(&["export", "--openziti"]);
    let file: Json = serde_saphyr::from_str(&said).unwrap();
    let named = |list: &str, name: &str| {
        let records = file[list].as_array().unwrap();
        records
            .iter()
            .find(|record| record["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {list}: {said}"))
            .clone()
    };
    assert_eq!(
        named("servicePolicies", "bind")["identityRoles"],
        json!(["@oslo"])
    );
    let policy = named("edgeRouterPolicies", "e");
    assert_eq!(
        (&policy["identityRoles"], &policy["edgeRouterRoles"]),
        (&json!(["@oslo"]), &json!(["@oslo"]))
    );
    assert_eq!(
        named("serviceEdgeRouterPolicies", "s")["edgeRouterRoles"],
        json!(["@oslo"])
    );
    assert_eq!(
        named("identities", "oslo")["roleAttributes"],
        json!(["tunnelers"])
    );
    assert_eq!(
        named("edgeRouterPolicies", "both")["edgeRouterRoles"],
        json!(["@oslo"])
    );
    let policies = file["edgeRouterPolicies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["name"].as_str().unwrap());
    assert!(
        policies
            .clone()
            .all(|name| name != "only" && !name.starts_with("edge-router-")),
        "{said}"
    );
    assert!(
        said.contains("# Left out, because they name only the built-in router: only"),
        "{said}"
    );
    assert!(
        !said.contains("# Identities to enroll again: oslo"),
        "{said}"
    );
}

#[test]
fn unreadable_enrollments_are_named() {
    let ticket = |id: &str, of: &str| json!({ "id": id, "method": "ott", "identityId": of });
    let lists = |enrollments: Json| {
        let mut waiting = identity("c");
        waiting["enrollment"] = json!({ "ott": { "id": "e" } });
        json!({ "identities": [identity("a"), identity("b"), waiting], "enrollments": enrollments })
    };
    let flags = ["--into", "new.redb"];
    let some = lists(json!([null, ticket("one", "a"), null, ticket("two", "b")]));
    let (home, said) = imported_lists(some, &flags);
    let said = said.good();
    for word in [
        "name of a (ott)",
        "name of b (ott)",
        "cannot show, and that are not imported: 2",
        "router with id Y not found",
        "name of c",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let check = Ran::of(
        "check".into(),
        program(home.path())
            .args(["check", "new.redb"])
            .output()
            .unwrap(),
    );
    assert!(check.good().contains("nothing is wrong"));

    for (enrollments, words) in [
        (json!([null, null]), "are not imported: 2"),
        (
            json!("never"),
            "cannot list enrollments, and none is imported",
        ),
    ] {
        let (_home, said) = imported_lists(lists(enrollments), &flags);
        let said = said.good();
        assert!(
            said.contains(words)
                && said.contains("enrollment): name of c")
                && !said.contains("(ott)"),
            "{said}"
        );
    }
    let (_home, said) = imported_lists(lists(json!([ticket("one", "a")])), &flags);
    let said = said.good();
    assert!(
        said.contains("name of a (ott)") && !said.contains("cannot") && !said.contains("name of c"),
        "{said}"
    );
}

#[test]
fn lost_members_are_named() {
    let mut known = identity("a");
    known.as_object_mut().unwrap().extend(
        json!({ "permissions": ["admin.read"], "interfaces": [{ "name": "eth0" }], "isMfaEnabled": false, "sdkInfo": {}, "envInfo": {} })
            .as_object()
            .unwrap()
            .clone(),
    );
    let mut other = identity("b");
    other["permissions"] = json!(["admin.read"]);
    let mut without = identity("c");
    without["permissions"] = json!([]);
    let signer = json!({
        "id": "s", "name": "signer", "issuer": "https://idp.test", "audience": "a", "enabled": true, "jwksEndpoint": "https://idp.test/keys",
        "enrollToCertEnabled": true, "enrollToTokenEnabled": false, "enrollNameClaimsSelector": "/name",
        "enrollAttributeClaimsSelector": "/groups", "enrollAuthPolicyId": "p", "commonName": "", "fingerprint": "", "notAfter": null
    });
    let policy = json!({
        "id": "p", "name": "policy", "secondary": { "requireTotp": false }, "primary": {
            "cert": { "allowed": true, "allowExpiredCerts": false, "allowOnlyCertain": true },
            "extJwt": { "allowed": false, "allowedSigners": [] },
            "updb": { "allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 5, "minPasswordLength": 5, "requireMixedCase": false,
                "requireNumberChar": false, "requireSpecialChar": false }
        }
    });
    let credential = json!({ "id": "u", "method": "updb", "identityId": "a", "username": "anna", "futureMember": 1 });
    let lists = json!({
        "identities": [known, other, without], "external-jwt-signers": [signer], "auth-policies": [policy], "authenticators": [credential]
    });
    let expected = [
        "members of identities that are lost, with the number of records that have them: interfaces (1), permissions (2)",
        "them: enrollAttributeClaimsSelector (1), enrollAuthPolicyId (1), enrollNameClaimsSelector (1), enrollToCertEnabled (1), \
         enrollToTokenEnabled (1)",
        "members of auth-policies that are lost, with the number of records that have them: primary.cert.allowOnlyCertain (1)",
    ];
    let (_home, said) = imported_lists(lists.clone(), &["--into", "new.redb"]);
    let said = said.good();
    for words in
        expected.into_iter().chain(["members of authenticators that are lost, with the number of records that have them: futureMember (1)"])
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (_home, printed) = imported_lists(lists, &[]);
    let printed = printed.good();
    for words in expected {
        assert!(
            printed
                .lines()
                .any(|line| line.starts_with("# ") && line.contains(words)),
            "{words}: {printed}"
        );
    }
    assert_eq!(
        printed.matches("members of").count(),
        expected.len(),
        "{printed}"
    );
}
