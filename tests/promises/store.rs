//! What the store promises to the modules above it, tested with two kinds made for these tests.

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

use overkeep::testing::{
    clock::{Clock, Timestamp},
    entity::{
        Entity, Field, FilterNames, HistoryClass, HistoryRow, Id, Kind, Lookup, OnDelete, Record,
        Reference, Roles, SpecEncoding, Stateful, Stored, TypedLookup,
    },
    error::{Error, Result},
    store::{
        Cache, Candidates, DependencyRecorder, Event, KindEntry, ListPlan, NEWEST, OpenError,
        Options, Phase, Progress, Read, Report, Scope, Store, Tx, decode, encode,
    },
};
use proptest::{collection::vec, prelude::*};
use query::{FilterTarget, Query, Sort, Type, Value, Window, compare};
use redb::{
    Database, ReadableDatabase, StorageBackend, TableDefinition, backends::InMemoryBackend,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{
    harness::{Rng, stores},
    simulated_disk::{DiskFault, SimulatedDisk},
};

#[path = "../../crates/query/tests/language/lists/order.rs"]
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

#[test]
fn unique_values_free_with_their_record() {
    let store = with_tasks(vec![task("a")]);
    let twin = || Record {
        id: Id::from_text("b"),
        ..task("a")
    };
    let taken = Error::Duplicate {
        field: "name".into(),
        value: "task a".into(),
    };
    assert_eq!(
        store.write_blocking(move |tx| tx.insert(twin())),
        Err(taken)
    );
    store
        .write_blocking(|tx| {
            tx.put(Record {
                state: 7,
                ..task("a")
            })
        })
        .unwrap();
    store
        .write_blocking(move |tx| {
            tx.delete(&Id::<Task>::from_text("a"))
                .and_then(|()| tx.insert(twin()))
        })
        .unwrap();
    assert_eq!(
        store
            .read(|tx| tx.find_by::<Task>("name", "task a"))
            .unwrap()
            .unwrap()
            .id
            .as_str(),
        "b"
    );

    let unlinked = |id| {
        let mut task = task(id);
        task.spec.name = String::new();
        task
    };
    store
        .write_blocking(move |tx| {
            tx.insert(unlinked("x"))
                .and_then(|()| tx.insert(unlinked("y")))
        })
        .unwrap();

    let long = |id, last| {
        let mut task = task(id);
        task.spec.name = format!("{}{last}", "n".repeat(3_000));
        task
    };
    store
        .write_blocking(move |tx| {
            tx.insert(long("l1", 1))
                .and_then(|()| tx.insert(long("l2", 2)))
        })
        .unwrap();
    let refused = store.write_blocking(move |tx| tx.insert(long("l3", 2)));
    assert!(matches!(refused, Err(Error::Duplicate { value, .. }) if value.len() == 3_001));
    assert_eq!(
        store
            .read(|tx| tx.find_by::<Task>("name", &long("", 1).spec.name))
            .unwrap()
            .unwrap()
            .id
            .as_str(),
        "l1"
    );
}

#[test]
fn deletion_follows_references() {
    let opened = stores::of(KINDS).open_in_memory();
    let events_heard = Arc::new(Mutex::new(Vec::new()));
    let sink = events_heard.clone();
    opened.subscribe(Phase::Update, move |events| {
        sink.lock().unwrap().extend(events.iter().map(|e| {
            (
                e.id.clone(),
                e.of::<Task>().is_some_and(|(_, new)| new.is_some()),
            )
        }))
    });
    let store = opened.start().unwrap();
    let mut lost = task("t");
    lost.spec.team = Some(Id::from_text("none"));
    let refused = store.write_blocking(|tx| tx.insert(lost));
    assert_eq!(
        refused,
        Err(Error::NotFound {
            kind: "team",
            id: "none".into(),
            field: Some("team".into())
        })
    );

    store
        .write_blocking(|tx| {
            tx.insert(team("red"))?;
            tx.insert(Record {
                spec: Task {
                    team: Some(Id::from_text("red")),
                    ..task("a").spec
                },
                ..task("a")
            })?;
            tx.insert(Record {
                spec: Task {
                    parent: Some(Id::from_text("a")),
                    ..task("b").spec
                },
                ..task("b")
            })?;
            tx.insert(Record {
                spec: Task {
                    parent: Some(Id::from_text("b")),
                    ..task("c").spec
                },
                ..task("c")
            })?;
            tx.insert(Record {
                spec: Task {
                    after: vec![Id::from_text("a"), Id::from_text("c"), Id::from_text("d")],
                    ..task("d").spec
                },
                ..task("d")
            })
        })
        .unwrap();
    let delete_team = || store.write_blocking(|tx| tx.delete(&Id::<Team>::from_text("red")));
    assert_eq!(
        delete_team(),
        Err(Error::Referenced {
            field: "team",
            by: vec!["a".into()]
        })
    );

    events_heard.lock().unwrap().clear();
    store
        .write_blocking(|tx| tx.delete(&Id::<Task>::from_text("a")))
        .unwrap();
    assert_eq!(all_ids(&store), ["d"]);
    let d = store
        .read(|tx| tx.get(&Id::<Task>::from_text("d")))
        .unwrap();
    assert_eq!(
        d.spec.after,
        [Id::from_text("d")],
        "only the references to deleted records are removed"
    );
    let (cleared, deleted): (Vec<_>, Vec<_>) = events_heard
        .lock()
        .unwrap()
        .iter()
        .cloned()
        .partition(|(_, lives)| *lives);
    assert!(cleared.iter().all(|(id, _)| id == "d"));
    assert_eq!(
        deleted
            .iter()
            .map(|(id, _)| id.as_str())
            .collect::<Vec<_>>(),
        ["c", "b", "a"],
        "referring records are deleted first"
    );
    delete_team().unwrap();
}

#[test]
fn cascades_may_be_long_or_circular() {
    let store = fresh();
    store
        .write_blocking(|tx| {
            for n in 0..5_000 {
                let mut link = task(&n.to_string());
                link.spec.parent = (n > 0).then(|| Id::from_text((n - 1).to_string()));
                tx.insert(link)?;
            }
            let mut first = tx.get(&Id::<Task>::from_text("0"))?;
            first.spec.parent = Some(Id::from_text("4999"));
            tx.put(first)
        })
        .unwrap();
    store
        .write_blocking(|tx| tx.delete(&Id::<Task>::from_text("2500")))
        .unwrap();
    assert_eq!(store.read(|tx| tx.count::<Task>()), Ok(0));
    assert_index_consistent(&store);
}

#[test]
fn failing_job_harms_no_other() {
    let store = fresh();
    let jobs: Vec<Job<usize>> = (0..100_usize)
        .map(|n| -> Job<usize> {
            Box::new(move |tx| {
                tx.insert(task(&format!("{n:03}")))?;
                match n % 5 {
                    1 => tx.insert(task("000")).map(|()| n),
                    2 => panic!("job {n}"),
                    3 => {
                        // A failed call has no effect, and the job may continue.
                        let mut twin = task(&format!("{n:03} twin"));
                        twin.spec.name = "task 000".into();
                        assert!(tx.insert(twin).is_err());
                        Ok(n)
                    }
                    _ => Ok(n),
                }
            })
        })
        .collect();
    let answers = in_one_group(&store, jobs);
    for (n, answer) in answers.iter().enumerate() {
        match n % 5 {
            1 => assert!(matches!(answer, Err(Error::Duplicate { .. })), "{answer:?}"),
            2 => assert_eq!(
                answer,
                &Err(Error::Internal(format!("a write panicked: job {n}")))
            ),
            _ => assert_eq!(answer, &Ok(n)),
        }
    }
    let cache: Vec<String> = (0..100)
        .filter(|n| ![1, 2].contains(&(n % 5)))
        .map(|n| format!("{n:03}"))
        .collect();
    assert_eq!(all_ids(&store), cache);
    for id in cache {
        assert_eq!(
            store.read(|tx| tx.ids(Task::KIND, "name", &format!("task {id}"))),
            Ok(vec![id])
        );
    }
    assert_index_consistent(&store);
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

#[test]
fn events_come_between_sync_and_answer() {
    let disk = Faulty::default();
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(Mutex::new(Vec::new()));
    let (listener, seen, backend) = (received.clone(), opened.reader().clone(), disk.clone());
    opened.subscribe(Phase::Update, move |events| {
        assert!(
            !backend.unsynced(),
            "the listener was called before the commit was durable"
        );
        for event in events {
            let (old, new) = event.of::<Task>().unwrap();
            assert!(old.is_none() && seen.read(|tx| tx.find(&new.unwrap().id)).unwrap().is_some());
            listener.lock().unwrap().push(event.id.clone());
        }
    });
    let store = opened.start().unwrap();
    let before = disk.syncs();
    let jobs: Vec<Job<()>> = (0..50)
        .map(|n| -> Job<()> { Box::new(move |tx| tx.insert(task(&format!("{n:02}")))) })
        .collect();
    assert!(in_one_group(&store, jobs).iter().all(Result::is_ok));
    assert_eq!(*received.lock().unwrap(), all_ids(&store));
    assert_eq!(disk.syncs() - before, 1, "a group costs one sync");
    store.write_blocking(|_| Ok(())).unwrap();
    assert_eq!(disk.syncs() - before, 1, "writing nothing costs none");
    store.close();
}

#[test]
fn who_reacts_hears_after_who_updates() {
    let opened = stores::of(KINDS).open_in_memory();
    let received = Arc::new(Mutex::new(Vec::new()));
    for (phase, name) in [
        (Phase::React, "reacts"),
        (Phase::Update, "updates"),
        (Phase::React, "reacts"),
        (Phase::Update, "updates"),
    ] {
        let received = received.clone();
        opened.subscribe(phase, move |_| received.lock().unwrap().push(name));
    }
    let store = opened.start().unwrap();
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    assert_eq!(
        *received.lock().unwrap(),
        ["updates", "updates", "reacts", "reacts"]
    );
}

#[tokio::test]
async fn dry_runs_tell_only_their_caller() {
    let disk = Faulty::default();
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let listener = received.clone();
    opened.subscribe(Phase::Update, move |_| _ = listener.fetch_add(1, SeqCst));
    let store = opened.start().unwrap();
    store.write(|tx| tx.insert(task("there"))).await.unwrap();
    received.store(0, SeqCst);
    let syncs = disk.syncs();
    let in_dry_run = store.dry_run(
        |tx| {
            tx.insert(task("new"))?;
            tx.delete(&Id::<Task>::from_text("there"))
        },
        |read, events, ()| {
            assert_eq!(
                read.count::<Task>()?,
                1,
                "`read` does not see the changes of the dry run"
            );
            Ok(events
                .into_iter()
                .map(|event| (event.id, event.new.is_some()))
                .collect::<Vec<_>>())
        },
    );
    assert_eq!(
        in_dry_run.await.unwrap(),
        [("new".to_owned(), true), ("there".to_owned(), false)]
    );
    let refused = store.dry_run(
        |tx| tx.insert(task("there")),
        |_, _, ()| -> Result<()> { panic!("the job failed") },
    );
    assert!(matches!(refused.await, Err(Error::Duplicate { .. })));
    assert!(
        !disk.unsynced() && disk.syncs() == syncs,
        "a dry run wrote something"
    );
    assert_eq!(received.load(SeqCst), 0);
    assert_eq!(all_ids(&store), ["there"]);
}

#[tokio::test]
async fn no_write_waits_for_dry_runs() {
    let store = fresh();
    let writing = store.clone();
    let beside = move |tx: &Tx<'_>| {
        tx.insert(task("tried"))?;
        let (done, written) = channel();
        let writing = writing.clone();
        std::thread::spawn(move || {
            done.send(writing.write_blocking(|tx| tx.insert(task("written"))))
        });
        written
            .recv_timeout(Duration::from_secs(60))
            .expect("the write waits for the dry run")?;
        assert_eq!(tx.count::<Task>()?, 1, "a dry run reads a snapshot");
        Ok(())
    };
    store.dry_run(beside, |_, _, ()| Ok(())).await.unwrap();
    assert_eq!(all_ids(&store), ["written"]);
}

/// Applies a random change, which may fail, to one of a few tasks. Returns everything that can be
/// read afterwards.
fn step(tx: &Tx<'_>, rng: &mut Rng) -> String {
    let id = |rng: &mut Rng| rng.below(12).to_string();
    let mut one = task(&id(rng));
    one.spec.weight = rng.below(4) as i64;
    one.spec.name = format!("task {}", rng.below(12));
    one.spec.roles.extend(
        ["x", "y"]
            .into_iter()
            .filter(|_| rng.below(2) == 0)
            .map(str::to_owned),
    );
    one.spec.parent = (rng.below(3) == 0).then(|| Id::from_text(id(rng)));
    one.spec.after = (0..rng.below(3)).map(|_| Id::from_text(id(rng))).collect();
    let done = match rng.below(3) {
        0 => tx.insert(one),
        1 => tx.put(one),
        _ => tx.delete(&one.id),
    };
    let listed = |query: &str, limit| {
        let query = Query::parse(query, FilterNames::<Task>::ALL).unwrap();
        let page = ListPlan::<Task>::of(query, Window { limit, offset: 0 }, Scope::All)
            .page(tx)
            .unwrap();
        (page.total, page.records)
    };
    let (mut newest, forth) = (Vec::new(), tx.history_after(0, usize::MAX).unwrap());
    let see = &mut |row: HistoryRow| {
        newest.push(row.sequence);
        Ok(())
    };
    tx.history_back(HistoryClass::Changes, &[Task::KIND.name], 0, see)
        .unwrap();
    let forth: Vec<_> = forth
        .into_iter()
        .map(|row| (row.sequence, row.id, row.name))
        .collect();
    let ids = |field, value| tx.ids(Task::KIND, field, value).unwrap();
    let by = [
        listed("true", None),
        listed("true sort by name desc", Some(3)),
        listed("true sort by label", Some(3)),
    ];
    let index = [ids("roles", "x"), ids("parent", "3"), ids("after", "3")];
    format!(
        "{done:?} {by:?} {index:?} {:?} {:?} {newest:?} {forth:?}",
        tx.count::<Task>(),
        tx.history_end()
    )
}

#[tokio::test]
async fn dry_runs_equal_the_change() {
    let options = Options {
        clock: Clock::manual(Timestamp::from_millis(5_000)),
        ..Options::default()
    };
    let opened = stores::of(KINDS).with(options).open_in_memory();
    let events_heard = |events: &[Event]| {
        events
            .iter()
            .map(|event| format!("{:?}", event.of::<Task>()))
            .collect::<Vec<_>>()
    };
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        sink.lock().unwrap().extend(events_heard(events))
    });
    let store = opened.start().unwrap();
    let job = |seed: u64| {
        move |tx: &Tx<'_>| {
            let mut rng = Rng::new(seed);
            Ok((0..20).map(|_| step(tx, &mut rng)).collect::<Vec<_>>())
        }
    };
    for seed in 0..40 {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = seen.clone();
        let in_dry_run =
            move |tx: &Tx<'_>| job(seed)(tx).map(|steps| *recorder.lock().unwrap() = steps);
        let predicted = store
            .dry_run(in_dry_run, move |_, events, ()| Ok(events_heard(&events)))
            .await
            .unwrap();
        let actual = store.write(job(seed)).await.unwrap();
        for (step, (predicted_step, seen)) in seen.lock().unwrap().iter().zip(&actual).enumerate() {
            assert_eq!(predicted_step, seen, "seed {seed}, step {step}");
        }
        assert_eq!(
            received.lock().unwrap().drain(..).collect::<Vec<_>>(),
            predicted,
            "seed {seed}"
        );
    }
    assert_index_consistent(&store);
}

