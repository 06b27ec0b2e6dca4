//! The JSON of services as far as it is the same for everybody, kept in memory: lists of hundreds are joined from it.
//!
//! Invariant: a text is as new as the last change that was acknowledged. It goes when its record changes, and one made while something
//! changed is not kept, since it may be of the record before.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    entity::{Config, Entity, Id, Record, Service},
    error::{Error, Result},
    http::envelope::detail,
    store::{Event, Read, Store},
};

/// More than this many are not kept: about 10 MB of usual services.
const MOST: usize = 20_000;

/// A service as text.
pub struct Text {
    /// Its JSON without the closing brace, so that more members can follow.
    pub open: String,
    /// Its settings, which look different to everybody.
    pub configs: Vec<Id<Config>>,
}

impl Text {
    /// The text of a record.
    ///
    /// # Errors
    /// It has no JSON form, which is a defect.
    pub fn of(record: &Record<Service>, tx: &Read<'_>) -> Result<Self> {
        let mut open = serde_json::to_string(&detail(record, tx)?).map_err(|e| Error::Internal(format!("a service as JSON: {e}")))?;
        open.pop();
        Ok(Self { open, configs: record.spec.configs.clone() })
    }
}

/// The texts kept. Cheap to clone.
#[derive(Clone, Default)]
pub struct Texts(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    by_id: HashMap<String, Arc<Text>>,
    /// How many changes were heard of.
    changes: u64,
}

/// A moment that texts can be made at.
#[derive(Clone, Copy)]
pub struct Moment(u64);

impl Texts {
    /// No texts yet, and told of every change in a store from now on.
    pub fn following(store: &Store) -> Self {
        let texts = Self::default();
        let told = texts.clone();
        store.subscribe(move |events| told.hear(events));
        texts
    }

    /// The present; to be taken before the transaction begins that texts are made in.
    pub fn now(&self) -> Moment {
        self.with(|kept| Moment(kept.changes))
    }

    /// What is kept for each of these ids.
    pub fn find<'i>(&self, ids: impl Iterator<Item = &'i str>) -> Vec<Option<Arc<Text>>> {
        self.with(|kept| ids.map(|id| kept.by_id.get(id).cloned()).collect())
    }

    /// Keeps a text that was made at a moment, unless something changed since.
    pub fn keep(&self, id: &str, text: Arc<Text>, at: Moment) {
        self.with(|kept| {
            if kept.changes != at.0 {
                return;
            }
            if kept.by_id.len() >= MOST {
                kept.by_id.clear();
            }
            kept.by_id.insert(id.to_owned(), text);
        });
    }

    fn hear(&self, events: &[Event]) {
        let mut services = events.iter().filter(|event| event.kind == Service::KIND).peekable();
        if services.peek().is_some() {
            self.with(|kept| {
                kept.changes += 1;
                services.for_each(|event| drop(kept.by_id.remove(&event.id)));
            });
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
