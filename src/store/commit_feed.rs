//! A subscription to commits for a listener that starts later. It is registered before the store can be written; the listener attaches itself.

use std::sync::{Arc, OnceLock};

use super::{
    event::{Event, Phase},
    opening::OpenStore,
};

type Hear = Box<dyn Fn(&Event) + Send + Sync>;

/// Tells one listener of commits, once it is attached.
#[derive(Clone, Default)]
pub struct CommitFeed(Arc<OnceLock<Hear>>);

impl CommitFeed {
    /// A feed of the commits of a store, told in [`Phase::React`].
    pub fn following(store: &OpenStore) -> Self {
        let feed = Self::default();
        let attached = feed.0.clone();
        store.subscribe(Phase::React, move |events| {
            if let Some(hear) = attached.get() {
                events.iter().for_each(hear);
            }
        });
        feed
    }

    /// Calls `hear` with `listener` and each event from now on, as long as others hold the listener. A feed serves one listener.
    pub fn attach<T: Send + Sync + 'static>(&self, listener: &Arc<T>, hear: impl Fn(&T, &Event) + Send + Sync + 'static) {
        let listener = Arc::downgrade(listener);
        let hear = move |event: &Event| {
            if let Some(listener) = listener.upgrade() {
                hear(&listener, event);
            }
        };
        drop(self.0.set(Box::new(hear)));
    }
}