#[test]
fn disk_failure_is_told_truthfully() {
    let disk = Faulty::default();
    let options = Options {
        retry: Duration::from_millis(10),
        ..Options::default()
    };
    let opened = stores::of(KINDS).with(options).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let counter = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        counter.fetch_add(events.len(), SeqCst);
    });
    let store = opened.start().unwrap();
    store
        .write_blocking(|tx| tx.insert(task("before")))
        .unwrap();
    received.store(0, SeqCst);
    disk.start_failing();
    let jobs: Vec<Job<()>> = vec![
        Box::new(|tx| tx.insert(task("one"))),
        Box::new(|tx| tx.insert(task("before"))),
        Box::new(|tx| tx.insert(task("two"))),
    ];
    assert!(store.is_alive());
    for answer in in_one_group(&store, jobs) {
        assert!(matches!(answer, Err(Error::Storage(_))), "{answer:?}");
    }
    assert!(!store.is_alive());
    assert!(matches!(
        store.write_blocking(|_| Ok(())),
        Err(Error::Storage(_))
    ));
    assert_eq!(all_ids(&store), ["before"]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!store.is_alive(), "the disk still fails");
    assert_eq!(received.load(SeqCst), 0, "nothing was committed");

    disk.stop_failing();
    let begin = Instant::now();
    while !store.is_alive() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "the store does not recover"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        all_ids(&store),
        ["before"],
        "a rejected write appeared later"
    );
    store.write_blocking(|tx| tx.insert(task("after"))).unwrap();
    assert_eq!(
        (all_ids(&store), received.load(SeqCst)),
        (vec!["after".to_owned(), "before".to_owned()], 1)
    );
}

