//! What no write may do to a record of any kind.

use super::*;

/// Members of every detail that do not belong to the kind.
const FRAME: [&str; 5] = ["_links", "id", "createdAt", "updatedAt", "isSystem"];

/// The members that an error names.
fn violated_fields(answer: &Answer) -> Vec<String> {
    let error = &answer.json["error"];
    let fields = error["violations"]
        .as_array()
        .into_iter()
        .flatten()
        .chain([&error["cause"]])
        .filter_map(|one| one["field"].as_str());
    fields
        .map(str::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The header that names the members of a write that were ignored because only creation sets them.
fn ignored(answer: &Answer) -> Vec<String> {
    answer
        .header("overkeep-ignored-members")
        .split(", ")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn changes_of_fixed_members_are_told() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    for sample in SAMPLES {
        let made = sample.make();
        let (path, other) = (sample.one(&made.id), sample.other(&fresh("renamed")));
        let fixed: Vec<String> = sample.fixed.iter().map(|name| (*name).to_owned()).collect();
        let all: Json = fixed
            .iter()
            .map(|name| (name.clone(), other[name].clone()))
            .collect::<Map<_, _>>()
            .into();
        let mut patches: Vec<(Vec<String>, Json)> = fixed
            .iter()
            .map(|name| (vec![name.clone()], json!({ name: other[name] })))
            .collect();
        patches.push((fixed.clone(), all));
        let changes = patches
            .into_iter()
            .filter(|(names, _)| !names.is_empty())
            .map(|(names, body)| ("PATCH", names, body));
        for (method, names, body) in changes.chain([("PUT", fixed.clone(), other.clone())]) {
            let at = format!("{method} {path} {names:?}");
            let before = sample.shown(&made.id);
            for query in ["?strict=true", "?strict=true&preview=true"] {
                let strictly = admin()
                    .ask(method, &format!("{path}{query}"))
                    .json(&body)
                    .send();
                if names.is_empty() {
                    strictly.expect(200);
                    continue;
                }
                let strictly = strictly.expect(400);
                assert_eq!(violated_fields(&strictly), sorted(names.clone()), "{at}");
                assert_eq!(sample.shown(&made.id), before, "{at}: nothing may change");
            }
            let previewed = admin()
                .ask(method, &format!("{path}?preview=true"))
                .json(&body)
                .send()
                .expect(200);
            assert_eq!(
                sorted(ignored(&previewed)),
                sorted(names.clone()),
                "preview of {at}"
            );
            let plainly = admin().ask(method, &path).json(&body).send().expect(200);
            assert_eq!(sorted(ignored(&plainly)), sorted(names.clone()), "{at}");
        }
        // The stored values are no change, neither are members that are null or missing.
        let mut same = sample.other(&fresh("renamed"));
        for name in &fixed {
            same[name] = made.body[name].clone();
        }
        let mut least: Json = fixed
            .iter()
            .map(|name| (name.clone(), made.body[name].clone()))
            .collect::<Map<_, _>>()
            .into();
        let mut nulls: Json = fixed
            .iter()
            .map(|name| (name.clone(), Json::Null))
            .collect::<Map<_, _>>()
            .into();
        if let Some(tag) = sample.tag {
            (least[tag], nulls[tag]) = (made.body[tag].clone(), made.body[tag].clone());
        }
        let mut without = same.clone();
        without
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !fixed.contains(name));
        for (method, body) in [
            ("PUT", same),
            ("PUT", without),
            ("PATCH", least),
            ("PATCH", nulls),
        ] {
            let answer = admin()
                .ask(method, &format!("{path}?strict=true"))
                .json(&body)
                .send()
                .expect(200);
            assert!(
                ignored(&answer).is_empty(),
                "{method} {path} {body}: {:?}",
                ignored(&answer)
            );
        }
    }
}

/// The type of an identity, and a certificate whose lines end otherwise.
#[test]
fn fixed_members_of_single_kinds() {
    let person = format!(
        "/identities/{}",
        shared().identity(&fresh("person"), json!({}))
    );
    admin()
        .patch(
            &format!("{person}?strict=true"),
            json!({ "type": "Device" }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "type");
    assert_eq!(
        ignored(
            &admin()
                .patch(&person, json!({ "type": "Device" }))
                .expect(200)
        ),
        ["type"]
    );
    assert!(
        ignored(
            &admin()
                .patch(
                    &format!("{person}?strict=true"),
                    json!({ "type": "Default" })
                )
                .expect(200)
        )
        .is_empty()
    );
    let authority = crate::harness::Authority::new(&fresh("authority"));
    let ca = format!("/cas/{}?strict=true", shared().add_ca(&authority));
    for pem in [
        authority.pem().trim_end().to_owned(),
        authority.pem().replace('\n', "\r\n"),
    ] {
        admin().patch(&ca, json!({ "certPem": pem })).expect(200);
    }
    let other = crate::harness::Authority::new(&fresh("other")).pem();
    let refused = admin().patch(&ca, json!({ "certPem": other })).expect(400);
    assert!(
        !refused.text.contains("BEGIN CERTIFICATE"),
        "{}",
        refused.text
    );
}

#[test]
fn names_are_unique_and_not_empty() {
    for sample in SAMPLES.iter().filter(|sample| sample.key == "name") {
        let (made, other) = (sample.make(), sample.make());
        let with = |name: &str| {
            let mut body = made.body.clone();
            body["name"] = name.into();
            body
        };
        let patch = |name: &str| {
            sample.tag.map_or(
                json!({ "name": name }),
                |tag| json!({ "name": name, tag: made.body[tag] }),
            )
        };
        for name in [other.name.as_str(), ""] {
            let one = sample.one(&made.id);
            let mut answers = vec![
                admin().put(&one, with(name)),
                admin().patch(&one, patch(name)),
            ];
            if name != other.name || sample.unique_on_create {
                answers.push(admin().post(&sample.list(), with(name)));
            }
            for answer in answers {
                let answer = answer.refused(400, "COULD_NOT_VALIDATE", "name");
                if name == other.name {
                    assert_eq!(
                        answer.json["error"]["cause"],
                        json!({ "field": "name", "reason": "name must be unique", "value": name })
                    );
                }
            }
        }
        assert_eq!(sample.shown(&made.id)["name"], made.name.as_str());
        // Its own name is allowed.
        admin()
            .put(&sample.one(&made.id), with(&made.name))
            .expect(200);
    }
}

/// Values to try for every member.
fn oddities() -> Vec<Json> {
    let long = "x".repeat(70_000);
    vec![
        Json::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("#"),
        json!("@nobody"),
        json!("\u{202e}\u{1f9ff}"),
        json!(long),
        json!([]),
        json!([null]),
        json!([1, "a", [], {}]),
        json!(["#all", "@"]),
        json!({}),
        json!({ "": null }),
        json!({ "a": { "b": [{}] } }),
    ]
}

/// A body with `value` at `place`.
fn body_with(place: &str, value: &Json) -> Json {
    place
        .rsplit('/')
        .filter(|name| !name.is_empty())
        .fold(value.clone(), |inner, name| json!({ name: inner }))
}

/// A body with one member replaced.
fn with_member(mut body: Json, place: &str, value: &Json) -> Json {
    let mut at = &mut body;
    for name in place.split('/').filter(|name| !name.is_empty()) {
        at = at
            .as_object_mut()
            .unwrap()
            .entry(name)
            .or_insert_with(|| Json::Object(Map::new()));
    }
    *at = value.clone();
    body
}

#[test]
fn any_member_value_is_answered() {
    for sample in SAMPLES {
        let made = sample.make();
        let mut body = (sample.body)(shared(), "");
        for place in members(sample.schema("post"), "", None) {
            for value in oddities() {
                body["name"] = fresh("odd").into();
                let created =
                    admin().post(&sample.list(), with_member(body.clone(), &place, &value));
                assert!(
                    [201, 400, 404].contains(&created.status),
                    "{} {place} {value}: {}",
                    sample.path,
                    created.text
                );
                if created.status == 201 {
                    sample.shown(&created.id());
                    admin().delete(&sample.one(&created.id())).expect(200);
                }
                let mut patch = body_with(&place, &value);
                if let Some(tag) = sample.tag.filter(|tag| place != format!("/{tag}")) {
                    patch[tag] = made.body[tag].clone();
                }
                let patched = admin().patch(&sample.one(&made.id), patch);
                assert!(
                    [200, 400, 404].contains(&patched.status),
                    "{} {place} {value}: {}",
                    sample.path,
                    patched.text
                );
            }
        }
        sample.shown(&made.id);
        for body in [
            "",
            "null",
            "[]",
            "7",
            "\"x\"",
            "{",
            "{\"name\": \"a\"} x",
            "\u{feff}{}",
        ] {
            for (method, path) in [("POST", sample.list()), ("PUT", sample.one(&made.id))] {
                let answer = admin()
                    .ask(method, &path)
                    .body("application/json", body)
                    .send();
                assert!(
                    answer.status == 400,
                    "{method} {path} {body}: {}",
                    answer.text
                );
            }
        }
    }
}

#[test]
fn unknown_members_change_nothing() {
    for sample in SAMPLES {
        let mut body = (sample.body)(shared(), &fresh("more"));
        body["somethingElse"] = json!({ "x": 1 });
        for member in FRAME {
            body[member] = json!("mine");
        }
        let id = admin().post(&sample.list(), body).expect(201).id();
        let detail = sample.shown(&id);
        assert!(
            id != "mine" && detail.get("somethingElse").is_none() && detail["createdAt"] != "mine",
            "{}: {detail}",
            sample.path
        );
    }
}
