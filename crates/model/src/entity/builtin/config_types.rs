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
mod tests {
    use super::*;
    use crate::schema::Checker;

    /// The first member of config data that is rejected, if one is.
    fn refused(name: &str, data: &str) -> Option<String> {
        let types = config_types(Timestamp::ZERO_TIME).unwrap();
        let schema = types
            .into_iter()
            .find(|of| of.spec.name == name)
            .unwrap()
            .spec
            .schema
            .unwrap();
        let first = match Checker::foreign(&schema.0.into())
            .unwrap()
            .check_data(&serde_json::from_str(data).unwrap())
            .err()?
        {
            Error::Several(errors) => errors.into_iter().next().unwrap(),
            one => one,
        };
        match first {
            Error::Invalid { field, .. } => Some(field),
            other => panic!("{other}"),
        }
    }

    /// A schema with every reference resolved, as forms read it.
    fn resolved(schema: &Json, root: &Json) -> Json {
        match schema {
            Json::Object(members) => match members.get("$ref").and_then(Json::as_str) {
                Some(place) => resolved(root.pointer(place.trim_start_matches('#')).unwrap(), root),
                None => Json::Object(
                    members
                        .iter()
                        .map(|(name, value)| (name.clone(), resolved(value, root)))
                        .collect(),
                ),
            },
            Json::Array(items) => items.iter().map(|item| resolved(item, root)).collect(),
            other => other.clone(),
        }
    }

    /// The form field for a member: its type, and for a list the type of its items.
    fn as_form(member: &Json) -> String {
        let word = |value: &Json| {
            if value["enum"].is_array() {
                "string"
            } else {
                value["type"].as_str().unwrap_or("none")
            }
            .to_owned()
        };
        if member["type"].is_null() && member["allOf"][0]["type"] == "array" {
            return format!("list of {}", word(&member["allOf"][1]["items"]));
        }
        if member["type"] == "array" {
            format!("array of {}", word(&member["items"]))
        } else if member["type"] == "boolean" {
            "boolean".into()
        } else {
            word(member)
        }
    }

