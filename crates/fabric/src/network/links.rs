//! The links between routers, as routers report them. A link belongs to the router that has dialed
//! it, and counts once the router that has accepted it has confirmed it: otherwise one router could
//! lead circuits to another one over links that do not exist.
//!
//! Only the router that has dialed a link reports it. Before the other one accepts the link, it
//! asks whether the certificates belong to the router that dials, which confirms the links between
//! them in this direction. A controller that was restarted after that asks it for its links
//! (`control_channel/link_questions.rs`). Later its measurements of the link confirm it, too, and
//! so does its own report of the link.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use model::clock::Timestamp;
use parking_lot::Mutex;
use store::online::Online;
use wire::control::fabric;

use super::{info::UNMEASURED, owner_index::OwnerIndex};

/// Maximum links that one router has dialed.
const MAX_LINKS: usize = 2000;
/// Maximum length of an id, a protocol and an address, in bytes.
const MAX_TEXT: usize = 255;
/// For how long the router that has accepted a link may not know it yet. The other one reports it
/// as soon as its own end is ready.
const NEW: Duration = Duration::from_secs(3);
/// Why a link to the earlier router is lost when it leads to another one.
pub(crate) const MOVED: &str = "its router has dialed another router with the link";
/// The cost of a link without latency.
pub(crate) const STATIC_COST: u32 = 1;

/// A link between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedLink {
    pub id: String,
    /// The router that has dialed it.
    pub source: String,
    /// The router that has accepted it.
    pub destination: String,
    pub protocol: String,
    /// Grows when the same link is dialed again.
    pub iteration: u32,
    /// When it was first reported.
    pub since: Timestamp,
    reported: Instant,
    /// Whether the destination has confirmed it.
    pub is_confirmed: bool,
    /// As measured by the source and by the destination.
    pub measured: [Option<Duration>; 2],
    /// The bytes that the source has sent and received, and those that the destination has.
    counted: [[Option<u64>; 2]; 2],
}

impl ReportedLink {
    /// The cost in a path: the latencies in whole milliseconds and [`STATIC_COST`].
    pub(crate) fn cost(&self) -> u32 {
        let millis = self.measured.map(|latency| {
            u32::try_from(latency.unwrap_or(UNMEASURED).as_millis()).unwrap_or(u32::MAX)
        });
        millis.into_iter().fold(STATIC_COST, u32::saturating_add)
    }

    /// The router at the other end.
    pub(crate) fn other_end(&self, router: &str) -> &str {
        if self.source == router {
            &self.destination
        } else {
            &self.source
        }
    }

    /// The bytes that the source and the destination have sent, as the sender counts them, or else
    /// the receiver.
    pub(crate) fn sent_bytes(&self) -> [Option<u64>; 2] {
        let [
            [source_sent, source_received],
            [destination_sent, destination_received],
        ] = self.counted;
        [
            source_sent.or(destination_received),
            destination_sent.or(source_received),
        ]
    }

    /// Whether the router that has accepted it may not know it yet.
    pub(crate) fn is_new(&self) -> bool {
        self.reported.elapsed() < NEW
    }

    fn has_end(&self, router: &str) -> bool {
        self.source == router || self.destination == router
    }
}

/// The outcome of a report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    Added,
    /// The router that has accepted it reports it, too.
    Confirmed,
    Known,
    /// The link leads to another router than before. Holds the link as it was.
    Moved(Box<ReportedLink>),
    /// The link belongs to another router, the router has too many links, or the report is
    /// malformed.
    Refused,
}

/// Why and when a link is lost.
#[derive(Clone, Copy)]
pub(crate) struct Loss<'l> {
    pub reason: &'l str,
    pub at: Timestamp,
}

/// All links. They are also published in [`Online`].
pub(crate) struct ReportedLinks {
    links: Mutex<Links>,
    online: Online,
}

/// With indexes, because a router that connects reports a link to each of the others.
#[derive(Default)]
struct Links {
    /// By router: those whose certificates it has verified, so that it accepts links from them.
    accepted: HashMap<String, HashSet<String>>,
    by_id: HashMap<String, ReportedLink>,
    by_source: OwnerIndex,
    by_destination: OwnerIndex,
}

impl Links {
    /// Adds a link. Returns the one that it replaces.
    fn insert(&mut self, link: ReportedLink) -> Option<ReportedLink> {
        let before = self.remove(&link.id);
        self.by_source
            .add(std::slice::from_ref(&link.source), &link.id);
        self.by_destination
            .add(std::slice::from_ref(&link.destination), &link.id);
        self.by_id.insert(link.id.clone(), link);
        before
    }

