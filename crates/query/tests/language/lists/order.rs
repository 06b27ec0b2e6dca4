//! The order of records by the definition of a sort.

use std::cmp::Ordering;

use super::{FilterTarget, Sort, compare};

/// The order of two records by the definition of a sort. The id decides between equal records.
pub fn order(sort: &[Sort], a: &dyn FilterTarget, b: &dyn FilterTarget) -> Ordering {
    let by = |each: &Sort| {
        let ascending = compare(&a.value(&each.symbol), &b.value(&each.symbol));
        if each.descending {
            ascending.reverse()
        } else {
            ascending
        }
    };
    sort.iter()
        .map(by)
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}
