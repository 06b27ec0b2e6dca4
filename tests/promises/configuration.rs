//! The configuration: `controller.toml` is correct, a mistake is rejected with a line that names
//! it, a flag takes precedence over a variable and a variable over the file, and the exit status
//! tells the kind of failure.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use figment::value::Value;
use overkeep::testing::cli::{self, CommandError, run};
use overkeep::testing::config::{Address, Config, Format, Log, Span};
use overkeep::testing::logging;
use tempfile::TempDir;

const DOCUMENTED: &str = include_str!("../../controller.toml");

/// A directory with a configuration file.
struct WorkingDirectory(TempDir);

impl WorkingDirectory {
    fn with(text: &str) -> WorkingDirectory {
        let place = WorkingDirectory(tempfile::tempdir().unwrap());
        std::fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("controller.toml")
    }
}

/// The configuration of a command line and variables, or the failure.
fn configured(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Config, CommandError> {
    warned(arguments, variables).map(|(config, _)| config)
}

/// Like [`configured`], with the warnings.
fn warned(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<(Config, Vec<String>), CommandError> {
    let environment: Vec<(OsString, OsString)> = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let arguments = ["overkeep", "run"]
        .iter()
        .chain(arguments)
        .map(OsString::from);
    let mut seen = None;
    cli::act(arguments, &environment, |start| {
        seen = Some((start.config, start.warnings));
        Ok::<(), Infallible>(())
    })?;
    Ok(seen.unwrap())
}

fn from_file(text: &str) -> Result<Config, CommandError> {
    let place = WorkingDirectory::with(text);
    configured(&["--config", place.file().to_str().unwrap()], &[])
}

/// The line of a rejected start.
fn refusal(outcome: Result<Config, CommandError>) -> String {
    match outcome {
        Err(CommandError::Start(line) | CommandError::Flag(line)) => {
            assert!(!line.contains('\n'), "{line:?}");
            line
        }
        other => panic!("expected a rejected start, got {other:?}"),
    }
}

fn assert_names(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{line:?} does not name {word:?}");
    }
}

/// Keys and their documented bounds in `controller.toml`.
fn documented_bounds() -> Vec<(String, String)> {
    let (mut section, mut bounds, mut found) = (String::new(), None, Vec::new());
    for line in DOCUMENTED.lines() {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = format!("{name}.");
        } else if let Some(text) = line.strip_prefix("# Bounds: ") {
            bounds = Some(text.trim_end_matches('.').to_owned());
        } else if let Some((key, _)) = line
            .trim_start_matches("# ")
            .split_once(" = ")
            .filter(|(key, _)| !key.contains(' '))
        {
            // Also of keys whose line is a comment, because they have no default.
            found.extend(
                bounds
                    .take()
                    .map(|bounds| (format!("{section}{key}"), bounds)),
            );
        }
    }
    found
}

#[test]
fn controller_toml_holds_the_defaults() {
    assert_eq!(from_file(DOCUMENTED).unwrap(), Config::default());
    assert_eq!(configured(&[], &[]).unwrap(), Config::default());
}

#[test]
fn controller_toml_misses_no_key() {
    let live = Figment::from(Toml::string(DOCUMENTED));
    for (key, default) in run::keys().unwrap() {
        if let Value::Empty(..) = default {
            // With the keys of its section, which may depend on each other, or as a single line of
            // an existing section.
            let (section, name) = key.split_once('.').unwrap_or(("", &key));
            let whole = DOCUMENTED.contains(&format!("\n# {key} = "));
            assert!(
                whole || DOCUMENTED.contains(&format!("\n# {name} = ")),
                "{key} has no commented line"
            );
            let of = if whole && !section.is_empty() {
                format!("{section}.")
            } else {
                format!("{name} = ")
            };
            let live = DOCUMENTED.replace(&format!("\n# {of}"), &format!("\n{of}"));
            assert_ne!(
                from_file(&live).unwrap(),
                Config::default(),
                "the commented line of {key} sets nothing"
            );
        } else {
            assert!(live.find_value(&key).is_ok(), "{key} is missing");
        }
    }
}

