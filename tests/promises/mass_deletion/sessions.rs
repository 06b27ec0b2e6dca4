//! Many sessions that end together.

use super::*;

fn settings(config: &mut Config) {
    config.sessions.per_identity = MANY;
    config.passwords.cost = 10;
    config.http.workers = 2;
}

/// Starts a controller on an existing file.
fn restart(data: &Path) -> (Controller, Caller) {
    let mut config = Config {
        data: data.into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    settings(&mut config);
    let running = controller::start(&config, Clock::system()).unwrap();
    let caller = trusting(&format!("https://{}", running.bound()));
    (running, caller)
}

#[test]
fn many_sessions_end_at_once() {
    let server = TestServer::with(Clock::system(), settings);
    let password = server.password.clone();
    let [ann, bob, cyd] =
        ["anna", "bobby", "cydonia"].map(|name| Holder::with_password(&server, name));
    let dan = Holder::known_by_claim(&server, "danny");
    let eve = Holder::known_by_claim(&server, "evelyn");
    let fay = Holder::with_password(&server, "fayette");
    let all = [&ann, &bob, &cyd, &dan, &eve];
    let directory = server.closed();
    let data = directory.path().join("data");
    let store = stores::of(KINDS).start(&data);
    all.iter()
        .chain([&&fay])
        .for_each(|holder| holder.open(&store));
    // The controller stops right after it acknowledged the deletion.
    let gone = Id::<Identity>::from_text(fay.id.as_str());
    store.write_blocking(move |tx| tx.delete(&gone)).unwrap();
    store.close();
    assert_eq!(
        left(&data),
        (6 * MANY as u64 + 1, 6 * MANY as u64, 6 * MANY as u64),
        "ended records that are not deleted yet are no damage"
    );

    let (running, anonymous) = restart(&data);
    let admin = anonymous.log_in("admin", &password);
    fay.assert_over(&admin);
    for caller in all.iter().flat_map(|holder| holder.callers(&admin)) {
        caller.get("/current-api-session").expect(200);
    }
    let enter = |name: &str| {
        anonymous.post(
            "/authenticate?method=password",
            json!({ "username": name, "password": PASSWORD }),
        )
    };
    enter("anna").refused(429, "SERVER_TOO_MANY_REQUESTS", "");
    admin
        .post(
            &format!("/identities/{}/disable", ann.id),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    admin.delete(&format!("/identities/{}", bob.id)).expect(200);
    admin
        .delete(&format!("/authenticators/{}", cyd.authenticator))
        .expect(200);
    admin
        .delete(&format!("/cas/{}", dan.ca.as_ref().unwrap()))
        .expect(200);
    // An authority that is only disabled for log-ins ends no sessions.
    let authority = format!("/cas/{}", eve.ca.as_ref().unwrap());
    admin
        .patch(&authority, json!({ "isAuthEnabled": false }))
        .expect(200);
    eve.callers(&admin)
        .iter()
        .for_each(|caller| _ = caller.get("/current-api-session").expect(200));
    admin.delete(&authority).expect(200);
    all.iter().for_each(|holder| holder.assert_over(&admin));
    for holder in [&ann, &cyd, &dan, &eve] {
        let shown = admin.get(&format!("/identities/{}", holder.id)).expect(200);
        assert_eq!(shown.data()["hasApiSession"], false);
    }
    // A new log-in succeeds although the ended sessions are still in the file.
    admin
        .post(&format!("/identities/{}/enable", ann.id), json!({}))
        .expect(200);
    let back = anonymous.at(Base::Client).log_in("anna", PASSWORD);
    back.get("/current-api-session").expect(200);
    ann.callers(&admin).iter().for_each(|caller| {
        _ = caller
            .get("/current-api-session")
            .refused(401, "UNAUTHORIZED", "")
    });
    running.run_due_jobs();
    back.get("/current-api-session").expect(200);
    assert_eq!(
        admin
            .list("/api-sessions", &format!("identity = \"{}\"", ann.id), "")
            .expect(200)
            .total(),
        1
    );
    let filter = format!(
        "action = \"logout\" and by.identity = \"{}\"",
        admin.get("/current-identity").expect(200).id()
    );
    let logouts = admin
        .list("/overkeep/v1/history", &filter, "&limit=1")
        .expect(200)
        .total();
    assert_eq!(logouts, 5 * MANY as u64, "the history says who ended each");
    drop(running);
    // Two sessions of the administrator and one of Ann.
    assert_eq!(left(&data), (3, 0, 0));
}

/// A store with Ann and very many sessions of hers, and its directory.
fn with_ann() -> (TempDir, Store) {
    let directory = TempDir::new().unwrap();
    let opened = stores::of(KINDS).open(&directory.path().join("data"));
    (directory, filled_with_ann(opened))
}

fn filled_with_ann(opened: OpenStore) -> Store {
    let store = opened.start().unwrap();
    store
        .write_blocking(|tx| {
            tx.insert(builtin::auth_policy(Timestamp::from_millis(0)))?;
            tx.insert(Record::new(
                Id::from_text("ann"),
                Timestamp::from_millis(0),
                Identity::named("ann"),
            ))
        })
        .unwrap();
    Holder {
        id: "ann".into(),
        authenticator: "internal".into(),
        ca: None,
    }
    .open(&store);
    store
}

#[test]
fn renewal_ends_many_session_certificates() {
    let (_directory, store) = with_ann();
    let found = |store: &Store| {
        store
            .read(|tx| {
                Ok(tx
                    .linked::<SessionCertificate>("fingerprint", &SHOWN.1)?
                    .len())
            })
            .unwrap()
    };
    assert_eq!(found(&store), MANY);
    let left = store
        .write_blocking(|tx| tx.few_or_tombstone::<SessionCertificate>("fingerprint", &SHOWN.1))
        .unwrap();
    assert_eq!(left.len(), 0, "they are too many for one transaction");
    let count = |tx: &Read<'_>| Ok((tx.count::<SessionCertificate>()?, tx.count::<ApiSession>()?));
    assert_eq!(
        (found(&store), store.read(count).unwrap().0),
        (0, MANY as u64),
        "the transaction does not wait for the deletion"
    );
    clear(&store, 7);
    assert_eq!(
        store.read(count).unwrap(),
        (0, MANY as u64),
        "the sessions go on"
    );
    // Sessions opened between an end and the deletion stay, also with two ends before it.
    let reopen = |n: usize| {
        let open = move |tx: &Tx<'_>| {
            let mut opened = Record::new(
                Id::from_text(format!("new-{n}")),
                Timestamp::from_millis(0),
                session("ann", "internal", MANY + n),
            );
            opened.state.epoch = tx.read().epoch()?;
            tx.insert(opened)
        };
        store.write_blocking(open).unwrap();
    };
    let of_ann = |store: &Store| {
        let few = store
            .write_blocking(|tx| tx.few_or_tombstone::<ApiSession>("identity", "ann"))
            .unwrap();
        few.into_iter()
            .map(|one| one.id.into_text())
            .collect::<Vec<_>>()
    };
    for n in 0..2 {
        assert_eq!(of_ann(&store), [""; 0]);
        reopen(n);
        let standing = store
            .read(|tx| tx.linked::<ApiSession>("identity", "ann"))
            .unwrap();
        assert_eq!(
            standing
                .iter()
                .map(|one| one.id.as_str())
                .collect::<Vec<_>>(),
            [format!("new-{n}")]
        );
    }
    // A deletion in between must not delete the rest of the others a second time.
    assert!(store.remove_deleted(MANY).unwrap());
    let half = store.read(count).unwrap().1;
    assert!((2..200).contains(&half), "{half}");
    assert_eq!(of_ann(&store), ["new-1"]);
    clear(&store, 50);
    assert_eq!(store.read(count).unwrap(), (0, 1));
    assert_eq!(of_ann(&store), ["new-1"], "one is not many");
}

/// A lookup that counts the lists of sessions read.
struct Counted<'f> {
    lookup: &'f dyn Lookup,
    lists: Cell<usize>,
}

