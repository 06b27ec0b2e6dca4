//! Writes: unique values, references, transactions, and who hears of a commit.

use super::*;

#[test]
fn unique_values_free_with_their_record() {
    let store = with_tasks(vec![task("a")]);
    let twin = || Record {
        id: Id::from_text("b"),
        ..task("a")
    };
    let taken = Error::Duplicate {
        field: "name".into(),
        value: "task a".into(),
    };
    assert_eq!(
        store.write_blocking(move |tx| tx.insert(twin())),
        Err(taken)
    );
    store
        .write_blocking(|tx| {
            tx.put(Record {
                state: 7,
                ..task("a")
            })
        })
        .unwrap();
    store
        .write_blocking(move |tx| {
            tx.delete(&Id::<Task>::from_text("a"))
                .and_then(|()| tx.insert(twin()))
        })
        .unwrap();
    assert_eq!(
        store
            .read(|tx| tx.find_by::<Task>("name", "task a"))
            .unwrap()
            .unwrap()
            .id
            .as_str(),
        "b"
    );

    let unlinked = |id| {
        let mut task = task(id);
        task.spec.name = String::new();
        task
    };
    store
        .write_blocking(move |tx| {
            tx.insert(unlinked("x"))
                .and_then(|()| tx.insert(unlinked("y")))
        })
        .unwrap();

    let long = |id, last| {
        let mut task = task(id);
        task.spec.name = format!("{}{last}", "n".repeat(3_000));
        task
    };
    store
        .write_blocking(move |tx| {
            tx.insert(long("l1", 1))
                .and_then(|()| tx.insert(long("l2", 2)))
        })
        .unwrap();
    let refused = store.write_blocking(move |tx| tx.insert(long("l3", 2)));
    assert!(matches!(refused, Err(Error::Duplicate { value, .. }) if value.len() == 3_001));
    assert_eq!(
        store
            .read(|tx| tx.find_by::<Task>("name", &long("", 1).spec.name))
            .unwrap()
            .unwrap()
            .id
            .as_str(),
        "l1"
    );
}

#[test]
fn deletion_follows_references() {
    let opened = stores::of(KINDS).open_in_memory();
    let events_heard = Arc::new(Mutex::new(Vec::new()));
    let sink = events_heard.clone();
    opened.subscribe(Phase::Update, move |events| {
        sink.lock().unwrap().extend(events.iter().map(|e| {
            (
                e.id.clone(),
                e.of::<Task>().is_some_and(|(_, new)| new.is_some()),
            )
        }))
    });
    let store = opened.start().unwrap();
    let mut lost = task("t");
    lost.spec.team = Some(Id::from_text("none"));
    let refused = store.write_blocking(|tx| tx.insert(lost));
    assert_eq!(
        refused,
        Err(Error::NotFound {
            kind: "team",
            id: "none".into(),
            field: Some("team".into())
        })
    );

    store
        .write_blocking(|tx| {
            tx.insert(team("red"))?;
            tx.insert(Record {
                spec: Task {
                    team: Some(Id::from_text("red")),
                    ..task("a").spec
                },
                ..task("a")
            })?;
            tx.insert(Record {
                spec: Task {
                    parent: Some(Id::from_text("a")),
                    ..task("b").spec
                },
                ..task("b")
            })?;
            tx.insert(Record {
                spec: Task {
                    parent: Some(Id::from_text("b")),
                    ..task("c").spec
                },
                ..task("c")
            })?;
            tx.insert(Record {
                spec: Task {
                    after: vec![Id::from_text("a"), Id::from_text("c"), Id::from_text("d")],
                    ..task("d").spec
                },
                ..task("d")
            })
        })
        .unwrap();
    let delete_team = || store.write_blocking(|tx| tx.delete(&Id::<Team>::from_text("red")));
    assert_eq!(
        delete_team(),
        Err(Error::Referenced {
            field: "team",
            by: vec!["a".into()]
        })
    );

    events_heard.lock().unwrap().clear();
    store
        .write_blocking(|tx| tx.delete(&Id::<Task>::from_text("a")))
        .unwrap();
    assert_eq!(all_ids(&store), ["d"]);
    let d = store
        .read(|tx| tx.get(&Id::<Task>::from_text("d")))
        .unwrap();
    assert_eq!(
        d.spec.after,
        [Id::from_text("d")],
        "only the references to deleted records are removed"
    );
    let (cleared, deleted): (Vec<_>, Vec<_>) = events_heard
        .lock()
        .unwrap()
        .iter()
        .cloned()
        .partition(|(_, lives)| *lives);
    assert!(cleared.iter().all(|(id, _)| id == "d"));
    assert_eq!(
        deleted
            .iter()
            .map(|(id, _)| id.as_str())
            .collect::<Vec<_>>(),
        ["c", "b", "a"],
        "referring records are deleted first"
    );
    delete_team().unwrap();
}

