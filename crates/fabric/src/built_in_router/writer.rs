//! The writer of a connection: puts many messages into one write.

use std::io::{self, IoSlice};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use wire::frame::Frame;

use super::send_queue::SendQueue;

/// The maximum number of messages per write.
const MAX_MESSAGES: usize = 64;

/// Writes the messages of a send queue until no more will come; `number` gives them their sequence
/// numbers.
///
/// # Errors
/// The connection cannot be written.
pub(crate) async fn run(
    outbox: &SendQueue,
    mut number: impl FnMut(&mut Frame),
    mut stream: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut batch = Vec::new();
    while let Some(bytes) = outbox.take(&mut batch, &mut number).await {
        for together in batch.chunks(MAX_MESSAGES) {
            write(&mut stream, together).await?;
        }
        stream.flush().await?;
        outbox.written(bytes);
        batch.clear();
        // An idle channel does not keep the memory that a burst needed.
        batch.shrink_to(MAX_MESSAGES);
    }
    stream.shutdown().await
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), frames: &[Frame]) -> io::Result<()> {
    let mut slices = [IoSlice::new(&[]); MAX_MESSAGES];
    let count = frames.len();
    for (slice, frame) in slices.iter_mut().zip(frames) {
        *slice = IoSlice::new(frame.as_bytes());
    }
    let mut left = slices.get_mut(..count).unwrap_or_default();
    while !left.is_empty() {
        let written = stream.write_vectored(left).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut left, written);
    }
    Ok(())
}
