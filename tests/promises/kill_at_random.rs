//! The program is killed repeatedly during work, and acknowledged writes survive.
//!
//! Clients write over REST. SIGKILL comes at a random moment: while the file is created, during a
//! snapshot, check or repair, or during writes. After each kill, a copy of the file is compared
//! with the acknowledged writes, every complete snapshot beside it is checked, and the program
//! starts on the file itself. `OVERKEEP_TORTURE` sets the number of kills.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use model::entity::{Id, Identity, Service, ServicePolicy, TypedLookup};
use policy::change::KINDS;
use serde_json::{Value as Json, json};
use store::{Progress, Store};
use tempfile::TempDir;

use crate::{
    harness::{Caller, Program, command, fresh, stores},
    simulated_disk::Rng,
};

const CLIENTS: usize = 4;
const KILLS: usize = 5;
/// Kills of one file.
const LAP: usize = 25;

/// By path and id: the possible names of a record; `None` if it may not exist.
type Expected = BTreeMap<(&'static str, String), Vec<Option<String>>>;

/// What the clients know. A client registers a change before it sends it.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Expected>>);

impl Ledger {
    fn may_be(&self, path: &'static str, id: &str, name: Option<&str>) {
        self.0
            .lock()
            .unwrap()
            .entry((path, id.into()))
            .or_default()
            .push(name.map(Into::into));
    }

    fn is(&self, path: &'static str, id: &str, name: Option<&str>) {
        self.0
            .lock()
            .unwrap()
            .insert((path, id.into()), vec![name.map(Into::into)]);
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// A random record that certainly exists.
    fn any(&self, rng: &mut Rng, of: &str) -> Option<(&'static str, String)> {
        let all = self.0.lock().unwrap();
        let mine = |((path, _), names): &(&(&'static str, String), &Vec<Option<String>>)| {
            matches!(names.as_slice(), [Some(name)] if name.contains(of)) && !path.is_empty()
        };
        let there: Vec<_> = all
            .iter()
            .filter(mine)
            .map(|(key, _)| key.clone())
            .collect();
        (!there.is_empty()).then(|| rng.pick(&there).clone())
    }
}

/// Sends a request; `None` if no answer arrives.
fn send(caller: &Caller, method: &str, path: &str, body: Option<Json>) -> Option<(u16, Json)> {
    let url = format!("{}{}{path}", caller.url, caller.base.path());
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("zt-session", caller.token.as_deref()?);
    let sent = match body {
        Some(body) => caller.agent.run(
            request
                .header("content-type", "application/json")
                .body(body.to_string())
                .unwrap(),
        ),
        None => caller.agent.run(request.body(()).unwrap()),
    };
    let mut answer = sent.ok()?;
    // The end of a truncated answer may be missing; its status counts.
    let body = answer.body_mut().read_json().unwrap_or_default();
    Some((answer.status().as_u16(), body))
}

/// Writes until there is no answer any more.
fn work(caller: &Caller, ledger: &Ledger, mut rng: Rng) {
    let own = fresh("client") + ".";
    loop {
        let name = fresh(&own);
        let known = ledger.any(&mut rng, &own);
        let answered = match (known, rng.below(4)) {
            (Some((path, id)), 0) => {
                ledger.may_be(path, &id, None);
                send(caller, "DELETE", &format!("{path}/{id}"), None).map(|(status, body)| {
                    assert_eq!(status, 200, "{body}");
                    ledger.is(path, &id, None);
                })
            }
            (Some((path, id)), 1) => {
                ledger.may_be(path, &id, Some(&name));
                send(
                    caller,
                    "PATCH",
                    &format!("{path}/{id}"),
                    Some(json!({ "name": name })),
                )
                .map(|(status, body)| {
                    assert_eq!(status, 200, "{body}");
                    ledger.is(path, &id, Some(&name));
                })
            }
            _ => {
                let (path, body) = match rng.below(3) {
                    0 => (
                        "/identities",
                        json!({ "name": name, "type": "Device", "isAdmin": false, "enrollment": { "ott": true } }),
                    ),
                    1 => (
                        "/services",
                        json!({ "name": name, "encryptionRequired": true, "roleAttributes": ["x"] }),
                    ),
                    _ => (
                        "/service-policies",
                        json!({ "name": name, "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#all"],
                        "serviceRoles": ["#x"] }),
                    ),
                };
                send(caller, "POST", path, Some(body)).map(|(status, body)| {
                    assert_eq!(status, 201, "{body}");
                    // A truncated answer has no id.
                    if let Some(id) = body.pointer("/data/id").and_then(Json::as_str) {
                        ledger.is(path, id, Some(&name));
                    }
                })
            }
        };
        if answered.is_none() {
            return;
        }
    }
}

/// Requests operations on the whole file, in turn.
fn disturb(caller: &Caller, first: usize) {
    let work = [
        "/database/snapshot",
        "/database/fix-data-integrity",
        "/database/check-data-integrity",
    ];
    for path in work.iter().cycle().skip(first % work.len()) {
        if send(caller, "POST", path, None).is_none() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// One run of the program until it is killed; returns its last phase.
fn live_and_die(directory: &Path, round: usize, ledger: &Ledger, rng: &mut Rng) -> &'static str {
    let process = command(directory).spawn().unwrap();
    let pid = process.id().to_string();
    // A third are killed before they report their address, the first of them while the file is
    // created.
    let early = round.is_multiple_of(3);
    let killer = early.then(|| {
        let moment = Duration::from_millis(rng.below(400) as u64);
        thread::spawn(move || {
            thread::sleep(moment);
            drop(
                std::process::Command::new("kill")
                    .args(["-KILL", &pid])
                    .status(),
            );
        })
    });
    let program = Program::of(process);
    // Before `wait`: until then the process id cannot be reused.
    killer.into_iter().for_each(|killer| killer.join().unwrap());
    let mut program = match program {
        Ok(program) => program,
        Err(mut process) => {
            assert!(early, "the program no longer starts");
            process.wait().unwrap();
            return "starting";
        }
    };
    let admin = (!early).then(|| program.admin());
    let clients: Vec<_> = admin
        .iter()
        .flat_map(|admin| (0..=CLIENTS).map(move |n| (n, admin.clone())))
        .collect();
    let clients: Vec<_> = clients
        .into_iter()
        .map(|(n, admin)| {
            let (ledger, rng) = (ledger.clone(), Rng(rng.number()));
            thread::spawn(move || {
                if n == CLIENTS {
                    disturb(&admin, round)
                } else {
                    work(&admin, &ledger, rng)
                }
            })
        })
        .collect();
    if !early {
        // On a busy machine the first answer takes a while.
        let (before, begin) = (ledger.len(), Instant::now());
        while ledger.len() == before && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(rng.below(400) as u64));
    }
    program.kill();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    "working"
}

fn opened(file: &Path, copy: &Path) -> Store {
    fs::copy(file, copy).unwrap();
    let store = stores::of(KINDS).start(copy);
    let findings = store.check(&Progress::default()).unwrap().findings;
    assert!(findings.is_empty(), "{}: {findings:#?}", file.display());
    store
}

fn check(directory: &Path, ledger: &Ledger) {
    let copy = directory.join("copy");
    if !directory.join("data").exists() {
        return assert!(ledger.0.lock().unwrap().is_empty(), "the file is gone");
    }
    for beside in ["data.snapshot", "data.before-repair"]
        .map(|name| directory.join(name))
        .into_iter()
        .filter(|file| file.exists())
    {
        opened(&beside, &copy).close();
    }
    let store = opened(&directory.join("data"), &copy);
    let mut ledger = ledger.0.lock().unwrap();
    for ((path, id), names) in ledger.iter_mut() {
        let found = store.read(|tx| {
            Ok(match *path {
                "/identities" => tx
                    .find(&Id::<Identity>::from_text(id.as_str()))?
                    .map(|found| found.spec.name),
                "/services" => tx
                    .find(&Id::<Service>::from_text(id.as_str()))?
                    .map(|found| found.spec.name),
                _ => tx
                    .find(&Id::<ServicePolicy>::from_text(id.as_str()))?
                    .map(|found| found.spec.name),
            })
        });
        let found = found.unwrap();
        assert!(
            names.contains(&found),
            "{path}/{id} is {found:?}, acknowledged was {names:?}"
        );
        *names = vec![found];
    }
    store.close();
}

#[test]
#[ignore = "endurance"]
fn acknowledged_writes_survive_a_kill() {
    let kills = env::var("OVERKEEP_TORTURE").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut rng = Rng(SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut written = 0;
    for lap in (0..kills).step_by(LAP) {
        // Each lap has a new file.
        let place = TempDir::new().unwrap();
        let ledger = Ledger::default();
        for round in lap..kills.min(lap + LAP) {
            *ends
                .entry(live_and_die(place.path(), round - lap, &ledger, &mut rng))
                .or_default() += 1;
            check(place.path(), &ledger);
        }
        written += ledger.len();
    }
    assert!(written > 0, "nothing was written, so nothing was tested");
    println!("{kills} kills, {ends:?}, {written} records written");
}
