//! The terminators of all services, which of them are live, and since when a service has none.
//!
//! Invariant: an entry belongs to a record that exists, so that the table is as large as the
//! records are many.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use model::{
    clock::Timestamp,
    entity::{Record, Terminator},
};
use store::online::Online;

/// A host of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostKey {
    /// The identity whose connections made its terminators.
    Identity(Arc<str>),
    /// A terminator that an administrator made.
    Terminator(Arc<str>),
}

impl HostKey {
    /// The host of a terminator.
    pub fn of(terminator: &Record<Terminator>) -> Self {
        if terminator.is_of_a_connection() {
            Self::Identity(terminator.state.host_id.as_str().into())
        } else {
            Self::Terminator(terminator.id.as_str().into())
        }
    }

    /// The id of the identity, if it is one.
    pub fn identity(&self) -> Option<&str> {
        if let Self::Identity(id) = self {
            Some(id)
        } else {
            None
        }
    }
}

/// Whether a service is hosted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Hosted,
    /// Nobody hosts it, and somebody did. The host is the one that left last, if that is known.
    Unhosted(Absence, Option<HostKey>),
    /// Nobody hosts it, and it is not known whether somebody ever did: it is older than this start,
    /// and nothing is known from before.
    Unseen,
    /// Nobody has hosted it yet.
    New,
}

/// Since when nobody hosts a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    Since(Timestamp),
    /// Since the start of the controller or earlier.
    BeforeStart,
}

/// How many services are hosted, and how many are not although they once were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// With a host that was reached by its last dial, or that was not dialed.
    pub hosted: u64,
    /// With hosts, of which the last dial of each failed.
    pub failing: u64,
    pub unhosted: u64,
}

/// The terminators by service, router and host.
#[derive(Default)]
pub(crate) struct Table {
    terminators: HashMap<Arc<str>, Known>,
    by_router: HashMap<Arc<str>, HashSet<Arc<str>>>,
    by_identity: HashMap<Arc<str>, HashSet<Arc<str>>>,
    services: HashMap<Arc<str>, State>,
    /// When rows of the history were written last.
    pub(crate) rows_written_at: Option<Timestamp>,
}

/// A terminator.
#[derive(Clone)]
struct Known {
    service: Arc<str>,
    router: Arc<str>,
    host: HostKey,
    is_live: bool,
}

/// What is known of a service that has or had a terminator.
#[derive(Default)]
pub(super) struct State {
    /// The number of live terminators of each host.
    live: BTreeMap<HostKey, usize>,
    /// Since when nobody hosts it. `None`: nobody has hosted it since the start, as far as is
    /// known. Without meaning while it is hosted.
    absence: Option<Absence>,
    last_host: Option<HostKey>,
    /// The hosts that its last row of the history names.
    pub(crate) noted: BTreeSet<HostKey>,
    /// When the hosts first differed from those.
    pub(crate) differs_since: Option<Timestamp>,
}

impl State {
    /// The hosts.
    pub(super) fn hosts(&self) -> BTreeSet<HostKey> {
        self.live.keys().cloned().collect()
    }

    /// Since when nobody hosts it; `None` if somebody does, or nobody ever did.
    pub(super) fn absence(&self) -> Option<Absence> {
        self.absence.filter(|_| self.live.is_empty())
    }

    fn count(&mut self, host: &HostKey, is_live: bool, at: Timestamp) {
        if is_live {
            let count = self.live.entry(host.clone()).or_default();
            *count += 1;
            if *count > 1 {
                return;
            }
        } else {
            let Some(count) = self.live.get_mut(host) else {
                return;
            };
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.live.remove(host);
            self.last_host = Some(host.clone());
            if self.live.is_empty() {
                self.absence = Some(Absence::Since(at));
            }
        }
        self.differs_since.get_or_insert(at);
    }
}

impl Table {
    /// Takes a terminator that is in the file when the controller starts, before anything but the
    /// built-in router is connected.
    pub(super) fn found_at_start(
        &mut self,
        terminator: &Record<Terminator>,
        online: &Online,
        at: Timestamp,
    ) {
        self.insert(terminator);
        if let Some(state) = self.services.get_mut(terminator.spec.service.as_str()) {
            state.absence = Some(Absence::BeforeStart);
            state.last_host = Some(HostKey::of(terminator));
        }
        self.set_live(terminator.id.as_str(), is_live(online, terminator), at);
    }

    /// Takes a terminator that was created or changed. Returns whether it is new.
    pub(super) fn put(
        &mut self,
        terminator: &Record<Terminator>,
        online: &Online,
        at: Timestamp,
    ) -> bool {
        let (id, host) = (terminator.id.as_str(), HostKey::of(terminator));
        let is_same = |known: &Known| {
            *known.service == *terminator.spec.service.as_str()
                && *known.router == *terminator.spec.router
                && known.host == host
        };
        let is_known = self.terminators.get(id).is_some_and(is_same);
        if !is_known {
            self.remove(id, at);
            self.insert(terminator);
        }
        self.set_live(id, is_live(online, terminator), at);
        !is_known
    }

