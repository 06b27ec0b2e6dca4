//! The filter language: answers recorded from the original controller, the deliberate differences,
//! and properties that hold for any text and any condition.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap, thread};

use overkeep::testing::query::*;
use proptest::prelude::*;

/// The fields of a kind, and the kind that its set `configs` refers to.
struct Words {
    fields: &'static [(&'static str, Type)],
    linked: Option<&'static Words>,
}

static CONFIGS: Words = Words {
    fields: &[
        ("id", Type::Text),
        ("name", Type::Text),
        ("type", Type::Text),
    ],
    linked: None,
};
static SERVICES: Words = Words {
    fields: &[
        ("id", Type::Text),
        ("name", Type::Text),
        ("externalId", Type::Text),
        ("cost", Type::Number),
        ("noTraversal", Type::Bool),
        ("isSystem", Type::Bool),
        ("createdAt", Type::Date),
        ("roleAttributes", Type::Set),
        ("configs", Type::Set),
        ("service.name", Type::Text),
    ],
    linked: Some(&CONFIGS),
};

impl Vocabulary for Words {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let tag = || {
            name.strip_prefix("tags.").map(|path| {
                (
                    Symbol {
                        field: usize::MAX,
                        path: Some(path.into()),
                    },
                    Type::Any,
                )
            })
        };
        let plain = self.fields.iter().position(|(field, _)| *field == name);
        plain
            .map(|field| (Symbol { field, path: None }, self.fields[field].1))
            .or_else(tag)
    }

    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary> {
        self.linked
            .filter(|_| self.fields[set.field].0 == "configs")
            .map(|words| words as &dyn Vocabulary)
    }
}

#[derive(Clone)]
struct Row {
    label: &'static str,
    words: &'static Words,
    values: BTreeMap<String, Value<'static>>,
    linked: Vec<Row>,
}

impl Row {
    fn new(label: &'static str) -> Row {
        Row {
            label,
            words: &SERVICES,
            values: BTreeMap::new(),
            linked: Vec::new(),
        }
    }

    fn config(id: &'static str, kind: &'static str) -> Row {
        Row {
            words: &CONFIGS,
            ..Row::new(id)
        }
        .with("id", id)
        .with("name", format!("name-{id}"))
        .with("type", kind)
        .with("tags.q", id)
    }

    fn with(mut self, name: &str, value: impl Into<Value<'static>>) -> Row {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    fn set(self, name: &str, members: &[&'static str]) -> Row {
        self.with(name, members.iter().copied().collect::<Value>())
    }
}

impl FilterTarget for Row {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        let name = symbol.path.as_ref().map_or_else(
            || self.words.fields[symbol.field].0.to_owned(),
            |path| format!("tags.{path}"),
        );
        self.values.get(&name).cloned().unwrap_or(Value::Null)
    }

    fn linked(&self, _: &Symbol, visit: &mut dyn FnMut(&dyn FilterTarget)) {
        self.linked.iter().for_each(|row| visit(row));
    }
}

fn parse(text: &str) -> Result<Query, FilterFault> {
    Query::parse(text, &SERVICES)
}

/// The labels of the rows that match, or `refused`.
fn ask(rows: &[Row], text: &str) -> String {
    let Ok(query) = parse(text) else {
        return "refused".to_owned();
    };
    let labels: Vec<_> = rows
        .iter()
        .filter(|row| query.predicate.matches(*row))
        .map(|row| row.label)
        .collect();
    labels.join(" ")
}

