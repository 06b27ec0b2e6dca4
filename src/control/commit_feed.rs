//! The subscription of control channels to commits. It is registered before the store can be written; [`super::Control`] attaches itself when it
//! starts.

use std::sync::{Arc, OnceLock, Weak};

use super::{core::Core, review};
use crate::{
    network::PendingReviews,
    store::{OpenStore, Phase},
};

/// Tells control channels of commits, once they are attached.
#[derive(Clone, Default)]
pub struct CommitFeed(Arc<OnceLock<(Weak<Core>, Arc<PendingReviews>)>>);

impl CommitFeed {
    /// A feed of the commits of a store.
    pub fn following(store: &OpenStore) -> Self {
        let feed = Self::default();
        let attached = feed.0.clone();
        store.subscribe(Phase::React, move |events| {
            let control = attached.get().and_then(|(core, reviews)| Some((core.upgrade()?, reviews)));
            if let Some((core, reviews)) = control {
                events.iter().for_each(|event| review::hear(&core, reviews, event));
            }
        });
        feed
    }

    /// Tells these from now on. A feed serves one [`super::Control`].
    pub(super) fn attach(&self, core: &Arc<Core>, reviews: &Arc<PendingReviews>) {
        drop(self.0.set((Arc::downgrade(core), reviews.clone())));
    }
}
