//! The cache of the JSON of records, as far as the JSON is the same for every caller. Lists are
//! concatenated from cached texts; details are sent as cached.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use model::{
    entity::{Config, Entity, Id, Record, Service, TypedLookup},
    error::{Error, Result},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use store::{Cache, CommitNumber, Dependency, DependencyRecorder, OpenStore, Read};

use crate::{
    answer::Tagged,
    conditional::entity_tag,
    envelope::{Detail, detail},
    list_part::Part,
};

/// The maximum number of cached services: about 10 MB of typical ones.
const SERVICES: usize = 20_000;
/// The maximum number of other cached records: about 20 MB of the largest, identities.
const RECORDS: usize = 10_000;

/// Longer texts are not cached.
const MAX_CACHED_LENGTH: usize = 4096;
/// The number of texts looked up at a time.
pub(crate) const SOME: usize = 500;

/// A service as JSON.
pub struct ServiceJson {
    /// JSON without the closing brace, so that members can be appended.
    pub open: String,
    /// The ids of the configs of the service. Their data is shown differently to each caller.
    pub configs: Vec<Id<Config>>,
}

impl ServiceJson {
    /// The text of a record.
    ///
    /// # Errors
    /// The record cannot be serialized, which is a defect.
    pub fn of(record: &Record<Service>, tx: &Read<'_>) -> Result<Self> {
        let mut open = serde_json::to_string(&detail(record, tx)?)
            .map_err(|e| Error::Internal(format!("cannot write a service as JSON: {e}")))?;
        open.pop();
        Ok(Self {
            open,
            configs: record.spec.configs.clone(),
        })
    }
}

/// A `T` in serialized form.
pub struct CachedJson<T>(Arc<Box<RawValue>>, PhantomData<fn() -> T>);

impl<T> Clone for CachedJson<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T: Serialize> CachedJson<T> {
    /// Serializes a value.
    ///
    /// # Errors
    /// The value cannot be serialized, which is a defect.
    pub fn of(what: &T) -> Result<Self> {
        to_raw_value(what)
            .map(|text| Self(Arc::new(text), PhantomData))
            .map_err(|e| Error::Internal(format!("cannot write a record as JSON: {e}")))
    }
}

impl<T: JsonSchema> JsonSchema for CachedJson<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T> Serialize for CachedJson<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A record as JSON, with the entity tag of the same version of it. During a commit a cached text
/// may be older than what the store already answers. A tag of the newer version beside it would let
/// a client overwrite a change that it has not seen.
struct RecordJson {
    text: Arc<Box<RawValue>>,
    tag: String,
}

/// The cached texts. Cheap to clone.
#[derive(Clone)]
pub struct JsonCache {
    services: Cache<ServiceJson>,
    /// By the path of the kind and the id.
    records: Cache<RecordJson>,
}

/// The commit numbers at a moment before the transaction in which texts are made.
#[derive(Clone, Copy)]
pub struct Present {
    services: CommitNumber,
    records: CommitNumber,
}

impl JsonCache {
    /// An empty cache that follows the changes of a store.
    pub fn following(store: &OpenStore) -> Self {
        Self {
            services: Cache::following(store, |kind| kind == Service::KIND, SERVICES),
            records: Cache::following(store, |_| true, RECORDS),
        }
    }

    /// The present commit numbers. They must be taken before the transaction in which texts are
    /// made.
    pub fn now(&self) -> Present {
        Present {
            services: self.services.now(),
            records: self.records.now(),
        }
    }

