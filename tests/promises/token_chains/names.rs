//! The names of records that a token learns.

use super::*;

/// A network in which identities, services and routers have names to be found.
struct Named {
    server: TestServer,
    policy: String,
    ids: [String; 3],
}

const NAMES: [(&str, &str); 3] = [
    ("identities", "hidden-person"),
    ("services", "hidden-service"),
    ("edge-routers", "hidden-router"),
];

fn named() -> Named {
    let server = TestServer::with_router();
    let identity = server.identity(
        "hidden-person",
        json!({ "enrollment": { "ott": true }, "roleAttributes": ["hidden"] }),
    );
    let service = server.service("hidden-service", json!({ "roleAttributes": ["hidden"] }));
    let router = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": "hidden-router", "roleAttributes": ["hidden"] }),
        )
        .expect(201)
        .id();
    server
        .admin
        .post(
            "/identities",
            json!({ "name": "hidden-person-2", "type": "Device", "isAdmin": false }),
        )
        .expect(201);
    let off = server.identity("hidden-person-3", json!({}));
    server
        .admin
        .post(
            &format!("/identities/{off}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    let body = json!({ "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#hidden"], "serviceRoles": ["#hidden"] });
    let policy = server
        .admin
        .post("/service-policies", body)
        .expect(201)
        .id();
    let body = json!({ "name": fresh("policy"), "semantic": "AnyOf", "identityRoles": ["#hidden"], "edgeRouterRoles": ["#hidden"] });
    server.admin.post("/edge-router-policies", body).expect(201);
    Named {
        server,
        policy,
        ids: [identity, service, router],
    }
}

#[test]
fn previews_name_kinds_in_scope() {
    let Named {
        server,
        policy,
        ids: [identity, service, router],
    } = named();
    let cases = [
        ("services", format!("/services/{service}")),
        ("identities", format!("/identities/{identity}")),
        ("edge-routers", format!("/edge-routers/{router}")),
        ("service-policies", format!("/service-policies/{policy}")),
    ];
    for (kind, path) in cases {
        let token = made(&server, json!({ "kinds": [kind], "actions": ["read"] }));
        let preview = token.delete(&format!("{path}?preview=true")).expect(200);
        let all = server
            .admin
            .delete(&format!("{path}?preview=true"))
            .expect(200);
        for (named, name) in NAMES {
            assert_eq!(
                preview.text.contains(name),
                named == kind && all.text.contains(name),
                "{kind}: {name}: {}",
                preview.text
            );
        }
        // The counts are told.
        for member in ["dial", "identityRouters"] {
            for side in ["who", "what"] {
                let count = |answer: &crate::harness::Answer| {
                    answer.data()[member]["lost"][side]["count"].clone()
                };
                assert_eq!(count(&preview), count(&all), "{kind}: {member}");
            }
        }
    }
    let both = made(
        &server,
        json!({ "kinds": ["services", "identities"], "actions": ["read"] }),
    );
    let preview = both
        .delete(&format!("/services/{service}?preview=true"))
        .expect(200);
    assert!(
        preview.text.contains("hidden-person") && preview.text.contains("hidden-service"),
        "{}",
        preview.text
    );
}

#[test]
fn tokens_see_names_in_scope() {
    let Named {
        server,
        ids: [identity, service, router],
        ..
    } = named();
    let (kinds, _) = words();
    let all = Base::ALL
        .into_iter()
        .flat_map(|base| interface(base).rows().map(move |row| (base, row)));
    let readable: Vec<(Base, &Row)> = all
        .filter(|(_, row)| {
            row.permission != Permission::Open && row.method == "GET" && row.path != "/events"
        })
        .collect();
    let mut answered = 0;
    for kind in kinds {
        let token = made(&server, json!({ "kinds": [kind], "actions": ["read"] }));
        for (base, row) in &readable {
            // A record names those that it refers to, such as a policy those in its roles.
            if row.path.contains("policies")
                || row.path.contains("authenticators")
                || row.path.contains("enrollments")
            {
                continue;
            }
            for id in [&identity, &service, &router] {
                let path = row.path.replace("{serviceId}", &service);
                let path: Vec<&str> = path
                    .split('/')
                    .map(|part| if part.starts_with('{') { id } else { part })
                    .collect();
                let answer = token.at(*base).get(&path.join("/"));
                answered += usize::from(answer.status == 200);
                for (named, name) in NAMES {
                    let may =
                        named == kind || (named == "identities" && kind == "current-identity");
                    assert!(
                        may || !answer.text.contains(name),
                        "{kind}: {}: {}",
                        row.path,
                        answer.text
                    );
                }
            }
        }
        for asked in [
            format!("/explain?identity={identity}&service={service}&type=Dial"),
            "/history".into(),
            "/network".into(),
        ] {
            token
                .at(Base::Overkeep)
                .get(&asked)
                .refused(401, "UNAUTHORIZED", "");
        }
        token
            .at(Base::Overkeep)
            .put("/network?preview=true", json!({}))
            .refused(401, "UNAUTHORIZED", "");
        token
            .at(Base::Overkeep)
            .get("/events")
            .refused(401, "UNAUTHORIZED", "");
    }
    assert!(answered > 100, "{answered}");
    let attention = made(
        &server,
        json!({ "kinds": ["attention"], "actions": ["read"] }),
    )
    .at(Base::Overkeep)
    .get("/attention")
    .expect(200);
    assert_eq!(
        (
            &attention.data()["disabledIdentities"]["total"],
            &attention.data()["disabledIdentities"]["first"]
        ),
        (&json!(1), &json!([]))
    );
    let whole = made(&server, json!({ "actions": ["read"] }));
    assert!(
        whole
            .at(Base::Overkeep)
            .get("/attention")
            .expect(200)
            .text
            .contains("hidden-person-3")
    );
    assert!(
        whole
            .at(Base::Overkeep)
            .get("/history?limit=500")
            .expect(200)
            .text
            .contains("hidden-person")
    );
}
