//! The documents in `schema/` describe the route tables, and are readable for others.

use std::{collections::BTreeSet, env, fs, path::Path};

use serde_json::Value as Json;

use crate::harness::{Base, interface, shared};

const DOCUMENTS: [(Base, &str); 4] = [
    (Base::Management, "schema/management.json"),
    (Base::Client, "schema/client.json"),
    (Base::Overkeep, "schema/overkeep.json"),
    (Base::Fabric, "schema/fabric.json"),
];
const WRITE: &str = "OVERKEEP_WRITE_SCHEMAS";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Path, method and description of each operation of a document.
fn operations<'d>(document: &'d Json) -> Vec<(&'d str, &'d str, &'d Json)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&'d String, &'d Json)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, described)| (path.as_str(), method.as_str(), described))
    };
    paths.iter().flat_map(of_path).collect()
}

/// Every object in a document, with its location.
fn each(json: &Json, place: &str, visit: &mut impl FnMut(&str, &serde_json::Map<String, Json>)) {
    match json {
        Json::Object(members) => {
            visit(place, members);
            members
                .iter()
                .for_each(|(name, member)| each(member, &format!("{place}/{name}"), visit));
        }
        Json::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, item)| each(item, &format!("{place}/{at}"), visit)),
        _ => {}
    }
}

#[test]
fn stored_documents_match_route_tables() {
    for (base, file) in DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = serde_json::to_string_pretty(&**interface(base).document).unwrap() + "\n";
        if env::var_os(WRITE).is_some_and(|value| value == "1") {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let line = kept
            .lines()
            .zip(text.lines())
            .position(|(kept, made)| kept != made)
            .map_or(0, |line| line + 1);
        assert!(
            kept == text,
            "{file} is out of date (line {line}): run `{WRITE}=1 cargo test --locked --test promises contract` and commit it"
        );
    }
}

#[test]
fn clients_learn_every_base_path() {
    let version = shared().anonymous().get("/version").expect(200);
    let named: BTreeSet<&str> = version.data()["apiVersions"]
        .as_object()
        .unwrap()
        .values()
        .map(|versions| versions["v1"]["path"].as_str().unwrap())
        .collect();
    assert_eq!(named, Base::ALL.map(Base::path).into());
    for base in Base::ALL {
        let served = shared()
            .anonymous()
            .at(base)
            .get("/openapi.json")
            .expect(200);
        assert_eq!(&served.json, &**interface(base).document, "{base:?}");
    }
}

#[test]
fn documents_honour_accept() {
    let form = |accepted: &[&str]| {
        let anonymous = shared().anonymous();
        let asking = anonymous.ask("GET", "/specs/edge-client/spec");
        let asking = accepted
            .iter()
            .fold(asking, |asking, line| asking.header("accept", line));
        asking.send().expect(200).header("content-type").to_owned()
    };
    for (accepted, media) in [
        (&["application/json"][..], "application/json"),
        (&["text/yaml"], "text/yaml"),
        (&["*/*"], "text/yaml"),
        (&["text/*, application/json"], "application/json"),
        (
            &["application/json;q=0.5, text/yaml;q=0.4"],
            "application/json",
        ),
        // Client libraries send one line per type, their preferred type first.
        (&["application/json", "text/yaml"], "application/json"),
        (&["text/yaml", "application/json"], "text/yaml"),
    ] {
        assert_eq!(form(accepted), media, "{accepted:?}");
    }
}

#[test]
fn rows_and_documents_agree() {
    for (base, file) in DOCUMENTS {
        let interface = interface(base);
        let described: BTreeSet<(String, String)> = operations(&interface.document)
            .into_iter()
            .map(|(path, method, _)| (method.to_uppercase(), path.to_owned()))
            .collect();
        let rows: BTreeSet<(String, String)> = interface
            .rows()
            .map(|row| (row.method.to_owned(), row.path.clone()))
            .collect();
        assert_eq!(described, rows, "{file}");
    }
}

