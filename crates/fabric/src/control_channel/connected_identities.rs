//! Which identities have an SDK connected to a router: as the router reports it, or as the requests
//! of their SDKs show.

use std::{
    collections::{HashMap, HashSet},
    mem,
    time::{Duration, Instant},
};

use model::entity::{ApiSession, Id, Identity};
use parking_lot::Mutex;
use store::online::Online;

/// How long an API session counts as connected after it was seen. Routers that do not report
/// connections name the API sessions of connected SDKs once a minute.
const FRESH: Duration = Duration::from_secs(150);
/// Maximum identities and API sessions at one router.
const MAX: usize = 100_000;
/// The number of identities in a report that are taken under one lock.
const CHUNK: usize = 100;

/// The identities at one connection of a router. Each is counted in [`Online`].
#[derive(Default)]
pub(crate) struct ConnectedIdentities(Mutex<Present>);

#[derive(Default)]
struct Present {
    /// The identities that the router reports; none if it reports none.
    reported: Option<HashSet<String>>,
    /// The identity of each API session whose SDK was seen, and when.
    seen: HashMap<String, (Id<Identity>, Instant)>,
    is_closed: bool,
}

impl ConnectedIdentities {
    /// Records that an SDK with this API session is connected. Does nothing if the router reports
    /// connections.
    pub(crate) fn seen(&self, session: &Id<ApiSession>, identity: &Id<Identity>, online: &Online) {
        let mut present = self.0.lock();
        let is_full = present.seen.len() >= MAX && !present.seen.contains_key(session.as_str());
        if present.is_closed || present.reported.is_some() || is_full {
            return;
        }
        if present
            .seen
            .insert(session.to_string(), (identity.clone(), Instant::now()))
            .is_none()
        {
            online.channel_opened(identity.as_str());
        }
    }

    /// Takes a report of identities that are connected or not; a full report names all that are
    /// connected. Others, such as the writer, wait for a part of it at most.
    pub(crate) fn report(&self, identities: &[(String, bool)], is_full: bool, online: &Online) {
        let connected: HashSet<&str> = identities
            .iter()
            .filter(|(_, is_connected)| is_full && *is_connected)
            .map(|(id, _)| id.as_str())
            .collect();
        let (seen, gone) = {
            let mut present = self.0.lock();
            if present.is_closed {
                return;
            }
            let reported = present.reported.get_or_insert_default();
            let gone: Vec<String> = if is_full {
                reported
                    .extract_if(|id| !connected.contains(id.as_str()))
                    .collect()
            } else {
                Vec::new()
            };
            (mem::take(&mut present.seen), gone)
        };
        for (identity, _) in seen.into_values() {
            online.channel_closed(identity.as_str());
        }
        for identity in &gone {
            online.channel_closed(identity);
        }
        for some in identities.chunks(CHUNK) {
            // The connection may have closed meanwhile.
            let mut present = self.0.lock();
            let Some(reported) = &mut present.reported else {
                return;
            };
            for (identity, is_connected) in some {
                if !is_connected {
                    if reported.remove(identity) {
                        online.channel_closed(identity);
                    }
                } else if reported.len() < MAX && !reported.contains(identity) {
                    online.channel_opened(identity);
                    reported.insert(identity.clone());
                }
            }
        }
    }

    /// Forgets an API session that has ended.
    pub(crate) fn ended(&self, session: &Id<ApiSession>, online: &Online) {
        if let Some((identity, _)) = self.0.lock().seen.remove(session.as_str()) {
            online.channel_closed(identity.as_str());
        }
    }

    /// Forgets API sessions that were not seen lately.
    pub(crate) fn expire(&self, online: &Online) {
        let old = |_: &String, (_, at): &mut (Id<Identity>, Instant)| at.elapsed() > FRESH;
        for (_, (identity, _)) in self.0.lock().seen.extract_if(old) {
            online.channel_closed(identity.as_str());
        }
    }

    /// Forgets everything and ignores later reports: the connection of the router has ended.
    pub(crate) fn close(&self, online: &Online) {
        let mut present = self.0.lock();
        present.is_closed = true;
        for (_, (identity, _)) in present.seen.drain() {
            online.channel_closed(identity.as_str());
        }
        for identity in present.reported.take().into_iter().flatten() {
            online.channel_closed(&identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_come_and_go() {
        let (online, connected) = (Online::default(), ConnectedIdentities::default());
        let (session, ann) = (Id::from_text("s"), Id::from_text("ann"));
        connected.seen(&session, &ann, &online);
        connected.seen(&session, &ann, &online);
        assert!(online.identity("ann"));
        connected.ended(&session, &online);
        assert!(!online.identity("ann"));
        connected.seen(&session, &ann, &online);
        connected.report(
            &[("bob".into(), true), ("eve".into(), false)],
            true,
            &online,
        );
        assert!(online.identity("bob") && !online.identity("ann") && !online.identity("eve"));
        connected.seen(&session, &ann, &online);
        connected.report(&[("ann".into(), true)], false, &online);
        assert!(online.identity("ann") && online.identity("bob"));
        connected.report(&[("ann".into(), true)], true, &online);
        assert!(online.identity("ann") && !online.identity("bob"));
        connected.close(&online);
        connected.report(&[("ann".into(), true)], true, &online);
        assert!(!online.identity("ann"));
    }
}