/// Checks lines of `filter => labels`.
fn check(rows: &[Row], table: &str) {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut wrong = Vec::new();
    for line in lines {
        let (text, expected) = line.split_once("=>").expect(line);
        let got = ask(rows, text.trim());
        if got != expected.trim() {
            wrong.push(format!("{text}=> {}, not {got}", expected.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn refused(table: &str) {
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        assert!(parse(line).is_err(), "accepted: {line}");
    }
}

/// Every combination of three booleans, as in `a-c`.
fn letters() -> Vec<Row> {
    let labels = ["---", "--c", "-b-", "-bc", "a--", "a-c", "ab-", "abc"];
    let row = |label: &'static str| {
        "abc".chars().fold(Row::new(label), |row, c| {
            row.with(&format!("tags.{c}"), label.contains(c))
        })
    };
    labels.map(row).to_vec()
}

#[test]
fn operators_take_everything_right() {
    let table = "
        a and b or c => a-c ab- abc
        a or b and c => -bc a-- a-c ab- abc
        (a and b) or c => --c -bc a-c ab- abc
        (a or b) and c => -bc a-c abc
        a and (b or c) => a-c ab- abc
        a and b and c => abc
        a or b or c => --c -b- -bc a-- a-c ab- abc
        not a and b => --- --c -b- -bc a-- a-c
        (not a) and b => -b- -bc
        not (a and b) => --- --c -b- -bc a-- a-c
        a and not b or c => a--
        not a or b => --- --c
        not a or b and not c => --- --c -bc
        a and b or not c and a => a-- ab- abc
        not not a => a-- a-c ab- abc
        not a and not b => --- --c -b- -bc ab- abc
        a or b and c or a => -bc a-- a-c ab- abc
        c and a or b and not a => -bc a-c abc
        (a or c) and (b or c) => --c -bc a-c ab- abc
        ((a)) => a-- a-c ab- abc
        ( a ) and ( ( not b ) ) => a-- a-c
        a  and\tb or c => a-c ab- abc
        a AND b Or NOT c => a-- ab- abc
        not false => --- --c -b- -bc a-- a-c ab- abc
        TRUE and False =>
        not(a) => refused
        (a)and(b) => refused
        (a) and(b) => refused
        a and => refused
        and a => refused
        a b => refused
        a and or b => refused
        a not b => refused
        not => refused
        () => refused
        (a => refused
        a) => refused
        a andb => refused
        a && b => refused
        a, b => refused
        \"a\" => refused
        a xor b => refused
        a AND => refused";
    let named = table.lines().map(|line| {
        let (text, labels) = line.split_once("=>").unwrap_or_default();
        let words = text
            .split(' ')
            .map(|word| match word.trim_matches(['(', ')']) {
                letter @ ("a" | "b" | "c") => word.replace(letter, &format!("tags.{letter}")),
                _ => word
                    .replace("a  and\tb", "tags.a  and\ttags.b")
                    .replace("and\tb", "and\ttags.b"),
            });
        if text.is_empty() {
            String::new()
        } else {
            format!("{}=>{labels}\n", words.collect::<Vec<_>>().join(" "))
        }
    });
    check(&letters(), &named.collect::<String>());
}

#[test]
fn text_is_compared_by_its_bytes() {
    let names = [
        "alpha",
        "beta",
        "Gamma",
        "delta4",
        "quote\"d",
        "back\\slash",
        "tab\there",
        "ünï✓",
        "10",
        "9",
    ];
    let labels = [
        "alpha", "beta", "Gamma", "delta4", "quote", "back", "tab", "uni", "10", "9",
    ];
    let rows: Vec<_> = labels
        .iter()
        .zip(names)
        .map(|(label, name)| Row::new(label).with("name", name))
        .collect();
    check(
        &rows,
        r#"
        name = "alpha" => alpha
        name="alpha" => alpha
        name  =  "alpha" => alpha
        name = "ALPHA" =>
        name != "alpha" => beta Gamma delta4 quote back tab uni 10 9
        name < "b" => alpha Gamma 10 9
        name <= "beta" => alpha beta Gamma back 10 9
        name > "quote" => quote tab uni
        name >= "quote\"d" => quote tab uni
        name > "Z" and name < "c" => alpha beta back
        name > "z" => uni
        NAME = "alpha" => refused
        name contains "a" => alpha beta Gamma delta4 back tab
        name contains "A" =>
        name CONTAINS "lph" => alpha
        name contains "" => alpha beta Gamma delta4 quote back tab uni 10 9
        name not contains "a" => quote uni 10 9
        name NOT  CONTAINS "a" => quote uni 10 9
        name icontains "A" => alpha beta Gamma delta4 back tab
        name icontains "gAMMA" => Gamma
        name icontains "ÜNÏ" => uni
        name icontains "" => alpha beta Gamma delta4 quote back tab uni 10 9
        name not icontains "A" => quote uni 10 9
        name in ["alpha"] => alpha
        name In [ "none" ,"beta","alpha" ] => alpha beta
        name not in ["alpha", "beta"] => Gamma delta4 quote back tab uni 10 9
        name not	in ["alpha", "beta"] => Gamma delta4 quote back tab uni 10 9
        name = null =>
        name != NULL => alpha beta Gamma delta4 quote back tab uni 10 9
        name contains 4 => delta4
        name = 10 => 10
        name = 10.0 => 10
        name > 10 => alpha beta Gamma delta4 quote back tab uni 9
        name in [9, 10] => 10 9
        name in [9.5, 10] => 10
        name < 9.5 => 10 9
        name contains "\"" => quote
        name contains "\\" => back
        name = "back\\slash" => back
        name contains "\t" => tab
        name contains "✓" => uni
        name contains "n\u00ef" => refused
        name = "\q" => refused
        name icontains 4 => refused
        name between "a" and "b" => refused
        name between 1 and 2 => refused"#,
    );
}

#[test]
fn escapes_follow_the_recorded_order() {
    for (literal, text) in [
        (r"a\\b", r"a\b"),
        (r"\\n", "\n"),
        (r#"\\\""#, r#"\""#),
        (r"\f\n\r\t", "\x0c\n\r\t"),
        (r"\\\\", r"\"),
    ] {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", text)],
                &format!("name = \"{literal}\"")
            ),
            "found",
            "{literal}"
        );
    }
}

/// The only way to write a backslash before a letter, and control characters. What is recorded
/// stays: `\u` and `\q` are errors.
#[test]
fn numbers_stand_for_any_character() {
    let texts = [
        (r"CORP\x{5c}nina", r"CORP\nina"),
        (r"\x{5c}\x{5C}server\x{5c}share", r"\\server\share"),
        (r"a\x{1b}b\x{0}\x{00000a}", "a\u{1b}b\0\n"),
        (
            r"\x{202e}\x{1f600}\x{10ffff}",
            "\u{202e}\u{1f600}\u{10ffff}",
        ),
        (r#"\"\x{5c}\"\n"#, "\"\\\"\n"),
        (r"\\x{5c}", r"\x{5c}"),
    ];
    for (literal, text) in texts {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", text)],
                &format!("name = \"{literal}\"")
            ),
            "found",
            "{literal}"
        );
    }
    for unfit in [
        "x",
        "x5c",
        "x{}",
        "x{5c",
        "x{5c]",
        "x{0000041}",
        "x{110000}",
        "x{d800}",
        "x{g}",
        "x{-1}",
        "x{+5}",
        "u005c",
        "X{5c}",
    ] {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", "a")],
                &format!("name = \"\\{unfit}\"")
            ),
            "refused",
            "{unfit}"
        );
    }
}

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

