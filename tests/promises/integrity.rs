//! A file that is damaged on purpose: damage is found, what can be repaired without loss is
//! repaired, and a copy equals the file.

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

use overkeep::testing::{
    change::SealedKeys,
    clock::{Clock, Timestamp},
    entity::{
        Action, Entity, Field, Id, Kind, Lookup, OnDelete, Record, Reference, Stateful, TypedLookup,
    },
    error::{Error, Refusal, Result},
    maintenance::{Maintenance, Work},
    store::{IndexCode, KindEntry, Progress, Report, Store, Unreadable, encode, index_code},
};
use query::Type;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::harness::stores;

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
    let database = Database::open(path).unwrap();
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

fn told(report: &Report) -> Vec<(&str, bool)> {
    report
        .findings
        .iter()
        .map(|finding| (finding.description.as_str(), finding.fixed))
        .collect()
}

#[test]
fn sound_file_is_left_unchanged() {
    let file = Closed::filled();
    let before = file.rows();
    assert_eq!(file.check(), Report::default());
    assert_eq!(file.repair(), Report::default());
    assert_eq!(file.rows(), before);
}

#[test]
fn lost_index_rows_are_restored() {
    let file = Closed::filled();
    let before = file.rows();
    assert!(before["index"].len() > 12);
    for key in before["index"].keys() {
        file.lose(INDEX, key);
        file.heals();
        assert_eq!(
            file.rows(),
            before,
            "after the loss of {:?}",
            String::from_utf8_lossy(key)
        );
    }
    file.tamper(INDEX, |rows| rows.retain(|_, _| false).unwrap());
    file.heals();
    assert_eq!(file.rows(), before);
}

#[test]
fn surplus_index_rows_are_removed() {
    let file = Closed::filled();
    let before = file.rows();
    let of = |field: &str, rest: &str| [&index_code(Ship::KIND, field), rest.as_bytes()].concat();
    let of_nobody = of("flag", "blue\0\0ghost");
    let of_other_value = of("flag", "red\0\0tug");
    let unique_of_nobody = of("name", "the tug\0\0aardvark");
    let of_no_field = of("berth", "7\0\0tug");
    let endless = of("flag", " without an end");
    for key in [
        of_nobody,
        of_other_value,
        unique_of_nobody,
        of_no_field,
        endless,
        b"\xFF".to_vec(),
        Vec::new(),
    ] {
        file.put(INDEX, &key, b"");
        file.heals();
        assert_eq!(
            file.rows(),
            before,
            "after a row {:?}",
            String::from_utf8_lossy(&key)
        );
    }
    let (long, _) = before["index"]
        .iter()
        .find(|(_, row)| !row.is_empty())
        .unwrap();
    file.put(INDEX, long, b"another value");
    file.heals();
    assert_eq!(file.rows(), before);
}

/// A file as written by releases up to format 2: names in the keys of the index and of tombstones.
fn with_names(file: &Closed, fields: &[(&str, &str, IndexCode)]) {
    let renamed = |rows: &mut redb::Table<'_, &'static [u8], &'static [u8]>| {
        let all: Vec<_> = rows
            .extract_if(|_, _| true)
            .unwrap()
            .map(|row| row.unwrap())
            .map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
            .collect();
        for (key, row) in all {
            let (kind, field, _) = fields
                .iter()
                .find(|(.., code)| key.starts_with(code))
                .unwrap();
            let names = [kind, field]
                .into_iter()
                .flat_map(|name| [&[name.len() as u8], name.as_bytes()].concat())
                .collect::<Vec<u8>>();
            rows.insert(
                [names.as_slice(), &key[4..]].concat().as_slice(),
                row.as_slice(),
            )
            .unwrap();
        }
    };
    file.tamper(INDEX, renamed);
    file.tamper(TableDefinition::new("endings"), renamed);
    file.put(
        TableDefinition::new("meta"),
        b"format",
        &2_u32.to_le_bytes(),
    );
}

#[test]
fn named_index_keys_become_codes() {
    let file = Closed::filled();
    let ending = [&index_code(Ship::KIND, "flag"), b"blue\0\0".as_slice()].concat();
    file.put(TableDefinition::new("endings"), &ending, b"an ending");
    let before = file.rows();
    let fields = KINDS.iter().flat_map(|entry| {
        (entry.indexed)()
            .into_iter()
            .map(|field| (entry.kind.name, field, index_code(entry.kind, field)))
    });
    with_names(&file, &fields.collect::<Vec<_>>());
    let former = b"\x04ship\x05token1\0\0tug";
    file.put(INDEX, former, b"");
    assert_ne!(file.rows(), before);
    stores::of(KINDS).open(&file.path).upgrade(None).unwrap();
    assert_eq!(
        file.rows(),
        before,
        "rows that are no longer in the index are left behind"
    );
    stores::of(KINDS).open(&file.path).upgrade(None).unwrap();
    assert_eq!(file.rows(), before);
}

