//! The state shared by the parts of an HTTP/2 connection: the client, and the time of the last
//! progress.

use std::{
    cell::{Cell, RefCell},
    io,
    time::Duration,
};

use tokio::time::Instant;

use super::memory_ledger::Account;
use crate::call::Peer;

/// The peer and its memory account.
pub(crate) struct ConnectionClient {
    pub peer: Peer,
    pub account: Account,
}

/// The state shared by the answers of a connection.
pub(crate) struct ConnectionShared {
    pub client: ConnectionClient,
    /// How long an answer may be left unread.
    pub patience: Duration,
    /// The number of requests in progress.
    pub working: Cell<usize>,
    /// When the client last read something, or when an answer last began.
    pub moved: Cell<Instant>,
    /// Why the connection must be closed.
    pub cut: RefCell<Option<String>>,
}

impl ConnectionShared {
    /// Closes the connection because an answer is left unread.
    pub(crate) fn cut_off(&self) -> io::Error {
        *self.cut.borrow_mut() = Some("an answer is left unread".into());
        io::ErrorKind::TimedOut.into()
    }
}

/// A request in progress, counted until this is dropped.
pub(crate) struct RequestInProgress<'l>(&'l ConnectionShared);

impl<'l> RequestInProgress<'l> {
    /// Counts one more request until the result is dropped.
    pub(crate) fn on(line: &'l ConnectionShared) -> Self {
        line.working.set(line.working.get() + 1);
        Self(line)
    }
}

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get().saturating_sub(1));
        self.0.moved.set(Instant::now());
    }
}
