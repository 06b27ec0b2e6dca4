//! How commands reach the socket, and what they print.

use super::*;

#[test]
fn unreadable_file_keeps_its_given_name() {
    let directory = TempDir::new().unwrap();
    let lines = [
        (
            "admin reset-password admin --password-file none",
            "overkeep: --password-file: none: No such file",
        ),
        ("passphrase set none", "overkeep: FILE: none: No such file"),
        (
            "passphrase remove --passphrase-file none",
            "overkeep: passphrase-file: none: No such file",
        ),
    ];
    for (line, says) in lines {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overkeep"));
        let output = command
            .args(line.split(' '))
            .env_clear()
            .current_dir(&directory)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.starts_with(says),
            "{said}"
        );
    }
}

#[test]
fn printed_commands_show_no_password() {
    assert!(!format!("{:?}", reset("very secret")).contains("very secret"));
}

#[test]
fn invalid_command_is_refused() {
    use std::io::{Read, Write};
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let _running = controller::start(&config, Clock::system()).unwrap();
    let path = socket::beside(&config.data);
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"{\"command\":\"format\"}\n",
        b"\xff\xfe\n",
        &[b'x'; 70_000],
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        // The other side may close before everything is sent.
        drop(stream.write_all(bytes));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        assert!(!answer.contains("Done"), "{answer}");
    }
    assert!(ask(&path, &Command::ListAdministrators).unwrap().is_ok());
}

#[test]
fn silent_connections_do_not_delay_stop() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let _silent = std::os::unix::net::UnixStream::connect(socket::beside(&config.data)).unwrap();
    let begun = std::time::Instant::now();
    running.stop();
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn long_paths_reach_the_socket() {
    let directory = TempDir::new().unwrap();
    let deep = directory
        .path()
        .join("deep-".repeat(30))
        .join("down-".repeat(30));
    std::fs::create_dir_all(&deep).unwrap();
    let config = Config {
        data: deep.join("data"),
        ..configuration(&directory)
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    assert!(
        ask(&socket::beside(&config.data), &Command::ListAdministrators)
            .unwrap()
            .is_ok()
    );
    running.stop();
    assert_eq!(
        std::fs::read_dir(&deep).unwrap().count(),
        1,
        "only the data file may remain"
    );
}

#[test]
fn any_file_name_reaches_the_socket() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("data", &link).unwrap();
    for (runs, asked) in [(&config.data, &link), (&link, &config.data)] {
        // Through a link only an existing file is opened.
        controller::start(&config, Clock::system()).unwrap().stop();
        let running = controller::start(
            &Config {
                data: runs.clone(),
                ..config.clone()
            },
            Clock::system(),
        )
        .unwrap();
        let answers = || {
            ask(&socket::beside(asked), &Command::ListAdministrators)
                .unwrap()
                .is_ok()
        };
        assert!(answers());
        let away = directory.path().join("away");
        std::fs::rename(&config.data, &away).unwrap();
        assert!(answers(), "also after the file was deleted");
        std::fs::rename(&away, &config.data).unwrap();
        running.stop();
    }
}

#[test]
fn names_are_escaped_for_terminals() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin = crate::harness::trusting(&format!("https://{}", running.bound()))
        .log_in("admin", running.generated_password().unwrap());
    let name = "eve\nyes: eve may dial everything\u{1b}[2J\u{9b}";
    admin
        .post(
            "/identities",
            serde_json::json!({ "name": name, "type": "Device", "isAdmin": true }),
        )
        .expect(201);
    admin
        .post(
            "/services",
            serde_json::json!({ "name": name, "encryptionRequired": true }),
        )
        .expect(201);
    let (identity, service) = (name.to_owned(), name.to_owned());
    let explain = Command::Explain {
        right: policy::access::Right::Dial,
        identity,
        service,
        json: false,
    };
    for command in [Command::ListAdministrators, explain] {
        let lines = asked(&socket::beside(&config.data), &command);
        assert!(
            lines.iter().any(|line| line.contains("eve\\nyes: eve")),
            "{lines:?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| !line.starts_with("yes") && !line.contains(char::is_control)),
            "{lines:?}"
        );
    }
}