#[test]
fn unreadable_record_harms_no_other() {
    let file = Closed::filled();
    let before = file.rows();
    let sound = before["records.ship"][b"tug".as_slice()].clone();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x20;
        file.put(SHIPS, b"tug", &bytes);
        let report = if at % 16 == 0 {
            file.repair()
        } else {
            file.check()
        };
        assert_eq!(report.findings.len(), 1, "byte {at}: {report:?}");
        assert!(
            report.findings[0].description.contains("ship tug") && !report.findings[0].fixed,
            "{report:?}"
        );
    }
    file.put(SHIPS, b"tug", &sound);
    assert_eq!(file.rows(), before);
}

#[test]
fn failed_remedies_do_not_stop_others() {
    let file = Closed::filled();
    let mut bytes = file.rows()["records.ship"][b"gaudy".as_slice()].clone();
    *bytes.last_mut().unwrap() ^= 1;
    file.put(SHIPS, b"gaudy", &bytes);
    file.put(INDEX, b"\xFF", b"");
    file.lose(HARBOURS, b"north");
    // The last row can be read, but no row can follow its sequence: a deletion cannot be logged.
    file.put(HISTORY, &[0xFF; 8], &[0; 64]);

    let report = file.mend(Unreadable::Goes);
    let fixed: Vec<&str> = told(&report)
        .into_iter()
        .filter(|(_, fixed)| *fixed)
        .map(|(what, _)| what)
        .collect();
    assert!(
        fixed.contains(&"a row of the index cannot be read"),
        "{report:?}"
    );
    let is_explained = |(what, fixed): (&str, bool)| {
        !fixed && what.contains("ship gaudy") && what.contains("greatest possible sequence")
    };
    assert!(told(&report).into_iter().any(is_explained), "{report:?}");
    assert!(file.rows()["records.ship"].contains_key(b"gaudy".as_slice()));
}

#[test]
fn unreadable_records_go_on_request() {
    let file = Closed::filled();
    let mut bytes = file.rows()["records.ship"][b"tug".as_slice()].clone();
    *bytes.last_mut().unwrap() ^= 1;
    file.put(SHIPS, b"tug", &bytes);
    file.put(SHIPS, b"no \xFF text", b"");
    file.put(INDEX, b"\xFF", b"");
    let last = file.rows()["history"].last_key_value().unwrap().0.clone();
    file.put(HISTORY, &last, b"?");
    file.with(|store| {
        drop(
            store
                .write_blocking(|tx| tx.insert(ship("raft")))
                .expect_err("no row can be chained to the last"),
        )
    });

    let expected = file.check();
    assert_eq!(expected.findings.len(), 4, "{expected:?}");
    let left = file.repair();
    assert_eq!(
        left.findings.iter().filter(|finding| finding.fixed).count(),
        1,
        "only the row of the index must be repaired: {left:?}"
    );
    let gone = file.mend(Unreadable::Goes);
    assert!(
        gone.findings.iter().all(|finding| finding.fixed),
        "{gone:?}"
    );
    let deleted = gone
        .findings
        .iter()
        .filter(|finding| finding.description.ends_with("; it is deleted"));
    assert_eq!(deleted.count(), 3, "{gone:?}");
    assert_eq!(file.check(), Report::default());
    file.with(|store| {
        store
            .write_blocking(|tx| tx.insert(ship("tug")))
            .expect("its name and its index values must be free");
        store
            .read(|tx| {
                assert!(
                    tx.find(&Id::<Ship>::from_text("barge"))?.is_none(),
                    "it must be deleted with its tug"
                );
                assert!(
                    tx.get(&Id::<Ship>::from_text("liner"))?
                        .spec
                        .escorts
                        .is_empty(),
                    "both references must be removed"
                );
                Ok(())
            })
            .unwrap();
        let told = store.read(|tx| tx.history_after(0, usize::MAX)).unwrap();
        let deletions = told
            .iter()
            .filter(|row| row.action == Action::Delete)
            .map(|row| row.id.as_str());
        assert_eq!(
            deletions.collect::<Vec<_>>(),
            ["no \u{FFFD} text", "tug", "barge"]
        );
    });
}