#[test]
fn bounds_match_controller_toml() {
    let documented = documented_bounds();
    let measured = |value: &Value| {
        matches!(value, Value::Num(..))
            || value
                .as_str()
                .is_some_and(|text| text.parse::<Span>().is_ok())
    };
    let is_bounded = |key: &str, default: &Value| {
        measured(default) || (matches!(default, Value::Empty(..)) && Config::bounds(key).is_some())
    };
    let keys = run::keys()
        .unwrap()
        .into_iter()
        .filter(|(key, default)| is_bounded(key, default))
        .map(|(key, _)| key);
    assert_eq!(
        keys.collect::<BTreeSet<_>>(),
        documented.iter().map(|(key, _)| key.clone()).collect()
    );

    for (key, bounds) in documented {
        assert_eq!(Config::bounds(&key), Some(bounds.clone()), "{key}");
        let (least, most) = bounds.split_once(" to ").unwrap();
        let (below, above) = match least.parse::<i64>() {
            Ok(least) => (
                (least - 1).to_string(),
                (most.parse::<i64>().unwrap() + 1).to_string(),
            ),
            Err(_) => {
                let millis = |text: &str| text.parse::<Span>().unwrap().duration().as_millis();
                (
                    format!("{}ms", millis(least) - 1),
                    format!("{}ms", millis(most) + 1),
                )
            }
        };
        let variable = run::variable(&key);
        for inside in [least, most] {
            configured(&[], &[(&variable, inside)]).unwrap();
        }
        for outside in [&below, &above] {
            assert_names(
                &refusal(configured(&[], &[(&variable, outside)])),
                &[&key, &variable, outside, least, most],
            );
        }
    }
}

#[test]
fn every_key_has_a_variable() {
    let keys = run::keys().unwrap();
    let variables: BTreeSet<String> = keys.keys().map(|key| run::variable(key)).collect();
    assert_eq!(variables.len(), keys.len());
    assert!(
        variables.contains("OVERKEEP_SESSIONS_SWEEP_BATCH")
            && variables.contains("OVERKEEP_ADMIN_PASSWORD_FILE")
    );

    let given = [
        ("OVERKEEP_DATA", "123"), // a path that looks like a number
        (
            "OVERKEEP_ADVERTISE",
            "Overlay.Example.org:8441, [2001:db8::1]:1280",
        ),
        ("OVERKEEP_LOG_FORMAT", "json"),
        (
            "OVERKEEP_HTTP_CORS_ORIGINS",
            "https://a.example.org, http://localhost:8080",
        ),
        ("OVERKEEP_SESSIONS_TIMEOUT", "1h"),
        ("OVERKEEP_PASSWORDS_COST", "10"),
        ("OVERKEEP_STORE_COMPACT_AT_START", "false"),
    ];
    let config = configured(&[], &given).unwrap();
    assert_eq!(config.data, Path::new("123"));
    assert_eq!(
        config.advertise,
        [
            "overlay.example.org:8441".parse().unwrap(),
            "[2001:db8::1]:1280".parse().unwrap()
        ]
    );
    assert_eq!(config.log.format, Format::Json);
    assert_eq!(
        config.http.cors_origins,
        ["https://a.example.org", "http://localhost:8080"]
    );
    assert_eq!(config.sessions.timeout, Span::minutes(60));
    assert_eq!(config.passwords.cost, 10);
    assert!(!config.store.compact_at_start);
}

