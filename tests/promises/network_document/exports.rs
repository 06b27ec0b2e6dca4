//! Exported documents.

use super::*;

const SCHEMA: &str = "schema/network.json";

/// Every kind with something in every member, and records that name others in all ways.
fn filled() -> (TestServer, Vec<String>) {
    let server = TestServer::start();
    let mut ids = Vec::new();
    for sample in SAMPLES.iter().filter(|sample| {
        interface(Base::Overkeep).document["components"]["schemas"]["Network"]["properties"]
            .get(sample.path)
            .is_some()
    }) {
        let body = (sample.body)(&server, &fresh("declared"));
        ids.push(
            server
                .admin
                .post(&format!("/{}", sample.path), body)
                .expect(201)
                .id(),
        );
    }
    let router = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": fresh("tunneler"), "isTunnelerEnabled": true }),
        )
        .expect(201)
        .id();
    let [who, what] = [
        server.identity(&fresh("who"), json!({})),
        server.service(&fresh("what"), json!({})),
    ];
    server
        .admin
        .patch(
            &format!("/identities/{router}"),
            json!({ "roleAttributes": ["of-a-router"] }),
        )
        .expect(200);
    server.service_policy(
        "Dial",
        &[&format!("@{who}"), &format!("@{router}"), "#sales"],
        &[&format!("@{what}")],
    );
    server.router_between(&who, &what);
    ids.extend([router, who, what]);
    (server, ids)
}

#[test]
fn exports_recreate_the_network() {
    let (server, ids) = filled();
    let text = on_host(&server, &["export"]).good() + "\n";
    let known = ids.iter().find(|id| text.contains(id.as_str()));
    assert!(known.is_none(), "the id {known:?} is in the file:\n{text}");
    assert!(
        !text.contains("verificationToken") && !text.contains("updatedAt"),
        "{text}"
    );

    let empty = TestServer::start();
    let path = file(&empty, &text);
    let path = path.to_str().unwrap();
    let apply = ["apply", path, "--prune"];
    assert!(on_host(&empty, &apply).good().contains(" created, "));
    assert_eq!(on_host(&empty, &["export"]).good() + "\n", text);
    assert_eq!(on_host(&empty, &apply).good(), "nothing to do");
    assert_eq!(
        on_host(&empty, &["plan", path, "--prune"]).good(),
        "nothing to do"
    );
    assert_eq!(
        on_host(
            &server,
            &["plan", file(&server, &text).to_str().unwrap(), "--prune"]
        )
        .good(),
        "nothing to do"
    );
}

#[test]
fn files_hold_every_named_kind() {
    let document = &interface(Base::Management).document;
    let writable = |path: &&String| {
        let item = &document["paths"][format!("{path}/{{id}}").as_str()];
        let body =
            document["paths"][path.as_str()]["post"]["requestBody"]["content"]["application/json"]
                ["schema"]["$ref"]
                .as_str();
        let shape =
            body.map(|body| &document["components"]["schemas"][body.rsplit('/').next().unwrap()]);
        let names = shape.is_some_and(|shape| {
            shape["required"]
                .as_array()
                .is_some_and(|required| required.contains(&json!("name")))
        });
        item.get("put").is_some() && names
    };
    let paths = document["paths"].as_object().unwrap().keys();
    let kinds: BTreeSet<&str> = paths
        .filter(writable)
        .map(|path| path.trim_start_matches('/'))
        .filter(|path| *path != "routers")
        .collect();
    assert!(kinds.len() > 10, "{kinds:?}");
    let (server, _) = filled();
    let network = export(&server);
    assert_eq!(
        network
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect::<BTreeSet<_>>(),
        kinds
    );
    assert!(
        network
            .as_object()
            .unwrap()
            .values()
            .all(|list| !list.as_array().unwrap().is_empty()),
        "{network:#}"
    );
}

#[test]
fn the_schema_describes_exports() {
    let described = interface(Base::Overkeep).document["components"]["schemas"]["Network"].clone();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A network of Overkeep",
    });
    schema
        .as_object_mut()
        .unwrap()
        .extend(described.as_object().unwrap().clone());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMA);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("OVERKEEP_WRITE_SCHEMAS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{SCHEMA} is out of date: run `OVERKEEP_WRITE_SCHEMAS=1 cargo test --locked --test promises schema` and commit it"
    );
    let checker = jsonschema::validator_for(&schema).unwrap();
    let (server, _) = filled();
    let mut network = export(&server);
    let wrong: Vec<String> = checker
        .iter_errors(&network)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    network["services"][0]["colour"] = json!("red");
    assert!(!checker.is_valid(&network));
}
