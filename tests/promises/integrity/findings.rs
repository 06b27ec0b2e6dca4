//! What a check finds, and what a repair mends.

use super::*;

#[test]
fn sound_file_is_left_unchanged() {
    let file = Closed::filled();
    let before = file.rows();
    assert_eq!(file.check(), Report::default());
    assert_eq!(file.repair(), Report::default());
    assert_eq!(file.rows(), before);
}

#[test]
fn lost_index_rows_are_restored() {
    let file = Closed::filled();
    let before = file.rows();
    assert!(before["index"].len() > 12);
    for key in before["index"].keys() {
        file.lose(INDEX, key);
        file.heals();
        assert_eq!(
            file.rows(),
            before,
            "after the loss of {:?}",
            String::from_utf8_lossy(key)
        );
    }
    file.tamper(INDEX, |rows| rows.retain(|_, _| false).unwrap());
    file.heals();
    assert_eq!(file.rows(), before);
}

#[test]
fn surplus_index_rows_are_removed() {
    let file = Closed::filled();
    let before = file.rows();
    let of = |field: &str, rest: &str| [&index_code(Ship::KIND, field), rest.as_bytes()].concat();
    let of_nobody = of("flag", "blue\0\0ghost");
    let of_other_value = of("flag", "red\0\0tug");
    let unique_of_nobody = of("name", "the tug\0\0aardvark");
    let of_no_field = of("berth", "7\0\0tug");
    let endless = of("flag", " without an end");
    for key in [
        of_nobody,
        of_other_value,
        unique_of_nobody,
        of_no_field,
        endless,
        b"\xFF".to_vec(),
        Vec::new(),
    ] {
        file.put(INDEX, &key, b"");
        file.heals();
        assert_eq!(
            file.rows(),
            before,
            "after a row {:?}",
            String::from_utf8_lossy(&key)
        );
    }
    let (long, _) = before["index"]
        .iter()
        .find(|(_, row)| !row.is_empty())
        .unwrap();
    file.put(INDEX, long, b"another value");
    file.heals();
    assert_eq!(file.rows(), before);
}

/// A file as written by releases up to format 2: names in the keys of the index and of tombstones.
fn with_names(file: &Closed, fields: &[(&str, &str, IndexCode)]) {
    let renamed = |rows: &mut redb::Table<'_, &'static [u8], &'static [u8]>| {
        let all: Vec<_> = rows
            .extract_if(|_, _| true)
            .unwrap()
            .map(|row| row.unwrap())
            .map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
            .collect();
        for (key, row) in all {
            let (kind, field, _) = fields
                .iter()
                .find(|(.., code)| key.starts_with(code))
                .unwrap();
            let names = [kind, field]
                .into_iter()
                .flat_map(|name| [&[name.len() as u8], name.as_bytes()].concat())
                .collect::<Vec<u8>>();
            rows.insert(
                [names.as_slice(), &key[4..]].concat().as_slice(),
                row.as_slice(),
            )
            .unwrap();
        }
    };
    file.tamper(INDEX, renamed);
    file.tamper(TableDefinition::new("endings"), renamed);
    file.put(
        TableDefinition::new("meta"),
        b"format",
        &2_u32.to_le_bytes(),
    );
}

#[test]
fn named_index_keys_become_codes() {
    let file = Closed::filled();
    let ending = [&index_code(Ship::KIND, "flag"), b"blue\0\0".as_slice()].concat();
    file.put(TableDefinition::new("endings"), &ending, b"an ending");
    let before = file.rows();
    let fields = KINDS.iter().flat_map(|entry| {
        (entry.indexed)()
            .into_iter()
            .map(|field| (entry.kind.name, field, index_code(entry.kind, field)))
    });
    with_names(&file, &fields.collect::<Vec<_>>());
    let former = b"\x04ship\x05token1\0\0tug";
    file.put(INDEX, former, b"");
    assert_ne!(file.rows(), before);
    stores::of(KINDS).open(&file.path).upgrade(None).unwrap();
    assert_eq!(
        file.rows(),
        before,
        "rows that are no longer in the index are left behind"
    );
    stores::of(KINDS).open(&file.path).upgrade(None).unwrap();
    assert_eq!(file.rows(), before);
}

#[test]
fn unreadable_record_harms_no_other() {
    let file = Closed::filled();
    let before = file.rows();
    let sound = before["records.ship"][b"tug".as_slice()].clone();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x20;
        file.put(SHIPS, b"tug", &bytes);
        let report = if at % 16 == 0 {
            file.repair()
        } else {
            file.check()
        };
        assert_eq!(report.findings.len(), 1, "byte {at}: {report:?}");
        assert!(
            report.findings[0].description.contains("ship tug") && !report.findings[0].fixed,
            "{report:?}"
        );
    }
    file.put(SHIPS, b"tug", &sound);
    assert_eq!(file.rows(), before);
}

#[test]
fn failed_remedies_do_not_stop_others() {
    let file = Closed::filled();
    let mut bytes = file.rows()["records.ship"][b"gaudy".as_slice()].clone();
    *bytes.last_mut().unwrap() ^= 1;
    file.put(SHIPS, b"gaudy", &bytes);
    file.put(INDEX, b"\xFF", b"");
    file.lose(HARBOURS, b"north");
    // The last row can be read, but no row can follow its sequence: a deletion cannot be logged.
    file.put(HISTORY, &[0xFF; 8], &[0; 64]);

    let report = file.mend(Unreadable::Goes);
    let fixed: Vec<&str> = told(&report)
        .into_iter()
        .filter(|(_, fixed)| *fixed)
        .map(|(what, _)| what)
        .collect();
    assert!(
        fixed.contains(&"a row of the index cannot be read"),
        "{report:?}"
    );
    let is_explained = |(what, fixed): (&str, bool)| {
        !fixed && what.contains("ship gaudy") && what.contains("greatest possible sequence")
    };
    assert!(told(&report).into_iter().any(is_explained), "{report:?}");
    assert!(file.rows()["records.ship"].contains_key(b"gaudy".as_slice()));
}

