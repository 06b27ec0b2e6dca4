//! What the description of an operation says of its command: the words of its path, the members of
//! its body, and what else it takes.

use model::entity::{kebab, singular};

use super::{
    grammar::{Grammar, Operation},
    members::{self, Member},
};

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
