//! Tables that commands print.

use super::*;

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
