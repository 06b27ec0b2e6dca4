//! The live terminators: services that SDKs, or routers themselves, host at present. They are
//! records with state that only this process has.
//!
//! Invariant: whoever ends a terminator removes it from the table. It is marked as ended before it
//! is removed, and a marked one is not added.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use model::entity::{ApiSession, Id, Identity, Precedence, Service, Session, Terminator};
use parking_lot::Mutex;

use super::{
    authorizing_record::{AuthorizingIndex, AuthorizingRecord},
    dynamic_cost::DynamicCost,
    owner_index::OwnerIndex,
    select::Weight,
};

/// Who hosts what, and where.
pub(crate) struct HostedService {
    /// Also the address of the terminator.
    pub id: Id<Terminator>,
    pub router: String,
    /// `edge` for an SDK, `tunnel` for the router itself.
    pub binding: &'static str,
    pub service: Id<Service>,
    /// The instance id by which it can be dialed; empty: none.
    pub instance: String,
    pub identity: Id<Identity>,
    pub session: Id<Session>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    /// What is passed on to the SDKs that dial, by the header keys of SDK channels.
    pub peer_data: Vec<(u32, Vec<u8>)>,
}

/// A service that is hosted at a router.
pub(crate) struct LiveTerminator {
    pub hosted: HostedService,
    pub load: DynamicCost,
    /// Cost and precedence of the record.
    weight: Mutex<Weight>,
    /// Whether the record exists.
    is_listed: AtomicBool,
    is_ended: AtomicBool,
}

impl LiveTerminator {
    /// A terminator whose record does not exist yet.
    pub(crate) fn new(hosted: HostedService, weight: Weight) -> Self {
        Self {
            hosted,
            load: DynamicCost::default(),
            weight: Mutex::new(weight),
            is_listed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> &Id<Terminator> {
        &self.hosted.id
    }

    /// The weight used for choosing a terminator, with its dynamic cost.
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

    /// Marks it as ended. Returns false if it had ended before.
    pub(crate) fn end(&self) -> bool {
        !self.is_ended.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Whether it can be dialed.
    pub(crate) fn is_open(&self) -> bool {
        self.is_listed() && !self.is_ended()
    }

    fn bases(&self) -> Vec<AuthorizingRecord> {
        let hosted = &self.hosted;
        vec![
            AuthorizingRecord::Session(hosted.session.to_string()),
            AuthorizingRecord::ApiSession(hosted.api_session.to_string()),
            AuthorizingRecord::Identity(hosted.identity.to_string()),
            AuthorizingRecord::Service(hosted.service.to_string()),
        ]
    }
}

/// Why a terminator is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// It has ended.
    Ended,
    /// Another one has its id.
    Exists,
}

/// All live terminators, at routers of both kinds.
#[derive(Default)]
pub(crate) struct LiveTerminators(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<String, Arc<LiveTerminator>>,
    by_authorizing_record: AuthorizingIndex<String>,
    by_router: OwnerIndex,
    /// A dial finds its hosts here, at a cost that does not depend on the number of circuits.
    by_service: HashMap<String, HashMap<String, Arc<LiveTerminator>>>,
}

impl LiveTerminators {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<LiveTerminator>> {
        self.0.lock().by_id.get(id).cloned()
    }

    /// Adds a terminator.
    ///
    /// # Errors
    /// It has ended, or another one has its id.
    pub(crate) fn add(&self, terminator: &Arc<LiveTerminator>) -> Result<(), NotAdded> {
        let mut open = self.0.lock();
        let id = terminator.id().to_string();
        if terminator.is_ended() {
            return Err(NotAdded::Ended);
        }
        if open.by_id.contains_key(&id) {
            return Err(NotAdded::Exists);
        }
        open.by_id.insert(id.clone(), terminator.clone());
        open.by_router
            .add(std::slice::from_ref(&terminator.hosted.router), &id);
        open.by_service
            .entry(terminator.hosted.service.to_string())
            .or_default()
            .insert(id.clone(), terminator.clone());
        open.by_authorizing_record.add(id, terminator.bases());
        Ok(())
    }

    /// Removes a terminator, and calls `then` with its id before another one can have it. Returns
    /// whether it was there.
    pub(crate) fn remove(
        &self,
        terminator: &Arc<LiveTerminator>,
        then: impl FnOnce(Id<Terminator>),
    ) -> bool {
        terminator.end();
        let mut open = self.0.lock();
        let id = terminator.id().to_string();
        // A newer one may have taken over its id.
        let is_there = open
            .by_id
            .get(&id)
            .is_some_and(|known| Arc::ptr_eq(known, terminator));
        if is_there {
            open.by_id.remove(&id);
            open.by_router
                .remove(std::slice::from_ref(&terminator.hosted.router), &id);
            if let Some(hosts) = open.by_service.get_mut(terminator.hosted.service.as_str()) {
                hosts.remove(&id);
                if hosts.is_empty() {
                    open.by_service.remove(terminator.hosted.service.as_str());
                }
            }
            open.by_authorizing_record.remove(&id, terminator.bases());
            then(terminator.id().clone());
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

    /// The terminators of a service, also those that cannot be dialed.
    pub(crate) fn of_service(&self, service: &str) -> Vec<Arc<LiveTerminator>> {
        let open = self.0.lock();
        let hosts = open.by_service.get(service).into_iter();
        hosts.flat_map(HashMap::values).cloned().collect()
    }

    /// The terminators at a router.
    pub(crate) fn of_router(&self, router: &str) -> Vec<Arc<LiveTerminator>> {
        let open = self.0.lock();
        open.by_router.of(router, &open.by_id).collect()
    }

    /// The number of terminators at a router.
    pub(crate) fn count(&self, router: &str) -> usize {
        self.0.lock().by_router.count(router)
    }

    /// The terminators that depend on one of these records, each once.
    pub(crate) fn depending_on<'r>(
        &self,
        records: impl IntoIterator<Item = &'r AuthorizingRecord>,
    ) -> Vec<Arc<LiveTerminator>> {
        let open = self.0.lock();
        let ids: HashSet<&String> = records
            .into_iter()
            .flat_map(|record| open.by_authorizing_record.of(record))
            .collect();
        ids.into_iter()
            .filter_map(|id| open.by_id.get(id).cloned())
            .collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<LiveTerminator>> {
        self.0.lock().by_id.values().cloned().collect()
    }
}
