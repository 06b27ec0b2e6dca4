//! Lists made from the index of one field, which gives the matching records and their order. Only
//! the records of the page are read.

use std::{collections::BinaryHeap, ops::Bound};

use query::{FilterTarget, Predicate, Sort, Symbol, Value, Window};

use super::ids::{Ids, is_past, is_shown, max_collected};
use crate::{
    index,
    tx::{
        read::{Read, flow, text},
        tables::Table,
    },
};
use model::{
    entity::{Entity, Index, field_of, is_id},
    error::{Error, Result},
};

/// A scan over the index of a field that every record has, and the order of the list.
pub(crate) struct IndexScan {
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
    /// The scan for a list of all records, if filter and order use only one field that every record
    /// has, and the id.
    pub(crate) fn of<E: Entity>(predicate: &Predicate, sort: &[Sort]) -> Option<Self> {
        // Values of such a field are unique, so that further sort keys have no effect.
        let first = sort.first();
        let asked = first.map(|by| &by.symbol).into_iter().chain(
            predicate
                .symbols()
                .into_iter()
                .filter(|symbol| !is_id(symbol)),
        );
        let mut fields = asked.map(|symbol| {
            field_of::<E>(symbol)
                .filter(|field| field.index == Index::Every)
                .map(|field| field.name)
        });
        let field = fields.next()??;
        let order = match first.map(|by| by.descending) {
            None => Order::ById,
            Some(false) => Order::Ascending,
            Some(true) => Order::Descending,
        };
        fields
            .all(|other| other == Some(field))
            .then_some(Self { field, order })
    }
}

impl Read<'_> {
    /// The ids in `window` of all records that match, by an index scan, and the number of all that
    /// match; `everything` says that all records match. `None` if the order of a value is unknown:
    /// the index orders long values only by their first bytes.
    ///
    /// # Errors
    /// A row is damaged, or the file cannot be read.
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
            let seen = Pair {
                value: text(&value)?,
                id: text(key.get(prefix..).unwrap_or_default())?,
            };
            if everything || predicate.matches(&seen) {
                found.add(seen.id);
            }
            Ok(flow(known && !(everything && is_past(window, found.total))))
        };
        let keys = (
            Bound::Included(start.as_slice()),
            Bound::Excluded(end.as_slice()),
        );
        match scan.order {
            Order::Descending => self.scan_back(Table::Index, keys, visit)?,
            Order::ById | Order::Ascending => self.scan(Table::Index, keys, visit)?,
        }
        if !known {
            return Ok(None);
        }
        let total = if everything {
            self.count::<E>()?
        } else {
            found.total
        };
        Ok(Some((found.page(), total)))
    }
}

/// What the index knows about a record: the value of one field and the id.
struct Pair<'p> {
    value: &'p str,
    id: &'p str,
}

impl FilterTarget for Pair<'_> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        if is_id(symbol) {
            self.id.into()
        } else {
            self.value.into()
        }
    }
    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn FilterTarget)) {}
}

/// The ids collected for a page.
struct Found {
    window: Window,
    total: u64,
    /// The ids of the page in scan order, if the scan has the order of the list.
    ordered: Option<Ids>,
    /// Otherwise the lowest ids, up to the end of the page.
    lowest: BinaryHeap<String>,
}

impl Found {
    fn new(window: Window, ordered: bool) -> Self {
        Self {
            window,
            total: 0,
            ordered: ordered.then(Ids::default),
            lowest: BinaryHeap::new(),
        }
    }

    fn add(&mut self, id: &str) {
        let max_collected = max_collected(self.window);
        if let Some(page) = &mut self.ordered {
            if is_shown(self.window, self.total) {
                page.push(id);
            }
        } else if self.lowest.len() < max_collected {
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
            for id in self
                .lowest
                .into_sorted_vec()
                .iter()
                .skip(self.window.offset)
            {
                ids.push(id);
            }
            ids
        })
    }
}
