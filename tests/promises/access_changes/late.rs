//! Changes that are told late, or not at all.

use super::*;

#[test]
fn untold_changes_are_told_after_crash() {
    let directory = TempDir::new().unwrap();
    let open = || stores::of(KINDS).open(&directory.path().join("data"));
    let mut world = World::on(open(), 77);
    (0..20).for_each(|_| world.any_change(&somebody("alice")));
    world.audit.catch_up().unwrap();
    let told = world.told(0).len();
    (0..20).for_each(|_| world.any_change(&somebody("alice")));
    assert_eq!(world.told(0).len(), told);
    world.store.close();
    world.store = open().start().unwrap();
    world.audit = AccessAudit::following(&world.store).unwrap();
    world.audit.catch_up().unwrap();
    world.hold(0);
    assert!(world.told(0).len() > told);
}

#[test]
fn trimmed_changes_are_not_told() {
    let mut world = World::new(5);
    (0..30).for_each(|_| world.any_change(&Author::local()));
    world.audit.catch_up().unwrap();
    (0..30).for_each(|_| world.any_change(&Author::local()));
    world
        .store
        .trim_history(
            HistoryClass::Changes,
            Retention {
                since: Timestamp::from_millis(0),
                bytes: 0,
            },
        )
        .unwrap();
    let gone = world.end();
    (0..30).for_each(|_| world.any_change(&Author::local()));
    world.audit.catch_up().unwrap();
    world.hold(gone);
    assert!(world.told(0).len() > 5);
}

#[test]
fn damaged_rows_are_passed_over() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("data");
    let open = || stores::of(KINDS).open(&file);
    let mut world = World::on(open(), 9);
    (0..10).for_each(|_| world.any_change(&Author::local()));
    world.store.close();
    let database = Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let history = TableDefinition::<&[u8], &[u8]>::new("history");
    let damaged = 4_u64.to_be_bytes();
    transaction
        .open_table(history)
        .unwrap()
        .insert(damaged.as_slice(), [7; 50].as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);

    let mut world = World::on(open(), 10);
    let refused = world.audit.catch_up();
    assert!(
        matches!(
            refused,
            Err(Error::Damaged {
                kind: "history",
                ..
            })
        ),
        "{refused:?}"
    );
    world.audit.catch_up().unwrap();
    let end = world.end();
    world.states.push((end, world.everything()));
    (0..20).for_each(|_| world.any_change(&Author::local()));
    world.audit.catch_up().unwrap();
    world.hold(end);
    assert!(!world.told(end).is_empty());
}
