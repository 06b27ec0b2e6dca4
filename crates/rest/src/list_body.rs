//! List answers: the ids of the records are determined first, then their JSON is written as the
//! client reads it.
//!
//! A list of up to [`WHOLE`] bytes is sent as one body with its length. A longer list is sent in
//! parts of about 64 KiB (`list_part.rs`). Each part is written in its own transaction once the
//! client has accepted the previous part. Therefore a slow client holds no transaction, and only
//! the ids and one part are in memory. A list for which little is read from the file is written on
//! the thread of its connection ([`joined_here`]). Invariant: every found id is written once, in
//! order, unless its record was deleted meanwhile.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use model::{
    entity::{Entity, FilterNames, Id, Record, TypedLookup, filterable},
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Ids, ListPlan, Read, Scope};

use super::{
    answer::{Answer, Content, Data, Page, Pieces, Reply},
    cache::json_cache::Present,
    call::Call,
    envelope::{Meta, Pagination},
    list_part::{Part, WHOLE},
    listing::Listing,
    openapi::operation::{JSON, Operation, Schemas},
    state::AppState,
};

/// If the store is busy when the next part is due: the pause between attempts, and their number.
const PAUSE: Duration = Duration::from_millis(100);
const TRIES: usize = 100;

/// Writes records of a list until a part is full. Called for each part, with the commit numbers
/// from before the transaction.
type Write = Arc<dyn Fn(&Read<'_>, Present, &mut Part<'_>) -> Result<()> + Send + Sync>;

/// A list of entries of type `T`.
pub(crate) struct StreamedList<T> {
    text: Vec<u8>,
    rest: Option<Rest>,
    pagination: Pagination,
    fields: Vec<&'static str>,
    of: std::marker::PhantomData<fn() -> T>,
}

/// The part of a list that is not written yet.
struct Rest {
    ids: Arc<Ids>,
    at: usize,
    has_entries: bool,
    state: Arc<AppState>,
    write: Write,
    /// Whether parts are written on this thread at first.
    is_here: bool,
    /// The text after the last entry; `None` once it was sent.
    end: Option<Vec<u8>>,
}

impl Rest {
    /// The next part; `None` after the end or an error.
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
            let (ids, write, at) = (
                self.ids.clone(),
                self.write.clone(),
                self.state.caches.json.now(),
            );
            let (start, has_entries) = (self.at, self.has_entries);
            let written = move |tx: &Read<'_>| {
                let mut part = Part::later(&ids, start, has_entries);
                write(tx, at, &mut part)?;
                Ok((part.at, part.has_entries, part.text))
            };
            let store = &self.state.store;
            match if self.is_here {
                store.ask(written).await
            } else {
                store.scan(written).await
            } {
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

impl<T: Serialize + JsonSchema + 'static> Answer for StreamedList<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Page::<T>::describe(operation, schemas);
    }
    fn reply(mut self) -> Result<Reply> {
        let fields = Some(std::mem::take(&mut self.fields)).filter(|fields| !fields.is_empty());
        let meta = Meta::of_list(self.pagination, fields);
        self.within(br#"{"data":["#, b"]", &meta)
    }
}

impl<T> StreamedList<T> {
    /// The reply: `open`, the entries, `close` and `meta`.
    fn within(self, open: &[u8], close: &[u8], meta: &Meta) -> Result<Reply> {
        let mut end = [close, br#","meta":"#].concat();
        serde_json::to_writer(&mut end, meta)
            .map_err(|e| Error::Internal(format!("cannot write an answer as JSON: {e}")))?;
        end.push(b'}');
        let body = match self.rest {
            None => [open, &self.text, &end].concat().into(),
            Some(rest) => {
                let held = WHOLE + rest.ids.bytes();
                Content::Pieces(
                    pieces(
                        [open, &self.text].concat(),
                        Rest {
                            end: Some(end),
                            ..rest
                        },
                    ),
                    held,
                )
            }
        };
        Ok(Reply {
            status: 200,
            media: JSON,
            body,
            headers: Vec::new(),
        })
    }
}

/// Data whose last member is a list. `data` holds an empty list as that member; `entries` are sent
/// instead of that empty list.
pub(crate) struct ObjectWithList<D, T, const STATUS: u16 = 200> {
    pub data: D,
    pub entries: StreamedList<T>,
}

impl<D: Serialize + JsonSchema + 'static, T: 'static, const STATUS: u16> Answer
    for ObjectWithList<D, T, STATUS>
{
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Data::<D>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.status = STATUS;
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut open = br#"{"data":"#.to_vec();
        serde_json::to_writer(&mut open, &self.data)
            .map_err(|e| Error::Internal(format!("cannot write an answer as JSON: {e}")))?;
        let open = open
            .strip_suffix(b"]}")
            .ok_or_else(|| Error::Internal("the data does not end in an empty list".into()))?;
        Ok(Reply {
            status: STATUS,
            ..self.entries.within(open, b"]}", &Meta::default())?
        })
    }
}

fn pieces(first: Vec<u8>, rest: Rest) -> Pieces {
    let rest = stream::unfold(Some(rest), async |rest| match rest?.next().await {
        Ok(next) => next.map(|(text, rest)| (Ok(text), Some(rest))),
        Err(error) => {
            // The client sees that the answer is incomplete.
            tracing::warn!(%error, "a list could not be sent completely");
            Some((Err(error), None))
        }
    });
    let first: std::pin::Pin<Box<dyn Stream<Item = Result<Vec<u8>>>>> =
        Box::pin(stream::iter([Ok(first)]));
    Box::pin(futures_util::StreamExt::chain(first, rest))
}

