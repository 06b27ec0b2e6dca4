//! A small SDK for tests, benches and examples: it says hello on a connection, dials and hosts. It
//! supports both ways of naming the connections of a host, and end-to-end encryption
//! (`encryption.rs`). It does not reconnect and does not renew sessions.

#![allow(
    dead_code,
    reason = "not every test, bench and example that includes it uses all of it"
)]

mod conn;
pub mod encryption;
mod hosting;

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, WriteHalf, split},
    sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot},
    time::timeout,
};
use wire::frame::{Builder, Frame, FrameLimits, HEAD, Head, content, key as common};
pub use wire::sdk::{key, kind};

pub use conn::{Conn, Event};
pub use hosting::Host;

/// In [`key::FLAGS`]: the sender has finished.
pub const FIN: u32 = 1;
/// The timeout of every wait.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 64 << 20,
};

/// How an SDK behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The sequence number of its hello: -1, 0 or 1.
    pub sequence: i32,
    /// The headers of its hello beside the token.
    pub hello: &'static [(i32, &'static [u8])],
    /// How it names its method of end-to-end encryption.
    pub crypto_method: Option<&'static [u8]>,
    /// Its first connection id.
    pub first: u32,
    /// Whether the router assigns the ids of accepted connections.
    pub router_names: bool,
    /// Maximum messages buffered per connection; beyond it nothing is read on the whole channel.
    pub window: usize,
}

impl Options {
    /// Like the Go SDKs.
    pub const GO: Self = Self {
        sequence: -1,
        hello: &[],
        crypto_method: Some(&[0]),
        first: 1,
        router_names: true,
        window: 1 << 20,
    };
    /// Like older C SDKs.
    pub const C: Self = Self {
        sequence: 0,
        hello: &[],
        crypto_method: None,
        first: 0,
        router_names: false,
        window: 1 << 20,
    };
    /// Like libziti 1.18: its hello offers a group of connections, of which this is the first one,
    /// and says that it can be inspected.
    pub const LIBZITI: Self = Self {
        sequence: 1,
        hello: &[
            (common::CHANNEL_TYPE, b"edge.default"),
            (common::IS_GROUPED, &[1]),
            (11, &[1]),
            (1023, &[1]),
        ],
        crypto_method: Some(b"libsodium"),
        first: 0,
        router_names: true,
        window: 1 << 20,
    };
}

/// Why a request was refused or a channel is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub text: String,
    pub code: Option<u32>,
    /// The structured error, as JSON.
    pub structured: Option<String>,
}

impl Refused {
    fn of(frame: &Frame) -> Self {
        Self {
            text: String::from_utf8_lossy(frame.body()).into_owned(),
            code: frame.u32(key::ERROR_CODE),
            structured: frame.text(key::STRUCTURED_ERROR).map(str::to_owned),
        }
    }

    fn lost() -> Self {
        Self {
            text: "the channel was closed".into(),
            code: None,
            structured: None,
        }
    }
}

/// One channel to a router. Cheap to clone.
#[derive(Clone)]
pub struct Sdk {
    inner: Arc<Inner>,
    options: Options,
    /// The answer to the hello.
    pub welcome: Arc<Frame>,
}

struct Inner {
    writer: AsyncMutex<WriteHalf<Box<dyn Stream>>>,
    sequence: AtomicI32,
    next: AtomicU32,
    state: Mutex<State>,
    others: AsyncMutex<mpsc::UnboundedReceiver<Frame>>,
    is_paused: AtomicBool,
    resumed: Notify,
    closed: tokio::sync::watch::Sender<bool>,
    /// Whether the stream ended within a message.
    was_cut: AtomicBool,
    reading: Mutex<Option<tokio::task::AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Otherwise the connection would stay open.
        self.reading
            .lock()
            .unwrap()
            .iter()
            .for_each(tokio::task::AbortHandle::abort);
    }
}

#[derive(Default)]
struct State {
    /// Requests that wait for an answer, by sequence number.
    replies: HashMap<i32, oneshot::Sender<Frame>>,
    /// Receivers of messages, by connection id.
    receivers: HashMap<u32, mpsc::Sender<Frame>>,
    is_closed: bool,
}

/// The transport of a channel.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Reads one message; none at the end of the stream.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut head = [0; HEAD];
    match stream.read_exact(&mut head).await {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => drop(other?),
    }
    let size = Head::decode(&head, LIMITS)
        .map_err(io::Error::other)?
        .size();
    let mut bytes = BytesMut::zeroed(size);
    bytes[..HEAD].copy_from_slice(&head);
    stream.read_exact(&mut bytes[HEAD..]).await?;
    Frame::decode(bytes, LIMITS)
        .map(Some)
        .map_err(io::Error::other)
}

