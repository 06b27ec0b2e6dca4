//! Lists below a record, on a known corpus: each contains exactly the entries that policies and
//! references imply, and otherwise behaves like the list of its kind.

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

/// Kind and name of the record, the list below it, the names of its entries, and other accepted
/// forms of the path.
type Expected = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// The entries of every list below a record.
const LISTS: &[Expected] = &[
    ("config-types", "kind", "configs", &["config"]),
    ("config-types", "other-kind", "configs", &["other-config"]),
    ("configs", "config", "services", &["web", "wiki"]),
    ("configs", "other-config", "services", &["wiki"]),
    ("services", "mail", "configs", &[]),
    ("services", "wiki", "configs", &["config", "other-config"]),
    ("services", "mail", "edge-routers", &[]),
    ("services", "web", "edge-routers", &["near", "next"]),
    ("services", "mail", "identities", &["eve"]),
    ("services", "web", "identities", &["ann", "bob"]),
    (
        "services",
        "web",
        "identities?policyType=dial",
        &["ann", "bob"],
    ),
    ("services", "web", "identities?policyType=bind", &[]),
    ("services", "mail", "identities?policyType=bind", &["eve"]),
    ("services", "mail", "service-edge-router-policies", &[]),
    (
        "services",
        "web",
        "service-edge-router-policies",
        &["reach"],
    ),
    ("services", "mail", "service-policies", &["bind"]),
    ("services", "wiki", "service-policies", &["dial"]),
    ("services", "mail", "terminators", &[]),
    ("services", "web", "terminators", &["host", "spare"]),
    ("identities", "ann", "authenticators", &["login"]),
    ("identities", "bob", "authenticators", &[]),
    ("identities", "ann", "enrollments", &["invitation"]),
    ("identities", "bob", "enrollments", &[]),
    ("identities", "ann", "edge-router-policies", &["use"]),
    ("identities", "eve", "edge-router-policies", &[]),
    ("identities", "ann", "edge-routers", &["near", "next"]),
    ("identities", "eve", "edge-routers", &[]),
    ("identities", "ann", "service-policies", &["dial"]),
    ("identities", "eve", "service-policies", &["bind"]),
    ("identities", "ann", "services", &["web", "wiki"]),
    (
        "identities",
        "ann",
        "services?policyType=dial",
        &["web", "wiki"],
    ),
    ("identities", "ann", "services?policyType=bind", &[]),
    ("identities", "eve", "services", &["mail"]),
    ("edge-routers", "near", "edge-router-policies", &["use"]),
    ("edge-routers", "far", "edge-router-policies", &[]),
    ("edge-routers", "near", "identities", &["ann", "bob"]),
    ("edge-routers", "far", "identities", &[]),
    (
        "edge-routers",
        "next",
        "service-edge-router-policies",
        &["reach"],
    ),
    ("edge-routers", "next", "services", &["web", "wiki"]),
    ("edge-routers", "far", "services", &[]),
    ("service-policies", "dial", "identities", &["ann", "bob"]),
    ("service-policies", "dial", "services", &["web", "wiki"]),
    ("service-policies", "dial", "posture-checks", &["check"]),
    ("service-policies", "bind", "identities", &["eve"]),
    ("service-policies", "bind", "services", &["mail"]),
    ("service-policies", "bind", "posture-checks", &[]),
    (
        "edge-router-policies",
        "use",
        "edge-routers",
        &["near", "next"],
    ),
    ("edge-router-policies", "use", "identities", &["ann", "bob"]),
    (
        "service-edge-router-policies",
        "reach",
        "edge-routers",
        &["near", "next"],
    ),
    (
        "service-edge-router-policies",
        "reach",
        "services",
        &["web", "wiki"],
    ),
];

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

