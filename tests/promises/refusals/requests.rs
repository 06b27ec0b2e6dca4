//! Requests that are refused before their body matters.

use super::*;

/// Lists below a record, which are empty if the record does not exist.
const BELOW: [&str; 11] = [
    "/authenticators",
    "/enrollments",
    "/edge-router-policies",
    "/edge-routers",
    "/service-policies",
    "/service-edge-router-policies",
    "/services",
    "/identities",
    "/configs",
    "/terminators",
    "/posture-checks",
];

#[test]
fn missing_ids_are_404() {
    let mut all = Differences::default();
    for operation in operations().filter(|operation| operation.row.path.contains('{')) {
        let body = operation.schema().map_or_else(
            || json!({}),
            |schema| minimal_body(&forms(schema)[0], false),
        );
        let body = if body.get("name").is_some() {
            put(body, &["name".into()], Some(fresh("nowhere").into()))
        } else {
            body
        };
        let below = operation
            .row
            .path
            .rsplit_once("{id}")
            .map_or("", |(_, below)| below);
        let list = operation.row.method == "GET"
            && [Base::Management, Base::Fabric].contains(&operation.base);
        let empty = list && BELOW.contains(&below);
        let answer = match operation.row.operation.body.as_ref() {
            None => shared()
                .admin
                .at(operation.base)
                .ask(operation.row.method, &operation.path(MISSING_ID))
                .send(),
            Some(shape) if shape.checker.is_none() => operation.sent(shape.media[0], "nothing"),
            Some(_) => operation.answer(&body),
        };
        if empty {
            let is = answer.status == 200 && *answer.data() == json!([]) && answer.total() == 0;
            assert!(is, "{}: {}", answer.request, answer.text);
        } else if list && ["/posture-data", "/failed-service-requests"].contains(&below) {
            // Clients expect these to be empty, too.
            assert_eq!(answer.status, 200, "{}: {}", answer.request, answer.text);
        } else if below == "/extend" {
            // Without a client certificate nothing is renewed.
            assert_eq!(
                (answer.status, answer.code()),
                (401, "UNAUTHORIZED"),
                "{}: {}",
                answer.request,
                answer.text
            );
        } else {
            all.check("of nothing", &answer, Expected::Code(404, "NOT_FOUND"));
            assert!(
                answer.text.contains(MISSING_ID),
                "{} does not say what was not found: {}",
                answer.request,
                answer.text
            );
        }
    }
}

#[test]
fn invalid_list_parameters_are_refused() {
    let service = shared().service(&fresh("listed"), json!({}));
    let mut all = Differences::default();
    for operation in operations() {
        let parameters: Vec<&str> = operation
            .row
            .operation
            .parameters
            .iter()
            .map(|parameter| parameter.name.as_str())
            .collect();
        if !parameters.contains(&"filter") {
            continue;
        }
        let path = operation.path(if operation.base == Base::Client {
            &service
        } else {
            MISSING_ID
        });
        let caller = shared().admin.at(operation.base);
        let ask = |query: &str| caller.get(&format!("{path}?{query}"));
        for filter in [
            "nothing = 1",
            "name.first = \"x\"",
            "id =",
            "id = \"x\" and",
            "id = 1 2",
            "anyOf(id) = \"x\"",
            "id between 1 and 2",
            "true #",
            "noneOf(id) = \"x\"",
        ] {
            all.check(
                filter,
                &ask(&format!("filter={}", encoded(filter))),
                Expected::Code(400, "INVALID_FILTER"),
            );
        }
        all.check(
            "sort in the filter",
            &ask("filter=true%20sort%20by%20nothing"),
            Expected::Code(400, "INVALID_FILTER"),
        );
        if !path.ends_with("-role-attributes") {
            for sort in ["nothing", "tags.x", "id up"] {
                all.check(
                    sort,
                    &ask(&format!("sort={}", encoded(sort))),
                    Expected::Code(400, "INVALID_SORT_IDENTIFIER"),
                );
            }
        }
        for (name, value) in [
            ("limit", "x"),
            ("limit", "1.5"),
            ("offset", "99999999999999999999"),
        ] {
            let answer = ask(&format!("{name}={value}"));
            all.check(name, &answer, Expected::Field(name));
            assert_eq!(
                answer.json["error"]["cause"]["value"], value,
                "{}",
                answer.text
            );
        }
        for (name, value, field) in [
            ("policyType", "Dial", "policyType"),
            ("roleFilter", "x", "roleFilter"),
            ("roleFilter", "", "roleFilter"),
            ("roleSemantic", "Some", "semantic"),
            ("asIdentity", MISSING_ID, "asIdentity"),
        ] {
            if parameters.contains(&name) {
                all.check(
                    name,
                    &ask(&format!("{name}={value}")),
                    Expected::Field(field),
                );
            }
        }
    }
}

