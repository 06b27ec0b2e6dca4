//! Commands as people type them.

use super::*;

#[test]
fn explain_works_after_login() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    // Names that a shell and a list read in their own way.
    let (name, service) = ("o'brien, \"the\" #1", "-web \\ $HOME");
    server.user(name, json!({}));
    server.service(service, json!({ "roleAttributes": ["a,b"] }));
    let ask = || there.run(&["explain", "dial", "--", name, service]);
    let told = ask();
    assert!(
        told.status == 3 && told.out.starts_with("no: o'brien"),
        "{} {}",
        told.out,
        told.err
    );
    assert!(
        told.out.contains("overkeep create service-policy ") && !told.out.contains("POST "),
        "{}",
        told.out
    );
    let why = || {
        let ran = there.run(&["explain", "dial", "--json", "--", name, service]);
        assert_eq!(ran.status, 3, "{}", ran.err);
        serde_json::from_str::<Json>(&ran.out).unwrap()
    };
    for _ in 0..5 {
        let now = why();
        let of_rights = |one: &&Json| one["concerns"] == "rights";
        let Some(obstacle) = now["obstacles"].as_array().unwrap().iter().find(of_rights) else {
            break;
        };
        let command = obstacle["commands"][0].as_str().unwrap();
        there.typed(command).good();
    }
    let after = why();
    assert_eq!(
        (&after["allowed"], &after["verdict"]),
        (&json!(true), &json!(false)),
        "{after:#}"
    );
    assert!(ask().out.starts_with("may, but cannot now: "));
    there
        .run(&["explain", "dial", "nobody", "nothing"])
        .bad(1, &["identity"]);
    // The commands name records by their names.
    let commands = after["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["commands"].as_array().unwrap())
        .count();
    let edits = after["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["edits"].as_array().unwrap())
        .count();
    assert_eq!(commands, edits);
}

#[test]
fn remedies_name_records_by_name() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let [name, service, other] = ["person", "web", "other"].map(fresh);
    let (identity, _) = server.user(&name, json!({ "roleAttributes": ["sales"] }));
    let id = server.service(&service, json!({}));
    let beside = server.service(&other, json!({}));
    server.router_between(&identity, &id);
    server.service_policy("Dial", &["#sales"], &[&format!("@{beside}")]);
    let told = there.run(&["explain", "dial", &name, &service]).out;
    assert!(
        told.contains(&format!(" --add-role service:@{service}\n")),
        "{told}"
    );
    assert!(
        ![&identity, &id, &beside]
            .into_iter()
            .any(|id| told.contains(id.as_str())),
        "{told}"
    );
    server
        .admin
        .post(
            &format!("/identities/{identity}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    let told = there.run(&["explain", "dial", &name, &service]).out;
    assert!(
        told.contains(&format!("\n      overkeep enable identity {name}\n")),
        "{told}"
    );
    there
        .typed(&format!("overkeep enable identity {name}"))
        .good();
    // On the host the answer and the status are the same.
    let on_host = on_host(&server, &["explain", "dial", &name, &service]);
    let there = there.run(&["explain", "dial", &name, &service]);
    assert_eq!((on_host.status, on_host.out), (3, there.out));
}

#[test]
fn commands_of_hosts_name_the_login() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    for words in [
        &["admin", "list"][..],
        &["pki", "status"],
        &["history", "verify"],
        &["snapshot", "new"],
    ] {
        there
            .run(words)
            .bad(1, &["host", &server.bound().to_string()]);
    }
    for words in [
        &["online"][..],
        &["sessions"],
        &["export"],
        &["history", "list"],
    ] {
        there.run(words).good();
    }
    for words in [&["check"][..], &["repair"]] {
        assert_eq!(there.run(words).good(), "nothing is wrong");
    }
    // The controller of the login is looked at, not the host of the log-in.
    let checked = there.run(&["doctor"]);
    assert!(
        [0, 3].contains(&checked.status) && !checked.out.contains("no controller answers"),
        "{} {}",
        checked.out,
        checked.err
    );
}

#[test]
fn refused_passwords_show_the_name() {
    let server = TestServer::start();
    let (identity, username) = (fresh("identity"), fresh("username"));
    let id = server.identity(&identity, json!({}));
    server.give_password(&id, &username);
    let secret = "a password in the wrong field";
    for tried in [username.as_str(), secret] {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": tried, "password": "not this one" }),
            )
            .expect(401);
    }
    let rows = server
        .admin
        .get("/overkeep/v1/history?filter=action%20%3D%20%22refusal%22")
        .expect(200);
    let row = rows
        .data()
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == id.as_str())
        .unwrap_or_else(|| panic!("{}", rows.text));
    assert_eq!(
        (&row["name"], &row["after"]["username"]),
        (&json!(identity), &json!(username)),
        "{row:#}"
    );
    assert!(!rows.text.contains(secret), "{}", rows.text);
}

