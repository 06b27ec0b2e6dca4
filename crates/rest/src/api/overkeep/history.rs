//! The history: what happened, and who did it.

use model::{
    entity::{HistoryRow, HistoryWords},
    error::{Error, Result},
};
use query::{MAX_LIMIT, Window};
use store::{Ids, Read};

use crate::{
    call::Call,
    envelope::Pagination,
    extractor::Query,
    list_body::{StreamedList, joined},
    listing::Listing,
};

/// GET /history: newest first, unless sorted by `sequence`; always limited. A row can be as large
/// as two records, so a page is written in parts.
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<HistoryRow>> {
    let (query, window) = listing.over(&HistoryWords)?;
    if !query
        .sort
        .iter()
        .all(|by| HistoryWords::is_sequence(&by.symbol))
    {
        return Err(Error::Sort(
            "the history can only be sorted by sequence".into(),
        ));
    }
    let descending = query.sort.first().is_none_or(|by| by.descending);
    let window = Window {
        limit: window.limit.or(MAX_LIMIT.try_into().ok()),
        ..window
    };
    let find = move |tx: &Read<'_>| {
        let (sequences, total) = tx.history_sequences(&query, descending, window)?;
        let mut ids = Ids::default();
        for sequence in &sequences {
            ids.push(&sequence.to_string());
        }
        Ok((ids, Pagination::of(window, total)))
    };
    joined(
        &call,
        HistoryWords::names().collect(),
        find,
        |tx, _, part| {
            while let Some(sequence) = part.next() {
                let row = sequence
                    .parse()
                    .map_or(Ok(None), |sequence| tx.history_row(sequence))?;
                row.map_or(Ok(()), |row| part.add_value(&row))?;
            }
            Ok(())
        },
    )
    .await
}