#[test]
fn foreign_syntax_is_refused() {
    refused(
        r#"
bogus = 1
name
name =
= "x"
name = x
name = 'x'
name == "x"
name <> "x"
name = "x
name = "x" and
name = "x" "y"
name in []
name in "x"
name in ["x", 1]
name in ["x",]
name in [null]
name in["x"]
name not  in ["x"]
name not = "x"
name contains"x"
name contains null
name contains ["x"]
name like "x"
name > null
name = true
name = datetime(2020-01-01T00:00:00Z)
.tags
name.x = 1
true true
limit
skip
sort
sort by
limit a
1 = 1
true = true
null
name="a"or name="b"
cost = 1and true
cost between 1and 2
nameand = 1
select * from services
name = "a" -- comment
true #
$name = "x"
name = "x" ;
name ! = "x"
true %
tru?e
limit 2 skip 1
skip 1 sort by name
sort by name sort by id
limit 1.5
limit5
skip none
limit 99999999999999999999
sort name
sort by name descending
sort by name,
sort by ,name
sort by bogus
sort by roleAttributes
sort by tags.n
sort by name limit
name = "x"limit 5
"#,
    );
    for text in [
        " ",
        "name = \"\n\"",
        "name\u{a0}= \"x\"",
        "\u{feff}true",
        "\u{0}",
    ] {
        assert!(parse(text).is_err(), "accepted: {text:?}");
    }
    assert!(parse("").is_ok_and(|query| query.predicate.matches(&Row::new(""))));
    assert!(parse("\n name = \"x\"\r\n\tsort by name ").is_ok());
}

