//! `overkeep --help`: the commands in groups, those of the operations under their nouns.

use std::collections::BTreeMap;

use clap::Command;

use super::api::grammar::{Grammar, INTERFACES};

/// The width of the lines about nouns, in characters.
const WIDTH: usize = 100;
/// The room for a noun or command.
const NAMES: usize = 28;

/// The groups of the program's own commands. A command that is in none stands under [`OTHERS`].
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Controller of this host",
        &["run", "admin", "pki", "doctor", "passphrase"],
    ),
    (
        "Endpoint of a network",
        &["enroll", "forward", "host", "test", "status"],
    ),
    ("Log-in to a controller", &["login", "logout", "context"]),
    ("Usual tasks", &["publish", "unpublish", "invite"]),
    (
        "Questions about the network",
        &["explain", "history", "expiring", "online", "sessions"],
    ),
    (
        "The network as a file",
        &["export", "plan", "apply", "import"],
    ),
    (
        "Data file",
        &["snapshot", "drill", "restore", "check", "repair", "compact"],
    ),
    ("Shell", &["completions", "man", "help"]),
];
const OTHERS: &str = "Other commands";

/// The command with help in groups.
pub(super) fn grouped(command: Command, grammar: &Grammar) -> Command {
    let text = groups(&command, grammar);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}\nOptions:\n{{options}}"
    ))
}

fn groups(command: &Command, grammar: &Grammar) -> String {
    let (mut text, mut told) = (String::new(), Vec::new());
    for (title, names) in GROUPS {
        let commands: Vec<&Command> = names
            .iter()
            .filter_map(|name| command.find_subcommand(name))
            .collect();
        told.extend(commands.iter().map(|command| command.get_name()));
        text += &group(title, &commands);
    }
    let verbs: Vec<&str> = grammar
        .operations
        .iter()
        .map(|operation| operation.verb.as_str())
        .collect();
    let is_other =
        |name: &str| !told.contains(&name) && !verbs.contains(&name) && !INTERFACES.contains(&name);
    let others: Vec<&Command> = command
        .get_subcommands()
        .filter(|command| is_other(command.get_name()) && !command.is_hide_set())
        .collect();
    if !others.is_empty() {
        text += &group(OTHERS, &others);
    }
    text += "Records, as overkeep VERB NOUN, such as overkeep list identities (overkeep VERB NOUN --help says more):\n";
    for (noun, verbs) in nouns(grammar) {
        let own = command.get_subcommands().map(Command::get_name);
        let reserved: Vec<&str> = own.filter(|name| told.contains(name)).collect();
        let verbs: Vec<&str> = verbs
            .into_iter()
            .filter(|verb| !reserved.contains(verb))
            .collect();
        // A single verb says no more than the command of the same name in a group above.
        let is_told = told.contains(&noun.as_str()) && verbs.len() == 1;
        if !verbs.is_empty() && !is_told {
            text += &wrapped(&noun, &verbs.join(", "));
        }
    }
    let interfaces: Vec<&Command> = INTERFACES
        .iter()
        .filter_map(|name| command.find_subcommand(name))
        .collect();
    text + "\n"
        + &group(
            "The same for one interface, where several have the noun",
            &interfaces,
        )
}

/// A title, and a line for each command.
fn group(title: &str, commands: &[&Command]) -> String {
    let mut text = format!("{title}:\n");
    for command in commands {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let first = about
            .split(". ")
            .next()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned();
        text += &wrapped(command.get_name(), &first);
    }
    text + "\n"
}

/// The verbs of each noun, in the order of the tables.
fn nouns(grammar: &Grammar) -> BTreeMap<String, Vec<&str>> {
    let mut nouns: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for operation in &grammar.operations {
        let Some(noun) = operation.nouns.first() else {
            continue;
        };
        let verbs = nouns.entry(noun.clone()).or_default();
        if !verbs.contains(&operation.verb.as_str()) {
            verbs.push(&operation.verb);
        }
    }
    nouns
}

/// A name, and words beside it in as many lines as they need.
fn wrapped(name: &str, words: &str) -> String {
    let mut lines = vec![format!("  {name:NAMES$}")];
    for word in words.split(' ') {
        let line = lines
            .last_mut()
            .map(|line| line.chars().count())
            .unwrap_or_default();
        if line + 1 + word.chars().count() > WIDTH && line > NAMES + 2 {
            lines.push(" ".repeat(NAMES + 2));
        }
        if let Some(line) = lines.last_mut() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}
