//! Plans, and what is applied.

use super::*;

fn count(plan: &Json) -> usize {
    plan["objects"].as_array().unwrap().len()
}

/// Changes some of a network: roles, objects that come, objects that go.
fn altered(network: &Json, rng: &mut Rng) -> Json {
    const ROLES: [&str; 3] = ["red", "green", "blue"];
    let mut network = network.clone();
    let roles = |rng: &mut Rng, sign: &str| -> Json {
        ROLES
            .iter()
            .filter(|_| rng.below(2) == 0)
            .map(|role| format!("{sign}{role}"))
            .collect()
    };
    for (kind, lists) in [
        ("identities", &[("roleAttributes", "")][..]),
        ("services", &[("roleAttributes", "")]),
        ("edge-routers", &[("roleAttributes", "")]),
        (
            "service-policies",
            &[("identityRoles", "#"), ("serviceRoles", "#")],
        ),
        (
            "edge-router-policies",
            &[("identityRoles", "#"), ("edgeRouterRoles", "#")],
        ),
        (
            "service-edge-router-policies",
            &[("serviceRoles", "#"), ("edgeRouterRoles", "#")],
        ),
    ] {
        let list = network[kind].as_array_mut().unwrap();
        let fixed = |item: &Json| {
            item["isAdmin"] == true || item["type"] == "Router" || item["isTunnelerEnabled"] == true
        };
        list.retain(|item| fixed(item) || rng.below(5) > 0);
        for item in list.iter_mut() {
            if rng.below(3) == 0 {
                lists
                    .iter()
                    .for_each(|(member, sign)| item[*member] = roles(rng, sign));
            }
        }
        if rng.below(2) == 0 {
            let mut new = match kind {
                "identities" => json!({ "type": "Device", "isAdmin": false }),
                "services" => json!({ "encryptionRequired": true }),
                "service-policies" => {
                    json!({ "semantic": "AnyOf", "type": (["Dial", "Bind"][rng.below(2)]) })
                }
                "edge-routers" => json!({}),
                _ => json!({ "semantic": (["AnyOf", "AllOf"][rng.below(2)]) }),
            };
            new["name"] = json!(fresh("new"));
            lists
                .iter()
                .for_each(|(member, sign)| new[*member] = roles(rng, sign));
            list.push(new);
        }
    }
    network
}

#[test]
fn a_plan_foretells_what_apply_does() {
    let mut rng = Rng::new(11);
    let scenario = Scenario::new(&mut rng);
    let server = &scenario.server;
    let (mut before, mut turned): (Pairs, usize) = (scenario.pairs(), 0);
    for round in 0..8 {
        let network = altered(&export(server), &mut rng);
        let query = "prune=true&maxDeletions=100&strict=true";
        let planned = plan(server, query, &network);
        if round % 4 == 0 {
            assert_eq!(scenario.pairs(), before, "the plan did something");
        }
        let applied = put(server, query, &network).expect(200).data().clone();
        assert_eq!(applied, planned);
        let after = scenario.pairs();
        assert_predicted(
            &planned,
            &before,
            &after,
            &format!("POST {round}: {network:#}"),
        );
        assert_eq!(count(&plan(server, query, &network)), 0, "{network:#}");
        turned += usize::from(before != after);
        before = after;
    }
    assert!(
        turned > 4,
        "only {turned} of the networks changed who may use what"
    );
}

#[test]
fn only_what_was_planned_is_applied() {
    let server = TestServer::start();
    let [one, other] = ["one", "other"].map(fresh);
    let network = json!({ "services": [{ "name": one, "encryptionRequired": true }] });
    let yaml = file(&server, &network.to_string());
    let yaml = yaml.to_str().unwrap();
    let shown = on_host(&server, &["plan", yaml]);
    assert_eq!(shown.status, 3, "{}", shown.out);
    let tag = shown
        .out
        .lines()
        .last()
        .unwrap()
        .strip_prefix("plan ")
        .unwrap()
        .split(':')
        .next()
        .unwrap()
        .to_owned();
    assert!(
        shown.out.contains(&format!("create services {one}")),
        "{}",
        shown.out
    );
    server.identity(&other, json!({}));
    on_host(&server, &["apply", yaml, "--plan", &tag]).bad(1, &["plan again"]);
    put(&server, "", &network).expect(200);
    let tag = plan(&server, "", &json!({ "identities": [] }))["tag"]
        .as_str()
        .unwrap()
        .to_owned();
    let with = |tag: &str| {
        owner(&server)
            .ask("PUT", PATH)
            .header("if-match", &format!("\"{tag}\""))
            .json(&json!({ "identities": [] }))
            .send()
    };
    with(&tag).expect(200);
    with("of something else").expect(412);
    assert_eq!(on_host(&server, &["apply", yaml]).good(), "nothing to do");
}

