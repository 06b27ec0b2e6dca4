//! Files stay small for years.

use super::*;

/// Sessions that are open at any time, while others begin and end. redb doubles a full file, so
/// that the ratio of file size to content depends on this number: with this one the file has just
/// been doubled.
const OPEN_SESSIONS: usize = 2_750;
/// Sessions begun, and as many ended, in one transaction.
const AT_ONCE: usize = 25;
/// How much history is kept, in bytes.
const HISTORY: u64 = 1 << 20;

/// A file with nothing but sessions, on a disk in memory.
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
                builtin::identity_types(now)
                    .into_iter()
                    .try_for_each(|record| tx.insert(record))?;
                tx.insert(builtin::auth_policy(now))?;
                tx.insert(Record::new(
                    Id::from_text("somebody"),
                    now,
                    Identity::named("somebody"),
                ))
            })
            .unwrap();
        Self { disk, store, now }
    }

    /// One transaction in which some sessions begin and others end.
    fn commit_sessions(&self, begin: Range<usize>, end: Range<usize>) {
        let now = self.now;
        let commit_sessions = move |tx: &Tx<'_>| {
            begin
                .into_iter()
                .try_for_each(|n| tx.insert(session(n, now)))?;
            end.into_iter()
                .try_for_each(|n| tx.delete(&session(n, now).id))
        };
        self.store.write_blocking(commit_sessions).unwrap();
        self.store
            .trim_history(
                HistoryClass::Sessions,
                Retention {
                    since: now,
                    bytes: HISTORY,
                },
            )
            .unwrap();
    }

    /// Closes the file. Returns its length and the length of a compacted copy, in bytes.
    fn closed(self, data: &Path) -> (u64, u64) {
        self.store.close();
        let mut bytes = vec![0; self.disk.len().unwrap() as usize];
        self.disk.read(0, &mut bytes).unwrap();
        fs::write(data, bytes).unwrap();
        let copy = data.with_extension("copy");
        offline::snapshot(data, &copy, &Progress::default()).unwrap();
        (length(data), length(&copy))
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn session_churn_keeps_file_small() {
    let cycles: usize = env::var("OVERKEEP_CYCLES").map_or(2_500, |cycles| cycles.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let sessions = Sessions::new();
    let (mut half_way, mut longest) = (0, 0);
    for write_part in (0..OPEN_SESSIONS + cycles).step_by(AT_ONCE) {
        let ended = write_part
            .checked_sub(OPEN_SESSIONS)
            .map_or(0..0, |first| first..first + AT_ONCE);
        sessions.commit_sessions(write_part..write_part + AT_ONCE, ended);
        longest = sessions.disk.len().unwrap().max(longest);
        if write_part < OPEN_SESSIONS + cycles / 2 {
            half_way = longest;
        }
    }
    let (grown, live) = sessions.closed(&data);
    let times = |length: u64| length as f64 / live as f64;
    println!(
        "{cycles} sessions: {live} bytes live, {:.2} times that closed, {:.2} at most",
        times(grown),
        times(longest)
    );
    assert!(
        half_way > 0 && longest <= half_way,
        "it grew from {half_way} to {longest} bytes with as many sessions in it"
    );
    assert!(grown * 2 <= live * 5, "{grown} bytes for {live}");
    assert!(
        offline::check(&data, None, &Progress::default())
            .unwrap()
            .report
            .findings
            .is_empty()
    );
}

#[test]
fn start_compacts_the_file() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let sessions = Sessions::new();
    (0..60).for_each(|n| sessions.commit_sessions(n * 100..(n + 1) * 100, 0..0));
    (0..58).for_each(|n| sessions.commit_sessions(0..0, n * 100..(n + 1) * 100));
    let (grown, live) = sessions.closed(&data);
    assert!(
        grown > live * 5 / 2,
        "{grown} bytes for {live}: too little growth for this test"
    );
    let opened = |compact: bool| {
        stores::of(KINDS)
            .with(Options {
                compact,
                ..Options::default()
            })
            .start(&data)
            .close()
    };
    opened(false);
    assert!(length(&data) > live * 5 / 2);
    opened(true);
    let after = length(&data);
    assert!(
        after * 2 <= live * 5,
        "{grown} bytes, then {after} for {live}"
    );
    let (before, compact) = offline::compact(&data).unwrap();
    assert!(
        compact <= before && before == after,
        "{before} bytes, then {compact}"
    );
    assert!(
        offline::check(&data, None, &Progress::default())
            .unwrap()
            .report
            .findings
            .is_empty()
    );
}

/// A disk in memory that outlives the store: only space is measured here, and flushes would take
/// time.
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
    // Ids ascend, and tokens are unordered, as in real files.
    let id = format!("c{n:024}");
    let spec = ApiSession {
        token: format!(
            "{:016x}-of-somebody-{n:08}",
            (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ),
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
