//! Tells connections that the listener is stopping.

use tokio::sync::watch;

/// Tells connections that the listener stops, and waits for the last of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Shutdown(std::sync::Arc<watch::Sender<bool>>);

impl Shutdown {
    /// Registers a connection.
    pub fn connection(&self) -> ConnectionGuard {
        ConnectionGuard(self.0.subscribe())
    }

    /// Tells all connections to end.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Waits until every connection has ended.
    pub(crate) async fn all_gone(&self) {
        self.0.closed().await;
    }
}

/// A registered connection; it counts until this and its clones are dropped.
#[derive(Clone)]
pub struct ConnectionGuard(watch::Receiver<bool>);

impl ConnectionGuard {
    /// Whether the listener stops.
    pub fn has_to_end(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the listener stops.
    pub async fn ends(&mut self) {
        if self.0.wait_for(|ends| *ends).await.is_err() {
            tracing::debug!("the listener was dropped already");
        }
    }
}