#[test]
fn unreadable_records_go_on_request() {
    let file = Closed::filled();
    let mut bytes = file.rows()["records.ship"][b"tug".as_slice()].clone();
    *bytes.last_mut().unwrap() ^= 1;
    file.put(SHIPS, b"tug", &bytes);
    file.put(SHIPS, b"no \xFF text", b"");
    file.put(INDEX, b"\xFF", b"");
    let last = file.rows()["history"].last_key_value().unwrap().0.clone();
    file.put(HISTORY, &last, b"?");
    file.with(|store| {
        drop(
            store
                .write_blocking(|tx| tx.insert(ship("raft")))
                .expect_err("no row can be chained to the last"),
        )
    });

    let expected = file.check();
    assert_eq!(expected.findings.len(), 4, "{expected:?}");
    let left = file.repair();
    assert_eq!(
        left.findings.iter().filter(|finding| finding.fixed).count(),
        1,
        "only the row of the index must be repaired: {left:?}"
    );
    let gone = file.mend(Unreadable::Goes);
    assert!(
        gone.findings.iter().all(|finding| finding.fixed),
        "{gone:?}"
    );
    let deleted = gone
        .findings
        .iter()
        .filter(|finding| finding.description.ends_with("; it is deleted"));
    assert_eq!(deleted.count(), 3, "{gone:?}");
    assert_eq!(file.check(), Report::default());
    file.with(|store| {
        store
            .write_blocking(|tx| tx.insert(ship("tug")))
            .expect("its name and its index values must be free");
        store
            .read(|tx| {
                assert!(
                    tx.find(&Id::<Ship>::from_text("barge"))?.is_none(),
                    "it must be deleted with its tug"
                );
                assert!(
                    tx.get(&Id::<Ship>::from_text("liner"))?
                        .spec
                        .escorts
                        .is_empty(),
                    "both references must be removed"
                );
                Ok(())
            })
            .unwrap();
        let told = store.read(|tx| tx.history_after(0, usize::MAX)).unwrap();
        let deletions = told
            .iter()
            .filter(|row| row.action == Action::Delete)
            .map(|row| row.id.as_str());
        assert_eq!(
            deletions.collect::<Vec<_>>(),
            ["no \u{FFFD} text", "tug", "barge"]
        );
    });
}

#[test]
fn ambiguous_faults_are_only_reported() {
    let file = Closed::filled();
    file.lose(HARBOURS, b"north");
    file.lose(
        INDEX,
        &[
            &index_code(Harbour::KIND, "name"),
            b"north\0\0north".as_slice(),
        ]
        .concat(),
    );
    let expected = [(
        "the ship liner refers by home to the harbour north, which does not exist",
        false,
    )];
    assert_eq!(told(&file.check()), expected);
    assert_eq!(told(&file.repair()), expected);

    let file = Closed::filled();
    let mut twin = ship("twin");
    twin.spec.name = "the tug".into();
    file.put(SHIPS, b"twin", &encode(&twin).unwrap());
    let report = file.repair();
    assert!(
        told(&report).contains(&("the ship twin has the same name as tug", false)),
        "{report:?}"
    );
    assert!(
        !format!("{report:?}").contains("the tug"),
        "the report contains a value, which may be a secret: {report:?}"
    );
    file.with(|store| {
        assert_eq!(
            store
                .read(|tx| tx.find_by::<Ship>("name", "the tug"))
                .unwrap()
                .unwrap()
                .id
                .as_str(),
            "tug"
        );
        assert_eq!(
            store
                .read(|tx| tx.ids(Ship::KIND, "flag", "blue"))
                .unwrap()
                .len(),
            4,
            "its other index entries must exist"
        );
    });
    assert_eq!(
        told(&file.check()),
        [("the ship twin has the same name as tug", false)]
    );
}

#[test]
fn many_findings_are_all_repaired() {
    let file = Closed::filled();
    file.with(|store| {
        store
            .write_blocking(|tx| (0..600).try_for_each(|n| tx.insert(ship(&format!("raft {n}")))))
            .unwrap()
    });
    let before = file.rows();
    file.tamper(INDEX, |rows| {
        rows.retain(|key, _| !key.windows(4).any(|part| part == b"raft"))
            .unwrap()
    });
    let found = file.check();
    assert_eq!((found.findings.len(), found.more), (1000, true));
    let mended = file.repair();
    assert_eq!((mended.findings.len(), mended.more), (1000, true));
    assert_eq!(file.rows(), before);
}

#[test]
fn checks_report_progress_and_stop() {
    let file = Closed::filled();
    let watch = Progress::default();
    file.with(|store| store.check(&watch).unwrap());
    let (done, total) = watch.done_and_total();
    assert!(done == total && total > 15, "{done} of {total}");
    watch.stop();
    assert!(file.with(|store| store.check(&watch)).is_err());
    assert!(
        file.with(|store| store.repair(Unreadable::Stays, &watch))
            .is_err()
    );
}
