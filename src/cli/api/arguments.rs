//! The clap arguments of an operation.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, builder::PossibleValuesParser, value_parser};
use model::entity::kebab;
use serde_json::Value as Json;

use super::{
    completion,
    grammar::{Grammar, Operation},
    members::{self, Member},
    names,
    operation_shape::{
        enrollment_methods, has_token, is_named, members_of, segments, takes_several,
    },
    roles,
};

const FORMATS: [&str; 4] = ["table", "json", "yaml", "name"];
/// The output format that prints the configuration file of each record in an answer.
pub(crate) const CONFIGURATION: &str = "config";

pub(super) fn arguments(grammar: &Grammar, operation: &Operation) -> Vec<Arg> {
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
        match names::referred_kind(grammar, operation, member) {
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
