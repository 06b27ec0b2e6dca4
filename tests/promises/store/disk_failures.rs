//! What writers are told while the disk or the queue fails.

use super::*;

#[test]
fn disk_failure_is_told_truthfully() {
    let disk = Faulty::default();
    let options = Options {
        retry: Duration::from_millis(10),
        ..Options::default()
    };
    let opened = stores::of(KINDS).with(options).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let counter = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        counter.fetch_add(events.len(), SeqCst);
    });
    let store = opened.start().unwrap();
    store
        .write_blocking(|tx| tx.insert(task("before")))
        .unwrap();
    received.store(0, SeqCst);
    disk.start_failing();
    let jobs: Vec<Job<()>> = vec![
        Box::new(|tx| tx.insert(task("one"))),
        Box::new(|tx| tx.insert(task("before"))),
        Box::new(|tx| tx.insert(task("two"))),
    ];
    assert!(store.is_alive());
    for answer in in_one_group(&store, jobs) {
        assert!(matches!(answer, Err(Error::Storage(_))), "{answer:?}");
    }
    assert!(!store.is_alive());
    assert!(matches!(
        store.write_blocking(|_| Ok(())),
        Err(Error::Storage(_))
    ));
    assert_eq!(all_ids(&store), ["before"]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!store.is_alive(), "the disk still fails");
    assert_eq!(received.load(SeqCst), 0, "nothing was committed");

    disk.stop_failing();
    let begin = Instant::now();
    while !store.is_alive() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "the store does not recover"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        all_ids(&store),
        ["before"],
        "a rejected write appeared later"
    );
    store.write_blocking(|tx| tx.insert(task("after"))).unwrap();
    assert_eq!(
        (all_ids(&store), received.load(SeqCst)),
        (vec!["after".to_owned(), "before".to_owned()], 1)
    );
}

#[test]
fn late_failure_keeps_the_commit() {
    let disk = SimulatedDisk::holding(Vec::new(), 0);
    let opened = stores::of(KINDS).open_on(disk.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let counter = received.clone();
    opened.subscribe(Phase::Update, move |events| {
        counter.fetch_add(events.len(), SeqCst);
    });
    let store = opened.start().unwrap();
    store
        .write_blocking(|tx| tx.set_setting("large", Some(&vec![1; 6 << 20])))
        .unwrap();
    store
        .write_blocking(|tx| tx.set_setting("large", None))
        .unwrap();
    // The file should shrink, and the operation fails.
    disk.fault(DiskFault::Lengths);
    let mut written = Vec::new();
    while disk.failed() == 0 {
        let id = format!("{:02}", written.len());
        let record = task(&id);
        store.write_blocking(|tx| tx.insert(record)).unwrap();
        written.push(id);
        assert!(written.len() < 50, "the file does not shrink");
    }
    assert_eq!(
        (all_ids(&store), received.load(SeqCst)),
        (written.clone(), written.len())
    );
    store.close();
    let reopened = stores::of(KINDS).start_on(disk.after_power_loss());
    assert_eq!(all_ids(&reopened), written);
}

#[test]
fn full_queue_refuses_writers() {
    let store = stores::of(KINDS)
        .with(Options {
            queue: 1,
            ..Options::default()
        })
        .in_memory();
    let jobs: Vec<Job<()>> = vec![Box::new(|_| Ok(())), Box::new(|_| Ok(()))];
    let answers = in_one_group(&store, jobs);
    assert_eq!(answers, [Ok(()), Err(Error::Busy { retry_after: 1 })]);
    store.close();
    assert!(!store.is_alive());
    assert!(matches!(
        store.write_blocking(|_| Ok(())),
        Err(Error::Storage(_))
    ));
    assert!(matches!(
        store.read(|tx| tx.count::<Task>()),
        Err(Error::Storage(_))
    ));
}
