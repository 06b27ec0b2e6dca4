//! Which routers may learn of API sessions and act for them: those that the identity may use, by
//! the policies between identities and routers. A router acts for its own tunneler as well.
//!
//! Rights of many identities at many routers are compared as bitmaps: identities with the same
//! roles share one, and a row of it is asked for, instead of each pair of identity and router.

use std::{collections::HashMap, sync::Arc};

use policy::access::PolicyEntityKind;
use roaring::{RoaringBitmap, RoaringTreemap};

use super::{
    channel_sessions::{ChannelSession, ChannelSessions},
    connection::RouterConnection,
    control_core::ControlCore,
};

/// Maximum identities that the access engine is asked for at once, because its lock is held
/// meanwhile.
pub(crate) const MAX_ASKED: usize = 500;

/// What the access engine says about some identities and routers at one moment.
pub(crate) struct RouterRights {
    /// The row of each router; `None` if it is no edge router.
    routers: Vec<Option<u32>>,
    /// The rows of the routers that each identity may use.
    identities: Vec<Option<Arc<RoaringBitmap>>>,
}

impl RouterRights {
    /// Whether the identity at one position may use the router at another one.
    pub(crate) fn may(&self, identity: usize, router: usize) -> bool {
        let row = self.routers.get(router).copied().flatten();
        let of_identity = self.identities.get(identity).and_then(Option::as_ref);
        row.zip(of_identity)
            .is_some_and(|(row, of_identity)| of_identity.contains(row))
    }
}

impl ControlCore {
    /// The rights of at most [`MAX_ASKED`] identities at routers.
    pub(crate) fn rights_at<'r>(
        &self,
        routers: impl Iterator<Item = &'r str>,
        identities: &[&str],
    ) -> RouterRights {
        self.network.authorizer.access.ask(|engine| RouterRights {
            routers: routers
                .map(|router| engine.row(PolicyEntityKind::EdgeRouter, router))
                .collect(),
            identities: identities
                .iter()
                .map(|identity| engine.usable_edge_routers(identity))
                .collect(),
        })
    }

    /// Which of at most [`MAX_ASKED`] identities may use a router, or are its own.
    pub(crate) fn may_use(&self, router: &str, identities: &[&str]) -> Vec<bool> {
        let rights = self.rights_at([router].into_iter(), identities);
        identities
            .iter()
            .enumerate()
            .map(|(at, identity)| *identity == router || rights.may(at, 0))
            .collect()
    }

    /// Whether a router may know an API session.
    pub(crate) fn may_know(&self, router: &str, session: &ChannelSession) -> bool {
        if session.is_of_router {
            session.identity == router
        } else {
            self.may_use(router, &[&session.identity]) == [true]
        }
    }

    /// The API sessions that each of these routers may know.
    pub(crate) fn known_to(&self, connections: &[&Arc<RouterConnection>]) -> Vec<RoaringTreemap> {
        let mut known: Vec<RoaringTreemap> = {
            let sessions = self.channel_sessions.read();
            connections
                .iter()
                .map(|connection| of_tunneler(&sessions, &connection.router))
                .collect()
        };
        let identities: Vec<String> = self.channel_sessions.read().identities().cloned().collect();
        for some in identities.chunks(MAX_ASKED) {
            let asked: Vec<&str> = some.iter().map(String::as_str).collect();
            let RouterRights {
                routers,
                identities,
            } = self.rights_at(
                connections
                    .iter()
                    .map(|connection| connection.router.as_str()),
                &asked,
            );
            let mut alike: HashMap<*const RoaringBitmap, (&RoaringBitmap, RoaringTreemap)> =
                HashMap::new();
            let sessions = self.channel_sessions.read();
            for (identity, usable) in asked.into_iter().zip(&identities) {
                let Some((usable, rows)) = usable.as_ref().zip(sessions.rows_of(identity)) else {
                    continue;
                };
                let of_alike = &mut alike
                    .entry(Arc::as_ptr(usable))
                    .or_insert_with(|| (usable, RoaringTreemap::new()))
                    .1;
                of_alike.extend(rows.iter().filter(|row| {
                    sessions
                        .find(*row)
                        .is_some_and(|session| !session.is_of_router)
                }));
            }
            drop(sessions);
            for (known, row) in known.iter_mut().zip(routers) {
                let Some(row) = row else { continue };
                for (_, rows) in alike.values().filter(|(usable, _)| usable.contains(row)) {
                    *known |= rows;
                }
            }
        }
        known
    }
}

/// The API sessions of the tunneler of a router.
fn of_tunneler(sessions: &ChannelSessions, router: &str) -> RoaringTreemap {
    let own = sessions.rows_of(router).into_iter().flatten();
    own.filter(|row| {
        sessions
            .find(*row)
            .is_some_and(|session| session.is_of_router)
    })
    .collect()
}
