//! Types of members that several kinds share. Each is one type on the wire and on disk.

use std::{borrow::Cow, collections::BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value as Json};

use super::{Amount, Entity, Facts, FactsExt, Id, Kind, Record};
use crate::{
    error::{Error, Result},
    pki::Certificate,
    query::Value,
    schema,
};

/// A JSON object that we keep as it is: application data, config data, a schema.
///
/// Order of members is kept. On disk it is JSON text, because bincode cannot read a value of unknown type back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document(pub Map<String, Json>);

/// The schema of a member that must be an object, where anything else is a broken rule of the member and not an unreadable body.
pub fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "object", "additionalProperties": true }] })
}

/// Labels of a record: a map of scalars, `null` on the wire standing for none at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tags(pub Map<String, Json>);

impl Tags {
    /// The value behind a path such as `owner` or `a.b`.
    pub fn value(&self, path: &str) -> Value<'_> {
        match self.0.get(path) {
            Some(Json::Bool(b)) => (*b).into(),
            Some(Json::String(text)) => text.into(),
            Some(Json::Number(n)) => n.as_i64().map_or_else(|| n.as_f64().map_or(Value::Null, Value::Float), Value::Integer),
            _ => Value::Null,
        }
    }

    /// How much they are.
    pub fn amount(&self) -> Amount {
        amount(&self.0)
    }

    /// Refuses values that are no scalars.
    ///
    /// # Errors
    /// A value is a list or an object.
    pub fn check(&self, field: &str) -> Result<()> {
        scalars(&self.0, field)
    }
}

impl Document {
    /// How much it holds.
    pub fn amount(&self) -> Amount {
        amount(&self.0)
    }

    /// Refuses values that are no scalars; application data allows nothing else.
    ///
    /// # Errors
    /// A value is a list or an object.
    pub fn check_scalars(&self, field: &str) -> Result<()> {
        scalars(&self.0, field)
    }
}

fn amount(map: &Map<String, Json>) -> Amount {
    // A map of which the text cannot be made is larger than any limit; none is known.
    let bytes = if map.is_empty() { 2 } else { serde_json::to_string(map).map_or(usize::MAX, |text| text.len()) };
    Amount { entries: map.len(), bytes }
}

fn scalars(map: &Map<String, Json>, field: &str) -> Result<()> {
    match map.iter().find(|(_, value)| value.is_array() || value.is_object()) {
        Some((key, value)) => {
            Err(Error::invalid(format!("{field}.{key}"), "must be a text, a number, a boolean or null", schema::shown(value)))
        }
        None => Ok(()),
    }
}

/// Reads and writes a JSON map: as it is in JSON, as text in binary formats. `null` is the empty map.
macro_rules! json_map {
    ($name:ident, $schema:tt) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    return self.0.serialize(serializer);
                }
                serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    return Ok(Self(Option::<Map<String, Json>>::deserialize(deserializer)?.unwrap_or_default()));
                }
                serde_json::from_str(&String::deserialize(deserializer)?).map(Self).map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}
json_map!(Document, { "type": ["object", "null"], "additionalProperties": true });
json_map!(Tags, { "type": ["object", "null"], "additionalProperties": { "type": ["string", "boolean", "number", "object", "array", "null"] } });

/// A sorted set of texts: role attributes, or the entries of a policy's role list. `null` on the wire is the empty set.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    entries: BTreeSet<String>,
    /// The entries of a body as they were given, for its refusal. Never stored.
    given: Vec<String>,
}

impl PartialEq for Roles {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}
impl Eq for Roles {}

impl FromIterator<String> for Roles {
    fn from_iter<I: IntoIterator<Item = String>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect(), given: Vec::new() }
    }
}

impl Extend<String> for Roles {
    fn extend<I: IntoIterator<Item = String>>(&mut self, entries: I) {
        self.entries.extend(entries);
        self.given.clear();
    }
}

impl Serialize for Roles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.entries.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Roles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::<String>::deserialize(deserializer).map(Self::from_iter);
        }
        let given = Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default();
        Ok(Self { entries: given.iter().cloned().collect(), given })
    }
}

impl JsonSchema for Roles {
    fn schema_name() -> Cow<'static, str> {
        "Roles".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["array", "null"], "items": { "type": "string" } })
    }
}

impl<'a> From<&'a Roles> for Value<'a> {
    fn from(roles: &'a Roles) -> Self {
        (&roles.entries).into()
    }
}

impl Roles {
    /// The texts, ascending.
    pub fn entries(&self) -> &BTreeSet<String> {
        &self.entries
    }

    /// How much they are.
    pub fn amount(&self) -> Amount {
        Amount::of_texts(&self.entries)
    }

    /// The texts as a body gave them, each as often; ascending, if none did.
    fn as_given(&self) -> Vec<&str> {
        if self.given.is_empty() {
            self.entries.iter().map(String::as_str).collect()
        } else {
            self.given.iter().map(String::as_str).collect()
        }
    }

    /// Rules for role attributes of identities, services and routers.
    ///
    /// # Errors
    /// One is blank, or starts with a sign that means something in a policy.
    pub fn check_attributes(&self) -> Result<()> {
        match self.as_given().into_iter().find(|attribute| attribute.is_empty() || attribute.starts_with(['#', '@'])) {
            Some(bad) => Err(Error::invalid("roleAttributes", "must not be blank or start with # or @", bad)),
            None => Ok(()),
        }
    }

