//! Random histories of changes, and what the engine is told of each.

use policy::access::{
    Delta, Engine,
    MatchRule::{AllOf, AnyOf},
    Policy,
    PolicyEntityKind::{self, EdgeRouter, Identity, PostureCheck, Service},
    PolicyKind,
    Right::Dial,
};
use proptest::prelude::*;

use crate::rules::{PolicyState, RIGHTS, words};

#[derive(Clone, Debug)]
pub enum Event {
    Put(PolicyEntityKind, String, Vec<String>),
    Remove(PolicyEntityKind, String),
    Write(PolicyKind, String, PolicyState),
    Erase(PolicyKind, String),
    Touch(PolicyEntityKind, String),
    Look(String),
    Ask(String),
    /// Previewed only.
    Try(Vec<Event>),
}

pub fn policy(kind: PolicyKind, written: &PolicyState) -> Policy {
    let [first, second, third] = written.lists.clone();
    match kind {
        PolicyKind::Service => {
            Policy::service(written.right, written.semantic, first, second, third)
        }
        PolicyKind::EdgeRouter => Policy::edge_router(written.semantic, first, second),
        PolicyKind::ServiceEdgeRouter => {
            Policy::service_edge_router(written.semantic, first, second)
        }
    }
}

pub fn news(events: &[Event]) -> Vec<Delta> {
    let news = |event: &Event| match event.clone() {
        Event::Put(kind, id, roles) => Some(Delta::Subject {
            kind,
            id,
            roles: Some(roles),
        }),
        Event::Remove(kind, id) => Some(Delta::Subject {
            kind,
            id,
            roles: None,
        }),
        Event::Write(kind, id, written) => Some(Delta::Policy {
            kind,
            id,
            policy: Some(policy(kind, &written)),
        }),
        Event::Erase(kind, id) => Some(Delta::Policy {
            kind,
            id,
            policy: None,
        }),
        Event::Touch(..) | Event::Look(_) | Event::Ask(_) | Event::Try(_) => None,
    };
    events.iter().filter_map(news).collect()
}

pub fn apply(engine: &mut Engine, event: &Event, now: u64) {
    match event {
        Event::Put(..) | Event::Remove(..) | Event::Write(..) | Event::Erase(..) => {
            news(std::slice::from_ref(event))
                .iter()
                .for_each(|news| engine.apply(news, now));
        }
        Event::Try(events) => _ = engine.difference(&news(events), 1),
        Event::Touch(Identity, id) => engine.identity_changed(id, now),
        Event::Touch(PostureCheck, id) => engine.posture_check_changed(id, now),
        Event::Touch(_, id) => engine.service_changed(id, now),
        Event::Look(id) => _ = engine.services(id, Dial),
        Event::Ask(_) => {}
    }
}

pub fn id() -> impl Strategy<Value = String> {
    (0..5).prop_map(|n| format!("x{n}"))
}

pub fn subject() -> impl Strategy<Value = PolicyEntityKind> {
    prop::sample::select(vec![
        Identity,
        Identity,
        Service,
        Service,
        EdgeRouter,
        PostureCheck,
    ])
}

pub fn touchable() -> impl Strategy<Value = PolicyEntityKind> {
    prop::sample::select(vec![Identity, Service, PostureCheck])
}

pub fn kind() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(vec![
        PolicyKind::Service,
        PolicyKind::Service,
        PolicyKind::EdgeRouter,
        PolicyKind::ServiceEdgeRouter,
    ])
}

pub fn roles() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(words("a b c d e")), 0..4)
}

pub fn list() -> impl Strategy<Value = Vec<String>> {
    let entry = prop::sample::select(words("#a #a #b #b #c #d #e @x0 @x1 @x2 @x4 @ghost"));
    prop_oneof![8 => prop::collection::vec(entry, 0..4), 1 => Just(words("#all"))]
}

pub fn written() -> impl Strategy<Value = PolicyState> {
    let semantic = prop::sample::select(vec![AllOf, AnyOf]);
    let right = prop::sample::select(RIGHTS.to_vec());
    (semantic, right, [list(), list(), list()]).prop_map(|(semantic, right, lists)| PolicyState {
        semantic,
        right,
        lists,
    })
}

pub fn change() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (subject(), id(), roles()).prop_map(|(subject, id, roles)| Event::Put(subject, id, roles)),
        1 => (subject(), id()).prop_map(|(subject, id)| Event::Remove(subject, id)),
        3 => (kind(), id(), written()).prop_map(|(kind, id, policy)| Event::Write(kind, id, policy)),
        1 => (kind(), id()).prop_map(|(kind, id)| Event::Erase(kind, id)),
    ]
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        18 => change(),
        2 => prop::collection::vec(change(), 1..5).prop_map(Event::Try),
        2 => (touchable(), id()).prop_map(|(subject, id)| Event::Touch(subject, id)),
        1 => id().prop_map(Event::Look),
        6 => id().prop_map(Event::Ask),
    ]
}
