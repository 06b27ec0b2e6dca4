//! Lists inside records and for clients.

use super::*;

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