    fn remove(&mut self, id: &str) -> Option<ReportedLink> {
        let link = self.by_id.remove(id)?;
        self.by_source
            .remove(std::slice::from_ref(&link.source), id);
        self.by_destination
            .remove(std::slice::from_ref(&link.destination), id);
        Some(link)
    }

    /// Confirms links that lead to a router. Returns their ids and ends.
    fn confirm(
        &mut self,
        destination: &str,
        is_meant: impl Fn(&ReportedLink) -> bool,
    ) -> Vec<(String, [String; 2])> {
        let Self {
            by_id,
            by_destination,
            ..
        } = self;
        let mut confirmed = Vec::new();
        for id in by_destination.ids(destination) {
            let link = by_id
                .get_mut(id)
                .filter(|link| !link.is_confirmed && is_meant(link));
            confirmed.extend(link.map(|link| {
                link.is_confirmed = true;
                (
                    link.id.clone(),
                    [link.source.clone(), link.destination.clone()],
                )
            }));
        }
        confirmed
    }

    fn remove_several(&mut self, ids: Vec<String>) -> Vec<ReportedLink> {
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }
}

impl ReportedLinks {
    pub(crate) fn new(online: Online) -> Self {
        Self {
            links: Mutex::default(),
            online,
        }
    }

    /// Takes in a link that `source` reports at the time `now`. A link with a higher iteration
    /// replaces one with the same id, and stays confirmed if it leads to the same router.
    pub(crate) fn report(
        &self,
        source: &str,
        reported: fabric::RouterLink,
        now: Timestamp,
    ) -> Reported {
        let fabric::RouterLink {
            id,
            destination_router_id: destination,
            protocol,
            iteration,
            ..
        } = reported;
        if ![&id, &destination, &protocol]
            .into_iter()
            .all(|text| is_text(text))
            || source == destination
        {
            return Reported::Refused;
        }
        let mut links = self.links.lock();
        match links.by_id.get(&id) {
            Some(known) if known.source != source => {
                let is_confirmation = known.destination == source && known.source == destination;
                drop(links);
                if is_confirmation && self.confirm(source, |link| link.id == id) {
                    return Reported::Confirmed;
                }
                return if is_confirmation {
                    Reported::Known
                } else {
                    Reported::Refused
                };
            }
            Some(known) if iteration <= known.iteration && known.destination == destination => {
                return Reported::Known;
            }
            // A link is dialed again with a higher iteration, so that this report is out of date or
            // false.
            Some(known) if iteration <= known.iteration => return Reported::Refused,
            Some(_) => {}
            None if links.by_source.count(source) >= MAX_LINKS => return Reported::Refused,
            None => {}
        }
        let was_confirmed = links
            .by_id
            .get(&id)
            .is_some_and(|before| before.is_confirmed && before.destination == destination);
        let is_confirmed = was_confirmed
            || links
                .accepted
                .get(&destination)
                .is_some_and(|accepted| accepted.contains(source));
        let (source, measured, counted) = (source.to_owned(), [None; 2], [[None; 2]; 2]);
        let link = ReportedLink {
            id: id.clone(),
            source,
            destination,
            protocol,
            iteration,
            since: now,
            reported: Instant::now(),
            is_confirmed,
            measured,
            counted,
        };
        let ends = [link.source.clone(), link.destination.clone()];
        let moved = links
            .insert(link)
            .filter(|before| !before.has_end(&ends[1]));
        if moved.is_some() {
            self.online.link_lost(&id, MOVED, now);
        }
        if is_confirmed {
            self.online.link_opened(&id, ends);
        }
        moved.map_or(Reported::Added, |before| Reported::Moved(Box::new(before)))
    }

    /// Confirms the links to a router that `is_meant` selects, because the router says so. Returns
    /// whether one was not confirmed before.
    pub(crate) fn confirm(
        &self,
        destination: &str,
        is_meant: impl Fn(&ReportedLink) -> bool,
    ) -> bool {
        let mut links = self.links.lock();
        let confirmed = links.confirm(destination, is_meant);
        let is_any = !confirmed.is_empty();
        for (id, ends) in confirmed {
            self.online.link_opened(&id, ends);
        }
        is_any
    }

    /// Records that a router accepts links from another one, which confirms those that are
    /// reported. Returns whether there are any.
    pub(crate) fn accepted(&self, router: &str, source: &str) -> bool {
        self.links
            .lock()
            .accepted
            .entry(router.to_owned())
            .or_default()
            .insert(source.to_owned());
        self.confirm(router, |link| link.source == source)
    }

