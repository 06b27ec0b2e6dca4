//! Networks that are imported.

use super::*;

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
