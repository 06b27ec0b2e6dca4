//! Damage to records, their index rows and their references.

use super::*;

/// One record of each kind that [`fill`] makes, which are at least those of the newest format.
fn one_of_each() -> impl Iterator<Item = (&'static KindEntry, &'static str, &'static [u8])> {
    RECORDS.iter().filter_map(|(entry, records)| {
        let last = records.iter().next_back();
        assert!(
            last.is_some() || !FILED_KINDS.contains(&entry.kind.name),
            "there is no {}",
            entry.kind.name
        );
        last.map(|(id, bytes)| (*entry, id.as_str(), bytes.as_slice()))
    })
}

#[test]
fn file_of_every_kind_is_sound() {
    let whole = Damaged::by(|_| ());
    assert_eq!(
        whole.reports(),
        [const {
            Report {
                findings: Vec::new(),
                more: false,
                notes: Vec::new(),
            }
        }; 3]
    );
}

#[test]
fn damaged_records_are_named() {
    // A byte of the version, of the checksum, and of what the checksum covers.
    for at in [0, 3, 7] {
        let damaged = Damaged::by(|tx| {
            for (entry, id, bytes) in one_of_each() {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 0x10;
                set(tx, &table(entry.kind.name), id.as_bytes(), &bytes);
            }
        });
        let [found, fixed, left] = damaged.reports();
        for report in [&found, &fixed, &left] {
            assert_eq!(
                unfixed(report).len(),
                one_of_each().count(),
                "byte {at}: {report:?}"
            );
        }
        for (entry, id, _) in one_of_each() {
            assert!(
                descriptions(&found)
                    .iter()
                    .any(|text| text.contains(&format!("{} {id}", entry.kind.name))),
                "{} {id}: {found:?}",
                entry.kind.name
            );
        }
    }
}

#[test]
fn missing_index_rows_return() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, records) in RECORDS.iter() {
            let mut fields = BTreeSet::new();
            for (id, bytes) in records {
                for own in (entry.parts)(id, bytes)
                    .unwrap()
                    .entries
                    .iter()
                    .filter(|own| fields.insert(own.field))
                {
                    remove(tx, INDEX, &own.key);
                    expected.insert(format!(
                        "the index of {} lacks the {} {id}",
                        own.field, entry.kind.name
                    ));
                }
            }
        }
    });
    let [found, fixed, left] = damaged.reports();
    assert!(expected.len() > 60);
    assert_eq!(
        descriptions(&found),
        expected.iter().map(String::as_str).collect()
    );
    assert!(
        unfixed(&fixed).is_empty() && left == Report::default(),
        "{fixed:?}, {left:?}"
    );
    assert_eq!(
        damaged.rows(INDEX),
        Damaged(SimulatedDisk::holding(SOUND_FILE.clone(), 0)).rows(INDEX)
    );
}

#[test]
fn surplus_rows_go_for_every_kind() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, id, bytes) in one_of_each() {
            let entries = (entry.parts)(id, bytes).unwrap().entries;
            let Some(own) = entries.first() else { continue };
            let (kind, field) = (entry.kind.name, own.field);
            set(tx, INDEX, &[&own.key[..own.prefix], b"ghost"].concat(), b"");
            expected.insert(format!(
                "the index of {field} has the {kind} ghost, which does not exist"
            ));
            set(
                tx,
                INDEX,
                &[
                    &index_code(entry.kind, field),
                    b"an unused value\0\0".as_slice(),
                    id.as_bytes(),
                ]
                .concat(),
                b"",
            );
            expected.insert(format!(
                "the index of {field} has a value that the {kind} {id} does not have"
            ));
        }
    });
    let [found, fixed, left] = damaged.reports();
    assert!(expected.len() > 40);
    assert_eq!(
        descriptions(&found),
        expected.iter().map(String::as_str).collect()
    );
    assert!(
        unfixed(&fixed).is_empty() && left == Report::default(),
        "{fixed:?}, {left:?}"
    );
}

#[test]
fn duplicate_unique_values_are_named() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, id, bytes) in one_of_each() {
            let mut twin = bytes.to_vec();
            let mut sum = crc32fast::Hasher::new();
            [b"twin".as_slice(), &bytes[..1], &bytes[5..]]
                .iter()
                .for_each(|part| sum.update(part));
            twin[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
            set(tx, &table(entry.kind.name), b"twin", &twin);
            let unique = (entry.parts)(id, bytes)
                .unwrap()
                .entries
                .into_iter()
                .filter(|own| own.unique);
            expected.extend(unique.map(|own| {
                format!(
                    "the {} twin has the same {} as {id}",
                    entry.kind.name, own.field
                )
            }));
        }
        // Its id is the unique value.
        expected
            .insert("the endpointReport twin is about another API session than its id says".into());
    });
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let [found, fixed, left] = damaged.reports();
    assert!(
        expected.len() > 15 && descriptions(&found).is_superset(&expected),
        "{found:?}"
    );
    assert_eq!(
        (unfixed(&fixed), descriptions(&left)),
        (expected.clone(), expected)
    );
}