#[test]
fn late_failure_keeps_the_commit() {
    let disk = SimulatedDisk::holding(Vec::new(), 0);
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let counter = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        counter.fetch_add(events.len(), SeqCst);
    });
    let store = opened.start().unwrap();
    store
        .write_blocking(|tx| tx.set_setting("large", Some(&vec![1; 6 << 20])))
        .unwrap();
    store
        .write_blocking(|tx| tx.set_setting("large", None))
        .unwrap();
    // The file should shrink, and the operation fails.
    disk.fault(DiskFault::Lengths);
    let mut written = Vec::new();
    while disk.failed() == 0 {
        let id = format!("{:02}", written.len());
        let record = task(&id);
        store.write_blocking(|tx| tx.insert(record)).unwrap();
        written.push(id);
        assert!(written.len() < 50, "the file does not shrink");
    }
    assert_eq!(
        (all_ids(&store), received.load(SeqCst)),
        (written.clone(), written.len())
    );
    store.close();
    let reopened = stores::of(KINDS).start_on(disk.after_power_loss());
    assert_eq!(all_ids(&reopened), written);
}

#[test]
fn full_queue_refuses_writers() {
    let store = stores::of(KINDS)
        .with(Options {
            queue: 1,
            ..Options::default()
        })
        .in_memory();
    let jobs: Vec<Job<()>> = vec![Box::new(|_| Ok(())), Box::new(|_| Ok(()))];
    let answers = in_one_group(&store, jobs);
    assert_eq!(answers, [Ok(()), Err(Error::Busy { retry_after: 1 })]);
    store.close();
    assert!(!store.is_alive());
    assert!(matches!(
        store.write_blocking(|_| Ok(())),
        Err(Error::Storage(_))
    ));
    assert!(matches!(
        store.read(|tx| tx.count::<Task>()),
        Err(Error::Storage(_))
    ));
}

