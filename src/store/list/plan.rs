//! Lists: candidates, filter, order, page, total.
//!
//! Only the ids of the page are kept in memory, and with a sort the keys that lead up to it. Where the filter names an id or the value of an
//! indexed field, only those records are read; where the index of one field tells all there is to know, only the page (`list/index_scan.rs`).

use std::{
    borrow::{Borrow, Cow},
    cell::Cell,
    cmp::Ordering,
    collections::{BTreeSet, BinaryHeap},
    ops::ControlFlow,
};

use super::index_scan::IndexScan;
use crate::store::{
    Read,
    tx::{
        read::text,
        tables::{ALL, Table},
    },
};
use crate::{
    entity::{Entity, Facts, Index, Record, Seen, field_of, is_id, tombstone},
    error::Result,
    query::{Anchor, MAX_SORT, Predicate, Query, Sort, Subject, Symbol, Type, Value, Window, compare},
};

/// A part of a list.
#[derive(Clone)]
pub struct Page<E: Entity> {
    pub records: Vec<Record<E>>,
    /// How many match, on this page or not.
    pub total: u64,
}

/// Ids of records, in order, in little memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    text: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Ids {
    /// Adds one.
    pub fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(self.text.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The one at a place.
    pub fn get(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(at)?)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// Which records a list is of, before its filter.
pub enum Scope<'a> {
    /// All of the kind.
    All,
    /// Those with these ids, each once; where there is no other order, theirs counts. Ids without a record are left out.
    Ids(Box<dyn Iterator<Item = &'a str> + 'a>),
    /// Those whose indexed field or reference has this value.
    Having { field: &'static str, value: &'a str },
}

/// Where the candidates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The filter names ids.
    Id,
    /// The filter names values of this field, and the index their records.
    Field(&'static str),
    /// The filter is no help: all that is in scope.
    Scope,
}

impl Plan {
    /// The plan for a filter over a kind, and the values to look up.
    pub fn of<E: Entity>(predicate: &Predicate) -> (Self, Vec<&str>) {
        let usable = |anchor: Anchor<'_>| {
            if is_id(anchor.symbol) {
                return Some((0, Self::Id));
            }
            let field = field_of::<E>(anchor.symbol)?;
            match (field.index, field.of) {
                // The index leaves empty values of unique fields out.
                (Index::Unique | Index::Every, Type::Text) if anchor.values.iter().all(|value| !value.is_empty()) => {
                    Some((1, Self::Field(field.name)))
                }
                (Index::Many, Type::Text | Type::Set) => Some((2, Self::Field(field.name))),
                _ => None,
            }
        };
        let anchors = predicate.anchors().into_iter();
        let found = anchors.filter_map(|anchor| usable(anchor.clone()).map(|(rank, plan)| (rank, plan, anchor.values)));
        found.min_by_key(|(rank, ..)| *rank).map_or((Self::Scope, Vec::new()), |(_, plan, values)| (plan, values))
    }
}

/// Whether a list of all records is made from few of them, so that it is not worth another thread.
pub fn is_brief<E: Entity>(query: &Query, window: Window) -> bool {
    const FEW: usize = 20;
    const FAR: usize = 1_000;
    let unique = |field: &str| E::FIELDS.iter().any(|of| of.name == field && matches!(of.index, Index::Unique | Index::Every));
    match Plan::of::<E>(&query.predicate) {
        (Plan::Id, values) => values.len() <= FEW,
        (Plan::Field(field), values) => unique(field) && values.len() <= FEW,
        (Plan::Scope, _) => {
            let all_stand = E::ENDS_BY.is_empty();
            let ordered = query.sort.is_empty() || IndexScan::of::<E>(query, &query.sort).is_some();
            all_stand && always(&query.predicate) && ordered && window.offset <= FAR && window.limit.is_some_and(|limit| limit <= FEW)
        }
    }
}

