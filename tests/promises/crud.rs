//! The generic operations behave the same for every kind. Differences are in one row of `kinds.rs`
//! per kind.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Answer, Base, Caller, encoded, fresh, interface, shared},
    kinds::{ENTANGLED, SAMPLES, Sample},
};

/// Members of every detail that do not belong to the kind.
const FRAME: [&str; 5] = ["_links", "id", "createdAt", "updatedAt", "isSystem"];
const NOWHERE: &str = "nothing-has-this-id";

fn admin() -> &'static Caller {
    &shared().admin
}

/// A record created from a sample.
struct Made {
    name: String,
    body: Json,
    id: String,
}

impl Sample {
    fn make(&self) -> Made {
        let name = fresh(self.path.trim_end_matches('s'));
        let body = (self.body)(shared(), &name);
        let id = admin().post(&self.list(), body.clone()).expect(201).id();
        Made { name, body, id }
    }

    fn list(&self) -> String {
        format!("/{}", self.path)
    }

    fn one(&self, id: &str) -> String {
        format!("/{}/{id}", self.path)
    }

    /// Whether every body has this member, although the schema may not require it.
    fn needs(&self, name: &str) -> bool {
        self.tag == Some(name) || self.also.contains(&name)
    }

    #[track_caller]
    fn shown(&self, id: &str) -> Json {
        admin().get(&self.one(id)).expect(200).data().clone()
    }

    /// The schema of an operation's body on one record.
    fn schema(&self, method: &str) -> &'static Json {
        let path = if method == "post" {
            self.list()
        } else {
            self.one("{id}")
        };
        let document = &interface(Base::Management).document;
        let operation = &document["paths"][path.as_str()][method];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        schema["$ref"]
            .as_str()
            .map_or(schema, |target| document.pointer(&target[1..]).unwrap())
    }

    /// A body for PUT with other values everywhere.
    fn other(&self, name: &str) -> Json {
        let mut body = (self.body)(shared(), name);
        merge(&mut body, &(self.changes)(shared()));
        body
    }
}

/// Merges the members of one object into another, recursively; tags and other maps are replaced.
fn merge(into: &mut Json, from: &Json) {
    for (name, value) in from.as_object().unwrap() {
        into[name] = value.clone();
    }
}

/// Compares two objects with a readable message.
#[track_caller]
fn same(left: &Json, right: &Json, but: &[&str], at: &str) {
    let (Json::Object(left), Json::Object(right)) = (left, right) else {
        panic!("{at}: {left} beside {right}")
    };
    for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
        assert!(
            but.contains(&name.as_str()) || left.get(name) == right.get(name),
            "{at}: {name}: {:?} beside {:?}",
            left.get(name),
            right.get(name)
        );
    }
}

/// Asserts that every member of a body is in the detail.
#[track_caller]
fn carries(sample: &Sample, detail: &Json, body: &Json, at: &str) {
    for (name, value) in body.as_object().unwrap() {
        if sample.unseen.contains(&name.as_str()) {
            continue;
        }
        assert_eq!(
            detail.get(name),
            Some(value),
            "{} {at}: {name}",
            sample.path
        );
    }
}

#[test]
fn writable_kinds_have_samples() {
    let rows: BTreeSet<(&str, String)> = interface(Base::Management)
        .rows()
        .map(|row| (row.method, row.path.clone()))
        .collect();
    let kinds: BTreeSet<&str> = rows
        .iter()
        .filter(|(method, path)| {
            *method == "POST"
                && rows.contains(&("PATCH", format!("{path}/{{id}}")))
                && rows.contains(&("PUT", format!("{path}/{{id}}")))
        })
        .filter_map(|(_, path)| path.strip_prefix('/'))
        .collect();
    let samples: BTreeSet<&str> = SAMPLES
        .iter()
        .map(|sample| sample.path)
        .chain(ENTANGLED)
        .collect();
    assert_eq!(
        samples, kinds,
        "the samples in kinds.rs must match the route table"
    );
}

