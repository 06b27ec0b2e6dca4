//! Reads: caches, lists, and scans beside small reads.

use super::*;

#[test]
fn cache_entries_go_with_dependencies() {
    let opened = stores::of(KINDS).open_in_memory();
    let cache: Cache<Vec<String>> = Cache::following(&opened, |kind| kind == Task::KIND, 2);
    let store = opened.start().unwrap();
    insert(&store, vec![task("a"), task("b")]);
    let make = |store: &Store| {
        store.read(|tx| {
            let lookup = DependencyRecorder::new(tx);
            let ids = lookup.ids(Task::KIND, "roles", "x")?;
            lookup.find::<Task>(&Id::from_text("a"))?;
            Ok((Arc::new(ids), lookup.dependencies().unwrap()))
        })
    };
    let cache_again = || {
        let at = cache.now();
        let (ids, dependencies) = make(&store).unwrap();
        cache.insert("x", ids, dependencies, at);
    };
    let change = |id: &str, role: Option<&str>, weight| {
        let mut changed = task(id);
        changed.spec.roles.extend(role.map(str::to_owned));
        changed.spec.weight = weight;
        store.write_blocking(move |tx| tx.put(changed)).unwrap();
    };
    cache_again();
    assert_eq!(cache.find("x").as_deref(), Some(&Vec::new()));
    change("b", None, 1);
    change("b", Some("y"), 2);
    assert!(
        cache.find("x").is_some(),
        "the entry depends on neither change"
    );
    change("b", Some("x"), 2);
    assert!(
        cache.find("x").is_none(),
        "another record has the value now"
    );
    cache_again();
    assert_eq!(cache.find("x").as_deref(), Some(&vec!["b".to_owned()]));
    change("a", None, 1);
    assert!(cache.find("x").is_none(), "the record has changed");

    // An entry that was computed before a change and is stored after it is outdated.
    let at = cache.now();
    let (ids, dependencies) = make(&store).unwrap();
    change("a", None, 2);
    cache.insert("x", ids, dependencies, at);
    assert!(cache.find("x").is_none());
    assert!(
        store
            .read(|tx| {
                let lookup = DependencyRecorder::new(tx);
                lookup.now();
                Ok(lookup.dependencies())
            })
            .unwrap()
            .is_none(),
        "an entry that depends on the time is not cached"
    );
}

#[tokio::test]
async fn small_reads_do_not_wait() {
    let tasks: Vec<Record<Task>> = (0..1_100).map(|n| task(&format!("{n:04}"))).collect();
    let store = stores::of(KINDS)
        .with(Options {
            scans: 1,
            ..Options::default()
        })
        .in_memory();
    store
        .write(move |tx| tasks.into_iter().try_for_each(|task| tx.insert(task)))
        .await
        .unwrap();
    let all = |tx: &Read<'_>| {
        let mut count = 0;
        tx.each::<Task>(|_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    };
    let (go, held) = channel::<()>();
    let (events_heard, begun) = tokio::sync::oneshot::channel();
    let long = store.clone();
    let first = tokio::spawn(async move {
        long.scan(move |tx| {
            let count = all(tx)?;
            events_heard.send(()).unwrap();
            held.recv().unwrap();
            Ok(count)
        })
        .await
    });
    begun.await.unwrap();
    assert!(
        store
            .scan(|tx| tx.get(&Id::<Task>::from_text("0001")))
            .await
            .is_ok()
    );
    let mut second = Box::pin(store.scan(all));
    let write = |tx: &Tx<'_>| (0..1_100).try_for_each(|n| tx.insert(task(&format!("new {n}"))));
    let mut third = Box::pin(store.dry_run(write, move |tx, _, ()| all(tx)));
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut second)
            .await
            .is_err(),
        "two scans ran at a time"
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut third)
            .await
            .is_err(),
        "a dry run counts as a scan"
    );
    go.send(()).unwrap();
    assert_eq!(
        (first.await.unwrap(), second.await, third.await),
        (Ok(1_100), Ok(1_100), Ok(1_100))
    );
}

#[tokio::test]
async fn long_reads_change_the_thread() {
    let store = stores::of(KINDS).in_memory();
    store
        .write(|tx| (0..300).try_for_each(|n| tx.insert(task(&format!("{n:04}")))))
        .await
        .unwrap();
    let here = std::thread::current().id();
    let read = |count: usize| {
        // This work hides the errors of its reads.
        let is_there =
            |tx: &Read<'_>, n: &usize| tx.get(&Id::<Task>::from_text(format!("{n:04}"))).is_ok();
        store.ask(move |tx| {
            Ok((
                std::thread::current().id(),
                (0..count).filter(|n| is_there(tx, n)).count(),
            ))
        })
    };
    assert_eq!(read(100).await, Ok((here, 100)));
    let (thread, found) = read(300).await.unwrap();
    assert!(thread != here && found == 300, "{found}");
    let counted = |tx: &Read<'_>| {
        let mut count = 0;
        tx.each::<Task>(|_| {
            count += 1;
            Ok(())
        })?;
        Ok((std::thread::current().id(), count))
    };
    let (thread, count) = store.ask(counted).await.unwrap();
    assert!(thread != here && count == 300, "{count}");
}