    /// The cached texts of these services.
    pub fn services<'i>(
        &self,
        ids: impl Iterator<Item = &'i str>,
    ) -> Vec<Option<Arc<ServiceJson>>> {
        self.services.find_all(ids)
    }

    /// The text of a service. The text is cached.
    ///
    /// # Errors
    /// Those of [`ServiceJson::of`].
    pub fn service(
        &self,
        record: &Record<Service>,
        tx: &Read<'_>,
        at: Present,
    ) -> Result<Arc<ServiceJson>> {
        let (id, text) = (record.id.as_str(), Arc::new(ServiceJson::of(record, tx)?));
        if text.open.len() <= MAX_CACHED_LENGTH {
            self.services.insert(
                id,
                text.clone(),
                vec![Dependency::of_record(Service::KIND, id)],
                at.services,
            );
        }
        Ok(text)
    }

    /// A record as its kind shows it, with its entity tag.
    ///
    /// # Errors
    /// There is no such record; a record that the view needs cannot be read.
    pub(crate) fn detail<E: Entity>(
        &self,
        id: &Id<E>,
        tx: &Read<'_>,
        at: Present,
    ) -> Result<Tagged<CachedJson<Detail<E::View>>>> {
        let key = key::<E>(id.as_str());
        let record = match self.records.find(&key) {
            Some(known) => known,
            None => self.record(&tx.get(id)?, &key, tx, at)?,
        };
        Ok(Tagged {
            data: CachedJson(record.text.clone(), PhantomData),
            tag: record.tag.clone(),
        })
    }

    /// Writes records as their kind shows them.
    ///
    /// # Errors
    /// A record that a view needs cannot be read.
    pub fn write<E: Entity>(&self, tx: &Read<'_>, at: Present, part: &mut Part<'_>) -> Result<()> {
        loop {
            let keys: Vec<String> = part.ahead(SOME).into_iter().map(key::<E>).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let known = self.records.find_all(keys.iter().map(String::as_str));
            for (key, known) in keys.iter().zip(known) {
                let Some(id) = part.next() else { return Ok(()) };
                if let Some(known) = known {
                    part.add(&[known.text.get().as_bytes()]);
                } else if let Some(record) = tx.find(&Id::<E>::from_text(id))? {
                    let record = self.record(&record, key, tx, at)?;
                    part.add(&[record.text.get().as_bytes()]);
                }
            }
        }
    }

    fn record<E: Entity>(
        &self,
        record: &Record<E>,
        key: &str,
        tx: &Read<'_>,
        at: Present,
    ) -> Result<Arc<RecordJson>> {
        let lookup = DependencyRecorder::new(tx);
        let CachedJson(text, _) = CachedJson::of(&detail(record, &lookup)?)?;
        let tag = entity_tag(record)?;
        let made = Arc::new(RecordJson { text, tag });
        if let Some(mut dependencies) = lookup
            .dependencies()
            .filter(|_| made.text.get().len() <= MAX_CACHED_LENGTH)
        {
            dependencies.push(Dependency::of_record(E::KIND, record.id.as_str()));
            self.records
                .insert(key, made.clone(), dependencies, at.records);
        }
        Ok(made)
    }
}

fn key<E: Entity>(id: &str) -> String {
    format!("{}/{id}", E::KIND.path)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use model::{clock::Timestamp, entity::ConfigType};
    use policy::change::KINDS;
    use redb::backends::InMemoryBackend;
    use store::{Options, Phase, Store};

    use super::*;

    fn version(name: &str) -> Record<ConfigType> {
        let spec = ConfigType {
            name: name.into(),
            schema: None,
        };
        Record::new(Id::from_text("x"), Timestamp::from_millis(1), spec)
    }

    #[test]
    fn cached_texts_keep_their_own_tag() {
        let opened = Store::open_on(InMemoryBackend::new(), KINDS, Options::default()).unwrap();
        let reader = opened.reader().clone();
        let cache: Arc<Mutex<Option<JsonCache>>> = Arc::default();
        let read = {
            let cache = cache.clone();
            move || {
                let cache = cache.lock().unwrap().clone().unwrap();
                let at = cache.now();
                let read =
                    reader.read(|tx| cache.detail(&Id::<ConfigType>::from_text("x"), tx, at));
                read.map(|found| (found.data.0.to_string(), found.tag))
                    .unwrap()
            }
        };
        // Listeners are called in order, so that this one reads before the cache knows of the
        // change.
        let during = Arc::new(Mutex::new(Vec::new()));
        let (seen, early) = (during.clone(), read.clone());
        opened.subscribe(Phase::Update, move |_| seen.lock().unwrap().push(early()));
        *cache.lock().unwrap() = Some(JsonCache::following(&opened));
        let store = opened.start().unwrap();

        store
            .write_blocking(|tx| tx.insert(version("old")))
            .unwrap();
        let old = read();
        store.write_blocking(|tx| tx.put(version("new"))).unwrap();
        let new = read();
        assert!(old.0.contains("\"old\"") && new.0.contains("\"new\""));
        assert_ne!(old.1, new.1);
        assert_eq!(during.lock().unwrap().last(), Some(&old));
    }
}
