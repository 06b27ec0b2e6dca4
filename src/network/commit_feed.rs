//! The router's subscription to commits. It is registered before the store can be written; the router attaches itself when it starts.

use std::sync::{Arc, OnceLock, Weak};

use super::{core::Core, review, review_triggers::PendingReviews};
use crate::store::{OpenStore, Phase};

/// Tells a router of commits, once one is attached.
#[derive(Clone, Default)]
pub struct CommitFeed(Arc<OnceLock<(Weak<Core>, Arc<PendingReviews>)>>);

impl CommitFeed {
    /// A feed of the commits of a store.
    pub fn following(store: &OpenStore) -> Self {
        let feed = Self::default();
        let attached = feed.0.clone();
        store.subscribe(Phase::React, move |events| {
            let router = attached.get().and_then(|(core, reviews)| Some((core.upgrade()?, reviews)));
            if let Some((core, reviews)) = router {
                events.iter().for_each(|event| review::hear(&core, reviews, event));
            }
        });
        feed
    }

    /// Tells this router from now on. A feed serves one router.
    pub(super) fn attach(&self, core: &Arc<Core>, reviews: &Arc<PendingReviews>) {
        drop(self.0.set((Arc::downgrade(core), reviews.clone())));
    }
}