#[test]
fn operations_have_names_and_summaries() {
    for (base, file) in DOCUMENTS {
        let mut names = BTreeSet::new();
        for (path, method, described) in operations(&interface(base).document) {
            let name = described["operationId"].as_str().unwrap_or_default();
            assert!(METHODS.contains(&method), "{file}: {method} {path}");
            assert!(
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()),
                "{file}: {method} {path}: {name:?}"
            );
            assert!(names.insert(name), "{file}: {name} twice");
            let summary = described["summary"].as_str().unwrap_or_default();
            assert!(
                summary.len() > 5 && summary.ends_with('.'),
                "{file}: {method} {path}: {summary:?}"
            );
        }
    }
}

/// Every schema of a document, with its location; not objects in examples that look like one.
fn each_schema(document: &Json, visit: &mut impl FnMut(&str, &serde_json::Map<String, Json>)) {
    each(document, "", &mut |place, members| {
        if !place.contains("/example")
            && (place.starts_with("/components/schemas/") || place.contains("/schema"))
        {
            visit(place, members);
        }
    });
}

#[test]
fn documents_suffice_for_people() {
    let mut missing = Vec::new();
    for (base, file) in DOCUMENTS {
        let document = &interface(base).document;
        for (path, method, described) in operations(document) {
            let at = format!("{file}: {method} {path}");
            let words = |described: &Json| {
                described["description"]
                    .as_str()
                    .is_some_and(|words| words.len() > 4)
            };
            if !words(described) {
                missing.push(at.clone());
            }
            let parameters = described["parameters"].as_array().unwrap().iter();
            missing.extend(
                parameters
                    .filter(|one| !words(one))
                    .map(|one| format!("{at}: {}", one["name"])),
            );
        }
        each_schema(document, &mut |place, members| {
            let inner = members
                .get("properties")
                .and_then(Json::as_object)
                .into_iter()
                .flatten();
            let silent = inner
                .filter(|(_, member)| member.is_object() && member.get("description").is_none());
            missing.extend(silent.map(|(name, _)| format!("{file}{place}: {name}")));
        });
    }
    assert!(
        missing.is_empty(),
        "members without a description: {missing:#?}"
    );
}

