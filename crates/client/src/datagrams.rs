//! Carrying datagrams over a connection: each is one message.

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::{Connection, PumpError};

/// After so long without a datagram, a flow ends.
const IDLE: Duration = Duration::from_secs(60);
/// The most bytes of a datagram.
pub(crate) const DATAGRAM: usize = 65_535;

/// Where local datagrams come from.
pub(crate) trait Source: Send {
    /// The next one; `None` after the last one.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;
}

/// Where datagrams go locally. One that cannot be sent is lost, as in any network.
pub(crate) trait Sink: Sync {
    fn send(&self, datagram: &[u8]) -> impl Future<Output = ()> + Send;
}

/// Carries datagrams in both directions, until there are none for a while or one side has ended.
/// One direction never waits for the other.
///
/// # Errors
/// [`PumpError`].
pub(crate) async fn carry(
    connection: Connection,
    mut source: impl Source,
    sink: impl Sink,
) -> Result<(), PumpError> {
    let (mut sender, mut receiver) = connection.split();
    let last = Arc::new(Mutex::new(Instant::now()));
    let touch = || *last.lock() = Instant::now();
    let sending = async {
        while let Some(datagram) = source.next().await.map_err(PumpError::Read)? {
            sender.send(&datagram).await.map_err(PumpError::Send)?;
            touch();
        }
        Ok(())
    };
    let receiving = async {
        while let Some(message) = receiver.receive().await.map_err(PumpError::Receive)? {
            sink.send(&message).await;
            touch();
        }
        Ok(())
    };
    let idle = async {
        loop {
            let end = *last.lock() + IDLE;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
        () = idle => Ok(()),
    }
}