#[test]
fn a_fault_says_what_and_where() {
    let fault = |text| parse(text).expect_err(text);
    let unknown = fault("name = \"é\" and\n  (bogus = 1)");
    assert_eq!(
        unknown.to_string(),
        "unknown symbol 'bogus' at line 2, column 4"
    );
    assert_eq!(
        (unknown.symbol.as_deref(), unknown.line, unknown.column),
        (Some("bogus"), 2, 4)
    );
    assert_eq!(
        fault("name = \"é\" x").to_string(),
        "expected the end, found 'x' at line 1, column 12"
    );
    assert_eq!(
        fault("name =").to_string(),
        "expected a value, found the end at line 1, column 7"
    );
    assert_eq!(
        fault("name # 1").to_string(),
        "unknown character at line 1, column 6"
    );
    assert_eq!(
        fault("cost = \"1\"").to_string(),
        "a number cannot be compared by '=' with text at line 1, column 8"
    );
    assert_eq!(fault("true sort by bogus").parameter, Parameter::Filter);
    assert_eq!(
        parse_sort("bogus", &SERVICES).expect_err("bogus").parameter,
        Parameter::Sort
    );
}

/// The order of two records by the definition of a sort. The id decides between equal records.
pub fn order(sort: &[Sort], a: &dyn FilterTarget, b: &dyn FilterTarget) -> Ordering {
    let by = |each: &Sort| {
        let ascending = compare(&a.value(&each.symbol), &b.value(&each.symbol));
        if each.descending {
            ascending.reverse()
        } else {
            ascending
        }
    };
    sort.iter()
        .map(by)
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

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

/// A stack much smaller than any thread of Overkeep has.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(work)
        .expect("thread");
    thread.join().expect("no overflow, no panic");
}

#[test]
fn deep_filters_never_overflow() {
    on_a_small_stack(|| {
        let nested = |depth: usize, inner: &str| {
            parse(&format!(
                "{}{inner}{}",
                "(".repeat(depth),
                ")".repeat(depth)
            ))
        };
        assert!(
            nested(MAX_DEPTH, "true").is_ok_and(|query| query.predicate.matches(&Row::new("")))
        );
        let fault = nested(MAX_DEPTH + 1, "true").expect_err("too deep");
        assert_eq!(
            fault.to_string(),
            format!(
                "nested deeper than {MAX_DEPTH} levels at line 1, column {}",
                MAX_DEPTH + 2
            )
        );
        assert!(
            parse(&vec!["(true)"; 2 * MAX_DEPTH].join(" and ")).is_ok(),
            "conditions side by side are not nested"
        );
        for opening in ["(", "isEmpty(from configs where ", "not (", "true and ("] {
            assert!(parse(&opening.repeat(20_000)).is_err());
            assert!(parse(&opening.repeat(1_000)).is_err());
        }
        assert!(nested(100_000, "true").is_err());
        // An even number of these prefixes leaves `true` unchanged.
        for (link, odd) in [
            ("not ", false),
            ("true and ", true),
            ("false or ", true),
            ("true and not ", false),
        ] {
            let most = (MAX_LENGTH - 4) / link.len();
            for (links, expected) in [(most & !1, true), ((most - 1) | 1, odd)] {
                let query = parse(&format!("{}true", link.repeat(links))).expect(link);
                assert_eq!(
                    query.predicate.matches(&Row::new("")),
                    expected,
                    "{link} {links} times"
                );
                assert!(query.clone().predicate.indexable_conditions().is_empty());
            }
        }
        assert!(parse(&format!("name = \"{}\"", "x".repeat(MAX_LENGTH))).is_err());
        assert!(parse(&"x".repeat(3_000)).is_err());
    });
}