#[test]
fn damaged_record_error_names_it() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    open(&directory)
        .write_blocking(|tx| tx.insert(task("a")).and_then(|()| tx.insert(task("b"))))
        .unwrap();
    let whole = {
        let database = Database::open(&path).unwrap();
        let table = database.begin_read().unwrap().open_table(RECORDS).unwrap();
        table
            .get(b"b".as_slice())
            .unwrap()
            .unwrap()
            .value()
            .to_vec()
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(
            matches!(decode::<Task>("b", &bytes), Err(Error::Damaged { kind: "task", id, .. }) if id == "b"),
            "byte {at}"
        );
        assert!(decode::<Task>("b", &whole[..at]).is_err());
    }
    assert!(
        decode::<Task>("a", &whole).is_err(),
        "the bytes belong to another id"
    );
    {
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(RECORDS)
            .unwrap()
            .insert(b"b".as_slice(), &whole[..whole.len() - 1])
            .unwrap();
        transaction.commit().unwrap();
    }
    let store = open(&directory);
    assert!(!store.is_new());
    assert!(store.read(|tx| tx.get(&Id::<Task>::from_text("a"))).is_ok());
    let damaged =
        |result: Result<()>| assert!(matches!(result, Err(Error::Damaged { id, .. }) if id == "b"));
    damaged(store.read(|tx| tx.get(&Id::<Task>::from_text("b")).map(drop)));
    damaged(store.read(|tx| tx.each::<Task>(|_| Ok(()))));
    damaged(store.write_blocking(|tx| tx.put(task("b"))));
}