#[test]
fn created_records_are_shown_and_listed() {
    for sample in SAMPLES {
        let made = sample.make();
        let detail = sample.shown(&made.id);
        is_whole(
            sample,
            "post",
            &made.body,
            sample.tag.map(|tag| (tag, &made.body[tag])),
        );
        carries(sample, &detail, &made.body, "after POST");
        assert_eq!(
            detail["_links"]["self"]["href"],
            format!("./{}/{}", sample.linked.unwrap_or(sample.path), made.id)
        );
        assert_eq!(detail["createdAt"], detail["updatedAt"], "{}", sample.path);
        let listed = admin()
            .list(&sample.list(), &format!("id = \"{}\"", made.id), "")
            .expect(200);
        assert_eq!(
            (listed.total(), &listed.data()[0]),
            (1, &detail),
            "{}: the list must show the same as the detail",
            sample.path
        );
    }
}

#[test]
fn omitted_members_get_defaults() {
    for sample in SAMPLES {
        let required: Vec<&str> = sample.schema("post")["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let mut body = (sample.body)(shared(), &fresh("least"));
        body.as_object_mut()
            .unwrap()
            .retain(|name, _| required.contains(&name.as_str()) || sample.needs(name));
        admin().post(&sample.list(), body.clone()).expect(201);
        for name in required {
            let mut less = body.clone();
            less.as_object_mut().unwrap().shift_remove(name);
            let answer = admin().post(&sample.list(), less).expect(400);
            assert!(
                answer.text.contains(name),
                "{}: without {name}: {}",
                sample.path,
                answer.text
            );
        }
    }
}

/// The literal of a scalar in the query language.
fn literal(value: &Json) -> Option<String> {
    match value {
        Json::Null => Some("null".into()),
        Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
        Json::String(text) => Some(format!("\"{text}\"")),
        Json::Array(_) | Json::Object(_) => None,
    }
}

/// A filter on one field that matches the record.
fn fulfilled(sample: &Sample, field: &str, detail: &Json) -> String {
    if let Some((_, filter)) = sample.filters.iter().find(|(name, _)| *name == field) {
        return filter(detail);
    }
    if field == "tags" {
        let (name, value) = detail["tags"].as_object().unwrap().iter().next().unwrap();
        return format!("tags.{name} = {}", literal(value).unwrap());
    }
    if field == "isSystem" {
        return "isSystem = false".into();
    }
    let value = detail.pointer(&format!("/{}", field.replace('.', "/")));
    let value = value.unwrap_or_else(|| {
        panic!(
            "{}: {field} is not a member of {detail}: add a filter for it in kinds.rs",
            sample.path
        )
    });
    match value {
        Json::Array(values) if values.is_empty() => format!("isEmpty({field})"),
        Json::Array(values) => format!("anyOf({field}) = {}", literal(&values[0]).unwrap()),
        Json::String(text) if ["createdAt", "updatedAt"].contains(&field) => {
            format!("{field} = datetime({text})")
        }
        other => format!("{field} = {}", literal(other).unwrap()),
    }
}

#[test]
fn every_field_filters() {
    for sample in SAMPLES {
        let made = sample.make();
        let detail = sample.shown(&made.id);
        let list = admin().list(&sample.list(), "true", "&limit=1").expect(200);
        let fields: Vec<&str> = list.json["meta"]["filterableFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap())
            .collect();
        assert!(
            [
                "id",
                "createdAt",
                "updatedAt",
                "tags",
                "isSystem",
                sample.key
            ]
            .iter()
            .all(|name| fields.contains(name)),
            "{fields:?}"
        );
        for field in fields {
            let filter = fulfilled(sample, field, &detail);
            let among = |filter: &str| {
                admin()
                    .list(
                        &sample.list(),
                        &format!("id = \"{}\" and {filter}", made.id),
                        "",
                    )
                    .expect(200)
                    .total()
            };
            assert_eq!(among(&filter), 1, "{}: {filter}", sample.path);
            assert_eq!(
                among(&format!("(not ({filter}))")),
                0,
                "{}: not {filter}",
                sample.path
            );
        }
        for unknown in [
            "nothing = 1",
            "name.first = \"x\"",
            "name = 1 and",
            "anyOf(name) = \"x\" or",
        ] {
            admin()
                .list(&sample.list(), unknown, "")
                .refused(400, "INVALID_FILTER", "");
        }
    }
}

/// Whether of two values of one type the second is less.
fn falls(values: &[Option<Json>; 2]) -> bool {
    match values {
        [Some(Json::String(first)), Some(Json::String(second))] => second < first,
        [Some(Json::Number(first)), Some(Json::Number(second))] => second.as_f64() < first.as_f64(),
        [Some(Json::Bool(first)), Some(Json::Bool(second))] => second < first,
        _ => false,
    }
}

#[test]
fn every_scalar_field_sorts_both_ways() {
    for sample in SAMPLES {
        let (first, second) = (sample.make(), sample.make());
        let only = format!("id in [\"{}\", \"{}\"]", first.id, second.id);
        let list = admin().list(&sample.list(), &only, "").expect(200);
        for field in list.json["meta"]["filterableFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap())
        {
            let sorted = |way: &str| {
                admin().list(
                    &sample.list(),
                    &only,
                    &format!("&sort={}", encoded(&format!("{field} {way}"))),
                )
            };
            let up = sorted("asc");
            if up.status == 400 {
                let set = list.data()[0][field].is_array() || field == "tags";
                assert!(
                    set && up.code() == "INVALID_SORT_IDENTIFIER",
                    "{}: sort={field}: {}",
                    sample.path,
                    up.text
                );
                continue;
            }
            let (up, down) = (up.expect(200), sorted("desc").expect(200));
            let (up, mut down) = (up.each("id"), down.each("id"));
            assert_eq!(up.len(), 2);
            let place = format!("/{}", field.replace('.', "/"));
            let value = |id: &str| {
                list.data()
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|one| one["id"] == id)
                    .unwrap()
                    .pointer(&place)
                    .cloned()
            };
            // Equal values are ordered by id in both directions; values that the detail does not
            // show may be equal or not.
            let hidden = value(&first.id).is_none() && up != down;
            if hidden || value(&first.id) != value(&second.id) {
                down.reverse();
            }
            assert_eq!(up, down, "{}: sort={field}", sample.path);
            let values = [up[0], up[1]].map(value);
            assert!(
                !falls(&values),
                "{}: sort={field} asc: {values:?}",
                sample.path
            );
        }
        admin()
            .list(&sample.list(), &only, "&sort=nothing")
            .refused(400, "INVALID_SORT_IDENTIFIER", "");
    }
}

#[test]
fn pages_put_together_are_the_list() {
    for sample in SAMPLES {
        let made = [sample.make(), sample.make(), sample.make()];
        let only = format!(
            "{} in [{}]",
            sample.key,
            made.iter()
                .map(|m| format!("\"{}\"", m.name))
                .collect::<Vec<_>>()
                .join(", ")
        );
        let page = |rest: &str| {
            admin()
                .list(
                    &sample.list(),
                    &only,
                    &format!("&sort={}{rest}", sample.key),
                )
                .expect(200)
        };
        let whole = page("");
        assert_eq!(
            (whole.total(), whole.each("id").len()),
            (3, 3),
            "{}",
            sample.path
        );
        let mut together = Vec::new();
        for offset in [0, 2, 4] {
            let part = page(&format!("&limit=2&offset={offset}"));
            assert_eq!(part.total(), 3);
            assert_eq!(
                part.json["meta"]["pagination"],
                json!({ "limit": 2, "offset": offset, "totalCount": 3 })
            );
            together.extend(part.each("id").into_iter().map(str::to_owned));
        }
        assert_eq!(together, whole.each("id"), "{}", sample.path);
        let skipped = admin()
            .list(
                &sample.list(),
                &format!("{only} sort by {} desc skip 1 limit 1", sample.key),
                "",
            )
            .expect(200);
        assert_eq!(skipped.each("id"), [whole.each("id")[1]], "{}", sample.path);
    }
}

#[test]
fn put_replaces_what_is_not_fixed() {
    for sample in SAMPLES {
        let made = sample.make();
        let name = fresh("renamed");
        let mut body = sample.other(&name);
        is_whole(
            sample,
            "put",
            &body,
            sample.tag.map(|tag| (tag, &made.body[tag])),
        );
        admin().put(&sample.one(&made.id), body.clone()).expect(200);
        let detail = sample.shown(&made.id);
        for fixed in sample.fixed {
            body[*fixed] = made.body[*fixed].clone();
        }
        carries(sample, &detail, &body, "after PUT");
        assert_eq!(detail["id"], made.id);

        // Members that PUT leaves out are reset to their defaults.
        let required = &sample.schema("put")["required"];
        body.as_object_mut().unwrap().retain(|name, _| {
            required
                .as_array()
                .is_some_and(|r| r.contains(&name.as_str().into()))
                || sample.needs(name)
        });
        admin().put(&sample.one(&made.id), body).expect(200);
        assert_eq!(sample.shown(&made.id)["tags"], json!({}), "{}", sample.path);
    }
}

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

/// Each value in `changes` as a body that changes nothing else; descends into described objects.
fn single(changes: &Json, schema: &Json) -> Vec<Json> {
    let mut bodies = Vec::new();
    for (name, value) in changes.as_object().unwrap() {
        let described = &schema["properties"][name];
        if described["properties"].is_object() {
            bodies.extend(
                single(value, described)
                    .into_iter()
                    .map(|inner| json!({ name: inner })),
            );
        } else {
            bodies.push(json!({ name: value }));
        }
    }
    bodies
}

/// The names of all members of a schema, nested ones with their path; of several variants only that
/// of the sample.
fn members(schema: &Json, path: &str, form: Option<(&str, &Json)>) -> Vec<String> {
    let is_form =
        |one: &&Json| form.is_some_and(|(tag, word)| one["properties"][tag]["const"] == *word);
    let forms = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_form);
    let properties = std::iter::once(schema)
        .chain(forms)
        .filter_map(|one| one["properties"].as_object());
    let own = properties.flatten().flat_map(|(name, member)| {
        let place = format!("{path}/{name}");
        let inner = std::iter::once(member).chain(member["anyOf"].as_array().into_iter().flatten());
        match inner.into_iter().find(|one| one["properties"].is_object()) {
            Some(described) => members(described, &place, None),
            None => vec![place],
        }
    });
    own.collect()
}

/// Set only at creation and shown elsewhere: covered by the tests of enrollments.
const ELSEWHERE: &str = "/enrollment/";

/// Asserts that a sample has a value for every described member of a body.
#[track_caller]
fn is_whole(sample: &Sample, method: &str, body: &Json, form: Option<(&str, &Json)>) {
    let missing = |place: &String| body.pointer(place).is_none() && !place.starts_with(ELSEWHERE);
    let missing: Vec<String> = members(sample.schema(method), "", form)
        .into_iter()
        .filter(missing)
        .collect();
    assert!(
        missing.is_empty(),
        "{} {method}: kinds.rs leaves out {missing:?}",
        sample.path
    );
}

/// Applies `patch` to `detail`; merges objects whose members the schema describes.
fn patched(detail: &mut Json, patch: &Json, schema: &Json) {
    for (name, value) in patch.as_object().unwrap() {
        let described = &schema["properties"][name];
        if described["properties"].is_object() {
            patched(&mut detail[name], value, described)
        } else {
            detail[name] = value.clone()
        }
    }
}

#[test]
fn patch_changes_only_named_members() {
    for sample in SAMPLES {
        let schema = sample.schema("patch");
        let mut changes = (sample.changes)(shared());
        if sample.key == "name" {
            changes["name"] = fresh("patched").into();
        }
        let made = sample.make();
        let form = sample.tag.map(|tag| (tag, &made.body[tag]));
        let mut whole = changes.clone();
        if let Some((tag, word)) = form {
            whole[tag] = word.clone();
        }
        is_whole(sample, "patch", &whole, form);
        for mut body in single(&changes, schema) {
            let member = body.as_object().unwrap().keys().next().unwrap().clone();
            if let Some(tag) = sample.tag {
                body[tag] = made.body[tag].clone();
            }
            let before = sample.shown(&made.id);
            admin()
                .patch(&sample.one(&made.id), body.clone())
                .expect(200);
            let after = sample.shown(&made.id);
            let mut expected = before.clone();
            if !sample.fixed.contains(&member.as_str()) && !sample.unseen.contains(&member.as_str())
            {
                patched(&mut expected, &body, schema);
                // Null and empty lists stand where there is no record to name yet.
                let empty = [":null", ":[]"]
                    .iter()
                    .any(|nothing| body.to_string().contains(nothing));
                assert!(
                    empty || expected != before,
                    "{}: the sample changes nothing by {body}",
                    sample.path
                );
            }
            let follows: Vec<&str> = sample
                .follows
                .iter()
                .copied()
                .chain(["updatedAt"])
                .filter(|name| *name != member || sample.unseen.contains(name))
                .collect();
            same(
                &after,
                &expected,
                &follows,
                &format!("{} after PATCH {body}", sample.path),
            );
        }
        let before = sample.shown(&made.id);
        let empty = sample
            .tag
            .map_or(json!({}), |tag| json!({ tag: made.body[tag] }));
        admin().patch(&sample.one(&made.id), empty).expect(200);
        same(
            &sample.shown(&made.id),
            &before,
            &["updatedAt"],
            &format!("{} after an empty PATCH", sample.path),
        );
    }
}

#[test]
fn unknown_ids_are_not_found() {
    for sample in SAMPLES {
        let body = sample.other(&fresh("never"));
        let tagged = sample.tag.map_or(
            json!({ "name": fresh("never") }),
            |tag| json!({ "name": fresh("never"), tag: body[tag] }),
        );
        let path = sample.one(NOWHERE);
        for answer in [
            admin().get(&path),
            admin().put(&path, body),
            admin().patch(&path, tagged),
            admin().delete(&path),
        ] {
            answer.refused(404, "NOT_FOUND", "");
        }
    }
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
            if name != other.name || sample.unique_on_create {
                admin()
                    .post(&sample.list(), with(name))
                    .refused(400, "COULD_NOT_VALIDATE", "name");
            }
            admin().put(&sample.one(&made.id), with(name)).refused(
                400,
                "COULD_NOT_VALIDATE",
                "name",
            );
            admin().patch(&sample.one(&made.id), patch(name)).refused(
                400,
                "COULD_NOT_VALIDATE",
                "name",
            );
        }
        assert_eq!(sample.shown(&made.id)["name"], made.name.as_str());
        // Its own name is allowed.
        admin()
            .put(&sample.one(&made.id), with(&made.name))
            .expect(200);
    }
}

