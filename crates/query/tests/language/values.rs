//! Values of each type, null, tags and sets.

use query::*;

use super::rows::*;

#[test]
fn values_compare_within_their_type() {
    let row = |label, cost: i64| {
        Row::new(label)
            .with("cost", cost)
            .with("noTraversal", label == "mid")
            .with("createdAt", Value::Date(cost))
    };
    check(
        &[
            row("cheap", 1),
            row("mid", 100),
            row("dear", 65535),
            row("free", 0),
        ],
        r#"
        cost = 100 => mid
        cost != 100 => cheap dear free
        cost < 100 => cheap free
        cost <= 100 => cheap mid free
        cost > 100 => dear
        cost >= 1e2 => mid dear
        cost = 100.0 => mid
        cost > 99.5 => mid dear
        cost > -0.5 => cheap mid dear free
        cost = -0 => free
        cost = -0.0 => free
        cost in [1, 100.0] => cheap mid
        cost not in [1, 100] => dear free
        cost in [1.5, 100.5] =>
        cost in ["1"] => cheap
        cost between 1 and 100 => cheap
        cost between 0 and 1 => free
        cost not between 1 and 100 => mid dear free
        cost between 0.5 and 99.5 => cheap
        cost BETWEEN 100 AND 101 => mid
        cost between 5 and 1 =>
        cost contains 5 => dear
        cost contains "00" => mid
        cost not contains 5 => cheap mid free
        cost = null =>
        cost != null => cheap mid dear free
        cost = 99999999999999999999 =>
        cost < 99999999999999999999 => cheap mid dear free
        cost = "100" => refused
        cost > "5" => refused
        cost = true => refused
        cost = 01 => refused
        cost = 1e999 => refused
        cost = +1 => refused
        cost => refused
        noTraversal => mid
        not noTraversal => cheap dear free
        noTraversal = TRUE => mid
        noTraversal != true => cheap dear free
        noTraversal != false => mid
        noTraversal = "true" => refused
        noTraversal = 1 => refused
        noTraversal > false => refused
        noTraversal in [true] => refused
        noTraversal contains "t" => refused
        createdAt > datetime(1970-01-01T00:00:00.001Z) => mid dear
        createdAt = datetime(1970-01-01t02:00:00.1+02:00) => mid
        createdAt <= datetime( 1970-01-01T00:00:00.1z ) => cheap mid free
        createdAt > datetime(1969-12-31T23:59:59.9999Z) => cheap mid dear free
        createdAt between datetime(1970-01-01T00:00:00Z) and datetime(1970-01-01T00:00:00.1Z) => cheap free
        createdAt not in [datetime(1970-01-01T00:00:00Z)] => cheap mid dear
        createdAt != null => cheap mid dear free
        createdAt = "2020" => refused
        createdAt contains "2" => refused
        createdAt > 5 => refused
        createdAt > datetime(2020-01-01) => refused
        createdAt > datetime(2020-01-01 00:00:00Z) => refused
        createdAt > datetime(2020-01-01T00:00:00) => refused
        createdAt > datetime((2020-01-01T00:00:00Z) => refused
        createdAt > DATETIME(2020-01-01T00:00:00Z) => refused
        createdAt > datetime(2020-13-01T00:00:00Z) => refused
        createdAt > datetime("2020-01-01T00:00:00Z") => refused"#,
    );
}

#[test]
fn null_matches_no_comparison() {
    check(
        &[
            Row::new("nil"),
            Row::new("set")
                .with("externalId", "b")
                .with("cost", 5_i64)
                .with("isSystem", true),
        ],
        r#"
        externalId = "b" => set
        externalId != "a" => set
        externalId < "c" => set
        externalId contains "" => set
        externalId not contains "a" => set
        externalId not icontains "a" => set
        externalId not in ["a"] => nil set
        not externalId = "a" => nil set
        externalId = null => nil
        externalId != null => set
        not externalId = null => set
        cost != 4 => set
        cost between 0 and 9 => set
        cost not between 6 and 9 => nil set
        cost not contains 4 => set
        isSystem => set
        not isSystem => nil
        isSystem = false => nil
        isSystem != true => nil
        isSystem = null => nil
        createdAt != datetime(2020-01-01T00:00:00Z) =>
        createdAt not between datetime(2020-01-01T00:00:00Z) and datetime(2021-01-01T00:00:00Z) => nil set"#,
    );
}

#[test]
fn tags_take_the_filters_type() {
    let rows = [
        Row::new("one")
            .with("tags.n", 1_i64)
            .with("tags.s", "x")
            .with("tags.b", true),
        Row::new("half")
            .with("tags.n", 2.5)
            .with("tags.s", "y")
            .with("tags.b", false),
        Row::new("text").with("tags.n", "1"),
        Row::new("none"),
        Row::new("minus")
            .with("tags.n", -3_i64)
            .with("tags.s", "a\"b")
            .with("tags.deep.er", "q")
            .with("tags.a-b", "dash"),
    ];
    check(
        &rows,
        r#"
        tags.s = "x" => one
        tags.s != "x" => half minus
        tags.s > "b" => one half
        tags.s contains "\"" => minus
        tags.s not contains "x" => half minus
        tags.s in ["x", "y"] => one half
        tags.s not in ["x"] => half text none minus
        tags.s = null => text none
        tags.s != null => one half minus
        tags.S = "x" =>
        tags.n = 2.5 => half
        tags.n = 1 => one
        tags.n = 1.0 => one
        tags.n != 1 => half minus
        tags.n >= 1 => one half
        tags.n < 0 => minus
        tags.n in [1, -3] => one minus
        tags.n between -3 and 2 => one minus
        tags.n between 1 and 2.5 => one
        tags.n = "1" => one text
        tags.n in ["1", "-3"] => one text minus
        tags.n contains 1 => one text
        tags.n contains "2.5" => half
        tags.n = datetime(2020-01-01T00:00:00Z) =>
        tags.b => one
        not tags.b => half text none minus
        tags.b = false => half text none minus
        tags.b != true => half text none minus
        tags.b = "true" => one
        tags.zz = null => one half text none minus
        tags.zz != "a" =>
        tags.zz < 5.5 =>
        tags.zz =>
        tags.deep.er = "q" or tags.b => one minus
        tags.a-b = "dash" => minus
        tags.n between "a" and "b" => refused
        tags.n between 1 and datetime(2020-01-01T00:00:00Z) => refused
        tags => refused
        tags = null => refused
        tags. => refused
        tags."n" = 1 => refused
        tags['n'] = 1 => refused
        tags.a1 = null => refused
        name-x = null => refused
        anyOf(tags.s) = "x" => refused"#,
    );
}

#[test]
fn sets_are_asked_about_their_members() {
    let (a, b) = (Row::config("a", "t1"), Row::config("b", "t2"));
    let row = |label, roles: &[&'static str], linked: &[&Row]| {
        let row = Row::new(label)
            .with("name", label)
            .set("roleAttributes", roles);
        let row = row.with(
            "configs",
            linked.iter().map(|config| config.label).collect::<Value>(),
        );
        Row {
            linked: linked.iter().map(|config| (*config).clone()).collect(),
            ..row
        }
    };
    check(
        &[
            row("one", &["red", "big"], &[&a, &b]),
            row("two", &["big"], &[&a]),
            row("three", &["blue", "10"], &[]),
            row("empty", &[], &[&b]),
        ],
        r#"
        anyOf(roleAttributes) = "red" => one
        ANYOF( roleAttributes ) = "RED" =>
        anyOf(roleAttributes) != "big" => one three
        anyOf(roleAttributes) in ["red", "blue"] => one three
        anyOf(roleAttributes) contains "ig" => one two
        anyOf(roleAttributes)contains "ig" => one two
        anyOf(roleAttributes) icontains "IG" => one two
        anyOf(roleAttributes) > "blue" => one
        anyOf(roleAttributes) not in ["big"] => three empty
        allOf(roleAttributes) not in ["red"] => one two three
        anyOf(roleAttributes) not contains "ig" => one three
        not anyOf(roleAttributes) = "big" => three empty
        anyOf(roleAttributes) = 10 => three
        anyOf(roleAttributes) = null =>
        anyOf(roleAttributes) != null => one two three
        allOf(roleAttributes) = "big" => two empty
        allOf(roleAttributes) != "big" => three empty
        allOf(roleAttributes) contains "ig" => two empty
        allof(roleAttributes) in ["big", "red"] => one two empty
        allOf(roleAttributes) = null => empty
        count(roleAttributes) = 0 => empty
        count( roleAttributes ) > 1 => one three
        count(roleAttributes) between 1 and 2 => two
        count(roleAttributes) in [0, 1] => two empty
        count(roleAttributes) not in [0, 1] => one three
        isEmpty(roleAttributes) => empty
        not ISEMPTY( roleAttributes ) => one two three
        anyOf(configs) = "a" => one two
        allOf(configs) = "a" => two three
        isEmpty(from configs where name = "name-a") => three empty
        isEmpty( FROM configs WHERE tags.q = "b" ) => two three
        isEmpty(from configs where name = "name-a" or tags.q = "b") => three
        isEmpty(from configs where (true)) => three
        isEmpty(from configs where type = "t1") => three empty
        isEmpty(from configs where name contains "name" skip 1) => two three empty
        not isEmpty(from configs where name = "name-a" limit 1) => one two
        count(from configs where name = "name-a") = 1 => one two
        count(from configs where true) = 2 => one
        count(from configs where true sort by name desc limit 1) = 1 => one two empty
        count(from configs where limit none) > 1 => one
        isEmpty(from configs where type = "t1") and name contains "e" => three empty
        count(roleAttributes) = "1" => refused
        count(roleAttributes) => refused
        count(name) = 1 => refused
        roleAttributes = "red" => refused
        roleAttributes => refused
        anyOf(name) = "x" => refused
        anyOf (roleAttributes) = "x" => refused
        anyOf(roleAttributes) => refused
        anyOf(roleAttributes)in ["x"] => refused
        anyOf(roleAttributes) = true => refused
        anyOf(roleAttributes) between 1 and 2 => refused
        anyOf() = "x" => refused
        anyOf(none) = "x" => refused
        noneOf(roleAttributes) = "x" => refused
        isEmpty(name) => refused
        isEmpty(from roleAttributes where true) => refused
        isEmpty(from none where true) => refused
        isEmpty(from configs where bogus = 1) => refused
        isEmpty(from configs where cost = 1) => refused
        isEmpty(from configs) => refused
        isEmpty(configs where true) => refused
        anyOf(from configs where true) = "x" => refused
        count(isEmpty(configs)) = 1 => refused
        isEmpty(from configs where type = "t1") and type = "t1" => refused"#,
    );
}