/// A former version of `Team`.
#[derive(Serialize, Deserialize, Clone)]
struct OldTeam {
    number: u16,
}

/// The current version of `Team`, under the same kind name.
#[derive(Serialize, Deserialize, Clone)]
struct NewTeam {
    name: String,
}

macro_rules! team_of_version {
    ($name:ident, $version:literal, $upgrade:item) => {
        impl Stateful for $name {
            type State = ();
        }

        impl Entity for $name {
            const KIND: Kind = Kind { name: "team", path: "teams", noun: "team" };
            const FIELDS: &'static [Field<Self>] = &[];
            const VERSION: u8 = $version;
            const ENCODING: SpecEncoding = if $version == 1 { SpecEncoding::Binary } else { SpecEncoding::Text };
            type View = ();
            fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
                Ok(())
            }
            $upgrade
        }
    };
}
team_of_version!(OldTeam, 1, fn tidy(&mut self) {});
team_of_version!(
    NewTeam,
    2,
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, ())> {
        if version != 1 {
            return Err(Error::Internal("unknown version".into()));
        }
        let (OldTeam { number }, state) = old.read(SpecEncoding::Binary)?;
        Ok((
            Self {
                name: format!("team {number}"),
            },
            state,
        ))
    }
);

#[test]
fn records_of_older_versions_are_read() {
    let old = Record::new(
        Id::from_text("t"),
        Timestamp::from_millis(5),
        OldTeam { number: 7 },
    );
    let new = decode::<NewTeam>("t", &encode(&old).unwrap()).unwrap();
    assert_eq!(
        (new.spec.name.as_str(), new.created_at.millis()),
        ("team 7", 5)
    );
    assert_eq!(
        decode::<NewTeam>("t", &encode(&new).unwrap())
            .unwrap()
            .spec
            .name,
        "team 7"
    );
    assert!(
        matches!(decode::<OldTeam>("t", &encode(&new).unwrap()), Err(Error::Damaged { reason, .. }) if reason.contains("version 2"))
    );
}

