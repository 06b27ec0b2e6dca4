//! The end of the listener, as connections learn of it.

use tokio::sync::watch;

/// Tells connections that the listener ends, and knows when the last is gone. Cheap to clone.
#[derive(Clone, Default)]
pub struct Shutdown(std::sync::Arc<watch::Sender<bool>>);

impl Shutdown {
    /// A connection that is there from now on.
    pub fn connection(&self) -> ConnectionGuard {
        ConnectionGuard(self.0.subscribe())
    }

    /// Tells them.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Waits until no connection is there.
    pub async fn all_gone(&self) {
        self.0.closed().await;
    }
}

/// A connection, there until this and its clones are dropped.
#[derive(Clone)]
pub struct ConnectionGuard(watch::Receiver<bool>);

impl ConnectionGuard {
    /// Whether the listener ends.
    pub fn has_to_end(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the listener ends.
    pub async fn ends(&mut self) {
        if self.0.wait_for(|ends| *ends).await.is_err() {
            tracing::debug!("a listener that is gone already");
        }
    }
}
