//! The values of keys: durations, addresses, passwords.

use super::*;

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
    assert_names(
        &files.read_if_changed().unwrap_err().to_string(),
        &[endless, "1 MiB"],
    );
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
