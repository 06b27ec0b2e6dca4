//! The commands made from the route tables.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use overkeep::testing::{
    admin_socket::{request, socket},
    cli::api,
    http::{Interfaces, LocalPart, LocalRequest},
};
use serde_json::{Value as Json, json};

use crate::harness::{TestServer, fresh};

/// The result of a command.
pub struct Ran {
    line: String,
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(line: String, output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            line,
            status: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    pub fn good(self) -> String {
        assert_eq!(self.status, 0, "{}: {} {}", self.line, self.out, self.err);
        self.out.trim_end().to_owned()
    }

    pub fn json(self) -> Json {
        serde_json::from_str(&self.good()).unwrap()
    }

    /// Asserts a status, one line on stderr with these words, and no output.
    pub fn bad(self, status: i32, words: &[&str]) {
        assert_eq!(
            self.status, status,
            "{}: {} {}",
            self.line, self.out, self.err
        );
        assert!(
            words.iter().all(|word| self.err.contains(word)),
            "{}: {}",
            self.line,
            self.err
        );
        assert_eq!(self.out, "", "{}", self.line);
    }
}

/// The program with a home directory of its own and no variables.
pub fn program(home: &Path) -> Command {
    isolated(Command::new(env!("CARGO_BIN_EXE_overkeep")), home)
}

/// A command with an environment without variables of the program.
pub fn isolated(mut command: Command, home: &Path) -> Command {
    std::env::vars()
        .filter(|(name, _)| name.starts_with("OVERKEEP_"))
        .for_each(|(name, _)| {
            command.env_remove(name);
        });
    command
        .env("XDG_CONFIG_HOME", home)
        .env_remove("COLUMNS")
        .current_dir(home);
    command
}

/// Runs a command against a controller over its admin socket, with further variables.
pub fn on_host_with(server: &TestServer, variables: &[(&str, &str)], words: &[&str]) -> Ran {
    let data = server.data();
    let mut program = program(data.parent().unwrap());
    let output = program
        .env("OVERKEEP_DATA", &data)
        .envs(variables.iter().copied())
        .args(words)
        .output()
        .unwrap();
    Ran::of(words.join(" "), output)
}

/// Runs a command against a controller over its admin socket.
pub fn on_host(server: &TestServer, words: &[&str]) -> Ran {
    let data = server.data();
    let output = program(data.parent().unwrap())
        .env("OVERKEEP_DATA", &data)
        .args(words)
        .output()
        .unwrap();
    Ran::of(words.join(" "), output)
}

/// A command line for an operation, with values for path parameters and required members.
fn line_of(
    command: &clap::Command,
    prefix: Option<&str>,
    operation: &api::grammar::Operation,
) -> Vec<String> {
    let mut line: Vec<String> = std::iter::once("overkeep")
        .chain(prefix)
        .map(str::to_owned)
        .collect();
    let mut at = command;
    if let Some(word) = prefix {
        at = at.find_subcommand(word).unwrap();
    }
    for word in std::iter::once(&operation.verb).chain(&operation.nouns) {
        at = at
            .find_subcommand(word)
            .unwrap_or_else(|| panic!("{word} of {operation:?}"));
        line.push(word.clone());
    }
    for arg in at.get_arguments().filter(|arg| arg.is_required_set()) {
        line.extend(arg.get_long().map(|flag| format!("--{flag}")));
        let words = arg.get_possible_values();
        line.push(words.first().map_or("x", |word| word.get_name()).to_owned());
    }
    line
}

#[test]
fn every_operation_has_a_command() {
    let grammar = api::grammar().unwrap();
    let command = api::command(clap::Command::new("overkeep"), &grammar, None);
    command.clone().debug_assert();
    let interfaces = Interfaces::new().unwrap();
    let tables = [
        &interfaces.management,
        &interfaces.overkeep,
        &interfaces.fabric,
        &interfaces.client,
    ];
    let mut reached = 0;
    for (name, table) in api::grammar::INTERFACES.into_iter().zip(tables) {
        for row in table.rows() {
            let same = |one: &&api::grammar::Operation| {
                one.interface == name && one.method == row.method && one.path == row.path
            };
            let operation = grammar.operations.iter().find(same).unwrap();
            let line = line_of(&command, Some(name), operation);
            let matches = command
                .clone()
                .try_get_matches_from(&line)
                .unwrap_or_else(|error| panic!("{line:?}: {error}"));
            let (meant, _) = api::chosen_operation(&grammar, &matches).unwrap();
            assert_eq!(
                (meant.interface, meant.method, &meant.path),
                (name, row.method, &row.path),
                "{line:?}"
            );
            reached += 1;
        }
    }
    let rows: usize = tables.iter().map(|table| table.rows().count()).sum();
    assert_eq!(reached, rows);
    assert!(rows > 270, "{rows}");
}

#[test]
fn short_forms_mean_the_first_interface() {
    let grammar = api::grammar().unwrap();
    let mut first = BTreeMap::new();
    for operation in &grammar.operations {
        first
            .entry((operation.verb.clone(), operation.nouns.clone()))
            .or_insert(operation);
    }
    let mut commands = BTreeMap::new();
    for operation in first.into_values() {
        // As the program does, with the commands of one verb only.
        let of_verb = || {
            api::command(
                clap::Command::new("overkeep"),
                &grammar,
                Some(&operation.verb),
            )
        };
        let command = commands.entry(&operation.verb).or_insert_with(of_verb);
        assert_eq!(command.get_subcommands().count(), 1, "{}", operation.verb);
        let line = line_of(command, None, operation);
        let matches = command
            .clone()
            .try_get_matches_from(&line)
            .unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let (meant, _) = api::chosen_operation(&grammar, &matches).unwrap();
        assert_eq!(
            (meant.interface, meant.method, &meant.path),
            (operation.interface, operation.method, &operation.path),
            "{line:?}"
        );
    }
}

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
fn the_host_is_the_author() {
    let server = &TestServer::start();
    let id = on_host(server, &["create", "service", &fresh("by-the-host")]).good();
    let rows = on_host(
        server,
        &[
            "list",
            "history",
            "--filter",
            &format!("id = \"{id}\""),
            "-o",
            "json",
        ],
    )
    .json();
    assert_eq!(rows[0]["by"]["who"], "local", "{rows}");
    assert!(rows[0]["by"]["session"].is_null());
}

#[test]
fn a_log_in_reaches_it_elsewhere() {
    let server = TestServer::start();
    let home = tempfile::TempDir::new().unwrap();
    let url = format!("https://{}", server.bound());
    let run = |words: &[&str]| {
        Ran::of(
            words.join(" "),
            program(home.path())
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    };
    let file = home.path().join("password");
    std::fs::write(&file, &server.password).unwrap();
    let login = ["login", &url, "--password-file", "password"];
    let with = |more: &[&str]| run(&[login.as_slice(), more].concat());
    let context = home.path().join("overkeep/contexts.json");

    with(&[]).bad(1, &["fingerprint", "--fingerprint"]);
    with(&["--fingerprint", &"ab".repeat(32)]).bad(1, &["another fingerprint"]);
    run(&["login", "http://localhost", "--yes"]).bad(2, &["https://"]);
    assert!(!context.exists());
    let told = with(&["--yes"]).good();
    let print = told
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("authority: "))
        .unwrap()
        .to_owned();
    assert_eq!(
        std::fs::metadata(&context).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        !std::fs::read_to_string(&context)
            .unwrap()
            .contains(&server.password)
    );

    let name = fresh("from-elsewhere");
    let id = run(&["create", "service", &name]).good();
    assert_eq!(
        run(&["show", "service", &name, "-o", "json"]).json()["id"],
        id
    );
    run(&["create", "service", &name]).bad(1, &["name"]);
    let rows = run(&[
        "list",
        "history",
        "--filter",
        &format!("id = \"{id}\""),
        "-o",
        "json",
    ])
    .json();
    assert_eq!(rows[0]["by"]["who"], "identity");
    assert!(run(&["logout"]).good().contains("logged out"));
    assert!(!std::fs::read_to_string(&context).unwrap().contains("token"));
    run(&["logout"]).bad(1, &["there is no login"]);
    run(&["list", "services"]).bad(1, &["no controller answers"]);

    with(&["--fingerprint", &print.to_lowercase()]).good();
    let other = crate::harness::Authority::new("somebody else");
    std::fs::write(home.path().join("other.pem"), other.pem()).unwrap();
    with(&["--ca", "other.pem"]).bad(1, &["certificate"]);
    run(&["list", "services"]).good();
    std::fs::write(&file, "not the password").unwrap();
    with(&["--yes"]).bad(1, &[]);
    let stored: Json = serde_json::from_str(&std::fs::read_to_string(&context).unwrap()).unwrap();
    let token = stored["contexts"][server.bound().to_string()]["token"].clone();
    server
        .admin
        .with_token(token.as_str().unwrap())
        .ask("DELETE", "/current-api-session")
        .send()
        .expect(200);
    run(&["list", "services"]).bad(1, &["overkeep login"]);
}

#[test]
fn large_and_foreign_requests_are_refused() {
    let server = TestServer::start();
    let socket = socket::beside(&server.data());
    let ask = |request: LocalRequest| {
        let (mut head, mut body) = (0, Vec::new());
        let told = request::ask(&socket, request, &mut |part| {
            match part {
                LocalPart::Head { status, .. } => head = status,
                LocalPart::Piece(piece) => body.extend(piece),
            }
            Ok(())
        });
        told.unwrap().unwrap();
        (head, String::from_utf8(body).unwrap())
    };
    let get = |path: &str| LocalRequest {
        method: "GET".into(),
        path: path.into(),
        ..LocalRequest::default()
    };
    assert_eq!(ask(get("/edge/management/v1/services")).0, 200);
    assert_eq!(ask(get("/edge/management/v1/nothing")).0, 404);
    assert_eq!(
        ask(LocalRequest {
            method: "DELETE".into(),
            ..get("/edge/management/v1/services")
        })
        .0,
        405
    );
    let json = vec![("content-type".to_owned(), "application/json".to_owned())];
    let post = |body: String| LocalRequest {
        method: "POST".into(),
        headers: json.clone(),
        body,
        ..get("/edge/management/v1/services")
    };
    assert_eq!(ask(post(" ".repeat((1 << 20) + 1))).0, 413);
    assert_eq!(ask(post("{".into())).0, 400);
    assert_eq!(
        ask(LocalRequest {
            headers: Vec::new(),
            ..post("{}".into())
        })
        .0,
        400
    );
    let strict = |query: &str| LocalRequest {
        query: query.into(),
        ..get("/edge/management/v1/services")
    };
    assert_eq!(
        (
            ask(strict("nothing=1")).0,
            ask(strict("nothing=1&strict=true")).0
        ),
        (200, 400)
    );
    let header = vec![("no header".to_owned(), "x".to_owned())];
    assert_eq!(
        ask(LocalRequest {
            headers: header,
            ..get("/edge/management/v1/services")
        })
        .0,
        400
    );
    assert!(
        request::ask(&socket, post("x".repeat(17 << 20)), &mut |_| Ok(()))
            .unwrap()
            .is_err()
    );
    assert_eq!(ask(get("/edge/management/v1/services")).0, 200);
}

#[test]
fn lists_are_whole_and_fit() {
    let server = TestServer::start();
    for n in 0..501 {
        server.service(
            &format!("a service with a rather long name {n:04}"),
            json!({ "roleAttributes": ["some-role", "some-other-role"] }),
        );
    }
    let names = on_host(&server, &["list", "services", "-o", "name"]).good();
    assert_eq!(names.lines().count(), 501);
    let some = on_host(
        &server,
        &[
            "list",
            "services",
            "--limit",
            "3",
            "--sort",
            "name desc",
            "-o",
            "name",
        ],
    )
    .good();
    assert_eq!(
        some.lines().next(),
        Some("a service with a rather long name 0500")
    );
    assert_eq!(some.lines().count(), 3);
    let data = server.data();
    let narrow = program(data.parent().unwrap())
        .env("OVERKEEP_DATA", &data)
        .env("COLUMNS", "80")
        .args(["list", "services"])
        .output();
    let narrow = Ran::of("narrow".into(), narrow.unwrap()).good();
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 80),
        "{narrow}"
    );
    assert!(narrow.lines().next().unwrap().contains("NAME"));
}

