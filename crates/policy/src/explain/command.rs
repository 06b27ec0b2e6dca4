//! The edits of an explanation as commands, with names in place of ids.
//!
//! The words follow the rule of the command line: a verb, the kind, the record, and a flag for each
//! member of the body.

use model::{
    entity::{
        AuthPolicy, Ca, EdgeRouter, Entity, ExternalJwtSigner, Id, Identity, PostureCheck, Roles,
        Service, ServicePolicy, TypedLookup, kebab, singular,
    },
    error::Result,
    hidden_text::{is_in, quoted, shown},
};
use serde_json::Value as Json;
use store::Read;

use super::obstacle::{Obstacle, SuggestedEdit};

/// The members that refer to records, and the paths of their kinds.
const REFERENCES: [(&str, &str); 6] = [
    ("identityRoles", Identity::KIND.path),
    ("serviceRoles", Service::KIND.path),
    ("edgeRouterRoles", EdgeRouter::KIND.path),
    ("postureCheckRoles", PostureCheck::KIND.path),
    ("identityId", Identity::KIND.path),
    ("allowedSigners", ExternalJwtSigner::KIND.path),
];

/// The member that holds the roles of a record itself.
const ATTRIBUTES: &str = "roleAttributes";

/// Adds the commands of the edits to each obstacle.
///
/// # Errors
/// A record cannot be read.
pub(super) fn add_commands(tx: &Read<'_>, obstacles: &mut [Obstacle]) -> Result<()> {
    for obstacle in obstacles {
        obstacle.commands = obstacle
            .edits
            .iter()
            .map(|edit| command(tx, edit))
            .collect::<Result<_>>()?;
    }
    Ok(())
}

/// The command that sends the same request as an edit.
fn command(tx: &Read<'_>, edit: &SuggestedEdit) -> Result<String> {
    let mut parts = edit.path.split('/').filter(|part| !part.is_empty());
    let kind = parts.next().unwrap_or_default();
    let (record, action) = (parts.next(), parts.next());
    let verb = action.unwrap_or(if edit.method == "PATCH" {
        "update"
    } else {
        "create"
    });
    let mut words = vec!["overkeep".to_owned(), verb.to_owned(), singular(kind)];
    if let Some(id) = record {
        let name = name_of(tx, kind, id)?.filter(|name| !name.starts_with('-'));
        words.push(quoted(name.as_deref().unwrap_or(id)));
    }
    let mut last = None;
    for (member, value) in edit.body.as_object().into_iter().flatten() {
        match value
            .as_str()
            .filter(|_| member == "name" && record.is_none())
        {
            // A name that looks like a flag comes last, after a mark.
            Some(name) if name.starts_with('-') => {
                last = Some(["--".to_owned(), quoted(&shown(name))])
            }
            Some(name) => words.push(quoted(&shown(name))),
            None => match stored_roles(tx, kind, record.unwrap_or_default(), member)? {
                Some(stored) => add_single_roles(tx, member, &stored, value, &mut words)?,
                None => add_flags(tx, member, &kebab(member), value, &mut words)?,
            },
        }
    }
    words.extend(last.into_iter().flatten());
    Ok(words.join(" "))
}

/// The present value of a list of roles of a record; `None` if the member is none.
fn stored_roles(tx: &Read<'_>, kind: &str, id: &str, member: &str) -> Result<Option<Roles>> {
    let policy = |roles: fn(ServicePolicy) -> Roles| -> Result<Option<Roles>> {
        Ok(tx
            .find(&Id::<ServicePolicy>::from_text(id))?
            .map(|policy| roles(policy.spec)))
    };
    match (kind, member) {
        ("identities", ATTRIBUTES) => Ok(tx
            .find(&Id::<Identity>::from_text(id))?
            .map(|identity| identity.spec.role_attributes)),
        ("services", ATTRIBUTES) => Ok(tx
            .find(&Id::<Service>::from_text(id))?
            .map(|service| service.spec.role_attributes)),
        ("service-policies", "identityRoles") => policy(|policy| policy.identity_roles),
        ("service-policies", "serviceRoles") => policy(|policy| policy.service_roles),
        ("service-policies", "postureCheckRoles") => policy(|policy| policy.posture_check_roles),
        _ => Ok(None),
    }
}

