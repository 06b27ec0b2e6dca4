//! Data files, snapshots and records with valid checksums.

use super::*;

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
