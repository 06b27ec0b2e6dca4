//! The envelope of every JSON answer: `data` and `meta`.

use model::{
    clock::Timestamp,
    entity::{Entity, HalLinks, Id, Lookup, Record, Tags},
    error::Result,
};
use query::Window;
use schemars::JsonSchema;
use serde::Serialize;

/// The version in the `meta` of every answer.
const VERSION: &str = "0.0.1";

/// Metadata of every answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    api_enrollment_version: &'static str,
    api_version: &'static str,
    /// The names that `filter` and `sort` of this list accept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub filterable_fields: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            api_enrollment_version: VERSION,
            api_version: VERSION,
            filterable_fields: None,
            pagination: None,
        }
    }
}

impl Meta {
    /// The metadata of a list.
    pub(crate) fn of_list(pagination: Pagination, fields: Option<Vec<&'static str>>) -> Self {
        Self {
            filterable_fields: fields,
            pagination: Some(pagination),
            ..Self::default()
        }
    }
}

/// The part of a list in an answer.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pagination {
    /// The maximum number of entries in a page; 9223372036854775807 means no limit.
    pub limit: i64,
    /// The number of skipped entries.
    pub offset: i64,
    /// The number of entries in all pages.
    pub total_count: i64,
}

impl Pagination {
    /// A window of a list with this many entries.
    pub(crate) fn of(window: Window, total: u64) -> Self {
        Self {
            limit: window.shown_limit(),
            offset: window.offset as i64,
            total_count: total as i64,
        }
    }
}

/// An answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Envelope")]
pub(crate) struct Envelope<T> {
    pub data: T,
    pub meta: Meta,
}

/// An answer with a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}ListEnvelope")]
pub(crate) struct ListEnvelope<T> {
    pub data: Vec<T>,
    pub meta: Meta,
}

/// An answer without data.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Empty {}

/// The location of a new record.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Location {
    #[serde(rename = "_links")]
    pub links: HalLinks,
    pub id: String,
}

/// A record in an answer: the members that every kind has, and those of its own kind.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{V}")]
pub(crate) struct Detail<V> {
    #[serde(rename = "_links")]
    pub links: HalLinks,
    pub id: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub tags: Tags,
    #[serde(flatten)]
    pub view: V,
}

impl<V> Detail<V> {
    /// A record with one of its views.
    pub(crate) fn new<E: Entity>(record: &Record<E>, view: V) -> Self {
        Self {
            links: HalLinks::of(record),
            id: record.id.to_string(),
            created_at: record.created_at,
            updated_at: record.updated_at,
            tags: record.tags.clone(),
            view,
        }
    }
}

/// A record as its kind shows it.
///
/// # Errors
/// A record that the view needs cannot be read.
pub(crate) fn detail<E: Entity>(
    record: &Record<E>,
    lookup: &dyn Lookup,
) -> Result<Detail<E::View>> {
    Ok(Detail::new(record, E::view(record, lookup)?))
}

impl Location {
    /// The location of a record of kind `E`.
    pub(crate) fn of<E: Entity>(id: &Id<E>) -> Self {
        Self {
            links: HalLinks::default().with("self", format_args!("{}/{id}", E::KIND.path)),
            id: id.to_string(),
        }
    }
}
