//! The data file as its owner handles it: copied, checked and restored by the command line, with
//! the exit status that scripts rely on.

use std::{
    env, fs,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use overkeep::testing::{
    change::KINDS,
    clock::{Clock, Timestamp},
    config::Config,
    controller::{self, Controller, NotStarted},
    maintenance::{offline::OfflineError, restore},
    store::Progress,
};
use redb::{Database, TableDefinition};
use tempfile::TempDir;

use crate::harness::stores;

/// A directory with the data file of a stopped controller.
pub struct DataFile {
    directory: TempDir,
}

/// The output of a command and its exit status.
#[derive(Debug)]
pub struct Said {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// The data file of a first start; creating its keys takes a while.
static FIRST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let kept = DataFile::empty();
    kept.start().stop();
    kept.bytes("data")
});

impl DataFile {
    pub fn new() -> Self {
        let kept = Self::empty();
        fs::write(kept.path("data"), &*FIRST).unwrap();
        kept
    }

    /// A directory without a data file.
    pub fn empty() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    pub fn start(&self) -> Controller {
        self.start_with(None).unwrap()
    }

    /// Like `start`, with the passphrase in a file of this directory.
    pub fn start_with(&self, passphrase: Option<&str>) -> Result<Controller, NotStarted> {
        let passphrase_file = passphrase.map(|name| self.path(name));
        let mut config = Config {
            data: self.path("data"),
            passphrase_file,
            ..Config::default()
        };
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.passwords.cost = 10;
        controller::start(&config, Clock::system())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes a secret to a private file.
    pub fn keep_secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The program in this directory, with `data` as its data file.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
        command
            .args(line.split(' '))
            .env_clear()
            .env("OVERKEEP_DATA", "data")
            .current_dir(self.directory.path());
        command
    }

    /// Runs the program.
    pub fn run(&self, line: &str) -> Said {
        said(self.command(line))
    }

    /// Runs a shell line in which `$0` is the program.
    fn shell(&self, line: &str) -> Said {
        let program = self.command("");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .arg(program.get_program())
            .env_clear()
            .env("OVERKEEP_DATA", "data")
            .current_dir(self.directory.path());
        said(shell)
    }

    /// Runs a command that must end with this status and this output.
    pub fn ends(&self, line: &str, status: i32, says: &str) {
        let said = self.run(line);
        let text = if status == 1 { &said.err } else { &said.out };
        assert!(
            said.status == status && text.contains(says),
            "{line}: {said:?}"
        );
        assert!(
            !format!("{said:?}").contains("panicked") && (status == 1 || said.err.is_empty()),
            "{line}: {said:?}"
        );
    }

