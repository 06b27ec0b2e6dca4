//! Assertions in a network document: what policies must and must not allow.
//!
//! `WHO must dial WHAT`, `WHO must-not bind WHAT`. A side is a name, `#` and a role attribute, or
//! `*` for all. A name that begins with one of these signs is written with `@` before it.

use model::{
    entity::{Entity, Identity, Kind, Service},
    error::{Error, Result},
};
use policy::access::{Assertion, Right, Selection};

use super::names::DeclaredNames;

const FORMS: [(&str, bool, Right); 4] = [
    (" must dial ", true, Right::Dial),
    (" must-not dial ", false, Right::Dial),
    (" must bind ", true, Right::Bind),
    (" must-not bind ", false, Right::Bind),
];

/// Parses an assertion. `at` is its index in the list.
///
/// # Errors
/// The text is not an assertion, or a name does not exist.
pub(crate) fn parse(names: &DeclaredNames<'_>, at: usize, text: &str) -> Result<Assertion> {
    let place = format!("assertions.{at}");
    let found = FORMS
        .iter()
        .filter_map(|form| Some((text.find(form.0)?, form)))
        .min_by_key(|(start, _)| *start);
    let wrong = || {
        Error::invalid(
            &place,
            "must be `WHO VERB RIGHT WHAT`, where VERB is must or must-not and RIGHT is dial or bind, such as `alice must dial wiki`",
            text,
        )
    };
    let (start, (words, is_granted, right)) = found.ok_or_else(wrong)?;
    let (who, what) = (
        text.get(..start).unwrap_or_default(),
        text.get(start + words.len()..).unwrap_or_default(),
    );
    Ok(Assertion {
        identities: selection(names, Identity::KIND, who.trim(), &place)?,
        services: selection(names, Service::KIND, what.trim(), &place)?,
        is_granted: *is_granted,
        right: *right,
    })
}

fn selection(names: &DeclaredNames<'_>, kind: Kind, text: &str, place: &str) -> Result<Selection> {
    if text == "*" {
        return Ok(Selection::All);
    }
    if let Some(role) = text.strip_prefix('#') {
        return Ok(if role == "all" {
            Selection::All
        } else {
            Selection::Role(role.into())
        });
    }
    let name = text.strip_prefix('@').unwrap_or(text);
    let found = names.id(kind, name)?;
    found.map(Selection::Id).ok_or_else(|| {
        Error::invalid(
            place,
            format!("no object in {} has this name", kind.path),
            name,
        )
    })
}
