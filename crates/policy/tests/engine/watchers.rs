//! Identities that watch their services, and what they are told of changes.

use std::collections::{BTreeMap, BTreeSet};

use policy::access::{
    Engine,
    PolicyEntityKind::{self, Identity, PostureCheck, Service},
};

use crate::{
    histories::Event,
    rules::{Model, Visible},
};

/// What an identity was shown, and whether it was notified of every change since.
#[derive(Default)]
pub struct Watcher {
    shown: Visible,
    touched: BTreeSet<(PolicyEntityKind, String)>,
    moved: bool,
    told: Option<u64>,
}

impl Watcher {
    pub fn look(&mut self, visible: Visible) {
        let seen = |(subject, id): &(PolicyEntityKind, String)| match subject {
            Service => visible.iter().any(|(_, service, _)| service == id),
            PostureCheck => visible.iter().any(|(_, _, checks)| checks.contains(id)),
            _ => false,
        };
        self.moved |= visible != self.shown || self.touched.iter().any(seen);
        self.touched.clear();
        self.shown = visible;
    }
}

#[derive(Default)]
pub struct Watchers(BTreeMap<String, Watcher>);

impl Watchers {
    pub fn notice(&mut self, event: &Event, model: &Model) {
        match event {
            Event::Remove(Identity, id) => _ = self.0.remove(id),
            Event::Remove(subject, id) => self
                .0
                .values_mut()
                .for_each(|watcher| _ = watcher.touched.remove(&(*subject, id.clone()))),
            Event::Touch(Identity, id) => self
                .look(id, model)
                .into_iter()
                .for_each(|watcher| watcher.moved = true),
            Event::Touch(subject, id) if model.subjects.contains_key(&(*subject, id.clone())) => {
                self.0
                    .values_mut()
                    .for_each(|watcher| _ = watcher.touched.insert((*subject, id.clone())));
            }
            Event::Look(id) => _ = self.look(id, model),
            _ => {}
        }
    }

    pub fn look(&mut self, id: &str, model: &Model) -> Option<&mut Watcher> {
        model.subjects.get(&(Identity, id.to_string()))?;
        let visible = model.visible(id);
        let first_sight = || Watcher {
            shown: visible.clone(),
            ..Watcher::default()
        };
        let watcher = self.0.entry(id.to_string()).or_insert_with(first_sight);
        watcher.look(visible);
        Some(watcher)
    }

    pub fn ask(&mut self, id: &str, model: &Model, engine: &mut Engine) {
        let otherwise = 7;
        let answer = engine.last_change_at(id, otherwise);
        let Some(watcher) = self.look(id, model) else {
            return assert_eq!(answer, otherwise);
        };
        match (watcher.moved, watcher.told) {
            (true, Some(told)) => assert!(answer > told, "{answer} should have moved past {told}"),
            (true, None) => assert!(answer > 0),
            (false, told) => assert_eq!(answer, told.unwrap_or(otherwise)),
        }
        (watcher.moved, watcher.told) = (false, Some(answer));
    }
}