/// Answers a list: `find` determines its records, `write` writes them. `fields` are the names in
/// `meta.filterableFields`; without names the answer has no such member.
///
/// # Errors
/// Those of `find`, `write` and [`store::Store::scan`].
pub(crate) async fn joined<T>(
    call: &Call,
    fields: Vec<&'static str>,
    find: impl FnOnce(&Read<'_>) -> Result<(Ids, Pagination)> + Send + 'static,
    write: impl Fn(&Read<'_>, Present, &mut Part<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<StreamedList<T>> {
    let (at, write) = (call.state.caches.json.now(), Arc::new(write) as Write);
    let first = write.clone();
    let beginning = call
        .state
        .store
        .scan(move |tx| Beginning::of(tx, find, at, &first))
        .await?;
    Ok(beginning.list(call, fields, write, false))
}

/// Like [`joined`], for lists that are short as a rule: `find` and `write` run on this thread, and
/// begin again on another one if they read more than a few rows.
///
/// # Errors
/// Those of [`joined`].
pub(crate) async fn joined_here<T>(
    call: &Call,
    fields: Vec<&'static str>,
    find: impl Fn(&Read<'_>) -> Result<(Ids, Pagination)> + Send + 'static,
    write: impl Fn(&Read<'_>, Present, &mut Part<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<StreamedList<T>> {
    let (at, write) = (call.state.caches.json.now(), Arc::new(write) as Write);
    let first = write.clone();
    let beginning = call
        .state
        .store
        .ask(move |tx| Beginning::of(tx, &find, at, &first))
        .await?;
    Ok(beginning.list(call, fields, write, true))
}

/// The ids of a list and its first part.
struct Beginning {
    ids: Ids,
    pagination: Pagination,
    at: usize,
    text: Vec<u8>,
    has_entries: bool,
}

impl Beginning {
    fn of(
        tx: &Read<'_>,
        find: impl FnOnce(&Read<'_>) -> Result<(Ids, Pagination)>,
        present: Present,
        write: &Write,
    ) -> Result<Self> {
        let (ids, pagination) = find(tx)?;
        let mut part = Part::first(&ids);
        write(tx, present, &mut part)?;
        let Part {
            at,
            text,
            has_entries,
            ..
        } = part;
        Ok(Self {
            ids,
            pagination,
            at,
            text,
            has_entries,
        })
    }

    fn list<T>(
        self,
        call: &Call,
        fields: Vec<&'static str>,
        write: Write,
        is_here: bool,
    ) -> StreamedList<T> {
        let Self {
            ids,
            pagination,
            at,
            text,
            has_entries,
        } = self;
        let is_whole = at >= ids.len();
        let rest = Rest {
            ids: Arc::new(ids),
            at,
            has_entries,
            state: call.state.clone(),
            write,
            is_here,
            end: None,
        };
        StreamedList {
            text,
            rest: Some(rest).filter(|_| !is_whole),
            pagination,
            fields,
            of: std::marker::PhantomData,
        }
    }
}

/// The listed records of a scope; `names` are the filterable names.
///
/// # Errors
/// The filter or the sort is invalid, or a record cannot be read.
pub(crate) fn find_page<E: Entity>(
    tx: &Read<'_>,
    listing: &Listing,
    names: &FilterNames<E>,
    scope: Scope,
) -> Result<(Ids, Pagination)> {
    let (query, window) = listing.query(names)?;
    let (ids, total) = ListPlan::<E>::of(query, window, scope).ids(tx)?;
    Ok((ids, Pagination::of(window, total)))
}

/// Answers the listed records among those wanted, each shown by `view`; `names` are the filterable
/// names of the view.
///
/// # Errors
/// Those of [`joined`].
pub(crate) async fn listed<E: Entity, V: Serialize>(
    call: &Call,
    listing: Listing,
    names: &'static FilterNames<E>,
    scope: impl FnOnce(&Read<'_>) -> Result<Scope> + Send + 'static,
    view: impl Fn(&Read<'_>, &Record<E>) -> Result<V> + Send + Sync + 'static,
) -> Result<StreamedList<V>> {
    listed_with(
        call,
        listing,
        names,
        filterable::<E>().collect(),
        scope,
        view,
    )
    .await
}

/// Like [`listed`], with the names that the answer lists as filterable.
///
/// # Errors
/// Those of [`joined`].
pub(crate) async fn listed_with<E: Entity, V: Serialize>(
    call: &Call,
    listing: Listing,
    names: &'static FilterNames<E>,
    fields: Vec<&'static str>,
    scope: impl FnOnce(&Read<'_>) -> Result<Scope> + Send + 'static,
    view: impl Fn(&Read<'_>, &Record<E>) -> Result<V> + Send + Sync + 'static,
) -> Result<StreamedList<V>> {
    let find = move |tx: &Read<'_>| find_page(tx, &listing, names, scope(tx)?);
    joined(call, fields, find, move |tx, _, part| {
        viewed(tx, part, |record| view(tx, record))
    })
    .await
}

/// Writes records into a part, each shown by `view`.
///
/// # Errors
/// Those of `view`; a record cannot be read.
pub(crate) fn viewed<E: Entity, V: Serialize>(
    tx: &Read<'_>,
    part: &mut Part<'_>,
    view: impl Fn(&Record<E>) -> Result<V>,
) -> Result<()> {
    while let Some(id) = part.next() {
        let Some(record) = tx.find(&Id::<E>::from_text(id))? else {
            continue;
        };
        part.add_value(&view(&record)?)?;
    }
    Ok(())
}
