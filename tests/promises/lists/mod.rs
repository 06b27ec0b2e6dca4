//! Lists below a record, on a known corpus: each contains exactly the entries that policies and
//! references imply, and otherwise behaves like the list of its kind.

mod nested;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use crate::harness::{Answer, Base, Caller, Key, PASSWORD, TestServer, Wire, encoded, interface};

/// Ids by the names used here.
type Ids = BTreeMap<&'static str, String>;

/// One identity may dial two services over two routers, under a posture check, and host one of
/// them; another may bind a third service.
pub struct Corpus {
    pub server: TestServer,
    ids: Ids,
}

impl Corpus {
    pub fn new() -> Self {
        let mut corpus = Self {
            server: TestServer::start(),
            ids: Ids::new(),
        };
        corpus.make(
            "/config-types",
            &[("kind", json!({})), ("other-kind", json!({}))],
        );
        let of = |corpus: &Self, kind: &str| json!({ "configTypeId": corpus.id(kind), "data": { "a": 1 } });
        corpus.make(
            "/configs",
            &[
                ("config", of(&corpus, "kind")),
                ("other-config", of(&corpus, "other-kind")),
            ],
        );
        let service = |configs: Json, roles: Json| json!({ "encryptionRequired": true, "configs": configs, "roleAttributes": roles });
        let configs = [
            json!([]),
            json!([corpus.id("config")]),
            json!([corpus.id("config"), corpus.id("other-config")]),
        ];
        let [none, one, both] = configs;
        corpus.make(
            "/services",
            &[
                ("mail", service(none, json!([]))),
                ("web", service(one, json!(["web"]))),
                ("wiki", service(both, json!(["web"]))),
            ],
        );
        let person = |roles: Json| json!({ "type": "User", "isAdmin": false, "roleAttributes": roles, "tags": { "floor": 3 } });
        corpus.make(
            "/identities",
            &[
                ("ann", person(json!(["staff"]))),
                ("bob", person(json!(["staff", "night"]))),
                ("eve", person(json!([]))),
            ],
        );
        let router = |roles: Json| json!({ "roleAttributes": roles });
        corpus.make(
            "/edge-routers",
            &[
                ("far", router(json!([]))),
                ("near", router(json!(["hall"]))),
                ("next", router(json!(["hall"]))),
            ],
        );
        corpus.make(
            "/posture-checks",
            &[
                (
                    "check",
                    json!({ "typeId": "MFA", "roleAttributes": ["strict"] }),
                ),
                ("lax", json!({ "typeId": "MFA" })),
            ],
        );
        let policy = |more: Json| {
            let mut body = json!({ "semantic": "AnyOf" });
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            body
        };
        let dial = json!({ "type": "Dial", "identityRoles": ["#staff"], "serviceRoles": ["#web"], "postureCheckRoles": ["#strict"] });
        let at = |name: &str| format!("@{}", corpus.id(name));
        let bind =
            json!({ "type": "Bind", "identityRoles": [at("eve")], "serviceRoles": [at("mail")] });
        corpus.make(
            "/service-policies",
            &[("dial", policy(dial)), ("bind", policy(bind))],
        );
        corpus.make(
            "/edge-router-policies",
            &[(
                "use",
                policy(json!({ "identityRoles": ["#staff"], "edgeRouterRoles": ["#hall"] })),
            )],
        );
        corpus.make(
            "/service-edge-router-policies",
            &[(
                "reach",
                policy(json!({ "serviceRoles": ["#web"], "edgeRouterRoles": ["#hall"] })),
            )],
        );
        let terminator = |address: &str| json!({ "service": corpus.id("web"), "router": corpus.id("near"), "address": address, "binding": "edge" });
        corpus.make(
            "/terminators",
            &[("host", terminator("a:1")), ("spare", terminator("a:2"))],
        );
        for name in ["ann", "eve"] {
            let login = json!({ "method": "updb", "identityId": corpus.id(name), "username": format!("{name}-at-work"), "password": PASSWORD });
            let id = corpus
                .server
                .admin
                .post("/authenticators", login)
                .expect(201)
                .id();
            corpus.ids.insert(
                if name == "ann" {
                    "login"
                } else {
                    "other-login"
                },
                id,
            );
        }
        let end = corpus
            .server
            .clock
            .now()
            .plus(std::time::Duration::from_secs(1000))
            .to_string();
        let enrollment =
            json!({ "method": "ott", "identityId": corpus.id("ann"), "expiresAt": end });
        let id = corpus
            .server
            .admin
            .post("/enrollments", enrollment)
            .expect(201)
            .id();
        corpus.ids.insert("invitation", id);
        corpus
    }

