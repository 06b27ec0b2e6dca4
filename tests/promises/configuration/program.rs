//! What the program says at its start, and its log.

use super::*;

fn program(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overkeep"))
        .args(arguments)
        .env_clear()
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn exit_status_tells_usage_from_refusal() {
    let place = WorkingDirectory::with("this is not read, because nobody named it");
    let status = |arguments: &[&str]| program(arguments, place.0.path()).status.code();
    assert_eq!(status(&["--version"]), Some(0));
    assert_eq!(status(&["run", "--help"]), Some(0));
    for wrong in [
        &[][..],
        &["frobnicate"],
        &["run", "--frobnicate"],
        &["run", "--data"],
        &["run", "something"],
    ] {
        assert_eq!(status(wrong), Some(2), "{wrong:?}");
    }

    let refused = program(&["run", "--listen", "here"], place.0.path());
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        line.starts_with("overkeep: listen (--listen): ") && line.lines().count() == 1,
        "{line:?}"
    );
    assert!(refused.stdout.is_empty());
    for wrong in [
        &["run", "--listen", "0.0.0.0:1"][..],
        &["run", "--advertise", "x"],
        &["run", "--passphrase-file", ""],
    ] {
        assert_eq!(status(wrong), Some(2), "{wrong:?}");
    }
    for command in [
        "check",
        "snapshot new",
        "compact",
        "pki status",
        "admin list",
        "explain dial a b",
        "passphrase remove",
        "history verify",
    ] {
        let line: Vec<&str> = command.split(' ').chain(["--data", " "]).collect();
        assert_eq!(status(&line), Some(2), "{command}");
    }
    // A missing or invalid file named by a flag is not a mistake in the command line.
    assert_eq!(status(&["run", "--config", "controller.toml"]), Some(1));
    assert_eq!(status(&["run", "--config", "none"]), Some(1));
    let variable = Command::new(env!("CARGO_BIN_EXE_overkeep"))
        .arg("run")
        .env_clear()
        .env("OVERKEEP_LISTEN", "here")
        .output()
        .unwrap();
    assert_eq!(variable.status.code(), Some(1));
}

#[test]
fn late_start_failure_is_one_line() {
    let arguments = ["overkeep", "run"].map(OsString::from);
    let failure =
        cli::act(arguments, &[], |_| Err("the port is in use\n  by somebody")).unwrap_err();
    assert_eq!(failure.status(), 1);
    assert!(
        matches!(failure, CommandError::Start(line) if line == "the port is in use by somebody")
    );
}

/// Collects the log.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of two events within a request.
fn logged(level: &str, format: Format, terminal: bool) -> String {
    let kept = LogBuffer::default();
    let writer = kept.clone();
    let subscriber = logging::subscriber(
        &Log {
            level: level.into(),
            format,
        },
        terminal,
        move || writer.clone(),
    )
    .unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info_span!("request", request = "r-17").in_scope(|| {
            tracing::info!(port = 1280, "listening");
            tracing::debug!("in detail");
        });
    });
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn log_level_changes_while_running() {
    let kept = LogBuffer::default();
    let writer = kept.clone();
    let of = |level: &str| Log {
        level: level.into(),
        format: Format::Json,
    };
    let (subscriber, change) =
        logging::changeable(&of("info"), false, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::debug!("before");
        change(&of("debug")).unwrap();
        tracing::debug!("after");
        assert!(change(&of("info,[")).is_err());
        tracing::debug!("as before");
        change(&of("error")).unwrap();
        tracing::warn!("too little");
    });
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("after") && text.contains("as before") && text.lines().count() == 2,
        "{text}"
    );
}

#[test]
fn log_is_text_or_json() {
    let text = logged("info", Format::Auto, true);
    assert_names(&text, &["listening", "r-17", "1280"]);
    assert_eq!(text.lines().count(), 1);

    let json: serde_json::Value =
        serde_json::from_str(&logged("info", Format::Auto, false)).unwrap();
    assert_eq!(
        (&json["message"], &json["port"], &json["level"]),
        (&"listening".into(), &1280.into(), &"INFO".into())
    );
    assert_eq!(json["span"]["request"], "r-17");

    assert!(serde_json::from_str::<serde_json::Value>(&logged("info", Format::Json, true)).is_ok());
    let plain = logged("info", Format::Text, false);
    assert!(
        plain.contains("listening") && !plain.contains('\u{1b}') && !plain.starts_with('{'),
        "{plain:?}"
    );

    assert_eq!(logged("debug", Format::Json, false).lines().count(), 2);
    assert_eq!(logged("off,overkeep=debug", Format::Json, false), "");
}