impl Read<'_> {
    /// The part `window` of the records in `scope` that match, in the order of `query.sort`, ties and everything else by id.
    ///
    /// # Errors
    /// A record is damaged, or the file cannot be read.
    pub fn select<E: Entity>(&self, query: &Query, window: Window, scope: Scope<'_>) -> Result<Page<E>> {
        let (ids, total) = self.select_ids::<E>(query, window, scope)?;
        let records = ids.iter().filter_map(|id| self.load(id).transpose()).collect::<Result<_>>()?;
        Ok(Page { records, total })
    }

    /// The ids of the same records, and how many match on this page or not.
    ///
    /// # Errors
    /// As in [`Read::select`].
    pub fn select_ids<E: Entity>(&self, query: &Query, window: Window, scope: Scope<'_>) -> Result<(Ids, u64)> {
        let sort = query.sort.get(..MAX_SORT).unwrap_or(&query.sort);
        let everything = always(&query.predicate);
        let source = self.source::<E>(&query.predicate, scope)?;
        // As long as ended records are there too, each has to be looked at.
        let all_stand = E::ENDS_BY.is_empty() || !self.any_ended()?;
        if all_stand && everything && sort.is_empty() {
            return self.cut::<E>(source, window);
        }
        if let (true, Source::Scan, Some(scan)) = (all_stand, &source, IndexScan::of::<E>(query, sort))
            && let Some(found) = self.scan_index::<E>(&scan, query, window)?
        {
            return Ok(found);
        }
        if !sort.is_empty() {
            return self.sorted::<E>(source, query, sort, window);
        }
        let (mut ids, mut total) = (Ids::default(), 0);
        self.matching::<E>(source, &query.predicate, &mut |record| {
            if shown(window, total) {
                ids.push(record.id.as_str());
            }
            total += 1;
            Ok(())
        })?;
        Ok((ids, total))
    }

    /// The same part of records that somebody brings along, whether or not they are stored as such.
    pub fn select_from<E: Entity>(&self, records: Vec<Record<E>>, query: &Query, window: Window) -> Page<E> {
        let sort = query.sort.get(..MAX_SORT).unwrap_or(&query.sort);
        let ranked = |record: Record<E>| {
            let seen = Seen { record: &record, facts: self };
            let rank = query.predicate.matches(&seen).then(|| Ranked::new(&seen, sort, record.id.as_str()));
            rank.map(|rank| (rank, record))
        };
        let mut matching: Vec<(Ranked, Record<E>)> = records.into_iter().filter_map(ranked).collect();
        matching.sort_by(|(one, _), (other, _)| one.cmp(other));
        let total = matching.len() as u64;
        let limit = window.limit.unwrap_or(usize::MAX);
        Page { records: matching.into_iter().skip(window.offset).take(limit).map(|(_, record)| record).collect(), total }
    }

    fn source<'s, E: Entity>(&self, predicate: &Predicate, scope: Scope<'s>) -> Result<Source<'s>> {
        let named = match Plan::of::<E>(predicate) {
            (Plan::Scope, _) => None,
            (Plan::Id, values) => Some(values.into_iter().map(str::to_owned).collect()),
            (Plan::Field(field), values) => Some(self.ids_of::<E>(field, &values)?),
        };
        Ok(match (named, scope) {
            (None, Scope::All) => Source::Scan,
            (None, Scope::Ids(ids)) => Source::Ids(Box::new(ids.map(Cow::Borrowed))),
            (None, Scope::Having { field, value }) => Source::owned(self.ids_of::<E>(field, &[value])?),
            (Some(named), Scope::All) => Source::owned(named),
            (Some(named), Scope::Ids(ids)) => Source::Ids(Box::new(ids.filter(move |id| named.contains(*id)).map(Cow::Borrowed))),
            (Some(mut named), Scope::Having { field, value }) => {
                let mut held = Ok(());
                named.retain(|id| {
                    self.holds(E::KIND, field, value, id).unwrap_or_else(|e| {
                        held = Err(e);
                        false
                    })
                });
                held?;
                Source::owned(named)
            }
        })
    }

    fn ids_of<E: Entity>(&self, field: &str, values: &[&str]) -> Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        for value in values {
            self.visit_ids(E::KIND, field, value.as_bytes(), &mut |id| {
                ids.insert(id.to_owned());
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(ids)
    }

    /// A page when nothing is filtered or sorted: no record need be read.
    fn cut<E: Entity>(&self, source: Source<'_>, window: Window) -> Result<(Ids, u64)> {
        let (mut ids, mut total) = (Ids::default(), 0);
        match source {
            Source::Ids(known) => {
                for id in known {
                    if self.exists(E::KIND, &id)? {
                        if shown(window, total) {
                            ids.push(&id);
                        }
                        total += 1;
                    }
                }
            }
            Source::Scan => {
                let mut at = 0;
                let table = Table::Records(self.core.registry.place(E::KIND)?);
                total = self.rows.len(table)?;
                self.scan(table, ALL, &mut |id, _| {
                    if shown(window, at) {
                        ids.push(text(id)?);
                    }
                    at += 1;
                    Ok(flow(!ended(window, at)))
                })?;
            }
        }
        Ok((ids, total))
    }

    fn matching<E: Entity>(&self, source: Source<'_>, predicate: &Predicate, visit: &mut dyn FnMut(Record<E>) -> Result<()>) -> Result<()> {
        let mut see = |record: Record<E>| {
            if predicate.matches(&Seen { record: &record, facts: self }) && tombstone::stands(&record, self)? {
                visit(record)?;
            }
            Ok(())
        };
        match source {
            Source::Scan => self.each(see),
            Source::Ids(ids) => {
                for id in ids {
                    self.load(&id)?.map_or(Ok(()), &mut see)?;
                }
                Ok(())
            }
        }
    }

    /// Keeps as many sort keys as lead up to the end of the page.
    fn sorted<E: Entity>(&self, source: Source<'_>, query: &Query, sort: &[Sort], window: Window) -> Result<(Ids, u64)> {
        let most = window.limit.map_or(usize::MAX, |limit| limit.saturating_add(window.offset));
        let mut first = BinaryHeap::new();
        let mut total = 0;
        self.matching::<E>(source, &query.predicate, &mut |record| {
            total += 1;
            let seen = Seen { record: &record, facts: self };
            if first.len() < most {
                first.push(Ranked::new(&seen, sort, record.id.as_str()));
            } else if let Some(mut last) = first.peek_mut()
                && last.is_after(&seen, record.id.as_str(), sort)
            {
                *last = Ranked::new(&seen, sort, record.id.as_str());
            }
            Ok(())
        })?;
        let mut ids = Ids::default();
        first.into_sorted_vec().iter().skip(window.offset).for_each(|ranked| ids.push(&ranked.id));
        Ok((ids, total))
    }
}

/// Ids, or all records of the kind.
enum Source<'s> {
    Scan,
    Ids(Box<dyn Iterator<Item = Cow<'s, str>> + 's>),
}

