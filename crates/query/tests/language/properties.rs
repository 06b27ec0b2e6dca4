//! What holds for any text and any condition.

use std::{borrow::Cow, cmp::Ordering};

use proptest::prelude::*;
use query::*;

use super::rows::*;

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
