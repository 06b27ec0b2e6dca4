//! What an upgrade does to a file.

use super::*;

#[test]
fn upgrade_copies_the_file_first() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let start = || {
        controller::start(&configuration(&data), Clock::system())
            .unwrap()
            .stop()
    };
    start();
    start();
    assert_eq!(
        names(directory.path()),
        ["data"],
        "the same release makes no copy"
    );
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(|tx| tx.set_setting("release", Some(b"0.0.9")))
        .unwrap();
    drop(store);
    start();
    let copy = format!("data.before-{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(names(directory.path()), ["data", &copy]);
    let copy = directory.path().join(copy);
    let kept = stores::of(KINDS).open_read_only(&copy);
    assert_eq!(
        kept.read(|tx| tx.setting("release")).unwrap().unwrap(),
        b"0.0.9"
    );
}

#[test]
fn upgrade_indexes_fields_added_since() {
    let server = TestServer::start();
    let service = server.service("database", json!({}));
    let router = server
        .admin
        .post("/edge-routers", json!({ "name": "edge" }))
        .expect(201)
        .id();
    for instance in ["one", ""] {
        let terminator = json!({ "service": service, "router": router, "binding": "transport", "address": "tcp:localhost:80", "identity": instance });
        server.admin.post("/terminators", terminator).expect(201);
    }
    let directory = server.closed();
    let data = directory.path().join("data");
    let before = rows(&data);
    take_back(&data, &[("terminator", "instance")]);
    let taken_back = rows(&data);
    assert!(
        before["index"].len() == taken_back["index"].len() + 1,
        "one terminator has an instance id"
    );
    let store = stores::of(KINDS).open(&data);
    store.upgrade(None).unwrap();
    drop(store);
    assert_eq!(rows(&data)["index"], before["index"]);
}

#[test]
fn changed_config_types_stay() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, PASSPHRASE).unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let start = || {
        let running = controller::start(&config, Clock::system()).unwrap();
        let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", PASSPHRASE);
        (running, admin)
    };
    let (running, admin) = start();
    let own = json!({ "type": "object", "properties": { "mine": { "type": "string" } } });
    admin
        .patch("/config-types/host.v2", json!({ "schema": own }))
        .expect(200);
    admin.delete("/config-types/g7cIWbcGg").expect(200);
    running.stop();
    let (running, admin) = start();
    assert_eq!(
        admin.get("/config-types/host.v2").expect(200).data()["schema"]["properties"],
        own["properties"]
    );
    admin.get("/config-types/g7cIWbcGg").expect(404);
    running.stop();
}

/// The setting with the built-in config types that a file got. Files of earlier releases lack it.
const SHIPPED: &str = "built-in-config-types";

#[test]
fn own_config_types_keep_their_names() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, PASSPHRASE).unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let start = || {
        let running = controller::start(&config, Clock::system()).unwrap();
        let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", PASSPHRASE);
        (running, admin)
    };
    start().0.stop();
    // As a file of an earlier release: two types are the operator's, one of which has the id of
    // OpenZiti's.
    let own = || {
        Document(
            json!({ "type": "object", "title": "own" })
                .as_object()
                .unwrap()
                .clone(),
        )
    };
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(move |tx| {
            tx.set_setting(SHIPPED, None)?;
            ["proxy.v1", "interfaces.v1", "l2.host.v1", "l2.intercept.v1"]
                .into_iter()
                .try_for_each(|id| tx.delete(&Id::<ConfigType>::from_text(id)))?;
            for (id, name) in [("proxy.v1", "proxy.v1"), ("mine", "interfaces.v1")] {
                tx.insert(Record::new(
                    Id::from_text(id),
                    Timestamp::from_millis(1),
                    ConfigType {
                        name: name.into(),
                        schema: Some(own()),
                    },
                ))?;
            }
            Ok(())
        })
        .unwrap();
    store.close();
    for _ in 0..2 {
        let (running, admin) = start();
        for id in ["proxy.v1", "mine"] {
            assert_eq!(
                admin.get(&format!("/config-types/{id}")).expect(200).data()["schema"]["title"],
                "own"
            );
        }
        admin.get("/config-types/interfaces.v1").expect(404);
        for id in ["l2.host.v1", "l2.intercept.v1"] {
            assert!(admin.get(&format!("/config-types/{id}")).expect(200).data()["schema"]["properties"].is_object());
        }
        let exported =
            admin.get("/overkeep/v1/network").expect(200).data()["config-types"].to_string();
        assert!(
            exported.contains("proxy.v1")
                && exported.contains("interfaces.v1")
                && !exported.contains("l2."),
            "{exported}"
        );
        running.stop();
    }
    let (running, admin) = start();
    admin.delete("/config-types/l2.host.v1").expect(200);
    running.stop();
    let (running, admin) = start();
    admin.get("/config-types/l2.host.v1").expect(404);
    running.stop();
}

#[test]
fn index_changes_with_format_only() {
    FILED_KINDS.iter().for_each(|name| {
        assert!(
            KINDS.iter().any(|entry| entry.kind.name == *name),
            "{name} is no kind"
        )
    });
    let fields = || {
        KINDS
            .iter()
            .filter(|entry| FILED_KINDS.contains(&entry.kind.name))
            .flat_map(|entry| {
                (entry.indexed)()
                    .into_iter()
                    .map(move |field| (entry.kind.name, field, index_code(entry.kind, field)))
            })
    };
    let names: BTreeSet<_> = fields().map(|(kind, field, _)| (kind, field)).collect();
    let codes: BTreeSet<_> = fields().map(|(.., code)| code).collect();
    assert_eq!(codes.len(), names.len(), "two fields have one code");
    // As long as no release has written the newest format, a new index changes the number without
    // an upgrade: the upgrade from earlier formats makes the rows.
    let all = codes.iter().flatten().copied().collect::<Vec<u8>>();
    assert_eq!(
        crc32fast::hash(&all),
        3_157_858_768,
        "a file of format {NEWEST} has other index rows: introduce the next format and an upgrade to it"
    );
}