#[test]
fn pruning_is_bounded() {
    let server = TestServer::with_router();
    for _ in 0..3 {
        server.identity(&fresh("goes"), json!({}));
    }
    let stays = server.service(&fresh("stays"), json!({}));
    let router = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": fresh("tunneler"), "isTunnelerEnabled": true }),
        )
        .expect(201)
        .id();
    let network = json!({ "identities": [], "auth-policies": [], "config-types": [] });
    let refused = put(&server, "prune=true&maxDeletions=2", &network).refused(
        400,
        "COULD_NOT_VALIDATE",
        "maxDeletions",
    );
    assert!(refused.text.contains("3 objects"), "{}", refused.text);
    assert_eq!(export(&server)["identities"].as_array().unwrap().len(), 5);
    put(&server, "", &network).expect(200);
    assert_eq!(
        export(&server)["identities"].as_array().unwrap().len(),
        5,
        "nothing was to be deleted"
    );
    put(&server, "prune=true&maxDeletions=3", &network).expect(200);
    let left = export(&server);
    assert_eq!(left["identities"].as_array().unwrap().len(), 2, "{left:#}");
    server.admin.get(&format!("/services/{stays}")).expect(200);
    server
        .admin
        .get(&format!("/identities/{router}"))
        .expect(200);
    assert_eq!(
        server.admin.get("/auth-policies/default").expect(200).id(),
        "default"
    );
    assert!(
        server
            .admin
            .get("/config-types?limit=10")
            .expect(200)
            .each("id")
            .len()
            >= 5
    );
}

#[test]
fn objects_are_deleted_by_name() {
    let server = TestServer::start();
    let [goes, stays, config] = ["goes", "stays", "config"].map(fresh);
    let data = json!({ "protocol": "tcp", "address": "localhost", "port": 1 });
    let network = json!({
        "configs": [{ "name": config, "configTypeId": "host.v1", "data": data }],
        "services": [{ "name": goes, "configs": [config] }, { "name": stays }]
    });
    put(&server, "", &network).expect(200);
    let before = export(&server);
    // A name that does not exist is passed over, so that a file can be applied twice.
    let file = json!({ "delete": { "services": [goes, fresh("nothing")], "configs": [] } });
    let planned = plan(&server, "", &file);
    let deletion =
        json!([{ "action": "delete", "entity": "services", "name": goes, "members": [] }]);
    assert_eq!(planned["objects"], deletion);
    assert_eq!(export(&server), before);
    for (query, network, words) in [
        ("maxDeletions=0", file.clone(), "1 objects"),
        (
            "",
            json!({ "services": [{ "name": goes }], "delete": { "services": [goes] } }),
            "delete.services",
        ),
        (
            "",
            json!({ "services": [{ "name": goes, "configs": [config] }], "delete": { "configs": [config] } }),
            "refers to an object that would be deleted",
        ),
        ("", json!({ "delete": { "srevices": [] } }), "srevices"),
        (
            "",
            json!({ "delete": { "services": goes } }),
            "delete.services",
        ),
        (
            "",
            json!({ "delete": { "auth-policies": ["Default"] } }),
            "auth-policies.Default",
        ),
    ] {
        let refused = put(&server, query, &network).expect(400);
        assert!(refused.text.contains(words), "{network}: {}", refused.text);
        assert_eq!(export(&server), before, "{network}");
    }
    put(&server, "", &file).expect(200);
    assert_eq!(count(&plan(&server, "", &file)), 0);
    let left = export(&server);
    assert_eq!(
        left["services"],
        json!([{ "name": stays, "encryptionRequired": true }])
    );
    assert_eq!(left["configs"], before["configs"]);
    // What is pruned is not deleted twice.
    let both = json!({ "services": [], "delete": { "services": [stays] } });
    let planned = plan(&server, "prune=true&maxDeletions=1", &both);
    assert_eq!(count(&planned), 1, "{planned:#}");
}

#[test]
fn assertions_are_checked_first() {
    let server = TestServer::start();
    let [alice, guest, git, wiki, policy] = ["alice", "guest", "git", "wiki", "policy"].map(fresh);
    let network = |assertions: &[String]| {
        json!({
            "identities": [
                { "name": alice, "type": "Device", "isAdmin": false },
                { "name": guest, "type": "Device", "isAdmin": false, "roleAttributes": ["guest"] }
            ],
            "services": [{ "name": git, "encryptionRequired": true }, { "name": wiki, "encryptionRequired": true, "roleAttributes": ["open"] }],
            "service-policies": [
                { "name": policy, "type": "Dial", "semantic": "AnyOf", "identityRoles": [format!("@{alice}")], "serviceRoles": [format!("@{git}")] }
            ],
            "assertions": assertions
        })
    };
    let good = [
        format!("{alice} must dial {git}"),
        format!("{alice} must-not dial {wiki}"),
        format!("@{alice} must-not bind *"),
        "#guest must-not dial *".to_owned(),
        format!("{alice} must-not dial #open"),
        "#nobody must dial *".to_owned(),
    ];
    let bad = [
        format!("* must dial {git}"),
        format!("{alice} must bind {git}"),
        format!("{alice} must-not dial *"),
        format!("#guest must dial {wiki}"),
        format!("{alice} must-not dial @{git}"),
    ];
    for one in &bad {
        let network = network(&[good.as_slice(), std::slice::from_ref(one)].concat());
        let planned = plan(&server, "", &network);
        assert_eq!(planned["broken"][0]["assertion"], *one, "{planned:#}");
        assert_eq!(planned["broken"].as_array().unwrap().len(), 1, "{one}");
        put(&server, "", &network).refused(400, "COULD_NOT_VALIDATE", "assertions");
        assert!(
            server
                .admin
                .get(&format!("/services?filter=name%3D%22{git}%22"))
                .expect(200)
                .each("id")
                .is_empty()
        );
    }
    let yaml = file(&server, &network(&bad[..1]).to_string());
    let shown = on_host(&server, &["plan", yaml.to_str().unwrap()]);
    assert_eq!(shown.status, 1);
    assert!(
        shown.out.contains(&format!("does not hold: {}: ", bad[0]))
            && shown.err.contains("an assertion does not hold"),
        "{}",
        shown.out
    );
    for text in ["alice may dial git", "nobody-of-this-name must dial *"] {
        put(&server, "", &network(&[text.to_owned()])).expect(400);
    }
    put(&server, "", &network(&good)).expect(200);
    // What holds already is asked too, where nothing changes.
    put(&server, "", &network(&bad[..1])).refused(400, "COULD_NOT_VALIDATE", "assertions");
}

