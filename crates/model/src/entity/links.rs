//! Links of a record on the wire, and references to other records by name.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::{entity_trait::Entity, kind::Kind, record::Record};

/// A link, relative to the base path of the interface.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Link")]
pub(crate) struct Hyperlink {
    pub href: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

impl Hyperlink {
    /// A link to a path below the base path, such as `services/x`.
    pub(crate) fn to(path: impl std::fmt::Display) -> Self {
        Self {
            href: format!("./{path}"),
            comment: None,
            method: None,
        }
    }
}

/// Links by name, in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct HalLinks(Vec<(&'static str, Hyperlink)>);

impl HalLinks {
    /// With a link added.
    #[must_use]
    pub fn with(mut self, name: &'static str, path: impl std::fmt::Display) -> Self {
        self.0.push((name, Hyperlink::to(path)));
        self
    }

    /// The links of a record: itself, the lists below it, and those of its kind.
    pub fn of<E: Entity>(record: &Record<E>) -> Self {
        let path = E::KIND.path;
        let mut links = Self::default().with("self", format_args!("{path}/{}", record.id));
        for name in E::LINKS {
            links = links.with(name, format_args!("{path}/{}/{name}", record.id));
        }
        E::links(record)
            .into_iter()
            .fold(links, |links, (name, target)| links.with(name, target))
    }
}

impl Serialize for HalLinks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, link)| (name, link)))
    }
}
impl JsonSchema for HalLinks {
    fn schema_name() -> Cow<'static, str> {
        "Links".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let link = generator.subschema_for::<Hyperlink>();
        json_schema!({ "type": "object", "additionalProperties": link })
    }
}

/// Another record, named.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "EntityRef")]
pub struct EntityRef {
    #[serde(rename = "_links")]
    pub links: HalLinks,
    /// The kind, as a path segment.
    pub entity: &'static str,
    pub id: String,
    pub name: String,
}

impl EntityRef {
    /// A reference to a record of which only id and name are known.
    pub fn new(kind: Kind, id: &str, name: &str) -> Self {
        Self {
            links: HalLinks::default().with("self", format_args!("{}/{id}", kind.path)),
            entity: kind.path,
            id: id.into(),
            name: name.into(),
        }
    }

    /// A reference to a record, with all its links.
    pub fn of<E: Entity>(record: &Record<E>, name: &str) -> Self {
        Self {
            links: HalLinks::of(record),
            entity: E::KIND.path,
            id: record.id.to_string(),
            name: name.into(),
        }
    }
}
