//! Files in a directory that others may write to: files are always created, and a secret that
//! others could have written is rejected.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::Path,
    process::{Command, Stdio},
};

use maintenance::offline;
use model::config::Config;
use pki::Files;
use policy::change::KINDS;
use store::{Progress, Unreadable};
use tempfile::TempDir;

use crate::{
    backup::DataFile,
    harness::{Program, command, stores},
};

const TEXT: &str = "what somebody else keeps in a file";
/// The uid of an unrelated user.
const STRANGER: u32 = 65_534;

/// Something placed where a file is to be created: a link to another user's file, a link to a
/// missing file, or a file, owned by a stranger if this process may do that.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trap {
    Link,
    Dangling,
    Foreign,
}

const TRAPS: [Trap; 3] = [Trap::Link, Trap::Dangling, Trap::Foreign];

impl Trap {
    fn set(self, directory: &Path, name: &str) {
        let path = directory.join(name);
        match self {
            Self::Link => symlink("victim", path).unwrap(),
            Self::Dangling => symlink("made-by-a-link", path).unwrap(),
            Self::Foreign => {
                fs::write(&path, TEXT).unwrap();
                drop(chown(&path, Some(STRANGER), Some(STRANGER)));
            }
        }
    }
}

/// Sets a trap under each of these names, runs `act`, and asserts that the traps had no effect.
#[track_caller]
fn unharmed(directory: &Path, names: &[&str], made: &str, act: impl Fn()) {
    for trap in TRAPS {
        for name in names {
            fs::write(directory.join("victim"), TEXT).unwrap();
            drop(fs::remove_file(directory.join(name)));
            trap.set(directory, name);
            act();
            let found = fs::symlink_metadata(directory.join(made)).unwrap();
            assert!(
                found.is_file() && found.permissions().mode() & 0o077 == 0,
                "{trap:?} as {name}: {found:?}"
            );
            assert_eq!(
                found.uid(),
                rustix::process::geteuid().as_raw(),
                "{trap:?} as {name}"
            );
            assert_eq!(
                fs::read_to_string(directory.join("victim")).unwrap(),
                TEXT,
                "{trap:?} as {name}: a link was followed"
            );
            assert!(
                !directory.join("made-by-a-link").exists(),
                "{trap:?} as {name}: a link was followed"
            );
            assert!(
                *name == made || fs::symlink_metadata(directory.join(name)).is_err(),
                "{trap:?} as {name} is left"
            );
        }
    }
}

#[test]
fn first_start_makes_its_file() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unharmed(directory.path(), &["data.new"], "data", || {
        drop(fs::remove_file(&data));
        stores::of(KINDS).start(&data).close();
    });
}

#[test]
fn a_snapshot_is_made_anew() {
    let kept = DataFile::new();
    let names = ["copy", "copy.unfinished", "copy.unfinished.new"];
    unharmed(&kept.path(""), &names, "copy", || {
        let store = stores::of(KINDS).open_read_only(&kept.path("data"));
        store
            .snapshot(&kept.path("copy"), &Progress::default())
            .unwrap();
        store.close();
    });
}

#[test]
fn repair_makes_a_new_copy() {
    let kept = DataFile::new();
    kept.tamper("data", "index", |rows| drop(rows.pop_first().unwrap()));
    let broken = kept.bytes("data");
    let names = ["data.before-repair", "data.before-repair.unfinished"];
    unharmed(&kept.path(""), &names, "data.before-repair", || {
        fs::write(kept.path("data"), &broken).unwrap();
        let report = offline::repair(
            &kept.path("data"),
            None,
            Unreadable::Stays,
            &Progress::default(),
        )
        .unwrap();
        assert!(!report.findings.is_empty(), "a sound file is not copied");
    });
}

