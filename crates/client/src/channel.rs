//! A channel: one connection to an edge router, over which any number of connections and bindings
//! run.
//!
//! One task writes and one reads. What is sent waits in a short queue, in which everybody has a
//! turn; what is received waits in the inbox of its connection, which is bounded in bytes. When an
//! inbox is full, nothing more is read from the router.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf, split},
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::AbortHandle,
    time::{sleep, timeout},
};
use wire::{
    frame::{Builder, Frame, content, key as common},
    sdk::{key, success},
};

use crate::frames::FrameReader;

/// How long a router may take for the answer to a hello.
const HELLO: Duration = Duration::from_secs(15);
/// After so much silence the router is asked whether it is there, and must answer in [`ANSWER`].
const SILENCE: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(15);
/// Answers to questions of the router that wait for their turn.
const ANSWERS: usize = 16;
/// Messages that wait to be written.
const QUEUE: usize = 16;
/// The most bytes that wait for the reader of one connection, and for all of a channel. One message
/// may be longer than the first, and waits alone then.
const INBOX: usize = 1 << 20;
const INBOXES: usize = 64 << 20;
/// What a message takes beside its bytes.
const OVERHEAD: usize = 256;
/// Shorter messages are copied, so that they do not keep the buffer that they were read into.
const COPIED: usize = 8 << 10;
/// The most bytes of a text that a router or another end sends, as far as it is shown.
const TEXT: usize = 1 << 10;

/// Why a channel cannot be opened, or has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("{0}")]
    Connection(String),
    #[error("the router refused the channel: {0}")]
    Refused(String),
    #[error("the connection to the router has ended: {0}")]
    Ended(Arc<str>),
    #[error("the router did not answer within {} seconds", .0.as_secs())]
    Silent(Duration),
}

/// A channel to a router. Cheap to clone; it is closed when the last clone is dropped, together
/// with everything that runs over it.
#[derive(Clone)]
pub struct Channel(Arc<Shared>);

struct Shared {
    outgoing: mpsc::Sender<Outgoing>,
    table: Mutex<Table>,
    /// Why the channel has ended.
    ended: watch::Sender<Option<Arc<str>>>,
    next_id: AtomicU32,
    /// Free bytes of all inboxes.
    room: Arc<Semaphore>,
}

/// Who waits for messages. Nobody is added after the end.
#[derive(Default)]
struct Table {
    inboxes: HashMap<u32, Inbox>,
    replies: HashMap<i32, oneshot::Sender<Frame>>,
    has_ended: bool,
}

struct Outgoing {
    frame: Frame,
    reply: Option<oneshot::Sender<Frame>>,
}

#[derive(Clone)]
struct Inbox {
    frames: mpsc::UnboundedSender<Received>,
    room: Arc<Semaphore>,
}

/// A message in an inbox. Its room there is free again when it is dropped.
pub(crate) struct Received {
    pub(crate) frame: Frame,
    _rooms: [OwnedSemaphorePermit; 2],
}

/// An id on a channel and the messages for it. Dropping it frees the id.
pub(crate) struct Registration {
    channel: Channel,
    pub(crate) id: u32,
    pub(crate) messages: mpsc::UnboundedReceiver<Received>,
    room: Arc<Semaphore>,
}