impl Lookup for Counted<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.lookup.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.lists
            .set(self.lists.get() + usize::from(kind == ApiSession::KIND));
        self.lookup.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        self.lookup.any(kind, field, value)
    }
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.lookup.ended_before(kind, field, value)
    }
    fn any_tombstone(&self) -> Result<bool> {
        self.lookup.any_tombstone()
    }
    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        self.lookup.router_info(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        self.lookup.is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.lookup.dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        self.lookup.now()
    }
}

#[test]
fn cached_identity_ends_with_sessions() {
    let directory = TempDir::new().unwrap();
    let opened = stores::of(KINDS).open(&directory.path().join("data"));
    let cache = Cache::<serde_json::Value>::following(&opened, |_| true, 10);
    let store = filled_with_ann(opened);
    let cached_view = || {
        let at = cache.now();
        let made = store.read(|tx| {
            let counted = Counted {
                lookup: tx,
                lists: Cell::default(),
            };
            let recorder = DependencyRecorder::new(&counted);
            let ann = recorder.get(&Id::<Identity>::from_text("ann"))?;
            let shown = serde_json::to_value(Identity::view(&ann, &recorder)?).unwrap();
            cache.insert("ann", Arc::new(shown), recorder.dependencies().unwrap(), at);
            Ok(counted.lists.get())
        });
        (
            made.unwrap(),
            cache.find("ann").unwrap()["hasApiSession"].clone(),
        )
    };
    assert_eq!(cached_view(), (0, json!(true)));
    assert!(
        store
            .write_blocking(|tx| tx.few_or_tombstone::<ApiSession>("identity", "ann"))
            .unwrap()
            .is_empty()
    );
    assert!(
        cache.find("ann").is_none(),
        "the cached view showed sessions that have ended"
    );
    assert_eq!(cached_view().1, json!(false));
    clear(&store, 50);
    assert_eq!(cached_view(), (0, json!(false)));
}

