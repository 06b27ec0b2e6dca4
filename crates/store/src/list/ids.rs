//! The results of a list: a page of records, ids stored compactly, and which matches are on the
//! page.

use query::Window;

use model::entity::{Entity, Record};

/// A part of a list.
#[derive(Clone)]
pub struct IdPage<E: Entity> {
    pub records: Vec<Record<E>>,
    /// The number of all records that match.
    pub total: u64,
}

/// Ids of records, in order, stored compactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    text: String,
    /// The end of each id in `text`.
    ends: Vec<usize>,
}

impl Ids {
    /// Adds an id.
    pub fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(self.text.len());
    }

    /// The number of ids.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id at an index.
    pub fn get(&self, at: usize) -> Option<&str> {
        let start = at
            .checked_sub(1)
            .map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(at)?)
    }

    /// All ids in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The memory that the ids occupy, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// Whether the match at an index is on the page.
pub(super) fn is_shown(window: Window, at: u64) -> bool {
    at >= window.offset as u64 && !is_past(window, at)
}

/// Whether an index is after the end of the page.
pub(super) fn is_past(window: Window, at: u64) -> bool {
    window
        .limit
        .is_some_and(|limit| at >= (window.offset as u64).saturating_add(limit as u64))
}

/// The number of matches up to the end of the page.
pub(super) fn max_collected(window: Window) -> usize {
    window
        .limit
        .map_or(usize::MAX, |limit| limit.saturating_add(window.offset))
}
