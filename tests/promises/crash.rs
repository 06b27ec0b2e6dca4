//! Acknowledged writes survive `kill -9`, including indexes, and no write is half done.
//!
//! A child process, this same binary, writes from several threads and prints what was acknowledged,
//! each after the answer. The parent kills it at a random moment, opens the file and compares.
//! `OVERKEEP_KILLS` sets the number of rounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use model::{
    entity::{Entity, Id, Lookup, Record, TypedLookup},
    error::Error,
};
use store::Store;
use tempfile::TempDir;

use crate::store::{KINDS, Task, assert_index_consistent, task};

use crate::harness::stores;

const FILE: &str = "OVERKEEP_CRASH_FILE";
const ROUND: &str = "OVERKEEP_CRASH_ROUND";
const THREADS: usize = 6;
/// This many rounds end before anything is written.
const EARLY: u64 = 2;

/// The child's output about a record: `+ id` exists, `? id` is about to be deleted, `- id` is
/// deleted, `= id state`.
#[derive(Debug, Default)]
struct Acknowledged {
    there: BTreeSet<String>,
    gone: BTreeSet<String>,
    states: BTreeMap<String, u32>,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["+", id] => drop(self.there.insert(id.into())),
            ["?", id] => drop(self.there.remove(id)),
            ["-", id] => drop(self.gone.insert(id.into())),
            ["=", id, state] => drop(self.states.insert(id.into(), state.parse().unwrap())),
            _ => {} // Output of the test runner.
        }
    }
}

#[test]
#[ignore = "endurance"]
fn what_was_acknowledged_survives_a_kill() {
    let kills: u64 = env::var("OVERKEEP_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    let mut all = Acknowledged::default();
    for round in 0..kills {
        // The first rounds end while the file is created. The clock provides the randomness.
        let rng = u64::from(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .subsec_nanos(),
        ) / 1_000;
        let moment = Duration::from_micros(if round < EARLY {
            2_000 + rng % 20_000
        } else {
            rng % 300_000
        });
        run_and_kill(&path, round, moment, &mut all);
        check(&path, &all);
    }
    assert!(
        kills < 8 || all.there.len() > 20,
        "the children wrote too little for a meaningful test: {}",
        all.there.len()
    );
    println!(
        "{kills} kills, {} records acknowledged and there, {} deleted",
        all.there.len(),
        all.gone.len()
    );
}

fn run_and_kill(path: &Path, round: u64, moment: Duration, all: &mut Acknowledged) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let (begun, has_begun) = channel();
    let listener = thread::spawn(move || {
        let mut heard = Acknowledged::default();
        // The last line may be incomplete: without its end it is ignored.
        for line in said.split(b'\n').map(Result::unwrap) {
            if let Some(line) = line.strip_suffix(b".") {
                heard.hear(std::str::from_utf8(line).unwrap());
                let _ = begun.send(());
            }
        }
        heard
    });
    if round >= EARLY {
        // On a busy machine it takes a while until something is written.
        has_begun.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    let heard = listener.join().unwrap();
    all.there.extend(heard.there);
    all.gone.extend(heard.gone);
    all.states.extend(heard.states);
}

fn check(path: &Path, all: &Acknowledged) {
    let store = stores::of(KINDS).start(path);
    store
        .read(|tx| {
            for id in &all.there {
                tx.get(&Id::<Task>::from_text(id.clone()))
                    .unwrap_or_else(|e| panic!("acknowledged, then lost: {e}"));
            }
            for id in &all.gone {
                assert!(
                    tx.find(&Id::<Task>::from_text(id.clone()))?.is_none(),
                    "{id} was deleted and is back"
                );
            }
            for (id, state) in &all.states {
                let found = tx.get(&Id::<Task>::from_text(id.clone()))?.state;
                assert!(
                    found == *state || found == state + 1,
                    "{id} has {found}, acknowledged was {state}"
                );
            }
            let mut by_role = BTreeMap::<_, Vec<_>>::new();
            tx.each::<Task>(|Record { id, spec, .. }| {
                assert_eq!(
                    tx.find_by::<Task>("name", &spec.name)?
                        .map(|found| found.id),
                    Some(id.clone())
                );
                spec.roles
                    .entries()
                    .iter()
                    .cloned()
                    .for_each(|role| by_role.entry(role).or_default().push(id.to_string()));
                Ok(())
            })?;
            for (role, ids) in by_role {
                assert_eq!(tx.ids(Task::KIND, "roles", &role)?, ids);
            }
            Ok(())
        })
        .unwrap();
    assert_index_consistent(&store);
}

#[test]
#[ignore = "the child of `what_was_acknowledged_survives_a_kill`"]
fn child() {
    let (Ok(path), Ok(round)) = (env::var(FILE), env::var(ROUND)) else {
        return;
    };
    let store = stores::of(KINDS).start(Path::new(&path));
    println!();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (store, round) = (store.clone(), round.clone());
            thread::spawn(move || write_until_killed(&store, &format!("{round}-{thread}")))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

fn write_until_killed(store: &Store, name: &str) {
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{line}.\n").as_bytes())
            .and_then(|()| out.flush())
            .unwrap();
    };
    let counter = format!("{name}-counter");
    let record = task(&counter);
    store.write_blocking(|tx| tx.insert(record)).unwrap();
    for n in 0_u32.. {
        let id = format!("{name}-{n}");
        let mut new = task(&id);
        new.spec.roles.extend([format!("role {}", n % 7)]);
        new.spec.roles.extend(["every".into()]);
        store.write_blocking(|tx| tx.insert(new)).unwrap();
        say(format!("+ {id}"));

        let of = Id::<Task>::from_text(counter.clone());
        let state = store.write_blocking(move |tx| {
            let mut record = tx.get(&of)?;
            record.state += 1;
            tx.put(record.clone()).map(|()| record.state)
        });
        say(format!("= {counter} {}", state.unwrap()));

        let refused = task(&id);
        assert!(matches!(
            store.write_blocking(|tx| tx.insert(refused)),
            Err(Error::Duplicate { .. })
        ));
        if n % 3 == 2 {
            let gone = format!("{name}-{}", n - 2);
            let of = Id::<Task>::from_text(gone.clone());
            say(format!("? {gone}"));
            store.write_blocking(move |tx| tx.delete(&of)).unwrap();
            say(format!("- {gone}"));
        }
    }
}
