//! Lists as they are answered: which records belong to an answer is settled first, and their texts are written as the client takes them.
//!
//! What fits into [`WHOLE`] bytes is one text, with its length. More goes out in parts of about [`PART`] bytes: each is written in a
//! transaction of its own when the one before it was taken, so that a client that reads slowly keeps neither a transaction nor more than a
//! part and the ids in memory. Invariant: every id that was found is written once, in order, unless its record has gone meanwhile.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer::{Answer, Content, Page, Pieces, Reply},
    cache::json_cache::Present,
    call::Call,
    envelope::{Meta, Pagination},
    list_part::{Part, WHOLE},
    listing::Listing,
    openapi::operation::{JSON, Operation, Schemas},
    state::AppState,
};
use crate::{
    entity::{Entity, FactsExt, Id, Record, Words, filterable},
    error::{Error, Result},
    store::{Ids, Read, Scope},
};

/// When the store has no time for the next part, how long and how often it is asked again.
const PAUSE: Duration = Duration::from_millis(100);
const TRIES: usize = 100;

/// Writes records of a list until a part is full. Called again for each part, with a moment before the transaction.
type Write = Arc<dyn Fn(&Read<'_>, Present, &mut Part<'_>) -> Result<()> + Send + Sync>;

/// A list whose entries are each a `T`.
pub struct Joined<T> {
    text: Vec<u8>,
    rest: Option<Rest>,
    pagination: Pagination,
    fields: Vec<&'static str>,
    of: std::marker::PhantomData<fn() -> T>,
}

/// What is not written yet of a list.
struct Rest {
    ids: Arc<Ids>,
    at: usize,
    has_entries: bool,
    state: Arc<AppState>,
    write: Write,
    /// What comes behind the last entry, until it has been sent.
    end: Option<Vec<u8>>,
}

impl Rest {
    /// The next part; nothing is behind the end, or behind an error.
    async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>> {
        while self.at < self.ids.len() {
            let text = self.part().await?;
            if !text.is_empty() {
                return Ok(Some((text, self)));
            }
        }
        Ok(self.end.take().map(|end| (end, self)))
    }

    async fn part(&mut self) -> Result<Vec<u8>> {
        for _ in 0..TRIES {
            let (ids, write, at) = (self.ids.clone(), self.write.clone(), self.state.texts.now());
            let (start, has_entries) = (self.at, self.has_entries);
            let written = move |tx: &Read<'_>| {
                let mut part = Part::later(&ids, start, has_entries);
                write(tx, at, &mut part)?;
                Ok((part.at, part.has_entries, part.text))
            };
            match self.state.store.scan(written).await {
                Err(Error::Busy { .. }) => tokio::time::sleep(PAUSE).await,
                other => {
                    let (at, has_entries, text) = other?;
                    (self.at, self.has_entries) = (at, has_entries);
                    return Ok(text);
                }
            }
        }
        Err(Error::Busy { retry_after: 1 })
    }
}

impl<T: Serialize + JsonSchema + 'static> Answer for Joined<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Page::<T>::describe(operation, schemas);
    }
    fn reply(self) -> Result<Reply> {
        let meta = Meta::of_list(self.pagination, Some(self.fields));
        let mut end = br#"],"meta":"#.to_vec();
        serde_json::to_writer(&mut end, &meta).map_err(|e| Error::Internal(format!("an answer as JSON: {e}")))?;
        end.push(b'}');
        let body = match self.rest {
            None => [self.text, end].concat().into(),
            Some(rest) => {
                let held = WHOLE + rest.ids.bytes();
                Content::Pieces(pieces(self.text, Rest { end: Some(end), ..rest }), held)
            }
        };
        Ok(Reply { status: 200, media: JSON, body, headers: Vec::new() })
    }
}

fn pieces(first: Vec<u8>, rest: Rest) -> Pieces {
    let rest = stream::unfold(Some(rest), async |rest| match rest?.next().await {
        Ok(next) => next.map(|(text, rest)| (Ok(text), Some(rest))),
        Err(error) => {
            // The client sees that the answer breaks off.
            tracing::warn!(%error, "a list broke off");
            Some((Err(error), None))
        }
    });
    let first: std::pin::Pin<Box<dyn Stream<Item = Result<Vec<u8>>>>> = Box::pin(stream::iter([Ok(first)]));
    Box::pin(futures_util::StreamExt::chain(first, rest))
}

