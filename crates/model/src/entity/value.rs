//! Types of members that several kinds share, with the same form in JSON and on disk.

use std::borrow::Cow;

use pki::Certificate;
use query::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value as Json};

use super::amount::Amount;
use crate::{
    error::{Error, Result},
    schema,
};

/// A JSON object stored unchanged: application data, config data, a schema.
///
/// The order of members is kept. On disk it is JSON text, because bincode cannot decode a value of
/// unknown type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document(pub Map<String, Json>);

/// The schema of a member that must be an object; another type is reported as an error of the
/// member, not of the body.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "object", "additionalProperties": true }] })
}

/// Labels of a record: a map of scalars. `null` in JSON is the empty map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tags(pub Map<String, Json>);

impl Tags {
    /// The value under a name such as `owner` or `a.b`.
    pub fn value(&self, path: &str) -> Value<'_> {
        match self.0.get(path) {
            Some(Json::Bool(b)) => (*b).into(),
            Some(Json::String(text)) => text.into(),
            Some(Json::Number(n)) => n.as_i64().map_or_else(
                || n.as_f64().map_or(Value::Null, Value::Float),
                Value::Integer,
            ),
            _ => Value::Null,
        }
    }

    /// The size of the tags.
    pub fn amount(&self) -> Amount {
        amount(&self.0)
    }

    /// Checks that all values are scalars.
    ///
    /// # Errors
    /// A value is a list or an object.
    pub fn check(&self, field: &str) -> Result<()> {
        scalars(&self.0, field)
    }
}

impl Document {
    /// The size of the document.
    pub fn amount(&self) -> Amount {
        amount(&self.0)
    }

    /// Checks that all values are scalars, as application data requires.
    ///
    /// # Errors
    /// A value is a list or an object.
    pub(crate) fn check_scalars(&self, field: &str) -> Result<()> {
        scalars(&self.0, field)
    }
}

fn amount(map: &Map<String, Json>) -> Amount {
    // Serialization of a map is not known to fail; if it did, the size would exceed any limit.
    let bytes = if map.is_empty() {
        2
    } else {
        serde_json::to_string(map).map_or(usize::MAX, |text| text.len())
    };
    Amount {
        entries: map.len(),
        bytes,
    }
}

fn scalars(map: &Map<String, Json>, field: &str) -> Result<()> {
    match map
        .iter()
        .find(|(_, value)| value.is_array() || value.is_object())
    {
        Some((key, value)) => Err(Error::invalid(
            format!("{field}.{key}"),
            "must be a text, a number, a boolean or null",
            schema::shown(value),
        )),
        None => Ok(()),
    }
}

/// Serializes a JSON map: as itself in JSON, as text in binary formats. `null` is the empty map.
macro_rules! json_map {
    ($name:ident, $schema:tt) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    return self.0.serialize(serializer);
                }
                serde_json::to_string(&self.0)
                    .map_err(serde::ser::Error::custom)?
                    .serialize(serializer)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    return Ok(Self(
                        Option::<Map<String, Json>>::deserialize(deserializer)?.unwrap_or_default(),
                    ));
                }
                serde_json::from_str(&String::deserialize(deserializer)?)
                    .map(Self)
                    .map_err(de::Error::custom)
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

/// The flaw of a record, if its fingerprint is not that of its certificate (PEM).
pub(super) fn other_certificate(fingerprint: &str, pem: &str) -> Option<&'static str> {
    (!Certificate::is_known_by(fingerprint, pem))
        .then_some("has a fingerprint that does not match its certificate")
}
