//! A condition as a tree, and the parts of it that an index can answer.

use std::{cell::Cell, slice};

use super::{
    check::{Check, Relation},
    filter_target::{FilterTarget, Symbol},
    page::{Limit, Sort},
    value::{Type, Value},
};

/// A parsed `filter` parameter. The default matches everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub predicate: Predicate,
    /// At most [`MAX_SORT`]. If empty, the `sort` parameter applies.
    pub sort: Vec<Sort>,
    pub skip: Option<i64>,
    pub limit: Option<Limit>,
}

/// A condition. `and` and `or` have no precedence: the right side of each, and of `not`, is
/// everything that follows. An expression is therefore a flat list, evaluated once from left to
/// right; only parentheses and subqueries nest.
#[derive(Clone, Debug, Default)]
pub struct Predicate {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Negates this test together with all that follow it.
    pub negated: bool,
    pub test: Test,
    pub join: Join,
}

/// How a test is joined to the rest of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Constant(bool),
    Compare(Operand, Check),
    IsEmpty(SetMembers),
    Not(Box<Test>),
    Group(Predicate),
}

/// The left side of a comparison.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Value(Symbol, Type),
    AnyOf(Symbol),
    AllOf(Symbol),
    Count(SetMembers),
}

/// The members of a set, or those whose record matches a query.
#[derive(Clone, Debug)]
pub(crate) struct SetMembers {
    pub set: Symbol,
    pub matching: Option<Box<Query>>,
}

/// A symbol that must have one of these values for the predicate to hold. An index on it can name
/// the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexableCondition<'q> {
    /// A text field, or a set that must hold one of the values.
    pub symbol: &'q Symbol,
    /// May contain duplicates.
    pub values: Vec<&'q str>,
}

impl Predicate {
    /// Whether it holds for every record and reads no value of a record.
    pub fn lets_all_through(&self) -> bool {
        struct Probe(Cell<bool>);
        impl FilterTarget for Probe {
            fn value(&self, _: &Symbol) -> Value<'_> {
                self.0.set(true);
                Value::Null
            }
            fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn FilterTarget)) {
                self.0.set(true);
            }
        }
        let probe = Probe(Cell::new(false));
        self.matches(&probe) && !probe.0.get()
    }

    pub(super) fn new(steps: Vec<Step>) -> Predicate {
        Predicate { steps }
    }

    pub fn matches(&self, subject: &dyn FilterTarget) -> bool {
        let mut negated = false;
        for step in &self.steps {
            negated ^= step.negated;
            let held = step.test.holds(subject);
            match step.join {
                Join::And if held => {}
                Join::Or if !held => {}
                _ => return held != negated,
            }
        }
        true
    }

    /// The symbols that the predicate reads, without those of subqueries.
    pub fn symbols(&self) -> Vec<&Symbol> {
        self.steps
            .iter()
            .flat_map(|step| step.test.symbols())
            .collect()
    }

    /// Conditions that must hold and that an index can answer. Each of them alone finds all
    /// matches.
    pub fn indexable_conditions(&self) -> Vec<IndexableCondition<'_>> {
        let mut indexable_conditions = Vec::new();
        let mut rest = self.steps.as_slice();
        while let [step, following @ ..] = rest {
            match (&step.test, step.join) {
                _ if step.negated => break,
                (_, Join::Or) => {
                    indexable_conditions.extend(alternatives(rest));
                    break;
                }
                (Test::Group(group), _) => {
                    indexable_conditions.extend(group.indexable_conditions())
                }
                (test, _) => indexable_conditions.extend(test.anchor()),
            }
            rest = following;
        }
        indexable_conditions
    }
}

/// `s = "a" or s = "b" or ...` about one symbol up to the end of the list is one anchor; the web
/// console queries role attributes like this. An `and` among them only reduces the matches.
fn alternatives(steps: &[Step]) -> Option<IndexableCondition<'_>> {
    let (first, others) = steps.split_first()?;
    let mut all = first.test.anchor()?;
    for step in others {
        let anchor = step
            .test
            .anchor()
            .filter(|anchor| anchor.symbol == all.symbol)?;
        if step.negated {
            return None;
        }
        all.values.extend(anchor.values);
    }
    Some(all)
}

impl Test {
    fn holds(&self, subject: &dyn FilterTarget) -> bool {
        match self {
            Test::Constant(value) => *value,
            Test::Compare(Operand::Value(symbol, _), check) => check.holds(&subject.value(symbol)),
            Test::Compare(Operand::AnyOf(set), check) => {
                members(subject, set).any(|member| check.holds(&member))
            }
            Test::Compare(Operand::AllOf(set), check) => {
                members(subject, set).all(|member| check.holds(&member))
            }
            Test::Compare(Operand::Count(members), check) => {
                check.holds(&members.count(subject).into())
            }
            Test::IsEmpty(members) => members.count(subject) == 0,
            Test::Not(test) => !test.holds(subject),
            Test::Group(predicate) => predicate.matches(subject),
        }
    }

    fn symbols(&self) -> Vec<&Symbol> {
        match self {
            Test::Constant(_) => Vec::new(),
            Test::Compare(
                Operand::Value(symbol, _) | Operand::AnyOf(symbol) | Operand::AllOf(symbol),
                _,
            ) => vec![symbol],
            Test::Compare(Operand::Count(members), _) | Test::IsEmpty(members) => {
                vec![&members.set]
            }
            Test::Not(test) => test.symbols(),
            Test::Group(predicate) => predicate.symbols(),
        }
    }

    fn anchor(&self) -> Option<IndexableCondition<'_>> {
        // Only text: a number is compared with text in its written form, which the index does not
        // hold.
        let Test::Compare(Operand::Value(symbol, Type::Text) | Operand::AnyOf(symbol), check) =
            self
        else {
            return None;
        };
        let literals = match check {
            Check::Relates(Relation::Equal, literal) => slice::from_ref(literal),
            Check::Among(values) => values,
            _ => return None,
        };
        let values = literals.iter().map(|literal| {
            if let Value::Text(text) = literal {
                Some(text.as_ref())
            } else {
                None
            }
        });
        Some(IndexableCondition {
            symbol,
            values: values.collect::<Option<_>>()?,
        })
    }
}

impl Operand {
    /// The type that is compared: for a set, the type of its members.
    pub(crate) fn kind(&self) -> Type {
        match self {
            Operand::Value(_, kind) => *kind,
            Operand::AnyOf(_) | Operand::AllOf(_) => Type::Text,
            Operand::Count(_) => Type::Number,
        }
    }
}

fn members<'a>(subject: &'a dyn FilterTarget, set: &Symbol) -> impl Iterator<Item = Value<'a>> {
    let members = if let Value::Set(members) = subject.value(set) {
        members
    } else {
        Vec::new()
    };
    members.into_iter().map(Value::Text)
}

impl SetMembers {
    fn count(&self, subject: &dyn FilterTarget) -> usize {
        let Some(query) = &self.matching else {
            return members(subject, &self.set).count();
        };
        let mut found = 0_usize;
        subject.linked(&self.set, &mut |linked| {
            found += usize::from(query.predicate.matches(linked))
        });
        let skipped = found.saturating_sub(usize::try_from(query.skip.unwrap_or(0)).unwrap_or(0));
        match query.limit {
            Some(Limit::Count(limit)) => skipped.min(usize::try_from(limit).unwrap_or(usize::MAX)),
            Some(Limit::None) | None => skipped,
        }
    }
}
