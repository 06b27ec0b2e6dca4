//! What a new file holds before anybody asked for anything: config types that tunnelers know by name, identity types, posture
//! check types and the auth policy of those who name none.

use serde_json::{Map, Value as Json};

use super::{
    AuthPolicy, ConfigType, Document, Entity, Id, IdentityKind, IdentityType, OperatingSystem, OsType, PostureCheckType, Record,
    auth_policy::{Cert, ExtJwt, Primary, Secondary, Updb},
    identity::DEFAULT_AUTH_POLICY,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// Parts that several of the schemas share.
const DEFINITIONS: &str = include_str!("builtin/definitions.json");
const HOST_V1: &str = include_str!("builtin/host.v1.json");
/// Id, name and schema of each config type.
const CONFIG_TYPES: [(&str, &str, &str); 5] = [
    ("f2dd2df0-9c04-4b84-a91e-71437ac229f1", "ziti-tunneler-client.v1", include_str!("builtin/ziti-tunneler-client.v1.json")),
    ("cea49285-6c07-42cf-9f52-09a9b115c783", "ziti-tunneler-server.v1", include_str!("builtin/ziti-tunneler-server.v1.json")),
    ("g7cIWbcGg", "intercept.v1", include_str!("builtin/intercept.v1.json")),
    ("NH5p4FpGR", "host.v1", HOST_V1),
    ("host.v2", "host.v2", include_str!("builtin/host.v2.json")),
];

/// The config types, in `entity/builtin/`.
///
/// # Errors
/// A file is no JSON object, which is a defect.
pub fn config_types(now: Timestamp) -> Result<Vec<Record<ConfigType>>> {
    let mut shared = object(DEFINITIONS)?;
    shared.insert("host.v1".into(), object(HOST_V1)?.into());
    let record = |(id, name, schema): (&str, &str, &str)| {
        let schema = Some(Document(whole(object(schema)?, &shared)));
        Ok(Record::new(Id::from_text(id), now, ConfigType { name: name.into(), schema }))
    };
    CONFIG_TYPES.into_iter().map(record).collect()
}

fn object(text: &str) -> Result<Map<String, Json>> {
    serde_json::from_str(text).map_err(|e| Error::Internal(format!("a built-in schema: {e}")))
}

/// A schema with those of the shared parts that it refers to, directly or by another part.
fn whole(mut schema: Map<String, Json>, shared: &Map<String, Json>) -> Map<String, Json> {
    let mut parts = Map::new();
    loop {
        let text = Json::from(vec![Json::from(schema.clone()), Json::from(parts.clone())]).to_string();
        let wanted = |name: &str| !parts.contains_key(name) && text.contains(&format!("\"#/definitions/{name}\""));
        let found: Map<_, _> = shared.iter().filter(|(name, _)| wanted(name)).map(|(name, part)| (name.clone(), part.clone())).collect();
        if found.is_empty() {
            break;
        }
        parts.extend(found);
    }
    schema.insert("definitions".into(), parts.into());
    schema
}

/// The identity types.
pub fn identity_types(now: Timestamp) -> Vec<Record<IdentityType>> {
    let kinds = [IdentityKind::Default, IdentityKind::Router].map(IdentityKind::as_str);
    kinds.into_iter().map(|name| Record::new(Id::from_text(name), now, IdentityType { name: name.into() })).collect()
}

/// The posture check types. There is none for MFA, which needs no operating system.
pub fn posture_check_types(now: Timestamp) -> Vec<Record<PostureCheckType>> {
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

/// What people ran when the list was made; clients show it as a choice.
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

/// The auth policy of identities that name none: every means is allowed, nothing more is asked. Administrators may change it.
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

    /// The member of config data that is refused, if one is.
    fn refused(name: &str, data: &str) -> Option<String> {
        let types = config_types(Timestamp::ZERO_TIME).unwrap();
        let schema = types.into_iter().find(|of| of.spec.name == name).unwrap().spec.schema.unwrap();
        match Checker::foreign(&schema.0.into()).unwrap().check_data(&serde_json::from_str(data).unwrap()) {
            Ok(()) => None,
            Err(Error::Invalid { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
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
    fn what_they_would_misread_is_refused_with_its_place() {
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
