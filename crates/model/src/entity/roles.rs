//! Role attributes, and the role lists of policies.

use std::{borrow::Cow, collections::BTreeSet};

use query::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    amount::Amount,
    entity_trait::Entity,
    lookup::Lookup,
    record::{Id, Record},
    typed_lookup::TypedLookup,
};
use crate::error::{Error, Result};

/// A sorted set of texts: role attributes, or the entries of a policy's role list. `null` in JSON
/// is the empty set.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    entries: BTreeSet<String>,
    /// The entries as the body had them, for errors. Never stored.
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
        Self {
            entries: entries.into_iter().collect(),
            given: Vec::new(),
        }
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
        Ok(Self {
            entries: given.iter().cloned().collect(),
            given,
        })
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

    /// The size of the set.
    pub fn amount(&self) -> Amount {
        Amount::of_texts(&self.entries)
    }

    /// The texts as the body had them, with duplicates; without a body, in ascending order.
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
    /// [`Error::Invalid`] if one is empty or starts with `#` or `@`, which have a meaning in
    /// policies.
    pub(crate) fn check_attributes(&self) -> Result<()> {
        match self
            .as_given()
            .into_iter()
            .find(|attribute| attribute.is_empty() || attribute.starts_with(['#', '@']))
        {
            Some(bad) => Err(Error::invalid(
                "roleAttributes",
                "must not be blank or start with # or @",
                bad,
            )),
            None => Ok(()),
        }
    }

    /// The ids in a policy's role list, without their `@`.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter_map(|entry| entry.strip_prefix('@'))
    }

    /// Removes a record's id from a policy's role list.
    pub fn forget(&mut self, id: &str) {
        self.entries
            .retain(|entry| entry.strip_prefix('@') != Some(id));
        self.given.clear();
    }

    /// Rules for a role list of a policy over records of kind `E`; the errors name `field`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an entry is neither `#attribute` nor `@id`, `#all` is not alone, or an
    /// id does not exist.
    pub(crate) fn check_list<E: Entity>(&self, field: &str, lookup: &dyn Lookup) -> Result<()> {
        let refused = |reason: &str, entries: &[&str]| {
            Err(Error::invalid(
                field,
                reason,
                format!("[{}]", entries.join(" ")),
            ))
        };
        let mut given = self.as_given();
        let bare: Vec<&str> = given
            .iter()
            .filter(|entry| !entry.starts_with(['#', '@']))
            .copied()
            .collect();
        if !bare.is_empty() {
            return refused(
                "role entries must be prefixed with # (an attribute) or @ (an id)",
                &bare,
            );
        }
        given.sort_unstable();
        if given.contains(&"#all") && given.len() > 1 {
            return refused("#all must stand alone", &given);
        }
        let mut unknown = Vec::new();
        for id in self.ids() {
            if lookup.find::<E>(&Id::from_text(id))?.is_none() {
                unknown.push(id);
            }
        }
        if unknown.is_empty() {
            Ok(())
        } else {
            refused(
                &format!("no {} found with the given ids", E::KIND.path),
                &unknown,
            )
        }
    }

    /// A contradiction in stored role lists of a policy, whether or not the ids exist.
    pub(crate) fn flaw_of_lists(lists: &[&Self]) -> Option<&'static str> {
        let means = |entry: &String| entry.starts_with(['#', '@']);
        if !lists.iter().all(|list| list.entries.iter().all(means)) {
            return Some("has a role entry that is neither an attribute nor an id");
        }
        lists
            .iter()
            .any(|list| list.entries.contains("#all") && list.entries.len() > 1)
            .then_some("names #all together with other entries")
    }

    /// The list with the names of ids, as in `...RolesDisplay`. Ids that no longer exist are left
    /// out.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn display<E: Entity>(
        &self,
        lookup: &dyn Lookup,
        name: fn(&Record<E>) -> &str,
    ) -> Result<Vec<NamedRole>> {
        let mut named = Vec::with_capacity(self.entries.len());
        for role in &self.entries {
            let Some(id) = role.strip_prefix('@') else {
                named.push(NamedRole {
                    role: role.clone(),
                    name: role.clone(),
                });
                continue;
            };
            if let Some(record) = lookup.find::<E>(&Id::from_text(id))? {
                named.push(NamedRole {
                    role: role.clone(),
                    name: format!("@{}", name(&record)),
                });
            }
        }
        Ok(named)
    }
}

/// An entry of a role list, and its display name.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NamedRole {
    pub name: String,
    pub role: String,
}