#[test]
fn golden_bytes_stay() {
    let mut record = task("a");
    record.spec.roles.extend(["r".into()]);
    record.state = 300;
    golden(
        &record,
        "01cab5ac07fbd007fbd00700027b7d067461736b20610101720000000000fb2c01",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_are_never_a_panic(mut bytes in vec(any::<u8>(), 0..200), seal in any::<bool>()) {
        if seal && bytes.len() >= 5 {
            // With a valid checksum, so that the content is decoded.
            let mut sum = crc32fast::Hasher::new();
            bytes[0] = 1;
            [b"x", &bytes[..1], &bytes[5..]].iter().for_each(|part| sum.update(part));
            bytes[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
        }
        let _ = decode::<Task>("x", &bytes);
    }

    #[test]
    fn index_keys_are_unambiguous(
        records in vec(vec(prop_oneof!["[a\u{0}\u{1}\u{ff}]{0,4}", "[ab]{196,202}", "\\PC{0,6}"], 0..4), 1..12),
    ) {
        let tasks = records.iter().enumerate().map(|(n, roles)| {
            // Ids that look like ends of values.
            let mut task = task(&format!("{}\u{0}{}", ["", "\u{1}", "a"][n % 3], n));
            task.spec.roles = roles.iter().cloned().collect();
            task.spec.name = format!("{n} {}", roles.concat());
            task
        });
        let tasks: Vec<_> = tasks.collect();
        let mut model: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for task in &tasks {
            task.spec.roles.entries().iter().for_each(|role| { model.entry(role).or_default().insert(task.id.as_str()); });
        }
        let store = with_tasks(tasks.clone());
        store.read(|tx| {
            for (role, ids) in &model {
                assert_eq!(tx.ids(Task::KIND, "roles", role)?, ids.iter().copied().collect::<Vec<_>>());
            }
            Ok(())
        }).unwrap();
        assert_index_consistent(&store);
        store.write_blocking(move |tx| tasks.iter().try_for_each(|task| {
            let twin = Record { id: Id::from_text("twin"), ..task.clone() };
            let taken = Error::Duplicate { field: "name".into(), value: task.spec.name.clone() };
            assert_eq!(tx.insert(twin), Err(taken), "a value read from its index row is unchanged");
            tx.delete(&task.id)
        })).unwrap();
        assert_index_consistent(&store);
    }

    #[test]
    fn lists_equal_naive_lists(
        specs in vec(("[abc]{0,2}|a{199,202}", 0_i64..4, "[xy]{1}"), 0..40),
        filter in prop_oneof![
            Just("true"), Just("weight > 1"), Just("name contains \"a\""), Just("anyOf(roles) = \"x\""),
            Just("id in [\"01\", \"03\", \"zz\", \"03\"]"), Just("anyOf(roles) in [\"x\", \"y\"] and weight = 2"),
            Just("name = \"b 1\""), Just("name = \"\""), Just("label contains \"a\" or id = \"03\""), Just("not label contains \"b\""),
            Just("label >= \"b\" and weight = 2"),
        ],
        sort in prop_oneof![Just(""), Just(" sort by weight"), Just(" sort by weight desc, name desc"), Just(" sort by name"), Just(" sort by label"),
            Just(" sort by label desc, weight")],
        (offset, limit) in (0_usize..50, proptest::option::of(0_usize..50)),
        scope in 0..3,
    ) {
        let tasks: Vec<Record<Task>> = specs.iter().enumerate().map(|(n, (name, weight, role))| {
            let mut task = task(&format!("{n:02}"));
            task.spec.name = if name.is_empty() { String::new() } else { format!("{name} {n}") };
            task.spec.weight = *weight;
            task.spec.roles.extend([role.clone()]);
            task
        }).collect();
        let query = Query::parse(&format!("{filter}{sort}"), FilterNames::<Task>::ALL).unwrap();
        let store = with_tasks(tasks.clone());
        let listed = ["02", "03", "05", "20", "77"];
        let naive_scope = |task: &&Record<Task>| match scope { 0 => true, 1 => listed.contains(&task.id.as_str()), _ => task.spec.roles.entries().contains("y") };
        let scope = match scope { 0 => Scope::All, 1 => Scope::Ids(listed.map(str::to_owned).to_vec()), _ => Scope::Having { field: "roles", value: "y".into() } };
        store.read(|tx| {
            let seen = |record| overkeep::testing::entity::RecordTarget { record, lookup: tx };
            let mut naive: Vec<&Record<Task>> = tasks.iter().filter(naive_scope).filter(|task| query.predicate.matches(&seen(task))).collect();
            naive.sort_by(|a, b| order::order(&query.sort, &seen(a), &seen(b)).then_with(|| a.id.cmp(&b.id)));
            let expected: Vec<_> = naive.iter().skip(offset).take(limit.unwrap_or(usize::MAX)).map(|task| task.id.clone()).collect();
            let page = ListPlan::<Task>::of(query.clone(), Window { limit, offset }, scope).page(tx)?;
            assert_eq!(page.records.into_iter().map(|task| task.id).collect::<Vec<_>>(), expected);
            assert_eq!(page.total, naive.len() as u64);
            Ok(())
        }).unwrap();
    }
}

#[test]
fn required_fields_are_never_empty() {
    let store = with_tasks(Vec::new());
    let refused = store.write_blocking(|tx| {
        tx.insert(Record::new(
            Id::from_text("t"),
            Timestamp::from_millis(1),
            Team {
                name: String::new(),
            },
        ))
    });
    assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "name"));
}

#[test]
fn cache_entries_go_with_dependencies() {
    let opened = stores::of(KINDS).open_in_memory();
    let cache: Cache<Vec<String>> = Cache::following(&opened, |kind| kind == Task::KIND, 2);
    let store = opened.start().unwrap();
    insert(&store, vec![task("a"), task("b")]);
    let make = |store: &Store| {
        store.read(|tx| {
            let lookup = DependencyRecorder::new(tx);
            let ids = lookup.ids(Task::KIND, "roles", "x")?;
            lookup.find::<Task>(&Id::from_text("a"))?;
            Ok((Arc::new(ids), lookup.dependencies().unwrap()))
        })
    };
    let cache_again = || {
        let at = cache.now();
        let (ids, dependencies) = make(&store).unwrap();
        cache.insert("x", ids, dependencies, at);
    };
    let change = |id: &str, role: Option<&str>, weight| {
        let mut changed = task(id);
        changed.spec.roles.extend(role.map(str::to_owned));
        changed.spec.weight = weight;
        store.write_blocking(move |tx| tx.put(changed)).unwrap();
    };
    cache_again();
    assert_eq!(cache.find("x").as_deref(), Some(&Vec::new()));
    change("b", None, 1);
    change("b", Some("y"), 2);
    assert!(
        cache.find("x").is_some(),
        "the entry depends on neither change"
    );
    change("b", Some("x"), 2);
    assert!(
        cache.find("x").is_none(),
        "another record has the value now"
    );
    cache_again();
    assert_eq!(cache.find("x").as_deref(), Some(&vec!["b".to_owned()]));
    change("a", None, 1);
    assert!(cache.find("x").is_none(), "the record has changed");

    // An entry that was computed before a change and is stored after it is outdated.
    let at = cache.now();
    let (ids, dependencies) = make(&store).unwrap();
    change("a", None, 2);
    cache.insert("x", ids, dependencies, at);
    assert!(cache.find("x").is_none());
    assert!(
        store
            .read(|tx| {
                let lookup = DependencyRecorder::new(tx);
                lookup.now();
                Ok(lookup.dependencies())
            })
            .unwrap()
            .is_none(),
        "an entry that depends on the time is not cached"
    );
}