    /// Changes rows of the data file without the store.
    pub fn tamper(
        &self,
        file: &str,
        table: &str,
        act: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>),
    ) {
        let database = Database::open(self.path(file)).unwrap();
        let transaction = database.begin_write().unwrap();
        act(&mut transaction.open_table(TableDefinition::new(table)).unwrap());
        transaction.commit().unwrap();
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn said(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        status: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn lose_half_the_index(rows: &mut redb::Table<'_, &'static [u8], &'static [u8]>) {
    let mut odd = false;
    rows.retain(|_, _| {
        odd = !odd;
        odd
    })
    .unwrap();
}

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
fn restore_keeps_the_replaced_file() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let controller = kept.start();
    kept.ends("restore good", 1, "in use by another process");
    // The controller continues with a file that has lost its name; a restore would miss its later
    // writes.
    fs::rename(kept.path("data"), kept.path("away")).unwrap();
    kept.ends("restore good", 1, "in use by another process");
    assert!(!kept.path("data").exists());
    fs::rename(kept.path("away"), kept.path("data")).unwrap();
    controller.stop();
    let before = kept.bytes("data");
    kept.ends("restore good", 0, "the previous data file is kept as");
    let aside = kept
        .names()
        .into_iter()
        .find(|name| name.starts_with("data.before-restore-"))
        .unwrap();
    assert!(kept.bytes(&aside) == before && kept.bytes("data") == kept.bytes("good"));
    assert_eq!(
        fs::metadata(kept.path("data"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    kept.start().stop();
    kept.ends("restore data", 1, "data is the data file itself");
    // It is a data file now, no longer a snapshot.
    kept.ends("check data", 0, "nothing is wrong");
    kept.ends("restore --verify-only data", 1, "no manifest");

    // On another machine there is no file to keep.
    fs::remove_file(kept.path("data")).unwrap();
    fs::remove_file(kept.path(&aside)).unwrap();
    let said = kept.run("restore good");
    assert!(said.status == 0 && !said.out.contains("before"), "{said:?}");
    kept.start().stop();
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
fn exit_status_tells_problems_and_repairs() {
    let kept = DataFile::new();
    let sound = kept.bytes("data");
    for line in ["repair", "repair --drop-unreadable"] {
        kept.ends(line, 0, "nothing is wrong");
        assert!(
            kept.names() == ["data"] && kept.bytes("data") == sound,
            "a sound file must not be copied"
        );
    }
    kept.tamper("data", "index", lose_half_the_index);
    let broken = kept.bytes("data");
    kept.ends("check", 3, "lacks the");
    kept.ends("snapshot broken", 0, "");
    kept.ends("restore --verify-only broken", 3, "lacks the");
    kept.ends("restore broken", 3, "lacks the");
    assert!(kept.bytes("data") == broken);
    kept.ends("repair", 0, "repaired: ");
    assert!(
        kept.bytes("data.before-repair") == broken,
        "the file must be copied first"
    );
    kept.ends("check", 0, "nothing is wrong");

    kept.tamper("data", "records.identity", |rows| {
        let (id, mut bytes) = rows
            .pop_first()
            .unwrap()
            .map(|(id, bytes)| (id.value().to_vec(), bytes.value().to_vec()))
            .unwrap();
        bytes[9] ^= 1;
        rows.insert(id.as_slice(), bytes.as_slice()).unwrap();
    });
    kept.ends("check", 3, "damaged");
    kept.ends("repair", 3, "damaged");
    let mut bytes = kept.bytes("data");
    bytes.truncate(bytes.len() / 2);
    fs::write(kept.path("data"), bytes).unwrap();
    kept.ends("check", 3, "is damaged");
    kept.ends("repair", 3, "is damaged");
    fs::remove_file(kept.path("data")).unwrap();
    kept.ends("check", 1, "No such file");
    kept.ends("repair", 1, "No such file");
}

#[test]
fn damaged_pages_name_a_remedy() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let (mut bytes, name) = (kept.bytes("data"), b"Default Admin");
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(kept.path("data"), &bytes).unwrap();
    let helps = "overkeep restore SNAPSHOT --data data";
    for line in [
        "check",
        "repair",
        "repair --drop-unreadable",
        "snapshot out",
        "compact",
        "history verify",
        "passphrase remove",
    ] {
        kept.ends(line, 3, "data is damaged: page checksums do not match");
        kept.ends(line, 3, helps);
    }
    for line in ["run --listen 127.0.0.1:0", "admin list"] {
        let said = kept.run(line);
        assert!(
            said.status == 1
                && said.err.contains("page checksums do not match; ")
                && said.err.contains(helps),
            "{said:?}"
        );
    }
    kept.ends("restore good", 0, "nothing is wrong");
    kept.ends("check", 0, "nothing is wrong");
}

#[test]
fn repair_can_drop_unreadable_records() {
    let kept = DataFile::new();
    kept.tamper("data", "records.servicePolicy", |rows| {
        drop(rows.insert(b"torn".as_slice(), b"?".as_slice()).unwrap())
    });
    let refused = kept
        .start_with(None)
        .err()
        .expect("the rights cannot be computed")
        .to_string();
    assert!(
        refused.contains("servicePolicy torn is damaged")
            && refused.contains("overkeep repair --drop-unreadable"),
        "{refused}"
    );
    kept.ends("repair", 3, "torn is damaged");
    kept.ends(
        "repair --drop-unreadable",
        0,
        "repaired: the stored servicePolicy torn is damaged",
    );
    kept.ends("check data.before-repair", 3, "torn is damaged");
    kept.ends("check", 0, "nothing is wrong");
    let controller = kept.start();
    kept.ends("repair --drop-unreadable", 1, "in use");
    controller.stop();
}

#[test]
fn running_controller_repairs_its_file() {
    let kept = DataFile::new();
    kept.tamper("data", "index", |rows| {
        drop(rows.insert(b"nobody's".as_slice(), b"".as_slice()).unwrap())
    });
    let controller = kept.start();
    kept.ends("check", 3, "a row of the index cannot be read");
    kept.ends("repair", 0, "repaired: a row of the index");
    kept.ends("check", 0, "nothing is wrong");
    fs::rename(kept.path("data.before-repair"), kept.path("kept")).unwrap();
    kept.ends("repair", 0, "nothing is wrong");
    assert!(
        !kept.path("data.before-repair").exists(),
        "a sound file must not be copied"
    );
    fs::rename(kept.path("kept"), kept.path("data.before-repair")).unwrap();
    controller.stop();
    let before = stores::of(KINDS).open_read_only(&kept.path("data.before-repair"));
    assert!(before.manifest(&Progress::default()).unwrap().is_some());
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
fn replacement_keeps_place_and_owner() {
    let kept = DataFile::new();
    kept.ends("snapshot copy", 0, "");
    kept.keep_secret("secret", "a passphrase of a test");
    fs::create_dir(kept.path("elsewhere")).unwrap();
    fs::rename(kept.path("data"), kept.path("elsewhere/real")).unwrap();
    symlink("elsewhere/real", kept.path("data")).unwrap();
    // Only the superuser can change the owner of a file.
    let is_given = chown(kept.path("elsewhere/real"), Some(4321), Some(4321)).is_ok();
    for line in ["restore copy", "passphrase set secret"] {
        kept.ends(line, 0, "");
        let (link, real) = (
            fs::symlink_metadata(kept.path("data")).unwrap(),
            fs::metadata(kept.path("elsewhere/real")).unwrap(),
        );
        assert!(
            link.is_symlink() && (!is_given || real.uid() == 4321),
            "{line}: {link:?}, {real:?}"
        );
    }
    kept.ends("check", 0, "not checked");
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
