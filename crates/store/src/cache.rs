//! A cache of values that the modules above derive from records. Each value lists its dependencies:
//! the queries whose answers it was derived from. A commit that changes one of these answers
//! invalidates the value.
//!
//! Invariant: a value that is found equals what would be derived from the store now, or from the
//! store just before the last commit whose caller has not been answered yet.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{dependency::Dependency, event::Phase, opening::OpenStore};
use model::entity::Kind;

/// The number of changed dependencies that are remembered. When there are more, the whole cache is
/// cleared.
const CHANGES: usize = 1 << 16;

/// A position in the sequence of commits. Each value is derived at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNumber(u64);

/// The cache. Cheap to clone.
pub struct Cache<T>(Arc<Mutex<Entries<T>>>);

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Entries<T> {
    by_key: HashMap<String, Entry<T>>,
    /// The maximum number of values. When it is reached, the cache is cleared.
    limit: usize,
    now: CommitNumber,
    /// The last commit that changed the answer of each query.
    changed: HashMap<Dependency, CommitNumber>,
    /// Values derived before this commit are never used.
    since: CommitNumber,
}

struct Entry<T> {
    value: Arc<T>,
    dependencies: Vec<Dependency>,
    /// The last commit at which the value is known to be valid.
    at: CommitNumber,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// An empty cache that follows every change to these kinds from now on. Its values may depend
    /// on no other kind. It holds at most `limit` values.
    pub fn following(
        store: &OpenStore,
        kinds: impl Fn(Kind) -> bool + Send + Sync + 'static,
        limit: usize,
    ) -> Self {
        let entries = Entries {
            by_key: HashMap::new(),
            limit,
            now: CommitNumber(1),
            changed: HashMap::new(),
            since: CommitNumber(0),
        };
        let cache = Self(Arc::new(Mutex::new(entries)));
        let subscriber = cache.clone();
        store.subscribe(Phase::Update, move |events| {
            let events = events.iter().filter(|event| kinds(event.kind));
            let dependencies: Vec<Dependency> = events
                .flat_map(|event| event.dependencies.iter().copied())
                .collect();
            if !dependencies.is_empty() {
                subscriber.with(|entries| entries.on_commit(dependencies));
            }
        });
        let subscriber = cache.clone();
        store.online().subscribe(move |identity| {
            subscriber.with(|entries| entries.on_commit(vec![Dependency::of_connection(identity)]))
        });
        cache
    }

    /// The current commit number. Read it before beginning the transaction in which a value is
    /// derived.
    pub fn now(&self) -> CommitNumber {
        self.with(|entries| entries.now)
    }

    /// The valid value under a key.
    pub fn find(&self, key: &str) -> Option<Arc<T>> {
        self.with(|entries| entries.find(key))
    }

    /// The valid value under each of these keys, in the same order.
    pub fn find_all<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<Option<Arc<T>>> {
        self.with(|entries| keys.map(|key| entries.find(key)).collect())
    }

    /// Stores a value that was derived after commit `at` and depends on these queries.
    pub fn insert(
        &self,
        key: &str,
        value: Arc<T>,
        dependencies: Vec<Dependency>,
        at: CommitNumber,
    ) {
        self.with(|entries| {
            if entries.by_key.len() >= entries.limit && !entries.by_key.contains_key(key) {
                entries.by_key.clear();
            }
            entries.by_key.insert(
                key.to_owned(),
                Entry {
                    value,
                    dependencies,
                    at,
                },
            );
        });
    }

    fn with<R>(&self, work: impl FnOnce(&mut Entries<T>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Entries<T> {
    fn find(&mut self, key: &str) -> Option<Arc<T>> {
        let entry = self.by_key.get_mut(key)?;
        if entry.at < self.now {
            let is_unchanged = |dependency| {
                self.changed
                    .get(dependency)
                    .is_none_or(|changed| *changed <= entry.at)
            };
            if entry.at < self.since || !entry.dependencies.iter().all(is_unchanged) {
                self.by_key.remove(key);
                return None;
            }
            entry.at = self.now;
        }
        Some(entry.value.clone())
    }

    fn on_commit(&mut self, dependencies: Vec<Dependency>) {
        self.now.0 += 1;
        if self.changed.len() > CHANGES {
            self.changed.clear();
            self.by_key.clear();
            self.since = self.now;
        }
        self.changed.extend(
            dependencies
                .into_iter()
                .map(|dependency| (dependency, self.now)),
        );
    }
}