#[test]
fn flag_beats_variable_beats_file() {
    let place = WorkingDirectory::with(
        "data = 'file'\nlisten = '127.0.0.1:1'\n[sessions]\ntimeout = '5m'\nsweep-batch = 7",
    );
    let file = place.file();
    let file = ["--config", file.to_str().unwrap()];
    let variables = [
        ("OVERKEEP_DATA", "variable"),
        ("OVERKEEP_LISTEN", "127.0.0.1:2"),
        ("OVERKEEP_SESSIONS_TIMEOUT", "6m"),
    ];

    let config = configured(&[file[0], file[1], "--data", "flag"], &variables).unwrap();
    assert_eq!(config.data, Path::new("flag"));
    assert_eq!(config.listen, "127.0.0.1:2".parse().unwrap());
    assert_eq!(config.sessions.timeout, Span::minutes(6));
    assert_eq!(config.sessions.sweep_batch, 7);
    assert_eq!(
        config.sessions.sweep_interval,
        Config::default().sessions.sweep_interval
    );

    assert_eq!(configured(&file, &[]).unwrap().data, Path::new("file"));
    let flags = [
        "--data",
        "a",
        "--listen",
        "127.0.0.1:3",
        "--advertise",
        "b:4",
        "--admin-password-file",
        "c",
        "--passphrase-file",
        "d",
    ];
    let other = [
        ("OVERKEEP_DATA", "x"),
        ("OVERKEEP_LISTEN", "[::1]:9"),
        ("OVERKEEP_ADVERTISE", "x:9"),
        ("OVERKEEP_ADMIN_PASSWORD_FILE", "x"),
        ("OVERKEEP_PASSPHRASE_FILE", "x"),
    ];
    assert_eq!(
        configured(&flags, &other).unwrap(),
        configured(&flags, &[]).unwrap()
    );
}

#[test]
fn variable_names_the_configuration_file() {
    let (flag, variable) = (
        WorkingDirectory::with("data = 'flag'"),
        WorkingDirectory::with("data = 'variable'"),
    );
    let variable = [(
        "OVERKEEP_CONFIG",
        variable.file().to_str().unwrap().to_owned(),
    )];
    let variable = variable
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    assert_eq!(
        configured(&[], &variable).unwrap().data,
        Path::new("variable")
    );
    assert_eq!(
        configured(&["--config", flag.file().to_str().unwrap()], &variable)
            .unwrap()
            .data,
        Path::new("flag")
    );
}

#[test]
fn file_mistakes_are_named() {
    for (text, words) in [
        ("dta = 'x'", &["dta", "no such key", "data"][..]),
        ("[sessions]\ntimout = '1m'", &["sessions.timout", "timeout"]),
        ("[store.more]\nx = 1", &["store.more"]),
        ("[sesions]\ntimeout = '1m'", &["sesions", "sessions"]),
        ("sessions = 5", &["sessions", "section"]),
        (
            "[[http]]\nworkers = 4",
            &["http (", "must be one section", "[http]"],
        ),
        ("http = [['*'], '1s']", &["http (", "must be one section"]),
        ("data = 5", &["data", "5", "text in quotes"]),
        ("data = ' '", &["data", "blank"]),
        ("listen = 1280", &["listen", "1280", "ADDRESS:PORT"]),
        (
            "listen = 'localhost:1280'",
            &["listen", "localhost:1280", "127.0.0.1:1280"],
        ),
        ("listen = '[::]:1280'", &["listen", "advertise"]),
        (
            "listen = ['127.0.0.1:1280', '0.0.0.0:1281']",
            &["listen", "0.0.0.0:1281", "advertise"],
        ),
        (
            "listen = ['127.0.0.1:1280', 'here']",
            &["listen", "here", "ADDRESS:PORT"],
        ),
        (
            "listen = ['127.0.0.1:1280', '127.0.0.1:1280']",
            &["listen", "twice"],
        ),
        ("listen = []", &["listen", "at least one"]),
        (
            "advertise = 'overlay'",
            &["advertise", "overlay", "HOST:PORT"],
        ),
        (
            "advertise = ['a.example.org:1', 'overlay']",
            &["advertise", "overlay", "HOST:PORT"],
        ),
        ("advertise = 5", &["advertise", "5", "HOST:PORT"]),
        (
            "tls.certificate = 'a.pem'",
            &["tls.certificate", "a.pem", "tls.key"],
        ),
        (
            "[tls]\nkey = 'a.key'",
            &["tls.key", "a.key", "tls.certificate"],
        ),
        (
            "[tls]\ncertificate = ' '\nkey = 'a'",
            &["tls.certificate", "blank"],
        ),
        ("[log]\nlevel = 'infos'", &["log.level", "infos", "info"]),
        (
            "[log]\nlevel = 'info,overkeep=loud'",
            &["log.level", "loud"],
        ),
        (
            "[log]\nformat = 'xml'",
            &["log.format", "xml", "auto, text, json"],
        ),
        (
            "[http]\ncors-origins = 'https://a'",
            &["http.cors-origins", "list"],
        ),
        (
            "[http]\ncors-origins = ['https://a/']",
            &["http.cors-origins", "https://a/"],
        ),
        (
            "[http]\ncors-origins = ['*', 'https://a']",
            &["http.cors-origins", "*"],
        ),
        (
            "[http]\nworkers = '4'",
            &["http.workers", "\"4\"", "whole number"],
        ),
        (
            "[http]\nworkers = 1.5",
            &["http.workers", "1.5", "whole number"],
        ),
        (
            "[passwords]\ncost = 300",
            &["passwords.cost", "300", "10 to 17"],
        ),
        (
            "[sessions]\ntimeout = 30",
            &["sessions.timeout", "30", "unit"],
        ),
        (
            "[sessions]\ntimeout = '30 minutes'",
            &["sessions.timeout", "30 minutes", "90s"],
        ),
        (
            "[sessions]\ntimeout = '59s'",
            &["sessions.timeout", "59s", "1m"],
        ),
        (
            "[enrollment]\nidentity-duration = '4m'",
            &["enrollment.identity-duration", "4m", "5m"],
        ),
        ("data = 'a'\ndata = 'b'", &["line 2", "data"]),
        ("data = 'a'\n\n[log\n", &["line 3"]),
    ] {
        let line = refusal(from_file(text));
        assert_names(&line, words);
        assert_names(&line, &["controller.toml"]);
    }
}

