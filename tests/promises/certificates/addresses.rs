//! The names and addresses that a certificate covers.

use super::*;

#[test]
fn certificate_covers_all_advertised_names() {
    let directory = TempDir::new().unwrap();
    let mut config = settings(directory.path());
    let start = |config: &Config| {
        let running = controller::start(config, Clock::system()).unwrap();
        let device = Device::new(&Clock::system(), running.bound());
        let leaf = device.connect().shown().swap_remove(0);
        (running, leaf)
    };
    config.advertise = vec![
        "one.test:1280".parse().unwrap(),
        "[2001:db8::1]:1280".parse().unwrap(),
    ];
    let (running, first) = start(&config);
    assert!(
        ["one.test", "2001:db8::1", "localhost", "127.0.0.1", "::1"]
            .iter()
            .all(|host| first.is_for(host))
    );
    let version = trusting(&format!("https://{}", running.bound()))
        .get("/version")
        .expect(200);
    let urls = &version.data()["apiVersions"]["edge"]["v1"]["apiBaseUrls"];
    assert_eq!(
        *urls,
        json!([
            "https://one.test:1280/edge/client/v1",
            "https://[2001:db8::1]:1280/edge/client/v1"
        ])
    );
    assert_eq!(running.advertised(), "one.test:1280");
    let admin = trusting(&format!("https://{}", running.bound()))
        .log_in("admin", running.generated_password().unwrap());
    let late = fresh("late");
    admin.post("/identities", json!({ "name": late, "type": "Device", "isAdmin": false, "enrollment": { "ott": true } })).expect(201);
    let status = |data: &Path| {
        ask(&socket::beside(data), &Command::ListCertificates)
            .unwrap()
            .unwrap()
            .join("\n")
    };
    assert!(!status(&config.data).contains(&late));
    running.stop();
    // A command on a stopped controller need not repeat the advertised addresses.
    let stopped = || {
        let (looked, look) = (
            controller::host(&settings(directory.path()), &Command::ListCertificates).unwrap(),
            Command::ListCertificates,
        );
        let told = looked.act(look, &Arc::new(Progress::default())).unwrap();
        looked.store.close();
        format!("{told:?}")
    };
    assert!(!stopped().contains(&late), "{}", stopped());

    assert_eq!(restarted(&config, &start), first, "nothing changed");
    config.advertise = vec![
        "two.test:443".parse().unwrap(),
        "192.0.2.7:443".parse().unwrap(),
    ];
    let (running, second) = start(&config);
    assert!(second.is_for("two.test") && second.is_for("192.0.2.7"));
    assert_eq!(second.public_key(), first.public_key());
    let said = status(&config.data);
    assert!(
        said.contains(&late) && said.contains("https://one.test:1280") && said.contains("/refresh"),
        "sent nowhere: {said}"
    );
    running.stop();
    assert!(stopped().contains("https://one.test:1280"), "{}", stopped());
}

#[test]
fn clients_connect_over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this host has none
    }
    let directory = TempDir::new().unwrap();
    let config = Config {
        listen: "[::1]:0".parse().unwrap(),
        ..settings(directory.path())
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    assert!(running.advertised().starts_with("[::1]:"));
    Device::new(&Clock::system(), running.bound())
        .connect()
        .ask("GET", "/version", "", None);
}
