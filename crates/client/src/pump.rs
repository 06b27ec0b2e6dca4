//! Moving bytes between a connection of the network and a local stream.

use std::pin::pin;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{ChannelError, Connection, ReceiveError, Receiver, Sender};

/// Bytes of one message, before it is encrypted: with what encryption adds, 16 KiB.
const MESSAGE: usize = (16 << 10) - 17;

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub enum PumpError {
    #[error("reading here: {0}")]
    Read(std::io::Error),
    #[error("writing here: {0}")]
    Write(std::io::Error),
    #[error(transparent)]
    Send(ChannelError),
    #[error(transparent)]
    Receive(ReceiveError),
}

/// Moves bytes in both directions until both have ended, or the other end has closed the
/// connection. The end of one direction does not end the other.
///
/// # Errors
/// [`PumpError`]. The connection is closed then.
pub async fn pump<R, W>(connection: Connection, input: R, output: W) -> Result<(), PumpError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (sender, receiver) = connection.split();
    let mut sending = pin!(send(sender, input));
    let mut receiving = pin!(receive(receiver, output));
    tokio::select! {
        sent = &mut sending => {
            sent?;
            receiving.await.map(drop)
        }
        received = &mut receiving => {
            let mut receiver = received?;
            tokio::select! {
                sent = &mut sending => sent,
                // Nobody receives any more what is sent.
                () = receiver.closed() => Ok(()),
            }
        }
    }
}

async fn send<R: AsyncRead + Unpin>(mut sender: Sender, mut input: R) -> Result<(), PumpError> {
    let mut buffer = vec![0; MESSAGE];
    loop {
        match input.read(&mut buffer).await.map_err(PumpError::Read)? {
            0 => return sender.finish().await.map_err(PumpError::Send),
            length => {
                let message = buffer.get(..length).unwrap_or_default();
                sender.send(message).await.map_err(PumpError::Send)?;
            }
        }
    }
}

/// Returns the receiver after the last message.
async fn receive<W: AsyncWrite + Unpin>(
    mut receiver: Receiver,
    mut output: W,
) -> Result<Receiver, PumpError> {
    while let Some(message) = receiver.receive().await.map_err(PumpError::Receive)? {
        output.write_all(&message).await.map_err(PumpError::Write)?;
        output.flush().await.map_err(PumpError::Write)?;
    }
    output.shutdown().await.map_err(PumpError::Write)?;
    Ok(receiver)
}