#[test]
fn no_section_takes_an_unknown_key() {
    let keys = run::keys().unwrap();
    let sections: BTreeSet<&str> = keys
        .keys()
        .filter_map(|key| Some(key.split_once('.')?.0))
        .collect();
    assert!(sections.len() > 5);
    for section in sections {
        assert_names(
            &refusal(from_file(&format!("[{section}]\nunheard-of = 1"))),
            &[&format!("{section}.unheard-of"), "no such key"],
        );
    }
}

#[test]
fn variable_and_flag_mistakes_are_named() {
    for (variable, value, words) in [
        ("OVERKEEP_LISTEN", "", &["listen", "OVERKEEP_LISTEN"][..]),
        (
            "OVERKEEP_HTTP_WORKERS",
            "many",
            &[
                "http.workers",
                "OVERKEEP_HTTP_WORKERS",
                "many",
                "whole number",
            ],
        ),
        (
            "OVERKEEP_HTTP_WORKERS",
            "-1",
            &["http.workers", "OVERKEEP_HTTP_WORKERS", "-1", "0 to 256"],
        ),
        (
            "OVERKEEP_STORE_COMPACT_AT_START",
            "yes",
            &[
                "store.compact-at-start",
                "OVERKEEP_STORE_COMPACT_AT_START",
                "yes",
                "true nor false",
            ],
        ),
        (
            "OVERKEEP_SESSIONS_TIMEOUT",
            "30",
            &["sessions.timeout", "OVERKEEP_SESSIONS_TIMEOUT", "30"],
        ),
        (
            "OVERKEEP_CONFIG",
            "/does/not/exist.toml",
            &["OVERKEEP_CONFIG", "/does/not/exist.toml"],
        ),
    ] {
        assert_names(&refusal(configured(&[], &[(variable, value)])), words);
    }
    for (flag, value) in [
        ("--listen", "here"),
        ("--advertise", "0.0.0.0:1"),
        ("--data", ""),
        ("--admin-password-file", " "),
    ] {
        assert_names(&refusal(configured(&[flag, value], &[])), &[flag, value]);
    }
    let missing = refusal(configured(&["--config", "/does/not/exist.toml"], &[]));
    assert_names(
        &missing,
        &["--config", "/does/not/exist.toml", "No such file"],
    );
}

