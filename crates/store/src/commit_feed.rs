//! A subscription to commits for a listener that starts later. The subscription is registered
//! before the store can be written; the listener attaches itself when it starts.

use std::sync::{Arc, OnceLock};

use super::{
    event::{Event, Phase},
    opening::OpenStore,
};

type Callback = Box<dyn Fn(&Event) + Send + Sync>;

/// Passes commits to one listener once the listener is attached.
#[derive(Clone, Default)]
pub struct CommitFeed(Arc<OnceLock<Callback>>);

impl CommitFeed {
    /// A feed of the commits of a store. The attached listener is called in [`Phase::React`].
    pub fn following(store: &OpenStore) -> Self {
        let feed = Self::default();
        let attached = feed.0.clone();
        store.subscribe(Phase::React, move |events| {
            if let Some(on_commit) = attached.get() {
                for event in events {
                    on_commit(event);
                }
            }
        });
        feed
    }

    /// Calls `on_commit` with `listener` and each event from now on, until all other owners have
    /// dropped the listener. A feed serves one listener: further calls have no effect.
    pub fn attach<T: Send + Sync + 'static>(
        &self,
        listener: &Arc<T>,
        on_commit: impl Fn(&T, &Event) + Send + Sync + 'static,
    ) {
        let listener = Arc::downgrade(listener);
        let on_commit = move |event: &Event| {
            if let Some(listener) = listener.upgrade() {
                on_commit(&listener, event);
            }
        };
        drop(self.0.set(Box::new(on_commit)));
    }
}
