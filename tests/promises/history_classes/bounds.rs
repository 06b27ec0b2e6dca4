//! The bounds of the classes, and both as one history.

use super::*;

#[test]
fn classes_have_bounds_of_their_own() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.history.sessions_max_age = Some(Span::minutes(60));
    });
    server.user("anna", json!({}));
    let log_ins = || told(&server, "action = \"login\" and by.name = \"anna\"").len();
    assert_eq!(log_ins(), 1);
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    server.run_due_jobs();
    let admin = server
        .anonymous()
        .log_in("admin", &server.password)
        .at(Base::Overkeep);
    let left = admin
        .list("/history", "action = \"login\" and by.name = \"anna\"", "")
        .expect(200);
    assert_eq!(left.total(), 0);
    let first = admin.get("/history?sort=sequence&limit=1").expect(200);
    assert_eq!(first.data()[0]["sequence"], 1, "changes stay");
    assert!(
        Config::default().history.sessions_max_mib.is_none(),
        "the bounds of changes hold for both unless others are set"
    );
}

#[test]
fn verify_says_how_far_back() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.history.max_age = Span::minutes(60);
        config.metrics.listen = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let path = socket::beside(&server.data());
    let lines = || match socket::ask(
        &path,
        &Command::VerifyHistory { noted: None },
        &mut |_, _| (),
    )
    .unwrap()
    .unwrap()
    {
        Outcome::Done(lines) => lines,
        other => panic!("{other:?}"),
    };
    let gauge = |kind: &str| {
        metrics::value(
            &metrics::text(&server),
            &format!("overkeep_history_from_timestamp_seconds{{kind=\"{kind}\"}}"),
        )
    };
    let before = lines();
    assert!(
        before[0].starts_with("nothing is wrong with ") && before.len() == 3,
        "{before:?}"
    );
    assert!(
        before[1].starts_with("changes reach back to row 1 of ")
            && before[1].contains("nothing was dropped"),
        "{before:?}"
    );
    assert!(
        before[2].starts_with("log-ins, rejections and connections reach back to row "),
        "{before:?}"
    );
    assert_eq!(
        (gauge("changes"), gauge("sessions")),
        (Some(0.0), Some(0.0))
    );
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    let admin = server
        .anonymous()
        .log_in("admin", &server.password)
        .at(Base::Management);
    admin
        .post(
            "/services",
            json!({ "name": "late", "encryptionRequired": true }),
        )
        .expect(201);
    server.run_due_jobs();
    let after = lines();
    let at = server.clock.now();
    assert!(
        after[1].contains(&format!("of {at}; older rows were dropped")),
        "{after:?}"
    );
    assert_eq!(
        (gauge("changes"), gauge("sessions")),
        (Some(at.seconds() as f64), Some(at.seconds() as f64))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn both_classes_are_one_history(steps in prop::collection::vec(0..3_usize, 1..40), dropped in 0..40_u64, limit in 1..20_i64, offset in 0..60_i64) {
        let directory = TempDir::new().unwrap();
        let (store, clock) = world(&directory);
        for (n, step) in steps.iter().enumerate() {
            if *step == 0 { change(&store, &format!("service-{n}")) } else { visits(&store, 10 * n..10 * n + step) }
            clock.advance(Duration::from_secs(61));
        }
        let whole = rows(&store);
        prop_assert!(whole.iter().zip(1..).all(|(row, sequence)| row.sequence == sequence), "each row has the next sequence");
        let class = if dropped % 2 == 0 { HistoryClass::Sessions } else { HistoryClass::Changes };
        let cut = whole.get(dropped as usize).map_or(NOW, |row| row.at);
        store.trim_history(class, Retention { since: cut, ..everything() }).unwrap();
        prop_assert_eq!(store.verify_history(None).unwrap().faults, [""; 0]);
        let left: Vec<u64> = rows(&store).into_iter().map(|row| row.sequence).collect();
        prop_assert!(left.is_sorted());
        for after in [0, 5, 30] {
            let page: Vec<u64> = store.read(|tx| tx.history_after(after, usize::MAX)).unwrap().into_iter().map(|row| row.sequence).collect();
            prop_assert_eq!(page, left.iter().copied().filter(|sequence| *sequence > after).collect::<Vec<_>>());
        }
        for (text, descending) in [("", true), ("", false), ("sequence > 3", true), ("sequence > 3", false)] {
            let query = Query::parse(text, &HistoryWords).unwrap();
            let (page, total) = store.read(|tx| tx.history(&query, descending, Window::new(&query, Some(limit), Some(offset)))).unwrap();
            let mut expected: Vec<u64> = left.iter().copied().filter(|sequence| text.is_empty() || *sequence > 3).collect();
            prop_assert_eq!(total, expected.len() as u64);
            if descending { expected.reverse() }
            let expected: Vec<u64> = expected.into_iter().skip(offset as usize).take(limit as usize).collect();
            prop_assert_eq!(page.into_iter().map(|row| row.sequence).collect::<Vec<_>>(), expected);
        }
    }
}