#[tokio::test]
async fn small_reads_do_not_wait() {
    let tasks: Vec<Record<Task>> = (0..1_100).map(|n| task(&format!("{n:04}"))).collect();
    let store = stores::of(KINDS)
        .with(Options {
            scans: 1,
            ..Options::default()
        })
        .in_memory();
    store
        .write(move |tx| tasks.into_iter().try_for_each(|task| tx.insert(task)))
        .await
        .unwrap();
    let all = |tx: &Read<'_>| {
        let mut count = 0;
        tx.each::<Task>(|_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    };
    let (go, held) = channel::<()>();
    let (events_heard, begun) = tokio::sync::oneshot::channel();
    let long = store.clone();
    let first = tokio::spawn(async move {
        long.scan(move |tx| {
            let count = all(tx)?;
            events_heard.send(()).unwrap();
            held.recv().unwrap();
            Ok(count)
        })
        .await
    });
    begun.await.unwrap();
    assert!(
        store
            .scan(|tx| tx.get(&Id::<Task>::from_text("0001")))
            .await
            .is_ok()
    );
    let mut second = Box::pin(store.scan(all));
    let write = |tx: &Tx<'_>| (0..1_100).try_for_each(|n| tx.insert(task(&format!("new {n}"))));
    let mut third = Box::pin(store.dry_run(write, move |tx, _, ()| all(tx)));
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut second)
            .await
            .is_err(),
        "two scans ran at a time"
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut third)
            .await
            .is_err(),
        "a dry run counts as a scan"
    );
    go.send(()).unwrap();
    assert_eq!(
        (first.await.unwrap(), second.await, third.await),
        (Ok(1_100), Ok(1_100), Ok(1_100))
    );
}

#[tokio::test]
async fn long_reads_change_the_thread() {
    let store = stores::of(KINDS).in_memory();
    store
        .write(|tx| (0..300).try_for_each(|n| tx.insert(task(&format!("{n:04}")))))
        .await
        .unwrap();
    let here = std::thread::current().id();
    let read = |count: usize| {
        // This work hides the errors of its reads.
        let is_there =
            |tx: &Read<'_>, n: &usize| tx.get(&Id::<Task>::from_text(format!("{n:04}"))).is_ok();
        store.ask(move |tx| {
            Ok((
                std::thread::current().id(),
                (0..count).filter(|n| is_there(tx, n)).count(),
            ))
        })
    };
    assert_eq!(read(100).await, Ok((here, 100)));
    let (thread, found) = read(300).await.unwrap();
    assert!(thread != here && found == 300, "{found}");
    let counted = |tx: &Read<'_>| {
        let mut count = 0;
        tx.each::<Task>(|_| {
            count += 1;
            Ok(())
        })?;
        Ok((std::thread::current().id(), count))
    };
    let (thread, count) = store.ask(counted).await.unwrap();
    assert!(thread != here && count == 300, "{count}");
}

#[tokio::test]
async fn surplus_scans_are_refused_first() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store
        .write(|tx| (0..1_100).try_for_each(|n| tx.insert(task(&format!("{n:04}")))))
        .await
        .unwrap();
    store
        .write(|tx| (0..900).try_for_each(|n| tx.insert(team(&format!("{n:04}")))))
        .await
        .unwrap();
    store.close();
    damage(&directory, &["0000"]);
    let options = Options {
        scans: 1,
        scan_queue: 0,
        ..Options::default()
    };
    let store = stores::of(KINDS)
        .with(options)
        .start(&directory.path().join("data"));
    let list = |text: &str| {
        let query = Query::parse(text, FilterNames::<Task>::ALL).unwrap();
        store.scan(move |tx| list_of::<Task>(query).page(tx).map(|page| page.total))
    };
    let reading = "weight = 0";
    let found = list(reading).await;
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    let (go, held) = channel::<()>();
    let (events_heard, begun) = tokio::sync::oneshot::channel();
    let long = store.clone();
    let first = tokio::spawn(async move {
        long.scan(move |tx| {
            tx.each_readable::<Task>(|_| Ok(()))?;
            events_heard.send(()).unwrap();
            held.recv().unwrap();
            Ok(())
        })
        .await
    });
    begun.await.unwrap();
    for text in [
        reading,
        "weight = 0 sort by weight",
        "label contains \"task\"",
    ] {
        assert!(
            matches!(list(text).await, Err(Error::Busy { .. })),
            "{text}"
        );
    }
    assert_eq!(
        list("id = \"0001\"").await,
        Ok(1),
        "a read of few records is not limited"
    );
    for text in ["name contains \"0\"", "id contains \"0\""] {
        let query = Query::parse(text, FilterNames::<Team>::ALL).unwrap();
        let few = store.scan(move |tx| list_of::<Team>(query).page(tx).map(|page| page.total));
        assert!(
            few.await.is_ok_and(|total| total > 0),
            "{text}: nor is a read of all records of a small kind"
        );
    }
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
}

