//! Lists that the index of one field can make: it tells which records match, and in which order; only the page is read.

use std::{collections::BinaryHeap, ops::Bound};

use super::ids::{Ids, ended, most, shown};
use crate::store::{
    index,
    tx::{
        read::{Read, flow, text},
        tables::Table,
    },
};
use crate::{
    entity::{Entity, Index, field_of, is_id},
    error::{Error, Result},
    query::{Predicate, Sort, Subject, Symbol, Value, Window},
};

/// The field that every record has, and how the list is ordered by it.
pub struct IndexScan {
    field: &'static str,
    order: Order,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    ById,
    Ascending,
    Descending,
}

impl IndexScan {
    /// The walk for a list of all records, if filter and order ask for nothing but one field that every record has, and the id.
    pub fn of<E: Entity>(predicate: &Predicate, sort: &[Sort]) -> Option<Self> {
        // No two records are alike in such a field: what else the order names is without effect.
        let first = sort.first();
        let asked = first.map(|by| &by.symbol).into_iter().chain(predicate.symbols().into_iter().filter(|symbol| !is_id(symbol)));
        let mut fields = asked.map(|symbol| field_of::<E>(symbol).filter(|field| field.index == Index::Every).map(|field| field.name));
        let field = fields.next()??;
        let order = match first.map(|by| by.descending) {
            None => Order::ById,
            Some(false) => Order::Ascending,
            Some(true) => Order::Descending,
        };
        fields.all(|other| other == Some(field)).then_some(Self { field, order })
    }
}

impl Read<'_> {
    /// The part `window` of all records that match, by the index; `everything` says that all do. Nothing where the order of a value is not known: of very long ones the index
    /// only orders the beginnings.
    ///
    /// # Errors
    /// A record is damaged, or the file cannot be read.
    pub(crate) fn scan_index<E: Entity>(
        &self,
        scan: &IndexScan,
        (predicate, everything): (&Predicate, bool),
        window: Window,
    ) -> Result<Option<(Ids, u64)>> {
        let start = index::code(E::KIND, scan.field);
        let end = index::after(&start);
        let ordered = scan.order != Order::ById;
        if !everything {
            self.before_all::<E>()?;
        }
        let mut found = Found::new(window, ordered);
        let mut known = true;
        let torn = || Error::Storage(format!("an index row of {} is damaged", scan.field));
        let visit = &mut |key: &[u8], row: &[u8]| {
            let (value, prefix) = index::value(key, row).ok_or_else(torn)?;
            known = !ordered || row.is_empty();
            let seen = Pair { value: text(&value)?, id: text(key.get(prefix..).unwrap_or_default())? };
            if everything || predicate.matches(&seen) {
                found.add(seen.id);
            }
            Ok(flow(known && !(everything && ended(window, found.total))))
        };
        let keys = (Bound::Included(start.as_slice()), Bound::Excluded(end.as_slice()));
        match scan.order {
            Order::Descending => self.scan_back(Table::Index, keys, visit)?,
            Order::ById | Order::Ascending => self.scan(Table::Index, keys, visit)?,
        }
        if !known {
            return Ok(None);
        }
        let total = if everything { self.count::<E>()? } else { found.total };
        Ok(Some((found.page(), total)))
    }
}

/// What the index tells of a record.
struct Pair<'p> {
    value: &'p str,
    id: &'p str,
}

impl Subject for Pair<'_> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        if is_id(symbol) { self.id.into() } else { self.value.into() }
    }
    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn Subject)) {}
}

/// The ids of a page so far.
struct Found {
    window: Window,
    total: u64,
    /// In the order of the walk, the page alone.
    ordered: Option<Ids>,
    /// As many of the lowest as lead up to the end of the page.
    lowest: BinaryHeap<String>,
}

impl Found {
    fn new(window: Window, ordered: bool) -> Self {
        Self { window, total: 0, ordered: ordered.then(Ids::default), lowest: BinaryHeap::new() }
    }

    fn add(&mut self, id: &str) {
        let most = most(self.window);
        if let Some(page) = &mut self.ordered {
            if shown(self.window, self.total) {
                page.push(id);
            }
        } else if self.lowest.len() < most {
            self.lowest.push(id.to_owned());
        } else if let Some(mut last) = self.lowest.peek_mut()
            && last.as_str() > id
        {
            id.clone_into(&mut last);
        }
        self.total += 1;
    }

    fn page(self) -> Ids {
        self.ordered.unwrap_or_else(|| {
            let mut ids = Ids::default();
            self.lowest.into_sorted_vec().iter().skip(self.window.offset).for_each(|id| ids.push(id));
            ids
        })
    }
}
