//! Whatever an attacker sends or writes into a file is answered or rejected: nothing panics,
//! nothing hangs, and the next request is served.
//!
//! Each target randomly changes valid input and runs for `OVERKEEP_FUZZ_SECONDS` (10 by default, so
//! that all targets take a minute), and for a minimum number of cases. A failing case prints its
//! number; `OVERKEEP_FUZZ_CASE` runs that one alone. To run one target for an hour:
//! `OVERKEEP_FUZZ_SECONDS=3600 cargo test --locked --test promises -- --ignored fuzz::filters`.

use std::{
    env, fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    process,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use overkeep::testing::{
    change::KINDS,
    clock::{Clock, Timestamp},
    config::Config,
    controller,
    maintenance::{offline, restore, snapshot_proof},
    store::{Progress, Unreadable},
};
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle,
};

use crate::{
    backup::DataFile,
    harness::{TestServer, Wire, encoded, frame, shared},
    simulated_disk::Rng,
};

/// A case that takes this long must be examined.
const HANG: Duration = Duration::from_secs(180);

/// Panics in our code, wherever they were caught.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn listen_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.location().is_some_and(|at| {
                ["src/", "crates/"]
                    .iter()
                    .any(|own| at.file().starts_with(own))
            }) {
                PANICS.lock().unwrap().push(info.to_string());
            }
            before(info);
        }));
    });
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs cases until the time is over, at least `least`.
pub fn target(name: &'static str, least: u64, mut case: impl FnMut(&mut Rng)) {
    listen_for_panics();
    let (only, seconds) = (
        number("OVERKEEP_FUZZ_CASE"),
        number("OVERKEEP_FUZZ_SECONDS").unwrap_or(10),
    );
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let (first, begun) = (only.unwrap_or(now), Instant::now());
    let current = Arc::new(AtomicU64::new(first));
    let watched = Arc::downgrade(&current);
    thread::spawn(move || {
        let (mut seen, mut since) = (0, Instant::now());
        while let Some(current) = watched.upgrade() {
            let at = current.load(Ordering::Relaxed);
            if at != seen {
                (seen, since) = (at, Instant::now());
            } else if since.elapsed() > HANG {
                eprintln!("{name} hangs: OVERKEEP_FUZZ_CASE={at}");
                process::abort();
            }
            drop(current);
            thread::sleep(Duration::from_secs(1));
        }
    });
    for n in 0.. {
        let at = first.wrapping_add(n);
        current.store(at, Ordering::Relaxed);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| case(&mut Rng(at))));
        let panics = PANICS.lock().unwrap().clone();
        assert!(
            outcome.is_ok() && panics.is_empty(),
            "{name}: OVERKEEP_FUZZ_CASE={at} {panics:?}"
        );
        if only.is_some() || n + 1 >= least && begun.elapsed() >= Duration::from_secs(seconds) {
            return eprintln!("{name}: {} cases", n + 1);
        }
    }
}

/// Changes some bytes: flips a bit, replaces, deletes, inserts, or repeats a part.
pub fn change(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const ODD: [u8; 12] = [0, 1, 9, 10, 13, 32, 34, 37, 0x7f, 0x80, 0xfe, 0xff];
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + 1 + rng.below(16)).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = *rng.pick(&ODD),
            2 => drop(bytes.splice(at..end.max(at), [])),
            3 => drop(bytes.splice(at..at, [*rng.pick(&ODD), rng.number() as u8])),
            4 => {
                let part = bytes[at..end.max(at)].to_vec();
                let to = rng.below(bytes.len() + 1);
                drop(bytes.splice(to..to, part));
            }
            _ if rng.percent(20) => bytes.truncate(at),
            _ => {}
        }
    }
}

// Bytes on the wire before authentication.

const REQUESTS: [&str; 7] = [
    "GET /edge/client/v1/version?a=\"b\" HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n",
    "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 35\r\n\r\n{\"username\":\"admin\",\"password\":\"x\"}",
    "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
    "GET /services HTTP/1.1\r\nhost: a\r\nzt-session: 00000000-0000-0000-0000-000000000000\r\ncookie: \"\"\r\n\r\n",
    "POST /enroll?method=ott&token=x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-type: application/pkcs10\r\ncontent-length: 3\r\n\r\nabc",
    "OPTIONS /edge/management/v1/identities HTTP/1.1\r\nhost: a\r\norigin: https://a.example\r\naccess-control-request-method: GET\r\n\r\n",
    "\r\nHEAD / HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /ready HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n\r\n",
];

