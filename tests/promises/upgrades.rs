//! A file over the years: snapshots that come and go by themselves, other releases, and growth that ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use overkeep::{
    change::{KINDS, SealedKeys},
    clock::{Clock, Timestamp},
    config::{Config, Snapshots, Span},
    controller::{self, Controller},
    entity::{ApiSession, Id, Identity, Record, builtin},
    maintenance::{Maintenance, Schedule, closed},
    pki::Passphrase,
    store::{NEWEST, Options, Progress, Retention, Store, Tx, Unreadable, beside, index_code},
};
use redb::{StorageBackend, backends::InMemoryBackend};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    harness::{TestServer, stores, trusting},
    integrity::rows,
};

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn configuration(data: &Path) -> Config {
    let mut config = Config { data: data.into(), ..Config::default() };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

#[test]
fn scheduled_snapshots_are_rotated() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let store = stores::of(KINDS).start(&data);
    store.write_blocking(|tx| tx.set_setting("something", Some(b"to copy"))).unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_123));
    let directory = place.path().join("made").join("here");
    let settings = Snapshots { directory: Some(directory.clone()), interval: Span::minutes(60), keep: 2 };
    let schedule =
        || Schedule::of(&settings, Maintenance::new(store.clone(), SealedKeys::default(), clock.clone(), &data), clock.clone()).unwrap();
    let watch = Progress::default();
    let first = schedule().round(&watch).unwrap().unwrap();
    assert!(closed::verify(&first, None, &watch).unwrap().report.findings.is_empty());
    let others =
        ["overkeep-2020.snapshot", "overkeep-20200101T000000.000Z.snapshot.mine", "overkeep-20209901T000000.000Z.snapshot", "notes"];
    others.iter().for_each(|name| fs::write(directory.join(name), "").unwrap());
    fs::write(directory.join("overkeep-20200101T000000.000Z.snapshot.unfinished"), "cut off").unwrap();
    // A restart changes nothing in the schedule.
    clock.advance(Duration::from_secs(3599));
    assert_eq!(schedule().round(&watch).unwrap(), None);
    clock.advance(Duration::from_secs(1));
    let second = schedule().round(&watch).unwrap().unwrap();
    assert!(first.exists() && second.exists());
    clock.advance(Duration::from_secs(3600));
    let third = schedule().round(&watch).unwrap().unwrap();
    let with = |kept: [&PathBuf; 2]| {
        let kept = kept.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut expected: Vec<String> = others.iter().map(|name| (*name).to_owned()).chain(kept).collect();
        expected.sort();
        expected
    };
    assert_eq!(names(&directory), with([&second, &third]));

    // What a clock that was ahead left behind does not push out what is made once it is right.
    clock.set(Timestamp::from_millis(1_600_000_000_000));
    let fourth = schedule().round(&watch).unwrap().unwrap();
    let expected = with([&third, &fourth]);
    assert_eq!(names(&directory), expected);
    assert_eq!(schedule().round(&watch).unwrap(), None);

    // Where none can be made, none is lost, and nothing that was cut off takes room.
    clock.advance(Duration::from_secs(3600));
    fs::write(directory.join("overkeep-20200101T000000.000Z.snapshot.unfinished"), "cut off").unwrap();
    watch.stop();
    assert!(schedule().round(&watch).is_err());
    assert_eq!(names(&directory), expected);
}

#[test]
fn a_controller_keeps_its_schedule() {
    let place = TempDir::new().unwrap();
    let directory = place.path().join("snapshots");
    let server = TestServer::with(Clock::system(), |config| config.snapshots.directory = Some(directory.clone()));
    let begun = Instant::now();
    while !directory.exists() || !names(&directory).iter().any(|name| name.ends_with(".snapshot")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "no snapshot is made");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
}

