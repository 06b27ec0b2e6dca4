//! The history: what happened to which record, and who is behind it.
//!
//! Here: the shape of its rows and the words they are filtered by. What it tells of a kind is [`Logged`] (`logged.rs`). Not here: how rows are kept and
//! chained (`store/history/log.rs`). Invariant: no secret gets into a row; a kind names its secrets in [`Entity::LOGGED`].

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{
    access_change::{AccessChange, Named, PairCount},
    entity_trait::Entity,
    identity::Identity,
    logged::{Action, Logged},
    record::{Id, Record},
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
    query::{Subject, Symbol, Type, Value, Vocabulary},
};

/// Stands where a secret was or is, so that a row still shows that it changed.
pub const SECRET: &str = "(secret)";

/// Who is behind a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryAuthor")]
pub struct Author {
    /// What kind of author it is.
    pub who: Who,
    /// The id of the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// What the identity was called then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id of the API session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Where the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// What kind of author.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "HistoryWho")]
pub enum Who {
    /// The controller itself.
    #[default]
    System,
    /// The owner of the host.
    Local,
    /// Somebody who has logged in, or is about to.
    Identity,
    /// A request of somebody who has not.
    Anonymous,
    /// More than one, where what they did is told in one row.
    Several,
}

impl Who {
    /// The word on the wire.
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
    /// The owner of the host.
    pub fn local() -> Self {
        Self { who: Who::Local, ..Self::default() }
    }

    /// More than one.
    pub fn several() -> Self {
        Self { who: Who::Several, ..Self::default() }
    }

    /// A request from somewhere, of nobody known yet.
    pub fn remote(address: Option<String>) -> Self {
        Self { who: Who::Anonymous, address, ..Self::default() }
    }

    /// The same, of an identity, by its id and its name if that is known.
    pub fn known_as(self, identity: &Id<Identity>, name: Option<&str>) -> Self {
        Self { who: Who::Identity, identity: Some(identity.to_string()), name: name.map(str::to_owned), ..self }
    }
}

/// Something that was done, without who and when.
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

impl HistoryEntry {
    /// Something done to a record of kind `E`, with nothing further to say.
    pub fn to<E: Entity>(action: Action, id: &str) -> Self {
        Self { action, kind: E::KIND.name, id: id.into(), name: None, before: None, after: None, access: None }
    }

