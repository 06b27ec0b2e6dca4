//! Sorts, windows, and the conditions that an index can answer.

use query::*;

use super::rows::*;

mod order;

use order::order;

#[test]
fn lists_follow_the_sort() {
    let people = [
        ("ann", true, Some("x1")),
        ("Bob", false, None),
        ("cid", false, Some("x3")),
        ("Eve", true, Some("x2")),
    ];
    let row = |(name, system, id): (&'static str, bool, Option<&'static str>)| {
        Row::new(name)
            .with("name", name)
            .with("isSystem", system)
            .with("externalId", id)
    };
    let sorted = |sort: &[Sort]| {
        let mut rows = people.map(row);
        rows.sort_by(|a, b| order(sort, a, b));
        rows.map(|row| row.label).join(" ")
    };
    for (text, expected) in [
        ("name", "Bob Eve ann cid"),
        ("name  asc", "Bob Eve ann cid"),
        ("name DESC", "cid ann Eve Bob"),
        ("isSystem, name", "Bob cid Eve ann"),
        ("isSystem desc,name desc", "ann Eve cid Bob"),
        ("externalId", "Bob ann Eve cid"),
        ("externalId desc", "cid Eve ann Bob"),
        ("cost, createdAt", "ann Bob cid Eve"),
        ("name skip 3 limit 1", "Bob Eve ann cid"),
        ("id, id, id, id, id, name", "ann Bob cid Eve"),
        ("", "ann Bob cid Eve"),
    ] {
        assert_eq!(
            sorted(&parse_sort(text, &SERVICES).expect(text)),
            expected,
            "{text}"
        );
        if !text.is_empty() {
            assert_eq!(
                sorted(&parse(&format!("sort by {text}")).expect(text).sort),
                expected,
                "{text}"
            );
        }
    }
    for text in [
        "bogus",
        "roleAttributes",
        "tags.n",
        "name,",
        "name; drop",
        "count(roleAttributes)",
        "name desc asc",
        "name limit x",
        " ",
    ] {
        assert!(parse_sort(text, &SERVICES).is_err(), "{text}");
    }
}

#[test]
fn pages_follow_the_rules() {
    let window = |text: &str, limit, offset| {
        let window = Window::new(&parse(text).expect(text), limit, offset);
        (window.shown_limit(), window.offset)
    };
    for (text, expected) in [
        ("", (10, 0)),
        ("limit 3", (3, 0)),
        ("skip 2 limit 3", (3, 2)),
        ("true sort by name skip 100001", (10, 100_000)),
        ("limit 0", (10, 0)),
        ("limit -1", (i64::MAX, 0)),
        ("limit -7", (10, 0)),
        ("true limit none", (i64::MAX, 0)),
        ("skip 6 LIMIT NONE", (i64::MAX, 6)),
        ("skip -3 limit 2", (2, 0)),
        ("limit 501", (500, 0)),
        ("limit 99999999999", (500, 0)),
    ] {
        assert_eq!(window(text, None, None), expected, "{text}");
    }
    assert_eq!(window("", Some(3), Some(2)), (3, 2));
    assert_eq!(window("", None, Some(2)), (10, 2));
    assert_eq!(window("", Some(-1), None), (i64::MAX, 0));
    assert_eq!(window("", Some(-2), Some(-4)), (10, 0));
    assert_eq!(window("limit 3", Some(1), Some(3)), (3, 3));
    assert_eq!(window("skip 1", Some(2), Some(4)), (2, 1));
    assert_eq!(window("limit 3", Some(-1), None), (3, 0));
    assert_eq!(Window::new(&Query::default(), Some(-1), None).limit, None);
}

#[test]
fn anchors_are_necessary_conditions() {
    let anchors = |text: &str| {
        let query = parse(text).expect(text);
        let name = |symbol: &Symbol| SERVICES.fields[symbol.field].0;
        query
            .predicate
            .indexable_conditions()
            .iter()
            .map(|condition| format!("{}:{}", name(condition.symbol), condition.values.join("+")))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (text, expected) in [
        ("name = \"x\"", "name:x"),
        (
            "(name = \"x\") and cost > 1 and id in [\"b\", \"a\"]",
            "name:x id:a+b",
        ),
        (
            "anyOf(roleAttributes) = \"x\" and not true",
            "roleAttributes:x",
        ),
        (
            "anyOf(roleAttributes) = \"b\" or anyOf(roleAttributes) in [\"a\"]",
            "roleAttributes:b+a",
        ),
        (
            "(name = \"a\" or name = \"b\") and (true or cost = 1)",
            "name:a+b",
        ),
        ("not not name = 5", "name:5"),
        ("name = \"x\" or cost = 1", ""),
        ("name = \"x\" or id = \"x\"", ""),
        ("name = \"x\" or name = \"y\" and cost = 1", ""),
        (
            "name = \"x\" or name = \"y\" and name = \"z\"",
            "name:x+y+z",
        ),
        ("name = \"x\" or not name = \"y\"", ""),
        ("cost = 1 and name = \"x\" or cost = 1", ""),
        ("not name = \"x\"", ""),
        ("not (name = \"x\" and id = \"y\")", ""),
        (
            "name != \"x\" and name not in [\"x\"] and name > \"x\" and name = null",
            "",
        ),
        (
            "allOf(roleAttributes) = \"x\" and cost in [\"1\"] and tags.x = \"1\"",
            "",
        ),
        ("", ""),
    ] {
        assert_eq!(anchors(text), expected, "{text}");
    }
}
