//! Files of every format open, with all that they hold.

use super::*;

#[test]
fn every_format_opens() {
    if env::var_os("OVERKEEP_WRITE_GOLDEN").is_some() {
        write_golden();
    }
    opens_with_all_records(1, None);
    (2..=NEWEST).for_each(|format| opens_with_all_records(format, Some(PASSPHRASE)));
}

fn opens_with_all_records(format: u32, passphrase: Option<&str>) {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unpack(format, &data);
    let key = passphrase.map(Passphrase::new);
    let started = |file: &Path| {
        let mut config = configuration(file);
        config.passphrase_file = passphrase.map(|text| {
            let file = directory.path().join("passphrase");
            fs::write(&file, text).unwrap();
            file
        });
        controller::start(&config, Clock::system()).unwrap()
    };
    let verified = |file: &Path| {
        let manifest = snapshot_proof::verify(file, key.as_ref(), &Progress::default()).unwrap();
        assert!(manifest.report.findings.is_empty(), "{:?}", manifest.report);
        assert!(
            offline::verify_history(file, None)
                .unwrap()
                .faults
                .is_empty()
        );
        manifest.manifest.unwrap().format
    };
    assert_eq!(verified(&data), format);
    assert_eq!(
        rows(&data)
            .get("records.endpointReport")
            .map_or(0, BTreeMap::len),
        usize::from(format >= 4)
    );
    let restored = directory.path().join("restored");
    restore::restore(
        &data,
        &restored,
        key.as_ref(),
        Timestamp::from_millis(0),
        &Progress::default(),
    )
    .unwrap();
    let filled = |file: &Path| {
        rows(file)
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .collect::<BTreeMap<_, _>>()
    };
    assert!(
        filled(&restored) == filled(&data),
        "the restored rows differ from the rows of the snapshot"
    );
    let before = |file: &Path| beside(file, &format!(".before-{}", env!("CARGO_PKG_VERSION")));
    offline::reseal(&restored, key.as_ref(), key.as_ref(), &Progress::default()).unwrap();
    assert!(
        format == NEWEST || verified(&before(&restored)) == format,
        "the copy made before an upgrade has the old format"
    );
    let repaired = directory.path().join("repaired");
    fs::copy(&data, &repaired).unwrap();
    offline::repair(
        &repaired,
        key.as_ref(),
        Unreadable::Stays,
        &Progress::default(),
    )
    .unwrap();
    let copy = beside(&repaired, ".before-repair");
    assert!(
        if format == NEWEST {
            !copy.exists()
        } else {
            verified(&copy) == format
        },
        "a sound file of this release is not copied"
    );
    for file in [&restored, &repaired] {
        let kept = fs::read(before(file)).ok();
        started(file).stop();
        assert_eq!(
            fs::read(before(file)).ok(),
            kept,
            "a file already written by this release was copied"
        );
    }
    let running = started(&data);
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let alice = admin
        .get("/identities?filter=name%3D%22alice%22")
        .expect(200);
    assert_eq!(alice.data()[0]["roleAttributes"], json!(["laptops"]));
    assert_eq!(alice.data()[0]["appData"], json!({ "desk": "7" }));
    let service = admin
        .get("/services?filter=name%3D%22database%22")
        .expect(200);
    let id = service.data()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        admin
            .get(&format!("/services/{id}/configs"))
            .expect(200)
            .data()[0]["data"]["port"],
        5432
    );
    assert_eq!(
        admin
            .get(&format!("/services/{id}/identities"))
            .expect(200)
            .data()[0]["name"],
        "alice"
    );
    // Lists of transit routers contain edge routers as well. One edge router is the built-in one of
    // this release.
    let counts = [
        ("edge-routers", 2),
        ("transit-routers", 3),
        ("enrollments", 3),
        ("posture-checks", 1),
        ("external-jwt-signers", 1),
    ];
    for (path, count) in counts {
        assert_eq!(
            admin
                .get(&format!("/{path}"))
                .expect(200)
                .data()
                .as_array()
                .unwrap()
                .len(),
            count,
            "{path}"
        );
    }
    // Forms are generated from these schemas; files of earlier releases hold older ones.
    for record in builtin::config_types(Timestamp::ZERO_TIME).unwrap() {
        let shown = admin
            .get(&format!("/config-types/{}", record.id))
            .expect(200);
        let schema = record.spec.schema.unwrap().0;
        assert_eq!(
            shown.data()["schema"].to_string(),
            serde_json::Value::from(schema).to_string(),
            "format {format}: {}",
            record.spec.name
        );
    }
    let signers = admin.get("/external-jwt-signers").expect(200);
    let signer = [
        "name",
        "jwksEndpoint",
        "claimsProperty",
        "clientId",
        "scopes",
        "targetToken",
    ]
    .map(|member| &signers.data()[0][member]);
    let known = json!([
        "signer",
        "https://issuer.example.org/keys",
        "sub",
        null,
        [],
        "ACCESS"
    ]);
    assert_eq!(
        json!(signer),
        known,
        "a signer of an earlier release has defaults for the later members"
    );
    running.stop();
    let copy = directory.path().join("copy");
    offline::snapshot(&data, &copy, &Progress::default()).unwrap();
    assert_eq!(verified(&copy), NEWEST);
    assert_eq!(before(&data).exists(), format < NEWEST);
    assert!(
        format == NEWEST || verified(&before(&data)) == format,
        "the copy made before an upgrade has the old format"
    );
}

