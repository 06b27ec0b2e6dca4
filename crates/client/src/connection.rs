//! A connection between a dialer and a host, over a channel to a router.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc;
use wire::{
    frame::{Builder, Frame},
    sdk::{key, kind},
};

use crate::{
    channel::{Channel, ChannelError, Received, Registration, text_of},
    cipher::{ADDED, CipherError, Decryptor, Encryptor, KeyPair},
};

/// In [`key::FLAGS`]: the sender has finished.
const FIN: u32 = 1;
/// In [`key::FLAGS`]: the body holds several messages, each after its length in two bytes.
const PARTS: u32 = 16;
/// What a router answers for a session that it does not know (any more).
const INVALID_SESSION: &str = "invalid session";

/// What a Connect says.
#[derive(Debug, Clone)]
pub struct Dial<'a> {
    /// The token of the session for the service.
    pub session: &'a str,
    /// The name of the identity that dials.
    pub caller: &'a str,
    /// Whether the service requires encryption between both ends.
    pub is_encrypted: bool,
    /// The terminator that is meant, by its identity.
    pub terminator: Option<&'a str>,
    /// For the application at the other end.
    pub app_data: Option<&'a [u8]>,
    /// How long the answer may take.
    pub patience: Duration,
}

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    #[error("{text}")]
    Refused {
        text: String,
        /// The number of the reason.
        code: Option<u32>,
    },
    #[error(transparent)]
    Cipher(#[from] CipherError),
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

impl DialError {
    /// The refusal in an answer.
    pub(crate) fn refused_by(answer: &Frame) -> Self {
        Self::Refused {
            text: text_of(answer),
            code: answer.u32(key::ERROR_CODE),
        }
    }

    /// Whether another session for the service, or another channel, may help.
    pub(crate) fn may_be_outdated(&self) -> bool {
        const CODES: [u32; 5] = [2, 3, 4, 5, 12];
        match self {
            Self::Refused { text, code } => {
                code.is_some_and(|code| CODES.contains(&code))
                    || text.is_empty()
                    || text.to_ascii_lowercase().starts_with(INVALID_SESSION)
            }
            Self::Channel(error) => matches!(error, ChannelError::Ended(_)),
            Self::Cipher(_) => false,
        }
    }
}

/// Why nothing more is received on a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

/// A connection. It is closed when both of its halves are dropped.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
}

/// The half that sends.
pub struct Sender {
    end: Arc<End>,
    encryptor: Option<Encryptor>,
}

/// The half that receives.
pub struct Receiver {
    end: Arc<End>,
    messages: mpsc::UnboundedReceiver<Received>,
    decryptor: Option<Decryptor>,
    /// Messages that came as one, as far as they were not given out.
    parts: Parts,
    has_ended: bool,
}

/// Several messages, each after its length in two bytes.
#[derive(Default)]
struct Parts {
    text: Vec<u8>,
    begin: usize,
}

impl Parts {
    /// The next message; `None` after the last one.
    fn next(&mut self) -> Result<Option<Vec<u8>>, CipherError> {
        let left = self.text.get(self.begin..).unwrap_or_default();
        if left.is_empty() {
            *self = Self::default();
            return Ok(None);
        }
        let (length, rest) = left.split_first_chunk().ok_or(CipherError::Message)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let part = rest.get(..length).ok_or(CipherError::Message)?.to_vec();
        self.begin += size_of::<u16>() + length;
        Ok(Some(part))
    }
}

/// This end of a connection.
struct End {
    /// Frees the id at the end.
    registration: Registration,
    /// Whether the other end has closed it.
    is_closed: AtomicBool,
}

impl End {
    fn id(&self) -> u32 {
        self.registration.id
    }

    fn channel(&self) -> &Channel {
        self.registration.channel()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Acquire) {
            let closed = Builder::new(kind::STATE_CLOSED).u32(key::CONNECTION, self.id());
            self.channel().send_later(closed.empty());
        }
    }
}

