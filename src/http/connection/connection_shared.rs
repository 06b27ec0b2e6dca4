//! What the parts of a connection of HTTP/2 share: who is at the other end, and how long ago something moved.

use std::{
    cell::{Cell, RefCell},
    io,
    time::Duration,
};

use tokio::time::Instant;

use super::memory_ledger::Account;
use crate::http::call::Peer;

/// Who is at the other end, and what is held for them.
pub struct Client {
    pub peer: Peer,
    pub account: Account,
}

/// What the answers on a connection share.
pub struct ConnectionShared {
    pub client: Client,
    /// How long an answer may be left unread.
    pub patience: Duration,
    /// Requests that are worked on.
    pub working: Cell<usize>,
    /// When the client took something, or an answer began.
    pub moved: Cell<Instant>,
    /// Why the connection is to be cut off.
    pub cut: RefCell<Option<String>>,
}

impl ConnectionShared {
    /// Has the connection cut off because an answer is left unread.
    pub fn cut_off(&self) -> io::Error {
        *self.cut.borrow_mut() = Some("an answer is left unread".into());
        io::ErrorKind::TimedOut.into()
    }
}

/// A request that is worked on, until it is dropped.
pub struct Working<'l>(&'l ConnectionShared);

impl<'l> Working<'l> {
    /// Counts one more.
    pub fn on(line: &'l ConnectionShared) -> Self {
        line.working.set(line.working.get() + 1);
        Self(line)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get().saturating_sub(1));
        self.0.moved.set(Instant::now());
    }
}
