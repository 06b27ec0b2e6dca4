//! Records to ask, and tables of filters with the labels of the records that they find.

use std::collections::BTreeMap;

use query::*;

/// The fields of a kind, and the kind that its set `configs` refers to.
pub(super) struct Words {
    pub(super) fields: &'static [(&'static str, Type)],
    pub(super) linked: Option<&'static Words>,
}

static CONFIGS: Words = Words {
    fields: &[
        ("id", Type::Text),
        ("name", Type::Text),
        ("type", Type::Text),
    ],
    linked: None,
};
pub(super) static SERVICES: Words = Words {
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
pub(super) struct Row {
    pub(super) label: &'static str,
    pub(super) words: &'static Words,
    pub(super) values: BTreeMap<String, Value<'static>>,
    pub(super) linked: Vec<Row>,
}

impl Row {
    pub(super) fn new(label: &'static str) -> Row {
        Row {
            label,
            words: &SERVICES,
            values: BTreeMap::new(),
            linked: Vec::new(),
        }
    }

    pub(super) fn config(id: &'static str, kind: &'static str) -> Row {
        Row {
            words: &CONFIGS,
            ..Row::new(id)
        }
        .with("id", id)
        .with("name", format!("name-{id}"))
        .with("type", kind)
        .with("tags.q", id)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value<'static>>) -> Row {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn set(self, name: &str, members: &[&'static str]) -> Row {
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

pub(super) fn parse(text: &str) -> Result<Query, FilterFault> {
    Query::parse(text, &SERVICES)
}

/// The labels of the rows that match, or `refused`.
pub(super) fn ask(rows: &[Row], text: &str) -> String {
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
pub(super) fn check(rows: &[Row], table: &str) {
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

pub(super) fn refused(table: &str) {
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        assert!(parse(line).is_err(), "accepted: {line}");
    }
}

/// Every combination of three booleans, as in `a-c`.
pub(super) fn letters() -> Vec<Row> {
    let labels = ["---", "--c", "-b-", "-bc", "a--", "a-c", "ab-", "abc"];
    let row = |label: &'static str| {
        "abc".chars().fold(Row::new(label), |row, c| {
            row.with(&format!("tags.{c}"), label.contains(c))
        })
    };
    labels.map(row).to_vec()
}