impl Channel {
    /// Opens a channel over a connection that is encrypted already. `token` is that of the API
    /// session.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn open<S>(stream: S, token: &str) -> Result<Self, ChannelError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (reading, mut writing) = split(stream);
        let mut reader = FrameReader::new(reading);
        let mut hello = Builder::new(content::HELLO)
            .text(key::SESSION_TOKEN, token)
            .body(b"overkeep");
        hello.set_sequence(-1);
        let answer = async {
            writing.write_all(hello.as_bytes()).await?;
            writing.flush().await?;
            reader.next().await
        };
        let answer = timeout(HELLO, answer)
            .await
            .map_err(|_| ChannelError::Silent(HELLO))?
            .map_err(|error| ChannelError::Connection(error.to_string()))?
            .ok_or_else(|| ChannelError::Refused("it closed the connection".to_owned()))?;
        if answer.content_type() != content::RESULT || !answer.is_set(common::SUCCESS) {
            return Err(ChannelError::Refused(text_of(&answer)));
        }
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let (ended, end) = watch::channel(None);
        let shared = Arc::new(Shared {
            outgoing,
            table: Mutex::default(),
            ended,
            next_id: AtomicU32::new(1),
            room: Arc::new(Semaphore::new(INBOXES)),
        });
        let reading = tokio::spawn(read(reader, Arc::downgrade(&shared))).abort_handle();
        let weak = Arc::downgrade(&shared);
        tokio::spawn(write(writing, queue, weak, end, reading));
        Ok(Self(shared))
    }

    /// Whether the channel has ended.
    pub fn has_ended(&self) -> bool {
        self.0.ended.borrow().is_some()
    }

    /// Connections and bindings that use the channel.
    pub(crate) fn uses(&self) -> usize {
        self.0.table.lock().inboxes.len()
    }

    /// Waits for the end of the channel. Returns its reason.
    pub async fn end(&self) -> Arc<str> {
        let mut ended = self.0.ended.subscribe();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(reason)) => Arc::clone(reason),
            _ => Arc::from("closed"),
        }
    }

    fn ending(&self) -> ChannelError {
        let reason = self.0.ended.borrow().clone();
        ChannelError::Ended(reason.unwrap_or_else(|| Arc::from("closed")))
    }

    /// Takes an id for a connection or binding that begins here.
    pub(crate) fn register(&self) -> Result<Registration, ChannelError> {
        // Ids from 0x80000000 on are those of the router.
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff;
        self.register_as(id)
    }

    /// Takes an id that the router chose.
    pub(crate) fn register_as(&self, id: u32) -> Result<Registration, ChannelError> {
        let (frames, messages) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(INBOX));
        let inbox = Inbox {
            frames,
            room: Arc::clone(&room),
        };
        let mut table = self.0.table.lock();
        if table.has_ended {
            drop(table);
            return Err(self.ending());
        }
        if table.inboxes.contains_key(&id) {
            return Err(ChannelError::Refused(format!("the id {id} is in use")));
        }
        table.inboxes.insert(id, inbox);
        drop(table);
        Ok(Registration {
            channel: self.clone(),
            id,
            messages,
            room,
        })
    }

    /// Sends a message behind those that wait.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), ChannelError> {
        let outgoing = Outgoing { frame, reply: None };
        let sent = self.0.outgoing.send(outgoing).await;
        sent.map_err(|_| self.ending())
    }

    /// Sends a message without waiting for room, in a task of its own if there is none. Outside of
    /// a runtime, where no task can run, the message is lost with the channel.
    pub(crate) fn send_later(&self, frame: Frame) {
        let outgoing = Outgoing { frame, reply: None };
        let Err(TrySendError::Full(outgoing)) = self.0.outgoing.try_send(outgoing) else {
            return;
        };
        if let Ok(runtime) = Handle::try_current() {
            let queue = self.0.outgoing.clone();
            runtime.spawn(async move { queue.send(outgoing).await });
        }
    }

    /// Asks the router whether it is there.
    ///
    /// # Errors
    /// It does not answer, or the channel has ended.
    pub(crate) async fn probe(&self) -> Result<(), ChannelError> {
        let probe = Builder::new(content::LATENCY).empty();
        self.ask(probe, ANSWER).await.map(drop)
    }

    /// Sends a message and waits for its answer.
    pub(crate) async fn ask(
        &self,
        frame: Frame,
        patience: Duration,
    ) -> Result<Frame, ChannelError> {
        let (reply, answer) = oneshot::channel();
        let reply = Some(reply);
        let asked = async {
            let outgoing = Outgoing { frame, reply };
            self.0.outgoing.send(outgoing).await.ok()?;
            answer.await.ok()
        };
        match timeout(patience, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.ending()),
            Err(_) => Err(ChannelError::Silent(patience)),
        }
    }
}

impl Registration {
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The reader may wait for room.
        self.room.close();
        self.channel.0.table.lock().inboxes.remove(&self.id);
    }
}

impl Shared {
    fn finish(&self, reason: &str) {
        let mut table = self.table.lock();
        if table.has_ended {
            return;
        }
        table.has_ended = true;
        self.ended.send_replace(Some(Arc::from(reason)));
        // Who waits for a message learns that none will come.
        table.replies.clear();
        for (_, inbox) in table.inboxes.drain() {
            inbox.room.close();
        }
    }

