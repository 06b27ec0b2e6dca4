//! The config types that tunnelers know by name, and which of them a file got.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::{
    clock::Timestamp,
    entity::{ConfigType, Document, Id, Record},
    error::{Error, Result},
};

/// The schema definitions of health checks; of addresses, ports and protocols; and of translated
/// addresses.
const CHECKS: &str = include_str!("definitions.check.json");
const TUNNEL: &str = include_str!("definitions.tunnel.json");
const TRANSLATION: &str = include_str!("definitions.translation.json");
/// Members that several schemas have.
const LISTEN_OPTIONS: (&str, &str) = ("listenOptions", include_str!("member.listenOptions.json"));
const DIAL_OPTIONS: (&str, &str) = ("dialOptions", include_str!("member.dialOptions.json"));
/// The schema of `host.v1` without its `$id`; `host.v2` uses it as the definition of a terminator.
const HOST: &str = include_str!("host.json");
/// The `$id` of the schema of `host.v1`.
const HOST_V1_NAME: &str = "http://ziti-edge.netfoundry.io/schemas/host.v1.schema.json";

/// A config type: its id and name, its schema, the groups of definitions that the schema has, and
/// its members that others have, too.
struct Shape {
    id: &'static str,
    name: &'static str,
    schema: &'static str,
    definitions: &'static [&'static str],
    members: &'static [(&'static str, &'static str)],
}

impl Shape {
    const fn of(
        id: &'static str,
        name: &'static str,
        schema: &'static str,
        definitions: &'static [&'static str],
    ) -> Self {
        Self {
            id,
            name,
            schema,
            definitions,
            members: &[],
        }
    }

    const fn with(self, members: &'static [(&'static str, &'static str)]) -> Self {
        Self { members, ..self }
    }
}

/// The config types that every release had come first.
static CONFIG_TYPES: [Shape; 9] = [
    Shape::of(
        "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
        "ziti-tunneler-client.v1",
        include_str!("ziti-tunneler-client.v1.json"),
        &[],
    ),
    Shape::of(
        "cea49285-6c07-42cf-9f52-09a9b115c783",
        "ziti-tunneler-server.v1",
        include_str!("ziti-tunneler-server.v1.json"),
        &[CHECKS],
    ),
    Shape::of(
        "g7cIWbcGg",
        "intercept.v1",
        include_str!("intercept.v1.json"),
        &[TUNNEL],
    )
    .with(&[DIAL_OPTIONS]),
    Shape::of("NH5p4FpGR", "host.v1", HOST, &[CHECKS, TUNNEL, TRANSLATION]).with(&[LISTEN_OPTIONS]),
    Shape::of(
        HOST_V2,
        HOST_V2,
        include_str!("host.v2.json"),
        &[CHECKS, TUNNEL, TRANSLATION],
    ),
    Shape::of("proxy.v1", "proxy.v1", include_str!("proxy.v1.json"), &[]),
    Shape::of(
        "interfaces.v1",
        "interfaces.v1",
        include_str!("interfaces.v1.json"),
        &[],
    ),
    Shape::of(
        "l2.host.v1",
        "l2.host.v1",
        include_str!("l2.host.v1.json"),
        &[CHECKS, TUNNEL],
    )
    .with(&[LISTEN_OPTIONS]),
    Shape::of(
        "l2.intercept.v1",
        "l2.intercept.v1",
        include_str!("l2.intercept.v1.json"),
        &[TUNNEL],
    )
    .with(&[DIAL_OPTIONS]),
];
const HOST_V2: &str = "host.v2";
/// How many config types a file has that does not say which it got.
const FIRST: usize = 5;

/// The built-in config types, from the files beside this one.
///
/// The order and nesting of keywords is an interface: forms are generated from these schemas. A
/// form resolves the references, then reads the type of a list from the first part of its `allOf`
/// and the type of its items from the second part. Members are sorted by name, because forms show
/// them in order. Definitions that a schema does not use stay in it.
///
/// These values may be empty: the texts `hostname`, `sourceIp`, `identity`, `body`, `url`,
/// `expectInBody` and the `address` of a proxy and of a port check; the objects `listenOptions` and
/// `dialOptions`; the lists `portChecks` and `httpChecks`. These may not: the `address` of a host,
/// every entry of a list of addresses, and the lists `protocols`, `addresses`, `portRanges`,
/// `allowedProtocols`, `allowedAddresses`, `allowedPortRanges`, `allowedSourceAddresses`,
/// `actions`, `terminators`, `forwardAddressTranslations`, `bridgeIfs` and `ethTypes`. The type of
/// `protocol` in `ziti-tunneler-server.v1` includes null, but its enumeration does not. A proxy may
/// have members that the schema does not name.
///
/// # Errors
/// [`Error::Internal`] if a built-in file is not a JSON object, which is a defect.
pub fn config_types(now: Timestamp) -> Result<Vec<Record<ConfigType>>> {
    CONFIG_TYPES
        .iter()
        .map(|shape| config_type(shape, now))
        .collect()
}