/// An HTTP/2 conversation, initially of complete frames.
fn frames(rng: &mut Rng) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[]));
    let block = b"\x82\x87\x44\x08/version\x41\x02it".as_slice();
    for n in 0..1 + rng.below(6) {
        let stream = (2 * n + 1) as u32;
        let part = block[..rng.below(block.len() + 1)].to_vec();
        sent.extend(match rng.below(8) {
            0..4 => frame(1, 5, stream, block),
            4 => [
                frame(1, 1, stream, &part),
                frame(9, 4, stream, &block[part.len()..]),
            ]
            .concat(),
            5 => [
                frame(1, 4, stream, block),
                frame(0, rng.below(16) as u8, stream, &part),
            ]
            .concat(),
            6 => frame(rng.below(12) as u8, rng.number() as u8, stream, &part),
            _ => frame(8, 0, 0, &(rng.number() as u32).to_be_bytes()),
        });
    }
    sent
}

#[test]
#[ignore = "endurance"]
fn the_guard_between_tls_and_http() {
    let server = TestServer::start();
    let anonymous = server.anonymous();
    target("the_guard_between_tls_and_http", 100, |rng| {
        let is_multiplexed = rng.percent(40);
        let mut sent = if is_multiplexed {
            frames(rng)
        } else {
            rng.pick(&REQUESTS).as_bytes().to_vec()
        };
        if rng.percent(90) {
            change(&mut sent, rng);
        }
        let mut wire = if is_multiplexed {
            Wire::bare(&anonymous, b"h2")
        } else {
            Wire::to(&anonymous)
        };
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let (part, behind) =
                rest.split_at((1 + rng.below(rest.len().min(200))).min(rest.len()));
            if wire.send(part).is_err() {
                break;
            }
            rest = behind;
        }
        let answer = wire.finish();
        assert!(
            !answer.contains("HTTP/1.1 50"),
            "{:?}: {answer}",
            String::from_utf8_lossy(&sent)
        );
    });
    server.admin.get("/current-identity").expect(200);
}

#[test]
#[ignore = "endurance"]
fn request_targets() {
    const SIGNS: &[u8] = b"abc=&?/.,;:@!$'()*+-_~0\"<>\\^`{|}\xc3\xa4\xff\x80";
    let server = TestServer::start();
    let anonymous = server.anonymous();
    let status = |target: &[u8]| {
        let mut wire = Wire::to(&anonymous);
        wire.send(
            &[
                b"GET ",
                target,
                b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            ]
            .concat(),
        )
        .unwrap();
        wire.finish()
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    target("request_targets", 50, |rng| {
        let signs: Vec<u8> = (0..rng.below(60)).map(|_| *rng.pick(SIGNS)).collect();
        let front = *rng.pick(&[
            "/",
            "/version?filter=",
            "/edge/client/v1/",
            "/edge/management/v1/identities/",
        ]);
        let raw = [front.as_bytes(), &signs].concat();
        let unfit = |byte: u8| {
            matches!(
                byte,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80..
            )
        };
        let percent = |byte: &u8| {
            if unfit(*byte) {
                format!("%{byte:02X}").into_bytes()
            } else {
                vec![*byte]
            }
        };
        let sent: Vec<u8> = raw.iter().flat_map(percent).collect();
        let (one, other) = (status(&raw), status(&sent));
        assert!(
            one == other && !one.starts_with('5') && !one.is_empty(),
            "{:?}: {one} {other}",
            String::from_utf8_lossy(&raw)
        );
    });
}

// Material that anybody may submit to be signed or verified.

/// A DER value and its content.
enum Der {
    Whole(u8, Vec<u8>),
    /// With the byte before the inner values: the count of unused bits.
    Of(u8, Vec<u8>, Vec<Der>),
}

fn read_der(mut bytes: &[u8], depth: usize) -> Option<Vec<Der>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (&tag, rest) = bytes.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (long, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
                (
                    long.iter()
                        .fold(0, |length, byte| length << 8 | usize::from(*byte)),
                    rest,
                )
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let before = usize::from(tag == 3).min(value.len());
        let inner = (depth < 12 && (tag & 0x20 != 0 || matches!(tag, 3 | 4)))
            .then(|| read_der(&value[before..], depth + 1))
            .flatten();
        found.push(match inner {
            Some(inner) if !inner.is_empty() => Der::Of(tag, value[..before].to_vec(), inner),
            _ => Der::Whole(tag, value.to_vec()),
        });
    }
    Some(found)
}

