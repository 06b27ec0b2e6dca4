//! The query parameters of lists.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    entity::{Entity, Words},
    error::{Error, Result},
    query::{self, Vocabulary, Window},
};

/// Which part of a list is wanted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The most entries to answer: 10 unless set, 500 at most.
    #[serde(default)]
    pub limit: Option<i64>,
    /// How many entries to pass over.
    #[serde(default)]
    pub offset: Option<i64>,
    /// Which entries, such as `name contains "web" sort by name limit none`.
    #[serde(default)]
    pub filter: Option<String>,
    /// The order, such as `name desc, createdAt`; one in the filter goes first.
    #[serde(default)]
    pub sort: Option<String>,
}

impl Listing {
    /// Whether it asks for everything in the order of ids, be it in parts.
    pub fn is_of_all(&self) -> bool {
        [&self.filter, &self.sort].into_iter().flatten().all(|text| text.trim().is_empty())
    }

    /// The query over records of kind `E`, and the window of its answer.
    ///
    /// # Errors
    /// Filter or sort cannot be read, or use a name that is none of `words`.
    pub fn query<E: Entity>(&self, words: &Words<E>) -> Result<(query::Query, Window)> {
        let (query, window) = self.over(words)?;
        // Clients know what is ordered and wanted whole by `limit=-1` as empty behind its first entry. A filter's `limit none` gives the rest.
        let is_whole = query.limit.is_none() && window.limit.is_none();
        let is_empty = is_whole && !query.sort.is_empty() && window.offset > 0;
        Ok((query, if is_empty { window.emptied() } else { window }))
    }

    /// The same over whatever has these words.
    ///
    /// # Errors
    /// As in [`Listing::query`].
    pub fn over(&self, words: &dyn Vocabulary) -> Result<(query::Query, Window)> {
        let text = self.filter.as_deref().unwrap_or_default();
        let mut query = query::Query::parse(text, words).map_err(|fault| Error::Filter(fault.to_string()))?;
        if query.sort.is_empty()
            && let Some(sort) = self.sort.as_deref().filter(|sort| !sort.trim().is_empty())
        {
            query.sort = query::parse_sort(sort, words).map_err(|fault| Error::Sort(fault.to_string()))?;
        }
        let window = Window::new(&query, self.limit, self.offset);
        Ok((query, window))
    }
}
