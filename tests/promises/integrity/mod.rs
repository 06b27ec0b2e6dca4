//! A file that is damaged on purpose: damage is found, what can be repaired without loss is
//! repaired, and a copy equals the file.

mod findings;
mod snapshots;

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use maintenance::{Maintenance, Work};
use model::{
    clock::{Clock, Timestamp},
    entity::{
        Action, Entity, Field, Id, Kind, Lookup, OnDelete, Record, Reference, Stateful, TypedLookup,
    },
    error::{Error, Refusal, Result},
};
use policy::change::SealedKeys;
use query::Type;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};
use serde::{Deserialize, Serialize};
use store::{IndexCode, KindEntry, Progress, Report, Store, Unreadable, encode, index_code};
use tempfile::TempDir;

use crate::harness::stores;

/// How long a process that was forked may take until it runs its program.
const FORKING: Duration = Duration::from_secs(10);

/// A kind that must not be deleted while others refer to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Harbour {
    name: String,
}

impl Stateful for Harbour {
    type State = ();
}

impl Entity for Harbour {
    const KIND: Kind = Kind {
        name: "harbour",
        path: "harbours",
        noun: "harbour",
    };
    const FIELDS: &'static [Field<Self>] =
        &[Field::unique("name", Type::Text, |r| (&r.spec.name).into())];
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

/// A kind with every type of field and reference.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ship {
    name: String,
    flag: String,
    /// Restrict.
    home: Option<Id<Harbour>>,
    /// Cascade.
    towed_by: Option<Id<Ship>>,
    /// Clear.
    escorts: Vec<Id<Ship>>,
}

impl Stateful for Ship {
    type State = ();
}

impl Entity for Ship {
    const KIND: Kind = Kind {
        name: "ship",
        path: "ships",
        noun: "ship",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("name", Type::Text, |r| (&r.spec.name).into()),
        Field::indexed("flag", Type::Text, |r| (&r.spec.flag).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Harbour>(
            "home",
            |r| r.spec.home.iter().map(Id::as_str).collect(),
            OnDelete::Restrict,
        ),
        Reference::to::<Ship>(
            "towedBy",
            |r| r.spec.towed_by.iter().map(Id::as_str).collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<Ship>(
            "escorts",
            |r| r.spec.escorts.iter().map(Id::as_str).collect(),
            OnDelete::Clear(|r, id| r.spec.escorts.retain(|other| other.as_str() != id)),
        ),
    ];
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

static KINDS: &[KindEntry] = &[KindEntry::of::<Harbour>(), KindEntry::of::<Ship>()];

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;
const INDEX: Table = TableDefinition::new("index");
const HISTORY: Table = TableDefinition::new("history");
const SHIPS: Table = TableDefinition::new("records.ship");
const HARBOURS: Table = TableDefinition::new("records.harbour");

fn ship(id: &str) -> Record<Ship> {
    let spec = Ship {
        name: format!("the {id}"),
        flag: "blue".into(),
        ..Ship::default()
    };
    Record::new(Id::from_text(id), Timestamp::from_millis(1_000), spec)
}

/// Everything in a file, by table and key.
pub type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A data file that no process has open.
struct Closed {
    _directory: TempDir,
    path: PathBuf,
}

impl Closed {
    /// A file with a harbour, a tug, a barge that it tows, a liner that it escorts, and a ship with
    /// a very long flag.
    fn filled() -> Self {
        let directory = TempDir::new().unwrap();
        let closed = Self {
            path: directory.path().join("data"),
            _directory: directory,
        };
        closed.with(|store| {
            store
                .write_blocking(|tx| {
                    let harbour = Harbour {
                        name: "north".into(),
                    };
                    tx.insert(Record::new(
                        Id::from_text("north"),
                        Timestamp::from_millis(1_000),
                        harbour,
                    ))?;
                    tx.insert(ship("tug"))?;
                    let mut barge = ship("barge");
                    barge.spec.towed_by = Some(Id::from_text("tug"));
                    tx.insert(barge)?;
                    let mut liner = ship("liner");
                    liner.spec.home = Some(Id::from_text("north"));
                    liner.spec.escorts = vec![Id::from_text("tug"), Id::from_text("barge")];
                    tx.insert(liner)?;
                    let mut gaudy = ship("gaudy");
                    gaudy.spec.flag = "stripes and ".repeat(40);
                    tx.insert(gaudy)
                })
                .unwrap();
        });
        closed
    }

    fn with<T>(&self, act: impl FnOnce(&Store) -> T) -> T {
        let store = stores::of(KINDS).start(&self.path);
        let done = act(&store);
        store.close();
        done
    }

    /// Changes a table without the store.
    fn tamper(
        &self,
        table: Table,
        act: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>),
    ) {
        let database = Database::open(&self.path).unwrap();
        let transaction = database.begin_write().unwrap();
        act(&mut transaction.open_table(table).unwrap());
        transaction.commit().unwrap();
    }

    fn lose(&self, table: Table, key: &[u8]) {
        self.tamper(table, |rows| assert!(rows.remove(key).unwrap().is_some()));
    }

    fn put(&self, table: Table, key: &[u8], value: &[u8]) {
        self.tamper(table, |rows| drop(rows.insert(key, value).unwrap()));
    }

    fn check(&self) -> Report {
        self.with(|store| store.check(&Progress::default()).unwrap())
    }

    fn repair(&self) -> Report {
        self.mend(Unreadable::Stays)
    }

    fn mend(&self, unreadable: Unreadable) -> Report {
        self.with(|store| store.repair(unreadable, &Progress::default()).unwrap())
    }

    /// Asserts that a problem is found and repaired, and that nothing is left.
    fn heals(&self) {
        let found = self.check();
        assert!(!found.findings.is_empty(), "nothing was found");
        assert!(
            found.findings.iter().all(|finding| !finding.fixed),
            "a check changed something: {found:?}"
        );
        let mended = self.repair();
        assert!(
            !mended.findings.is_empty() && mended.findings.iter().all(|finding| finding.fixed),
            "{mended:?}"
        );
        assert_eq!(self.check(), Report::default());
    }

    fn rows(&self) -> Rows {
        rows(&self.path)
    }
}

/// Everything in a file except its manifest as a snapshot.
pub fn rows(path: &Path) -> Rows {
    let database = opened(path);
    let transaction = database.begin_read().unwrap();
    let names: Vec<String> = transaction
        .list_tables()
        .unwrap()
        .map(|table| table.name().to_owned())
        .collect();
    let read = |name: &String| {
        let table = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new(name))
            .unwrap();
        let rows = table.iter().unwrap().map(|row| {
            row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
                .unwrap()
        });
        (name.clone(), rows.collect())
    };
    let mut rows: Rows = names.iter().map(read).collect();
    rows.get_mut("meta").unwrap().remove(b"manifest".as_slice());
    rows
}

/// Opens a file that nobody uses any more. A process that another test has just forked may hold it
/// for a moment, until it runs its program.
fn opened(path: &Path) -> Database {
    let begin = Instant::now();
    loop {
        match Database::open(path) {
            Err(DatabaseError::DatabaseAlreadyOpen) if begin.elapsed() < FORKING => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn told(report: &Report) -> Vec<(&str, bool)> {
    report
        .findings
        .iter()
        .map(|finding| (finding.description.as_str(), finding.fixed))
        .collect()
}
