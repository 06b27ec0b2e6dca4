//! `--add-role` and `--remove-role` of `overkeep update`: single roles of a record, added and taken
//! away in one change that fails if the record has changed since it was read.

use clap::{Arg, ArgAction, ArgMatches};
use model::entity::kebab;
use serde_json::Value as Json;

use super::{
    grammar::{Grammar, Operation},
    members::{self, Member},
    names::NameLookup,
    request::{ApiAnswer, ApiRequest, JSON},
};
use crate::cli::failure::{CommandError, warn};

/// The member that holds the roles of a record itself.
const ATTRIBUTES: &str = "roleAttributes";
/// The end of the names of members that hold roles of other records.
const ROLES: &str = "Roles";
/// How often the change is tried again when somebody else changed the record meanwhile.
const ATTEMPTS: usize = 20;
const ADD: &str = "add-role";
const REMOVE: &str = "remove-role";

/// The lists of roles in the records that an operation changes; none if it does not change records.
fn lists(grammar: &Grammar, operation: &Operation) -> Vec<Member> {
    let is_list = |member: &Member| matches!(member.path.as_slice(), [name] if name == ATTRIBUTES || name.ends_with(ROLES));
    if operation.verb != "update" || !operation.path.ends_with("/{id}") {
        return Vec::new();
    }
    let (Some(schema), _) = grammar.body(operation).unwrap_or_default() else {
        return Vec::new();
    };
    members::members(schema)
        .into_iter()
        .filter(is_list)
        .collect()
}

/// The word that names a list in front of a role: `identity` for `identityRoles`.
fn word(list: &Member) -> String {
    list.path
        .last()
        .map(|name| kebab(name.strip_suffix(ROLES).unwrap_or(name)))
        .unwrap_or_default()
}

/// The flags of an operation.
pub(super) fn arguments(grammar: &Grammar, operation: &Operation) -> Vec<Arg> {
    let lists = lists(grammar, operation);
    let (value, example) = match lists.as_slice() {
        [] => return Vec::new(),
        [_] => ("ROLE".to_owned(), String::new()),
        several => {
            let words = several.iter().map(word).collect::<Vec<_>>().join("|");
            (
                format!("{words}:ROLE"),
                format!(
                    ", such as '{}:#sales'",
                    several.first().map(word).unwrap_or_default()
                ),
            )
        }
    };
    let whole: Vec<String> = lists
        .iter()
        .map(|list| format!("body.{}", list.path.join(".")))
        .collect();
    let flag = |name: &'static str, help: String| {
        let arg = Arg::new(name)
            .long(name)
            .value_name(value.clone())
            .help(help)
            .action(ArgAction::Append);
        arg.conflicts_with_all(whole.clone())
    };
    vec![
        flag(
            ADD,
            format!("Add this role to those of the record{example}; may be given several times"),
        ),
        flag(
            REMOVE,
            "Take this role away, and keep the others; may be given several times".to_owned(),
        ),
    ]
}

/// Whether a command line adds or takes away single roles.
pub(super) fn is_asked(matches: &ArgMatches) -> bool {
    !flag_values(matches, ADD).is_empty() || !flag_values(matches, REMOVE).is_empty()
}

fn flag_values(matches: &ArgMatches, flag: &str) -> Vec<String> {
    matches
        .try_get_many::<String>(flag)
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

/// Sends the change of a record with its roles changed. It is tried again if somebody else changed
/// the record meanwhile, unless the request names a version of its own.
///
/// # Errors
/// A role names an unknown list or record, or the controller does not answer. A rejection is an
/// answer.
pub(super) fn change(
    names: &mut NameLookup<'_>,
    operation: &Operation,
    matches: &ArgMatches,
    request: &ApiRequest,
) -> Result<ApiAnswer, CommandError> {
    let lists = lists(names.grammar, operation);
    let mut edits = Vec::new();
    for flag in [ADD, REMOVE] {
        for role in flag_values(matches, flag) {
            let (list, role) = chosen(&lists, flag, &role)?;
            edits.push((flag, list, role));
        }
    }
    let has_version = request
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("if-match"));
    for _ in 0..ATTEMPTS {
        let found = ApiRequest {
            method: "GET".into(),
            path: request.path.clone(),
            ..ApiRequest::default()
        };
        let found = names.transport.ask(found, None)?.good()?;
        let tag = found.tag.clone().ok_or_else(|| {
            CommandError::of("the controller did not tell the version of the record")
        })?;
        let record = found.data();
        let mut body = match &request.body {
            Some((_, text)) => serde_json::from_str(text).map_err(CommandError::of)?,
            None => Json::Null,
        };
        for (flag, list, role) in edits
            .iter()
            .map(|(flag, list, role)| (*flag, *list, role.as_str()))
        {
            let held = members::at(&body, &list.path).or_else(|| members::at(&record, &list.path));
            let held = held.and_then(Json::as_array).cloned().unwrap_or_default();
            members::put(
                &mut body,
                &list.path,
                edited(names, operation, (flag, list, role), held)?,
            );
        }
        let mut changed = ApiRequest {
            body: Some((JSON.to_owned(), body.to_string())),
            ..request.clone()
        };
        if !has_version {
            changed.headers.push(("if-match".into(), tag));
        }
        let answer = names.transport.ask(changed, None)?;
        if answer.status != 412 || has_version {
            return Ok(answer);
        }
    }
    Err(CommandError::of(
        "others change the record all the time; try again",
    ))
}

/// The list that a role belongs to, and the role without the word that names the list.
fn chosen<'l>(
    lists: &'l [Member],
    flag: &str,
    role: &str,
) -> Result<(&'l Member, String), CommandError> {
    if let [only] = lists {
        return Ok((only, role.to_owned()));
    }
    let found = role.split_once(':').and_then(|(named, role)| {
        Some((
            lists.iter().find(|list| word(list) == named)?,
            role.to_owned(),
        ))
    });
    found.ok_or_else(|| {
        let words = lists
            .iter()
            .map(|list| format!("{}:", word(list)))
            .collect::<Vec<_>>()
            .join(", ");
        CommandError::Flag(format!(
            "--{flag}: {role:?} does not begin with the list that is meant: {words}"
        ))
    })
}

/// A list with a role added or taken away.
fn edited(
    names: &mut NameLookup<'_>,
    operation: &Operation,
    (flag, list, role): (&str, &Member, &str),
    mut held: Vec<Json>,
) -> Result<Json, CommandError> {
    let is_held = held.iter().any(|one| one == role);
    let mut stored = Json::from(role);
    // The record behind a name may be gone while the list still has its id.
    if !is_held {
        names.refer(operation, list, &mut stored)?;
    }
    let is_held = is_held || held.contains(&stored);
    if flag == ADD {
        held.extend((!is_held).then_some(stored));
    } else {
        if !is_held {
            warn(&format!("the record does not have the role {role}"));
        }
        held.retain(|one| *one != stored);
    }
    Ok(held.into())
}
