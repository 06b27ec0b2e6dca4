//! The built-in records of a new file: config types that tunnelers know by name, identity types, posture check types,
//! and the default auth policy.

use serde_json::{Map, Value as Json, json};

use super::{
    AuthPolicy, ConfigType, Document, Entity, Id, IdentityKind, IdentityType, OperatingSystem, OsType, PostureCheckType, Record,
    auth_policy::{Cert, ExtJwt, Primary, Secondary, Updb},
    identity::DEFAULT_AUTH_POLICY,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// The schema definitions of health checks; and those of addresses, ports and protocols.
const CHECKS: &str = include_str!("builtin/definitions.check.json");
const TUNNEL: &str = include_str!("builtin/definitions.tunnel.json");
/// The schema of `host.v1` without its `$id`; `host.v2` uses it as the definition of a terminator.
const HOST: &str = include_str!("builtin/host.json");
/// The `$id` of the schema of `host.v1`.
const HOST_V1_NAME: &str = "http://ziti-edge.netfoundry.io/schemas/host.v1.schema.json";

/// Id, name, schema and groups of definitions of each config type.
type Shape = (&'static str, &'static str, &'static str, &'static [&'static str]);
const CONFIG_TYPES: [Shape; 5] = [
    ("f2dd2df0-9c04-4b84-a91e-71437ac229f1", "ziti-tunneler-client.v1", include_str!("builtin/ziti-tunneler-client.v1.json"), &[]),
    ("cea49285-6c07-42cf-9f52-09a9b115c783", "ziti-tunneler-server.v1", include_str!("builtin/ziti-tunneler-server.v1.json"), &[CHECKS]),
    ("g7cIWbcGg", "intercept.v1", include_str!("builtin/intercept.v1.json"), &[TUNNEL]),
    ("NH5p4FpGR", "host.v1", HOST, &[CHECKS, TUNNEL]),
    (HOST_V2, "host.v2", include_str!("builtin/host.v2.json"), &[CHECKS, TUNNEL]),
];
const HOST_V2: &str = "host.v2";

/// The built-in config types, from `entity/builtin/`.
///
/// The order and nesting of keywords is an interface: forms are generated from these schemas. A form resolves the
/// references, then reads the type of a list from the first part of its `allOf` and the type of its items from the
/// second part. Members are sorted by name, because forms show them in order. Definitions that a schema does not use
/// stay in it.
///
/// These values may be empty: the texts `hostname`, `sourceIp`, `identity`, `body`, `url`, `expectInBody` and the
/// `address` of a proxy and of a port check; the objects `listenOptions` and `dialOptions`; the lists `portChecks` and
/// `httpChecks`. These may not: the `address` of a host, every entry of a list of addresses, and the lists `protocols`,
/// `addresses`, `portRanges`, `allowedProtocols`, `allowedAddresses`, `allowedPortRanges`, `allowedSourceAddresses`,
/// `actions` and `terminators`. The type of `protocol` in `ziti-tunneler-server.v1` includes null, but its enumeration
/// does not. A proxy may have members that the schema does not name.
///
/// # Errors
/// [`Error::Internal`] if a built-in file is not a JSON object, which is a defect.
pub fn config_types(now: Timestamp) -> Result<Vec<Record<ConfigType>>> {
    let record = |shape: Shape| {
        let (id, name, ..) = shape;
        Ok(Record::new(Id::from_text(id), now, ConfigType { name: name.into(), schema: Some(Document(whole(shape)?)) }))
    };
    CONFIG_TYPES.into_iter().map(record).collect()
}

/// A built-in config type with the schema of this release, if an earlier release wrote it and nobody changed it. The
/// times stay the same, so that a later release can detect the same.
///
/// # Errors
/// As for [`config_types`].
pub fn renewed(stored: &Record<ConfigType>) -> Result<Option<Record<ConfigType>>> {
    let Some(shape) = CONFIG_TYPES.into_iter().find(|(id, ..)| *id == stored.id.as_str()) else { return Ok(None) };
    if stored.created_at != stored.updated_at {
        return Ok(None);
    }
    let schema = Some(Document(whole(shape)?));
    let same = serde_json::to_string(&stored.spec.schema).ok() == serde_json::to_string(&schema).ok();
    Ok((!same).then(|| {
        let mut record = stored.clone();
        record.spec.schema = schema;
        record
    }))
}

/// The ids of the built-in config types.
pub(crate) fn config_type_ids() -> impl Iterator<Item = Id<ConfigType>> {
    CONFIG_TYPES.into_iter().map(|(id, ..)| Id::from_text(id))
}

fn object(text: &str) -> Result<Map<String, Json>> {
    serde_json::from_str(text).map_err(|e| Error::Internal(format!("a built-in schema: {e}")))
}

/// A schema with its definitions, members sorted by name.
fn whole((id, _, text, groups): Shape) -> Result<Map<String, Json>> {
    let mut schema = object(text)?;
    let mut definitions = Map::new();
    for group in groups {
        definitions.extend(object(group)?);
    }
    if text == HOST {
        schema.insert("$id".into(), HOST_V1_NAME.into());
    }
    if id == HOST_V2 {
        definitions.insert("terminator".into(), object(HOST)?.into());
        definitions
            .insert("terminatorList".into(), json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/definitions/terminator" } }));
    }
    if !definitions.is_empty() {
        schema.insert("definitions".into(), definitions.into());
    }
    let mut schema = Json::Object(schema);
    schema.sort_all_objects();
    if let Json::Object(schema) = schema { Ok(schema) } else { Err(Error::Internal("a built-in schema is not an object".into())) }
}

/// The identity types.
pub fn identity_types(now: Timestamp) -> Vec<Record<IdentityType>> {
    let kinds = [IdentityKind::Default, IdentityKind::Router].map(IdentityKind::as_str);
    kinds.into_iter().map(|name| Record::new(Id::from_text(name), now, IdentityType { name: name.into() })).collect()
}

/// The posture check types. MFA has none, because it needs no operating system.
pub(crate) fn posture_check_types(now: Timestamp) -> Vec<Record<PostureCheckType>> {
    use OsType::{Android, Ios, Linux, MacOs, Windows};
    let types: [(&str, &str, &[OsType], bool); 5] = [
        ("OS", "Operating System Check", &[Android, Linux, Windows, Ios, MacOs], true),
        ("PROCESS", "Process Check", &[Linux, Windows, MacOs], true),
        ("DOMAIN", "Windows Domain Check", &[Windows], true),
        ("MAC", "MAC Address Check", &[Android, Linux, Windows, MacOs], true),
        ("PROCESS_MULTI", "Process Multi Check", &[Linux, Windows, MacOs], false),
    ];
    let record = |(id, name, systems, versioned): (&str, &str, &[OsType], bool)| {
        let versions = |os_type| if versioned { versions(os_type) } else { &[] };
        let system = |os_type: &OsType| OperatingSystem {
            os_type: *os_type,
            versions: versions(*os_type).iter().map(ToString::to_string).collect(),
        };
        let operating_systems = systems.iter().map(system).collect();
        Record::new(Id::from_text(id), now, PostureCheckType { name: name.into(), operating_systems })
    };
    types.into_iter().map(record).collect()
}

/// The versions that clients offer as a choice, as of the time the list was made.
fn versions(os_type: OsType) -> &'static [&'static str] {
    match os_type {
        OsType::Windows => &["10", "2000", "7", "8", "Vista"],
        OsType::Linux => &["4.14", "4.19", "5.4", "5.9"],
        OsType::Android => &["10", "11", "9"],
        OsType::MacOs => &["10.15", "11.0"],
        OsType::Ios => &["11", "12"],
        OsType::WindowsServer => &[],
    }
}

/// The auth policy of identities that name none: every method is allowed, no second factor is required. Administrators
/// may change it.
pub fn auth_policy(now: Timestamp) -> Record<AuthPolicy> {
    let updb = Updb {
        allowed: true,
        min_password_length: 5,
        require_special_char: false,
        require_number_char: false,
        require_mixed_case: false,
        max_attempts: 0,
        lockout_duration_minutes: 0,
    };
    let cert = Cert { allowed: true, allow_expired_certs: true };
    let ext_jwt = ExtJwt { allowed: true, allowed_signers: Vec::new() };
    let secondary = Secondary { require_totp: false, require_ext_jwt_signer: None };
    let mut policy = AuthPolicy { name: "Default".into(), primary: Primary { cert, ext_jwt, updb }, secondary };
    policy.tidy();
    Record::new(Id::from_text(DEFAULT_AUTH_POLICY), now, policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Checker;

    /// The first member of config data that is rejected, if one is.
    fn refused(name: &str, data: &str) -> Option<String> {
        let types = config_types(Timestamp::ZERO_TIME).unwrap();
        let schema = types.into_iter().find(|of| of.spec.name == name).unwrap().spec.schema.unwrap();
        let first = match Checker::foreign(&schema.0.into()).unwrap().check_data(&serde_json::from_str(data).unwrap()).err()? {
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
                None => Json::Object(members.iter().map(|(name, value)| (name.clone(), resolved(value, root))).collect()),
            },
            Json::Array(items) => items.iter().map(|item| resolved(item, root)).collect(),
            other => other.clone(),
        }
    }

    /// The form field for a member: its type, and for a list the type of its items.
    fn as_form(member: &Json) -> String {
        let word = |value: &Json| if value["enum"].is_array() { "string" } else { value["type"].as_str().unwrap_or("none") }.to_owned();
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
            ("portChecks", "array of object"),
            ("httpChecks", "array of object"),
            ("terminators", "array of object"),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for of in config_types(Timestamp::ZERO_TIME).unwrap() {
            let schema = Json::Object(of.spec.schema.unwrap().0);
            for (name, member) in resolved(&schema, &schema)["properties"].as_object().unwrap() {
                let form = as_form(member);
                assert_ne!(form, "none", "{} {name}", of.spec.name);
                if let Some((_, wanted)) = listed.iter().find(|(of, _)| of == name) {
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
        let schema = |name: &str| Json::Object(types.iter().find(|of| of.spec.name == name).unwrap().spec.schema.clone().unwrap().0);
        let names = |value: &Json| value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ");
        let checks = ["action", "actionList", "duration", "httpCheck", "httpCheckList", "method", "portCheck", "portCheckList"];
        let tunnel = ["dialAddress", "inhabitedSet", "listenAddress", "portNumber", "portRange", "protocolName", "proxyConfiguration"];
        let more = ["proxyType", "timeoutSeconds"];
        let sorted = |parts: &[&[&str]]| {
            let mut all = parts.concat();
            all.sort_unstable();
            all.join(" ")
        };
        assert_eq!(names(&schema("ziti-tunneler-client.v1")), "$id additionalProperties properties required type");
        assert_eq!(names(&schema("host.v1")), "$id additionalProperties allOf definitions properties type");
        assert_eq!(names(&schema("host.v2")), "$id additionalProperties definitions properties required type");
        assert_eq!(names(&schema("ziti-tunneler-server.v1")["definitions"]), sorted(&[&checks]));
        assert_eq!(names(&schema("intercept.v1")["definitions"]), sorted(&[&tunnel, &more]));
        assert_eq!(names(&schema("host.v1")["definitions"]), sorted(&[&checks, &tunnel, &more]));
        assert_eq!(names(&schema("host.v2")["definitions"]), sorted(&[&checks, &tunnel, &more, &["terminator", "terminatorList"]]));
        let set = json!({ "allOf": [{ "$ref": "#/definitions/inhabitedSet" }, { "items": { "$ref": "#/definitions/portRange" } }] });
        assert_eq!(schema("intercept.v1")["properties"]["portRanges"], set);
    }

    #[test]
    fn only_optional_values_may_be_empty() {
        let host = json!({ "protocol": "tcp", "address": "a", "port": 1 });
        let port = json!({ "interval": "1s", "timeout": "1s", "address": "" });
        let http = json!({ "interval": "1s", "timeout": "1s", "url": "", "body": "", "expectInBody": "" });
        let catch = json!({ "protocols": ["tcp"], "addresses": ["a"], "portRanges": [{ "low": 1, "high": 1 }] });
        let with = |base: &Json, member: &str, value: Json| {
            let mut data = base.clone();
            data[member] = value;
            data.to_string()
        };
        for (name, data) in [
            ("ziti-tunneler-client.v1", r#"{"hostname": "", "port": 1}"#.to_owned()),
            ("host.v1", with(&host, "listenOptions", json!({ "identity": "" }))),
            ("host.v1", with(&host, "listenOptions", json!({}))),
            ("host.v1", with(&host, "portChecks", json!([]))),
            ("host.v1", with(&host, "httpChecks", json!([]))),
            ("host.v1", with(&host, "portChecks", json!([port]))),
            ("host.v1", with(&host, "httpChecks", json!([http]))),
            ("host.v1", with(&host, "proxy", json!({ "type": "http", "address": "", "more": 1 }))),
            ("intercept.v1", with(&catch, "dialOptions", json!({}))),
            ("intercept.v1", with(&catch, "sourceIp", json!(""))),
        ] {
            assert_eq!(refused(name, &data), None, "{name} {data}");
        }
        for (name, base, member, value, field) in [
            ("host.v1", &host, "address", json!(""), "address"),
            ("host.v1", &host, "allowedAddresses", json!([]), "allowedAddresses"),
            ("host.v1", &host, "allowedAddresses", json!([""]), "allowedAddresses.0"),
            ("host.v1", &host, "allowedProtocols", json!([]), "allowedProtocols"),
            ("host.v1", &host, "allowedPortRanges", json!([]), "allowedPortRanges"),
            ("host.v1", &host, "allowedSourceAddresses", json!([]), "allowedSourceAddresses"),
            ("intercept.v1", &catch, "protocols", json!([]), "protocols"),
            ("intercept.v1", &catch, "addresses", json!([]), "addresses"),
            ("intercept.v1", &catch, "addresses", json!([""]), "addresses.0"),
            ("intercept.v1", &catch, "portRanges", json!([]), "portRanges"),
            ("host.v2", &json!({}), "terminators", json!([]), "terminators"),
        ] {
            let data = with(base, member, value);
            assert_eq!(refused(name, &data).as_deref(), Some(field), "{name} {data}");
        }
    }

    #[test]
    fn what_tunnelers_understand_is_accepted() {
        for (name, data) in [
            ("ziti-tunneler-client.v1", r#"{"hostname": "db.internal", "port": 5432}"#),
            ("ziti-tunneler-server.v1", r#"{"hostname": "localhost", "port": 1, "protocol": "udp"}"#),
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
            ("host.v2", r#"{"terminators": [{"protocol": "tcp", "address": "localhost", "port": 80}]}"#),
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
            ("host.v1", r#"{"forwardProtocol": true, "address": "a", "port": 1}"#, "(root)"),
            ("host.v1", r#"{"protocol": "tcp", "address": "a", "port": 1, "forwardAddress": false}"#, "forwardAddress"),
            ("host.v2", r#"{"terminators": [{"protocol": "tcp"}]}"#, "terminators.0"),
        ] {
            assert_eq!(refused(name, data).as_deref(), Some(field), "{name} {data}");
        }
    }
}