/// A filter and an order on a field: both lists must return the same for them, or reject them
/// alike.
fn filter_and_order(field: &str, entry: &Json) -> (String, String) {
    match entry.pointer(&format!("/{}", field.replace('.', "/"))) {
        Some(Json::Array(_)) => (format!("(not (isEmpty({field})))"), String::new()),
        value => {
            let value = value.and_then(literal).unwrap_or_else(|| "null".into());
            (
                format!("({field} = {value} or {field} != {value})"),
                format!("&sort={}", encoded(&format!("{field} desc"))),
            )
        }
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

/// Sends the same queries to the list at `path` and to the list `whole` of its kind, the latter
/// restricted to the entries that `among` matches: filters on every field, pages, and another
/// order.
fn answers_like_its_kind(admin: &Caller, path: &str, whole: &str, among: &str) {
    let kinds = admin.list(whole, "true", "&limit=1").expect(200);
    let fields = kinds.json["meta"]["filterableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str);
    let by_field = fields
        .map(|field| filter_and_order(field, &kinds.data()[0]))
        .map(|(filter, order)| (filter, "", order));
    let windows = [" sort by id desc skip 1 limit 1", " limit none", " skip 1"]
        .map(|window| ("true".to_owned(), window, String::new()));
    let pages = [
        "&limit=1&offset=1",
        "&limit=100000",
        "&limit=-1",
        "&offset=-4",
    ]
    .map(|page| ("true".to_owned(), "", page.to_owned()));
    for (filter, window, rest) in by_field.chain(windows).chain(pages) {
        let one = admin.list(path, &format!("{filter}{window}"), &rest);
        let other = admin.list(whole, &format!("{filter} and {among}{window}"), &rest);
        assert_eq!(compared(&one), compared(&other), "{path} {filter} {rest}");
        assert_eq!(
            one.json["meta"]["pagination"], other.json["meta"]["pagination"],
            "{path} {filter} {rest}"
        );
    }
}

#[test]
fn nested_lists_are_filtered_lists() {
    let corpus = Corpus::new();
    let admin = &corpus.server.admin;
    let mut asked = BTreeSet::new();
    for (kind, name, list, names) in LISTS {
        let below = list.split('?').next().unwrap();
        let (path, whole) = (
            format!("/{kind}/{}/{list}", corpus.id(name)),
            format!("/{below}"),
        );
        let (expected, all) = (corpus.all(names), admin.get(&path).expect(200));
        assert_eq!(all.each("id"), expected, "{path}");
        assert_eq!(
            all.json["meta"]["pagination"],
            json!({ "limit": 10, "offset": 0, "totalCount": expected.len() })
        );
        if expected.is_empty() {
            continue;
        }
        let among = format!(
            "id in [{}]",
            expected
                .iter()
                .map(|id| format!("\"{id}\""))
                .collect::<Vec<_>>()
                .join(", ")
        );
        let entries = admin.list(&whole, &among, "").expect(200);
        assert_eq!(
            all.json["meta"]["filterableFields"], entries.json["meta"]["filterableFields"],
            "{path}"
        );
        let mut entries = entries.data().clone();
        if below == "services" {
            // These members depend on the caller and are empty here.
            let caller_members = [
                ("config", Json::Null),
                ("permissions", Json::Null),
                ("postureQueries", json!([])),
            ];
            let each = |entry: &mut Json| {
                caller_members
                    .iter()
                    .for_each(|(name, nothing)| entry[*name] = nothing.clone())
            };
            entries.as_array_mut().unwrap().iter_mut().for_each(each);
        }
        assert_eq!(*all.data(), entries, "{path}");
        if asked.insert((kind, below)) {
            answers_like_its_kind(admin, &path, &whole, &among);
        }
    }
    let below: BTreeSet<String> = asked
        .iter()
        .map(|(kind, below)| format!("/{kind}/{{id}}/{below}"))
        .collect();
    let rows = interface(Base::Management).rows().filter(|row| {
        row.operation
            .parameters
            .iter()
            .any(|parameter| parameter.name == "filter")
    });
    let rows: BTreeSet<String> = rows
        .map(|row| row.path.clone())
        .filter(|path| path.contains("/{id}/"))
        .collect();
    assert_eq!(below, rows, "every list below a record is tested");
}

#[test]
fn own_configs_and_attributes_are_whole() {
    let corpus = Corpus::new();
    let admin = &corpus.server.admin;
    let own = format!("/identities/{}/service-configs", corpus.id("ann"));
    let pair = |service: &str, config: &str| json!({ "serviceId": corpus.id(service), "configId": corpus.id(config) });
    admin
        .post(
            &own,
            json!([pair("web", "config"), pair("wiki", "other-config")]),
        )
        .expect(200);
    let listed = admin.get(&own).expect(200);
    let mut pairs: Vec<Json> = listed
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!({ "serviceId": one["serviceId"], "configId": one["configId"] }))
        .collect();
    let mut expected = vec![pair("web", "config"), pair("wiki", "other-config")];
    [&mut pairs, &mut expected]
        .into_iter()
        .for_each(|pairs| pairs.sort_by_key(Json::to_string));
    assert_eq!(pairs, expected);
    assert_eq!(
        listed.json["meta"]["pagination"],
        json!({ "limit": 2, "offset": 0, "totalCount": 2 })
    );
    assert!(
        listed
            .data()
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["config"]["id"] == one["configId"]
                && one["service"]["id"] == one["serviceId"])
    );

    for (path, attributes) in [
        ("/identity-role-attributes", &["night", "staff"][..]),
        ("/service-role-attributes", &["web"]),
        ("/edge-router-role-attributes", &["hall"]),
        ("/posture-check-role-attributes", &["strict"]),
    ] {
        let all = admin.get(path).expect(200);
        assert_eq!(*all.data(), json!(attributes), "{path}");
        assert_eq!(
            all.json["meta"],
            json!({ "apiVersion": "0.0.1", "apiEnrollmentVersion": "0.0.1", "filterableFields": ["id"], "pagination": { "limit": i64::MAX, "offset": 0, "totalCount": attributes.len() } })
        );
        let first = format!("id = \"{}\"", attributes[0]);
        assert_eq!(
            *admin.list(path, &first, "").expect(200).data(),
            json!([attributes[0]])
        );
        let last = admin
            .list(path, "true sort by id desc limit 1", "")
            .expect(200);
        assert_eq!(
            (last.data(), last.total()),
            (
                &json!([attributes[attributes.len() - 1]]),
                attributes.len() as u64
            )
        );
        assert_eq!(
            admin
                .list(path, "id contains \"t\"", "&limit=1&offset=5")
                .expect(200)
                .total(),
            attributes.iter().filter(|a| a.contains('t')).count() as u64
        );
    }
    // An attribute is deleted with the last record that has it.
    admin
        .delete(&format!("/identities/{}", corpus.id("bob")))
        .expect(200);
    assert_eq!(
        *admin.get("/identity-role-attributes").expect(200).data(),
        json!(["staff"])
    );
}

#[test]
fn secret_fields_are_never_filtered() {
    let server = TestServer::start();
    let list = server.admin.get("/authenticators").expect(200);
    for secret in ["updbPassword", "updbSalt"] {
        assert!(
            list.json["meta"]["filterableFields"]
                .as_array()
                .unwrap()
                .contains(&secret.into()),
            "clients know {secret}"
        );
        for filter in ["= null", "!= null", "contains \"a\""] {
            server
                .admin
                .list("/authenticators", &format!("{secret} {filter}"), "")
                .refused(400, "INVALID_FILTER", "");
        }
        server
            .admin
            .get(&format!("/authenticators?sort={secret}"))
            .refused(400, "INVALID_SORT_IDENTIFIER", "");
    }
}

#[test]
fn unlimited_lists_follow_client_rules() {
    let server = TestServer::start();
    for name in ["one", "three", "two"] {
        server.service(name, json!({}));
    }
    let asked = |query: &str| {
        let answer = server.admin.get(&format!("/services?{query}")).expect(200);
        let pagination = &answer.json["meta"]["pagination"];
        assert_eq!(
            (&pagination["totalCount"], &pagination["limit"]),
            (&json!(3), &json!(i64::MAX)),
            "{query}"
        );
        answer
            .each("name")
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for rest in [
        "filter=true%20sort%20by%20name%20skip%201%20limit%20none",
        "filter=limit%20none&sort=name&offset=1",
    ] {
        assert_eq!(asked(rest), ["three", "two"], "{rest}");
    }
    assert_eq!(asked("limit=-1&sort=name"), ["one", "three", "two"]);
    assert_eq!(
        asked("limit=-1&offset=1").len(),
        2,
        "without an order the list continues after the offset"
    );
    // With an order such a request returns nothing, as existing clients expect.
    assert!(asked("limit=-1&sort=name&offset=1").is_empty());
}

#[test]
fn filters_accept_unencoded_quotes() {
    let server = TestServer::start();
    let (admin, name) = (&server.admin, "a<b>é");
    let id = server.service(name, json!({}));
    let mut wire = Wire::to(admin);
    let token = admin.token.as_deref().unwrap();
    let head = format!("host: it\r\nzt-session: {token}\r\n");
    let body = r#"{"tags":{"GET /\" HTTP/1.1":"\"<>"}}"#;
    let path = format!("/edge/management/v1/services/{id}?x=\"");
    let write = format!(
        "PATCH {path} HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let look = format!(
        "GET /edge/management/v1/services?filter=name=\"{name}\" HTTP/1.1\r\n{head}connection: close\r\n\r\n"
    );
    wire.send(format!("{write}{look}").as_bytes()).unwrap();
    let (compared, _) = wire.read();
    let answers: Vec<&str> = compared.split("HTTP/1.1 ").collect();
    assert!(
        answers.len() == 3 && answers[1].starts_with("200") && answers[2].starts_with("200"),
        "{compared}"
    );
    assert!(
        answers[2].contains(&id) && answers[2].contains(r#""totalCount":1"#),
        "{compared}"
    );
    let tags = admin.get(&format!("/services/{id}")).expect(200).data()["tags"].clone();
    assert_eq!(
        tags,
        json!({ "GET /\" HTTP/1.1": "\"<>" }),
        "the body is as it was sent"
    );
}

#[test]
fn role_filter_ignores_the_caller() {
    let server = TestServer::start();
    let id = server.service("web", json!({ "roleAttributes": ["front"] }));
    let first = |query: &str| {
        server
            .admin
            .get(&format!("/services?{query}"))
            .expect(200)
            .data()[0]
            .clone()
    };
    let (whole, by_roles) = (first(""), first("roleFilter=%23front"));
    assert_eq!(by_roles["id"], id);
    assert_eq!(whole["permissions"], json!(["Invalid"]));
    for (name, value) in whole.as_object().unwrap() {
        let expected = match name.as_str() {
            "config" | "permissions" => Json::Null,
            "postureQueries" => json!([]),
            _ => value.clone(),
        };
        assert_eq!(by_roles[name], expected, "{name}");
    }
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

#[test]
fn clients_list_only_their_own() {
    let corpus = Corpus::new();
    let server = &corpus.server;
    // Clients see a router only after it has enrolled.
    let near = corpus.id("near");
    server.enroll_router(near);

    let (ann, eve) = (
        server.log_in_again("ann-at-work"),
        server.log_in_again("eve-at-work"),
    );
    let (web, mail) = (corpus.id("web"), corpus.id("mail"));
    let open = |who: &Caller, service: &str, right: &str| {
        who.post("/sessions", json!({ "serviceId": service, "type": right }))
    };
    let session = open(&ann, web, "Dial");
    // Ann has not passed its posture check yet.
    session.refused(409, "INVALID_POSTURE", "");
    server
        .admin
        .delete(&format!("/posture-checks/{}", corpus.id("check")))
        .expect(200);
    let first = open(&ann, web, "Dial").expect(201).id();
    let second = open(&ann, corpus.id("wiki"), "Dial").expect(201).id();
    let mut sessions = [first.as_str(), second.as_str()];
    sessions.sort_unstable();
    let certificates = [0, 1].map(|_| {
        ann.post(
            "/current-api-session/certificates",
            json!({ "csr": Key::new().request() }),
        )
        .expect(201)
        .id()
    });
    let mut certificates = certificates.each_ref().map(String::as_str);
    certificates.sort_unstable();

    shows(&ann, "/services", &corpus.all(&["web", "wiki"]));
    shows(&eve, "/services", &[mail]);
    shows(
        &server.admin.at(Base::Client),
        "/services",
        &corpus.all(&["mail", "web", "wiki"]),
    );
    shows(
        &ann,
        &format!("/services/{web}/terminators"),
        &corpus.all(&["host", "spare"]),
    );
    shows(&ann, "/current-identity/edge-routers", &[near]);
    shows(&eve, "/current-identity/edge-routers", &[]);
    shows(
        &ann,
        "/current-identity/authenticators",
        &[corpus.id("login")],
    );
    shows(&ann, "/sessions", &sessions);
    shows(&eve, "/sessions", &[]);
    shows(&ann.at(Base::Management), "/sessions", &sessions);
    shows(&server.admin, "/sessions", &sessions);
    shows(&server.admin.at(Base::Client), "/sessions", &sessions);
    shows(&ann, "/current-api-session/certificates", &certificates);
    shows(&eve, "/current-api-session/certificates", &[]);
    shows(&ann, "/controllers", &[]);
    let signer = |name: &str, enabled: bool| {
        let body = json!({ "name": name, "enabled": enabled, "issuer": format!("https://{name}.test"), "audience": "overlay", "jwksEndpoint": "https://idp.test/keys" });
        server
            .admin
            .post("/external-jwt-signers", body)
            .expect(201)
            .id()
    };
    let (on, _) = (signer("on", true), signer("off", false));
    shows(&server.anonymous(), "/external-jwt-signers", &[&on]);

    let over = |service: &str| ann.get(&format!("/services/{service}/edge-routers"));
    let routers = over(web).expect(200);
    let mut names: Vec<&str> = routers.data()["edgeRouters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|router| router["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["near", "next"]);
    for below in ["terminators", "edge-routers"] {
        ann.get(&format!("/services/{mail}/{below}"))
            .refused(404, "NOT_FOUND", "");
        assert_eq!(eve.get(&format!("/services/{web}/{below}")).status, 404);
    }
}