    /// Gives a message to whom it is for.
    async fn dispatch(&self, frame: Frame) {
        let (reply, inbox) = {
            let mut table = self.table.lock();
            let reply = frame
                .reply_for()
                .and_then(|sequence| table.replies.remove(&sequence));
            let inbox = frame
                .u32(key::CONNECTION)
                .and_then(|id| table.inboxes.get(&id).cloned());
            (reply, inbox)
        };
        if let Some(reply) = reply {
            drop(reply.send(frame));
            return;
        }
        let Some(Inbox { frames, room }) = inbox else {
            return;
        };
        let frame = if frame.len() < COPIED {
            frame.clone()
        } else {
            frame
        };
        let bytes = frame.len().saturating_add(OVERHEAD);
        let of = |most: usize| u32::try_from(bytes.min(most)).unwrap_or(u32::MAX);
        // That of the connection first: one that is full must not take from the others.
        let Ok(own) = room.acquire_many_owned(of(INBOX)).await else {
            return;
        };
        let all = Arc::clone(&self.room);
        if let Ok(all) = all.acquire_many_owned(of(INBOXES)).await {
            let _rooms = [own, all];
            drop(frames.send(Received { frame, _rooms }));
        }
    }
}

async fn read<S: AsyncRead + Unpin>(mut reader: FrameReader<S>, shared: Weak<Shared>) {
    // A router that asks on and on, and does not read the answers, is not answered any more.
    let answers = Arc::new(Semaphore::new(ANSWERS));
    let reason = loop {
        let next = match timeout(SILENCE, reader.next()).await {
            Ok(next) => next,
            Err(_) => {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                Channel(shared).send_later(Builder::new(content::LATENCY).empty());
                match timeout(ANSWER, reader.next()).await {
                    Ok(next) => next,
                    Err(_) => break "the router is silent".to_owned(),
                }
            }
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match next {
            Ok(Some(frame)) if matches!(frame.content_type(), content::LATENCY | content::PING) => {
                if let Ok(one) = Arc::clone(&answers).try_acquire_owned() {
                    let (channel, answer) = (Channel(shared), success(&frame));
                    tokio::spawn(async move {
                        drop(channel.send(answer).await);
                        drop(one);
                    });
                }
            }
            Ok(Some(frame)) => shared.dispatch(frame).await,
            Ok(None) => break "the router closed it".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    if let Some(shared) = shared.upgrade() {
        shared.finish(&reason);
    }
}

async fn write<S: AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut queue: mpsc::Receiver<Outgoing>,
    shared: Weak<Shared>,
    mut ended: watch::Receiver<Option<Arc<str>>>,
    reading: AbortHandle,
) {
    let written = tokio::select! {
        written = write_all(&mut writer, &mut queue, &shared) => written,
        // A router that takes nothing more would hold up the last write.
        () = async {
            let is_over = ended.wait_for(Option::is_some).await.is_ok();
            if !is_over {
                // Nobody holds the channel any more: what waits is still written.
                sleep(ANSWER).await;
            }
        } => Ok(()),
    };
    if let Some(shared) = shared.upgrade() {
        let reason = written.err().map(|error| error.to_string());
        shared.finish(reason.as_deref().unwrap_or("closed"));
    }
    reading.abort();
}

/// Writes messages until nobody can send one any more.
async fn write_all<S: AsyncWrite>(
    writer: &mut WriteHalf<S>,
    queue: &mut mpsc::Receiver<Outgoing>,
    shared: &Weak<Shared>,
) -> io::Result<()> {
    let mut sequence = 0_i32;
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        while let Some(Outgoing { mut frame, reply }) = next {
            sequence = sequence.checked_add(1).unwrap_or(1);
            frame.set_sequence(sequence);
            if let (Some(reply), Some(shared)) = (reply, shared.upgrade()) {
                let mut table = shared.table.lock();
                table.replies.retain(|_, waiting| !waiting.is_closed());
                if !table.has_ended {
                    table.replies.insert(sequence, reply);
                }
            }
            writer.write_all(frame.as_bytes()).await?;
            next = queue.try_recv().ok();
        }
        writer.flush().await?;
    }
    writer.shutdown().await
}

/// The text in the body of a message, cut.
pub(crate) fn text_of(frame: &Frame) -> String {
    let body = frame.body();
    String::from_utf8_lossy(body.get(..TEXT).unwrap_or(body)).into_owned()
}
