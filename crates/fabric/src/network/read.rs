//! Reading frames from a connection.

use std::{io, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};
use wire::frame::{Frame, FrameLimits, HEAD, Head, Malformed};

/// Unfinished messages up to this size in bytes are not counted: they belong to what a connection
/// takes anyway.
pub(crate) const UNCOUNTED: usize = 4 << 10;

/// Maximum lengths of the sections of a hello, in bytes; its sender is not authenticated yet.
const HELLO: FrameLimits = FrameLimits {
    headers: 4192,
    body: 4192,
};

/// Why a connection is no longer read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error("the connection was closed")]
    Closed,
    #[error("reading failed: {0}")]
    Failed(io::Error),
    #[error("malformed message: {0}")]
    Malformed(#[from] Malformed),
    #[error("a connection id has 4 bytes")]
    ConnectionId,
    #[error("an incomplete message did not continue for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error("no complete hello arrived within {} s", .0.as_secs())]
    NoHello(Duration),
}

impl Stop {
    /// Whether the peer sent something that is not a message.
    pub(crate) fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::ConnectionId)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Closed
        } else {
            Self::Failed(error)
        }
    }
}

/// Reads the hello, the first message of a connection, which must be complete within `time`.
pub(crate) async fn hello(
    stream: &mut (impl AsyncRead + Unpin),
    time: Duration,
) -> Result<Frame, Stop> {
    timeout(time, whole(stream, HELLO, time))
        .await
        .unwrap_or(Err(Stop::NoHello(time)))
}

/// Reads the next message.
pub(crate) async fn whole(
    stream: &mut (impl AsyncRead + Unpin),
    limits: FrameLimits,
    stall: Duration,
) -> Result<Frame, Stop> {
    let begun = head(stream, limits).await?;
    let mut frame = headers(stream, begun, stall).await?;
    fill(stream, &mut frame, stall).await?;
    Ok(frame)
}

/// The head of a message, and its bytes.
pub(crate) struct Begun(pub Head, [u8; HEAD]);

/// Reads the head of the next message.
pub(crate) async fn head(
    stream: &mut (impl AsyncRead + Unpin),
    limits: FrameLimits,
) -> Result<Begun, Stop> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    Ok(Begun(Head::decode(&head, limits)?, head))
}

/// Reads the headers of a message, for which memory is taken now.
pub(crate) async fn headers(
    stream: &mut (impl AsyncRead + Unpin),
    begun: Begun,
    stall: Duration,
) -> Result<Frame, Stop> {
    let Begun(head, encoded) = begun;
    let first = HEAD + head.headers;
    let mut bytes = BytesMut::with_capacity(first);
    bytes.extend_from_slice(&encoded);
    read_to(stream, &mut bytes, first, stall).await?;
    Ok(Frame::begin(head, bytes)?)
}

/// Reads and discards bytes.
pub(crate) async fn skip(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: usize,
    stall: Duration,
) -> Result<(), Stop> {
    // On the heap, so that the task of an idle channel does not hold it.
    let (mut left, mut buffer) = (bytes, vec![0; bytes.min(4096)]);
    while left > 0 {
        let limit = left.min(buffer.len());
        match timeout(
            stall,
            stream.read(buffer.get_mut(..limit).unwrap_or_default()),
        )
        .await
        {
            Ok(Ok(0)) => return Err(Stop::Closed),
            Ok(read) => left -= read?,
            Err(_) => return Err(Stop::Stalled(stall)),
        }
    }
    Ok(())
}

/// Reads the rest of a message.
pub(crate) async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    frame: &mut Frame,
    stall: Duration,
) -> Result<(), Stop> {
    while frame.missing() > 0 {
        match timeout(stall, stream.read_buf(&mut frame.rest())).await {
            Ok(Ok(0)) => return Err(Stop::Closed),
            Ok(read) => drop(read?),
            Err(_) => return Err(Stop::Stalled(stall)),
        }
    }
    Ok(())
}

async fn read_to(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut BytesMut,
    length: usize,
    stall: Duration,
) -> Result<(), Stop> {
    use bytes::BufMut;
    while bytes.len() < length {
        let missing = length - bytes.len();
        match timeout(stall, stream.read_buf(&mut bytes.limit(missing))).await {
            Ok(Ok(0)) => return Err(Stop::Closed),
            Ok(read) => drop(read?),
            Err(_) => return Err(Stop::Stalled(stall)),
        }
    }
    Ok(())
}