fn write_der(values: &[Der], to: &mut Vec<u8>) {
    for value in values {
        let (tag, content) = match value {
            Der::Whole(tag, content) => (tag, content.clone()),
            Der::Of(tag, before, inner) => {
                let mut content = before.clone();
                write_der(inner, &mut content);
                (tag, content)
            }
        };
        to.push(*tag);
        match content.len() {
            length @ 0..=0x7f => to.push(length as u8),
            length => to.extend([&[0x83][..], &(length as u32).to_be_bytes()[1..]].concat()),
        }
        to.extend(content);
    }
}

fn nth<'d>(values: &'d mut Vec<Der>, at: &mut usize) -> Option<(&'d mut Vec<Der>, usize)> {
    for n in 0..values.len() {
        if *at == 0 {
            return Some((values, n));
        }
        *at -= 1;
        // The first borrow must end before the next begins, except for the returned one.
        let has = matches!(&values[n], Der::Of(_, _, inner) if count(inner) > *at);
        if has {
            let Der::Of(_, _, inner) = &mut values[n] else {
                return None;
            };
            return nth(inner, at);
        }
        if let Der::Of(_, _, inner) = &values[n] {
            *at -= count(inner);
        }
    }
    None
}

fn count(values: &[Der]) -> usize {
    values
        .iter()
        .map(|value| {
            if let Der::Of(_, _, inner) = value {
                1 + count(inner)
            } else {
                1
            }
        })
        .sum()
}

fn change_der(values: &mut Vec<Der>, rng: &mut Rng) {
    const TAGS: [u8; 14] = [
        1, 2, 3, 4, 5, 6, 0x0c, 0x13, 0x17, 0x18, 0x30, 0x31, 0xa0, 0xa3,
    ];
    let mut at = rng.below(count(values).max(1));
    let Some((among, n)) = nth(values, &mut at) else {
        return;
    };
    match rng.below(5) {
        0 => drop(among.remove(n)),
        1 => {
            let mut copy = Vec::new();
            write_der(&among[n..=n], &mut copy);
            among.extend(read_der(&copy, 0).unwrap_or_default());
        }
        2 => {
            let other = rng.below(among.len());
            among.swap(n, other);
        }
        3 => match &mut among[n] {
            Der::Whole(tag, _) | Der::Of(tag, ..) => *tag = *rng.pick(&TAGS),
        },
        _ => match &mut among[n] {
            Der::Whole(_, content) => change(content, rng),
            Der::Of(_, before, _) => change(before, rng),
        },
    }
}

#[test]
#[ignore = "endurance"]
fn certificates_and_their_requests() {
    pki::jwt::install();
    let samples = crate::pki::samples();
    target("certificates_and_their_requests", 500, |rng| {
        let mut values = read_der(rng.pick(samples).as_slice(), 0).unwrap();
        (0..1 + rng.below(5)).for_each(|_| change_der(&mut values, rng));
        let mut bytes = Vec::new();
        write_der(&values, &mut bytes);
        if rng.percent(30) {
            change(&mut bytes, rng);
        }
        crate::pki::read_every_way(&bytes);
    });
}

// Query parameters.