#[test]
fn dangling_references_count_as_deleted() {
    let file = Closed::filled();
    file.lose(SHIPS, b"tug");
    let found = file.check();
    let towed = "the ship barge refers by towedBy to the ship tug, which does not exist";
    let escorted = "the ship liner refers by escorts to the ship tug, which does not exist";
    assert!(
        told(&found).contains(&(towed, false)) && told(&found).contains(&(escorted, false)),
        "{found:?}"
    );
    file.heals();
    file.with(|store| {
        store.read(|tx| {
            assert!(
                tx.find(&Id::<Ship>::from_text("barge"))?.is_none(),
                "it must be deleted with its tug"
            );
            assert!(
                tx.get(&Id::<Ship>::from_text("liner"))?
                    .spec
                    .escorts
                    .is_empty(),
                "both references must be removed"
            );
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn ambiguous_faults_are_only_reported() {
    let file = Closed::filled();
    file.lose(HARBOURS, b"north");
    file.lose(
        INDEX,
        &[
            &index_code(Harbour::KIND, "name"),
            b"north\0\0north".as_slice(),
        ]
        .concat(),
    );
    let expected = [(
        "the ship liner refers by home to the harbour north, which does not exist",
        false,
    )];
    assert_eq!(told(&file.check()), expected);
    assert_eq!(told(&file.repair()), expected);

    let file = Closed::filled();
    let mut twin = ship("twin");
    twin.spec.name = "the tug".into();
    file.put(SHIPS, b"twin", &encode(&twin).unwrap());
    let report = file.repair();
    assert!(
        told(&report).contains(&("the ship twin has the same name as tug", false)),
        "{report:?}"
    );
    assert!(
        !format!("{report:?}").contains("the tug"),
        "the report contains a value, which may be a secret: {report:?}"
    );
    file.with(|store| {
        assert_eq!(
            store
                .read(|tx| tx.find_by::<Ship>("name", "the tug"))
                .unwrap()
                .unwrap()
                .id
                .as_str(),
            "tug"
        );
        assert_eq!(
            store
                .read(|tx| tx.ids(Ship::KIND, "flag", "blue"))
                .unwrap()
                .len(),
            4,
            "its other index entries must exist"
        );
    });
    assert_eq!(
        told(&file.check()),
        [("the ship twin has the same name as tug", false)]
    );
}

#[test]
fn many_findings_are_all_repaired() {
    let file = Closed::filled();
    file.with(|store| {
        store
            .write_blocking(|tx| (0..600).try_for_each(|n| tx.insert(ship(&format!("raft {n}")))))
            .unwrap()
    });
    let before = file.rows();
    file.tamper(INDEX, |rows| {
        rows.retain(|key, _| !key.windows(4).any(|part| part == b"raft"))
            .unwrap()
    });
    let found = file.check();
    assert_eq!((found.findings.len(), found.more), (1000, true));
    let mended = file.repair();
    assert_eq!((mended.findings.len(), mended.more), (1000, true));
    assert_eq!(file.rows(), before);
}

#[test]
fn checks_report_progress_and_stop() {
    let file = Closed::filled();
    let watch = Progress::default();
    file.with(|store| store.check(&watch).unwrap());
    let (done, total) = watch.done_and_total();
    assert!(done == total && total > 15, "{done} of {total}");
    watch.stop();
    assert!(file.with(|store| store.check(&watch)).is_err());
    assert!(
        file.with(|store| store.repair(Unreadable::Stays, &watch))
            .is_err()
    );
}

#[test]
fn snapshot_has_the_same_rows() {
    let file = Closed::filled();
    let copy = file.path.with_extension("copy");
    std::fs::write(&copy, "something older").unwrap();
    file.with(|store| drop(store.snapshot(&copy, &Progress::default()).unwrap()));
    assert_eq!(
        std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(rows(&copy), file.rows());
    let reopened = stores::of(KINDS).start(&copy);
    assert!(!reopened.is_new());
    assert_eq!(
        reopened.check(&Progress::default()).unwrap(),
        Report::default()
    );
    let left: Vec<String> = std::fs::read_dir(file.path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        left.iter()
            .all(|name| ["data", "data.copy"].contains(&name.as_str())),
        "{left:?}"
    );
}

#[test]
fn snapshots_are_compact() {
    let file = Closed::filled();
    let copy = file.path.with_extension("copy");
    file.with(|store| {
        store
            .write_blocking(|tx| {
                (0..4_000).try_for_each(|n| tx.insert(ship(&format!("raft {n:04}"))))
            })
            .unwrap();
        drop(store.snapshot(&copy, &Progress::default()).unwrap());
    });
    let held: usize = rows(&copy)
        .values()
        .flatten()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let size = std::fs::metadata(&copy).unwrap().len() as usize;
    assert!(size < held * 5 / 4, "{size} bytes for {held}");
}

#[test]
fn failed_snapshot_leaves_old_file() {
    let file = Closed::filled();
    assert!(
        file.with(|store| store.snapshot(
            &file.path.with_file_name("no such place").join("copy"),
            &Progress::default()
        ))
        .is_err()
    );
    let occupied = file.path.with_file_name("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("kept"), "").unwrap();
    assert!(
        file.with(|store| store.snapshot(&occupied, &Progress::default()))
            .is_err()
    );
    assert!(occupied.join("kept").exists());
    assert!(!file.path.with_file_name("occupied.unfinished").exists());
}

#[test]
fn snapshot_is_consistent_without_blocking() {
    let file = Closed::filled();
    let large = |n: u32| {
        let mut large = ship(&format!("large {n}"));
        large.spec.flag = "stripes and ".repeat(8_000);
        large
    };
    file.with(|store| {
        store
            .write_blocking(move |tx| (0..50).try_for_each(|n| tx.insert(large(n))))
            .unwrap();
        let (over, pairs) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (writing, ended, written) = (store.clone(), over.clone(), pairs.clone());
        let writer = std::thread::spawn(move || {
            while !ended.load(SeqCst) {
                let number = written.load(SeqCst);
                let pair = move |side: &str| ship(&format!("{side} {number}"));
                writing
                    .write_blocking(move |tx| {
                        tx.insert(pair("left"))
                            .and_then(|()| tx.insert(pair("right")))
                    })
                    .unwrap();
                written.fetch_add(1, SeqCst);
            }
        });
        for n in 0..3 {
            let copy = file.path.with_file_name(format!("copy {n}"));
            let watch = Progress::default();
            let mut counts = Vec::new();
            std::thread::scope(|scope| {
                let making = scope.spawn(|| drop(store.snapshot(&copy, &watch).unwrap()));
                while !making.is_finished() {
                    let (done, total) = watch.done_and_total();
                    if (1..total).contains(&done) {
                        counts.push(pairs.load(SeqCst));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let [first, .., last] = counts[..] else {
                panic!("the copy was made between two polls")
            };
            assert!(
                last - first > 1,
                "writes must continue while a snapshot is made"
            );
            let ships = rows(&copy).remove("records.ship").unwrap();
            let sides = |side: &[u8]| ships.keys().filter(|id| id.starts_with(side)).count();
            assert_eq!(sides(b"left"), sides(b"right"));
        }
        over.store(true, SeqCst);
        writer.join().unwrap();
        assert_eq!(
            store.check(&Progress::default()).unwrap(),
            Report::default()
        );
    });
}

fn ended(maintenance: &Maintenance) {
    let begun = Instant::now();
    while maintenance.is_running() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the run does not end"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn repair_copies_the_file_first() {
    let file = Closed::filled();
    let before = file.rows();
    let lost = before["index"].keys().next().unwrap();
    file.lose(INDEX, lost);
    let broken = file.rows();
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    file.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            clock.clone(),
            &file.path,
        );
        assert!(maintenance.state().is_none() && !maintenance.is_running());
        maintenance.snapshot().unwrap();
        let limited = Err(Error::Refused(Refusal::RateLimited));
        clock.advance(Duration::from_secs(59));
        assert_eq!(maintenance.snapshot(), limited);
        maintenance.begin(Work::Repair).unwrap();
        ended(&maintenance);
        let state = maintenance.state().unwrap();
        let findings = state.end.unwrap().1.unwrap().findings;
        assert!(
            state.work == Work::Repair && findings.len() == 1 && findings[0].fixed,
            "{findings:?}"
        );
        clock.advance(Duration::from_secs(1));
        maintenance.snapshot().unwrap();
        maintenance.begin(Work::Check).unwrap();
        maintenance.stop();
        assert!(!maintenance.is_running());
    });
    assert_eq!(
        rows(&file.path.with_file_name("data.before-repair")),
        broken
    );
    assert_eq!(rows(&file.path.with_file_name("data.snapshot")), before);
}

#[test]
fn only_one_maintenance_run_at_once() {
    let file = Closed::filled();
    file.with(|store| {
        store
            .write_blocking(|tx| (0..2000).try_for_each(|n| tx.insert(ship(&format!("raft {n}")))))
            .unwrap()
    });
    file.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            Clock::system(),
            &file.path,
        );
        maintenance.begin(Work::Repair).unwrap();
        for work in [Work::Check, Work::Repair] {
            assert_eq!(
                maintenance.begin(work),
                Err(Error::Refused(Refusal::RateLimited))
            );
        }
        ended(&maintenance);
        maintenance.begin(Work::Check).unwrap();
        ended(&maintenance);
        assert!(maintenance.state().unwrap().end.unwrap().1.is_ok());
    });
}