#[test]
fn socket_replaces_existing_files() {
    let kept = DataFile::new();
    fs::write(kept.path("victim"), TEXT).unwrap();
    fs::set_permissions(kept.path("victim"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink("victim", kept.path("data.sock")).unwrap();
    let controller = kept.start();
    assert!(
        !fs::symlink_metadata(kept.path("data.sock"))
            .unwrap()
            .is_symlink()
    );
    controller.stop();
    let victim = fs::metadata(kept.path("victim")).unwrap();
    assert_eq!(
        (victim.len(), victim.permissions().mode() & 0o777),
        (TEXT.len() as u64, 0o644)
    );
}

fn with_rights(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn writable_secret_files_are_refused() {
    let place = TempDir::new().unwrap();
    let (file, link) = (place.path().join("secret"), place.path().join("link"));
    symlink("secret", &link).unwrap();
    for path in [&file, &link] {
        let config = Config {
            admin_password_file: Some(path.clone()),
            passphrase_file: Some(path.clone()),
            ..Config::default()
        };
        for mode in [0o620, 0o602, 0o666, 0o646, 0o777] {
            with_rights(&file, "a secret text", mode);
            let password = config.admin_password().err().unwrap().to_string();
            let passphrase = config.passphrase().err().unwrap().to_string();
            let key = Files::new(Path::new("/dev/null"), path)
                .read_if_changed()
                .err()
                .unwrap();
            for said in [password, passphrase, key.to_string()] {
                let says = said.contains("chmod go-w")
                    && said.contains(&path.display().to_string())
                    && !said.contains("a secret text");
                assert!(says, "{mode:o}: {said}");
            }
        }
        for mode in [0o600, 0o400, 0o640, 0o444] {
            with_rights(&file, "a secret text", mode);
            assert_eq!(
                config.admin_password().unwrap().unwrap().as_str(),
                "a secret text",
                "{mode:o}"
            );
            assert!(config.passphrase().unwrap().is_some(), "{mode:o}");
        }
    }
}

#[test]
fn readable_secret_files_warn() {
    let kept = DataFile::new();
    for (mode, warns) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        with_rights(&kept.path("secret"), "a secret text", mode);
        let said = kept.run("admin reset-password admin --password-file secret");
        assert_eq!(said.status, 0, "{said:?}");
        assert_eq!(
            said.err.contains("group or others can read secret"),
            warns,
            "{mode:o}: {said:?}"
        );
        // A controller logs the warning.
        let directory = TempDir::new().unwrap();
        let mut command = command(directory.path());
        fs::set_permissions(
            directory.path().join("password"),
            fs::Permissions::from_mode(mode),
        )
        .unwrap();
        let mut program = Program::of(command.stderr(Stdio::piped()).spawn().unwrap()).unwrap();
        program.kill();
        let mut log = String::new();
        std::io::Read::read_to_string(program.process.stderr.as_mut().unwrap(), &mut log).unwrap();
        assert_eq!(
            log.contains("group or others can read"),
            warns,
            "{mode:o}: {log}"
        );
    }
}

/// The system makes the `/proc` files of such a process owned by root, so that other processes of
/// the user cannot read its memory.
#[test]
fn core_dumps_are_disabled() {
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("overkeep");
    let plain = command(directory.path());
    fs::copy(plain.get_program(), &program).unwrap();
    let mut command = Command::new(&program);
    command
        .args(plain.get_args())
        .current_dir(directory.path())
        .env("OVERKEEP_PASSWORDS_COST", "10");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // Files of root are owned by root anyway.
        for path in [
            directory.path(),
            &directory.path().join("password"),
            &program,
        ] {
            chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
        }
        std::os::unix::process::CommandExt::uid(&mut command, STRANGER);
    }
    let running = Program::of(command.spawn().unwrap()).unwrap();
    let memory = fs::metadata(format!("/proc/{}/mem", running.process.id())).unwrap();
    assert_eq!(memory.uid(), 0);
    assert!(
        directory.path().join("data.sock").exists(),
        "the program must still reach its own open files"
    );
}