/// The plan of a list of all records of a kind.
fn list_of<E: Entity>(query: Query) -> ListPlan<E> {
    let window = Window::new(&query, None, None);
    ListPlan::of(query, window, Scope::All)
}

#[test]
fn indexed_filters_do_not_scan() {
    let plan = |text: &str| {
        list_of::<Task>(Query::parse(text, FilterNames::<Task>::ALL).unwrap()).candidates()
    };
    assert_eq!(plan("name = \"x\""), Candidates::Field("name"));
    assert_eq!(
        plan("anyOf(roles) = \"x\" and name in [\"x\", \"y\"]"),
        Candidates::Field("name")
    );
    assert_eq!(
        plan("anyOf(roles) = \"x\" or anyOf(roles) = \"y\""),
        Candidates::Field("roles")
    );
    assert_eq!(plan("name = \"x\" and id = \"y\""), Candidates::Id);
    assert_eq!(
        plan("name = \"\""),
        Candidates::Scope,
        "blank names are not indexed"
    );
    assert_eq!(plan("name != \"x\""), Candidates::Scope);
    assert_eq!(plan("weight = 3"), Candidates::Scope);
    assert_eq!(plan("name = \"x\" or weight = 3"), Candidates::Scope);

    // Records that are not read are irrelevant: every other record here is damaged.
    let directory = TempDir::new().unwrap();
    open(&directory)
        .write_blocking(|tx| {
            ["a", "b", "c"]
                .into_iter()
                .try_for_each(|id| tx.insert(task(id)))
        })
        .unwrap();
    damage(&directory, &["a", "c"]);
    let store = open(&directory);
    let list = |text: &str| {
        let query = Query::parse(text, FilterNames::<Task>::ALL).unwrap();
        store
            .read(|tx| list_of::<Task>(query).page(tx))
            .map(|page| page.total)
    };
    assert_eq!(list("name = \"task b\" and weight = 0"), Ok(1));
    assert_eq!(list("id = \"b\""), Ok(1));
    assert_eq!(
        list("label contains \"task\" sort by label skip 9"),
        Ok(3),
        "records outside of the page are not read"
    );
    assert!(list("weight = 0").is_err());
}

#[test]
fn file_is_private_and_locked() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    let store = open(&directory);
    assert!(store.is_new());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let second = |path: &Path| stores::of(KINDS).try_open(path).err().unwrap();
    assert!(matches!(second(&path), OpenError::Locked(_)));
    assert!(
        second(&path)
            .to_string()
            .ends_with("data is in use by another process")
    );
    drop(store);
    assert!(open(&directory).is_new(), "nothing has been stored yet");

    let nowhere = directory.path().join("none/data");
    assert!(matches!(second(&nowhere), OpenError::Directory { .. }));
    for other in [
        &b"x"[..],
        b"PK\x03\x04 and more than the first few bytes",
        &[0; 8192],
    ] {
        std::fs::write(&path, other).unwrap();
        assert!(matches!(second(&path), OpenError::NotOurs(_)));
    }
    std::fs::remove_file(&path).unwrap();
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    drop(
        transaction
            .open_table(TableDefinition::<u64, u64>::new("something"))
            .unwrap(),
    );
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(second(&path), OpenError::NotOurs(_)));

    std::fs::remove_file(&path).unwrap();
    drop(open(&directory));
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = TableDefinition::<&[u8], &[u8]>::new("meta");
    transaction
        .open_table(meta)
        .unwrap()
        .insert(b"format".as_slice(), (NEWEST + 1).to_le_bytes().as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(
        matches!(second(&path), OpenError::Newer { found, known: NEWEST, .. } if found > NEWEST)
    );
}

#[test]
fn interrupted_start_blocks_nothing() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("data.new"), b"half a file").unwrap();
    let store = open(&directory);
    store
        .write_blocking(|tx| tx.set_setting("a", Some(b"1")))
        .unwrap();
    drop(store);
    assert_eq!(
        open(&directory).read(|tx| tx.setting("a")).unwrap(),
        Some(b"1".to_vec())
    );
    assert!(!directory.path().join("data.new").exists());
}

#[tokio::test]
async fn a_scan_nobody_waits_for_stops() {
    let store = with_tasks((0..100).map(|n| task(&format!("{n:03}"))).collect());
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let slow = store.scan(move |tx| {
        tx.each::<Task>(|_| {
            counter.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        })
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(25), slow)
            .await
            .is_err()
    );
    assert_eq!(store.scan(|tx| tx.count::<Task>()).await, Ok(100));
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(seen.load(SeqCst) < 50);
}
