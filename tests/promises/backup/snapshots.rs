//! Snapshots, and what damages them.

use super::*;

#[test]
fn snapshot_works_running_and_stopped() {
    let kept = DataFile::new();
    let before = kept.bytes("data");
    kept.ends("snapshot stopped", 0, "1 authenticator");
    kept.ends("check", 0, "nothing is wrong");
    assert!(kept.bytes("data") == before, "the check changed the file");
    let controller = kept.start();
    kept.ends("snapshot running", 0, "1 identity");
    kept.ends("check", 0, "nothing is wrong");
    kept.ends("snapshot running", 1, "the name is taken");
    kept.ends("snapshot missing/out", 1, "missing");
    controller.stop();
    for made in ["stopped", "running"] {
        assert_eq!(
            fs::metadata(kept.path(made)).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let bytes = kept.bytes(made);
        kept.ends(&format!("check {made}"), 0, "format 4 of release");
        kept.ends(
            &format!("restore --verify-only {made}"),
            0,
            "nothing is wrong",
        );
        assert!(kept.bytes(made) == bytes, "the check changed the snapshot");
    }
    kept.ends("snapshot data", 1, "the name is taken");
    assert_eq!(kept.names(), ["data", "running", "stopped"]);
    let hashes = |line: &str| {
        let out = kept.run(line).out;
        out.lines()
            .filter_map(|line| line.strip_prefix("sha256 of the content: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let made = hashes("snapshot third");
    assert!(made.len() == 1 && made[0].len() == 64, "{made:?}");
    for line in [
        "check third",
        "restore --verify-only third",
        "restore third",
    ] {
        assert_eq!(hashes(line), made, "{line}");
    }
}

#[test]
fn damaged_snapshot_is_never_restored() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let (before, good) = (kept.bytes("data"), kept.bytes("good"));
    let refused = |status: i32, says: &str| {
        kept.ends("restore bad", status, says);
        kept.ends("restore --verify-only bad", status, says);
        assert!(kept.bytes("data") == before);
    };
    fs::write(kept.path("bad"), &good).unwrap();
    kept.tamper("bad", "meta", |meta| {
        drop(
            meta.insert(b"format".as_slice(), 7_u32.to_le_bytes().as_slice())
                .unwrap(),
        )
    });
    refused(1, "it has format 7, this release reads up to 4");
    fs::write(kept.path("bad"), &good).unwrap();
    kept.tamper("bad", "settings", |settings| {
        drop(
            settings
                .insert(b"seal".as_slice(), b"another key".as_slice())
                .unwrap(),
        )
    });
    refused(3, "does not match the manifest");
    fs::write(kept.path("bad"), &good[..good.len() / 2]).unwrap();
    refused(3, "is damaged");
    fs::write(kept.path("bad"), "Dear reader").unwrap();
    refused(1, "not a data file");
    fs::write(kept.path("bad"), "").unwrap();
    refused(1, "not a data file");
    fs::remove_file(kept.path("bad")).unwrap();
    refused(1, "No such file");
    assert_eq!(
        kept.names()
            .iter()
            .filter(|name| name.starts_with("data"))
            .count(),
        1,
        "{:?}",
        kept.names()
    );
}

#[test]
fn flipped_bits_in_snapshots_are_found() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let good = kept.bytes("good");
    let content = |file: &Path| crate::integrity::rows(file);
    let (expected, bad, restored) = (
        content(&kept.path("good")),
        kept.path("bad"),
        kept.path("restored"),
    );
    let (mut found, mut harmless) = (0, 0);
    let rounds: usize = env::var("OVERKEEP_FLIPS").map_or(12, |flips| flips.parse().unwrap());
    for round in 0..rounds {
        fs::write(&bad, &good).unwrap();
        // Every fourth round in the header, the others far apart.
        let at = if round % 4 == 0 {
            4 + round * 3 % 320
        } else {
            round * 1_000_003 % good.len()
        };
        let file = fs::OpenOptions::new().write(true).open(&bad).unwrap();
        file.write_all_at(&[good[at] ^ (1 << (round % 8))], at as u64)
            .unwrap();
        match restore::restore(
            &bad,
            &restored,
            None,
            Timestamp::from_millis(0),
            &Progress::default(),
        ) {
            Err(OfflineError::Damaged(_) | OfflineError::Pages(_) | OfflineError::Other(_)) => {
                found += 1
            }
            Ok((seen, _)) => {
                assert!(seen.report.findings.is_empty(), "byte {at}: {seen:?}");
                harmless += 1;
                assert!(content(&restored) == expected, "byte {at} came through");
                fs::remove_file(&restored).unwrap();
            }
        }
        assert!(!restored.exists(), "byte {at}");
    }
    assert!(found > rounds / 8, "{found} found, {harmless} harmless");
}

#[test]
fn concurrent_snapshots_yield_one_file() {
    let kept = DataFile::new();
    for round in 0..3 {
        let line = format!("snapshot copy{round}");
        let all: Vec<_> = (0..4)
            .map(|_| {
                kept.command(&line)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let made = all
            .into_iter()
            .filter_map(|one| {
                one.wait_with_output()
                    .unwrap()
                    .status
                    .success()
                    .then_some(())
            })
            .count();
        assert!(made > 0, "all of them failed");
        kept.ends(
            &format!("restore --verify-only copy{round}"),
            0,
            "nothing is wrong",
        );
    }
    assert_eq!(kept.names(), ["copy0", "copy1", "copy2", "data"]);
}

#[test]
fn checking_leaves_a_snapshot_unchanged() {
    let kept = DataFile::new();
    kept.ends("snapshot copy", 0, "");
    let copy = kept.bytes("copy");
    kept.ends("admin list --data copy", 0, "user name admin");
    kept.ends("pki status --data copy", 0, "root: ");
    kept.ends("explain dial nobody nothing --data copy", 1, "not found");
    kept.ends("history verify copy", 0, "nothing is wrong");
    assert!(kept.bytes("copy") == copy, "the check changed it");
    kept.ends("restore --verify-only copy", 0, "nothing is wrong");
}

#[test]
fn foreign_files_are_left_alone() {
    let kept = DataFile::new();
    kept.ends("snapshot copy", 0, "");
    fs::write(kept.path("blank"), "").unwrap();
    assert!(
        Command::new("mkfifo")
            .args(["-m", "644"])
            .arg(kept.path("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for name in ["blank", "pipe"] {
        let lines = [
            "check",
            "repair",
            "compact",
            "admin list",
            "passphrase remove",
            "restore copy",
            "run --listen 127.0.0.1:0",
        ];
        lines
            .iter()
            .filter(|line| **line != "restore copy" || name == "pipe")
            .for_each(|line| {
                kept.ends(
                    &format!("{line} --data {name}"),
                    1,
                    "is not a data file of Overkeep",
                );
            });
        kept.ends(
            &format!("restore {name}"),
            1,
            "is not a data file of Overkeep",
        );
    }
    // Restoring over an empty file keeps its permissions.
    assert_eq!(
        fs::metadata(kept.path("pipe"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o644
    );
    kept.ends(
        "restore copy --data blank",
        0,
        "the previous data file is kept as",
    );
    // The first page is truncated.
    fs::write(kept.path("short"), &kept.bytes("copy")[..100]).unwrap();
    kept.ends("check short", 3, "short is damaged");
    kept.ends("restore --verify-only short", 3, "short is damaged");
}

#[test]
fn full_disk_leaves_no_partial_files() {
    let kept = DataFile::new();
    kept.ends("snapshot copy", 0, "");
    // A sound file is not copied, so damage it: the repair then needs room for a copy.
    kept.tamper("data", "index", lose_half_the_index);
    let (data, names) = (kept.bytes("data"), kept.names());
    for line in [
        "snapshot out",
        "restore copy",
        "restore copy --data other",
        "repair",
        "run --data new --listen 127.0.0.1:0",
    ] {
        let said = kept.shell(&format!("ulimit -f 40; exec \"$0\" {line}"));
        assert!(
            said.status == 1 && said.err.contains("File too large"),
            "{line}: {said:?}"
        );
        assert!(
            kept.names() == names && kept.bytes("data") == data,
            "{line}: {:?}",
            kept.names()
        );
    }
    let said = kept.shell("\"$0\" admin list > /dev/full");
    assert!(
        said.status == 1 && said.err.contains("No space left"),
        "{said:?}"
    );
    let said = kept.shell("\"$0\" admin list >&-; \"$0\" admin list | true");
    assert!(
        said.status == 0 && said.err.is_empty(),
        "a closed stdout is not an error: {said:?}"
    );
}

#[test]
fn damaged_manifest_is_found() {
    let broken = |table: &str, key: &str, lines: &[&str], says: &str| {
        let kept = DataFile::new();
        kept.tamper("data", table, |rows| {
            drop(rows.insert(key.as_bytes(), b"?".as_slice()).unwrap())
        });
        kept.keep_secret("secret", "a passphrase of a test");
        lines.iter().for_each(|line| kept.ends(line, 3, says));
    };
    broken(
        "meta",
        "history",
        &["check", "history verify", "repair"],
        "the stored history anchor is damaged",
    );
    let lines = ["check", "check --passphrase-file secret", "repair"];
    broken(
        "settings",
        "passphrase",
        &lines,
        "the stored setting passphrase is damaged",
    );
}
