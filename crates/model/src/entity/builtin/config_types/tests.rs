//! Unit tests of `config_types.rs`.

mod values;

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
