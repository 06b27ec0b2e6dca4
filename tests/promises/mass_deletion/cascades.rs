//! Records that go with many others.

use super::*;

#[test]
fn cascades_end_many_records_at_once() {
    const SESSIONS: usize = 150;
    const EACH: usize = 5;
    let now = Timestamp::from_millis(0);
    let directory = TempDir::new().unwrap();
    let store = stores::of(KINDS).start(&directory.path().join("data"));
    store
        .write_blocking(move |tx| {
            tx.insert(builtin::auth_policy(now))?;
            tx.insert(Record::new(
                Id::from_text("ann"),
                now,
                Identity::named("ann"),
            ))?;
            for n in 0..SESSIONS {
                tx.insert(Record::new(
                    Id::from_text(n.to_string()),
                    now,
                    session("ann", "internal", n),
                ))?;
                for k in 0..EACH {
                    tx.insert(Record::new(
                        Id::from_text(format!("{n}-{k}")),
                        now,
                        certificate(&n.to_string(), now),
                    ))?;
                }
            }
            tx.delete(&Id::<Identity>::from_text("ann"))
        })
        .unwrap();
    let found = |tx: &Read<'_>| {
        let of = |n: usize| {
            Ok(tx
                .linked::<SessionCertificate>("apiSession", &n.to_string())?
                .len())
        };
        Ok((
            tx.count::<ApiSession>()?,
            (0..SESSIONS).map(of).sum::<Result<usize>>()?,
            tx.count::<SessionCertificate>()?,
        ))
    };
    let (sessions, certificates, left) = store.read(found).unwrap();
    assert_eq!((sessions, certificates), (0, 0));
    assert!(left > 0, "the transaction did not wait for all of them");
    assert_eq!(store.check(&Progress::default()).unwrap().findings, []);
    clear(&store, 40);
    assert_eq!(store.read(found).unwrap(), (0, 0, 0));
    assert_eq!(store.check(&Progress::default()).unwrap().findings, []);
}

#[test]
fn cascade_targets_can_end_together() {
    for kind in KINDS {
        for edge in (kind.edges)()
            .iter()
            .filter(|edge| edge.rule == DeleteRule::Cascade)
        {
            let many = KINDS
                .iter()
                .any(|target| target.kind == edge.to && !target.ends_by.is_empty());
            assert!(
                !many || kind.ends_by.contains(&edge.field),
                "{} outlives its {}",
                kind.kind.name,
                edge.field
            );
        }
    }
}
