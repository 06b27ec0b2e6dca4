//! How a kind declares that its records refer to records of another kind. A reference holds what
//! filters and the search for tombstones need from the other kind.

use query::{FilterTarget, Vocabulary};

use super::{
    entity_trait::Entity,
    filter_names::{FilterNames, RecordTarget},
    lookup::Lookup,
    record::{Id, Record},
    reference::{IdPath, OnDelete, Reference},
    typed_lookup::TypedLookup,
};
use crate::error::Result;

impl<E: Entity> Reference<E> {
    /// Ids of kind `T`.
    pub const fn to<T: Entity>(
        field: &'static str,
        ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
        on_delete: OnDelete<E>,
    ) -> Self {
        Self {
            field,
            kind: T::KIND,
            ids,
            on_delete,
            paths: None,
            names: names::<T>,
            visit: visit::<T>,
            stands: stands::<T>,
        }
    }

    /// A reference to records of kind `T` whose ids requests write in these paths.
    pub(crate) const fn with_paths<T: Entity>(
        field: &'static str,
        paths: &'static [IdPath],
        ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
        on_delete: OnDelete<E>,
    ) -> Self {
        Self {
            field,
            kind: T::KIND,
            ids,
            on_delete,
            paths: Some(paths),
            names: names::<T>,
            visit: visit::<T>,
            stands: stands::<T>,
        }
    }

    /// Where requests write the ids.
    pub fn paths(&self) -> Vec<IdPath> {
        self.paths
            .map_or_else(|| vec![IdPath::Ids(self.field)], <[IdPath]>::to_vec)
    }
}

fn stands<T: Entity>(lookup: &dyn Lookup, id: &str) -> Result<bool> {
    Ok(T::ENDS_BY.is_empty() || lookup.find::<T>(&Id::from_text(id))?.is_some())
}

fn names<T: Entity>() -> &'static dyn Vocabulary {
    FilterNames::<T>::ALL
}

fn visit<T: Entity>(lookup: &dyn Lookup, id: &str, see: &mut dyn FnMut(&dyn FilterTarget)) {
    if let Ok(Some(record)) = lookup.find::<T>(&Id::from_text(id)) {
        see(&RecordTarget {
            record: &record,
            lookup,
        });
    }
}