/// A condition, evaluated here by its definition and not by the code under test.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(String, Vec<bool>),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn holds(&self, row: usize) -> bool {
        match self {
            Tree::Leaf(_, rows) => rows[row],
            Tree::Not(tree) => !tree.holds(row),
            Tree::And(a, b) => a.holds(row) & b.holds(row),
            Tree::Or(a, b) => a.holds(row) | b.holds(row),
        }
    }

    /// With all parentheses, or only with the necessary ones: around a left side that is not a
    /// leaf.
    fn print(&self, all: bool) -> String {
        let leaf = matches!(self, Tree::Leaf(..));
        let text = match self {
            Tree::Leaf(text, _) => text.clone(),
            Tree::Not(tree) => format!("not {}", tree.print(all)),
            Tree::And(a, b) => format!("{} and {}", a.left(all), b.print(all)),
            Tree::Or(a, b) => format!("{} or {}", a.left(all), b.print(all)),
        };
        if all && !leaf {
            format!("({text})")
        } else {
            text
        }
    }

    fn left(&self, all: bool) -> String {
        let bare = all || matches!(self, Tree::Leaf(..));
        if bare {
            self.print(all)
        } else {
            format!("({})", self.print(false))
        }
    }
}

/// Name, cost, isSystem, roleAttributes.
type Person = (
    Option<&'static str>,
    i64,
    Option<bool>,
    &'static [&'static str],
);

/// The records that the generated conditions are evaluated on.
const PEOPLE: [Person; 5] = [
    (Some("a"), 1, Some(true), &["x"]),
    (Some("B b"), 2, Some(false), &["x", "y"]),
    (None, 3, None, &[]),
    (Some(""), -1, None, &["z"]),
    (Some("é\"\n"), 0, Some(true), &["y", "z"]),
];

fn people() -> Vec<Row> {
    let row = |(name, cost, system, roles): &Person| {
        Row::new("")
            .with("name", *name)
            .with("cost", *cost)
            .with("isSystem", *system)
            .set("roleAttributes", roles)
    };
    PEOPLE.iter().map(row).collect()
}