    /// Forgets from whom a router accepts links, and who accepts links from it: it was restarted,
    /// or may no longer connect.
    pub(crate) fn forget_accepted(&self, router: &str) {
        let mut links = self.links.lock();
        links.accepted.remove(router);
        links.accepted.retain(|_, accepted| {
            accepted.remove(router);
            !accepted.is_empty()
        });
    }

    /// Whether a router has not confirmed a link that leads to it.
    pub(crate) fn has_unconfirmed(&self, destination: &str) -> bool {
        let links = self.links.lock();
        links
            .by_destination
            .ids(destination)
            .any(|id| links.by_id.get(id).is_some_and(|link| !link.is_confirmed))
    }

    /// Removes a link that a router at one of its ends has lost. A report about an older iteration
    /// is ignored.
    pub(crate) fn remove(
        &self,
        id: &str,
        router: &str,
        iteration: u32,
        loss: Loss<'_>,
    ) -> Option<ReportedLink> {
        let mut links = self.links.lock();
        let is_older = |link: &ReportedLink| {
            iteration != 0 && link.iteration != 0 && iteration < link.iteration
        };
        links
            .by_id
            .get(id)
            .filter(|link| link.has_end(router) && !is_older(link))?;
        self.online.link_lost(id, loss.reason, loss.at);
        links.remove(id)
    }

    /// Removes the links that a router has dialed, except those with these ids.
    pub(crate) fn remove_dialed(
        &self,
        source: &str,
        except: &HashSet<&str>,
        loss: Loss<'_>,
    ) -> Vec<ReportedLink> {
        self.extract(loss, |links| {
            links
                .by_source
                .ids(source)
                .filter(|id| !except.contains(id.as_str()))
                .cloned()
                .collect()
        })
    }

    /// Removes the links of a router.
    pub(crate) fn remove_all_of(&self, router: &str, loss: Loss<'_>) -> Vec<ReportedLink> {
        self.extract(loss, |links| {
            links
                .by_source
                .ids(router)
                .chain(links.by_destination.ids(router))
                .cloned()
                .collect()
        })
    }

    fn extract(&self, loss: Loss<'_>, lost: impl Fn(&Links) -> Vec<String>) -> Vec<ReportedLink> {
        let mut links = self.links.lock();
        let ids = lost(&links);
        let lost = links.remove_several(ids);
        for link in &lost {
            self.online.link_lost(&link.id, loss.reason, loss.at);
        }
        lost
    }

    /// Stores the latency that a router at one end has measured. A router measures only links that
    /// it has. Returns whether the cost of the link has changed, or it is confirmed now.
    pub(crate) fn measured(&self, id: &str, router: &str, latency: Duration) -> bool {
        let is_confirmed = self.confirm(router, |link| link.id == id);
        let mut links = self.links.lock();
        let Some(link) = links.by_id.get_mut(id).filter(|link| link.has_end(router)) else {
            return false;
        };
        let before = link.cost();
        let [source, destination] = &mut link.measured;
        *(if link.source == router {
            source
        } else {
            destination
        }) = Some(latency);
        is_confirmed || link.cost() != before
    }

    /// Stores the bytes that the router at one end has sent and received.
    pub(crate) fn counted(&self, id: &str, router: &str, sent_and_received: [Option<u64>; 2]) {
        let mut links = self.links.lock();
        let Some(link) = links.by_id.get_mut(id).filter(|link| link.has_end(router)) else {
            return;
        };
        let [source, destination] = &mut link.counted;
        *(if link.source == router {
            source
        } else {
            destination
        }) = sent_and_received;
    }

    /// The cost of a link between two routers; `None` if it does not exist, is not confirmed or
    /// leads to another router.
    pub(crate) fn cost_between(&self, id: &str, ends: [&str; 2]) -> Option<u32> {
        let links = self.links.lock();
        links
            .by_id
            .get(id)
            .filter(|link| link.is_confirmed && ends.into_iter().all(|router| link.has_end(router)))
            .map(ReportedLink::cost)
    }

    pub(crate) fn find(&self, id: &str) -> Option<ReportedLink> {
        self.links.lock().by_id.get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<ReportedLink> {
        self.links.lock().by_id.values().cloned().collect()
    }
}

/// Whether a text of a router can be the id of a link or of a router, or a protocol.
pub(crate) fn is_text(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TEXT
        && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests;
