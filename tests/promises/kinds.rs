//! One row per kind: bodies for the sweeps in `crud.rs`, and the special members of the kind.

mod referred;

use serde_json::{Value as Json, json};

use crate::harness::{TestServer, fresh};
use referred::{auth_policy, authority, config, config_type, router, service};

/// A kind, by example.
pub struct Sample {
    /// The path segment of the kind.
    pub path: &'static str,
    /// A complete body for POST, with a value for every member.
    pub body: fn(&TestServer, &str) -> Json,
    /// Another value for every member of a PATCH except the name.
    pub changes: fn(&TestServer) -> Json,
    /// The field with the name of the body; only `name` is unique.
    pub key: &'static str,
    /// The path segment of links, if it differs.
    pub linked: Option<&'static str>,
    /// Members that only creation sets.
    pub fixed: &'static [&'static str],
    /// Members of a body that the detail shows differently or not at all.
    pub unseen: &'static [&'static str],
    /// Members of the detail that depend on others.
    pub follows: &'static [&'static str],
    /// The tag that distinguishes the variants of the kind.
    pub tag: Option<&'static str>,
    /// Members that a body must have, although the schema does not require them.
    pub also: &'static [&'static str],
    /// Whether a second record with the same name is rejected because of the name, not because of
    /// another unique member.
    pub unique_on_create: bool,
    /// Filters for fields that are not members of the detail.
    pub filters: &'static [(&'static str, Filter)],
}

/// Makes a filter that matches the record with this detail.
type Filter = fn(&Json) -> String;

/// A kind without special members.
const PLAIN: Sample = Sample {
    path: "",
    body: |_, _| Json::Null,
    changes: |_| Json::Null,
    key: "name",
    linked: None,
    fixed: &[],
    unseen: &[],
    follows: &[],
    tag: None,
    also: &[],
    unique_on_create: true,
    filters: &[],
};

/// One kind with two paths.
const TRANSIT_ROUTER: Sample = Sample {
    path: "transit-routers",
    body: |_, name| json!({ "name": name, "cost": 5, "noTraversal": true, "disabled": true, "tags": { "colour": "red" } }),
    changes: |_| json!({ "cost": 9, "noTraversal": false, "disabled": false, "tags": { "size": 7 } }),
    filters: &[("fingerprint", |_| "fingerprint = null".into())],
    ..PLAIN
};

/// A posture check of any variant except one-time codes.
const CHECK: Sample = Sample {
    path: "posture-checks",
    tag: Some("typeId"),
    filters: &[
        ("promptOnUnlock", |_| "promptOnUnlock = false".into()),
        ("promptOnWake", |_| "promptOnWake = false".into()),
    ],
    ..PLAIN
};