#[test]
fn slow_snapshots_are_not_interrupted() {
    let place = TempDir::new().unwrap();
    let mut config = configuration(&place.path().join("data"));
    let first = controller::start(&config, Clock::system()).unwrap();
    let password = first.generated_password().unwrap().to_owned();
    let url = |controller: &Controller| format!("https://{}", controller.bound());
    let token = trusting(&url(&first)).log_in("admin", &password).token.unwrap();
    first.stop();
    config.http.request_timeout = "1s".parse().unwrap();
    let store = stores::of(KINDS).start(&config.data);
    // As much as it takes here for a copy to last longer than a request may.
    let begun = |part: u32| {
        store.write_blocking(move |tx| tx.set_setting(&format!("ballast {part}"), Some(&vec![7; 8 << 20]))).unwrap();
        Instant::now()
    };
    let slow = (0..64).map(begun).any(|begun| {
        store.snapshot(&place.path().join("copy"), &Progress::default()).unwrap();
        begun.elapsed() > 2 * config.http.request_timeout.duration()
    });
    assert!(slow);
    store.close();
    let controller = controller::start(&config, Clock::system()).unwrap();
    trusting(&url(&controller)).with_token(token).post("/database/snapshot", json!({})).expect(200);
}

#[test]
fn upgrade_copies_the_file_first() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let start = || controller::start(&configuration(&data), Clock::system()).unwrap().stop();
    start();
    start();
    assert_eq!(names(place.path()), ["data"], "the same release makes no copy");
    let store = stores::of(KINDS).start(&data);
    store.write_blocking(|tx| tx.set_setting("release", Some(b"0.0.9"))).unwrap();
    drop(store);
    start();
    let copy = format!("data.before-{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(names(place.path()), ["data", &copy]);
    let copy = place.path().join(copy);
    let kept = stores::of(KINDS).look(&copy);
    assert_eq!(kept.read(|tx| tx.setting("release")).unwrap().unwrap(), b"0.0.9");
}

/// The golden file of a format: what an administrator made with the release that introduced it. `OVERKEEP_WRITE_GOLDEN=1` makes the one of
/// the newest anew, which is right only as long as no release with the format is out.
fn golden(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/format-{format}.redb.gz"))
}

/// The keys of all but the first are sealed with this.
const PASSPHRASE: &str = "the golden passphrase";

fn unpack(format: u32, to: &Path) {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(golden(format)).unwrap()).read_to_end(&mut bytes).unwrap();
    fs::write(to, bytes).unwrap();
}

fn pack(format: u32, file: &Path) {
    let mut out = flate2::GzBuilder::new().write(fs::File::create(golden(format)).unwrap(), flate2::Compression::best());
    std::io::copy(&mut fs::File::open(file).unwrap(), &mut out).unwrap();
    out.finish().unwrap();
}

#[test]
fn every_format_opens() {
    if env::var_os("OVERKEEP_WRITE_GOLDEN").is_some() {
        write_golden();
    }
    opens_with_everything_in_it(1, None);
    opens_with_everything_in_it(2, Some(PASSPHRASE));
    opens_with_everything_in_it(NEWEST, Some(PASSPHRASE));
}