#[test]
fn cascades_may_be_long_or_circular() {
    let store = fresh();
    store
        .write_blocking(|tx| {
            for n in 0..5_000 {
                let mut link = task(&n.to_string());
                link.spec.parent = (n > 0).then(|| Id::from_text((n - 1).to_string()));
                tx.insert(link)?;
            }
            let mut first = tx.get(&Id::<Task>::from_text("0"))?;
            first.spec.parent = Some(Id::from_text("4999"));
            tx.put(first)
        })
        .unwrap();
    store
        .write_blocking(|tx| tx.delete(&Id::<Task>::from_text("2500")))
        .unwrap();
    assert_eq!(store.read(|tx| tx.count::<Task>()), Ok(0));
    assert_index_consistent(&store);
}

#[test]
fn failing_job_harms_no_other() {
    let store = fresh();
    let jobs: Vec<Job<usize>> = (0..100_usize)
        .map(|n| -> Job<usize> {
            Box::new(move |tx| {
                tx.insert(task(&format!("{n:03}")))?;
                match n % 5 {
                    1 => tx.insert(task("000")).map(|()| n),
                    2 => panic!("job {n}"),
                    3 => {
                        // A failed call has no effect, and the job may continue.
                        let mut twin = task(&format!("{n:03} twin"));
                        twin.spec.name = "task 000".into();
                        assert!(tx.insert(twin).is_err());
                        Ok(n)
                    }
                    _ => Ok(n),
                }
            })
        })
        .collect();
    let answers = in_one_group(&store, jobs);
    for (n, answer) in answers.iter().enumerate() {
        match n % 5 {
            1 => assert!(matches!(answer, Err(Error::Duplicate { .. })), "{answer:?}"),
            2 => assert_eq!(
                answer,
                &Err(Error::Internal(format!("a write panicked: job {n}")))
            ),
            _ => assert_eq!(answer, &Ok(n)),
        }
    }
    let cache: Vec<String> = (0..100)
        .filter(|n| ![1, 2].contains(&(n % 5)))
        .map(|n| format!("{n:03}"))
        .collect();
    assert_eq!(all_ids(&store), cache);
    for id in cache {
        assert_eq!(
            store.read(|tx| tx.ids(Task::KIND, "name", &format!("task {id}"))),
            Ok(vec![id])
        );
    }
    assert_index_consistent(&store);
}

#[test]
fn events_come_between_sync_and_answer() {
    let disk = Faulty::default();
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(Mutex::new(Vec::new()));
    let (listener, seen, backend) = (received.clone(), opened.reader().clone(), disk.clone());
    opened.subscribe(Phase::Update, move |events| {
        assert!(
            !backend.unsynced(),
            "the listener was called before the commit was durable"
        );
        for event in events {
            let (old, new) = event.of::<Task>().unwrap();
            assert!(old.is_none() && seen.read(|tx| tx.find(&new.unwrap().id)).unwrap().is_some());
            listener.lock().unwrap().push(event.id.clone());
        }
    });
    let store = opened.start().unwrap();
    let before = disk.syncs();
    let jobs: Vec<Job<()>> = (0..50)
        .map(|n| -> Job<()> { Box::new(move |tx| tx.insert(task(&format!("{n:02}")))) })
        .collect();
    assert!(in_one_group(&store, jobs).iter().all(Result::is_ok));
    assert_eq!(*received.lock().unwrap(), all_ids(&store));
    assert_eq!(disk.syncs() - before, 1, "a group costs one sync");
    store.write_blocking(|_| Ok(())).unwrap();
    assert_eq!(disk.syncs() - before, 1, "writing nothing costs none");
    store.close();
}

#[test]
fn who_reacts_hears_after_who_updates() {
    let opened = stores::of(KINDS).open_in_memory();
    let received = Arc::new(Mutex::new(Vec::new()));
    for (phase, name) in [
        (Phase::React, "reacts"),
        (Phase::Update, "updates"),
        (Phase::React, "reacts"),
        (Phase::Update, "updates"),
    ] {
        let received = received.clone();
        opened.subscribe(phase, move |_| received.lock().unwrap().push(name));
    }
    let store = opened.start().unwrap();
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    assert_eq!(
        *received.lock().unwrap(),
        ["updates", "updates", "reacts", "reacts"]
    );
}
