//! Terminators that SDKs host at routers with a control channel: their records, with state that
//! only this process has.

use crate::{
    entity::{ApiSession, Id, Identity, Precedence, Service, Session, Terminator},
    fabric::{AuthorizingIndex, AuthorizingRecord, DynamicCost, OwnerIndex, Weight},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use wire::control::NumberedBytes;

/// A service that an SDK hosts at a router.
pub(crate) struct HostedTerminator {
    /// Also the address of the terminator.
    pub id: Id<Terminator>,
    pub router: String,
    /// `edge` for an SDK, `tunnel` for the router itself.
    pub binding: &'static str,
    pub service: Id<Service>,
    pub identity: Id<Identity>,
    pub session: Id<Session>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    /// Peer data for the dialing SDKs.
    pub peer_data: Vec<NumberedBytes>,
    pub load: DynamicCost,
    /// Cost and precedence of the record.
    pub weight: Mutex<Weight>,
    /// Whether the record exists.
    pub is_listed: AtomicBool,
}

impl HostedTerminator {
    /// The weight used for choosing a terminator.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            dynamic_cost: self.load.value(),
            ..*self.weight.lock()
        }
    }

    /// Takes cost and precedence from the record.
    pub(crate) fn set_weight(&self, cost: u16, precedence: Precedence) {
        let mut weight = self.weight.lock();
        (weight.cost, weight.precedence) = (cost, precedence);
    }

    /// Records whether the record exists.
    pub(crate) fn set_listed(&self, is_listed: bool) {
        self.is_listed.store(is_listed, Ordering::SeqCst);
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::SeqCst)
    }

    fn bases(&self) -> Vec<AuthorizingRecord> {
        vec![
            AuthorizingRecord::Session(self.session.to_string()),
            AuthorizingRecord::ApiSession(self.api_session.to_string()),
            AuthorizingRecord::Identity(self.identity.to_string()),
            AuthorizingRecord::Service(self.service.to_string()),
        ]
    }
}

/// All hosted terminators.
#[derive(Default)]
pub(crate) struct HostedTerminators(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<String, Arc<HostedTerminator>>,
    by_authorizing_record: AuthorizingIndex<String>,
    by_router: OwnerIndex,
}

impl HostedTerminators {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<HostedTerminator>> {
        self.0.lock().by_id.get(id).cloned()
    }

    /// Adds a terminator if its id is free.
    pub(crate) fn add(&self, hosted: &Arc<HostedTerminator>) -> bool {
        let mut open = self.0.lock();
        let id = hosted.id.to_string();
        if open.by_id.contains_key(&id) {
            return false;
        }
        open.by_id.insert(id.clone(), hosted.clone());
        open.by_router
            .add(std::slice::from_ref(&hosted.router), &id);
        open.by_authorizing_record.add(id, hosted.bases());
        true
    }

    /// Removes a terminator, and calls `then` with its id before another one can have it. Returns
    /// whether it was there.
    pub(crate) fn remove(
        &self,
        hosted: &Arc<HostedTerminator>,
        then: impl FnOnce(Id<Terminator>),
    ) -> bool {
        let mut open = self.0.lock();
        let id = hosted.id.to_string();
        let is_there = open
            .by_id
            .get(&id)
            .is_some_and(|known| Arc::ptr_eq(known, hosted));
        if is_there {
            open.by_id.remove(&id);
            open.by_router
                .remove(std::slice::from_ref(&hosted.router), &id);
            open.by_authorizing_record.remove(&id, hosted.bases());
            then(hosted.id.clone());
        }
        is_there
    }

    /// Calls `then` if no terminator has this id, before one can have it.
    pub(crate) fn when_free(&self, id: &Id<Terminator>, then: impl FnOnce(Id<Terminator>)) -> bool {
        let open = self.0.lock();
        let is_free = !open.by_id.contains_key(id.as_str());
        if is_free {
            then(id.clone());
        }
        is_free
    }

    /// The terminators at a router.
    pub(crate) fn of_router(&self, router: &str) -> Vec<Arc<HostedTerminator>> {
        let open = self.0.lock();
        open.by_router.of(router, &open.by_id).collect()
    }

    /// The number of terminators at a router.
    pub(crate) fn count(&self, router: &str) -> usize {
        self.0.lock().by_router.count(router)
    }

    pub(crate) fn depending_on(&self, record: &AuthorizingRecord) -> Vec<Arc<HostedTerminator>> {
        let open = self.0.lock();
        open.by_authorizing_record
            .of(record)
            .filter_map(|id| open.by_id.get(id).cloned())
            .collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<HostedTerminator>> {
        self.0.lock().by_id.values().cloned().collect()
    }
}