#[test]
fn roles_come_and_go_singly() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let [name, service, policy] = ["alice", "web", "policy"].map(fresh);
    let roles = |kind: &str, name: &str, member: &str| {
        let record = there.run(&["show", kind, name, "-o", "json"]).json();
        let mut roles: Vec<String> = record[member]
            .as_array()
            .unwrap()
            .iter()
            .map(|role| role.as_str().unwrap().to_owned())
            .collect();
        roles.sort();
        roles
    };
    let identity = server.identity(&name, json!({ "roleAttributes": ["a", "b"] }));
    let id = server.service(&service, json!({}));
    there
        .run(&[
            "update",
            "identity",
            &name,
            "--add-role",
            "c",
            "--add-role",
            "a",
            "--remove-role",
            "b",
        ])
        .good();
    assert_eq!(roles("identity", &name, "roleAttributes"), ["a", "c"]);
    let missing = there.run(&["update", "identity", &name, "--remove-role", "b"]);
    assert!(
        missing.status == 0 && missing.err.contains("does not have the role b"),
        "{}",
        missing.err
    );
    there
        .run(&[
            "update",
            "identity",
            &name,
            "--add-role",
            "x",
            "--role-attributes",
            "y",
        ])
        .bad(2, &["--role-attributes"]);
    // A version that the caller names is kept.
    there
        .run(&[
            "update",
            "identity",
            &name,
            "--add-role",
            "d",
            "--if-match",
            "\"old\"",
        ])
        .bad(1, &[]);
    assert_eq!(roles("identity", &name, "roleAttributes"), ["a", "c"]);
    let seen = there
        .run(&["update", "identity", &name, "--add-role", "d", "--preview"])
        .good();
    assert!(seen.contains("nothing was changed"), "{seen}");
    // Policies have several lists; roles of one record are given by its name.
    server.service_policy("Dial", &["#sales"], &[]);
    there
        .run(&[
            "create",
            "service-policy",
            &policy,
            "--type",
            "Dial",
            "--identity-roles",
            "#sales",
        ])
        .good();
    let [with_name, with_service] = [format!("identity:@{name}"), format!("service:@{service}")];
    there
        .run(&[
            "update",
            "service-policy",
            &policy,
            "--add-role",
            &with_name,
            "--add-role",
            &with_service,
            "--remove-role",
            "identity:#sales",
        ])
        .good();
    assert_eq!(
        roles("service-policy", &policy, "identityRoles"),
        [format!("@{identity}")]
    );
    assert_eq!(
        roles("service-policy", &policy, "serviceRoles"),
        [format!("@{id}")]
    );
    there
        .run(&[
            "update",
            "service-policy",
            &policy,
            "--remove-role",
            &with_service,
        ])
        .good();
    assert_eq!(roles("service-policy", &policy, "serviceRoles"), [""; 0]);
    there
        .run(&["update", "service-policy", &policy, "--add-role", "#sales"])
        .bad(2, &["--add-role", "identity:", "service:"]);
}

