//! The clap commands of the operations, built only when a command line needs them.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, ArgAction, Command, builder::PossibleValuesParser, value_parser};
use model::entity::{kebab, plural, singular};
use serde_json::Value as Json;

use super::{
    completion,
    grammar::{Grammar, INTERFACES, Operation},
    members::{self, Member},
    names, roles,
};

/// Established short names of kinds whose paths have other names.
const ALIASES: [(&str, &str); 1] = [("external-jwt-signer", "ext-jwt-signer")];
const FORMATS: [&str; 4] = ["table", "json", "yaml", "name"];
/// The output format that prints the configuration file of each record in an answer.
pub(crate) const CONFIGURATION: &str = "config";

/// One-word commands for frequent requests, each with the words that it stands for.
const SHORTCUTS: [(&str, [&str; 2]); 2] = [
    ("online", ["list", "online"]),
    ("sessions", ["list", "api-sessions"]),
];

/// A word of a command line: the operation it completes, and the words that can follow it.
#[derive(Default)]
struct Word<'g> {
    operation: Option<&'g Operation>,
    next: BTreeMap<String, Word<'g>>,
}

/// The commands of the operations whose command line begins with `first`; of all operations if none
/// does. `reserved` are the program's own commands, which a verb does not replace.
pub(crate) fn commands(
    grammar: &Grammar,
    reserved: &[String],
    first: Option<&str>,
) -> Vec<Command> {
    let mut top = Word::default();
    for operation in &grammar.operations {
        if !reserved.contains(&operation.verb) {
            top.insert_command(operation);
        }
    }
    let is_shortcut = |word: &str| SHORTCUTS.iter().any(|(shortcut, _)| *shortcut == word);
    let first = first.filter(|first| {
        top.next.contains_key(*first) || is_shortcut(first) || INTERFACES.contains(first)
    });
    let is_begun = |word: &str| first.is_none_or(|first| first == word);
    let begun = top.next.iter().filter(|(verb, _)| is_begun(verb));
    let mut commands: Vec<Command> = begun
        .map(|(verb, word)| word.command(grammar, verb, verb, true))
        .collect();
    for (word, full) in SHORTCUTS.into_iter().filter(|(word, _)| is_begun(word)) {
        let only = Word {
            operation: chosen(grammar, &full),
            next: BTreeMap::new(),
        };
        commands.push(only.command(grammar, word, word, true));
    }
    for interface in INTERFACES
        .into_iter()
        .filter(|interface| is_begun(interface))
    {
        let mut words = Word::default();
        for operation in grammar
            .operations
            .iter()
            .filter(|operation| operation.interface == interface)
        {
            words.insert_command(operation);
        }
        let below = words
            .next
            .iter()
            .map(|(verb, word)| word.command(grammar, verb, verb, true));
        let about = format!("The same commands, only for operations of the {interface} interface");
        commands.push(
            Command::new(interface)
                .about(about)
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommands(below),
        );
    }
    commands
}

/// The operation of the chosen subcommands.
pub(crate) fn chosen<'g>(grammar: &'g Grammar, words: &[&str]) -> Option<&'g Operation> {
    let full = SHORTCUTS
        .iter()
        .find(|(word, _)| words == [*word])
        .map(|(_, full)| full.as_slice());
    let words = full.unwrap_or(words);
    let (interface, words) = match words.split_first() {
        Some((first, rest)) if INTERFACES.contains(first) => (Some(*first), rest),
        _ => (None, words),
    };
    let (verb, nouns) = words.split_first()?;
    let same = |operation: &&Operation| {
        interface.is_none_or(|name| name == operation.interface)
            && operation.verb == *verb
            && operation.nouns.len() == nouns.len()
            && operation
                .nouns
                .iter()
                .zip(nouns)
                .all(|(one, other)| singular(one) == singular(other))
    };
    grammar.operations.iter().find(same)
}