fn quote(text: &str) -> String {
    let escape = |c| match c {
        '"' => r#"\""#.to_owned(),
        '\n' => r"\n".to_owned(),
        '\r' => r"\r".to_owned(),
        '\t' => r"\t".to_owned(),
        '\x0c' => r"\f".to_owned(),
        _ => String::from(c),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

fn relation() -> impl Strategy<Value = (&'static str, fn(Ordering) -> bool)> {
    prop_oneof![
        Just(("=", Ordering::is_eq as fn(Ordering) -> bool)),
        Just(("!=", Ordering::is_ne as _)),
        Just(("<", Ordering::is_lt as _)),
        Just(("<=", Ordering::is_le as _)),
        Just((">", Ordering::is_gt as _)),
        Just((">=", Ordering::is_ge as _)),
    ]
}

fn leaf() -> impl Strategy<Value = Tree> {
    fn tree(text: String, holds: impl Fn(&Person) -> bool) -> Tree {
        Tree::Leaf(text, PEOPLE.iter().map(holds).collect())
    }
    let word = || {
        prop_oneof![
            Just("a"),
            Just("B b"),
            Just("b"),
            Just(""),
            Just("é\"\n"),
            Just("x"),
            Just("y"),
            Just("z")
        ]
    };
    prop_oneof![
        any::<bool>().prop_map(|value| tree(value.to_string(), |_| value)),
        Just(tree("isSystem".to_owned(), |p| p.2 == Some(true))),
        Just(tree("isSystem != null".to_owned(), |p| p.2.is_some())),
        (relation(), word()).prop_map(|((sign, accepts), w)| {
            tree(format!("name {sign} {}", quote(w)), move |p| {
                p.0.is_some_and(|name| accepts(name.as_bytes().cmp(w.as_bytes())))
            })
        }),
        (relation(), -2_i64..4).prop_map(|((sign, accepts), n)| tree(
            format!("cost{sign}{n}"),
            move |p| accepts(p.1.cmp(&n))
        )),
        (-2_i64..4, -2_i64..4).prop_map(|(a, b)| tree(
            format!("cost between {a} and {b}"),
            move |p| (a..b).contains(&p.1)
        )),
        word().prop_map(|w| tree(format!("name contains {}", quote(w)), move |p| p
            .0
            .is_some_and(|name| name.contains(w)))),
        word().prop_map(
            |w| tree(format!("name not contains {}", quote(w)), move |p| p
                .0
                .is_some_and(|name| !name.contains(w)))
        ),
        prop::collection::vec(word(), 1..4).prop_map(|words| {
            let list = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(",");
            tree(format!("name not in [{list}]"), move |p| {
                !p.0.is_some_and(|name| words.contains(&name))
            })
        }),
        (prop::collection::vec(word(), 1..4), any::<bool>()).prop_map(|(words, within)| {
            let list = words
                .iter()
                .map(|w| quote(w))
                .collect::<Vec<_>>()
                .join(" , ");
            let operator = if within { "in" } else { "not in" };
            let holds = move |p: &Person| p.3.iter().any(|role| words.contains(role)) == within;
            tree(format!("anyOf(roleAttributes) {operator} [{list}]"), holds)
        }),
        (relation(), word()).prop_map(|((sign, accepts), w)| {
            tree(
                format!("allOf(roleAttributes) {sign} {}", quote(w)),
                move |p| p.3.iter().all(|role| accepts((*role).cmp(w))),
            )
        }),
        (relation(), word()).prop_map(|((sign, accepts), w)| {
            tree(
                format!("anyOf(roleAttributes) {sign} {}", quote(w)),
                move |p| p.3.iter().any(|role| accepts((*role).cmp(w))),
            )
        }),
        (relation(), 0_i64..3).prop_map(|((sign, accepts), n)| {
            tree(format!("count(roleAttributes) {sign} {n}"), move |p| {
                accepts((p.3.len() as i64).cmp(&n))
            })
        }),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(8, 40, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|tree| Tree::Not(Box::new(tree))),
            two.clone()
                .prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            two.prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
        ]
    })
}

/// Pieces of the language in random order; much of it is nearly valid.
fn nearly_valid() -> impl Strategy<Value = String> {
    let pieces = r#"name cost isSystem createdAt tags.x roleAttributes configs and or not in between contains icontains anyOf( allOf( count( isEmpty(
        from where sort by skip limit none asc ( ) [ ] , = != < "a" " \ 1 -2.5e3 null true datetime( datetime(2020-01-01T00:00:00Z) é"#;
    let pieces: Vec<_> = pieces.split_whitespace().collect();
    let piece = (
        prop::sample::select(pieces),
        prop_oneof![4 => Just(" "), 1 => Just("")],
    );
    prop::collection::vec(
        piece.prop_map(|(piece, gap)| format!("{piece}{gap}")),
        0..24,
    )
    .prop_map(|pieces| pieces.concat())
}

/// Integers around 2^53, where neighbours are the same float.
fn number() -> impl Strategy<Value = Value<'static>> {
    let near = (1_i64 << 53) - 1..(1 << 53) + 3;
    prop_oneof![
        near.clone().prop_map(Value::Integer),
        near.prop_map(|n| Value::Float(n as f64))
    ]
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let single = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Date)
    ];
    prop_oneof![
        single,
        number(),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(|text| Value::Text(Cow::Owned(text)))
    ]
}