fn opens_with_everything_in_it(format: u32, passphrase: Option<&str>) {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    unpack(format, &data);
    let key = passphrase.map(Passphrase::new);
    let started = |file: &Path| {
        let mut config = configuration(file);
        config.passphrase_file = passphrase.map(|text| {
            let file = place.path().join("passphrase");
            fs::write(&file, text).unwrap();
            file
        });
        controller::start(&config, Clock::system()).unwrap()
    };
    let verified = |file: &Path| {
        let seen = closed::verify(file, key.as_ref(), &Progress::default()).unwrap();
        assert!(seen.report.findings.is_empty(), "{:?}", seen.report);
        assert!(closed::verify_history(file, None).unwrap().faults.is_empty());
        seen.manifest.unwrap().format
    };
    assert_eq!(verified(&data), format);
    let restored = place.path().join("restored");
    closed::restore(&data, &restored, key.as_ref(), Timestamp::from_millis(0), &Progress::default()).unwrap();
    let filled = |file: &Path| rows(file).into_iter().filter(|(_, rows)| !rows.is_empty()).collect::<BTreeMap<_, _>>();
    assert!(filled(&restored) == filled(&data), "what is restored is what was kept");
    let before = |file: &Path| beside(file, &format!(".before-{}", env!("CARGO_PKG_VERSION")));
    closed::reseal(&restored, key.as_ref(), key.as_ref(), &Progress::default()).unwrap();
    assert!(format == NEWEST || verified(&before(&restored)) == format, "the way back is what the other release left");
    let repaired = place.path().join("repaired");
    fs::copy(&data, &repaired).unwrap();
    closed::repair(&repaired, key.as_ref(), Unreadable::Stays, &Progress::default()).unwrap();
    let copy = beside(&repaired, ".before-repair");
    assert!(
        if format == NEWEST { !copy.exists() } else { verified(&copy) == format },
        "what this release wrote and is sound is not copied"
    );
    for file in [&restored, &repaired] {
        let kept = fs::read(before(file)).ok();
        started(file).stop();
        assert_eq!(fs::read(before(file)).ok(), kept, "no copy is made of what a command of this release has written");
    }
    let running = started(&data);
    let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let alice = admin.get("/identities?filter=name%3D%22alice%22").expect(200);
    assert_eq!(alice.data()[0]["roleAttributes"], json!(["laptops"]));
    assert_eq!(alice.data()[0]["appData"], json!({ "desk": "7" }));
    let service = admin.get("/services?filter=name%3D%22database%22").expect(200);
    let id = service.data()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(admin.get(&format!("/services/{id}/configs")).expect(200).data()[0]["data"]["port"], 5432);
    assert_eq!(admin.get(&format!("/services/{id}/identities")).expect(200).data()[0]["name"], "alice");
    // Lists of transit routers show edge routers as well. One more edge router is the one that this release brings along.
    let counts = [("edge-routers", 2), ("transit-routers", 3), ("enrollments", 3), ("posture-checks", 1), ("external-jwt-signers", 1)];
    for (path, count) in counts {
        assert_eq!(admin.get(&format!("/{path}")).expect(200).data().as_array().unwrap().len(), count, "{path}");
    }
    // Forms are made from these schemas, and files of earlier releases hold others.
    for record in builtin::config_types(Timestamp::ZERO_TIME).unwrap() {
        let shown = admin.get(&format!("/config-types/{}", record.id)).expect(200);
        let schema = record.spec.schema.unwrap().0;
        assert_eq!(
            shown.data()["schema"].to_string(),
            serde_json::Value::from(schema).to_string(),
            "format {format}: {}",
            record.spec.name
        );
    }
    let signers = admin.get("/external-jwt-signers").expect(200);
    let signer = ["name", "jwksEndpoint", "claimsProperty", "clientId", "scopes", "targetToken"].map(|member| &signers.data()[0][member]);
    let known = json!(["signer", "https://issuer.example.org/keys", "sub", null, [], "ACCESS"]);
    assert_eq!(json!(signer), known, "what was stored before programs could be told how to get a token");
    running.stop();
    let copy = place.path().join("copy");
    closed::snapshot(&data, &copy, &Progress::default()).unwrap();
    assert_eq!(verified(&copy), NEWEST);
    assert_eq!(before(&data).exists(), format < NEWEST);
    assert!(format == NEWEST || verified(&before(&data)) == format, "the way back is what the other release left");
}

#[test]
fn changed_config_types_stay() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let given = place.path().join("given");
    fs::write(&given, PASSPHRASE).unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let start = || {
        let running = controller::start(&config, Clock::system()).unwrap();
        let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", PASSPHRASE);
        (running, admin)
    };
    let (running, admin) = start();
    let own = json!({ "type": "object", "properties": { "mine": { "type": "string" } } });
    admin.patch("/config-types/host.v2", json!({ "schema": own })).expect(200);
    admin.delete("/config-types/g7cIWbcGg").expect(200);
    running.stop();
    let (running, admin) = start();
    assert_eq!(admin.get("/config-types/host.v2").expect(200).data()["schema"]["properties"], own["properties"]);
    admin.get("/config-types/g7cIWbcGg").expect(404);
    running.stop();
}

