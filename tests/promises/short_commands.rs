//! The short commands of the program, after a log-in as on the host: explain, history, roles one at
//! a time, columns, help.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use overkeep::testing::cli::api::output;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{TestServer, fresh},
};

/// A directory with a log-in to a controller, and without a data file.
struct LoggedIn {
    home: TempDir,
}

impl LoggedIn {
    fn to(server: &TestServer) -> Self {
        let home = TempDir::new().unwrap();
        fs::write(home.path().join("password"), &server.password).unwrap();
        let one = Self { home };
        // The scheme of an address has no case.
        one.run(&[
            "login",
            &format!("HTTPS://{}/", server.bound()),
            "--password-file",
            "password",
            "--yes",
        ])
        .good();
        one
    }

    fn run(&self, words: &[&str]) -> Ran {
        Ran::of(
            words.join(" "),
            program(self.home.path())
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Runs a command as a shell reads it.
    fn typed(&self, line: &str) -> Ran {
        let mut shell =
            crate::command_line::isolated(std::process::Command::new("sh"), self.home.path());
        let directory = Path::new(env!("CARGO_BIN_EXE_overkeep"))
            .parent()
            .unwrap()
            .to_owned();
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        Ran::of(
            line.to_owned(),
            shell
                .env("PATH", path)
                .args(["-c", line])
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }
}

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
fn history_is_listed_for_people() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let [name, service, policy] = ["alice", "web", "policy"].map(fresh);
    server.user(&name, json!({}));
    there.run(&["create", "service", &service]).good();
    there
        .run(&[
            "update",
            "service",
            &service,
            "--role-attributes",
            "databases",
        ])
        .good();
    there
        .run(&[
            "create",
            "service-policy",
            &policy,
            "--type",
            "Dial",
            "--identity-roles",
            &format!("@{name}"),
            "--service-roles",
            "#databases",
        ])
        .good();
    for _ in 0..3 {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": name, "password": "not this one" }),
            )
            .expect(401);
    }
    // The access of a change is written a moment later.
    let listed = (0..100).find_map(|_| {
        let listed = there.run(&["history", "list"]).good();
        if listed.contains("changed access") {
            return Some(listed);
        }
        thread::sleep(Duration::from_millis(100));
        None
    });
    let listed = listed.expect("the change of access");
    assert!(
        listed.contains(&format!("create service {service}\n")),
        "{listed}"
    );
    assert!(
        listed.contains(&format!(
            "update service {service}\n    roleAttributes: none -> databases"
        )),
        "{listed}"
    );
    assert!(
        listed.contains(&format!(
            "refused password of {name}, with the user name {name}"
        )),
        "{listed}"
    );
    assert!(
        listed.contains(&format!(
            "changed access: service policy {policy}\n    gains: {name} may dial {service}"
        )),
        "{listed}"
    );
    assert!(
        listed.contains("  Default Admin from 127.0.0.1  "),
        "{listed}"
    );
    let of_service = there.run(&["history", "list", &service]).good();
    assert!(
        of_service
            .lines()
            .filter(|line| !line.starts_with(' '))
            .all(|line| line.contains(&service)),
        "{of_service}"
    );
    let one = there
        .run(&["history", "list", "--limit", "1", "--json"])
        .json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(
        there
            .run(&["history", "list", "--filter", "name = \"nothing\""])
            .good(),
        "no rows"
    );
    assert_eq!(
        on_host(&server, &["history", "list", &service]).good(),
        of_service
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
fn columns_of_tables_are_chosen() {
    let server = TestServer::start();
    let [name, service] = ["alice", "web"].map(fresh);
    server.identity(
        &name,
        json!({ "roleAttributes": ["a-role-whose-name-is-longer-than-any-cell-of-a-table", "b"] }),
    );
    server.service(&service, json!({}));
    server.service_policy("Dial", &["#a"], &[]);
    let listed = on_host(
        &server,
        &[
            "list",
            "identities",
            "--columns",
            "name,isAdmin,role-attributes,authPolicy.name,type-id",
        ],
    )
    .good();
    let (head, rows) = listed.split_once('\n').unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        [
            "NAME",
            "IS-ADMIN",
            "ROLE-ATTRIBUTES",
            "AUTH-POLICY.NAME",
            "TYPE-ID"
        ]
    );
    let row = rows.lines().find(|row| row.starts_with(&name)).unwrap();
    assert!(
        row.contains("false")
            && row.contains("than-any-cell-of-a-table,b")
            && row.ends_with("Default"),
        "{row}"
    );
    assert_eq!(
        on_host(&server, &["list", "services", "--columns", "name"]).good(),
        format!("NAME\n{service}")
    );
    on_host(&server, &["list", "services", "--columns", "nmae"])
        .bad(2, &["--columns", "nmae", "encryptionRequired"]);
    on_host(
        &server,
        &["list", "services", "--columns", "name", "-o", "json"],
    )
    .bad(2, &["--columns", "--output"]);
    on_host(&server, &["show", "service", &service, "--columns", "name"]).bad(2, &["--columns"]);
}

#[test]
fn circuits_show_both_ends() {
    let end = |name: &str| json!({ "identity": { "id": "VbeD75dLZ", "name": name }, "apiSessionId": "cmwqyb8oe0xq2v0pgh3jiu0tp", "sentBytes": 5 });
    let circuits = json!([{
        "id": "Wq4cJ7x2t", "service": { "id": "0351eqC7o453ghcp597P5O", "name": "database" }, "terminatorId": "4yqDCYRYD0o4vLvdzXCF3Y",
        "since": "2026-11-21T22:29:56.871Z", "client": end("alice-phone"), "host": end("db-server"), "routers": [{ "id": "x", "name": "edge" }],
        "links": []
    }]);
    let table = output::table(&circuits, Some(80), &[]);
    let (head, row) = table.split_once('\n').unwrap();
    for (heading, cell) in [
        ("SERVICE", "database"),
        ("CLIENT", "alice-phone"),
        ("HOST", "db-server"),
        ("SINCE", "2026-11-21T22:29:56.871Z"),
    ] {
        assert!(
            head.contains(heading) && head.find(heading) == row.find(cell),
            "{table}"
        );
    }
}

#[test]
fn help_stands_in_groups() {
    let home = TempDir::new().unwrap();
    let help = Ran::of(
        "--help".into(),
        program(home.path()).arg("--help").output().unwrap(),
    )
    .good();
    let place = |words: &str| {
        help.find(words)
            .unwrap_or_else(|| panic!("{words}: {help}"))
    };
    let order = [
        "Controller of this host:\n",
        "\n  run ",
        "Log-in to a controller:\n",
        "\n  login ",
        "Data file:\n",
        "\n  compact ",
        "Records",
    ];
    assert!(
        order.windows(2).all(|pair| place(pair[0]) < place(pair[1])),
        "{help}"
    );
    let listed: String = help
        .get(place("\n  identities ")..)
        .unwrap()
        .chars()
        .take(600)
        .collect();
    assert!(
        ["list", "create", "delete", "enable"]
            .iter()
            .all(|verb| listed.contains(verb)),
        "{listed}"
    );
    assert!(
        help.contains("Options:\n") && help.contains("--version"),
        "{help}"
    );
    assert!(
        help.lines().all(|line| line.chars().count() <= 160),
        "{help}"
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
        let at = overkeep::testing::clock::Timestamp::from(at).to_string();
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