#[test]
fn table_cells_stand_below_headings() {
    let server = &TestServer::start();
    on_host(
        server,
        &[
            "create",
            "service-policy",
            "p",
            "--type",
            "Dial",
            "--identity-roles",
            "#sales",
            "--service-roles",
            "#db",
        ],
    )
    .good();
    let table = on_host(server, &["list", "service-policies"]).good();
    let (head, row) = table.split_once('\n').unwrap();
    let headings: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(
        headings,
        [
            "ID",
            "NAME",
            "TYPE",
            "SEMANTIC",
            "IDENTITY-ROLES",
            "SERVICE-ROLES"
        ]
    );
    for (heading, cell) in [
        ("NAME", "p "),
        ("TYPE", "Dial "),
        ("SEMANTIC", "AllOf "),
        ("IDENTITY-ROLES", "#sales "),
        ("SERVICE-ROLES", "#db"),
    ] {
        assert_eq!(head.find(heading), row.rfind(cell), "{table}");
    }
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

#[test]
fn help_says_what_documents_say() {
    let server = &TestServer::start();
    let help = on_host(server, &["create", "service-policy", "--help"]).good();
    assert!(
        help.contains("--identity-roles") && help.contains("possible values: Dial, Bind"),
        "{help}"
    );
    let top = on_host(server, &["--help"]).good();
    assert!(
        ["run", "list", "create", "disable", "re-enroll", "fabric"]
            .iter()
            .all(|word| top.contains(word)),
        "{top}"
    );
    assert!(overkeep_commands_are_kept(&top));
}

/// The program's own `snapshot` copies the file; the operation of the management interface needs
/// the name of the interface.
fn overkeep_commands_are_kept(top: &str) -> bool {
    top.lines()
        .filter(|line| line.trim_start().starts_with("snapshot "))
        .count()
        == 1
}
