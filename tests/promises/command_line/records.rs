//! Commands that read and write records.

use super::*;

#[test]
fn records_are_made_changed_and_deleted() {
    let server = &TestServer::start();
    let [name, role] = ["alice", "sales"].map(fresh);
    let id = on_host(
        server,
        &[
            "create",
            "identity",
            &name,
            "--role",
            &format!("{role},b"),
            "--tags",
            "team=x",
        ],
    )
    .good();
    let record = on_host(server, &["show", "identity", &name, "-o", "json"]).json();
    assert_eq!((&record["id"], &record["name"]), (&json!(id), &json!(name)));
    assert_eq!(
        (&record["roleAttributes"], &record["tags"]),
        (&json!(["b", role]), &json!({ "team": "x" }))
    );
    on_host(
        server,
        &["update", "identity", &name, "--external-id", "from outside"],
    )
    .good();
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["externalId"],
        "from outside"
    );
    let filter = format!("name = \"{name}\"");
    assert_eq!(
        on_host(
            server,
            &["list", "identities", "--filter", &filter, "-o", "name"]
        )
        .good(),
        name
    );
    assert_eq!(
        on_host(
            server,
            &["list", "identities", "--filter", &filter, "-o", "json"]
        )
        .json()[0]["id"],
        id
    );
    assert!(
        on_host(
            server,
            &["list", "identities", "--filter", &filter, "-o", "yaml"]
        )
        .good()
        .contains(&format!("id: {id}"))
    );
    let table = on_host(server, &["list", "identities", "--filter", &filter]).good();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        matches!(lines.as_slice(), [head, row] if head.starts_with("ID") && row.starts_with(&id) && row.contains(&name)),
        "{table}"
    );
    assert_eq!(on_host(server, &["delete", "identity", &name]).good(), "");
    server.admin.get(&format!("/identities/{id}")).expect(404);
}

#[test]
fn names_stand_for_ids() {
    let server = &TestServer::start();
    let [who, what, policy, kind, config] = ["who", "what", "policy", "kind", "config"].map(fresh);
    let who_id = on_host(server, &["create", "identity", &who]).good();
    on_host(server, &["create", "config-type", &kind]).good();
    on_host(
        server,
        &[
            "create",
            "config",
            &config,
            "--config-type-id",
            &kind,
            "--member-data",
            "{\"a\":1}",
        ],
    )
    .good();
    let what_id = on_host(server, &["create", "service", &what, "--configs", &config]).good();
    let roles = [format!("@{who}"), format!("@{what}")];
    let line = [
        "create",
        "sp",
        &policy,
        "--type",
        "Dial",
        "--identity-roles",
        &roles[0],
        "--service-roles",
        &roles[1],
    ];
    let id = on_host(server, &line).good();
    let stored = server
        .admin
        .get(&format!("/service-policies/{id}"))
        .expect(200);
    assert_eq!(
        stored.data()["identityRoles"],
        json!([format!("@{who_id}")])
    );
    assert_eq!(
        stored.data()["serviceRoles"],
        json!([format!("@{what_id}")])
    );
    let service = server
        .admin
        .get(&format!("/services/{what_id}"))
        .expect(200);
    assert_eq!(service.data()["configs"].as_array().unwrap().len(), 1);
    assert_eq!(service.data()["encryptionRequired"], true);
    assert_eq!(
        on_host(
            server,
            &["list", "identity", "services", &who, "-o", "name"]
        )
        .good(),
        what
    );
    let advice = on_host(
        server,
        &[
            "show",
            "identity",
            "policy-advice",
            &who,
            &what,
            "-o",
            "json",
        ],
    )
    .json();
    assert_eq!(advice["serviceId"], what_id);
    on_host(
        server,
        &["disable", "identity", &who, "--duration-minutes", "0"],
    )
    .good();
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{who_id}"))
            .expect(200)
            .data()["disabled"],
        true
    );
    on_host(server, &["enable", "identity", &who]).good();
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{who_id}"))
            .expect(200)
            .data()["disabled"],
        false
    );
}

#[test]
fn enrollment_prints_the_token() {
    let server = &TestServer::start();
    let name = fresh("enrolling");
    let token = on_host(server, &["create", "identity", &name, "--enroll", "ott"]).good();
    let identity = on_host(server, &["show", "identity", &name, "-o", "json"]).json();
    assert_eq!(identity["enrollment"]["ott"]["jwt"], token);
    let router = fresh("router");
    let token = on_host(server, &["create", "er", &router, "--jwt"]).good();
    assert_eq!(token.split('.').count(), 3);
    on_host(
        server,
        &["create", "identity", &fresh("x"), "--enroll", "magic"],
    )
    .bad(2, &["--enroll", "ott"]);
}