    /// The change of a record from `old` to `new`, of which one may be missing. Nothing, if the history does not tell of it.
    ///
    /// # Errors
    /// A member has no JSON form, which is a defect.
    pub fn of<E: Entity>(old: Option<&Record<E>>, new: Option<&Record<E>>) -> Result<Option<Self>> {
        let Some(record) = new.or(old) else { return Ok(None) };
        let (action, [before, after]) = match (&E::LOGGED, old, new) {
            (Logged::Nothing, ..) | (Logged::Visits { .. }, Some(_), Some(_)) => return Ok(None),
            (Logged::Visits { comes, shown, .. }, None, _) => (*comes, [None, new.map(|new| visible(new, shown)).transpose()?]),
            (Logged::Visits { goes, shown, .. }, Some(old), None) => (*goes, [Some(visible(old, shown)?), None]),
            (Logged::Changes { secret, quiet }, ..) => {
                let Some(sides) = difference(old, new, secret, quiet)? else { return Ok(None) };
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
        Ok(Some(Self { action, kind: E::KIND.name, id: record.id.to_string(), name: name(record), before, after, access: None }))
    }
}

fn name<E: Entity>(record: &Record<E>) -> Option<String> {
    let field = E::FIELDS.iter().find(|field| field.name == "name")?;
    if let Value::Text(name) = (field.value)(record) { Some(name.into_owned()) } else { None }
}

/// Everything a record says, by member.
fn members<E: Entity>(record: &Record<E>) -> Result<Map<String, Json>> {
    let unreadable = |e: serde_json::Error| Error::Internal(format!("a {} as JSON: {e}", E::KIND.name));
    let mut all = Map::new();
    for part in [serde_json::to_value(&record.spec), serde_json::to_value(&record.state)] {
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

type Sides = [Option<Map<String, Json>>; 2];

/// The members that differ, before and after. Nothing, if none does that counts.
fn difference<E: Entity>(old: Option<&Record<E>>, new: Option<&Record<E>>, secret: &[&str], quiet: &[&str]) -> Result<Option<Sides>> {
    let side = |record: Option<&Record<E>>| -> Result<Option<Map<String, Json>>> {
        let Some(record) = record else { return Ok(None) };
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
        alone => alone.iter_mut().flatten().for_each(|members| members.retain(|_, value| !is_empty(value))),
    }
    Ok(Some(sides.map(|side| side.map(|members| without(members, secret)))))
}

/// Whether a member is there without a value.
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
    if let Json::Object(members) = whole { members } else { Map::new() }
}

/// A row of the history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryEntry")]
pub struct HistoryRow {
    /// One more than that of the row before.
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
    /// What the record was called, if records of its kind have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The members that changed as they were; all that had a value, if the record went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Map<String, Json>>,
    /// The members that changed as they are since; all that have a value, if the record came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Map<String, Json>>,
    /// What changes gave and took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<AccessChange>>,
    /// The sequence of the first row of the change that this row is a part of, or tells of, if that is not this row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
    /// SHA-256 over this row and the hash of the one before, in hexadecimal. The store knows it; it is no part of the row's own text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

impl HistoryRow {
    /// A row about a deed that is part of a change, as yet without its hash.
    pub fn new(sequence: u64, at: Timestamp, by: Author, entry: HistoryEntry, change: u64) -> Self {
        let HistoryEntry { action, kind, id, name, before, after, access } = entry;
        let change = (change != sequence).then_some(change);
        Self { sequence, at, by, action, kind: kind.into(), id, name, before, after, access, change, hash: String::new() }
    }

    /// The sequence of the first row of the change that this row is a part of.
    pub fn change(&self) -> u64 {
        self.change.unwrap_or(self.sequence)
    }

    fn of_access<'r>(&'r self, value: fn(&'r AccessChange) -> Value<'r>) -> Value<'r> {
        self.access.as_deref().map_or(Value::Null, value)
    }
}

/// A name that rows are filtered by: its type, and its value in a row.
type Word = (&'static str, Type, for<'r> fn(&'r HistoryRow) -> Value<'r>);

/// The names that a filter over the history may use.
const WORDS: [Word; 27] = [
    ("sequence", Type::Number, |row| number(row.sequence)),
    ("at", Type::Date, |row| Value::Date(row.at.millis())),
    ("by.who", Type::Text, |row| row.by.who.as_str().into()),
    ("by.identity", Type::Text, |row| row.by.identity.as_ref().into()),
    ("by.name", Type::Text, |row| row.by.name.as_ref().into()),
    ("by.session", Type::Text, |row| row.by.session.as_ref().into()),
    ("by.address", Type::Text, |row| row.by.address.as_ref().into()),
    ("action", Type::Text, |row| row.action.as_str().into()),
    ("kind", Type::Text, |row| row.kind.as_ref().into()),
    ("id", Type::Text, |row| row.id.as_str().into()),
    ("name", Type::Text, |row| row.name.as_ref().into()),
    ("change", Type::Number, |row| number(row.change())),
    ("access.first", Type::Number, |row| row.of_access(|access| number(access.first))),
    ("access.last", Type::Number, |row| row.of_access(|access| number(access.last))),
    ("access.changes", Type::Number, |row| row.of_access(|access| number(access.changes))),
    ("access.gained.dial", Type::Number, |row| row.of_access(|access| pairs(&access.gained.dial))),
    ("access.gained.bind", Type::Number, |row| row.of_access(|access| pairs(&access.gained.bind))),
    ("access.gained.identityRouters", Type::Number, |row| row.of_access(|access| pairs(&access.gained.identity_routers))),
    ("access.gained.serviceRouters", Type::Number, |row| row.of_access(|access| pairs(&access.gained.service_routers))),
    ("access.gained.who", Type::Set, |row| row.of_access(|access| access.gained.who())),
    ("access.gained.what", Type::Set, |row| row.of_access(|access| access.gained.what())),
    ("access.lost.dial", Type::Number, |row| row.of_access(|access| pairs(&access.lost.dial))),
    ("access.lost.bind", Type::Number, |row| row.of_access(|access| pairs(&access.lost.bind))),
    ("access.lost.identityRouters", Type::Number, |row| row.of_access(|access| pairs(&access.lost.identity_routers))),
    ("access.lost.serviceRouters", Type::Number, |row| row.of_access(|access| pairs(&access.lost.service_routers))),
    ("access.lost.who", Type::Set, |row| row.of_access(|access| access.lost.who())),
    ("access.lost.what", Type::Set, |row| row.of_access(|access| access.lost.what())),
];

fn number(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn pairs(tally: &Option<PairCount<Named>>) -> Value<'static> {
    number(tally.as_ref().map_or(0, |tally| tally.pairs))
}

/// The vocabulary of the history.
pub struct HistoryWords;

impl HistoryWords {
    /// Every name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(name, ..)| *name)
    }

    /// Whether a symbol is the sequence, by which alone the history is sorted.
    pub fn is_sequence(symbol: &Symbol) -> bool {
        symbol.field == 0
    }
}

impl Vocabulary for HistoryWords {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let field = WORDS.iter().position(|(known, ..)| *known == name)?;
        WORDS.get(field).map(|(_, of, _)| (Symbol { field, path: None }, *of))
    }

    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

impl Subject for HistoryRow {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        WORDS.get(symbol.field).map_or(Value::Null, |(_, _, value)| value(self))
    }

    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn Subject)) {}
}
