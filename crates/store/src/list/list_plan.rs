//! Lists: candidates, filter, order, page, total.
//!
//! A [`ListPlan`] is made once, from the query alone, and carried out in a transaction. Memory
//! holds only the ids of the page and, with an order, the sort keys up to the end of the page. If
//! the filter names an id or the value of an indexed field, only those records are read. If the
//! index of one field gives the whole list, only the records of the page are read
//! (`list/index_scan.rs`).

use std::{
    borrow::Cow,
    collections::{BTreeSet, BinaryHeap},
    marker::PhantomData,
    ops::ControlFlow,
};

use query::{IndexableCondition, MAX_SORT, Predicate, Query, Sort, Type, Window};

use super::{
    ids::{IdPage, Ids, is_past, is_shown, max_collected},
    index_scan::IndexScan,
    sort_key::SortKey,
};
use crate::tx::{
    read::{Read, flow, text},
    tables::{ALL, Table},
};
use model::{
    entity::{Entity, Index, Lookup, Record, RecordTarget, field_of, is_id, tombstone},
    error::Result,
};

/// The records that a list is made from, before its filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All records of the kind.
    All,
    /// The records with these ids, each once. Without another order, this order applies. Ids
    /// without a record are left out.
    Ids(Vec<String>),
    /// The records whose indexed field or reference has this value.
    Having { field: &'static str, value: String },
}

/// The source of the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// The filter names ids.
    Id,
    /// The filter names values of this indexed field.
    Field(&'static str),
    /// The filter does not restrict the candidates: all in scope.
    Scope,
}

/// How a list of records of kind `E` is made.
pub struct ListPlan<E> {
    predicate: Predicate,
    /// Ties are in the order of ids. If there are no sort keys, all records are in the order of
    /// ids.
    sort: Vec<Sort>,
    window: Window,
    scope: Scope,
    candidates: Candidates,
    /// The ids or values that the filter names.
    values: Vec<String>,
    /// Whether the filter matches every record.
    everything: bool,
    /// The index that alone gives the list, if there is one.
    scan: Option<IndexScan>,
    of: PhantomData<fn() -> E>,
}

impl<E: Entity> ListPlan<E> {
    /// The part `window` of the records in `scope` that match a query, in its order.
    pub fn of(query: Query, window: Window, scope: Scope) -> Self {
        let Query {
            predicate,
            mut sort,
            ..
        } = query;
        sort.truncate(MAX_SORT);
        let (candidates, values) = candidates::<E>(&predicate);
        let is_of_all = scope == Scope::All && candidates == Candidates::Scope;
        let scan = if is_of_all {
            IndexScan::of::<E>(&predicate, &sort)
        } else {
            None
        };
        let everything = predicate.lets_all_through();
        Self {
            predicate,
            sort,
            window,
            scope,
            candidates,
            values,
            everything,
            scan,
            of: PhantomData,
        }
    }

    /// The source of the candidates.
    pub fn candidates(&self) -> Candidates {
        self.candidates
    }

    /// The records of the page, and the number of all that match.
    ///
    /// # Errors
    /// A record is damaged, or the file cannot be read.
    pub fn page(&self, read: &Read<'_>) -> Result<IdPage<E>> {
        let (ids, total) = self.ids(read)?;
        let records = ids
            .iter()
            .filter_map(|id| read.load(id).transpose())
            .collect::<Result<_>>()?;
        Ok(IdPage { records, total })
    }

    /// The ids of the records that [`ListPlan::page`] returns, and the number of all that match.
    ///
    /// # Errors
    /// As in [`ListPlan::page`].
    pub fn ids(&self, read: &Read<'_>) -> Result<(Ids, u64)> {
        // While there are tombstones, each record has to be checked against them.
        let all_stand = E::ENDS_BY.is_empty() || !read.any_tombstone()?;
        if all_stand && self.everything && self.sort.is_empty() {
            return self.cut(read);
        }
        if let (true, Some(scan)) = (all_stand, &self.scan)
            && let Some(found) =
                read.scan_index::<E>(scan, (&self.predicate, self.everything), self.window)?
        {
            return Ok(found);
        }
        if !self.sort.is_empty() {
            return self.sorted(read);
        }
        let (mut ids, mut total) = (Ids::default(), 0);
        self.matching(read, &mut |record| {
            if is_shown(self.window, total) {
                ids.push(record.id.as_str());
            }
            total += 1;
            Ok(())
        })?;
        Ok((ids, total))
    }

    /// Like [`ListPlan::ids`], for records that the caller passes, whether or not they are stored.
    pub fn ids_from(self, read: &Read<'_>, records: Vec<Record<E>>) -> (Ids, u64) {
        let key = |record: &Record<E>| {
            let seen = RecordTarget {
                record,
                lookup: read,
            };
            self.predicate
                .matches(&seen)
                .then(|| SortKey::new(&seen, &self.sort, record.id.as_str()))
        };
        let mut keys: Vec<SortKey> = records.iter().filter_map(key).collect();
        keys.sort();
        let mut ids = Ids::default();
        let most = self.window.limit.unwrap_or(usize::MAX);
        for key in keys.iter().skip(self.window.offset).take(most) {
            ids.push(&key.id);
        }
        (ids, keys.len() as u64)
    }

