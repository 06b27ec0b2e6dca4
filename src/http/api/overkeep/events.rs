//! The history as it grows: server-sent events (WHATWG HTML, section 9.2), one for each row.
//!
//! A reader is a task that reads rows behind the last one it sent from the store and hands them to the connection. Nothing is kept for it and
//! nobody waits for it: if the connection takes nothing for as long as a request may take, it is dropped, and may come back with the
//! `Last-Event-ID` it got to. Invariant: a reader sees every row once and in order, or is told which ones are gone.

use std::{sync::Arc, time::Duration};

use actix_web::rt;
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{sleep, timeout},
};

use crate::{
    entity::HistoryRow,
    error::{Error, Result},
    http::{
        answer::{Answer, Content, Reply},
        call::Call,
        extractor::Headers,
        header::Header,
        openapi::operation::{AnswerShape, Operation, Schemas},
        state::AppState,
    },
};

const MEDIA: &str = "text/event-stream";
/// Bytes of rows read at a time.
const SOME: usize = 64 << 10;
/// What happens within this time of each other is sent together.
const GATHERED: Duration = Duration::from_millis(50);
/// So often something is said when nothing happens, so that it shows whether anybody listens.
const KEPT_ALIVE: Duration = Duration::from_secs(15);
const STILL_HERE: &str = ": still here\n\n";
/// In how many seconds a reader for whom there is no place may ask again.
const RETRY_AFTER: u32 = 10;

/// Where a reader goes on.
#[derive(Deserialize, JsonSchema)]
pub struct From {
    /// The `id` of the last event that was read, which is the sequence of its row; without it, the events of from now on.
    #[serde(rename = "Last-Event-ID", default)]
    last: Option<String>,
}

/// Events to come.
pub struct Events(mpsc::Receiver<String>);

impl Answer for Events {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = serde_json::json!({ "type": "string" });
        operation.answer = Some(AnswerShape { status: 200, content: vec![(MEDIA, Some(text))], headers: &[Header::CacheControl] });
    }
    fn reply(self) -> Result<Reply> {
        let pieces = stream::unfold(self.0, async |mut pieces| pieces.recv().await.map(|piece| (Ok(piece.into_bytes()), pieces)));
        // Packed, an event would wait until the packer has enough of them.
        let headers = vec![(Header::CacheControl.name(), "no-store".into()), ("content-encoding", "identity".into())];
        Ok(Reply { status: 200, media: MEDIA, body: Content::Pieces(Box::pin(pieces), 2 * SOME), headers })
    }
}

/// GET /events
pub async fn watch(call: Call, Headers(From { last }): Headers<From>) -> Result<Events> {
    let place = call.watchers.place().ok_or(Error::Busy { retry_after: RETRY_AFTER })?;
    let end = call.store.read(|tx| tx.history_end())?;
    let last = match last.as_deref().map(str::trim).filter(|last| !last.is_empty()) {
        // An event to come is one of a history that was taken back, by a restored file.
        Some(last) => last.parse::<u64>().map_err(|_| Error::invalid("Last-Event-ID", "is no id of an event", last))?.min(end),
        None => end,
    };
    let (out, pieces) = mpsc::channel(1);
    let reader = Reader {
        token: if call.local { None } else { Some(call.caller()?.session.spec.token.clone()) },
        bearer: call.bearer.clone(),
        rings: call.watchers.commits(),
        state: call.state.clone(),
        last,
        out,
        _place: place,
    };
    rt::spawn(reader.read());
    Ok(Events(pieces))
}

/// Somebody who watches.
struct Reader {
    state: Arc<AppState>,
    /// None for the owner of the host, who has no session that could end.
    token: Option<String>,
    bearer: Option<Arc<str>>,
    rings: watch::Receiver<bool>,
    /// The sequence of the last row that was sent.
    last: u64,
    out: mpsc::Sender<String>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// Sends what there is, until the reader is gone or too slow, has no session any more, or everything ends.
    async fn read(mut self) {
        // Said at once, so that whoever asked sees that it works.
        let mut text = STILL_HERE.to_owned();
        while self.send(text).await && !*self.rings.borrow_and_update() {
            match self.next().await {
                Ok(Some(next)) => text = next,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "events broke off"),
            }
        }
    }

    async fn send(&self, text: String) -> bool {
        matches!(timeout(self.state.limits.load().time, self.out.send(text)).await, Ok(Ok(())))
    }

    /// What is to be sent next, as soon as there is something. Nothing if the reader may not see any more.
    async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if !self.may_read().await? {
                return Ok(None);
            }
            let rows = self.state.store.read(|tx| tx.history_after(self.last, SOME))?;
            if !rows.is_empty() {
                return self.told(&rows).map(Some);
            }
            tokio::select! {
                () = self.out.closed() => return Ok(None),
                rung = timeout(KEPT_ALIVE, self.rings.changed()) => match rung {
                    Ok(Ok(())) if !*self.rings.borrow() => sleep(GATHERED).await,
                    Ok(_) => return Ok(None),
                    Err(_) => return Ok(Some(STILL_HERE.into())),
                },
            }
        }
    }

    /// Whether the session is still there and an administrator's. Counts as its activity.
    async fn may_read(&self) -> Result<bool> {
        let Some(token) = &self.token else { return Ok(true) };
        let caller = self.state.caller(token, self.bearer.as_deref()).await?;
        Ok(caller.is_some_and(|caller| caller.queries.is_empty() && caller.is_admin()))
    }

    fn told(&mut self, rows: &[HistoryRow]) -> Result<String> {
        let mut text = String::new();
        for row in rows {
            if row.sequence != self.last + 1 {
                let gone = Disconnected { from: self.last + 1, to: row.sequence - 1 };
                text += &format!("event: gone\ndata: {}\n\n", json(&gone)?);
            }
            text += &format!("id: {}\ndata: {}\n\n", row.sequence, json(row)?);
            self.last = row.sequence;
        }
        Ok(text)
    }
}

/// Rows that are not kept any more or cannot be read, by their sequences.
#[derive(Serialize)]
struct Disconnected {
    from: u64,
    to: u64,
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Internal(format!("an event as JSON: {e}")))
}
