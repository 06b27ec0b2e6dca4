//! What a list finds: ids in little memory, a page of records, and which places of a list its window shows.

use crate::{
    entity::{Entity, Record},
    query::Window,
};

/// A part of a list.
#[derive(Clone)]
pub struct Page<E: Entity> {
    pub records: Vec<Record<E>>,
    /// The number of all records that match.
    pub total: u64,
}

/// Ids of records, in order, stored compactly.
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

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// Whether the match at a place is on the page.
pub(super) fn shown(window: Window, at: u64) -> bool {
    at >= window.offset as u64 && !ended(window, at)
}

/// Whether a place is behind the page.
pub(super) fn ended(window: Window, at: u64) -> bool {
    window.limit.is_some_and(|limit| at >= (window.offset as u64).saturating_add(limit as u64))
}

/// So many matches lead up to the end of the page.
pub(super) fn max_collected(window: Window) -> usize {
    window.limit.map_or(usize::MAX, |limit| limit.saturating_add(window.offset))
}
