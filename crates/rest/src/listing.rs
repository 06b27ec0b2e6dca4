//! The query parameters of lists.

use model::{
    entity::{Entity, FilterNames},
    error::{Error, Result},
};
use query::{Vocabulary, Window};
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters of a list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listing {
    /// The maximum number of entries: 10 by default, at most 500.
    #[serde(default)]
    pub limit: Option<i64>,
    /// The number of entries to skip.
    #[serde(default)]
    pub offset: Option<i64>,
    /// A filter, such as `name contains "web" sort by name limit none`.
    #[serde(default)]
    pub filter: Option<String>,
    /// The sort order, such as `name desc, createdAt`; one in the filter takes precedence.
    #[serde(default)]
    pub sort: Option<String>,
}

impl Listing {
    /// Whether it asks for all records in the order of ids, possibly in pages.
    pub(crate) fn is_of_all(&self) -> bool {
        [&self.filter, &self.sort]
            .into_iter()
            .flatten()
            .all(|text| text.trim().is_empty())
    }

    /// The query over records of kind `E`, and the window of its answer.
    ///
    /// # Errors
    /// The filter or the sort is malformed, or uses a name that is not in `names`.
    pub(crate) fn query<E: Entity>(
        &self,
        names: &FilterNames<E>,
    ) -> Result<(query::Query, Window)> {
        let (query, window) = self.over(names)?;
        // Clients expect that a sorted list with `limit=-1` is empty for an offset above 0. `limit
        // none` in a filter returns the rest.
        let is_whole = query.limit.is_none() && window.limit.is_none();
        let is_empty = is_whole && !query.sort.is_empty() && window.offset > 0;
        Ok((query, if is_empty { window.emptied() } else { window }))
    }

    /// Like [`Listing::query`], over any vocabulary.
    ///
    /// # Errors
    /// Those of [`Listing::query`].
    pub(crate) fn over(&self, names: &dyn Vocabulary) -> Result<(query::Query, Window)> {
        let text = self.filter.as_deref().unwrap_or_default();
        let mut query =
            query::Query::parse(text, names).map_err(|fault| Error::Filter(fault.to_string()))?;
        if query.sort.is_empty()
            && let Some(sort) = self.sort.as_deref().filter(|sort| !sort.trim().is_empty())
        {
            query.sort =
                query::parse_sort(sort, names).map_err(|fault| Error::Sort(fault.to_string()))?;
        }
        let window = Window::new(&query, self.limit, self.offset);
        Ok((query, window))
    }
}