/// The rows of earlier formats form one chain, whoever wrote them. They stay as they are, and later
/// log-ins do not displace them.
#[test]
fn upgrade_keeps_the_history() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unpack(3, &data);
    let before = rows(&data)["history"].clone();
    let last = offline::verify_history(&data, None).unwrap().last;
    let first = HistoryAnchor {
        sequence: 1,
        hash: before.values().next().unwrap()[..32]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    };
    let passphrase = directory.path().join("passphrase");
    fs::write(&passphrase, PASSPHRASE).unwrap();
    let config = Config {
        passphrase_file: Some(passphrase),
        ..configuration(&data)
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let rows_of = |answer: Answer| answer.data().as_array().unwrap().clone();
    let shown = rows_of(
        admin
            .get("/overkeep/v1/history?sort=sequence&limit=500")
            .expect(200),
    );
    assert!(
        shown.len() > before.len()
            && shown
                .iter()
                .zip(1..)
                .all(|(row, sequence)| row["sequence"] == sequence)
    );
    let hashes = |(row, shown): (&Vec<u8>, &serde_json::Value)| row[..32] == *hex(&shown["hash"]);
    assert!(
        before.values().zip(&shown).all(hashes),
        "a noted hash is no longer the one that is shown"
    );
    running.stop();
    let after = rows(&data);
    assert!(
        before
            .iter()
            .all(|(key, row)| after["history"].get(key) == Some(row)),
        "a row of the earlier format was changed"
    );
    for noted in [None, Some(&first), Some(&last)] {
        assert_eq!(
            offline::verify_history(&data, noted).unwrap().faults,
            [""; 0]
        );
    }
    let store = stores::of(KINDS).start(&data);
    let nothing = Retention {
        since: Timestamp::MAX,
        bytes: 0,
    };
    assert!(store.trim_history(HistoryClass::Sessions, nothing).unwrap() > 0);
    assert_eq!(store.verify_history(Some(&last)).unwrap().faults, [""; 0]);
    store.close();
    let trimmed = rows(&data);
    assert!(
        trimmed["history.sessions"].is_empty() && trimmed["history"] == after["history"],
        "log-ins of earlier formats stay with the changes"
    );
    let database = Database::open(&data).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = TableDefinition::<&[u8], &[u8]>::new("history");
    drop(
        transaction
            .open_table(table)
            .unwrap()
            .remove(last.sequence.to_be_bytes().as_slice())
            .unwrap(),
    );
    transaction.commit().unwrap();
    drop(database);
    assert!(
        !offline::verify_history(&data, None)
            .unwrap()
            .faults
            .is_empty(),
        "the last row of the earlier format was removed unseen"
    );
}