/// Container platforms set variables for every service that they know. A service named overkeep
/// must not prevent its own controller from starting.
#[test]
fn unknown_variables_only_warn() {
    let variables = [
        ("OVERKEEP_SERVICE_HOST", "10.96.0.17"),
        ("OVERKEEP_PORT", "tcp://10.96.0.17:1280"),
        ("OVERKEEP_PORT_1280_TCP_ADDR", "10.96.0.17"),
        ("OVERKEEP_DTA", "x"),
        ("OVERKEEP_SESSIONS", "1"),
        ("OVERKEEP_LOG__LEVEL", "debug"),
    ];
    let (config, warnings) = warned(&[], &variables).unwrap();
    assert_eq!(
        (config, warnings.len()),
        (Config::default(), variables.len())
    );
    for ((variable, _), warning) in variables.iter().zip(&warnings) {
        assert_names(warning, &[variable, "unknown variable", "ignored"]);
    }
    assert_names(&warnings[5], &["did you mean OVERKEEP_LOG_LEVEL?"]);
    let (_, none) = warned(
        &["--data", "x"],
        &[("OVERKEEP_LISTEN", "127.0.0.1:2"), ("OVERKEEP_PID", "1")],
    )
    .unwrap();
    assert!(none.is_empty(), "{none:?}");

    // A command on the file gives the warning too, and then runs.
    let place = WorkingDirectory::with("");
    let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
    command
        .args(["check", "--data", "none"])
        .env_clear()
        .env("OVERKEEP_SERVICE_HOST", "10.96.0.17")
        .current_dir(place.0.path());
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let [warning, failure] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert_names(warning, &["overkeep: warning: OVERKEEP_SERVICE_HOST"]);
    assert_names(failure, &["overkeep: none: "]);
}

#[cfg(unix)]
#[test]
fn non_text_variables_are_named() {
    use std::os::unix::ffi::OsStringExt;
    let environment = [("OVERKEEP_DATA".into(), OsString::from_vec(vec![0xff, 0xfe]))];
    let refused = run::Arguments::default().config(&environment).unwrap_err();
    assert_names(&refused.to_string(), &["data", "OVERKEEP_DATA", "UTF-8"]);
}

#[test]
fn tool_variables_are_ignored() {
    let tools = [
        ("OVERKEEP_URL", "x"),
        ("OVERKEEP_USER", "x"),
        ("OVERKEEP_PASSWORD", "x"),
        ("OVERKEEP_PID", "1"),
        ("OVERKEEPER", "x"),
        ("PATH", "x"),
    ];
    assert_eq!(configured(&[], &tools).unwrap(), Config::default());
}

#[test]
fn durations_and_addresses_round_trip() {
    for (text, millis) in [
        ("500ms", 500),
        ("90s", 90_000),
        ("30m", 1_800_000),
        ("3h", 10_800_000),
        ("7d", 604_800_000),
        ("0ms", 0),
    ] {
        let span: Span = text.parse().unwrap();
        assert_eq!(
            (span.duration(), span.to_string().as_str()),
            (Duration::from_millis(millis), text)
        );
    }
    assert_eq!("180m".parse::<Span>().unwrap().to_string(), "3h");
    for text in [
        "",
        "s",
        "30",
        "-1s",
        "1.5h",
        "1h30m",
        "5 minutes",
        "99999999999999999999s",
        "18446744073709551615d",
        "1M",
    ] {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }

    for (text, host, port) in [
        ("a.example.org:1", "a.example.org", 1),
        ("127.0.0.1:1280", "127.0.0.1", 1280),
        ("[2001:DB8::1]:443", "2001:db8::1", 443),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.host(), address.port()), (host, port));
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    for text in [
        "",
        ":1",
        "a",
        "a:",
        "a:0",
        "a:65536",
        "::1:80",
        "a b:1",
        "-a:1",
        "a..b:1",
        "1.2.3:1",
        "https://a:1",
        "*.a:1",
        "[::]:1",
        "127.0.0.1:0",
    ] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[test]
