//! Dry runs, which tell what a change would do.

use super::*;

#[tokio::test]
async fn dry_runs_tell_only_their_caller() {
    let disk = Faulty::default();
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let listener = received.clone();
    opened.subscribe(Phase::Update, move |_| _ = listener.fetch_add(1, SeqCst));
    let store = opened.start().unwrap();
    store.write(|tx| tx.insert(task("there"))).await.unwrap();
    received.store(0, SeqCst);
    let syncs = disk.syncs();
    let in_dry_run = store.dry_run(
        |tx| {
            tx.insert(task("new"))?;
            tx.delete(&Id::<Task>::from_text("there"))
        },
        |read, events, ()| {
            assert_eq!(
                read.count::<Task>()?,
                1,
                "`read` does not see the changes of the dry run"
            );
            Ok(events
                .into_iter()
                .map(|event| (event.id, event.new.is_some()))
                .collect::<Vec<_>>())
        },
    );
    assert_eq!(
        in_dry_run.await.unwrap(),
        [("new".to_owned(), true), ("there".to_owned(), false)]
    );
    let refused = store.dry_run(
        |tx| tx.insert(task("there")),
        |_, _, ()| -> Result<()> { panic!("the job failed") },
    );
    assert!(matches!(refused.await, Err(Error::Duplicate { .. })));
    assert!(
        !disk.unsynced() && disk.syncs() == syncs,
        "a dry run wrote something"
    );
    assert_eq!(received.load(SeqCst), 0);
    assert_eq!(all_ids(&store), ["there"]);
}

#[tokio::test]
async fn no_write_waits_for_dry_runs() {
    let store = fresh();
    let writing = store.clone();
    let beside = move |tx: &Tx<'_>| {
        tx.insert(task("tried"))?;
        let (done, written) = channel();
        let writing = writing.clone();
        std::thread::spawn(move || {
            done.send(writing.write_blocking(|tx| tx.insert(task("written"))))
        });
        written
            .recv_timeout(Duration::from_secs(60))
            .expect("the write waits for the dry run")?;
        assert_eq!(tx.read().count::<Task>()?, 1, "a dry run reads a snapshot");
        Ok(())
    };
    store.dry_run(beside, |_, _, ()| Ok(())).await.unwrap();
    assert_eq!(all_ids(&store), ["written"]);
}

/// Applies a random change, which may fail, to one of a few tasks. Returns everything that can be
/// read afterwards.
fn step(tx: &Tx<'_>, rng: &mut Rng) -> String {
    let id = |rng: &mut Rng| rng.below(12).to_string();
    let mut one = task(&id(rng));
    one.spec.weight = rng.below(4) as i64;
    one.spec.name = format!("task {}", rng.below(12));
    one.spec.roles.extend(
        ["x", "y"]
            .into_iter()
            .filter(|_| rng.below(2) == 0)
            .map(str::to_owned),
    );
    one.spec.parent = (rng.below(3) == 0).then(|| Id::from_text(id(rng)));
    one.spec.after = (0..rng.below(3)).map(|_| Id::from_text(id(rng))).collect();
    let done = match rng.below(3) {
        0 => tx.insert(one),
        1 => tx.put(one),
        _ => tx.delete(&one.id),
    };
    let listed = |query: &str, limit| {
        let query = Query::parse(query, FilterNames::<Task>::ALL).unwrap();
        let page = ListPlan::<Task>::of(query, Window { limit, offset: 0 }, Scope::All)
            .page(tx.read())
            .unwrap();
        (page.total, page.records)
    };
    let (mut newest, forth) = (Vec::new(), tx.read().history_after(0, usize::MAX).unwrap());
    let see = &mut |row: HistoryRow| {
        newest.push(row.sequence);
        Ok(())
    };
    tx.read()
        .history_back(HistoryClass::Changes, &[Task::KIND.name], 0, see)
        .unwrap();
    let forth: Vec<_> = forth
        .into_iter()
        .map(|row| (row.sequence, row.id, row.name))
        .collect();
    let ids = |field, value| tx.ids(Task::KIND, field, value).unwrap();
    let by = [
        listed("true", None),
        listed("true sort by name desc", Some(3)),
        listed("true sort by label", Some(3)),
    ];
    let index = [ids("roles", "x"), ids("parent", "3"), ids("after", "3")];
    format!(
        "{done:?} {by:?} {index:?} {:?} {:?} {newest:?} {forth:?}",
        tx.read().count::<Task>(),
        tx.read().history_end()
    )
}

#[tokio::test]
async fn dry_runs_equal_the_change() {
    let options = Options {
        clock: Clock::manual(Timestamp::from_millis(5_000)),
        ..Options::default()
    };
    let opened = stores::of(KINDS).with(options).open_in_memory();
    let events_heard = |events: &[Event]| {
        events
            .iter()
            .map(|event| format!("{:?}", event.of::<Task>()))
            .collect::<Vec<_>>()
    };
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        sink.lock().unwrap().extend(events_heard(events))
    });
    let store = opened.start().unwrap();
    let job = |seed: u64| {
        move |tx: &Tx<'_>| {
            let mut rng = Rng::new(seed);
            Ok((0..20).map(|_| step(tx, &mut rng)).collect::<Vec<_>>())
        }
    };
    for seed in 0..40 {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = seen.clone();
        let in_dry_run =
            move |tx: &Tx<'_>| job(seed)(tx).map(|steps| *recorder.lock().unwrap() = steps);
        let predicted = store
            .dry_run(in_dry_run, move |_, events, ()| Ok(events_heard(&events)))
            .await
            .unwrap();
        let actual = store.write(job(seed)).await.unwrap();
        for (step, (predicted_step, seen)) in seen.lock().unwrap().iter().zip(&actual).enumerate() {
            assert_eq!(predicted_step, seen, "seed {seed}, step {step}");
        }
        assert_eq!(
            received.lock().unwrap().drain(..).collect::<Vec<_>>(),
            predicted,
            "seed {seed}"
        );
    }
    assert_index_consistent(&store);
}
