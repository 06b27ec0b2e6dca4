//! The history: what happened to which record, and who did it.
//!
//! Here: the content of its rows, and the names that filter them. What is logged of a kind is
//! [`Logged`] (`logged.rs`). Not here: how rows are stored and chained
//! (`crates/store/src/history/log.rs`). Invariant: no row contains a secret; a kind names its
//! secrets in [`Entity::LOGGED`].

use std::borrow::Cow;

use query::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{
    access_change::AccessChange,
    entity_trait::Entity,
    identity::Identity,
    logged::{Action, Logged},
    record::{Id, Record},
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// Replaces a secret, so that a row still shows that it changed.
pub const SECRET: &str = "(secret)";

/// The author of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryAuthor")]
pub struct Author {
    /// The kind of author.
    pub who: Who,
    /// The id of the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The name of the identity at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id of the API session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The name of the API token, if the request carried one. `session` is its id then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether it is a client that has no right to change anything but what is its own. Rows do not
    /// show it; it chooses their class.
    #[serde(skip)]
    pub is_client: bool,
}

/// The kinds of authors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "HistoryWho")]
pub enum Who {
    /// The controller itself.
    #[default]
    System,
    /// A command on the host.
    Local,
    /// An identity that has logged in, or is logging in.
    Identity,
    /// A request without log-in.
    Anonymous,
    /// More than one author, whose changes are combined in one row.
    Several,
}

impl Who {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Local => "local",
            Self::Identity => "identity",
            Self::Anonymous => "anonymous",
            Self::Several => "several",
        }
    }
}

impl Author {
    /// A command on the host.
    pub fn local() -> Self {
        Self {
            who: Who::Local,
            ..Self::default()
        }
    }

    /// More than one author.
    pub fn several() -> Self {
        Self {
            who: Who::Several,
            ..Self::default()
        }
    }

    /// A request whose author is not known yet.
    pub fn remote(address: Option<String>) -> Self {
        Self {
            who: Who::Anonymous,
            address,
            ..Self::default()
        }
    }

    /// The same author, as a client that changes what is its own.
    pub fn into_client(self) -> Self {
        Self {
            is_client: true,
            ..self
        }
    }

    /// The same author, now known as this identity; with its name, if that is known.
    pub fn known_as(self, identity: &Id<Identity>, name: Option<&str>) -> Self {
        Self {
            who: Who::Identity,
            identity: Some(identity.to_string()),
            name: name.map(str::to_owned),
            ..self
        }
    }
}

/// An action without author and time.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    pub action: Action,
    /// The kind's name.
    pub kind: &'static str,
    pub id: String,
    pub name: Option<String>,
    pub before: Option<Map<String, Json>>,
    pub after: Option<Map<String, Json>>,
    pub access: Option<Box<AccessChange>>,
}

/// What log-ins have in common that are counted together: a client may repeat them as often as it
/// likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VisitKey<'v> {
    /// Whether it is the end of a session.
    pub goes: bool,
    pub identity: &'v str,
    pub(crate) authenticator: &'v str,
    pub(crate) address: &'v str,
}

impl HistoryEntry {
    /// What this log-in has in common with others; also of a log-out, unless somebody else ended
    /// the session. `None` for other actions.
    pub fn visit(&self, by: &Author) -> Option<VisitKey<'_>> {
        let (goes, members) = match self.action {
            Action::Login => (false, self.after.as_ref()?),
            Action::Logout if by.who == Who::System || by.session.as_ref() == Some(&self.id) => {
                (true, self.before.as_ref()?)
            }
            _ => return None,
        };
        let text = |member: &str| {
            members
                .get(member)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        Some(VisitKey {
            goes,
            identity: text("identityId"),
            authenticator: text("authenticatorId"),
            address: text("ipAddress"),
        })
    }

    /// Removes from the row of a log-in or log-out which credential and which address it was.
    pub fn forget_visitor(&mut self) {
        for members in [&mut self.before, &mut self.after].into_iter().flatten() {
            members.retain(|member, _| member == "identityId");
        }
    }

    /// An action on a record of kind `E` without further details.
    pub fn to<E: Entity>(action: Action, id: &str) -> Self {
        Self {
            action,
            kind: E::KIND.name,
            id: id.into(),
            name: None,
            before: None,
            after: None,
            access: None,
        }
    }

    /// The change of a record from `old` to `new`, one of which may be absent. `None` if the change
    /// is not logged.
    ///
    /// # Errors
    /// [`Error::Internal`] if a member has no JSON form, which is a defect.
    pub fn of<E: Entity>(old: Option<&Record<E>>, new: Option<&Record<E>>) -> Result<Option<Self>> {
        let Some(record) = new.or(old) else {
            return Ok(None);
        };
        let (action, [before, after]) = match (&E::LOGGED, old, new) {
            (Logged::Nothing, ..) | (Logged::Visits { .. }, Some(_), Some(_)) => return Ok(None),
            (Logged::Visits { comes, shown, .. }, None, _) => (
                *comes,
                [None, new.map(|new| visible(new, shown)).transpose()?],
            ),
            (Logged::Visits { goes, shown, .. }, Some(old), None) => {
                (*goes, [Some(visible(old, shown)?), None])
            }
            (Logged::Changes { secret, quiet }, ..) => {
                let Some(sides) = difference(old, new, secret, quiet)? else {
                    return Ok(None);
                };
                (
                    if old.is_none() {
                        Action::Create
                    } else if new.is_none() {
                        Action::Delete
                    } else {
                        Action::Update
                    },
                    sides,
                )
            }
        };
        Ok(Some(Self {
            action,
            kind: E::KIND.name,
            id: record.id.to_string(),
            name: name(record),
            before,
            after,
            access: None,
        }))
    }
}