fn config_type(shape: &Shape, now: Timestamp) -> Result<Record<ConfigType>> {
    let spec = ConfigType {
        name: shape.name.into(),
        schema: Some(Document(whole(shape)?)),
    };
    Ok(Record::new(Id::from_text(shape.id), now, spec))
}

/// The built-in config types that a file got from a release, by their ids. A config type of the
/// operator may have the id of one that the file did not get.
pub struct Shipped(BTreeSet<String>);

impl Shipped {
    /// Reads the setting of a file. A file without the setting has those of the first release.
    pub fn read(setting: Option<&[u8]>) -> Self {
        let first = || {
            CONFIG_TYPES
                .iter()
                .take(FIRST)
                .map(|shape| shape.id.to_owned())
                .collect()
        };
        Self(setting.map_or_else(first, |ids| {
            String::from_utf8_lossy(ids)
                .lines()
                .map(str::to_owned)
                .collect()
        }))
    }

    /// The setting of a new file.
    pub fn all() -> Self {
        Self(
            CONFIG_TYPES
                .iter()
                .map(|shape| shape.id.to_owned())
                .collect(),
        )
    }

    pub fn add(&mut self, id: &Id<ConfigType>) {
        self.0.insert(id.to_string());
    }

    pub fn setting(&self) -> String {
        self.0.iter().map(|id| format!("{id}\n")).collect()
    }

    /// The config types of this release that the file did not get.
    ///
    /// # Errors
    /// As for [`config_types`].
    pub fn lacking(&self, now: Timestamp) -> Result<Vec<Record<ConfigType>>> {
        CONFIG_TYPES
            .iter()
            .filter(|shape| !self.0.contains(shape.id))
            .map(|shape| config_type(shape, now))
            .collect()
    }

    /// The ids of those that the file got.
    pub fn ids(&self) -> impl Iterator<Item = Id<ConfigType>> {
        self.0.iter().map(|id| Id::from_text(id.as_str()))
    }
}

/// A config type that a file got from an earlier release, with the schema of this release, if
/// nobody changed it. The times stay the same, so that a later release can detect the same.
///
/// # Errors
/// As for [`config_types`].
pub fn renewed(stored: &Record<ConfigType>) -> Result<Option<Record<ConfigType>>> {
    let Some(shape) = CONFIG_TYPES
        .iter()
        .find(|shape| shape.id == stored.id.as_str())
    else {
        return Ok(None);
    };
    if stored.created_at != stored.updated_at {
        return Ok(None);
    }
    let schema = Some(Document(whole(shape)?));
    Ok(
        (!is_same(stored.spec.schema.as_ref(), schema.as_ref())).then(|| {
            let mut record = stored.clone();
            record.spec.schema = schema;
            record
        }),
    )
}

/// Whether a config type is one that this release makes, and nobody changed it.
pub fn is_shipped(stored: &Record<ConfigType>) -> bool {
    let shape = CONFIG_TYPES
        .iter()
        .find(|shape| shape.id == stored.id.as_str() && shape.name == stored.spec.name);
    let schema = shape.and_then(|shape| whole(shape).ok()).map(Document);
    stored.created_at == stored.updated_at
        && schema.is_some()
        && is_same(stored.spec.schema.as_ref(), schema.as_ref())
}

fn is_same(one: Option<&Document>, other: Option<&Document>) -> bool {
    serde_json::to_string(&one).ok() == serde_json::to_string(&other).ok()
}

fn object(text: &str) -> Result<Map<String, Json>> {
    serde_json::from_str(text).map_err(|e| Error::Internal(format!("a built-in schema: {e}")))
}

/// A schema with its definitions, members sorted by name.
fn whole(shape: &Shape) -> Result<Map<String, Json>> {
    let mut schema = with_members(shape.schema, shape.members)?;
    let mut definitions = Map::new();
    for group in shape.definitions {
        definitions.extend(object(group)?);
    }
    if shape.schema == HOST {
        schema.insert("$id".into(), HOST_V1_NAME.into());
    }
    if shape.id == HOST_V2 {
        definitions.insert(
            "terminator".into(),
            with_members(HOST, &[LISTEN_OPTIONS])?.into(),
        );
        definitions
            .insert("terminatorList".into(), json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/definitions/terminator" } }));
    }
    if !definitions.is_empty() {
        schema.insert("definitions".into(), definitions.into());
    }
    let mut schema = Json::Object(schema);
    schema.sort_all_objects();
    if let Json::Object(schema) = schema {
        Ok(schema)
    } else {
        Err(Error::Internal("a built-in schema is not an object".into()))
    }
}

/// A schema with members that other schemas have, too.
fn with_members(text: &str, members: &[(&str, &str)]) -> Result<Map<String, Json>> {
    let mut schema = object(text)?;
    if let Some(Json::Object(own)) = schema.get_mut("properties") {
        for (name, member) in members {
            own.insert((*name).into(), object(member)?.into());
        }
    }
    Ok(schema)
}

#[cfg(test)]
mod tests;