/// Every kind with all six operations, and each variant of those that have several.
pub const SAMPLES: &[Sample] = &[
    Sample {
        path: "config-types",
        body: |_, name| json!({ "name": name, "schema": { "type": "object", "properties": { "a": { "type": "string" } } }, "tags": { "colour": "red" } }),
        changes: |_| json!({ "schema": { "type": "object", "required": ["b"] }, "tags": { "size": 7, "flat": true } }),
        filters: &[("schema", |_| "schema contains \"object\"".into())],
        ..PLAIN
    },
    Sample {
        path: "configs",
        body: |server, name| json!({ "name": name, "configTypeId": config_type(server), "data": { "port": 80, "deep": [{ "a": null }] }, "tags": { "colour": "red" } }),
        changes: |server| json!({ "configTypeId": config_type(server), "data": { "port": 443 }, "tags": { "size": 7 } }),
        fixed: &["configTypeId"],
        filters: &[("type", |detail| {
            format!("type = {}", detail["configTypeId"])
        })],
        ..PLAIN
    },
    Sample {
        path: "services",
        body: |server, name| {
            json!({
                "name": name, "encryptionRequired": true, "terminatorStrategy": "smartrouting", "maxIdleTimeMillis": 0,
                "roleAttributes": ["web"], "configs": [config(server)], "tags": { "colour": "red" }
            })
        },
        changes: |server| {
            json!({
                "encryptionRequired": false, "terminatorStrategy": "random", "maxIdleTimeMillis": 60_000,
                "roleAttributes": ["database", "web"], "configs": [config(server)], "tags": { "size": 7 }
            })
        },
        fixed: &["encryptionRequired"],
        follows: &["config"],
        ..PLAIN
    },
    Sample {
        path: "identities",
        body: |server, name| {
            let service = service(server);
            json!({
                "name": name, "type": "Device", "isAdmin": false, "roleAttributes": ["sales"], "authPolicyId": "default",
                "externalId": fresh("external"), "defaultHostingCost": 5, "defaultHostingPrecedence": "required",
                "serviceHostingCosts": { service.as_str(): 7 }, "serviceHostingPrecedences": { service.as_str(): "failed" },
                "appData": { "owner": "it", "floor": 3 }, "tags": { "colour": "red" }
            })
        },
        changes: |server| {
            let service = service(server);
            json!({
                "type": "User", "isAdmin": true, "roleAttributes": ["office", "sales"], "authPolicyId": auth_policy(server),
                "externalId": fresh("external"), "defaultHostingCost": 6, "defaultHostingPrecedence": "failed",
                "serviceHostingCosts": { service.as_str(): 9 }, "serviceHostingPrecedences": { service.as_str(): "required" },
                "appData": { "owner": "hr" }, "tags": { "size": 7 }
            })
        },
        unseen: &["type"],
        follows: &["authPolicy", "_links"],
        filters: &[("type", |detail| format!("type = {}", detail["typeId"]))],
        ..PLAIN
    },
    Sample {
        path: "edge-routers",
        body: |_, name| {
            json!({
                "name": name, "appData": { "rack": "a" }, "cost": 5, "disabled": false, "isTunnelerEnabled": false, "noTraversal": true,
                "roleAttributes": ["public"], "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "appData": { "rack": "b" }, "cost": 9, "disabled": true, "isTunnelerEnabled": true, "noTraversal": false,
                "roleAttributes": ["edge", "public"], "tags": { "size": 7 }
            })
        },
        filters: &[
            ("fingerprint", |_| "fingerprint = null".into()),
            ("connected", |detail| {
                format!("connected = {}", detail["isOnline"])
            }),
            ("online", |detail| {
                format!("online = {}", detail["isOnline"])
            }),
        ],
        ..PLAIN
    },
    TRANSIT_ROUTER,
    Sample {
        path: "routers",
        linked: Some("transit-routers"),
        ..TRANSIT_ROUTER
    },
    Sample {
        path: "terminators",
        body: |server, name| {
            json!({
                "service": service(server), "router": router(server), "address": "tcp:localhost:80", "binding": "transport", "cost": 5,
                "precedence": "required", "identity": name, "identitySecret": "c2VjcmV0", "tags": { "colour": "red" }
            })
        },
        changes: |server| {
            json!({
                "service": service(server), "router": router(server), "address": "udp:localhost:53", "binding": "udp", "cost": 9,
                "precedence": "failed", "identity": "other", "identitySecret": "b3RoZXI=", "tags": { "size": 7 }
            })
        },
        key: "instanceId",
        fixed: &["identity", "identitySecret"],
        unseen: &["service", "router", "identitySecret"],
        follows: &["router", "routerId", "service", "serviceId"],
        filters: &[
            ("service", |detail| {
                format!("service = {}", detail["serviceId"])
            }),
            ("router", |detail| {
                format!("router = {}", detail["routerId"])
            }),
            ("instanceId", |detail| {
                format!("instanceId = {}", detail["identity"])
            }),
            ("hostId", |_| "hostId = \"\"".into()),
        ],
        ..PLAIN
    },
    Sample {
        path: "service-policies",
        body: |_, name| {
            json!({
                "name": name, "type": "Dial", "semantic": "AllOf", "identityRoles": ["#sales"], "serviceRoles": ["#web"],
                "postureCheckRoles": ["#strict"], "tags": { "colour": "red" }
            })
        },
        changes: |server| {
            json!({
                "type": "Bind", "semantic": "AnyOf", "identityRoles": ["#office", "#sales"], "serviceRoles": [format!("@{}", service(server))],
                "postureCheckRoles": ["#lax"], "tags": { "size": 7 }
            })
        },
        follows: &[
            "identityRolesDisplay",
            "serviceRolesDisplay",
            "postureCheckRolesDisplay",
        ],
        filters: &[("type", |detail| {
            format!("type = {}", if detail["type"] == "Dial" { 1 } else { 2 })
        })],
        ..PLAIN
    },
    Sample {
        path: "edge-router-policies",
        body: |_, name| json!({ "name": name, "semantic": "AllOf", "edgeRouterRoles": ["#public"], "identityRoles": ["#sales"], "tags": { "colour": "red" } }),
        changes: |_| json!({ "semantic": "AnyOf", "edgeRouterRoles": ["#all"], "identityRoles": ["#office", "#sales"], "tags": { "size": 7 } }),
        follows: &["edgeRouterRolesDisplay", "identityRolesDisplay"],
        ..PLAIN
    },
    Sample {
        path: "service-edge-router-policies",
        body: |_, name| json!({ "name": name, "semantic": "AllOf", "edgeRouterRoles": ["#public"], "serviceRoles": ["#web"], "tags": { "colour": "red" } }),
        changes: |server| json!({ "semantic": "AnyOf", "edgeRouterRoles": ["#all"], "serviceRoles": [format!("@{}", service(server))], "tags": { "size": 7 } }),
        follows: &["edgeRouterRolesDisplay", "serviceRolesDisplay"],
        ..PLAIN
    },
    Sample {
        path: "posture-checks",
        body: |_, name| {
            json!({
                "typeId": "MFA", "name": name, "roleAttributes": ["laptops"], "timeoutSeconds": 600, "promptOnWake": true,
                "promptOnUnlock": false, "ignoreLegacyEndpoints": false, "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "roleAttributes": ["desktops", "laptops"], "timeoutSeconds": 60, "promptOnWake": false, "promptOnUnlock": true,
                "ignoreLegacyEndpoints": true, "tags": { "size": 7 }
            })
        },
        tag: Some("typeId"),
        ..PLAIN
    },
    Sample {
        body: |_, name| {
            let systems = json!([{ "type": "Linux", "versions": [">=5.0.0"] }]);
            json!({ "typeId": "OS", "name": name, "roleAttributes": ["laptops"], "operatingSystems": systems, "tags": { "colour": "red" } })
        },
        changes: |_| {
            let systems = json!([{ "type": "Windows", "versions": ["10.0.0"] }, { "type": "macOS", "versions": [] }]);
            json!({ "roleAttributes": ["desktops"], "operatingSystems": systems, "tags": { "size": 7 } })
        },
        also: &["operatingSystems"],
        ..CHECK
    },
    Sample {
        body: |_, name| json!({ "typeId": "DOMAIN", "name": name, "roleAttributes": ["laptops"], "domains": ["one.test"], "tags": { "colour": "red" } }),
        changes: |_| json!({ "roleAttributes": ["desktops"], "domains": ["three.test", "two.test"], "tags": { "size": 7 } }),
        also: &["domains"],
        ..CHECK
    },
    Sample {
        body: |_, name| json!({ "typeId": "MAC", "name": name, "roleAttributes": ["laptops"], "macAddresses": ["0242ac110002"], "tags": { "colour": "red" } }),
        changes: |_| json!({ "roleAttributes": ["desktops"], "macAddresses": ["0242ac110003", "0242ac110004"], "tags": { "size": 7 } }),
        also: &["macAddresses"],
        ..CHECK
    },
    Sample {
        body: |_, name| {
            let process = json!({ "osType": "Linux", "path": "/bin/guard", "hashes": ["ab"], "signerFingerprint": "cd" });
            json!({ "typeId": "PROCESS", "name": name, "roleAttributes": ["laptops"], "process": process, "tags": { "colour": "red" } })
        },
        changes: |_| {
            let process = json!({ "osType": "Windows", "path": "guard.exe", "hashes": ["12", "34"], "signerFingerprint": "ef" });
            json!({ "roleAttributes": ["desktops"], "process": process, "tags": { "size": 7 } })
        },
        also: &["process"],
        ..CHECK
    },
    Sample {
        body: |_, name| {
            let processes = json!([{ "osType": "Linux", "path": "/bin/guard", "hashes": ["ab"], "signerFingerprints": ["cd"] }]);
            json!({
                "typeId": "PROCESS_MULTI", "name": name, "roleAttributes": ["laptops"], "semantic": "AllOf", "processes": processes,
                "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            let processes = json!([{ "osType": "macOS", "path": "/Applications/Guard", "hashes": ["12", "34"], "signerFingerprints": ["ef"] }]);
            json!({ "roleAttributes": ["desktops"], "semantic": "AnyOf", "processes": processes, "tags": { "size": 7 } })
        },
        also: &["semantic", "processes"],
        ..CHECK
    },
    Sample {
        path: "cas",
        body: |_, name| {
            json!({
                "name": name, "certPem": authority(name), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
                "isOttCaEnrollmentEnabled": true, "identityRoles": ["partners"], "identityNameFormat": "[caName] [commonName]",
                "externalIdClaim": {
                    "location": "COMMON_NAME", "matcher": "PREFIX", "matcherCriteria": "id-", "parser": "SPLIT", "parserCriteria": ",", "index": 1
                },
                "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "certPem": authority("another"), "isAuthEnabled": false, "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": false, "identityRoles": ["guests"],
                "identityNameFormat": "[commonName]",
                "externalIdClaim": {
                    "location": "SAN_EMAIL", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0
                },
                "tags": { "size": 7 }
            })
        },
        fixed: &["certPem"],
        follows: &["_links"],
        unique_on_create: false,
        ..PLAIN
    },
    Sample {
        path: "external-jwt-signers",
        body: |_, name| {
            json!({
                "name": name, "enabled": true, "issuer": format!("https://{name}.test"), "audience": "overlay",
                "jwksEndpoint": "https://idp.test/keys", "certPem": null, "kid": fresh("kid"), "claimsProperty": "email", "useExternalId": true,
                "externalAuthUrl": "https://idp.test/start", "clientId": "overlay-app", "scopes": ["openid", "email"], "targetToken": "ID",
                "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "enabled": false, "issuer": fresh("https://issuer"), "audience": "other", "jwksEndpoint": "https://idp.test/other", "certPem": null,
                "kid": fresh("kid"), "claimsProperty": "sub", "useExternalId": false, "externalAuthUrl": "https://idp.test/again",
                "clientId": "other-app", "scopes": ["profile"], "targetToken": "ACCESS",
                "tags": { "size": 7 }
            })
        },
        also: &["jwksEndpoint"],
        filters: &[
            ("notAfter", |detail| {
                format!(
                    "notAfter = datetime({})",
                    detail["notAfter"].as_str().unwrap()
                )
            }),
            ("notBefore", |detail| {
                format!(
                    "notBefore = datetime({})",
                    detail["notBefore"].as_str().unwrap()
                )
            }),
        ],
        ..PLAIN
    },
    Sample {
        path: "external-jwt-signers",
        body: |_, name| {
            json!({
                "name": name, "enabled": true, "issuer": format!("https://{name}.test"), "audience": "overlay", "jwksEndpoint": null,
                "certPem": authority(name), "kid": fresh("kid"), "claimsProperty": "email", "useExternalId": true, "externalAuthUrl": null,
                "clientId": null, "scopes": [], "targetToken": "ACCESS", "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "enabled": false, "issuer": fresh("https://issuer"), "audience": "other", "jwksEndpoint": null, "certPem": authority("another"),
                "kid": fresh("kid"), "claimsProperty": "sub", "useExternalId": false, "externalAuthUrl": "https://idp.test/again",
                "clientId": "other-app", "scopes": ["profile"], "targetToken": "ID", "tags": { "size": 7 }
            })
        },
        also: &["certPem"],
        follows: &["fingerprint", "commonName", "notBefore", "notAfter"],
        filters: &[
            ("notAfter", |detail| {
                format!(
                    "notAfter = datetime({})",
                    detail["notAfter"].as_str().unwrap()
                )
            }),
            ("notBefore", |detail| {
                format!(
                    "notBefore = datetime({})",
                    detail["notBefore"].as_str().unwrap()
                )
            }),
            ("certPem", |_| "certPem contains \"CERTIFICATE\"".into()),
        ],
        unique_on_create: false,
        ..PLAIN
    },
    Sample {
        path: "auth-policies",
        body: |_, name| {
            json!({
                "name": name,
                "primary": {
                    "cert": { "allowed": true, "allowExpiredCerts": false },
                    "extJwt": { "allowed": true, "allowedSigners": [] },
                    "updb": {
                        "allowed": true, "minPasswordLength": 8, "requireSpecialChar": false, "requireNumberChar": false,
                        "requireMixedCase": false, "maxAttempts": 3, "lockoutDurationMinutes": 5
                    }
                },
                "secondary": { "requireTotp": false, "requireExtJwtSigner": null },
                "tags": { "colour": "red" }
            })
        },
        changes: |_| {
            json!({
                "primary": {
                    "cert": { "allowed": false, "allowExpiredCerts": true },
                    "extJwt": { "allowed": false, "allowedSigners": [] },
                    "updb": {
                        "allowed": false, "minPasswordLength": 9, "requireSpecialChar": true, "requireNumberChar": true,
                        "requireMixedCase": true, "maxAttempts": 4, "lockoutDurationMinutes": 6
                    }
                },
                "secondary": { "requireTotp": true, "requireExtJwtSigner": null },
                "tags": { "size": 7 }
            })
        },
        ..PLAIN
    },
];

/// Kinds whose members exclude or require each other, so that they cannot be changed one by one.
/// They have their own tests (`credentials.rs`).
pub const ENTANGLED: [&str; 1] = ["authenticators"];
