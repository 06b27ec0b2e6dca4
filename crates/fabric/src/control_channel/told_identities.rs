//! The identities that routers from version 2 on are told of: those of the API sessions that they
//! know.
//!
//! Such a router looks for the identity of each SDK that dials or hosts in its data model, logs an
//! error if it is not there, and closes the channels of an identity that goes from there. It needs
//! the id alone, which it learns with the API session as well; the name is the id again.
//!
//! Invariants: a router is told of an identity before the first of its API sessions, and of its end
//! after the end of the last one. A whole data model replaces what the router was told, therefore
//! it has these identities, too. The identity of the router itself is only in whole models, with
//! its hosting costs and configs.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use prost::Message;
use wire::{
    control::{
        content,
        model::{Action, ChangeSet, Event, Identity, Model},
    },
    frame::{Builder, Frame},
};

use super::{
    announced_sessions::AnnouncedSessions, channel_sessions::ChannelSessions,
    connection::RouterConnection,
};

/// Whether a router is told of identities.
pub(crate) fn takes(connection: &RouterConnection) -> bool {
    connection.group.is_some() && connection.has_data_model.load(Ordering::Acquire)
}

/// The message to a router that adds or ends identities. `None` if there is nothing to tell.
pub(crate) fn message<'i>(
    connection: &RouterConnection,
    action: Action,
    ids: impl Iterator<Item = &'i str>,
) -> Option<Arc<Frame>> {
    if !takes(connection) {
        return None;
    }
    // Each once.
    let ids: BTreeSet<&str> = ids.filter(|id| *id != connection.router).collect();
    let changes: Vec<Event> = ids.into_iter().map(|id| event(action, id)).collect();
    let changes = (!changes.is_empty()).then(|| ChangeSet {
        is_synthetic: true,
        changes,
        ..ChangeSet::default()
    });
    changes
        .map(|changes| Arc::new(Builder::new(content::CHANGE_SET).body(&changes.encode_to_vec())))
}

/// What the data model of a router has of the identities of these API sessions.
pub(crate) fn events(
    connection: &RouterConnection,
    announced: &AnnouncedSessions,
    sessions: &ChannelSessions,
) -> Vec<Event> {
    let rows = announced.all();
    let ids = rows
        .iter()
        .filter_map(|row| Some(sessions.find(row)?.identity.as_str()));
    let ids: BTreeSet<&str> = ids.filter(|id| *id != connection.router).collect();
    ids.into_iter()
        .map(|id| event(Action::Create, id))
        .collect()
}

/// Which of some identities have no API session left that the router knows.
pub(crate) fn gone<'i>(
    ids: BTreeSet<&'i str>,
    announced: &AnnouncedSessions,
    sessions: &ChannelSessions,
) -> Vec<&'i str> {
    ids.into_iter()
        .filter(|id| {
            !sessions
                .rows_of(id)
                .is_some_and(|rows| announced.has_any(rows))
        })
        .collect()
}

fn event(action: Action, id: &str) -> Event {
    let identity = Identity {
        id: id.to_owned(),
        name: id.to_owned(),
        ..Identity::default()
    };
    Event {
        action: action.into(),
        is_synthetic: true,
        model: Some(Model::Identity(identity)),
    }
}
