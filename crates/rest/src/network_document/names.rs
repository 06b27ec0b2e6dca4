//! Translates ids in drafts to names, and names to ids.

use std::{cell::RefCell, collections::HashMap};

use model::{
    entity::{IdPath, Kind},
    error::{Error, Result},
};
use serde_json::{Map, Value as Json};
use store::Read;

use super::{kind::DeclaredKind, kinds::DeclaredKinds};

/// Caches the names and ids that it looks up. Records must not be renamed while a `Names` is used.
pub(crate) struct DeclaredNames<'n> {
    kinds: &'n DeclaredKinds,
    read: &'n Read<'n>,
    names: RefCell<HashMap<(Kind, String), String>>,
    ids: RefCell<HashMap<(Kind, String), String>>,
}

impl<'n> DeclaredNames<'n> {
    /// The names in a transaction; the cache is empty.
    pub(crate) fn of(kinds: &'n DeclaredKinds, read: &'n Read<'n>) -> Self {
        Self {
            kinds,
            read,
            names: RefCell::default(),
            ids: RefCell::default(),
        }
    }

    /// Replaces ids by names in a draft. The id of a deleted record stays.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn to_names(&self, of: &DeclaredKind, draft: Json) -> Result<Json> {
        with_references(of, draft, &|_, kind, id| self.name(kind, id))
    }

    /// Replaces names by ids in a draft.
    ///
    /// # Errors
    /// A name does not exist, or a record cannot be read.
    pub(crate) fn to_ids(&self, of: &DeclaredKind, draft: Json) -> Result<Json> {
        with_references(of, draft, &|path, kind, name| {
            let found = self.id(kind, name)?;
            found.ok_or_else(|| {
                Error::invalid(
                    member(path),
                    format!("no object in {} has the name {name:?}", kind.path),
                    name,
                )
            })
        })
    }

    /// The id of the record with a name.
    ///
    /// # Errors
    /// The record cannot be read.
    pub(crate) fn id(&self, kind: Kind, name: &str) -> Result<Option<String>> {
        let key = (kind, name.to_owned());
        if let Some(id) = self.ids.borrow().get(&key) {
            return Ok(Some(id.clone()));
        }
        let Some(one) = self.kinds.find(kind) else {
            return Ok(Some(name.to_owned()));
        };
        let found = (one.find)(self.read, name)?.map(|record| record.id);
        if let Some(id) = &found {
            self.ids.borrow_mut().insert(key, id.clone());
        }
        Ok(found)
    }

    fn name(&self, kind: Kind, id: &str) -> Result<String> {
        let key = (kind, id.to_owned());
        if let Some(name) = self.names.borrow().get(&key) {
            return Ok(name.clone());
        }
        let Some(one) = self.kinds.find(kind) else {
            return Ok(id.to_owned());
        };
        let name = (one.name)(self.read, id)?.unwrap_or_else(|| id.to_owned());
        self.names.borrow_mut().insert(key, name.clone());
        Ok(name)
    }
}

fn member(path: IdPath) -> &'static str {
    match path {
        IdPath::Ids(path) | IdPath::Roles(path) => path,
    }
}

/// What replaces a reference at a path to a record of a kind.
type Rename<'r> = &'r dyn Fn(IdPath, Kind, &str) -> Result<String>;

/// A draft in which each reference to another record is replaced.
///
/// # Errors
/// `rename` fails.
pub fn with_references(of: &DeclaredKind, mut draft: Json, rename: Rename<'_>) -> Result<Json> {
    for (path, kind) in &of.references {
        rewrite(&mut draft, *path, &|text| rename(*path, *kind, text))?;
    }
    Ok(draft)
}

/// Replaces each id or name at a path. Sorts roles and the keys of maps.
fn rewrite(draft: &mut Json, path: IdPath, rename: &dyn Fn(&str) -> Result<String>) -> Result<()> {
    let Some(value) = member(path)
        .split('.')
        .try_fold(draft, |json, name| json.get_mut(name))
    else {
        return Ok(());
    };
    match (path, value) {
        (IdPath::Roles(_), Json::Array(roles)) => {
            for role in roles.iter_mut() {
                if let Some(named) = role.as_str().and_then(|role| role.strip_prefix('@')) {
                    *role = format!("@{}", rename(named)?).into();
                }
            }
            roles.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        (IdPath::Ids(_), Json::String(text)) if !text.is_empty() => *text = rename(text)?,
        (IdPath::Ids(_), Json::Array(ids)) => {
            for id in ids.iter_mut() {
                if let Json::String(text) = id {
                    *text = rename(text)?;
                }
            }
        }
        (IdPath::Ids(_), Json::Object(members)) => {
            let renamed = std::mem::take(members)
                .into_iter()
                .map(|(id, value)| Ok((rename(&id)?, value)));
            let mut renamed = renamed.collect::<Result<Vec<_>>>()?;
            renamed.sort_by(|(one, _), (other, _)| one.cmp(other));
            *members = Map::from_iter(renamed);
        }
        _ => {}
    }
    Ok(())
}
