//! Ids and their dense rows, and query results made of rows.

use roaring::RoaringBitmap;
use std::{collections::BTreeMap, sync::Arc};

/// Texts and their rows, in both directions. A freed row is reused for the next text, so that
/// bitmaps stay dense over years. Before a row is freed it must be removed from every bitmap, and
/// nothing outside the engine may keep a row after it releases the engine's lock.
#[derive(Default)]
pub(super) struct RowNames {
    // Ordered, because lists of thousands are needed in order of id and iterating is cheaper than
    // sorting.
    rows: BTreeMap<Arc<str>, u32>,
    texts: Vec<Option<Arc<str>>>,
    free: Vec<u32>,
}

impl RowNames {
    pub(crate) fn row(&self, text: &str) -> Option<u32> {
        self.rows.get(text).copied()
    }

    pub(crate) fn text(&self, row: u32) -> Option<&Arc<str>> {
        self.texts.get(row as usize)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = (u32, &Arc<str>)> {
        self.rows.iter().map(|(text, row)| (*row, text))
    }

    /// The row of a text; a new one if it has none.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(row) = self.row(text) {
            return row;
        }
        let name: Arc<str> = text.into();
        let row = self.free.pop().unwrap_or(self.texts.len() as u32);
        at(&mut self.texts, row, |text| *text = Some(name.clone()));
        self.rows.insert(name, row);
        row
    }

    pub(crate) fn release(&mut self, row: u32) {
        if let Some(text) = self.texts.get_mut(row as usize).and_then(Option::take) {
            self.rows.remove(&text);
            self.free.push(row);
        }
    }
}

/// Changes the value of a row in a column, which is extended if it is too short.
pub(super) fn at<T: Default>(column: &mut Vec<T>, row: u32, change: impl FnOnce(&mut T)) {
    let row = row as usize;
    if column.len() <= row {
        column.resize_with(row + 1, T::default);
    }
    if let Some(place) = column.get_mut(row) {
        change(place)
    }
}

/// Some rows of one kind with their ids, valid while the engine is borrowed.
pub struct NamedRows<'a> {
    names: &'a RowNames,
    rows: RoaringBitmap,
}

impl<'a> NamedRows<'a> {
    pub(super) fn new(names: &'a RowNames, rows: RoaringBitmap) -> Self {
        NamedRows { names, rows }
    }

    pub fn len(&self) -> usize {
        self.rows.len() as usize
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn contains(&self, id: &str) -> bool {
        self.names
            .row(id)
            .is_some_and(|row| self.rows.contains(row))
    }

    /// The ids in no particular order, which is the cheapest way to get all of them.
    pub fn ids(&self) -> impl Iterator<Item = &'a Arc<str>> {
        self.rows.iter().filter_map(|row| self.names.text(row))
    }

    /// Rows and ids in order of id: `skip` and `take` make a page, `len` is the total. If the rows
    /// are a large part of all, all ids are iterated and filtered; otherwise the rows are sorted.
    pub fn in_order(&self) -> Box<dyn Iterator<Item = (u32, &'a Arc<str>)> + '_> {
        if self.len() * 8 >= self.names.len() {
            return Box::new(
                self.names
                    .in_order()
                    .filter(|(row, _)| self.rows.contains(*row)),
            );
        }
        let mut few: Vec<_> = self
            .rows
            .iter()
            .filter_map(|row| Some((row, self.names.text(row)?)))
            .collect();
        few.sort_unstable_by_key(|(_, id)| *id);
        Box::new(few.into_iter())
    }
}