    /// The ids that stand in a policy's role list as `@id`.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.strip_prefix('@'))
    }

    /// Takes a record out of a policy's role list.
    pub fn forget(&mut self, id: &str) {
        self.entries.retain(|entry| entry.strip_prefix('@') != Some(id));
        self.given.clear();
    }

    /// Rules for one role list of a policy over records of kind `E`; the errors name `field`.
    ///
    /// # Errors
    /// An entry is no `#attribute` or `@id`, `#all` is not alone, or an id does not exist.
    pub fn check_list<E: Entity>(&self, field: &str, facts: &dyn Facts) -> Result<()> {
        let refused = |reason: &str, entries: &[&str]| Err(Error::invalid(field, reason, format!("[{}]", entries.join(" "))));
        let mut given = self.as_given();
        let bare: Vec<&str> = given.iter().filter(|entry| !entry.starts_with(['#', '@'])).copied().collect();
        if !bare.is_empty() {
            return refused("role entries must be prefixed with # (an attribute) or @ (an id)", &bare);
        }
        given.sort_unstable();
        if given.contains(&"#all") && given.len() > 1 {
            return refused("#all must stand alone", &given);
        }
        let mut unknown = Vec::new();
        for id in self.ids() {
            if facts.find::<E>(&Id::from_text(id))?.is_none() {
                unknown.push(id);
            }
        }
        if unknown.is_empty() { Ok(()) } else { refused(&format!("no {} found with the given ids", E::KIND.path), &unknown) }
    }

    /// What contradicts itself in stored role lists of a policy, whatever there is or is not of the ids.
    pub fn flaw_of_lists(lists: &[&Self]) -> Option<&'static str> {
        let means = |entry: &String| entry.starts_with(['#', '@']);
        if !lists.iter().all(|list| list.entries.iter().all(means)) {
            return Some("has a role entry that is neither an attribute nor an id");
        }
        lists.iter().any(|list| list.entries.contains("#all") && list.entries.len() > 1).then_some("names #all and others beside it")
    }

    /// The list with names beside ids, as `...RolesDisplay` shows it. Ids that no longer exist are left out.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn display<E: Entity>(&self, facts: &dyn Facts, name: fn(&Record<E>) -> &str) -> Result<Vec<NamedRole>> {
        let mut named = Vec::with_capacity(self.entries.len());
        for role in &self.entries {
            let Some(id) = role.strip_prefix('@') else {
                named.push(NamedRole { role: role.clone(), name: role.clone() });
                continue;
            };
            if let Some(record) = facts.find::<E>(&Id::from_text(id))? {
                named.push(NamedRole { role: role.clone(), name: format!("@{}", name(&record)) });
            }
        }
        Ok(named)
    }
}

/// The flaw of a record that holds a certificate, as PEM, and the fingerprint of another.
pub(super) fn other_certificate(fingerprint: &str, pem: &str) -> Option<&'static str> {
    (!Certificate::is_known_by(fingerprint, pem)).then_some("has a fingerprint that is not that of its certificate")
}

/// An entry of a role list and what a person calls it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NamedRole {
    pub name: String,
    pub role: String,
}

/// A link, relative to the base path of the interface.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Link {
    pub href: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

impl Link {
    /// A link to a path below the base path, such as `services/x`.
    pub fn to(path: impl std::fmt::Display) -> Self {
        Self { href: format!("./{path}"), comment: None, method: None }
    }
}

/// Links by name, in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct Links(Vec<(&'static str, Link)>);

impl Links {
    /// With a link added.
    #[must_use]
    pub fn with(mut self, name: &'static str, path: impl std::fmt::Display) -> Self {
        self.0.push((name, Link::to(path)));
        self
    }

    /// The links of a record: itself, the lists below it, and what its kind adds.
    pub fn of<E: Entity>(record: &Record<E>) -> Self {
        let path = E::KIND.path;
        let mut links = Self::default().with("self", format_args!("{path}/{}", record.id));
        for name in E::LINKS {
            links = links.with(name, format_args!("{path}/{}/{name}", record.id));
        }
        E::links(record).into_iter().fold(links, |links, (name, target)| links.with(name, target))
    }
}

impl Serialize for Links {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, link)| (name, link)))
    }
}
impl JsonSchema for Links {
    fn schema_name() -> Cow<'static, str> {
        "Links".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let link = generator.subschema_for::<Link>();
        json_schema!({ "type": "object", "additionalProperties": link })
    }
}

/// Another record, named.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "EntityRef")]
pub struct EntityRef {
    #[serde(rename = "_links")]
    pub links: Links,
    /// The kind, as a path segment.
    pub entity: &'static str,
    pub id: String,
    pub name: String,
}

impl EntityRef {
    /// A reference to a record of which only id and name are at hand.
    pub fn new(kind: Kind, id: &str, name: &str) -> Self {
        Self {
            links: Links::default().with("self", format_args!("{}/{id}", kind.path)),
            entity: kind.path,
            id: id.into(),
            name: name.into(),
        }
    }

    /// A reference to a record, with all its links.
    pub fn of<E: Entity>(record: &Record<E>, name: &str) -> Self {
        Self { links: Links::of(record), entity: E::KIND.path, id: record.id.to_string(), name: name.into() }
    }
}
