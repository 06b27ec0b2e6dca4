//! Check and repair in a running controller.

use super::*;

#[test]
fn administrators_check_and_repair() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let damaged = Damaged::by(|tx| {
        let (service, id) = (
            RECORDS
                .iter()
                .find(|(entry, _)| entry.kind == Service::KIND)
                .unwrap(),
            "a-service",
        );
        remove(
            tx,
            INDEX,
            &(service.0.parts)(id, &service.1[id]).unwrap().entries[0].key,
        );
        remove(tx, &table("postureCheck"), b"a-check");
        rewrite::<TransitRouter>(tx, "a-transit-router", |r| {
            r.state.unverified_fingerprint = None
        });
    });
    fs::write(&config.data, damaged.0.content()).unwrap();
    let controller = controller::start(&config, Clock::system()).unwrap();
    let admin = trusting(&format!("https://{}", controller.bound())).log_in("admin", PASSWORD);
    let run = |path: &str| {
        admin
            .post(&format!("/database/{path}"), Json::Null)
            .expect(202);
        let begun = Instant::now();
        loop {
            let answer = admin.get("/database/data-integrity-results").expect(200);
            if answer.data()["inProgress"] == false {
                return answer.data()["results"].as_array().unwrap().clone();
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "the run does not end"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let has = |results: &[Json], text: &str, fixed: bool| {
        results
            .iter()
            .any(|one| one["description"].as_str().unwrap().contains(text) && one["fixed"] == fixed)
    };
    let (lacks, dangles, flaw) = (
        "lacks the service a-service",
        "refers by postureCheckIds to the postureCheck a-check",
        "a-transit-router has a fingerprint",
    );
    let found = run("check-data-integrity");
    assert!(
        [lacks, dangles, flaw]
            .iter()
            .all(|text| has(&found, text, false)),
        "{found:?}"
    );
    let fixed = run("fix-data-integrity");
    assert!(
        has(&fixed, lacks, true) && has(&fixed, dangles, true) && has(&fixed, flaw, false),
        "{fixed:?}"
    );
    let left = run("check-data-integrity");
    assert!(left.len() == 1 && has(&left, flaw, false), "{left:?}");
    controller.stop();
}

#[test]
fn scrub_reports_damage_once() {
    let drive = SimulatedDisk::holding(SOUND_FILE.clone(), 0);
    let store = stores::of(KINDS).start_on(drive.clone());
    let (clock, watch, directory) = (
        Clock::system(),
        Progress::default(),
        TempDir::new().unwrap(),
    );
    let maintenance = Maintenance::new(
        store.clone(),
        SealedKeys::default(),
        clock.clone(),
        &directory.path().join("data"),
    );
    let mut scrub = Scrub::of(&Config::default().integrity, maintenance, clock);
    assert_eq!(scrub.round(&watch).unwrap(), [""; 0]);
    store
        .write_blocking(|tx| {
            (0..300).try_for_each(|n| {
                put::<Service>(
                    tx,
                    &format!("s{n}"),
                    json!({ "name": format!("service {n}"), "encryptionRequired": true }),
                    Json::Null,
                )
            })
        })
        .unwrap();
    assert_eq!(
        scrub.round(&watch).unwrap(),
        [""; 0],
        "the scrub does not know what was written since"
    );

    // Flips a bit of a record that is cached in memory, so that only the scrub notices it before
    // the next start.
    let mut at = 0;
    drive.corrupt(|bytes| {
        at = bytes
            .windows(11)
            .rposition(|part| part == b"service 299")
            .unwrap();
        bytes[at] ^= 4;
    });
    assert_eq!(
        store.check(&watch).unwrap(),
        Report::default(),
        "the cache holds the right bytes"
    );
    let found = scrub.round(&watch).unwrap();
    let expected = format!(
        "the disk no longer holds what was written at byte {} of the file",
        at / 4096 * 4096
    );
    assert_eq!(found, [expected.as_str()]);
    assert_eq!(
        scrub.round(&watch).unwrap(),
        [""; 0],
        "it was reported already"
    );
    let descriptions = |report: Report| -> Vec<(String, bool)> {
        report
            .findings
            .into_iter()
            .map(|one| (one.description, one.fixed))
            .collect()
    };
    assert_eq!(
        descriptions(store.check(&watch).unwrap()),
        [(expected.clone(), false)],
        "a check reports it as well"
    );
    assert_eq!(
        descriptions(store.repair(Unreadable::Stays, &watch).unwrap()),
        [(expected, false)]
    );
    drive.corrupt(|bytes| bytes[at] ^= 4);
    assert_eq!(
        store.check(&watch).unwrap(),
        Report::default(),
        "the bytes are right again"
    );
    assert_eq!(scrub.round(&watch).unwrap(), [""; 0]);
    drive.corrupt(|bytes| bytes[at] ^= 4);
    assert_eq!(
        scrub.round(&watch).unwrap().len(),
        1,
        "the same damage returned"
    );
    store.close();

    // Damage that is in the rows and not on the disk.
    let damaged = Damaged::by(|tx| {
        rewrite::<Enrollment>(tx, "an-enrollment", |r| r.spec.identity_id = None);
        set(tx, INDEX, b"nobody's", b"");
        set(tx, SETTINGS, b"pki", b"{}");
        let mut history = tx
            .open_table(TableDefinition::<&[u8], &[u8]>::new("history"))
            .unwrap();
        let (key, mut row) = history
            .first()
            .unwrap()
            .map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
            .unwrap();
        *row.last_mut().unwrap() ^= 1;
        history.insert(key.as_slice(), row.as_slice()).unwrap();
    });
    damaged.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            Clock::system(),
            &directory.path().join("data"),
        );
        let found = Scrub::of(&Config::default().integrity, maintenance, Clock::system())
            .round(&watch)
            .unwrap();
        for part in [
            "an-enrollment does not belong to",
            "a row of the index cannot be read",
            "row 1 of the history",
            "the keys of the controller",
        ] {
            assert!(
                found.iter().any(|text| text.contains(part)),
                "{part}: {found:?}"
            );
        }
    });
}
