//! Everything that follows the commits of the store. The followers are created before the store is
//! started, so that they receive every commit.

use model::{
    clock::Clock,
    config::{Address, Config},
    error::Result,
};
use policy::{
    access::Access,
    authentication::{ApiTokens, Sessions},
    hosting::Hosting,
    posture::Posture,
};
use rest::{HistoryReaders, JsonCache, RouterCache};
use store::{CommitFeed, OpenStore};

use crate::jobs::JobTrigger;

use super::routers;

/// What follows the store.
pub(crate) struct Followers {
    pub access: Access,
    pub json_cache: JsonCache,
    pub routers: RouterCache,
    pub posture: Posture,
    pub hosting: Hosting,
    pub sessions: Sessions,
    pub api_tokens: ApiTokens,
    pub readers: std::sync::Arc<HistoryReaders>,
    pub feed: CommitFeed,
    pub control_feed: CommitFeed,
}

impl Followers {
    /// The followers of a controller. `router` is the address that clients of the built-in router
    /// connect to, if the router is enabled.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn of(
        store: &OpenStore,
        config: &Config,
        clock: &Clock,
        router: Option<&Address>,
        trigger: &JobTrigger,
    ) -> Result<Self> {
        router.map_or(Ok(()), |address| routers::follow(store, address))?;
        routers::follow_enrolled(store)?;
        trigger.follow(store);
        let access = Access::following(store, clock.clone())?;
        let reviews = trigger.clone();
        let hosting = Hosting::following(store, clock.clone())?;
        let on_trigger = move |trigger| reviews.review(trigger);
        Ok(Self {
            json_cache: JsonCache::following(store),
            routers: RouterCache::following(store),
            posture: Posture::following(
                store,
                access.clone(),
                clock.clone(),
                config.posture.clone(),
                on_trigger,
            )?,
            sessions: Sessions::following(store, clock.clone(), &config.sessions)?,
            api_tokens: ApiTokens::following(store),
            readers: HistoryReaders::following(store, config.history.readers),
            feed: CommitFeed::following(store),
            control_feed: CommitFeed::following(store),
            access,
            hosting,
        })
    }
}
