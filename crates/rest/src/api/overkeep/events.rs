//! The history as a stream of server-sent events (WHATWG HTML, section 9.2), one per row.
//!
//! A reader is a task that reads the rows after the last sent row from the store and passes them to
//! the connection. The store keeps no rows for a reader, and no commit waits for a reader. If a
//! connection accepts nothing for the duration of a request timeout, the stream ends, and the
//! client may resume with `Last-Event-ID`. Invariant: a reader sends every row once and in order,
//! or says which rows are missing.

use std::{sync::Arc, time::Duration};

use actix_web::rt;
use futures_util::stream;
use model::{
    entity::HistoryRow,
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{sleep, timeout},
};

use crate::{
    answer::{Answer, Content, Reply},
    call::Call,
    extractor::Headers,
    header::Header,
    openapi::operation::{AnswerShape, Operation, Schemas},
    state::AppState,
};

const MEDIA: &str = "text/event-stream";
/// The bytes of rows read at a time.
const SOME: usize = 64 << 10;
/// Commits within this time of each other are sent together.
const BATCH_PAUSE: Duration = Duration::from_millis(50);
/// The interval of keep-alive comments. They also detect a lost client.
const KEPT_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_LINE: &str = ": still here\n\n";
/// Seconds in `retry-after` when the maximum number of readers is reached.
const RETRY_AFTER: u32 = 10;

/// Where a reader resumes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct From {
    /// The `id` of the last received event, which is the sequence of its row. Without it only new
    /// events are sent.
    #[serde(rename = "Last-Event-ID", default)]
    last: Option<String>,
}

/// A stream of events.
pub(crate) struct Events(mpsc::Receiver<String>);

impl Answer for Events {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = serde_json::json!({ "type": "string" });
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![(MEDIA, Some(text))],
            headers: &[Header::CacheControl],
        });
    }
    fn reply(self) -> Result<Reply> {
        let pieces = stream::unfold(self.0, async |mut pieces| {
            pieces
                .recv()
                .await
                .map(|piece| (Ok(piece.into_bytes()), pieces))
        });
        // Compression would delay events.
        let headers = vec![
            (Header::CacheControl.name(), "no-store".into()),
            ("content-encoding", "identity".into()),
        ];
        Ok(Reply {
            status: 200,
            media: MEDIA,
            body: Content::Pieces(Box::pin(pieces), 2 * SOME),
            headers,
        })
    }
}

/// GET /events
pub(crate) async fn watch(call: Call, Headers(From { last }): Headers<From>) -> Result<Events> {
    let place = call.state.readers.reserve().ok_or(Error::Busy {
        retry_after: RETRY_AFTER,
    })?;
    let end = call.state.store.read(|tx| tx.history_end())?;
    let last = match last
        .as_deref()
        .map(str::trim)
        .filter(|last| !last.is_empty())
    {
        // An id after the end belongs to a history that was lost when an older data file was
        // restored.
        Some(last) => last
            .parse::<u64>()
            .map_err(|_| Error::invalid("Last-Event-ID", "is not the id of an event", last))?
            .min(end),
        None => end,
    };
    let (out, pieces) = mpsc::channel(1);
    let reader = Reader {
        token: if call.local {
            None
        } else {
            Some(call.caller()?.session.spec.token.clone())
        },
        bearer: call.bearer.clone(),
        commits: call.state.readers.commits(),
        state: call.state.clone(),
        last,
        out,
        _place: place,
    };
    rt::spawn(reader.read());
    Ok(Events(pieces))
}

/// A task that follows the history for one client.
struct Reader {
    state: Arc<AppState>,
    /// `None` for the owner of the host, who has no session.
    token: Option<String>,
    bearer: Option<Arc<str>>,
    commits: watch::Receiver<bool>,
    /// The sequence of the last row that was sent.
    last: u64,
    out: mpsc::Sender<String>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// Sends rows until the client is gone or too slow, its session ends, or the controller stops.
    async fn read(mut self) {
        // Sent at once, so that the client sees that the stream works, and where it resumes even if
        // no event came before.
        let mut text = format!("{KEEP_ALIVE_LINE}id: {}\n\n", self.last);
        while self.send(text).await && !*self.commits.borrow_and_update() {
            match self.next().await {
                Ok(Some(next)) => text = next,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "an event stream ended with an error"),
            }
        }
    }

    async fn send(&self, text: String) -> bool {
        matches!(
            timeout(self.state.limits.load().time, self.out.send(text)).await,
            Ok(Ok(()))
        )
    }

    /// Waits for the next text to send. `None` if the reader must end.
    async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if !self.may_read().await? {
                return Ok(None);
            }
            let rows = self
                .state
                .store
                .read(|tx| tx.history_after(self.last, SOME))?;
            if !rows.is_empty() {
                return self.text_of(&rows).map(Some);
            }
            tokio::select! {
                () = self.out.closed() => return Ok(None),
                commit = timeout(KEPT_ALIVE, self.commits.changed()) => match commit {
                    Ok(Ok(())) if !*self.commits.borrow() => sleep(BATCH_PAUSE).await,
                    Ok(_) => return Ok(None),
                    Err(_) => return Ok(Some(KEEP_ALIVE_LINE.into())),
                },
            }
        }
    }

    /// Whether the session still exists and belongs to an administrator. Counts as activity of the
    /// session.
    async fn may_read(&self) -> Result<bool> {
        let Some(token) = &self.token else {
            return Ok(true);
        };
        let AppState {
            store,
            logins,
            clock,
            ..
        } = &*self.state;
        let bearer = self.bearer.as_deref();
        let caller = logins.caller(store, clock.now(), token, bearer).await?;
        Ok(caller.is_some_and(|caller| caller.queries.is_empty() && caller.is_admin()))
    }

    fn text_of(&mut self, rows: &[HistoryRow]) -> Result<String> {
        let mut text = String::new();
        for row in rows {
            if row.sequence != self.last + 1 {
                let gone = Disconnected {
                    from: self.last + 1,
                    to: row.sequence - 1,
                };
                text += &format!("event: gone\ndata: {}\n\n", json(&gone)?);
            }
            text += &format!("id: {}\ndata: {}\n\n", row.sequence, json(row)?);
            self.last = row.sequence;
        }
        Ok(text)
    }
}

/// Rows that were deleted or cannot be read, by sequence.
#[derive(Serialize)]
struct Disconnected {
    from: u64,
    to: u64,
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::Internal(format!("cannot write an event as JSON: {e}")))
}