#[tokio::test]
async fn surplus_scans_are_refused_first() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store
        .write(|tx| (0..1_100).try_for_each(|n| tx.insert(task(&format!("{n:04}")))))
        .await
        .unwrap();
    store
        .write(|tx| (0..900).try_for_each(|n| tx.insert(team(&format!("{n:04}")))))
        .await
        .unwrap();
    store.close();
    damage(&directory, &["0000"]);
    let options = Options {
        scans: 1,
        scan_queue: 0,
        ..Options::default()
    };
    let store = stores::of(KINDS)
        .with(options)
        .start(&directory.path().join("data"));
    let list = |text: &str| {
        let query = Query::parse(text, FilterNames::<Task>::ALL).unwrap();
        store.scan(move |tx| list_of::<Task>(query).page(tx).map(|page| page.total))
    };
    let reading = "weight = 0";
    let found = list(reading).await;
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    let (go, held) = channel::<()>();
    let (events_heard, begun) = tokio::sync::oneshot::channel();
    let long = store.clone();
    let first = tokio::spawn(async move {
        long.scan(move |tx| {
            tx.each_readable::<Task>(|_| Ok(()))?;
            events_heard.send(()).unwrap();
            held.recv().unwrap();
            Ok(())
        })
        .await
    });
    begun.await.unwrap();
    for text in [
        reading,
        "weight = 0 sort by weight",
        "label contains \"task\"",
    ] {
        assert!(
            matches!(list(text).await, Err(Error::Busy { .. })),
            "{text}"
        );
    }
    assert_eq!(
        list("id = \"0001\"").await,
        Ok(1),
        "a read of few records is not limited"
    );
    for text in ["name contains \"0\"", "id contains \"0\""] {
        let query = Query::parse(text, FilterNames::<Team>::ALL).unwrap();
        let few = store.scan(move |tx| list_of::<Team>(query).page(tx).map(|page| page.total));
        assert!(
            few.await.is_ok_and(|total| total > 0),
            "{text}: nor is a read of all records of a small kind"
        );
    }
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
}

/// The plan of a list of all records of a kind.
fn list_of<E: Entity>(query: Query) -> ListPlan<E> {
    let window = Window::new(&query, None, None);
    ListPlan::of(query, window, Scope::All)
}

#[test]
fn indexed_filters_do_not_scan() {
    let plan = |text: &str| {
        list_of::<Task>(Query::parse(text, FilterNames::<Task>::ALL).unwrap()).candidates()
    };
    assert_eq!(plan("name = \"x\""), Candidates::Field("name"));
    assert_eq!(
        plan("anyOf(roles) = \"x\" and name in [\"x\", \"y\"]"),
        Candidates::Field("name")
    );
    assert_eq!(
        plan("anyOf(roles) = \"x\" or anyOf(roles) = \"y\""),
        Candidates::Field("roles")
    );
    assert_eq!(plan("name = \"x\" and id = \"y\""), Candidates::Id);
    assert_eq!(
        plan("name = \"\""),
        Candidates::Scope,
        "blank names are not indexed"
    );
    assert_eq!(plan("name != \"x\""), Candidates::Scope);
    assert_eq!(plan("weight = 3"), Candidates::Scope);
    assert_eq!(plan("name = \"x\" or weight = 3"), Candidates::Scope);

    // Records that are not read are irrelevant: every other record here is damaged.
    let directory = TempDir::new().unwrap();
    open(&directory)
        .write_blocking(|tx| {
            ["a", "b", "c"]
                .into_iter()
                .try_for_each(|id| tx.insert(task(id)))
        })
        .unwrap();
    damage(&directory, &["a", "c"]);
    let store = open(&directory);
    let list = |text: &str| {
        let query = Query::parse(text, FilterNames::<Task>::ALL).unwrap();
        store
            .read(|tx| list_of::<Task>(query).page(tx))
            .map(|page| page.total)
    };
    assert_eq!(list("name = \"task b\" and weight = 0"), Ok(1));
    assert_eq!(list("id = \"b\""), Ok(1));
    assert_eq!(
        list("label contains \"task\" sort by label skip 9"),
        Ok(3),
        "records outside of the page are not read"
    );
    assert!(list("weight = 0").is_err());
}

#[tokio::test]
async fn a_scan_nobody_waits_for_stops() {
    let store = with_tasks((0..100).map(|n| task(&format!("{n:03}"))).collect());
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let slow = store.scan(move |tx| {
        tx.each::<Task>(|_| {
            counter.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        })
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(25), slow)
            .await
            .is_err()
    );
    assert_eq!(store.scan(|tx| tx.count::<Task>()).await, Ok(100));
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(seen.load(SeqCst) < 50);
}