#[test]
fn deletion_frees_the_name() {
    for sample in SAMPLES {
        let made = sample.make();
        admin().delete(&sample.one(&made.id)).expect(200);
        for answer in [
            admin().get(&sample.one(&made.id)),
            admin().delete(&sample.one(&made.id)),
        ] {
            answer.refused(404, "NOT_FOUND", "");
        }
        assert_eq!(
            admin()
                .list(
                    &sample.list(),
                    &format!("{} = \"{}\"", sample.key, made.name),
                    ""
                )
                .expect(200)
                .total(),
            0
        );
        let mut again = (sample.body)(shared(), &fresh("again"));
        again["name"] = made.name.as_str().into();
        admin().post(&sample.list(), again).expect(201);
    }
}

#[test]
fn system_records_refuse_changes() {
    let router = admin()
        .post(
            "/edge-routers",
            json!({ "name": fresh("tunneler"), "isTunnelerEnabled": true }),
        )
        .expect(201)
        .id();
    let policy = format!("/edge-router-policies/{router}");
    let before = admin().get(&policy).expect(200).data().clone();
    assert_eq!(before["isSystem"], true);
    let body = json!({ "name": fresh("mine"), "semantic": "AnyOf", "edgeRouterRoles": ["#all"], "identityRoles": ["#all"] });
    admin()
        .put(&policy, body.clone())
        .refused(400, "ENTITY_CAN_NOT_BE_UPDATED", "");
    admin()
        .patch(&policy, body)
        .refused(400, "ENTITY_CAN_NOT_BE_UPDATED", "");
    admin()
        .delete(&policy)
        .refused(400, "ENTITY_CAN_NOT_BE_DELETED", "");
    assert_eq!(admin().get(&policy).expect(200).data(), &before);
    admin()
        .delete(&format!("/identities/{router}"))
        .refused(400, "ENTITY_CAN_NOT_BE_DELETED", "");
    admin()
        .delete(&format!("/edge-routers/{router}"))
        .expect(200);
    admin().get(&policy).expect(404);
    admin().get(&format!("/identities/{router}")).expect(404);

    let administrator = admin()
        .list("/identities", "isDefaultAdmin = true", "")
        .expect(200)
        .each("id")[0]
        .to_owned();
    admin()
        .delete(&format!("/identities/{administrator}"))
        .refused(400, "ENTITY_CAN_NOT_BE_DELETED", "");
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

/// Password credentials, whose members no sample covers.
#[test]
fn password_members_are_read_back() {
    let server = shared();
    let (person, first) = (server.identity(&fresh("person"), json!({})), fresh("first"));
    let body = json!({ "method": "updb", "identityId": person, "username": first, "password": "password one", "tags": { "colour": "red" } });
    let id = admin().post("/authenticators", body).expect(201).id();
    let seen = |caller: &Caller, path: &str, name: &str, tags: Json| {
        let shown = caller.get(path).expect(200);
        assert_eq!(
            (&shown.data()["username"], &shown.data()["tags"]),
            (&json!(name), &tags),
            "{path}"
        );
    };
    let whole = format!("/authenticators/{id}");
    seen(admin(), &whole, &first, json!({ "colour": "red" }));
    let (second, third) = (fresh("second"), fresh("third"));
    admin()
        .put(
            &whole,
            json!({ "username": second, "password": "password two", "tags": { "size": 7 } }),
        )
        .expect(200);
    seen(admin(), &whole, &second, json!({ "size": 7 }));
    admin()
        .patch(&whole, json!({ "tags": { "flat": true } }))
        .expect(200);
    seen(admin(), &whole, &second, json!({ "flat": true }));
    let own = server.anonymous().log_in(&second, "password two");
    let path = format!("/current-identity/authenticators/{id}");
    let new = json!({ "username": third, "password": "password three", "currentPassword": "password two" });
    own.put(&path, new).expect(200);
    // The tags may be an administrator's: they stay unless others are sent.
    seen(&own, &path, &third, json!({ "flat": true }));
    let own = server.anonymous().log_in(&third, "password three");
    own.patch(
        &path,
        json!({ "tags": { "colour": "blue" }, "currentPassword": "password three" }),
    )
    .expect(200);
    seen(&own, &path, &third, json!({ "colour": "blue" }));
    let new = json!({ "username": first, "password": "password four", "currentPassword": "password three", "tags": { "size": 9 } });
    own.put(&path, new).expect(200);
    seen(admin(), &whole, &first, json!({ "size": 9 }));
}

#[test]
fn put_keeps_router_settings() {
    let name = fresh("transit");
    let id = admin()
        .post(
            "/transit-routers",
            json!({ "name": name, "cost": 7, "noTraversal": true }),
        )
        .expect(201)
        .id();
    let path = format!("/transit-routers/{id}");
    let seen = || {
        ["cost", "noTraversal", "disabled"]
            .map(|member| admin().get(&path).expect(200).data()[member].clone())
    };
    admin().put(&path, json!({ "name": name })).expect(200);
    assert_eq!(json!(seen()), json!([7, true, false]));
    admin()
        .put(&path, json!({ "name": name, "cost": 9, "disabled": true }))
        .expect(200);
    assert_eq!(json!(seen()), json!([9, true, true]));
}

#[test]
fn signers_are_listed_before_login() {
    let server = shared();
    let name = fresh("idp");
    let body = json!({
        "name": name, "enabled": true, "issuer": format!("https://{name}.test"), "audience": "overlay", "jwksEndpoint": "https://idp.test/keys",
        "clientId": "overlay-app", "scopes": ["openid", "email"]
    });
    let id = admin().post("/external-jwt-signers", body).expect(201).id();
    let shown = || {
        let list = server
            .anonymous()
            .get(&format!(
                "/external-jwt-signers?filter={}",
                encoded(&format!("id = \"{id}\""))
            ))
            .expect(200);
        ["clientId", "scopes", "targetToken"].map(|member| list.data()[0][member].clone())
    };
    assert_eq!(
        json!(shown()),
        json!(["overlay-app", ["openid", "email"], "ACCESS"])
    );
    admin()
        .patch(
            &format!("/external-jwt-signers/{id}"),
            json!({ "targetToken": "ID" }),
        )
        .expect(200);
    assert_eq!(shown()[2], "ID");
    admin()
        .patch(
            &format!("/external-jwt-signers/{id}"),
            json!({ "targetToken": "REFRESH" }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "targetToken");
    admin()
        .delete(&format!("/external-jwt-signers/{id}"))
        .expect(200);
}