fn advertised_defaults_to_listen() {
    let bound = [
        "127.0.0.1:4711".parse().unwrap(),
        "[::1]:4712".parse().unwrap(),
    ];
    let told = |config: Config| {
        config
            .advertised(&bound[..config.listen.addresses().len()])
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(configured(&["--listen", "127.0.0.1:0"], &[]).unwrap()),
        ["127.0.0.1:4711"]
    );
    assert_eq!(
        told(configured(&["--listen", "127.0.0.1:0,[::1]:0"], &[]).unwrap()),
        ["127.0.0.1:4711", "[::1]:4712"]
    );
    assert_eq!(
        told(from_file("listen = ['127.0.0.1:1', '[::1]:1']").unwrap()),
        ["127.0.0.1:4711", "[::1]:4712"]
    );
    assert_eq!(
        told(configured(&[], &[("OVERKEEP_LISTEN", "127.0.0.1:1, [::1]:1")]).unwrap()),
        ["127.0.0.1:4711", "[::1]:4712"]
    );
    let named = configured(
        &[
            "--listen",
            "0.0.0.0:1280",
            "--advertise",
            "a.example.org:443,[::1]:9",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(told(named), ["a.example.org:443", "[::1]:9"]);
    assert_eq!(
        told(from_file("advertise = 'a.example.org:443'").unwrap()),
        ["a.example.org:443"]
    );
    assert_eq!(
        told(from_file("advertise = ['a.example.org:443', '10.0.0.1:1']").unwrap()),
        ["a.example.org:443", "10.0.0.1:1"]
    );
}

#[test]
fn endless_file_is_refused() {
    let endless = "/dev/zero";
    assert_names(
        &refusal(configured(&["--config", endless], &[])),
        &["--config", endless, "1 MiB"],
    );
    let config = Config {
        admin_password_file: Some(endless.into()),
        passphrase_file: Some(endless.into()),
        ..Config::default()
    };
    assert_names(
        &config.admin_password().unwrap_err().to_string(),
        &["admin-password-file", endless, "1 MiB"],
    );
    assert_names(
        &config.passphrase().err().unwrap().to_string(),
        &["passphrase-file", endless, "1 MiB"],
    );
    let mut files = pki::Files::new(endless.as_ref(), endless.as_ref());
    assert_names(&files.changed().unwrap_err(), &[endless, "1 MiB"]);
}

#[test]
fn password_file_loses_its_line_end() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("password");
    let config = Config {
        admin_password_file: Some(file.clone()),
        ..Config::default()
    };
    assert_eq!(Config::default().admin_password(), Ok(None));
    assert_names(
        &config.admin_password().unwrap_err().to_string(),
        &["admin-password-file", "password", "No such file"],
    );

    for (text, password) in [
        ("secret", "secret"),
        ("secret\n", "secret"),
        ("secret\r\n", "secret"),
        (" secret \n\n", " secret \n"),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(
            config.admin_password(),
            Ok(Some(password.to_owned().into()))
        );
    }
    for text in ["", "four", "four\n", &"x".repeat(101)] {
        std::fs::write(&file, text).unwrap();
        let reason = config.admin_password().unwrap_err().to_string();
        assert_names(&reason, &["admin-password-file", "5 to 100"]);
        assert!(
            text.is_empty() || !reason.contains(text.trim()),
            "the refusal shows the password"
        );
    }
}

#[test]
fn passphrase_is_read_like_passwords() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("passphrase");
    let config = Config {
        passphrase_file: Some(file.clone()),
        ..Config::default()
    };
    assert!(Config::default().passphrase().unwrap().is_none());
    assert_names(
        &config.passphrase().unwrap_err().to_string(),
        &["passphrase-file", "No such file"],
    );
    for text in ["", "\n", "seven77\n", &"x".repeat(1001)] {
        std::fs::write(&file, text).unwrap();
        let reason = config.passphrase().unwrap_err().to_string();
        assert_names(&reason, &["passphrase-file", "8 to 1000"]);
        assert!(
            text.trim().is_empty() || !reason.contains(text.trim()),
            "the refusal shows the passphrase"
        );
    }
    std::fs::write(&file, "eight888\n").unwrap();
    assert!(!format!("{:?}", config.passphrase().unwrap().unwrap()).contains("eight888"));
}

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