    fn insert(&mut self, terminator: &Record<Terminator>) {
        let id: Arc<str> = terminator.id.as_str().into();
        let service = match self
            .services
            .get_key_value(terminator.spec.service.as_str())
        {
            Some((known, _)) => known.clone(),
            None => terminator.spec.service.as_str().into(),
        };
        let router: Arc<str> = terminator.spec.router.as_str().into();
        let host = HostKey::of(terminator);
        self.by_router
            .entry(router.clone())
            .or_default()
            .insert(id.clone());
        if let HostKey::Identity(identity) = &host {
            self.by_identity
                .entry(identity.clone())
                .or_default()
                .insert(id.clone());
        }
        self.services.entry(service.clone()).or_default();
        self.terminators.insert(
            id,
            Known {
                service,
                router,
                host,
                is_live: false,
            },
        );
    }

    /// Removes a terminator that was deleted.
    pub(super) fn remove(&mut self, id: &str, at: Timestamp) {
        self.set_live(id, false, at);
        let Some(Known { router, host, .. }) = self.terminators.remove(id) else {
            return;
        };
        take_out(&mut self.by_router, &router, id);
        if let Some(identity) = host.identity() {
            take_out(&mut self.by_identity, identity, id);
        }
    }

    /// Forgets a service that was deleted. Its terminators were deleted before.
    pub(super) fn forget(&mut self, service: &str) {
        self.services.remove(service);
    }

    /// Looks at the terminators of a router again, which has connected or disconnected.
    pub(super) fn router_changed(&mut self, router: &str, online: &Online, at: Timestamp) {
        let of_router = self
            .by_router
            .get(router)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        self.look_again(of_router, online, at);
    }

    /// Looks at the terminators of an identity again, which has connected or disconnected.
    pub(super) fn identity_changed(&mut self, identity: &str, online: &Online, at: Timestamp) {
        let of_identity = self
            .by_identity
            .get(identity)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        self.look_again(of_identity, online, at);
    }

    fn look_again(&mut self, terminators: Vec<Arc<str>>, online: &Online, at: Timestamp) {
        for id in terminators {
            let Some(known) = self.terminators.get(&id) else {
                continue;
            };
            let is_live = reaches(online, &known.router, known.host.identity());
            self.set_live(&id, is_live, at);
        }
    }

    fn set_live(&mut self, id: &str, is_live: bool, at: Timestamp) {
        let Some(known) = self
            .terminators
            .get_mut(id)
            .filter(|known| known.is_live != is_live)
        else {
            return;
        };
        known.is_live = is_live;
        let (service, host) = (known.service.clone(), known.host.clone());
        self.services
            .entry(service)
            .or_default()
            .count(&host, is_live, at);
    }

    /// Whether a service is hosted; `is_new` if it was created after the start.
    pub(super) fn standing(&self, service: &str, is_new: bool) -> Standing {
        match self.services.get(service) {
            Some(state) if !state.live.is_empty() => Standing::Hosted,
            Some(State {
                absence: Some(absence),
                last_host,
                ..
            }) => Standing::Unhosted(*absence, last_host.clone()),
            _ if is_new => Standing::New,
            _ => Standing::Unseen,
        }
    }

    /// The hosts of a service.
    pub(super) fn hosts(&self, service: &str) -> Vec<HostKey> {
        self.services
            .get(service)
            .map(|state| state.live.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// How many services are hosted, and how many no longer are.
    pub(super) fn counts(&self) -> (u64, u64) {
        let hosted = self
            .services
            .values()
            .filter(|state| !state.live.is_empty())
            .count() as u64;
        (hosted, self.unhosted().len() as u64)
    }

    /// The services that nobody hosts, although somebody did.
    pub(super) fn unhosted(&self) -> Vec<Arc<str>> {
        self.services
            .iter()
            .filter(|(_, state)| state.absence().is_some())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// The services with what is known of them.
    pub(super) fn services_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut State)> {
        self.services.iter_mut()
    }

    /// Takes over what the history says of a service: its hosts before the start, and when the last
    /// one left if there were none.
    pub(super) fn recall(
        &mut self,
        service: &str,
        hosts: BTreeSet<HostKey>,
        left: Option<Timestamp>,
        started: Timestamp,
    ) {
        let state = self.services.entry(service.into()).or_default();
        if state
            .absence
            .is_none_or(|absence| absence == Absence::BeforeStart)
        {
            let known = if hosts.is_empty() {
                left.map(Absence::Since)
            } else {
                None
            };
            state.absence = Some(known.unwrap_or(Absence::BeforeStart));
            state.last_host = hosts.first().cloned().or(state.last_host.take());
        }
        if state.noted.is_empty() {
            state.noted = hosts;
        }
        if state.noted != state.hosts() {
            state.differs_since = Some(started);
        }
    }
}

fn take_out(sets: &mut HashMap<Arc<str>, HashSet<Arc<str>>>, key: &str, id: &str) {
    if let Some(ids) = sets.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            sets.remove(key);
        }
    }
}

/// Whether a terminator can be reached: its router is connected, and so is the identity whose
/// connection made it.
pub(super) fn is_live(online: &Online, terminator: &Record<Terminator>) -> bool {
    let is_made = terminator.is_of_a_connection();
    reaches(
        online,
        &terminator.spec.router,
        is_made.then_some(terminator.state.host_id.as_str()),
    )
}

/// Whether a router is connected, and an identity if one is given.
fn reaches(online: &Online, router: &str, identity: Option<&str>) -> bool {
    online.is_router_connected(router) && identity.is_none_or(|identity| online.identity(identity))
}