impl Sdk {
    /// Says hello with the token of an API session.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn connect(
        stream: impl Stream + 'static,
        token: &str,
        options: Options,
    ) -> Result<Self, Refused> {
        let mut stream: Box<dyn Stream> = Box::new(stream);
        let hello = Builder::new(content::HELLO).text(key::SESSION_TOKEN, token);
        let mut hello = options
            .hello
            .iter()
            .fold(hello, |hello, (key, value)| hello.bytes(*key, value))
            .body(b"test-sdk");
        hello.set_sequence(options.sequence);
        stream
            .write_all(hello.as_bytes())
            .await
            .map_err(|_| Refused::lost())?;
        let answer = timeout(PATIENCE, read(&mut stream))
            .await
            .expect("no answer to a hello")
            .ok()
            .flatten();
        let welcome = answer.ok_or_else(Refused::lost)?;
        assert_eq!(
            (welcome.content_type(), welcome.i32(common::REPLY_FOR)),
            (content::RESULT, Some(options.sequence))
        );
        if !welcome.is_set(common::SUCCESS) {
            return Err(Refused::of(&welcome));
        }
        let (mut reader, writer) = split(stream);
        let (other_messages, others) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            writer: AsyncMutex::new(writer),
            sequence: AtomicI32::new(options.sequence.max(0) + 1),
            next: AtomicU32::new(options.first),
            state: Mutex::default(),
            others: AsyncMutex::new(others),
            is_paused: AtomicBool::new(false),
            resumed: Notify::new(),
            closed: tokio::sync::watch::Sender::new(false),
            was_cut: AtomicBool::new(false),
            reading: Mutex::default(),
        });
        let reading = Arc::downgrade(&inner);
        let task = tokio::spawn(async move {
            let last = loop {
                let frame = match read(&mut reader).await {
                    Ok(Some(frame)) => frame,
                    last => break last,
                };
                let Some(inner) = reading.upgrade() else {
                    return;
                };
                inner.dispatch(frame, &other_messages).await;
            };
            if let Some(inner) = reading.upgrade() {
                inner.was_cut.store(last.is_err(), Ordering::Release);
                let mut state = inner.state.lock().unwrap();
                (state.is_closed, state.replies, state.receivers) =
                    (true, HashMap::new(), HashMap::new());
                inner.closed.send_replace(true);
            }
        });
        *inner.reading.lock().unwrap() = Some(task.abort_handle());
        Ok(Self {
            inner,
            options,
            welcome: Arc::new(welcome),
        })
    }

    /// A new connection id.
    pub fn next_id(&self) -> u32 {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a message. Returns its sequence number.
    pub async fn send(&self, mut frame: Frame) -> io::Result<i32> {
        let mut writer = self.inner.writer.lock().await;
        let sequence = self.inner.sequence.fetch_add(1, Ordering::Relaxed);
        frame.set_sequence(sequence);
        writer.write_all(frame.as_bytes()).await?;
        writer.flush().await?;
        Ok(sequence)
    }

    /// Sends raw bytes.
    pub async fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.inner.writer.lock().await;
        writer.write_all(bytes).await?;
        writer.flush().await
    }

    /// Sends a message and waits for its answer; none if the channel is closed instead.
    pub async fn ask(&self, mut frame: Frame) -> Option<Frame> {
        let answer = {
            let mut writer = self.inner.writer.lock().await;
            let sequence = self.inner.sequence.fetch_add(1, Ordering::Relaxed);
            frame.set_sequence(sequence);
            let (reply, answer) = oneshot::channel();
            {
                let mut state = self.inner.state.lock().unwrap();
                if state.is_closed {
                    return None;
                }
                state.replies.insert(sequence, reply);
            }
            writer.write_all(frame.as_bytes()).await.ok()?;
            writer.flush().await.ok()?;
            answer
        };
        timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| panic!("no answer to {}", frame.content_type()))
            .ok()
    }

    /// The next message that belongs to no connection and answers no request.
    pub async fn other(&self) -> Option<Frame> {
        self.inner.others.lock().await.recv().await
    }

    /// Stops reading, like a suspended process.
    pub fn pause(&self) {
        self.inner.is_paused.store(true, Ordering::Release);
    }

    /// Resumes reading.
    pub fn resume(&self) {
        self.inner.is_paused.store(false, Ordering::Release);
        self.inner.resumed.notify_one();
    }

    /// Waits until the router has closed the channel.
    pub async fn closed(&self) {
        let mut closed = self.inner.closed.subscribe();
        timeout(PATIENCE, closed.wait_for(|closed| *closed))
            .await
            .expect("the channel stays open")
            .unwrap();
    }

    /// Whether the channel was closed within a message.
    pub fn was_cut(&self) -> bool {
        self.inner.was_cut.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        *self.inner.closed.borrow()
    }

    /// Closes the connection for writing.
    pub async fn leave(&self) {
        let _ = self.inner.writer.lock().await.shutdown().await;
    }

    /// Receives the messages of a connection from now on.
    fn take(&self, connection: u32, window: usize) -> mpsc::Receiver<Frame> {
        let (sender, messages) = mpsc::channel(window);
        let mut state = self.inner.state.lock().unwrap();
        if !state.is_closed {
            state.receivers.insert(connection, sender);
        }
        messages
    }

    fn forget(&self, connection: u32) {
        self.inner
            .state
            .lock()
            .unwrap()
            .receivers
            .remove(&connection);
    }
}

impl Inner {
    async fn dispatch(&self, frame: Frame, other_messages: &mpsc::UnboundedSender<Frame>) {
        while self.is_paused.load(Ordering::Acquire) {
            self.resumed.notified().await;
        }
        let (reply, sender) = {
            let mut state = self.state.lock().unwrap();
            let reply = frame
                .reply_for()
                .and_then(|sequence| state.replies.remove(&sequence));
            (
                reply,
                frame
                    .u32(key::CONNECTION)
                    .and_then(|connection| state.receivers.get(&connection).cloned()),
            )
        };
        match (reply, sender) {
            (Some(reply), _) => drop(reply.send(frame)),
            (None, Some(sender)) => drop(sender.send(frame).await),
            (None, None) => drop(other_messages.send(frame)),
        }
    }
}
