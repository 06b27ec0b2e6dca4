//! Records of every kind are made, replaced, changed and deleted.

use super::*;

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