/// Adds a flag for each role that comes or goes. Of a policy, the list stands before the role.
fn add_single_roles(
    tx: &Read<'_>,
    member: &str,
    stored: &Roles,
    value: &Json,
    words: &mut Vec<String>,
) -> Result<()> {
    let wanted: Vec<&str> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let list = member
        .strip_suffix("Roles")
        .map(|list| format!("{}:", kebab(list)))
        .unwrap_or_default();
    let coming = wanted
        .iter()
        .copied()
        .filter(|role| !stored.entries().contains(*role))
        .map(|role| ("add", role));
    let going = stored
        .entries()
        .iter()
        .map(String::as_str)
        .filter(|role| !wanted.contains(role))
        .map(|role| ("remove", role));
    let kind = REFERENCES
        .iter()
        .find(|(known, _)| *known == member)
        .map(|(_, kind)| *kind);
    for (verb, role) in coming.chain(going) {
        let role = quoted(&format!("{list}{}", named(tx, kind, role)?));
        let sign = if role.starts_with('-') { "=" } else { " " };
        words.push(format!("--{verb}-role{sign}{role}"));
    }
    Ok(())
}

/// Adds the flag of a member; of an object, the flags of its members.
fn add_flags(
    tx: &Read<'_>,
    member: &str,
    flag: &str,
    value: &Json,
    words: &mut Vec<String>,
) -> Result<()> {
    let kind = REFERENCES
        .iter()
        .find(|(known, _)| *known == member)
        .map(|(_, kind)| *kind);
    let text = match value {
        Json::Object(members) => {
            return members.iter().try_for_each(|(name, value)| {
                add_flags(tx, name, &format!("{flag}.{}", kebab(name)), value, words)
            });
        }
        Json::Bool(choice) => {
            words.push(format!("--{flag}={choice}"));
            return Ok(());
        }
        Json::Array(items) => {
            let items = items
                .iter()
                .filter_map(Json::as_str)
                .map(|item| Ok(listed(&named(tx, kind, item)?)));
            items.collect::<Result<Vec<_>>>()?.join(",")
        }
        Json::String(text) => named(tx, kind, text)?,
        other => other.to_string(),
    };
    let sign = if text.starts_with('-') { "=" } else { " " };
    words.push(format!("--{flag}{sign}{}", quoted(&text)));
    Ok(())
}

/// A reference by name: `@name` for `@id`, and a name for an id. Other texts stay.
fn named(tx: &Read<'_>, kind: Option<&str>, text: &str) -> Result<String> {
    let Some(kind) = kind else {
        return Ok(text.to_owned());
    };
    let (sign, id) = text.strip_prefix('@').map_or(("", text), |id| ("@", id));
    if text.starts_with('#') {
        return Ok(text.to_owned());
    }
    Ok(format!(
        "{sign}{}",
        name_of(tx, kind, id)?.as_deref().unwrap_or(id)
    ))
}

/// The name of a record; `None` if a command line cannot name the record by it.
fn name_of(tx: &Read<'_>, kind: &str, id: &str) -> Result<Option<String>> {
    match kind {
        path if path == Identity::KIND.path => {
            usable::<Identity>(tx, id, |identity| &identity.name)
        }
        path if path == Service::KIND.path => usable::<Service>(tx, id, |service| &service.name),
        path if path == ServicePolicy::KIND.path => {
            usable::<ServicePolicy>(tx, id, |policy| &policy.name)
        }
        path if path == AuthPolicy::KIND.path => {
            usable::<AuthPolicy>(tx, id, |policy| &policy.name)
        }
        path if path == EdgeRouter::KIND.path => {
            usable::<EdgeRouter>(tx, id, |router| &router.name)
        }
        path if path == PostureCheck::KIND.path => {
            usable::<PostureCheck>(tx, id, |check| &check.name)
        }
        path if path == ExternalJwtSigner::KIND.path => {
            usable::<ExternalJwtSigner>(tx, id, |signer| &signer.name)
        }
        path if path == Ca::KIND.path => usable::<Ca>(tx, id, |ca| &ca.name),
        _ => Ok(None),
    }
}

/// The name of a record, unless it is blank, has characters that nobody sees, or is the id of
/// another record, which takes precedence.
fn usable<E: Entity>(tx: &Read<'_>, id: &str, name: fn(&E) -> &String) -> Result<Option<String>> {
    let Some(record) = tx.find(&Id::<E>::from_text(id))? else {
        return Ok(None);
    };
    let name = name(&record.spec).clone();
    let is_usable = !name.trim().is_empty()
        && !is_in(&name)
        && tx.find(&Id::<E>::from_text(name.as_str()))?.is_none();
    Ok(is_usable.then_some(name))
}

/// An item of a list: in double quotes if it holds a comma or begins with a double quote (RFC 4180
/// section 2).
fn listed(item: &str) -> String {
    if item.contains(',') || item.starts_with('"') {
        format!("\"{}\"", item.replace('"', "\"\""))
    } else {
        item.to_owned()
    }
}