#[test]
fn missing_and_wrong_sessions_look_alike() {
    let anonymous = shared().anonymous();
    let asked = |token: Option<&str>| {
        let asking = anonymous.ask("GET", "/current-identity");
        let asking = if let Some(token) = token {
            asking.header("zt-session", token)
        } else {
            asking
        };
        asking.send().refused(401, "UNAUTHORIZED", "").json["error"]["cause"]["code"].clone()
    };
    assert_eq!([None, Some("")].map(asked), ["UNHANDLED", "UNHANDLED"]);
    assert_eq!(
        ["no-uuid", "5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"].map(|token| asked(Some(token))),
        [Json::Null, Json::Null]
    );
}

#[test]
fn unknown_routes_need_no_session() {
    let mut methods: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for operation in operations() {
        let path = operation
            .path(MISSING_ID)
            .split('?')
            .next()
            .unwrap()
            .to_owned();
        methods
            .entry((operation.base.path(), path))
            .or_default()
            .insert(operation.row.method);
    }
    let mut all = Differences::default();
    for ((base, path), known) in methods {
        let whole = format!("{base}{path}");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"]
            .into_iter()
            .filter(|method| !known.contains(method))
        {
            all.check(
                "",
                &shared().anonymous().ask(method, &whole).send(),
                Expected::Code(405, "METHOD_NOT_ALLOWED"),
            );
        }
        all.check(
            "",
            &shared()
                .anonymous()
                .get(&format!("{}/nope/nope", whole.trim_end_matches('/'))),
            Expected::Code(404, "NOT_FOUND"),
        );
    }
}

#[test]
fn default_administrator_stays_administrator() {
    let admin = &shared().admin;
    let default_admin = admin.get("/current-identity").expect(200).id();
    let at = format!("/identities/{default_admin}");
    let shown = admin.get(&at).expect(200).data().clone();
    assert_eq!(
        (&shown["isAdmin"], &shown["isDefaultAdmin"]),
        (&json!(true), &json!(true))
    );
    let body = json!({ "name": shown["name"], "type": "Default", "isAdmin": false });
    admin
        .put(&at, body.clone())
        .refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    admin
        .patch(&at, json!({ "isAdmin": false }))
        .refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    assert_eq!(admin.get(&at).expect(200).data()["isAdmin"], true);
    // Other identities take the type that they are given, at once.
    let other = fresh("deputy");
    let (id, deputy) = shared().user(&other, json!({ "isAdmin": true }));
    deputy
        .at(Base::Management)
        .get("/identities?limit=1")
        .expect(200);
    admin
        .patch(&format!("/identities/{id}"), json!({ "isAdmin": false }))
        .expect(200);
    deputy
        .at(Base::Management)
        .get("/identities?limit=1")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn renewal_reveals_no_foreign_certificates() {
    let server = shared();
    let (_, theirs) = server.enrolled("owner");
    let (_, curious) = server.enrolled("curious");
    let (theirs, curious) = (
        theirs.log_in_by_certificate(),
        curious.log_in_by_certificate(),
    );
    let id = theirs
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = json!({ "clientCertCsr": crate::harness::Key::new().request() });
    for (step, body) in [
        ("extend", request),
        ("extend-verify", json!({ "clientCert": "nothing" })),
    ] {
        for base in ["/current-identity/authenticators", "/authenticators"] {
            let of = |id: &str| curious.post(&format!("{base}/{id}/{step}"), body.clone());
            let (foreign, unknown) = (of(&id).refused(404, "NOT_FOUND", ""), of(MISSING_ID));
            assert_eq!(
                (foreign.status, foreign.code()),
                (unknown.status, unknown.code()),
                "{base} {step}"
            );
        }
    }
}