fn survives(text: &str) {
    let rows = people();
    if let Ok(query) = parse(text) {
        let matching = rows
            .iter()
            .filter(|row| query.predicate.matches(*row))
            .count();
        assert!(matching <= rows.len() && query.sort.len() <= MAX_SORT);
        query.predicate.indexable_conditions();
    }
    let _ = parse_sort(text, &SERVICES);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn nearly_right_text_never_panics(text in nearly_valid()) {
        survives(&text);
    }

    #[test]
    fn conditions_match_their_definition(tree in tree()) {
        for text in [tree.print(true), tree.print(false)] {
            let query = parse(&text).map_err(|fault| TestCaseError::fail(format!("{text}: {fault}")))?;
            for (index, row) in people().iter().enumerate() {
                prop_assert_eq!(query.predicate.matches(row), tree.holds(index), "{} on {:?}", text, PEOPLE[index]);
            }
        }
    }

    #[test]
    fn matches_satisfy_every_condition(tree in tree()) {
        let text = tree.print(false);
        let query = parse(&text).map_err(|fault| TestCaseError::fail(format!("{text}: {fault}")))?;
        for row in people().iter().filter(|row| query.predicate.matches(*row)) {
            for condition in query.predicate.indexable_conditions() {
                let held = match row.value(condition.symbol) {
                    Value::Text(text) => condition.values.contains(&text.as_ref()),
                    Value::Set(members) => members.iter().any(|member| condition.values.contains(&member.as_ref())),
                    _ => false,
                };
                prop_assert!(held, "{} {:?}", text, condition);
            }
        }
    }

    #[test]
    fn plain_text_finds_itself(text in "[^\\\\\u{0}-\u{8}\u{b}\u{e}-\u{1f}]*") {
        let row = Row::new("found").with("name", text.clone());
        let literal = quote(&text);
        for operator in ["=", "contains", "icontains", "<=", ">="] {
            prop_assert_eq!(ask(std::slice::from_ref(&row), &format!("name {operator} {literal}")), "found", "{}", operator);
        }
        prop_assert_eq!(ask(std::slice::from_ref(&row), &format!("name icontains {}", literal.to_ascii_uppercase())), if text.contains(['\n', '\r', '\t', '\x0c']) { "refused" } else { "found" });
    }

    #[test]
    fn icontains_agrees_with_lowering_both_sides(text in "[a-zA-Zßéè ]{0,12}", needle in "[a-zA-Zßéè]{0,2}") {
        let found = text.to_lowercase().contains(&needle.to_lowercase());
        let row = Row::new("found").with("name", text);
        prop_assert_eq!(ask(&[row], &format!("name icontains \"{needle}\"")), if found { "found" } else { "" });
    }

    #[test]
    fn the_order_of_values_is_total(a in value(), b in value(), c in value(), x in number(), y in number(), z in number()) {
        for (a, b, c) in [(&a, &b, &c), (&x, &y, &z), (&a, &x, &y)] {
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, a), Ordering::Equal);
            if compare(a, b).is_le() && compare(b, c).is_le() {
                prop_assert!(compare(a, c).is_le(), "{:?} {:?} {:?}", a, b, c);
            }
        }
        prop_assert!(compare(&Value::Null, &a).is_le());
    }

    #[test]
    fn a_window_stays_within_its_limits(limit in any::<Option<i64>>(), offset in any::<Option<i64>>(), count in any::<i64>()) {
        for query in [Query::default(), Query { limit: Some(Limit::Count(count)), skip: Some(count), ..Query::default() }] {
            let window = Window::new(&query, limit, offset);
            prop_assert!(window.offset as i64 <= MAX_OFFSET);
            prop_assert!(window.limit.is_none_or(|limit| (1..=MAX_LIMIT).contains(&(limit as i64))));
        }
    }
}