impl<'g> Word<'g> {
    /// A verb is kept as it is; nouns are entered in the singular.
    fn insert_command(&mut self, operation: &'g Operation) {
        self.next
            .entry(operation.verb.clone())
            .or_default()
            .insert(operation, operation.nouns.iter());
    }

    fn insert<'w>(
        &mut self,
        operation: &'g Operation,
        mut words: impl Iterator<Item = &'w String>,
    ) {
        match words.next() {
            Some(word) => self
                .next
                .entry(singular(word))
                .or_default()
                .insert(operation, words),
            None => drop(self.operation.get_or_insert(operation)),
        }
    }

    fn command(&self, grammar: &Grammar, word: &str, verb: &str, is_verb: bool) -> Command {
        let is_list = verb == "list" && self.operation.is_some() && !is_verb;
        let (name, other) = if is_list {
            (self.written(word), word.to_owned())
        } else {
            (word.to_owned(), plural(word))
        };
        let mut command = Command::new(name.clone());
        if !is_verb && name != other {
            command = command.alias(other);
        }
        let mut used: BTreeSet<String> = self
            .next
            .keys()
            .flat_map(|word| [word.clone(), plural(word)])
            .collect();
        let below = self.next.iter().map(|(word, next)| {
            let aliases = short(word)
                .into_iter()
                .filter(|alias| used.insert(alias.clone()) && used.insert(plural(alias)));
            let aliases: Vec<String> = aliases.flat_map(|alias| [plural(&alias), alias]).collect();
            next.command(grammar, word, verb, false).aliases(aliases)
        });
        let below: Vec<Command> = below.collect();
        let has_more = !below.is_empty();
        command = command.subcommands(below);
        match self.operation {
            Some(operation) => {
                let command = command
                    .about(operation.summary.clone())
                    .args(arguments(grammar, operation));
                if has_more {
                    command
                        .args_conflicts_with_subcommands(true)
                        .subcommand_negates_reqs(true)
                } else {
                    command
                }
            }
            None => command
                .about(
                    self.only()
                        .map_or_else(|| self.about(verb, is_verb), |one| one.summary.clone()),
                )
                .subcommand_required(true)
                .arg_required_else_help(true),
        }
    }

    /// The only operation below the word; `None` if there are several.
    fn only(&self) -> Option<&'g Operation> {
        match (self.operation, self.next.len()) {
            (Some(operation), 0) => Some(operation),
            (None, 1) => self.next.values().next()?.only(),
            _ => None,
        }
    }

    fn about(&self, verb: &str, is_verb: bool) -> String {
        match verb {
            _ if !is_verb => "Commands for related records".into(),
            "list" => "List records of a kind".into(),
            "show" => "Show one record, or a resource that exists once".into(),
            "create" => "Create a record".into(),
            "update" => "Change the given members of a record".into(),
            "replace" => "Replace all members of a record".into(),
            "delete" => "Delete records".into(),
            _ => {
                let nouns: Vec<&str> = self.next.keys().map(String::as_str).collect();
                format!("An action on one of: {}", nouns.join(", "))
            }
        }
    }

    /// The word as in paths: some lists do not have a plural name.
    fn written(&self, word: &str) -> String {
        let last = self.operation.and_then(|operation| operation.nouns.last());
        last.cloned().unwrap_or_else(|| plural(word))
    }
}

/// Short names of a kind: the initials of its words, and established names.
fn short(word: &str) -> Vec<String> {
    let letters: String = word
        .split('-')
        .filter_map(|part| part.chars().next())
        .collect();
    let known = ALIASES
        .iter()
        .filter(|(kind, _)| *kind == word)
        .map(|(_, alias)| (*alias).to_owned());
    let is_short = word.contains('-')
        && letters.len() > 1
        && letters.chars().all(|letter| letter.is_ascii_lowercase());
    known.chain(is_short.then_some(letters)).collect()
}

