//! The cache of the JSON of records, as far as the JSON is the same for every caller. Lists are
//! concatenated from cached texts; details are sent as cached.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    entity::{Config, Entity, Id, Record, Service, TypedLookup},
    error::{Error, Result},
    http::{
        envelope::{Detail, detail},
        list_part::Part,
    },
    store::{Cache, CommitNumber, Dependency, DependencyRecorder, OpenStore, Read},
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

/// The cached texts. Cheap to clone.
#[derive(Clone)]
pub struct JsonCache {
    services: Cache<ServiceJson>,
    /// By the path of the kind and the id.
    records: Cache<Box<RawValue>>,
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

    /// A record as its kind shows it.
    ///
    /// # Errors
    /// A record that the view needs cannot be read.
    pub fn detail<E: Entity>(
        &self,
        record: &Record<E>,
        tx: &Read<'_>,
        at: Present,
    ) -> Result<CachedJson<Detail<E::View>>> {
        let key = key::<E>(record.id.as_str());
        let known = self.records.find(&key);
        Ok(CachedJson(
            known.map_or_else(|| self.record(record, &key, tx, at), Ok)?,
            PhantomData,
        ))
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
                if let Some(text) = known {
                    part.add(&[text.get().as_bytes()]);
                } else if let Some(record) = tx.find(&Id::<E>::from_text(id))? {
                    part.add(&[self.record(&record, key, tx, at)?.get().as_bytes()]);
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
    ) -> Result<Arc<Box<RawValue>>> {
        let lookup = DependencyRecorder::new(tx);
        let CachedJson(text, _) = CachedJson::of(&detail(record, &lookup)?)?;
        if let Some(mut dependencies) = lookup
            .dependencies()
            .filter(|_| text.get().len() <= MAX_CACHED_LENGTH)
        {
            dependencies.push(Dependency::of_record(E::KIND, record.id.as_str()));
            self.records
                .insert(key, text.clone(), dependencies, at.records);
        }
        Ok(text)
    }
}

fn key<E: Entity>(id: &str) -> String {
    format!("{}/{id}", E::KIND.path)
}