#[test]
#[ignore = "endurance"]
fn filters() {
    const WORDS: [&str; 46] = [
        "name",
        "id",
        "tags.a",
        "tags.a.b",
        "roleAttributes",
        "createdAt",
        "isAdmin",
        "isSystem",
        "type",
        "configs",
        "service.name",
        "identity",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "not in",
        "contains",
        "not contains",
        "icontains",
        "not icontains",
        "between",
        "not between",
        "and",
        "or",
        "not",
        "(",
        ")",
        "[",
        "]",
        ",",
        "anyOf(",
        "allOf(",
        "noneOf(",
        "count(",
        "isEmpty(",
        "from",
        "where",
        "sort by",
        "limit",
        "skip",
        "none",
        "asc",
    ];
    const VALUES: [&str; 16] = [
        "\"a\"",
        "\"\"",
        "\"\\\"\\\\\"",
        "'a'",
        "1",
        "-1",
        "1.5e308",
        "99999999999999999999",
        "true",
        "false",
        "null",
        "datetime(2026-01-01T00:00:00Z)",
        "datetime(9999-99-99T99:99:99Z)",
        "\"\u{130}\u{df}\u{0}\"",
        "[1,2]",
        "[\"a\",\"b\"]",
    ];
    const PATHS: [&str; 8] = [
        "/identities",
        "/services",
        "/edge-routers",
        "/configs",
        "/terminators",
        "/service-policies",
        "/api-sessions",
        "/enrollments",
    ];
    let server = shared();
    target("filters", 200, |rng| {
        let mut text = Vec::new();
        for _ in 0..1 + rng.below(14) {
            let deep = rng.percent(2);
            let word = if rng.percent(30) {
                *rng.pick(&VALUES)
            } else {
                *rng.pick(&WORDS)
            };
            (0..if deep { 1 + rng.below(300) } else { 1 })
                .for_each(|_| text.extend([word.as_bytes(), b" "].concat()));
        }
        if rng.percent(30) {
            let mut sound = b"name = \"a\" and (anyOf(roleAttributes) in [\"b\"] or not createdAt < datetime(2026-01-01T00:00:00Z)) sort by name limit 3".to_vec();
            change(&mut sound, rng);
            text = sound;
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let path = rng.pick(&PATHS);
        let member = *rng.pick(&[
            "filter",
            "filter",
            "filter",
            "sort",
            "limit",
            "offset",
            "roleFilter",
        ]);
        let answer = server
            .admin
            .get(&format!("{path}?{member}={}", encoded(&text)));
        assert!(
            [200, 400, 414, 431].contains(&answer.status),
            "{path} {member} {text:?}: {}",
            answer.text
        );
    });
}

// Content of a file that the program reads.

/// Sets the valid checksum of a record.
fn sealed(id: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 5 {
        let mut sum = crc32fast::Hasher::new();
        [id, &bytes[..1], &bytes[5..]]
            .iter()
            .for_each(|part| sum.update(part));
        bytes[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
    }
    bytes
}

type Rows = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Changes rows randomly; the file stays valid for redb, and so does each checksum.
fn change_rows(path: &Path, rng: &mut Rng) {
    let database = Database::open(path).unwrap();
    let read = database.begin_read().unwrap();
    let names: Vec<String> = read
        .list_tables()
        .unwrap()
        .map(|table| table.name().to_owned())
        .collect();
    let filled: Vec<&String> = names
        .iter()
        .filter(|name| {
            let table = read
                .open_table(Rows::new(Box::leak(name.to_string().into_boxed_str())))
                .unwrap();
            !table.is_empty().unwrap()
        })
        .collect();
    let write = database.begin_write().unwrap();
    for _ in 0..1 + rng.below(4) {
        let name: &'static str = Box::leak(rng.pick(&filled).to_string().into_boxed_str());
        let mut table = write.open_table(Rows::new(name)).unwrap();
        let rows: Vec<(Vec<u8>, Vec<u8>)> = table
            .iter()
            .unwrap()
            .map(|row| row.unwrap())
            .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let (mut key, mut value) = rng.pick(&rows).clone();
        match rng.below(10) {
            0 => drop(table.remove(key.as_slice()).unwrap()),
            1 => change(&mut key, rng),
            2 => value = rng.pick(&rows).1.clone(),
            _ => change(&mut value, rng),
        }
        if name.starts_with("records.") {
            value = sealed(&key, value);
        }
        if rng.percent(95) {
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        }
    }
    drop(read);
    write.commit().unwrap();
}

fn sound(outcome: Result<String, String>) {
    let text = outcome.unwrap_or_else(|text| text);
    assert!(!text.contains("panic"), "{text}");
}

#[test]
#[ignore = "endurance"]
fn files_with_valid_checksums() {
    let watch = Progress::default();
    target("files_with_valid_checksums", 10, |rng| {
        let kept = DataFile::new();
        let (data, copy, restored) = (kept.path("data"), kept.path("copy"), kept.path("restored"));
        change_rows(&data, rng);
        let text = |what: &dyn std::fmt::Debug| format!("{what:?}");
        sound(
            offline::check(&data, None, &watch)
                .map(|found| text(&found))
                .map_err(|error| error.to_string()),
        );
        sound(
            offline::verify_history(&data, None)
                .map(|found| text(&found.faults))
                .map_err(|error| error.to_string()),
        );
        // The manifest of a snapshot of it matches the content.
        let made = offline::snapshot(&data, &copy, &watch).map(|_| String::new());
        let is_made = made.is_ok();
        sound(made.map_err(|error| error.to_string()));
        if is_made {
            sound(
                snapshot_proof::verify(&copy, None, &watch)
                    .map(|found| text(&found))
                    .map_err(|error| error.to_string()),
            );
            let done = restore::restore(&copy, &restored, None, Timestamp::from_millis(0), &watch);
            sound(
                done.map(|(found, _)| text(&found))
                    .map_err(|error| error.to_string()),
            );
            // After a change it does not.
            change_rows(&copy, rng);
            sound(
                snapshot_proof::verify(&copy, None, &watch)
                    .map(|found| text(&found))
                    .map_err(|error| error.to_string()),
            );
        }
        let start = |file: &Path| {
            let mut config = Config {
                data: file.to_owned(),
                listen: "127.0.0.1:0".parse().unwrap(),
                ..Config::default()
            };
            config.passwords.cost = 10;
            config.router.enabled = chance_of(file);
            match controller::start(&config, Clock::system()) {
                Ok(running) => {
                    running.run_due_jobs();
                    running.stop();
                    Ok(String::new())
                }
                Err(error) => Err(error.to_string()),
            }
        };
        let again = kept.path("again");
        fs::copy(&data, &again).unwrap();
        sound(start(&again));
        let unreadable = if rng.percent(50) {
            Unreadable::Goes
        } else {
            Unreadable::Stays
        };
        let mended = offline::repair(&data, None, unreadable, &watch);
        let is_mended = mended
            .as_ref()
            .is_ok_and(|report| report.findings.iter().all(|finding| finding.fixed));
        sound(
            mended
                .map(|report| text(&report))
                .map_err(|error| error.to_string()),
        );
        if is_mended {
            let found = offline::check(&data, None, &watch).unwrap();
            assert!(
                found.report.findings.is_empty(),
                "the repaired file must be sound: {:?}",
                found.report
            );
            sound(start(&data));
        }
    });
}

/// A random but reproducible choice by file name.
fn chance_of(file: &Path) -> bool {
    file.as_os_str().len().is_multiple_of(2)
}

#[test]
#[ignore = "endurance"]
fn records() {
    let kept = DataFile::new();
    let database = Database::open(kept.path("data")).unwrap();
    let read = database.begin_read().unwrap();
    let mut found: Vec<(usize, Vec<u8>, Vec<u8>)> = Vec::new();
    for (at, entry) in KINDS.iter().enumerate() {
        let name: &'static str = Box::leak(format!("records.{}", entry.kind.name).into_boxed_str());
        let rows = read.open_table(Rows::new(name)).unwrap();
        found.extend(
            rows.iter()
                .unwrap()
                .map(Result::unwrap)
                .map(|(id, bytes)| (at, id.value().to_vec(), bytes.value().to_vec())),
        );
    }
    assert!(found.len() > 10);
    target("records", 2000, |rng| {
        let (of, id, mut bytes) = rng.pick(&found).clone();
        let at = if rng.percent(80) {
            of
        } else {
            rng.below(KINDS.len())
        };
        let mut payload = bytes.split_off(5.min(bytes.len()));
        change(&mut payload, rng);
        bytes.extend(payload);
        if rng.percent(10) && !bytes.is_empty() {
            bytes[0] = rng.below(6) as u8;
        }
        let (entry, id, bytes) = (
            &KINDS[at],
            String::from_utf8(id.clone()).unwrap(),
            sealed(&id, bytes),
        );
        let outcomes = [
            (entry.decode)(&id, &bytes).map(drop),
            (entry.parts)(&id, &bytes).map(drop),
        ];
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert!(error.to_string().contains(&id), "{error}");
        }
    });
}