#[test]
fn sessions_from_before_endings_are_read() {
    // Version 2 lacked the epoch at the end, which is a zero in one byte.
    let state = State {
        passed_at: Some(Timestamp::from_millis(3)),
        ..State::default()
    };
    let mut opened = Record::new(
        Id::from_text("s"),
        Timestamp::from_millis(1),
        session("ann", "internal", 0),
    );
    opened.state = state;
    let now = encode(&opened).unwrap();
    let mut before = now.clone();
    assert_eq!((before[0], before.pop()), (3, Some(0)));
    before[0] = 2;
    let mut sum = crc32fast::Hasher::new();
    [b"s".as_slice(), &[2], &before[5..]]
        .iter()
        .for_each(|part| sum.update(part));
    before[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
    let read = decode::<ApiSession>("s", &before).unwrap();
    assert_eq!(
        (read.state.passed_at, encode(&read).unwrap()),
        (opened.state.passed_at, now)
    );
}

#[test]
fn idle_sessions_are_found_directly() {
    const HOUR: Duration = Duration::from_secs(3600);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("data");
    let store = stores::of(KINDS).start(&file);
    let clock = Clock::manual(Timestamp::from_millis(10 * 3_600_000));
    let now = clock.now();
    store
        .write_blocking(move |tx| {
            tx.insert(builtin::auth_policy(now))?;
            tx.insert(Record::new(
                Id::from_text("ann"),
                now,
                Identity::named("ann"),
            ))?;
            for (n, idle) in [30, 0].into_iter().enumerate() {
                let mut opened = session("ann", "internal", n);
                opened.last_activity_at = now.plus_minutes(-idle);
                tx.insert(Record::new(Id::from_text(n.to_string()), now, opened))?;
            }
            Ok(())
        })
        .unwrap();
    let settings = config::SessionConfig {
        timeout: Span::minutes(60),
        per_identity: 10,
        ..Config::default().sessions
    };
    store.close();
    drop(store);
    let opened = stores::of(KINDS).open(&file);
    let sessions = Sessions::following(&opened, clock.clone(), &settings).unwrap();
    let store = opened.start().unwrap();
    let over = || {
        let mut ids: Vec<String> = sessions.over().into_iter().map(Id::into_text).collect();
        ids.sort();
        ids
    };
    let use_one = |n: usize| {
        assert!(
            sessions
                .resolve(&store, &token("ann", n), clock.now())
                .unwrap()
                .is_some()
        )
    };
    // A clock that is set forward or back does not count as idling.
    for days in [-300, 300] {
        clock.set(now.plus_minutes(days * 24 * 60));
        assert_eq!(over(), [""; 0]);
    }
    clock.advance(HOUR / 2);
    assert_eq!(over(), [""; 0], "an hour is not over before its end");
    clock.advance(Duration::from_secs(1));
    assert_eq!(over(), ["0"], "the hour began before this process did");
    assert_eq!(over(), ["0"], "it is reported until it is deleted");
    store
        .write_blocking(|tx| tx.delete(&Id::<ApiSession>::from_text("0")))
        .unwrap();
    use_one(1);
    clock.advance(HOUR);
    assert_eq!(over(), [""; 0]);
    let mut opened = session("ann", "internal", 2);
    opened.last_activity_at = now.plus_minutes(-600);
    store
        .write_blocking(move |tx| tx.insert(Record::new(Id::from_text("2"), now, opened)))
        .unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(over(), ["1"], "the timeout of the other has only begun");
    clock.advance(HOUR);
    assert_eq!(over(), ["1", "2"]);
}
