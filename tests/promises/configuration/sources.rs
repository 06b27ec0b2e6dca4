//! Files, variables and flags, and mistakes in them.

use super::*;

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
