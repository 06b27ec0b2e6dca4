//! `examples/backup.sh` works as a crontab line: without a working directory, without variables,
//! with one line on success.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::backup::DataFile;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/backup.sh");

/// Runs it like cron.
fn cron(arguments: &[&Path]) -> Output {
    let mut command = Command::new("/bin/sh");
    command
        .arg(SCRIPT)
        .args(["-b", env!("CARGO_BIN_EXE_overkeep")])
        .args(arguments);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/")
        .current_dir("/")
        .output()
        .unwrap()
}

fn backups(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn example_backup_works_from_cron() {
    let kept = DataFile::new();
    let (data, to) = (kept.path("data"), kept.path("backups"));
    let run = |keep: &str| {
        cron(&[
            Path::new("-d"),
            &data,
            Path::new("-k"),
            Path::new(keep),
            &to,
        ])
    };
    let missing = run("2");
    assert_eq!(
        missing.status.code(),
        Some(1),
        "the target directory does not exist: {missing:?}"
    );
    assert!(!to.exists());

    fs::create_dir(&to).unwrap();
    fs::write(to.join("overkeep-notes.txt"), "of somebody else").unwrap();
    let mut made = Vec::new();
    for round in 0..3 {
        let done = run("2");
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(
            done.status.success() && done.stderr.is_empty(),
            "{round}: {said} {:?}",
            String::from_utf8(done.stderr)
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        let path = said.split(' ').nth(1).unwrap();
        assert!(
            Path::new(path).is_file() && said.contains("sha256 of the content "),
            "{said}"
        );
        made.push(
            Path::new(path)
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned(),
        );
        // Two backups within a second have equal names except for the process id.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    let newest = [made[1].as_str(), made[2].as_str(), "overkeep-notes.txt"];
    assert_eq!(
        backups(&to),
        newest,
        "only the oldest backup is deleted, other files stay, and nothing else is left behind"
    );

    // A failure is reported with the status of the step, and deletes no older backup.
    let mut bytes = kept.bytes("data");
    bytes.truncate(bytes.len() / 2);
    fs::write(&data, bytes).unwrap();
    let failed = run("1");
    assert_eq!(failed.status.code(), Some(3));
    assert!(
        failed.stdout.is_empty()
            && String::from_utf8(failed.stderr)
                .unwrap()
                .contains("is damaged")
    );
    assert_eq!(backups(&to), newest);
}

#[test]
fn example_backup_refuses_relative_paths() {
    let kept = DataFile::new();
    let to = kept.path("");
    for (flag, value) in [
        ("-d", "data"),
        ("-p", "passphrase"),
        ("-b", "overkeep"),
        ("-k", "0"),
        ("-k", "many"),
        ("-x", ""),
    ] {
        let refused = cron(&[
            Path::new("-d"),
            &kept.path("data"),
            Path::new(flag),
            Path::new(value),
            &to,
        ]);
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{flag} {value}: {refused:?}"
        );
    }
    assert_eq!(
        cron(&[Path::new("-d"), &kept.path("data"), Path::new("backups")])
            .status
            .code(),
        Some(2)
    );
    assert_eq!(kept.names(), ["data"]);
}
