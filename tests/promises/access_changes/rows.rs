//! Rows of the history that tell who gained and lost access.

use super::*;

#[test]
fn rows_tell_gained_and_lost_access() {
    for seed in 1..=6 {
        let (mut world, mut rows) = (World::new(seed), 0);
        let authors = [somebody("alice"), somebody("bob"), Author::local()];
        for _ in 0..60 {
            let author = &authors[world.rng.below(3)];
            world.any_change(author);
            match world.rng.below(8) {
                0 => world.audit.catch_up().unwrap(),
                // Simulates an end of the process.
                1 => world.audit = AccessAudit::following(&world.store).unwrap(),
                _ => {}
            }
        }
        world.audit.catch_up().unwrap();
        world.hold(0);
        for row in world.told(0) {
            let access = row.access.as_deref().unwrap();
            rows += 1;
            assert_eq!(
                (access.changes, row.change),
                (1, Some(access.first)),
                "{row:?}"
            );
            let told = world
                .store
                .read(|tx| tx.history_after(access.first - 1, 1))
                .unwrap();
            assert_eq!(told[0].change, None);
        }
        assert!(rows > 10, "only {rows} changes granted or took a right");
        assert_eq!(world.store.verify_history(None).unwrap().faults, [""; 0]);
        world.audit.catch_up().unwrap();
        assert_eq!(world.told(0).len(), rows, "a change is reported twice");
    }
}

#[test]
fn many_changes_share_one_row() {
    let mut world = World::new(40);
    let (alice, bob) = (somebody("alice"), somebody("bob"));
    (0..300).for_each(|_| world.any_change(&alice));
    world.audit.catch_up().unwrap();
    world.hold(0);
    let told = world.told(0);
    assert!(told.len() > 3 && told.len() <= 64, "{} rows", told.len());
    assert!(
        told.iter()
            .any(|row| row.access.as_deref().unwrap().changes > 1 && row.change.is_none())
    );
    assert!(
        told.iter().all(|row| row.by == alice),
        "the common author is not reported"
    );

    (0..400).for_each(|n| world.any_change(if n % 2 == 0 { &alice } else { &bob }));
    world.audit.catch_up().unwrap();
    world.hold(0);
    let more = world.told(0).split_off(told.len());
    assert!(more.len() > 3 && more.len() < 150, "{} rows", more.len());
    assert!(more.iter().any(|row| row.by.who == Who::Several));
}

#[test]
fn changes_without_effect_leave_no_row() {
    let server = TestServer::with_manual_clock();
    let (identity, user) = server.user(&fresh("person"), json!({ "roleAttributes": ["staff"] }));
    let service = server.service(&fresh("service"), json!({}));
    let policy = server.service_policy("Dial", &["#staff"], &[&format!("@{service}")]);
    server.run_due_jobs();
    let end = || {
        server
            .admin
            .get("/overkeep/v1/history?limit=1")
            .expect(200)
            .data()[0]["sequence"]
            .as_u64()
            .unwrap()
    };
    let count = || {
        server
            .admin
            .get(&history("action = \"access\""))
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .len()
    };
    let (before, rows) = (end(), count());
    server
        .admin
        .patch(
            &format!("/service-policies/{policy}"),
            json!({ "name": fresh("policy"), "semantic": "AllOf" }),
        )
        .expect(200);
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "roleAttributes": ["staff", "unheard-of"] }),
        )
        .expect(200);
    server
        .admin
        .post(
            "/service-policies",
            json!({ "name": fresh("policy"), "type": "Bind", "semantic": "AnyOf" }),
        )
        .expect(201);
    server.service(&fresh("service"), json!({}));
    user.delete("/current-api-session").expect(200);
    server.run_due_jobs();
    assert_eq!((end(), count()), (before + 5, rows));
}

#[test]
fn operator_finds_who_lost_access() {
    let server = TestServer::with_manual_clock();
    let (database, ann) = (
        server.service("database", json!({})),
        server.identity("ann", json!({ "roleAttributes": ["staff"] })),
    );
    let bob = server.identity("bob", json!({ "roleAttributes": ["staff"] }));
    let policy = server.service_policy("Dial", &["#staff"], &[&format!("@{database}")]);
    server.run_due_jobs();
    let (boss, session) = server.user("boss", json!({ "isAdmin": true }));
    let mut events = watch(&server.admin, "");
    session
        .at(Base::Management)
        .patch(
            &format!("/service-policies/{policy}"),
            json!({ "identityRoles": [format!("@{ann}")] }),
        )
        .expect(200);
    server.run_due_jobs();

    let find = |filter: &str| {
        server
            .admin
            .get(&history(filter))
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .clone()
    };
    let found = find("action = \"access\" and anyOf(access.lost.what) = \"database\"");
    assert_eq!(found.len(), 1, "{found:#?}");
    let row = &found[0];
    assert_eq!(
        (&row["kind"], &row["id"], &row["by"]["identity"]),
        (&json!("servicePolicy"), &json!(policy), &json!(boss))
    );
    let lost = &row["access"]["lost"]["dial"];
    assert_eq!(
        (&lost["pairs"], &lost["who"]["first"]),
        (&json!(1), &json!([{ "id": bob, "name": "bob" }]))
    );
    assert!(row["access"]["gained"].is_null());
    let changed = find(&format!("change = {}", row["change"]));
    let actions: Vec<&Json> = changed.iter().map(|row| &row["action"]).collect();
    assert_eq!(
        actions,
        [&json!("access"), &json!("update")],
        "the filter must find the change as well"
    );
    assert_eq!(
        find("access.gained.dial = 2 and anyOf(access.gained.who) = \"ann\"").len(),
        1
    );
    assert_eq!(
        find("access.lost.dial > 0 and access.changes = 1 and access.last < 5").len(),
        0
    );
    assert_eq!(
        server
            .admin
            .get("/overkeep/v1/history?sort=sequence&limit=500")
            .expect(200)
            .data()[0]["action"],
        "create"
    );

    let streamed: Vec<Json> = (0..2).map(|_| events.next().unwrap().data).collect();
    assert_eq!(
        (&streamed[0]["action"], &streamed[1]),
        (&json!("update"), row)
    );
}

#[test]
fn rows_of_one_change_are_linked() {
    let mut world = World::new(3);
    world.change(&Author::local(), |tx, rng| {
        turn::<Service>(tx, "s0", json!({ "encryptionRequired": true }), rng)?;
        turn::<Service>(tx, "s1", json!({ "encryptionRequired": true }), rng)
    });
    world.change(&Author::local(), |tx, rng| {
        turn::<Service>(tx, "s2", json!({ "encryptionRequired": true }), rng)
    });
    let rows = world
        .store
        .read(|tx| tx.history_after(1, usize::MAX))
        .unwrap();
    let changes: Vec<(u64, Option<u64>, u64)> = rows
        .iter()
        .map(|row| (row.sequence, row.change, row.change()))
        .collect();
    assert_eq!(changes, [(2, None, 2), (3, Some(2), 2), (4, None, 4)]);
}
