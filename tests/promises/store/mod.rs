//! What the store promises to the modules above it, tested with two kinds made for these tests.

mod disk_failures;
mod dry_runs;
mod files;
mod reads;
mod stored_records;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    time::{Duration, Instant},
};

use model::{
    clock::{Clock, Timestamp},
    entity::{
        Entity, Field, FilterNames, HistoryClass, HistoryRow, Id, Kind, Lookup, OnDelete, Record,
        Reference, Roles, SpecEncoding, Stateful, Stored, TypedLookup,
    },
    error::{Error, Result},
};
use proptest::{collection::vec, prelude::*};
use query::{FilterTarget, Query, Sort, Type, Value, Window, compare};
use redb::{
    Database, ReadableDatabase, StorageBackend, TableDefinition, backends::InMemoryBackend,
};
use serde::{Deserialize, Serialize};
use store::{
    Cache, Candidates, DependencyRecorder, Event, KindEntry, ListPlan, NEWEST, OpenError, Options,
    Phase, Progress, Read, Report, Scope, Store, Tx, decode, encode,
};
use tempfile::TempDir;

use crate::{
    harness::{Rng, stores},
    simulated_disk::{DiskFault, SimulatedDisk},
};

#[path = "../../../crates/query/tests/language/lists/order.rs"]
mod order;

/// A kind that others refer to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Team {
    pub name: String,
}

impl Stateful for Team {
    type State = ();
}

impl Entity for Team {
    const KIND: Kind = Kind {
        name: "team",
        path: "teams",
        noun: "team",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::every("name", |r| (&r.spec.name).into())];
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

/// A kind with every type of field and reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    pub roles: Roles,
    pub weight: i64,
    pub due: Option<i64>,
    /// Restrict.
    pub team: Option<Id<Team>>,
    /// Cascade.
    pub parent: Option<Id<Task>>,
    /// Clear.
    pub after: Vec<Id<Task>>,
}

impl Stateful for Task {
    type State = u32;
}

impl Entity for Task {
    const KIND: Kind = Kind {
        name: "task",
        path: "tasks",
        noun: "task",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("name", Type::Text, |r| (&r.spec.name).into()),
        Field::indexed("roles", Type::Set, |r| (&r.spec.roles).into()),
        Field::plain("weight", Type::Number, |r| r.spec.weight.into()),
        Field::plain("due", Type::Date, |r| {
            r.spec.due.map_or(Value::Null, Value::Date)
        }),
        Field::every("label", |r| format!("{}/{}", r.spec.name, r.id).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Team>(
            "team",
            |r| r.spec.team.iter().map(Id::as_str).collect(),
            OnDelete::Restrict,
        ),
        Reference::to::<Task>(
            "parent",
            |r| r.spec.parent.iter().map(Id::as_str).collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<Task>(
            "after",
            |r| r.spec.after.iter().map(Id::as_str).collect(),
            OnDelete::Clear(|r, id| r.spec.after.retain(|other| other.as_str() != id)),
        ),
    ];
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

pub static KINDS: &[KindEntry] = &[KindEntry::of::<Team>(), KindEntry::of::<Task>()];

pub fn task(id: &str) -> Record<Task> {
    Record::new(
        Id::from_text(id),
        Timestamp::from_millis(1_000),
        Task {
            name: format!("task {id}"),
            ..Task::default()
        },
    )
}

fn team(id: &str) -> Record<Team> {
    Record::new(
        Id::from_text(id),
        Timestamp::from_millis(1_000),
        Team {
            name: format!("team {id}"),
        },
    )
}

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records.task");

/// Damages tasks of a closed file.
fn damage(directory: &TempDir, ids: &[&str]) {
    let database = Database::open(directory.path().join("data")).unwrap();
    let transaction = database.begin_write().unwrap();
    ids.iter().for_each(|id| {
        drop(
            transaction
                .open_table(RECORDS)
                .unwrap()
                .insert(id.as_bytes(), b"?".as_slice())
                .unwrap(),
        )
    });
    transaction.commit().unwrap();
}

fn open(directory: &TempDir) -> Store {
    stores::of(KINDS).start(&directory.path().join("data"))
}

fn fresh() -> Store {
    stores::of(KINDS).in_memory()
}

fn with_tasks(tasks: Vec<Record<Task>>) -> Store {
    let store = fresh();
    insert(&store, tasks);
    store
}

fn insert(store: &Store, tasks: Vec<Record<Task>>) {
    store
        .write_blocking(|tx| tasks.into_iter().try_for_each(|task| tx.insert(task)))
        .unwrap();
}

/// Asserts that the index has exactly the rows of the existing records.
pub fn assert_index_consistent(store: &Store) {
    assert_eq!(
        store.check(&Progress::default()).unwrap(),
        Report::default()
    );
}

fn all_ids(store: &Store) -> Vec<String> {
    let mut ids = Vec::new();
    store
        .read(|tx| {
            tx.each::<Task>(|task| {
                ids.push(task.id.to_string());
                Ok(())
            })
        })
        .unwrap();
    ids
}

type Job<T> = Box<dyn FnOnce(&Tx<'_>) -> Result<T> + Send>;

/// Queues jobs while the writer is blocked, so that they share a group. Returns their answers in
/// order.
fn in_one_group<T: Send + 'static>(store: &Store, jobs: Vec<Job<T>>) -> Vec<Result<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (started, has_started) = channel();
    let (release, wait) = channel::<()>();
    let held = store.clone();
    let holder = std::thread::spawn(move || {
        held.write_blocking(move |_| {
            started.send(()).unwrap();
            wait.recv().unwrap();
            Ok(())
        })
    });
    has_started.recv().unwrap();
    let answers = runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        let waiting: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let store = store.clone();
                local.spawn_local(async move { store.write(job).await })
            })
            .collect();
        local.spawn_local(async move { release.send(()).unwrap() });
        local.await;
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        answers
    });
    let _ = holder.join().unwrap();
    answers
}

/// Asserts that a record has exactly these bytes on disk and that they decode to it.
pub fn golden<E: Entity>(record: &Record<E>, hex: &str) {
    let bytes = encode(record).unwrap();
    let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        shown,
        hex,
        "the stored bytes of a {} have changed: increment VERSION and keep the old struct",
        E::KIND.name
    );
    let again = decode::<E>(record.id.as_str(), &bytes).unwrap();
    assert_eq!(encode(&again).unwrap(), bytes);
}

/// Memory that tracks unsynced writes and can be made to fail syncs.
#[derive(Debug, Default, Clone)]
struct Faulty(Arc<(InMemoryBackend, AtomicBool, AtomicBool, AtomicUsize)>);

impl Faulty {
    fn unsynced(&self) -> bool {
        self.0.1.load(SeqCst)
    }
    fn start_failing(&self) {
        self.0.2.store(true, SeqCst);
    }
    fn stop_failing(&self) {
        self.0.2.store(false, SeqCst);
    }
    fn syncs(&self) -> usize {
        self.0.3.load(SeqCst)
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.0.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.0.2.load(SeqCst) {
            return Err(io::Error::other("the disk fails"));
        }
        self.0.3.fetch_add(1, SeqCst);
        self.0.1.store(false, SeqCst);
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.1.store(true, SeqCst);
        self.0.0.write(offset, data)
    }
}