/// The parameters of a path: name and kind.
pub(crate) fn segments(path: &str) -> Vec<(String, String)> {
    let mut before = String::new();
    let mut found = Vec::new();
    for part in path.split('/') {
        match part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        {
            Some("id") => found.push(("id".into(), singular(&before))),
            Some(name) => found.push((
                name.to_owned(),
                kebab(name.strip_suffix("Id").unwrap_or(name)),
            )),
            None => before = part.to_owned(),
        }
    }
    found
}

/// Whether one command line can name several records.
pub(crate) fn takes_several(operation: &Operation) -> bool {
    operation.method == "DELETE"
        && operation.path.ends_with('}')
        && segments(&operation.path).len() == 1
}

/// The members of an operation's JSON body.
pub(crate) fn members_of(grammar: &Grammar, operation: &Operation) -> Vec<Member> {
    grammar
        .body(operation)
        .and_then(|(schema, _)| schema)
        .map(members::members)
        .unwrap_or_default()
}

/// The members that a new record of an operation's kind can have; empty if the kind cannot be
/// created there.
pub(crate) fn members_of_new(grammar: &Grammar, operation: &Operation) -> Vec<String> {
    let list = operation.path.split("/{").next().unwrap_or_default();
    let same = |one: &&Operation| {
        one.interface == operation.interface && one.verb == "create" && one.path == list
    };
    let members = grammar
        .operations
        .iter()
        .find(same)
        .map(|create| members_of(grammar, create))
        .unwrap_or_default();
    members
        .into_iter()
        .filter_map(|member| member.path.into_iter().next())
        .collect()
}

/// Whether the name is a positional argument: the operation creates a record with a name.
pub(crate) fn is_named(operation: &Operation, members: &[Member]) -> bool {
    operation.verb == "create" && members.iter().any(|member| member.path == ["name"])
}

/// The enrollment methods in a body.
pub(crate) fn enrollment_methods(members: &[Member]) -> Vec<&str> {
    let of = |member: &&Member| {
        member.path.len() == 2
            && member
                .path
                .first()
                .is_some_and(|first| first == "enrollment")
    };
    members
        .iter()
        .filter(of)
        .filter_map(|member| member.path.last().map(String::as_str))
        .collect()
}

/// Whether the created record has an enrollment token.
pub(crate) fn has_token(grammar: &Grammar, operation: &Operation) -> bool {
    let detail = format!("{}/{{id}}", operation.path);
    let same = |one: &&Operation| {
        one.interface == operation.interface && one.method == "GET" && one.path == detail
    };
    let shown = || {
        grammar
            .operations
            .iter()
            .find(same)
            .and_then(|one| grammar.answered(one))
    };
    operation.verb == "create"
        && shown()
            .and_then(|shown| shown.get("properties"))
            .is_some_and(|has| {
                ["jwt", "enrollmentJwt", "enrollment"]
                    .iter()
                    .any(|name| has.get(*name).is_some())
            })
}