fn write_golden() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let given = place.path().join("given");
    fs::write(&given, "the golden password").unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let make = |path: &str, body: serde_json::Value| admin.post(path, body).expect(201).id();
    let roles = json!(["laptops"]);
    make(
        "/identities",
        json!({ "name": "alice", "type": "Device", "isAdmin": false, "roleAttributes": roles, "appData": { "desk": "7" }, "enrollment": { "ott": true } }),
    );
    let types = admin.get("/config-types?filter=name%3D%22ziti-tunneler-client.v1%22").expect(200);
    let data_of = json!({ "hostname": "database.internal", "port": 5432 });
    let config = make("/configs", json!({ "name": "database", "configTypeId": types.data()[0]["id"], "data": data_of }));
    make("/services", json!({ "name": "database", "encryptionRequired": true, "configs": [config] }));
    make(
        "/service-policies",
        json!({ "name": "dial", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#laptops"], "serviceRoles": ["#all"] }),
    );
    make("/edge-routers", json!({ "name": "edge" }));
    make("/transit-routers", json!({ "name": "transit" }));
    make(
        "/edge-router-policies",
        json!({ "name": "everybody", "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": ["#all"] }),
    );
    make("/posture-checks", json!({ "name": "mfa", "typeId": "MFA" }));
    make(
        "/external-jwt-signers",
        json!({ "name": "signer", "issuer": "https://issuer.example.org", "audience": "overkeep", "enabled": true, "jwksEndpoint": "https://issuer.example.org/keys" }),
    );
    let copy = place.path().join("copy");
    running.stop();
    closed::snapshot(&data, &copy, &Progress::default()).unwrap();
    closed::reseal(&copy, None, Some(&Passphrase::new(PASSPHRASE)), &Progress::default()).unwrap();
    pack(NEWEST, &copy);
}

#[test]
fn index_changes_with_format_only() {
    let fields = || {
        KINDS
            .iter()
            .flat_map(|entry| (entry.indexed)().into_iter().map(move |field| (entry.kind.name, field, index_code(entry.kind, field))))
    };
    let names: BTreeSet<_> = fields().map(|(kind, field, _)| (kind, field)).collect();
    let codes: BTreeSet<_> = fields().map(|(.., code)| code).collect();
    assert_eq!(codes.len(), names.len(), "two fields have one code");
    let all = codes.iter().flatten().copied().collect::<Vec<u8>>();
    assert_eq!(
        crc32fast::hash(&all),
        3_205_231_679,
        "a file of format {NEWEST} has other rows: take the next format, and bring files to it"
    );
}

/// Sessions that are open at any time, while others come and go. The database library doubles a file that has no room left, so that how
/// many times its content a file is depends on how many there are: with these it has just done so.
const OPEN: usize = 2_750;
/// Sessions opened, and as many ended, in one transaction.
const AT_ONCE: usize = 25;
/// How much of the history is kept, in bytes.
const HISTORY: u64 = 1 << 20;

/// A file that nothing but sessions are written to, on a disk in memory.
struct Sessions {
    disk: Disk,
    store: Store,
    now: Timestamp,
}

impl Sessions {
    fn new() -> Self {
        let disk = Disk(Arc::new(InMemoryBackend::new()));
        let now = Timestamp::from_millis(1_700_000_000_000);
        let store = stores::of(KINDS).start_on(disk.clone());
        store
            .write_blocking(move |tx| {
                builtin::identity_types(now).into_iter().try_for_each(|record| tx.insert(record))?;
                tx.insert(builtin::auth_policy(now))?;
                tx.insert(Record::new(Id::from_text("somebody"), now, Identity::named("somebody")))
            })
            .unwrap();
        Self { disk, store, now }
    }

    /// One transaction in which some begin and others end.
    fn turn(&self, begin: Range<usize>, end: Range<usize>) {
        let now = self.now;
        let turn = move |tx: &Tx<'_>| {
            begin.into_iter().try_for_each(|n| tx.insert(session(n, now)))?;
            end.into_iter().try_for_each(|n| tx.delete(&session(n, now).id))
        };
        self.store.write_blocking(turn).unwrap();
        self.store.trim_history(Retention { since: now, bytes: HISTORY }).unwrap();
    }

    /// The file, closed, and how long it and a copy without anything that is not needed are.
    fn closed(self, data: &Path) -> (u64, u64) {
        self.store.close();
        let mut bytes = vec![0; self.disk.len().unwrap() as usize];
        self.disk.read(0, &mut bytes).unwrap();
        fs::write(data, bytes).unwrap();
        let copy = data.with_extension("copy");
        closed::snapshot(data, &copy, &Progress::default()).unwrap();
        (length(data), length(&copy))
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn session_churn_keeps_file_small() {
    let cycles: usize = env::var("OVERKEEP_CYCLES").map_or(2_500, |cycles| cycles.parse().unwrap());
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let sessions = Sessions::new();
    let (mut half_way, mut longest) = (0, 0);
    for begun in (0..OPEN + cycles).step_by(AT_ONCE) {
        let over = begun.checked_sub(OPEN).map_or(0..0, |first| first..first + AT_ONCE);
        sessions.turn(begun..begun + AT_ONCE, over);
        longest = sessions.disk.len().unwrap().max(longest);
        if begun < OPEN + cycles / 2 {
            half_way = longest;
        }
    }
    let (grown, live) = sessions.closed(&data);
    let times = |length: u64| length as f64 / live as f64;
    println!("{cycles} sessions: {live} bytes live, {:.2} times that closed, {:.2} at most", times(grown), times(longest));
    assert!(half_way > 0 && longest <= half_way, "it grew from {half_way} to {longest} bytes with as many sessions in it");
    assert!(grown * 2 <= live * 5, "{grown} bytes for {live}");
    assert!(closed::check(&data, None, &Progress::default()).unwrap().report.findings.is_empty());
}

#[test]
fn start_compacts_the_file() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let sessions = Sessions::new();
    (0..60).for_each(|n| sessions.turn(n * 100..(n + 1) * 100, 0..0));
    (0..58).for_each(|n| sessions.turn(0..0, n * 100..(n + 1) * 100));
    let (grown, live) = sessions.closed(&data);
    assert!(grown > live * 5 / 2, "{grown} bytes for {live}: that proves nothing");
    let opened = |compact: bool| stores::of(KINDS).with(Options { compact, ..Options::default() }).start(&data).close();
    opened(false);
    assert!(length(&data) > live * 5 / 2);
    opened(true);
    let after = length(&data);
    assert!(after * 2 <= live * 5, "{grown} bytes, then {after} for {live}");
    let (before, compact) = closed::compact(&data).unwrap();
    assert!(compact <= before && before == after, "{before} bytes, then {compact}");
    assert!(closed::check(&data, None, &Progress::default()).unwrap().report.findings.is_empty());
}

/// A disk in memory, that is there after the store is closed: what is measured here is space, and flushes take time.
#[derive(Debug, Clone)]
struct Disk(Arc<InMemoryBackend>);

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn session(n: usize, now: Timestamp) -> Record<ApiSession> {
    // Ids ascend, and tokens are in no order, as they are.
    let id = format!("c{n:024}");
    let spec = ApiSession {
        token: format!("{:016x}-of-somebody-{n:08}", (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        identity_id: Id::from_text("somebody"),
        authenticator_id: "internal".into(),
        config_types: Vec::new(),
        ip_address: "192.0.2.7".into(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: now,
    };
    Record::new(Id::from_text(id), now, spec)
}