#[test]
fn examples_pass_validation() {
    let mut wrong = Vec::new();
    for (base, file) in DOCUMENTS {
        let document = &interface(base).document;
        let mut check = |place: &str, schema: &Json, example: &Json| {
            let mut whole = schema["$ref"]
                .as_str()
                .map_or(schema, |target| document.pointer(&target[1..]).unwrap())
                .clone();
            if whole.to_string().contains("$ref") {
                whole["components"] = document["components"].clone();
            }
            let validator = jsonschema::draft202012::options()
                .should_validate_formats(true)
                .build(&whole)
                .unwrap();
            wrong.extend(
                validator
                    .iter_errors(example)
                    .map(|fault| format!("{file} {place}{}: {fault}", fault.instance_path())),
            );
        };
        for (path, method, described) in operations(document) {
            for (media, content) in described["requestBody"]["content"]
                .as_object()
                .into_iter()
                .flatten()
            {
                assert!(
                    content.get("example").is_some(),
                    "{file}: {method} {path}: no example of {media}"
                );
                check(
                    &format!("{method} {path}"),
                    &content["schema"],
                    &content["example"],
                );
            }
        }
        each_schema(document, &mut |place, members| {
            for example in members
                .get("examples")
                .and_then(Json::as_array)
                .into_iter()
                .flatten()
            {
                check(place, &Json::Object(members.clone()), example);
            }
        });
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn path_parameters_match_the_path() {
    for (base, file) in DOCUMENTS {
        for (path, method, described) in operations(&interface(base).document) {
            let named: Vec<&str> = path
                .split('{')
                .skip(1)
                .map(|part| part.split('}').next().unwrap())
                .collect();
            let parameters = described["parameters"].as_array().unwrap();
            let places: BTreeSet<(&str, &str)> = parameters
                .iter()
                .map(|p| (p["in"].as_str().unwrap(), p["name"].as_str().unwrap()))
                .collect();
            assert_eq!(
                places.len(),
                parameters.len(),
                "{file}: {method} {path}: a parameter twice"
            );
            let described: Vec<&str> = parameters
                .iter()
                .filter(|p| p["in"] == "path")
                .map(|p| p["name"].as_str().unwrap())
                .collect();
            assert_eq!(described, named, "{file}: {method} {path}");
            for parameter in parameters {
                assert!(
                    parameter["schema"].get("type").is_some()
                        || parameter["schema"].get("enum").is_some(),
                    "{file}: {path}: {parameter}"
                );
                assert!(
                    parameter["in"] != "path" || parameter["required"] == true,
                    "{file}: {path}: {parameter}"
                );
            }
        }
    }
}

#[test]
fn documents_list_answers_and_refusals() {
    for (base, file) in DOCUMENTS {
        let document = &interface(base).document;
        let schemes = document["components"]["securitySchemes"]
            .as_object()
            .unwrap();
        for (path, method, described) in operations(document) {
            let responses = described["responses"].as_object().unwrap();
            let at = format!("{file}: {method} {path}");
            let previewed = described["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .any(|parameter| parameter["name"] == "preview");
            let successes: BTreeSet<&str> = responses
                .keys()
                .map(String::as_str)
                .filter(|status| status.starts_with('2'))
                .collect();
            let one =
                successes.len() == 1 || previewed && successes == BTreeSet::from(["200", "201"]);
            assert!(
                one,
                "{at}: expected one successful answer, and one for a preview: {successes:?}"
            );
            assert!(responses.contains_key("default"), "{at}");
            assert!(
                responses
                    .values()
                    .all(|response| response["description"].is_string()),
                "{at}"
            );
            let security = described["security"].as_array().unwrap();
            assert!(
                security
                    .iter()
                    .flat_map(|s| s.as_object().unwrap().keys())
                    .all(|name| schemes.contains_key(name)),
                "{at}"
            );
            assert!(
                security.is_empty() || responses.contains_key("401"),
                "{at}: operations that need a session must describe 401"
            );
            assert!(
                !path.contains('{') || responses.contains_key("404"),
                "{at}: operations with an id must describe 404"
            );
            assert!(
                described.get("requestBody").is_none() || responses.contains_key("400"),
                "{at}: operations with a body must describe 400"
            );
        }
    }
}

#[test]
fn schema_names_and_references_resolve() {
    for (base, file) in DOCUMENTS {
        let document = &interface(base).document;
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut used = BTreeSet::new();
        each(document, "", &mut |place, members| {
            if let Some(target) = members.get("$ref").and_then(Json::as_str) {
                let found = target
                    .strip_prefix('#')
                    .and_then(|pointer| document.pointer(pointer));
                assert!(found.is_some(), "{file}{place}: {target} does not exist");
                used.insert(target.rsplit('/').next().unwrap().to_owned());
            }
        });
        for name in schemas.keys() {
            assert!(
                !name.ends_with(|c: char| c.is_ascii_digit()),
                "{file}: {name}: two types share a name"
            );
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                "{file}: {name}"
            );
            assert!(used.contains(name), "{file}: {name} is used by nothing");
        }
    }
}

#[test]
fn documents_are_openapi_3_1() {
    for (base, file) in DOCUMENTS {
        let document = &interface(base).document;
        assert_eq!(document["openapi"], "3.1.0");
        assert!(
            ["title", "version"]
                .iter()
                .all(|member| document["info"][member].is_string()),
            "{file}"
        );
        assert_eq!(document["servers"][0]["url"], base.path());
        for name in document["components"]["schemas"]
            .as_object()
            .unwrap()
            .keys()
        {
            let mut whole = serde_json::json!({ "$ref": format!("#/components/schemas/{name}") });
            whole["components"] = document["components"].clone();
            jsonschema::draft202012::meta::validate(&document["components"]["schemas"][name])
                .unwrap_or_else(|e| panic!("{file}: {name}: {e}"));
            jsonschema::draft202012::options()
                .build(&whole)
                .unwrap_or_else(|e| panic!("{file}: {name}: {e}"));
        }
        // Keywords of Swagger that 3.1 lacks would be ignored silently.
        each(document, "", &mut |place, members| {
            let schema = place.contains("/schema") && !place.ends_with("/properties");
            let old = ["nullable", "x-nullable", "example", "discriminator"]
                .into_iter()
                .find(|word| members.contains_key(*word));
            assert!(
                !schema || old.is_none_or(|word| word == "discriminator"),
                "{file}{place}: {old:?}"
            );
        });
    }
}
