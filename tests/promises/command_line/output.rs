//! What commands print.

use super::*;

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