fn arguments(grammar: &Grammar, operation: &Operation) -> Vec<Arg> {
    let mut arguments = Vec::new();
    let lists = names::parameter_lists(grammar, operation);
    for (at, ((_, kind), list)) in segments(&operation.path).iter().zip(lists).enumerate() {
        let arg = Arg::new(format!("path.{at}"))
            .value_name(kind.to_uppercase())
            .help("Name or id of the record")
            .required(true);
        let arg = if takes_several(operation) {
            arg.num_args(1..)
        } else {
            arg
        };
        arguments.push(completed(arg, list, ""));
    }
    let parameters = grammar
        .described(operation)
        .get("parameters")
        .and_then(Json::as_array);
    for parameter in parameters.into_iter().flatten() {
        let text = |name: &str| {
            parameter
                .get(name)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        let (name, place) = (text("name"), text("in"));
        if place == "path" || name == "strict" {
            continue;
        }
        let mut schema = parameter.get("schema").cloned().unwrap_or_default();
        if let Some(object) = schema.as_object_mut() {
            object.insert("description".into(), text("description").into());
        }
        let arg = members::argument(format!("{place}.{name}"), &kebab(name), &schema);
        arguments.push(
            arg.required(
                parameter
                    .get("required")
                    .and_then(Json::as_bool)
                    .unwrap_or_default(),
            ),
        );
    }
    let members = members_of(grammar, operation);
    let named = is_named(operation, &members);
    if named {
        arguments.push(
            Arg::new("name")
                .value_name("NAME")
                .help("Name of the new record"),
        );
    }
    let own = own(grammar, operation, &members);
    let taken: BTreeSet<String> = arguments
        .iter()
        .chain(&own)
        .filter_map(Arg::get_long)
        .chain(["help"])
        .map(str::to_owned)
        .collect();
    let flags = members
        .iter()
        .filter(|member| !(named && member.path == ["name"]));
    arguments.extend(flags.map(|member| {
        let flag = if taken.contains(&member.flag) {
            format!("member-{}", member.flag)
        } else {
            member.flag.clone()
        };
        let arg = members::argument(
            format!("body.{}", member.path.join(".")),
            &flag,
            &member.schema,
        );
        match names::referred(grammar, operation, member) {
            Some((kind, is_of_roles)) => completed(
                arg,
                grammar.lists(operation.interface, &kind),
                if is_of_roles { "@" } else { "" },
            ),
            None => arg,
        }
    }));
    arguments.extend(roles::arguments(grammar, operation));
    arguments.extend(own);
    arguments
}

/// The argument, with the names in a list as completions.
fn completed(arg: Arg, list: Option<&Operation>, sign: &'static str) -> Arg {
    match list {
        Some(list) => arg.add(completion::names(list, sign)),
        None => arg,
    }
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// The flags of the program itself.
fn own(grammar: &Grammar, operation: &Operation, members: &[Member]) -> Vec<Arg> {
    let mut own = Vec::new();
    let methods = enrollment_methods(members);
    if !methods.is_empty() && operation.verb == "create" {
        let help = format!(
            "Create an enrollment with METHOD ({}) and print its token",
            methods.join(", ")
        );
        own.push(
            Arg::new("enroll")
                .long("enroll")
                .value_name("METHOD[=VALUE]")
                .help(help),
        );
    }
    if has_token(grammar, operation) {
        own.push(switch(
            "jwt",
            "Print the enrollment token of the new record instead of its id",
        ));
    }
    own.extend(grammar.body(operation).map(|(schema, _)| match schema {
        Some(_) => file("json", "Read the body as JSON from FILE, or from stdin if FILE is -; flags override its members"),
        None => file("body", "Read the body from FILE, or from stdin if FILE is -"),
    }));
    if operation.verb == "list" {
        let help = "Show these columns of the table, whole: members, such as name,role-attributes, or members of members, such as identity.id";
        own.push(
            Arg::new("columns")
                .long("columns")
                .value_name("COLUMN,...")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help(help),
        );
    }
    let formats = FORMATS
        .into_iter()
        .chain(grammar.configuration(operation).map(|_| CONFIGURATION));
    let output = Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FORMAT")
        .value_parser(PossibleValuesParser::new(formats));
    let default_format = if operation.verb == "list" {
        "table"
    } else {
        "yaml"
    };
    let path = |name: &'static str, help: &'static str| {
        file(name, help)
            .value_parser(value_parser!(std::path::PathBuf))
            .help_heading("Controller")
    };
    own.extend([
        output.help(format!("Format of the answer [default: {default_format}]")),
        switch("quiet", "Print nothing if a change succeeds").short('q'),
        path("data", "The data file of the controller on this host [env: OVERKEEP_DATA; default: overkeep.redb]"),
        path("config", "Read the configuration of the controller on this host from this file [env: OVERKEEP_CONFIG]"),
    ]);
    own
}