    /// The candidates in scope.
    fn source(&self, read: &Read<'_>) -> Result<Source<'_>> {
        let named = match self.candidates {
            Candidates::Scope => None,
            Candidates::Id => Some(self.values.iter().cloned().collect()),
            Candidates::Field(field) => Some(ids_of::<E>(read, field, &self.values)?),
        };
        Ok(match (named, &self.scope) {
            (None, Scope::All) => Source::Scan,
            (None, Scope::Ids(ids)) => {
                Source::Ids(Box::new(ids.iter().map(|id| Cow::Borrowed(id.as_str()))))
            }
            (None, Scope::Having { field, value }) => {
                Source::owned(ids_of::<E>(read, field, std::slice::from_ref(value))?)
            }
            (Some(named), Scope::All) => Source::owned(named),
            (Some(named), Scope::Ids(ids)) => Source::Ids(Box::new(
                ids.iter()
                    .filter(move |id| named.contains(*id))
                    .map(|id| Cow::Borrowed(id.as_str())),
            )),
            (Some(mut named), Scope::Having { field, value }) => {
                let mut held = Ok(());
                named.retain(|id| {
                    read.holds(E::KIND, field, value, id).unwrap_or_else(|e| {
                        held = Err(e);
                        false
                    })
                });
                held?;
                Source::owned(named)
            }
        })
    }

    /// A page without filter and sort: no record is decoded.
    fn cut(&self, read: &Read<'_>) -> Result<(Ids, u64)> {
        let (mut ids, mut total) = (Ids::default(), 0);
        match self.source(read)? {
            Source::Ids(known) => {
                for id in known {
                    if read.exists(E::KIND, &id)? {
                        if is_shown(self.window, total) {
                            ids.push(&id);
                        }
                        total += 1;
                    }
                }
            }
            Source::Scan => {
                let mut at = 0;
                let table = Table::Records(read.context.registry.place(E::KIND)?);
                total = read.rows.len(table)?;
                read.scan(table, ALL, &mut |id, _| {
                    if is_shown(self.window, at) {
                        ids.push(text(id)?);
                    }
                    at += 1;
                    Ok(flow(!is_past(self.window, at)))
                })?;
            }
        }
        Ok((ids, total))
    }

    fn matching(
        &self,
        read: &Read<'_>,
        visit: &mut dyn FnMut(Record<E>) -> Result<()>,
    ) -> Result<()> {
        let mut see = |record: Record<E>| {
            if self.predicate.matches(&RecordTarget {
                record: &record,
                lookup: read,
            }) && tombstone::stands(&record, read)?
            {
                visit(record)?;
            }
            Ok(())
        };
        match self.source(read)? {
            Source::Scan => read.each(see),
            Source::Ids(ids) => {
                for id in ids {
                    read.load(&id)?.map_or(Ok(()), &mut see)?;
                }
                Ok(())
            }
        }
    }

    /// Keeps only the sort keys up to the end of the page.
    fn sorted(&self, read: &Read<'_>) -> Result<(Ids, u64)> {
        let max_collected = max_collected(self.window);
        let mut first = BinaryHeap::new();
        let mut total = 0;
        self.matching(read, &mut |record| {
            total += 1;
            let seen = RecordTarget {
                record: &record,
                lookup: read,
            };
            if first.len() < max_collected {
                first.push(SortKey::new(&seen, &self.sort, record.id.as_str()));
            } else if let Some(mut last) = first.peek_mut()
                && last.is_after(&seen, record.id.as_str(), &self.sort)
            {
                *last = SortKey::new(&seen, &self.sort, record.id.as_str());
            }
            Ok(())
        })?;
        let mut ids = Ids::default();
        for key in first.into_sorted_vec().iter().skip(self.window.offset) {
            ids.push(&key.id);
        }
        Ok((ids, total))
    }
}

/// The source of the candidates of a filter over a kind, and the values to look up.
fn candidates<E: Entity>(predicate: &Predicate) -> (Candidates, Vec<String>) {
    let texts = |anchor: &IndexableCondition<'_>| {
        anchor
            .values
            .iter()
            .copied()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let usable = |anchor: IndexableCondition<'_>| {
        if is_id(anchor.symbol) {
            return Some((0, Candidates::Id, texts(&anchor)));
        }
        let field = field_of::<E>(anchor.symbol)?;
        if let Some(id_in) = field.id_in {
            return Some((
                0,
                Candidates::Id,
                anchor
                    .values
                    .iter()
                    .map(|value| id_in(value))
                    .collect::<Option<_>>()?,
            ));
        }
        let (rank, candidates) = match (field.index, field.of) {
            // The index leaves out empty values of unique fields.
            (Index::Unique | Index::Every, Type::Text)
                if anchor.values.iter().all(|value| !value.is_empty()) =>
            {
                (1, Candidates::Field(field.name))
            }
            (Index::Many, Type::Text | Type::Set) => (2, Candidates::Field(field.name)),
            _ => return None,
        };
        Some((rank, candidates, texts(&anchor)))
    };
    let first = predicate
        .indexable_conditions()
        .into_iter()
        .filter_map(usable)
        .min_by_key(|(rank, ..)| *rank);
    first.map_or(
        (Candidates::Scope, Vec::new()),
        |(_, candidates, values)| (candidates, values),
    )
}

fn ids_of<E: Entity>(read: &Read<'_>, field: &str, values: &[String]) -> Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for value in values {
        read.visit_ids(E::KIND, field, value.as_bytes(), &mut |id| {
            ids.insert(id.to_owned());
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(ids)
}

/// Given ids, or all records of the kind.
enum Source<'s> {
    Scan,
    Ids(Box<dyn Iterator<Item = Cow<'s, str>> + 's>),
}

impl Source<'_> {
    fn owned(ids: BTreeSet<String>) -> Self {
        Self::Ids(Box::new(ids.into_iter().map(Cow::Owned)))
    }
}
