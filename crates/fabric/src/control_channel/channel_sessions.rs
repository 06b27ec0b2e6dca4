//! The API sessions with which SDKs can open a channel to a router, in memory while a router is
//! connected.
//!
//! An API session is a secret: whoever has its token acts as its identity. Therefore routers learn
//! only of those that an SDK can show to them: that have a certificate for a channel and no
//! outstanding second factor. [`ChannelSession::of`] decides it, for full states and changes alike,
//! and `router_rights.rs` decides to which routers they go.

use std::collections::HashMap;

use bytes::Bytes;
use model::{
    entity::{ApiSession, AuthQuery, Id, Record, TypedLookup},
    error::Result,
};
use policy::authentication::channel_fingerprints;
use prost::Message;
use roaring::RoaringTreemap;
use store::Read;
use wire::control::edge;

/// An API session as routers are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChannelSession {
    pub id: String,
    pub token: String,
    pub identity: String,
    /// Whether it has no certificate and is that of the tunneler of a router, which is told of it
    /// itself.
    pub is_of_router: bool,
    /// Encoded for messages.
    pub encoded: Bytes,
}

impl ChannelSession {
    /// An API session in the form for routers; `None` if no SDK can open a channel with it.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn of(tx: &Read<'_>, session: &Record<ApiSession>) -> Result<Option<Self>> {
        let spec = &session.spec;
        let fingerprints = channel_fingerprints(tx, session)?;
        let is_of_router = fingerprints.is_empty();
        if is_of_router && !spec.is_of_router() {
            return Ok(None);
        }
        let policy = tx.get(tx.get(&spec.identity_id)?.spec.auth_policy())?;
        if AuthQuery::outstanding(spec, &policy.spec, tx)?
            .iter()
            .any(|query| !query.is_token())
        {
            return Ok(None);
        }
        let (id, token, identity) = (
            session.id.to_string(),
            spec.token.clone(),
            spec.identity_id.to_string(),
        );
        let message = edge::ApiSession {
            token: token.clone(),
            cert_fingerprints: fingerprints,
            id: id.clone(),
            identity_id: identity.clone(),
        };
        Ok(Some(Self {
            id,
            token,
            identity,
            is_of_router,
            encoded: message.encode_to_vec().into(),
        }))
    }

    /// The API session with this id, if it exists and is one for channels.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn find(tx: &Read<'_>, id: &str) -> Result<Option<Self>> {
        tx.find(&Id::<ApiSession>::from_text(id))?
            .map_or(Ok(None), |session| Self::of(tx, &session))
    }
}

/// All of them. Each has a row, a number that is not used again.
#[derive(Default)]
pub(crate) struct ChannelSessions {
    sessions: HashMap<u64, ChannelSession>,
    rows: HashMap<String, u64>,
    of_identity: HashMap<String, RoaringTreemap>,
    next: u64,
}

/// What has become of an API session.
#[derive(Debug)]
pub(crate) struct SessionChange {
    pub row: u64,
    /// It before the change; `None` if it was not one for channels.
    pub before: Option<ChannelSession>,
    /// It now; `None` if it is not one for channels any more.
    pub now: Option<ChannelSession>,
}

impl SessionChange {
    /// Whether routers that were told of it need to be told again.
    pub(crate) fn is_changed(&self) -> bool {
        self.before != self.now
    }

    /// The token, as routers know it.
    pub(crate) fn token(&self) -> Option<&str> {
        self.known().map(|session| session.token.as_str())
    }

    pub(crate) fn identity(&self) -> Option<&str> {
        self.known().map(|session| session.identity.as_str())
    }

    fn known(&self) -> Option<&ChannelSession> {
        self.before.as_ref().or(self.now.as_ref())
    }
}

impl ChannelSessions {
    /// Records what an API session is now. `None` if it was not one for channels and is none.
    pub(crate) fn set(&mut self, id: &str, now: Option<ChannelSession>) -> Option<SessionChange> {
        let known = self.rows.get(id).copied();
        let row = known.unwrap_or(self.next);
        let before = self.sessions.remove(&row);
        let Some(now) = now else {
            let before = before?;
            self.rows.remove(id);
            if let Some(rows) = self.of_identity.get_mut(&before.identity) {
                rows.remove(row);
                if rows.is_empty() {
                    self.of_identity.remove(&before.identity);
                }
            }
            return Some(SessionChange {
                row,
                before: Some(before),
                now: None,
            });
        };
        if known.is_none() {
            self.next += 1;
            self.rows.insert(id.to_owned(), row);
            self.of_identity
                .entry(now.identity.clone())
                .or_default()
                .insert(row);
        }
        self.sessions.insert(row, now.clone());
        Some(SessionChange {
            row,
            before,
            now: Some(now),
        })
    }

    /// Forgets all. Rows are not used again.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::default()
        };
    }

    pub(crate) fn row(&self, id: &str) -> Option<u64> {
        self.rows.get(id).copied()
    }

    pub(crate) fn find(&self, row: u64) -> Option<&ChannelSession> {
        self.sessions.get(&row)
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.rows.keys()
    }

    /// The ids of those of an identity.
    pub(crate) fn ids_of(&self, identity: &str) -> impl Iterator<Item = &str> {
        self.rows_of(identity)
            .into_iter()
            .flatten()
            .filter_map(|row| Some(self.find(row)?.id.as_str()))
    }

    /// The rows of those of an identity.
    pub(crate) fn rows_of(&self, identity: &str) -> Option<&RoaringTreemap> {
        self.of_identity.get(identity)
    }

    /// The identities that have some.
    pub(crate) fn identities(&self) -> impl Iterator<Item = &String> {
        self.of_identity.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, identity: &str) -> ChannelSession {
        ChannelSession {
            id: id.into(),
            token: format!("token-{id}"),
            identity: identity.into(),
            is_of_router: false,
            encoded: Bytes::from(id.to_owned()),
        }
    }

    #[test]
    fn rows_are_never_reused() {
        let mut all = ChannelSessions::default();
        assert!(all.set("a", None).is_none());
        let first = all.set("a", Some(session("a", "ann"))).unwrap();
        let second = all.set("b", Some(session("b", "ann"))).unwrap();
        assert!(first.is_changed() && first.before.is_none() && first.row < second.row);
        let same = all.set("a", Some(session("a", "ann"))).unwrap();
        assert!(!same.is_changed() && same.row == first.row);
        assert_eq!(all.ids_of("ann").collect::<Vec<_>>(), ["a", "b"]);
        let gone = all.set("a", None).unwrap();
        assert_eq!((gone.token(), gone.now.is_none()), (Some("token-a"), true));
        assert!(all.row("a").is_none() && all.find(first.row).is_none());
        assert!(all.set("a", Some(session("a", "ann"))).unwrap().row > second.row);
        for id in ["a", "b"] {
            assert!(all.set(id, None).is_some());
        }
        assert_eq!((all.identities().count(), all.ids().count()), (0, 0));
        all.clear();
        assert_eq!(all.set("c", Some(session("c", "eve"))).unwrap().row, 3);
    }
}