#[test]
fn parallel_roles_are_all_kept() {
    let server = TestServer::start();
    let name = fresh("alice");
    let id = server.identity(&name, json!({ "roleAttributes": ["first"] }));
    let data = server.data();
    let start = |at: usize| {
        let words =
            ["update", "identity", &name, "--add-role", &format!("r{at}")].map(str::to_owned);
        program(data.parent().unwrap())
            .env("OVERKEEP_DATA", &data)
            .args(words)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let all: Vec<Child> = (0..6).map(start).collect();
    assert!(all.into_iter().all(|mut one| one.wait().unwrap().success()));
    let record = server.admin.get(&format!("/identities/{id}")).expect(200);
    assert_eq!(
        record.data()["roleAttributes"].as_array().unwrap().len(),
        7,
        "{}",
        record.text
    );
}

#[test]
fn ends_are_given_as_durations() {
    let server = TestServer::start();
    let name = fresh("alice");
    server.identity(&name, json!({}));
    let make = |end: &str| {
        on_host(
            &server,
            &[
                "create",
                "enrollment",
                "--identity-id",
                &name,
                "--method",
                "ott",
                "--expires-at",
                end,
            ],
        )
    };
    let id = make("7d").good();
    let end = server
        .admin
        .get(&format!("/enrollments/{id}"))
        .expect(200)
        .data()["expiresAt"]
        .as_str()
        .unwrap()
        .to_owned();
    let day = |days: u64| {
        let at = SystemTime::now() + Duration::from_secs(days * 86_400);
        let at = model::clock::Timestamp::from(at).to_string();
        at.get(..10).unwrap().to_owned()
    };
    assert!(
        [day(7), day(6)].contains(&end.get(..10).unwrap().to_owned()),
        "{end}"
    );
    let token = on_host(
        &server,
        &[
            "create",
            "api-token",
            "ci",
            "--actions",
            "read",
            "--expires-at",
            "12h",
            "-o",
            "json",
        ],
    )
    .json();
    assert!(token["token"].is_string(), "{token}");
    make("7 weeks").bad(2, &["duration"]);
    on_host(&server, &["delete", "enrollment", &id]).good();
    make("2090-01-01T00:00:00.000Z").good();
}

#[test]
fn commands_wait_for_a_start() {
    let server = TestServer::start();
    let service = server.service(&fresh("web"), json!({}));
    // A file that a process has open before it answers, as a controller does while it starts.
    let place = TempDir::new().unwrap();
    let held = fs::File::create(place.path().join("data")).unwrap();
    held.try_lock().unwrap();
    let waiting = |words: &[&str]| {
        let mut command = program(place.path());
        let mut child = command
            .args(words)
            .args(["--data", "data"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = String::new();
        BufReader::new(child.stderr.as_mut().unwrap())
            .read_line(&mut told)
            .unwrap();
        assert!(
            told.starts_with("overkeep: waiting for the process"),
            "{words:?}: {told}"
        );
        child
    };
    let commands = [
        &["list", "services", "-o", "yaml"][..],
        &["admin", "list"],
        &["explain", "dial", "Default Admin", &service],
    ];
    let all = commands.map(waiting);
    symlink(
        server.data().with_file_name("data.sock"),
        place.path().join("data.sock"),
    )
    .unwrap();
    let [listed, administrators, explained] =
        all.map(|one| Ran::of("waiting".into(), one.wait_with_output().unwrap()));
    assert!(listed.good().contains(&service) && administrators.good().contains("Default Admin"));
    assert_eq!(explained.status, 3, "{}", explained.err);
    // Nobody answers, and nobody holds the file any more.
    fs::remove_file(place.path().join("data.sock")).unwrap();
    let left = waiting(&["list", "services"]);
    drop(held);
    Ran::of("left".into(), left.wait_with_output().unwrap()).bad(1, &["no controller answers"]);
}