    #[test]
    fn forms_find_member_types() {
        let listed = [
            ("protocols", "list of string"),
            ("addresses", "list of string"),
            ("portRanges", "list of object"),
            ("allowedProtocols", "list of string"),
            ("allowedAddresses", "list of string"),
            ("allowedPortRanges", "list of object"),
            ("allowedSourceAddresses", "list of string"),
            ("forwardAddressTranslations", "list of object"),
            ("bridgeIfs", "list of string"),
            ("ethTypes", "list of string"),
            ("interfaces", "array of string"),
            ("portChecks", "array of object"),
            ("httpChecks", "array of object"),
            ("terminators", "array of object"),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for of in config_types(Timestamp::ZERO_TIME).unwrap() {
            let schema = Json::Object(of.spec.schema.unwrap().0);
            for (name, member) in resolved(&schema, &schema)["properties"]
                .as_object()
                .unwrap()
            {
                let form = as_form(member);
                assert_ne!(form, "none", "{} {name}", of.spec.name);
                // The protocols of a proxy are a list without a group of definitions.
                let is_listed = |member: &str| {
                    member == name && (of.spec.name.as_str(), member) != ("proxy.v1", "protocols")
                };
                if let Some((_, wanted)) = listed.iter().find(|(member, _)| is_listed(member)) {
                    assert_eq!(form, *wanted, "{} {name}", of.spec.name);
                    seen.insert(name.clone());
                }
            }
        }
        assert_eq!(seen.len(), listed.len());
    }

    #[test]
    fn schema_keywords_stay_in_place() {
        let types = config_types(Timestamp::ZERO_TIME).unwrap();
        let schema = |name: &str| {
            Json::Object(
                types
                    .iter()
                    .find(|of| of.spec.name == name)
                    .unwrap()
                    .spec
                    .schema
                    .clone()
                    .unwrap()
                    .0,
            )
        };
        let names = |value: &Json| {
            value
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let checks = [
            "action",
            "actionList",
            "duration",
            "httpCheck",
            "httpCheckList",
            "method",
            "portCheck",
            "portCheckList",
        ];
        let tunnel = [
            "dialAddress",
            "inhabitedSet",
            "listenAddress",
            "portNumber",
            "portRange",
            "protocolName",
            "proxyConfiguration",
        ];
        let more = ["proxyType", "timeoutSeconds"];
        let translation = [
            "addressTranslation",
            "ipv4AddressTranslation",
            "ipv6AddressTranslation",
        ];
        let sorted = |parts: &[&[&str]]| {
            let mut all = parts.concat();
            all.sort_unstable();
            all.join(" ")
        };
        assert_eq!(
            names(&schema("ziti-tunneler-client.v1")),
            "$id additionalProperties properties required type"
        );
        assert_eq!(
            names(&schema("host.v1")),
            "$id additionalProperties allOf definitions properties type"
        );
        assert_eq!(
            names(&schema("host.v2")),
            "$id additionalProperties definitions properties required type"
        );
        assert_eq!(
            names(&schema("ziti-tunneler-server.v1")["definitions"]),
            sorted(&[&checks])
        );
        assert_eq!(
            names(&schema("intercept.v1")["definitions"]),
            sorted(&[&tunnel, &more])
        );
        assert_eq!(
            names(&schema("host.v1")["definitions"]),
            sorted(&[&checks, &tunnel, &more, &translation])
        );
        let terminators = ["terminator", "terminatorList"];
        assert_eq!(
            names(&schema("host.v2")["definitions"]),
            sorted(&[&checks, &tunnel, &more, &translation, &terminators])
        );
        assert_eq!(
            schema("host.v2")["definitions"]["terminator"]["properties"],
            schema("host.v1")["properties"]
        );
        let set = json!({ "allOf": [{ "$ref": "#/definitions/inhabitedSet" }, { "items": { "$ref": "#/definitions/portRange" } }] });
        assert_eq!(schema("intercept.v1")["properties"]["portRanges"], set);
    }

    #[test]
    fn only_optional_values_may_be_empty() {
        let host = json!({ "protocol": "tcp", "address": "a", "port": 1 });
        let port = json!({ "interval": "1s", "timeout": "1s", "address": "" });
        let http =
            json!({ "interval": "1s", "timeout": "1s", "url": "", "body": "", "expectInBody": "" });
        let catch = json!({ "protocols": ["tcp"], "addresses": ["a"], "portRanges": [{ "low": 1, "high": 1 }] });
        let with = |base: &Json, member: &str, value: Json| {
            let mut data = base.clone();
            data[member] = value;
            data.to_string()
        };
        for (name, data) in [
            (
                "ziti-tunneler-client.v1",
                r#"{"hostname": "", "port": 1}"#.to_owned(),
            ),
            (
                "host.v1",
                with(&host, "listenOptions", json!({ "identity": "" })),
            ),
            ("host.v1", with(&host, "listenOptions", json!({}))),
            ("host.v1", with(&host, "portChecks", json!([]))),
            ("host.v1", with(&host, "httpChecks", json!([]))),
            ("host.v1", with(&host, "portChecks", json!([port]))),
            ("host.v1", with(&host, "httpChecks", json!([http]))),
            (
                "host.v1",
                with(
                    &host,
                    "proxy",
                    json!({ "type": "http", "address": "", "more": 1 }),
                ),
            ),
            ("intercept.v1", with(&catch, "dialOptions", json!({}))),
            ("intercept.v1", with(&catch, "sourceIp", json!(""))),
            ("interfaces.v1", json!({ "interfaces": [] }).to_string()),
            ("l2.host.v1", json!({}).to_string()),
        ] {
            assert_eq!(refused(name, &data), None, "{name} {data}");
        }
        for (name, base, member, value, field) in [
            ("host.v1", &host, "address", json!(""), "address"),
            (
                "host.v1",
                &host,
                "allowedAddresses",
                json!([]),
                "allowedAddresses",
            ),
            (
                "host.v1",
                &host,
                "allowedAddresses",
                json!([""]),
                "allowedAddresses.0",
            ),
            (
                "host.v1",
                &host,
                "allowedProtocols",
                json!([]),
                "allowedProtocols",
            ),
            (
                "host.v1",
                &host,
                "allowedPortRanges",
                json!([]),
                "allowedPortRanges",
            ),
            (
                "host.v1",
                &host,
                "allowedSourceAddresses",
                json!([]),
                "allowedSourceAddresses",
            ),
            ("intercept.v1", &catch, "protocols", json!([]), "protocols"),
            ("intercept.v1", &catch, "addresses", json!([]), "addresses"),
            (
                "intercept.v1",
                &catch,
                "addresses",
                json!([""]),
                "addresses.0",
            ),
            (
                "intercept.v1",
                &catch,
                "portRanges",
                json!([]),
                "portRanges",
            ),
            (
                "intercept.v1",
                &catch,
                "allowedSourceAddresses",
                json!([]),
                "allowedSourceAddresses",
            ),
            (
                "host.v2",
                &json!({}),
                "terminators",
                json!([]),
                "terminators",
            ),
            (
                "host.v1",
                &host,
                "forwardAddressTranslations",
                json!([]),
                "forwardAddressTranslations",
            ),
            (
                "proxy.v1",
                &json!({ "port": 80 }),
                "protocols",
                json!([]),
                "protocols",
            ),
            (
                "l2.host.v1",
                &json!({}),
                "bridgeIfs",
                json!([]),
                "bridgeIfs",
            ),
            (
                "l2.intercept.v1",
                &json!({}),
                "ethTypes",
                json!([]),
                "ethTypes",
            ),
        ] {
            let data = with(base, member, value);
            assert_eq!(
                refused(name, &data).as_deref(),
                Some(field),
                "{name} {data}"
            );
        }
    }

    /// Data of `host.v1` with these translations.
    fn translated(items: &str) -> String {
        format!(
            r#"{{"protocol": "tcp", "forwardAddress": true, "allowedAddresses": ["10.0.0.0/8"], "port": 80, "forwardAddressTranslations": [{items}]}}"#
        )
    }

    #[test]
    fn what_tunnelers_understand_is_accepted() {
        for (name, data) in [
            (
                "ziti-tunneler-client.v1",
                r#"{"hostname": "db.internal", "port": 5432}"#,
            ),
            (
                "ziti-tunneler-server.v1",
                r#"{"hostname": "localhost", "port": 1, "protocol": "udp"}"#,
            ),
            (
                "intercept.v1",
                r#"{"protocols": ["tcp"], "addresses": ["*.internal", "10.0.0.0/8", "fe80::1"], "portRanges": [{"low": 1, "high": 2}]}"#,
            ),
            (
                "host.v1",
                r#"{"protocol": "tcp", "forwardAddress": true, "allowedAddresses": ["*.a"], "port": 80, "listenOptions": {"cost": 10}}"#,
            ),
            (
                "host.v1",
                r#"{"protocol": "tcp", "address": "a", "port": 80, "portChecks": [{"interval": "1s", "timeout": "1s", "address": "a:80"}]}"#,
            ),
            (
                "host.v2",
                r#"{"terminators": [{"protocol": "tcp", "address": "localhost", "port": 80}]}"#,
            ),
            (
                "host.v1",
                &translated(
                    r#"{"from": "10.0.0.0", "to": "192.168.0.0", "prefixLength": 8}, {"from": "fd00::", "to": "fe80::", "prefixLength": 64}"#,
                ),
            ),
            (
                "host.v2",
                &format!(
                    r#"{{"terminators": [{}]}}"#,
                    translated(r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 32}"#)
                ),
            ),
            (
                "intercept.v1",
                r#"{"protocols": ["tcp"], "addresses": ["a"], "portRanges": [{"low": 1, "high": 2}], "allowedSourceAddresses": ["10.0.0.0/8"]}"#,
            ),
            (
                "proxy.v1",
                r#"{"port": 8080, "protocols": ["tcp", "udp"], "binding": "0.0.0.0"}"#,
            ),
            ("interfaces.v1", r#"{"interfaces": ["eth0", "eth1"]}"#),
            (
                "l2.host.v1",
                r#"{"bridgeIfs": ["eth0"], "listenOptions": {"cost": 10}}"#,
            ),
            (
                "l2.intercept.v1",
                r#"{"ethTypes": ["0x0800", "0X86dd"], "dialOptions": {"identity": "a"}}"#,
            ),
        ] {
            assert_eq!(refused(name, data), None, "{name} {data}");
        }
    }

    #[test]
    fn misread_values_are_refused() {
        for (name, data, field) in [
            ("ziti-tunneler-client.v1", r#"{"hostname": "a"}"#, "(root)"),
            (
                "intercept.v1",
                r#"{"protocols": ["tcp"], "addresses": ["a"], "portRanges": [{"low": 1, "high": 70000}]}"#,
                "portRanges.0.high",
            ),
            (
                "host.v1",
                r#"{"forwardProtocol": true, "address": "a", "port": 1}"#,
                "(root)",
            ),
            (
                "host.v1",
                r#"{"protocol": "tcp", "address": "a", "port": 1, "forwardAddress": false}"#,
                "forwardAddress",
            ),
            (
                "host.v2",
                r#"{"terminators": [{"protocol": "tcp"}]}"#,
                "terminators.0",
            ),
            (
                "host.v1",
                &translated(r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 33}"#),
                "forwardAddressTranslations.0",
            ),
            (
                "host.v1",
                &translated(r#"{"from": "10.0.0.0", "to": "fe80::", "prefixLength": 8}"#),
                "forwardAddressTranslations.0",
            ),
            (
                "host.v1",
                &translated(r#"{"from": "fd00::", "to": "fe80::", "prefixLength": 129}"#),
                "forwardAddressTranslations.0",
            ),
            (
                "host.v1",
                &translated(r#"{"from": "web", "to": "10.1.0.0", "prefixLength": 8}"#),
                "forwardAddressTranslations.0",
            ),
            (
                "host.v1",
                &translated(
                    r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 8, "more": 1}"#,
                ),
                "forwardAddressTranslations.0",
            ),
            ("proxy.v1", r#"{"port": 0, "protocols": ["tcp"]}"#, "port"),
            (
                "proxy.v1",
                r#"{"port": 80, "protocols": ["sctp"]}"#,
                "protocols.0",
            ),
            ("proxy.v1", r#"{"protocols": ["tcp"]}"#, "(root)"),
            (
                "proxy.v1",
                r#"{"port": 80, "protocols": ["tcp"], "more": 1}"#,
                "(root)",
            ),
            ("interfaces.v1", r#"{}"#, "(root)"),
            (
                "l2.host.v1",
                r#"{"listenOptions": {"cost": 65536}}"#,
                "listenOptions.cost",
            ),
            ("l2.intercept.v1", r#"{"ethTypes": ["800"]}"#, "ethTypes.0"),
            ("l2.intercept.v1", r#"{"dialOptions": {}}"#, "(root)"),
        ] {
            assert_eq!(refused(name, data).as_deref(), Some(field), "{name} {data}");
        }
    }
}