impl Connection {
    /// Dials a service over a channel.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn dial(channel: &Channel, dial: &Dial<'_>) -> Result<Self, DialError> {
        // Data may follow the answer immediately. From here on a dial that is given up, and a
        // circuit that comes too late, are closed by the router.
        let connection = Self::of(channel.register()?);
        let keys = dial.is_encrypted.then(KeyPair::generate);
        let connect = Builder::new(kind::CONNECT)
            .u32(key::CONNECTION, connection.sender.end.id())
            .text(key::CALLER, dial.caller)
            .optional(key::PUBLIC_KEY, keys.as_ref().map(KeyPair::public))
            .optional(key::INSTANCE, dial.terminator)
            .optional(key::APP_DATA, dial.app_data)
            .body(dial.session.as_bytes());
        let answer = channel.ask(connect, dial.patience).await?;
        if answer.content_type() != kind::STATE_CONNECTED {
            connection
                .sender
                .end
                .is_closed
                .store(true, Ordering::Release);
            return Err(DialError::refused_by(&answer));
        }
        match keys {
            Some(keys) => {
                let streams = keys.dialing(answer.header(key::PUBLIC_KEY))?;
                connection.encrypted(streams).await
            }
            None => Ok(connection),
        }
    }

    /// The connection that the host accepted under this id.
    pub(crate) fn of(mut registration: Registration) -> Self {
        let (_, none) = mpsc::unbounded_channel();
        let messages = std::mem::replace(&mut registration.messages, none);
        let end = Arc::new(End {
            registration,
            is_closed: AtomicBool::new(false),
        });
        Self {
            sender: Sender {
                end: Arc::clone(&end),
                encryptor: None,
            },
            receiver: Receiver {
                end,
                messages,
                decryptor: None,
                parts: Parts::default(),
                has_ended: false,
            },
        }
    }

    /// Begins the streams of an encrypted connection.
    pub(crate) async fn encrypted(
        mut self,
        (encryptor, header, decryptor): (Encryptor, [u8; crate::cipher::HEADER], Decryptor),
    ) -> Result<Self, DialError> {
        self.sender.send(&header).await?;
        self.sender.encryptor = Some(encryptor);
        self.receiver.decryptor = Some(decryptor);
        Ok(self)
    }

    /// Both halves.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl Sender {
    /// Sends one message, which arrives as one. Waits while the router does not take more.
    ///
    /// # Errors
    /// The channel has ended. [`ChannelError::Refused`] for a message that is too long to be
    /// encrypted.
    pub async fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let data = Builder::new(kind::DATA).u32(key::CONNECTION, self.end.id());
        let frame = match &mut self.encryptor {
            None => data.body(message),
            Some(encryptor) => data
                .body_with(message.len() + ADDED, |place| {
                    encryptor.encrypt(message, place)
                })
                .map_err(|error| ChannelError::Refused(error.to_string()))?,
        };
        self.end.channel().send(frame).await
    }

    /// Says that nothing more will be sent. The other direction stays open.
    ///
    /// # Errors
    /// The channel has ended.
    pub async fn finish(&mut self) -> Result<(), ChannelError> {
        let fin = Builder::new(kind::DATA)
            .u32(key::CONNECTION, self.end.id())
            .u32(key::FLAGS, FIN);
        self.end.channel().send(fin.empty()).await
    }
}

impl Receiver {
    /// The next message; `None` after the last one. A call that is cancelled loses nothing.
    ///
    /// # Errors
    /// The channel has ended, or a message was not sent by the other end.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, ReceiveError> {
        loop {
            if let Some(part) = self.parts.next()? {
                return Ok(Some(part));
            }
            if self.has_ended {
                return Ok(None);
            }
            let Some(received) = self.messages.recv().await else {
                self.has_ended = true;
                let reason = self.end.channel().end().await;
                return Err(ChannelError::Ended(reason).into());
            };
            if let Some(message) = self.take(&received.frame)? {
                return Ok(Some(message));
            }
        }
    }

    /// Waits until the other end has closed the connection, or the channel has ended. What is
    /// received until then is dropped: it is for after [`receive`](Self::receive) has given the
    /// last message.
    pub async fn closed(&mut self) {
        while !self.is_closed() {
            let Some(received) = self.messages.recv().await else {
                return;
            };
            if received.frame.content_type() == kind::STATE_CLOSED {
                self.end.is_closed.store(true, Ordering::Release);
            }
        }
    }

    /// Whether the other end has closed the connection, so that it receives nothing more either.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed.load(Ordering::Acquire)
    }

    /// The message in a frame, if it is one, and alone.
    fn take(&mut self, frame: &Frame) -> Result<Option<Vec<u8>>, CipherError> {
        match frame.content_type() {
            kind::STATE_CLOSED => {
                self.end.is_closed.store(true, Ordering::Release);
                self.has_ended = true;
                Ok(None)
            }
            kind::DATA => {
                let flags = frame.u32(key::FLAGS).unwrap_or_default();
                self.has_ended = flags & FIN != 0;
                if frame.body().is_empty() && (self.has_ended || self.decryptor.is_some()) {
                    return Ok(None);
                }
                let text = match &mut self.decryptor {
                    None => Some(frame.body().to_vec()),
                    Some(decryptor) => decryptor.decrypt(frame.body())?,
                };
                match text {
                    Some(text) if flags & PARTS != 0 => {
                        self.parts = Parts { text, begin: 0 };
                        Ok(None)
                    }
                    other => Ok(other),
                }
            }
            // What this connection does not ask for, such as a trace of its route.
            _ => Ok(None),
        }
    }
}