fn name<E: Entity>(record: &Record<E>) -> Option<String> {
    let field = E::FIELDS.iter().find(|field| field.name == "name")?;
    if let Value::Text(name) = (field.value)(record) {
        Some(name.into_owned())
    } else {
        None
    }
}

/// All members of a record.
fn members<E: Entity>(record: &Record<E>) -> Result<Map<String, Json>> {
    let unreadable =
        |e: serde_json::Error| Error::Internal(format!("a {} as JSON: {e}", E::KIND.name));
    let mut all = Map::new();
    for part in [
        serde_json::to_value(&record.spec),
        serde_json::to_value(&record.state),
    ] {
        if let Json::Object(part) = part.map_err(unreadable)? {
            all.extend(part);
        }
    }
    if !record.tags.0.is_empty() {
        all.insert("tags".into(), Json::Object(record.tags.0.clone()));
    }
    Ok(all)
}

fn visible<E: Entity>(record: &Record<E>, shown: &[&str]) -> Result<Map<String, Json>> {
    let mut all = members(record)?;
    all.retain(|member, _| shown.contains(&member.as_str()));
    Ok(all)
}

type BeforeAfter = [Option<Map<String, Json>>; 2];

/// The members that differ, before and after. `None` if no logged member differs.
fn difference<E: Entity>(
    old: Option<&Record<E>>,
    new: Option<&Record<E>>,
    secret: &[&str],
    quiet: &[&str],
) -> Result<Option<BeforeAfter>> {
    let side = |record: Option<&Record<E>>| -> Result<Option<Map<String, Json>>> {
        let Some(record) = record else {
            return Ok(None);
        };
        let mut all = members(record)?;
        all.retain(|member, _| !quiet.contains(&member.as_str()));
        Ok(Some(all))
    };
    let mut sides = [side(old)?, side(new)?];
    match &mut sides {
        [Some(before), Some(after)] => {
            before.retain(|member, was| {
                let same = after.get(member) == Some(was);
                if same {
                    after.shift_remove(member);
                }
                !same
            });
            if before.is_empty() && after.is_empty() {
                return Ok(None);
            }
        }
        alone => {
            for members in alone.iter_mut().flatten() {
                members.retain(|_, value| !is_empty(value));
            }
        }
    }
    Ok(Some(
        sides.map(|side| side.map(|members| without(members, secret))),
    ))
}

/// Whether a member has no value.
fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

fn without(members: Map<String, Json>, secret: &[&str]) -> Map<String, Json> {
    let mut whole = Json::Object(members);
    for pointer in secret {
        if let Some(place) = whole.pointer_mut(pointer) {
            *place = SECRET.into();
        }
    }
    if let Json::Object(members) = whole {
        members
    } else {
        Map::new()
    }
}

/// A row of the history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryEntry")]
pub struct HistoryRow {
    /// One more than that of the previous row.
    pub sequence: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Who did it.
    pub by: Author,
    /// What was done.
    pub action: Action,
    /// The kind of record that it was done to, such as `servicePolicy`.
    pub kind: Cow<'static, str>,
    pub id: String,
    /// The name of the record at the time, if its kind has names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The changed members before the change; if the record was deleted, all that had a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Map<String, Json>>,
    /// The changed members after the change; if the record was created, all that have a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Map<String, Json>>,
    /// The access that changes gave and took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<AccessChange>>,
    /// The sequence of the first row of the change that this row belongs to or reports on, if that
    /// is not this row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
    /// SHA-256 over this row, the hash of the row before in its class and the last row of the other
    /// class, in hexadecimal. It is stored beside the row's JSON text, not in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

impl HistoryRow {
    /// A row about an action that is part of a change, without its hash yet.
    pub fn new(sequence: u64, at: Timestamp, by: Author, entry: HistoryEntry, change: u64) -> Self {
        let HistoryEntry {
            action,
            kind,
            id,
            name,
            before,
            after,
            access,
        } = entry;
        let change = (change != sequence).then_some(change);
        Self {
            sequence,
            at,
            by,
            action,
            kind: kind.into(),
            id,
            name,
            before,
            after,
            access,
            change,
            hash: String::new(),
        }
    }

    /// The sequence of the first row of the change that this row belongs to.
    pub fn change(&self) -> u64 {
        self.change.unwrap_or(self.sequence)
    }
}