    fn make(&mut self, path: &str, entries: &[(&'static str, Json)]) {
        for (name, body) in entries {
            let mut body = body.clone();
            if path != "/terminators" {
                body["name"] = (*name).into();
            }
            self.ids
                .insert(name, self.server.admin.post(path, body).expect(201).id());
        }
    }

    pub fn id(&self, name: &str) -> &str {
        &self.ids[name]
    }

    /// Ids in the order of lists.
    fn all(&self, names: &[&str]) -> Vec<&str> {
        let mut ids: Vec<&str> = names.iter().map(|name| self.id(name)).collect();
        ids.sort_unstable();
        ids
    }
}

/// The literal of the query language for a scalar that is not null.
fn literal(value: &Json) -> Option<String> {
    match value {
        Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
        Json::String(text) if text.len() == 24 && text.ends_with('Z') => {
            Some(format!("datetime({text})"))
        }
        Json::String(text) => Some(serde_json::to_string(text).unwrap()),
        _ => None,
    }
}

/// What is compared of two lists: status, code, total count, and the ids of the page.
fn compared(answer: &Answer) -> (u16, String, Option<u64>, Vec<String>) {
    let shown = answer.status == 200;
    let ids = if shown {
        answer.each("id").into_iter().map(str::to_owned).collect()
    } else {
        Vec::new()
    };
    (
        answer.status,
        answer.code().to_owned(),
        shown.then(|| answer.total()),
        ids,
    )
}

/// Checks a list that a caller sees: complete, sorted, paged and filtered.
#[track_caller]
fn shows(caller: &Caller, path: &str, expected: &[&str]) {
    let all = caller.get(path).expect(200);
    assert_eq!(
        (all.each("id"), all.total()),
        (expected.to_vec(), expected.len() as u64),
        "{path}"
    );
    let mut descending = expected.to_vec();
    descending.reverse();
    assert_eq!(
        caller
            .get(&format!("{path}?sort=id%20desc"))
            .expect(200)
            .each("id"),
        descending,
        "{path}"
    );
    let part = caller.get(&format!("{path}?limit=1&offset=1")).expect(200);
    assert_eq!(
        (part.each("id"), part.total()),
        (
            expected.iter().skip(1).take(1).copied().collect(),
            expected.len() as u64
        ),
        "{path}"
    );
    let endless = caller.list(path, "limit none", "").expect(200);
    assert_eq!(
        (
            endless.each("id"),
            &endless.json["meta"]["pagination"]["limit"]
        ),
        (expected.to_vec(), &json!(i64::MAX)),
        "{path}"
    );
    let Some(entry) = all.data().get(0) else {
        return;
    };
    for field in all.json["meta"]["filterableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
    {
        // A filter on the shown value finds every entry that has it; for a set and for tags it
        // finds whatever has any value.
        let shown = entry.pointer(&format!("/{}", field.replace('.', "/")));
        let Some(value) = shown.and_then(literal) else {
            continue;
        };
        let found = caller
            .list(path, &format!("{field} = {value}"), "")
            .expect(200);
        let same = all
            .data()
            .as_array()
            .unwrap()
            .iter()
            .filter(|other| other[field] == entry[field])
            .count();
        assert_eq!(found.total(), same as u64, "{path}: {field} = {value}");
        caller.get(&format!("{path}?sort={field}")).expect(200);
    }
}