#[test]
fn every_dangling_reference_is_repaired() {
    for (entry, records) in RECORDS
        .iter()
        .filter(|(entry, _)| FILED_KINDS.contains(&entry.kind.name))
    {
        for edge in (entry.edges)() {
            let kind = entry.kind.name;
            let target = |id: &String, bytes: &Vec<u8>| {
                let mut targets = (entry.parts)(id, bytes).unwrap().targets.into_iter();
                targets
                    .find(|target| (target.field, target.kind) == (edge.field, edge.to))
                    .map(|target| target.id)
            };
            let named = records
                .iter()
                .find_map(|(id, bytes)| Some((id, target(id, bytes)?)));
            let (id, gone) =
                named.unwrap_or_else(|| panic!("no {kind} has {} of {}", edge.field, edge.to.name));
            let damaged = Damaged::by(|tx| remove(tx, &table(edge.to.name), gone.as_bytes()));
            let [found, fixed, left] = damaged.reports();
            let description = format!(
                "the {kind} {id} refers by {} to the {} {gone}, which does not exist",
                edge.field, edge.to.name
            );
            assert!(
                unfixed(&found).contains(description.as_str()),
                "{description}: {found:?}"
            );
            let is_restricted = edge.rule == DeleteRule::Restrict;
            for report in [&fixed, &left] {
                assert_eq!(
                    unfixed(report).contains(description.as_str()),
                    is_restricted,
                    "{description}: {report:?}"
                );
            }
            let after = damaged.rows(&table(kind)).remove(id.as_bytes());
            assert_eq!(
                after.is_none(),
                edge.rule == DeleteRule::Cascade && !is_restricted,
                "{description}"
            );
            if edge.rule == DeleteRule::Clear {
                assert_eq!(target(id, &after.unwrap()), None, "{description}");
            }
        }
    }
}

#[test]
fn records_that_contradict_themselves_are_named() {
    let other = "0".repeat(40);
    let roles = |entries: &[&str]| {
        entries
            .iter()
            .map(|entry| (*entry).to_owned())
            .collect::<Roles>()
    };
    let mut expected_flaws = Vec::new();
    let damaged = Damaged::by(|tx| {
        let certificate = "has a fingerprint that does not match its certificate";
        expected_flaws.extend(
            [
                rewrite::<Authenticator>(tx, "a-certificate", |r| {
                    let Credential::Cert { unverified, .. } = &mut r.spec.credential else {
                        panic!("it is a certificate")
                    };
                    unverified.as_mut().unwrap().fingerprint = other.clone();
                }),
                rewrite::<Ca>(tx, "a-ca", |r| r.state.fingerprint = other.clone()),
                rewrite::<Controller>(tx, "a-controller", |r| r.spec.fingerprint = other.clone()),
                rewrite::<EdgeRouter>(tx, "an-edge-router", |r| r.state.fingerprint = None),
                rewrite::<ExternalJwtSigner>(tx, "a-signer", |r| r.state.fingerprint = None),
                rewrite::<SessionCertificate>(tx, "a-session-certificate", |r| {
                    r.spec.certificate = "no PEM at all".into()
                }),
                rewrite::<TransitRouter>(tx, "a-transit-router", |r| {
                    r.state.unverified_fingerprint = Some(other.clone())
                }),
            ]
            .map(|named| named + certificate),
        );
        expected_flaws.extend([
            rewrite::<Enrollment>(tx, "an-enrollment", |r| r.spec.identity_id = None)
                + "does not belong to exactly one identity or router",
            rewrite::<EdgeRouterPolicy>(tx, "a-router-policy", |r| {
                r.spec.identity_roles = roles(&["#all", "#others"])
            }) + "names #all together with other entries",
            rewrite::<ServiceEdgeRouterPolicy>(tx, "a-service-router-policy", |r| {
                r.spec.service_roles = roles(&["bare"])
            }) + "has a role entry that is neither an attribute nor an id",
            rewrite::<ServicePolicy>(tx, "a-service-policy", |r| {
                r.spec.posture_check_roles = roles(&["bare"])
            }) + "has a role entry that is neither an attribute nor an id",
        ]);
    });
    let expected: BTreeSet<&str> = expected_flaws.iter().map(String::as_str).collect();
    let [found, fixed, left] = damaged.reports();
    assert!(descriptions(&found).is_superset(&expected), "{found:?}");
    assert_eq!(
        (unfixed(&fixed), descriptions(&left)),
        (expected.clone(), expected)
    );
}
