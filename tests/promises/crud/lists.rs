//! Lists of every kind: filters, order and pages.

use super::*;

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
