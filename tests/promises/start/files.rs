//! Files that a start needs, and what it says without them.

use super::*;

/// A start that must end by itself.
fn refused(directory: &Path, more: &[&str]) -> Output {
    let command = overkeep(directory, more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    command.wait_with_output().unwrap()
}

#[test]
fn failed_start_is_one_line() {
    let directory = TempDir::new().unwrap();
    let running = Running::start(directory.path(), &[]);
    let port = running.url.trim_start_matches("https://").to_owned();

    assert_refused(
        &refused(directory.path(), &[]),
        &["data", "in use by another process"],
    );
    assert_refused(
        &refused(directory.path(), &["--data", "other", "--listen", &port]),
        &["listen", &port, "in use"],
    );
    assert!(
        !directory.path().join("other").exists(),
        "a failed start left a file behind"
    );

    assert_refused(
        &refused(directory.path(), &["--data", "missing/data"]),
        &["missing", "No such file or directory"],
    );
    assert_refused(
        &refused(directory.path(), &["--data", "data/data"]),
        &["data/data", "Not a directory"],
    );
    assert_refused(&refused(directory.path(), &["--data", "."]), &["directory"]);
    fs::write(directory.path().join("letter"), "Dear reader").unwrap();
    assert_refused(
        &refused(directory.path(), &["--data", "letter"]),
        &["letter", "not a data file"],
    );
    assert_eq!(
        fs::read_to_string(directory.path().join("letter")).unwrap(),
        "Dear reader"
    );

    assert_refused(
        &refused(
            directory.path(),
            &["--data", "other", "--admin-password-file", "none"],
        ),
        &["admin-password-file", "none"],
    );
    fs::write(
        directory.path().join("settings"),
        "[sessions]\ntimout = '5m'",
    )
    .unwrap();
    assert_refused(
        &refused(directory.path(), &["--config", "settings"]),
        &["sessions.timout", "settings", "no such key"],
    );
    fs::write(
        directory.path().join("settings"),
        "[sessions]\ntimeout = '5s'",
    )
    .unwrap();
    assert_refused(
        &refused(directory.path(), &["--config", "settings"]),
        &["sessions.timeout", "5s", "1m to 365d"],
    );
}

#[test]
fn unwritable_directory_is_named() {
    let directory = TempDir::new().unwrap();
    let locked = directory.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    let mut command = overkeep(directory.path(), &["--data", "locked/data"]);
    if fs::write(locked.join("probe"), "").is_ok() {
        // This user may write everywhere. Another user runs a copy of the program, whose directory
        // it may not be able to enter.
        let anonymous = 65_534;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(
            env!("CARGO_BIN_EXE_overkeep"),
            directory.path().join("overkeep"),
        )
        .unwrap();
        command = as_program(
            &directory.path().join("overkeep"),
            directory.path(),
            &["--data", "locked/data"],
        );
        command.uid(anonymous);
    }
    assert_refused(&command.output().unwrap(), &["locked", "Permission denied"]);
}

#[test]
fn data_file_permissions_are_tightened() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    drop(Running::start(directory.path(), &[]));
    fs::set_permissions(&data, Permissions::from_mode(0o644)).unwrap();
    let _running = Running::start(directory.path(), &[]);
    assert_eq!(mode(&data), 0o600);
}

#[test]
fn removed_data_file_is_noticed() {
    let directory = TempDir::new().unwrap();
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    fs::write(
        directory.path().join("settings"),
        "[sessions]\nsweep-interval = '1s'",
    )
    .unwrap();
    let running = Running::start(directory.path(), &["--config", "settings"]);
    let ready = || get(&running.url, "/ready").0;
    assert_eq!(ready(), 200);
    fs::rename(&data, &away).unwrap();
    assert_eq!(ready(), 503);
    thread::sleep(Duration::from_secs(3));
    fs::write(&data, "another").unwrap();
    assert_eq!(ready(), 503);
    fs::rename(&away, &data).unwrap();
    assert_eq!(ready(), 200);
    thread::sleep(Duration::from_secs(3));
    let (_, log) = running.stop();
    let output = [
        "the data file was moved, replaced or deleted",
        "the data file is at its path again",
    ];
    assert_eq!(
        output.map(|line| log.matches(line).count()),
        [1, 1],
        "{log}"
    );
}

#[test]
fn unwritable_log_stops_nothing() {
    let directory = TempDir::new().unwrap();
    let mut command = overkeep(directory.path(), &[]);
    command.env("OVERKEEP_LOG_LEVEL", "debug").stderr(
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap(),
    );
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(
        lines
            .next()
            .is_some_and(|first| first.unwrap().contains("https://"))
    );
    lines.for_each(|line| {
        if line.unwrap().starts_with("next:") {
            signal(process.id());
        }
    });
    assert_eq!(process.wait().unwrap().code(), Some(0));
}