#[test]
fn a_refused_file_changes_nothing() {
    let server = TestServer::start();
    let first = fresh("first");
    let before = export(&server);
    let service = |more: Json| {
        let mut service = json!({ "name": fresh("service"), "encryptionRequired": true });
        service
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        service
    };
    let beside = |kind: &str, item: Json| {
        let mut network = json!({ "services": [{ "name": first, "encryptionRequired": true }] });
        network
            .as_object_mut()
            .unwrap()
            .entry(kind)
            .or_insert_with(|| json!([]))
            .as_array_mut()
            .unwrap()
            .push(item);
        network
    };
    for (network, words) in [
        (json!({ "servces": [] }), "servces"),
        (
            beside("services", service(json!({ "colour": "red" }))),
            "colour",
        ),
        (
            beside(
                "services",
                service(json!({ "configs": ["no such config"] })),
            ),
            "no such config",
        ),
        (
            beside(
                "services",
                json!({ "name": first, "encryptionRequired": true }),
            ),
            "twice",
        ),
        (
            beside("services", json!({ "encryptionRequired": true })),
            "name",
        ),
        (
            beside(
                "service-policies",
                json!({ "name": "p", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["@nobody"] }),
            ),
            "nobody",
        ),
        (
            beside(
                "identities",
                json!({ "name": fresh("i"), "type": "Router", "isAdmin": false }),
            ),
            "typeId",
        ),
        (
            beside(
                "auth-policies",
                json!({ "name": "x", "primary": { "cert": { "allowed": true, "allow": true } } }),
            ),
            "allow",
        ),
        (json!({ "services": {} }), "services"),
        (json!({ "assertions": ["a must dial b", 5] }), "assertions"),
    ] {
        let refused = put(&server, "", &network).expect(400);
        assert!(refused.text.contains(words), "{network}: {}", refused.text);
        assert_eq!(export(&server), before, "{network}");
    }
    let made = json!({ "services": [{ "name": first, "encryptionRequired": true }] });
    put(&server, "", &made).expect(200);
    let fixed = json!({ "services": [{ "name": first, "encryptionRequired": false }] });
    let refused = put(&server, "", &fixed).expect(400);
    assert!(
        refused
            .text
            .contains(&format!("services.{first}.encryptionRequired")),
        "{}",
        refused.text
    );
    let yaml = file(&server, "services: [{name: a, name: b}]");
    on_host(&server, &["apply", yaml.to_str().unwrap()]).bad(1, &["duplicate"]);
    let bomb = "a: &a [x, x, x, x, x, x, x, x]\n".to_owned()
        + &(0..20)
            .map(|n| format!("a{n}: &a{n} [*a, *a, *a, *a, *a, *a, *a, *a]\n"))
            .collect::<String>();
    let yaml = file(&server, &bomb);
    on_host(&server, &["apply", yaml.to_str().unwrap()]).bad(1, &[]);
    let yaml = file(&server, "");
    assert_eq!(
        on_host(&server, &["apply", yaml.to_str().unwrap()]).good(),
        "nothing to do"
    );
}

#[test]
fn one_transaction_and_its_author() {
    let server = TestServer::start();
    let names: Vec<String> = (0..3).map(|_| fresh("service")).collect();
    let network = json!({ "services": names.iter().map(|name| json!({ "name": name, "encryptionRequired": true })).collect::<Vec<_>>() });
    put(&server, "", &network).expect(200);
    let rows = owner(&server)
        .get("/history?limit=10&filter=kind%20%3D%20%22service%22")
        .expect(200);
    let times: BTreeSet<&str> = rows
        .data()
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["at"].as_str())
        .collect();
    assert_eq!(
        rows.data().as_array().unwrap().len(),
        3,
        "{:#}",
        rows.data()
    );
    assert_eq!(times.len(), 1, "{:#}", rows.data());
    assert!(
        rows.data()
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["by"]["who"] == "identity")
    );
}
