//! What happened, and who is behind it.

use crate::{
    entity::{HistoryRow, history::HistoryWords},
    error::{Error, Result},
    http::{answer::Page, call::Call, envelope::Pagination, extractor::Query, listing::Listing},
    query::{MAX_LIMIT, Window},
};

/// GET /history: the newest first, unless the sort says `sequence`; never without a limit.
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<HistoryRow>> {
    let (query, window) = listing.over(&HistoryWords)?;
    if !query.sort.iter().all(|by| HistoryWords::is_sequence(&by.symbol)) {
        return Err(Error::Sort("the history is sorted by sequence alone".into()));
    }
    let descending = query.sort.first().is_none_or(|by| by.descending);
    let window = Window { limit: window.limit.or(MAX_LIMIT.try_into().ok()), ..window };
    let (data, total) = call.store.scan(move |tx| tx.history(&query, descending, window)).await?;
    Ok(Page { data, pagination: Pagination::of(window, total), fields: Some(HistoryWords::names().collect()) })
}