impl Source<'_> {
    fn owned(ids: BTreeSet<String>) -> Self {
        Self::Ids(Box::new(ids.into_iter().map(Cow::Owned)))
    }
}

/// Goes on or not.
pub(crate) fn flow(on: bool) -> ControlFlow<()> {
    if on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

pub(crate) fn shown(window: Window, at: u64) -> bool {
    at >= window.offset as u64 && !ended(window, at)
}

pub(crate) fn ended(window: Window, at: u64) -> bool {
    window.limit.is_some_and(|limit| at >= (window.offset as u64).saturating_add(limit as u64))
}

/// Whether a filter lets everything through without looking at it.
pub(crate) fn always(predicate: &Predicate) -> bool {
    struct Probe(Cell<bool>);
    impl Subject for Probe {
        fn value(&self, _: &Symbol) -> Value<'_> {
            self.0.set(true);
            Value::Null
        }
        fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn Subject)) {
            self.0.set(true);
        }
    }
    let probe = Probe(Cell::new(false));
    predicate.matches(&probe) && !probe.0.get()
}

/// What a record is sorted by.
struct Ranked {
    /// Each with whether it counts downwards.
    keys: Vec<(Value<'static>, bool)>,
    id: String,
}

impl Ranked {
    fn new(seen: &dyn Subject, sort: &[Sort], id: &str) -> Self {
        Self { keys: sort.iter().map(|by| (owned(seen.value(&by.symbol)), by.descending)).collect(), id: id.into() }
    }

    fn is_after(&self, seen: &dyn Subject, id: &str, sort: &[Sort]) -> bool {
        self.stand_to(sort.iter().map(|by| seen.value(&by.symbol)), id).is_gt()
    }

    /// How it stands to a record with these keys and this id.
    fn stand_to<'v>(&self, keys: impl Iterator<Item = impl Borrow<Value<'v>>>, id: &str) -> Ordering {
        let keys = self.keys.iter().zip(keys).map(|((own, down), their)| {
            let ascending = compare(own, their.borrow());
            if *down { ascending.reverse() } else { ascending }
        });
        keys.fold(Ordering::Equal, Ordering::then).then_with(|| self.id.as_str().cmp(id))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.stand_to(other.keys.iter().map(|(key, _)| key), &other.id)
    }
}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ranked {}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(value),
        Value::Integer(value) => Value::Integer(value),
        Value::Float(value) => Value::Float(value),
        Value::Date(value) => Value::Date(value),
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::Set(members) => Value::Set(members.into_iter().map(|member| Cow::Owned(member.into_owned())).collect()),
    }
}