/// Answers a list: `find` says which records, `write` writes them. What is brief is found and begun on this thread.
///
/// # Errors
/// Those of `find` and `write`, and of [`crate::store::Store::scan`].
pub async fn joined<T>(
    call: &Call,
    brief: bool,
    fields: Vec<&'static str>,
    find: impl FnOnce(&Read<'_>) -> Result<(Ids, Pagination)> + Send + 'static,
    write: impl Fn(&Read<'_>, Present, &mut Part<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<Joined<T>> {
    let (at, write) = (call.texts.now(), Arc::new(write) as Write);
    let first = write.clone();
    let begin = move |tx: &Read<'_>| {
        let (ids, pagination) = find(tx)?;
        let mut part = Part::first(&ids);
        first(tx, at, &mut part)?;
        let Part { at, text, has_entries, .. } = part;
        Ok((ids, pagination, at, text, has_entries))
    };
    let (ids, pagination, at, text, has_entries) = call.store.ask(brief, begin).await?;
    let is_whole = at >= ids.len();
    let rest = Rest { ids: Arc::new(ids), at, has_entries, state: call.state.clone(), write, end: None };
    let rest = Some(rest).filter(|_| !is_whole);
    Ok(Joined { text, rest, pagination, fields, of: std::marker::PhantomData })
}

/// Which records a list is of, before its filter.
pub enum Wanted {
    All,
    /// In this order where there is no other.
    Ids(Vec<String>),
    Having {
        field: &'static str,
        value: String,
    },
}

impl Wanted {
    /// The same for the store.
    pub fn scope(&self) -> Scope<'_> {
        match self {
            Self::All => Scope::All,
            Self::Ids(ids) => Scope::Ids(Box::new(ids.iter().map(String::as_str))),
            Self::Having { field, value } => Scope::Having { field, value },
        }
    }
}

/// The records that a listing asks for among those wanted, by the names that the view knows.
///
/// # Errors
/// Filter or sort cannot be read, or a record.
pub fn found<E: Entity>(tx: &Read<'_>, listing: &Listing, words: &Words<E>, wanted: &Wanted) -> Result<(Ids, Pagination)> {
    let (query, window) = listing.query(words)?;
    let (ids, total) = tx.select_ids::<E>(&query, window, wanted.scope())?;
    Ok((ids, Pagination::of(window, total)))
}

/// Answers the records that a listing asks for among those wanted, each as `view` shows it: `words` are those of that view.
///
/// # Errors
/// As in [`joined`].
pub async fn listed<E: Entity, V: Serialize>(
    call: &Call,
    listing: Listing,
    words: &'static Words<E>,
    wanted: impl FnOnce(&Read<'_>) -> Result<Wanted> + Send + 'static,
    view: impl Fn(&Read<'_>, &Record<E>) -> Result<V> + Send + Sync + 'static,
) -> Result<Joined<V>> {
    listed_with(call, listing, words, filterable::<E>().collect(), wanted, view).await
}

/// The same with the names that the answer says are filterable.
///
/// # Errors
/// As in [`joined`].
pub async fn listed_with<E: Entity, V: Serialize>(
    call: &Call,
    listing: Listing,
    words: &'static Words<E>,
    fields: Vec<&'static str>,
    wanted: impl FnOnce(&Read<'_>) -> Result<Wanted> + Send + 'static,
    view: impl Fn(&Read<'_>, &Record<E>) -> Result<V> + Send + Sync + 'static,
) -> Result<Joined<V>> {
    let find = move |tx: &Read<'_>| found(tx, &listing, words, &wanted(tx)?);
    joined(call, false, fields, find, move |tx, _, part| viewed(tx, part, |record| view(tx, record))).await
}

/// Writes records into a part, each as `view` shows it.
///
/// # Errors
/// Those of the view; a record cannot be read.
pub fn viewed<E: Entity, V: Serialize>(tx: &Read<'_>, part: &mut Part<'_>, view: impl Fn(&Record<E>) -> Result<V>) -> Result<()> {
    while let Some(id) = part.next() {
        let Some(record) = tx.find(&Id::<E>::from_text(id))? else { continue };
        part.add_value(&view(&record)?)?;
    }
    Ok(())
}
