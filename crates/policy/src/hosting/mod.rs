//! Who hosts each service, since when nobody does, and which attempts to reach its hosts failed.
//!
//! A service is hosted while one of its terminators is live: its router is connected, and so is the
//! identity whose connection made it. `table.rs` follows terminators, routers and identities, and
//! remembers since when a service has had no host. `dial_log.rs` has the outcome of dials, which
//! the routers report. `rows.rs` writes hosts that come and go into the history, and reads there
//! after a start what was known before it.
//!
//! Not here: who may host (`access/`), and the choice of a host (`network/candidates.rs` of the
//! crate `fabric`). It is in memory and bounded.

mod dial_log;
mod live_hosts;
mod rows;
mod table;

use std::sync::Arc;

use model::{
    clock::{Clock, Timestamp},
    entity::{Record, Service, Terminator},
    error::Result,
    metrics::{Counter, Family, KindLabel},
};
use parking_lot::Mutex;
use store::{Event, OpenStore, Phase, online::Online};

use self::{dial_log::DialLog, table::Table};
pub use self::{
    dial_log::{DialFault, DialReason, FailedDials},
    live_hosts::{LiveHost, live_hosts},
    table::{Absence, HostKey, ServiceCounts, Standing},
};

/// The hosts of all services. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Hosting(Arc<Inner>);

struct Inner {
    online: Online,
    clock: Clock,
    /// When the controller was started.
    started: Timestamp,
    table: Mutex<Table>,
    dials: Mutex<DialLog>,
    /// Failed attempts to reach a host, by reason.
    failures: Family<KindLabel, Counter>,
}

impl Hosting {
    /// Follows the terminators of a store, and the connections of routers and identities.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn following(store: &OpenStore, clock: Clock) -> Result<Self> {
        let online = store.online().clone();
        let started = clock.now();
        let inner = Inner {
            online: online.clone(),
            clock,
            started,
            table: Mutex::default(),
            dials: Mutex::default(),
            failures: Family::default(),
        };
        // A series that begins with its first failure would hide that one from a rate.
        DialFault::ALL.iter().for_each(|fault| {
            drop(inner.failures.get_or_create(&KindLabel {
                kind: fault.as_str(),
            }))
        });
        let hosting = Self(Arc::new(inner));
        let (by_commit, by_router, by_identity) =
            (hosting.clone(), hosting.clone(), hosting.clone());
        store.subscribe(Phase::Update, move |events| {
            events.iter().for_each(|event| by_commit.on_commit(event))
        });
        online.subscribe_routers(move |router| {
            by_router.with_table(|table, at| table.router_changed(router, &by_router.0.online, at))
        });
        online.subscribe(move |identity| {
            by_identity
                .with_table(|table, at| table.identity_changed(identity, &by_identity.0.online, at))
        });
        // Terminators of the last run are deleted soon; they show what was hosted then.
        store.read(|tx| {
            tx.each_readable::<Terminator>(|terminator| {
                hosting.with_table(|table, at| table.found_at_start(&terminator, &online, at));
                Ok(())
            })
        })?;
        Ok(hosting)
    }

    fn with_table<T>(&self, work: impl FnOnce(&mut Table, Timestamp) -> T) -> T {
        let at = self.0.clock.now();
        work(&mut self.0.table.lock(), at)
    }

    fn on_commit(&self, event: &Event) {
        if let Some((old, new)) = event.of::<Terminator>() {
            let is_new = self.with_table(|table, at| match (old, new) {
                (_, Some(new)) => table.put(new, &self.0.online, at),
                (Some(old), None) => {
                    table.remove(old.id.as_str(), at);
                    false
                }
                (None, None) => false,
            });
            // A host that binds anew is reached by another connection than the one whose dials
            // failed.
            if let Some(new) = new.filter(|_| is_new) {
                self.0
                    .dials
                    .lock()
                    .note_renewal(new.spec.service.as_str(), &HostKey::of(new));
            }
        } else if let Some((Some(old), None)) = event.of::<Service>() {
            self.with_table(|table, _| table.forget(old.id.as_str()));
            self.0.dials.lock().forget(old.id.as_str());
        }
    }

    /// When the controller was started.
    pub fn started(&self) -> Timestamp {
        self.0.started
    }

    /// A sentence about a service that nobody hosts, without its end, such as `nobody hosts wiki
    /// since 2026-11-26T22:05:11.000Z`. `None` if somebody does.
    pub fn absence_text(&self, standing: &Standing, service: &str) -> Option<String> {
        Some(match standing {
            Standing::Hosted => return None,
            Standing::Unhosted(Absence::Since(at), _) => {
                format!("nobody hosts {service} since {at}")
            }
            Standing::Unhosted(Absence::BeforeStart, _) | Standing::Unseen => {
                format!(
                    "nobody hosts {service} since the start at {} or earlier",
                    self.0.started
                )
            }
            Standing::New => format!("nobody has hosted {service} yet"),
        })
    }

    /// Whether a service is hosted, and since when it is not.
    pub fn standing(&self, service: &Record<Service>) -> Standing {
        self.0
            .table
            .lock()
            .standing(service.id.as_str(), service.created_at >= self.0.started)
    }

    /// The services with hosts of which the last dial of each failed.
    pub(crate) fn failing_services(&self) -> Vec<Arc<str>> {
        let mut services = self.0.dials.lock().failing_services();
        services.retain(|service| self.is_failing(service));
        services
    }

    /// The number of services by their standing, of those that were ever seen with a host.
    pub fn counts(&self) -> ServiceCounts {
        let failing = self.failing_services().len() as u64;
        let (hosted, unhosted) = self.0.table.lock().counts();
        ServiceCounts {
            hosted: hosted.saturating_sub(failing),
            failing,
            unhosted,
        }
    }

    /// Counts a failed attempt to reach a host that is not the fault of the service or its hosts,
    /// such as a dial of an instance that does not exist.
    pub fn count_failure(&self, fault: DialFault) {
        self.0
            .failures
            .get_or_create(&KindLabel {
                kind: fault.as_str(),
            })
            .inc();
    }

    /// Records a failed attempt to reach a host of a service at a router; no host: none was found.
    pub fn dial_failed(
        &self,
        service: &str,
        host: Option<HostKey>,
        router: &str,
        fault: DialFault,
        text: &str,
    ) {
        self.count_failure(fault);
        let at = self.0.clock.now();
        self.0
            .dials
            .lock()
            .note_failure(service, host, router, fault, text, at);
    }

    /// Records that a host of a service was reached.
    pub fn dial_succeeded(&self, service: &str, host: &HostKey) {
        self.0
            .dials
            .lock()
            .note_success(service, host, || self.0.clock.now());
    }

    /// The failed attempts for a service, the last one first.
    pub fn failed_dials(&self, service: &str) -> Vec<FailedDials> {
        self.0.dials.lock().of_service(service)
    }

    /// Whether the last dial of each of these hosts failed. False if there are none.
    pub(crate) fn fails(&self, service: &str, hosts: &[HostKey]) -> bool {
        let dials = self.0.dials.lock();
        !hosts.is_empty() && hosts.iter().all(|host| dials.fails(service, host))
    }

    /// Whether a service has hosts, and the last dial of each failed.
    pub fn is_failing(&self, service: &str) -> bool {
        let hosts = self.0.table.lock().hosts(service);
        self.fails(service, &hosts)
    }

    /// The counter of failed attempts by reason, for the metrics.
    pub fn failure_counter(&self) -> Family<KindLabel, Counter> {
        self.0.failures.clone()
    }
}