#[test]
fn previews_show_and_change_nothing() {
    let server = &TestServer::start();
    let [who, what, role] = ["who", "what", "role"].map(fresh);
    on_host(server, &["create", "identity", &who, "--role", &role]).good();
    on_host(server, &["create", "service", &what, "--role", &role]).good();
    let roles = format!("#{role}");
    let name = fresh("policy");
    let make = [
        "create",
        "service-policy",
        &name,
        "--type",
        "Dial",
        "--identity-roles",
        &roles,
        "--service-roles",
        &roles,
    ];
    let seen = on_host(server, &[make.as_slice(), &["--preview"]].concat()).good();
    assert!(
        seen.contains(&format!("gains: {who} may dial {what} (1 in all)"))
            && seen.contains("nothing was changed"),
        "{seen}"
    );
    on_host(server, &["show", "service-policy", &name]).bad(1, &["service-policy", &name]);
    on_host(server, &make).good();
    let seen = on_host(server, &["delete", "service-policy", &name, "--preview"]).good();
    assert!(
        seen.contains(&format!("loses: {who} may dial {what} (1 in all)")),
        "{seen}"
    );
    let seen = on_host(
        server,
        &[
            "update",
            "identity",
            &who,
            "--role-attributes",
            "",
            "--preview",
        ],
    )
    .good();
    assert!(seen.contains("loses"), "{seen}");
    let seen = on_host(
        server,
        &[
            "disable",
            "identity",
            &who,
            "--duration-minutes",
            "5",
            "--preview",
        ],
    )
    .good();
    assert!(
        seen.contains(&format!("loses: {who} may dial {what} (1 in all)")),
        "{seen}"
    );
    let expires = "2100-01-01T00:00:00.000Z";
    let seen = on_host(
        server,
        &[
            "create",
            "enrollment",
            "--identity-id",
            &who,
            "--method",
            "ott",
            "--expires-at",
            expires,
            "--preview",
        ],
    );
    assert_eq!(
        seen.good(),
        "nobody gains or loses access\nnothing was changed"
    );
    on_host(server, &["show", "service-policy", &name]).good();
}

#[test]
fn refusals_name_the_member() {
    let server = &TestServer::start();
    let name = fresh("twice");
    on_host(server, &["create", "service", &name]).good();
    on_host(server, &["create", "service", &name]).bad(1, &["name"]);
    on_host(server, &["create", "service-policy", &fresh("p")]).bad(1, &["type"]);
    on_host(server, &["create", "service", "x", "--no-such-member", "1"])
        .bad(2, &["--no-such-member"]);
    on_host(server, &["create", "service-policy", "x", "--type", "Dail"]).bad(2, &["Dail", "Dial"]);
    on_host(
        server,
        &["create", "service", "x", "--max-idle-time-millis", "soon"],
    )
    .bad(2, &["soon"]);
    on_host(server, &["delete", "service", "no such service"])
        .bad(1, &["service", "no such service"]);
    on_host(server, &["list", "services", "--filter", "name ="]).bad(1, &[]);
    let nowhere = tempfile::TempDir::new().unwrap();
    let output = program(nowhere.path())
        .args(["list", "services", "--data", "none"])
        .output()
        .unwrap();
    Ran::of("nowhere".into(), output).bad(1, &["no controller answers", "none.sock"]);
}

#[test]
fn bodies_come_from_files() {
    let server = &TestServer::start();
    let [name, other] = ["from-a-file", "flags-win"].map(fresh);
    let file = server.data().with_file_name(format!("{name}.json"));
    std::fs::write(
        &file,
        json!({ "name": name, "encryptionRequired": false, "roleAttributes": ["r"] }).to_string(),
    )
    .unwrap();
    let file = file.to_str().unwrap().to_owned();
    let id = on_host(server, &["create", "service", "--json", &file]).good();
    let stored = server.admin.get(&format!("/services/{id}")).expect(200);
    assert_eq!(
        (
            &stored.data()["encryptionRequired"],
            &stored.data()["roleAttributes"]
        ),
        (&json!(false), &json!(["r"]))
    );
    let id = on_host(
        server,
        &[
            "create",
            "service",
            &other,
            "--json",
            &file,
            "--encryption-required",
        ],
    )
    .good();
    let stored = server.admin.get(&format!("/services/{id}")).expect(200);
    assert_eq!(
        (&stored.data()["encryptionRequired"], &stored.data()["name"]),
        (&json!(true), &json!(other))
    );
    std::fs::write(
        &file,
        json!({ "name": fresh("x"), "encryptionRequired": true, "colour": 1 }).to_string(),
    )
    .unwrap();
    on_host(server, &["create", "service", "--json", &file]).bad(1, &["colour"]);
}

#[test]
fn secrets_shown_once_are_printed() {
    let server = &TestServer::start();
    let made = on_host(server, &["create", "api-token", "ci", "--actions", "read"]).good();
    let token = made
        .lines()
        .find_map(|line| line.strip_prefix("token: "))
        .unwrap_or_else(|| panic!("{made}"));
    assert!(made.contains("id: ") && token.len() > 40, "{made}");
}
