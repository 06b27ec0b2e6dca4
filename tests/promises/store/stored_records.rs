//! The bytes of records: damage, versions, and any bytes.

use super::*;

#[test]
fn damaged_record_error_names_it() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    open(&directory)
        .write_blocking(|tx| tx.insert(task("a")).and_then(|()| tx.insert(task("b"))))
        .unwrap();
    let whole = {
        let database = Database::open(&path).unwrap();
        let table = database.begin_read().unwrap().open_table(RECORDS).unwrap();
        table
            .get(b"b".as_slice())
            .unwrap()
            .unwrap()
            .value()
            .to_vec()
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(
            matches!(decode::<Task>("b", &bytes), Err(Error::Damaged { kind: "task", id, .. }) if id == "b"),
            "byte {at}"
        );
        assert!(decode::<Task>("b", &whole[..at]).is_err());
    }
    assert!(
        decode::<Task>("a", &whole).is_err(),
        "the bytes belong to another id"
    );
    {
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(RECORDS)
            .unwrap()
            .insert(b"b".as_slice(), &whole[..whole.len() - 1])
            .unwrap();
        transaction.commit().unwrap();
    }
    let store = open(&directory);
    assert!(!store.is_new());
    assert!(store.read(|tx| tx.get(&Id::<Task>::from_text("a"))).is_ok());
    let damaged =
        |result: Result<()>| assert!(matches!(result, Err(Error::Damaged { id, .. }) if id == "b"));
    damaged(store.read(|tx| tx.get(&Id::<Task>::from_text("b")).map(drop)));
    damaged(store.read(|tx| tx.each::<Task>(|_| Ok(()))));
    damaged(store.write_blocking(|tx| tx.put(task("b"))));
}

/// A former version of `Team`.
#[derive(Serialize, Deserialize, Clone)]
struct OldTeam {
    number: u16,
}

/// The current version of `Team`, under the same kind name.
#[derive(Serialize, Deserialize, Clone)]
struct NewTeam {
    name: String,
}

macro_rules! team_of_version {
    ($name:ident, $version:literal, $upgrade:item) => {
        impl Stateful for $name {
            type State = ();
        }

        impl Entity for $name {
            const KIND: Kind = Kind { name: "team", path: "teams", noun: "team" };
            const FIELDS: &'static [Field<Self>] = &[];
            const VERSION: u8 = $version;
            const ENCODING: SpecEncoding = if $version == 1 { SpecEncoding::Binary } else { SpecEncoding::Text };
            type View = ();
            fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
                Ok(())
            }
            $upgrade
        }
    };
}
team_of_version!(OldTeam, 1, fn tidy(&mut self) {});
team_of_version!(
    NewTeam,
    2,
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, ())> {
        if version != 1 {
            return Err(Error::Internal("unknown version".into()));
        }
        let (OldTeam { number }, state) = old.read(SpecEncoding::Binary)?;
        Ok((
            Self {
                name: format!("team {number}"),
            },
            state,
        ))
    }
);

#[test]
fn records_of_older_versions_are_read() {
    let old = Record::new(
        Id::from_text("t"),
        Timestamp::from_millis(5),
        OldTeam { number: 7 },
    );
    let new = decode::<NewTeam>("t", &encode(&old).unwrap()).unwrap();
    assert_eq!(
        (new.spec.name.as_str(), new.created_at.millis()),
        ("team 7", 5)
    );
    assert_eq!(
        decode::<NewTeam>("t", &encode(&new).unwrap())
            .unwrap()
            .spec
            .name,
        "team 7"
    );
    assert!(
        matches!(decode::<OldTeam>("t", &encode(&new).unwrap()), Err(Error::Damaged { reason, .. }) if reason.contains("version 2"))
    );
}

#[test]
fn golden_bytes_stay() {
    let mut record = task("a");
    record.spec.roles.extend(["r".into()]);
    record.state = 300;
    golden(
        &record,
        "01cab5ac07fbd007fbd00700027b7d067461736b20610101720000000000fb2c01",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_are_never_a_panic(mut bytes in vec(any::<u8>(), 0..200), seal in any::<bool>()) {
        if seal && bytes.len() >= 5 {
            // With a valid checksum, so that the content is decoded.
            let mut sum = crc32fast::Hasher::new();
            bytes[0] = 1;
            [b"x", &bytes[..1], &bytes[5..]].iter().for_each(|part| sum.update(part));
            bytes[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
        }
        let _ = decode::<Task>("x", &bytes);
    }

    #[test]
    fn index_keys_are_unambiguous(
        records in vec(vec(prop_oneof!["[a\u{0}\u{1}\u{ff}]{0,4}", "[ab]{196,202}", "\\PC{0,6}"], 0..4), 1..12),
    ) {
        let tasks = records.iter().enumerate().map(|(n, roles)| {
            // Ids that look like ends of values.
            let mut task = task(&format!("{}\u{0}{}", ["", "\u{1}", "a"][n % 3], n));
            task.spec.roles = roles.iter().cloned().collect();
            task.spec.name = format!("{n} {}", roles.concat());
            task
        });
        let tasks: Vec<_> = tasks.collect();
        let mut model: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for task in &tasks {
            task.spec.roles.entries().iter().for_each(|role| { model.entry(role).or_default().insert(task.id.as_str()); });
        }
        let store = with_tasks(tasks.clone());
        store.read(|tx| {
            for (role, ids) in &model {
                assert_eq!(tx.ids(Task::KIND, "roles", role)?, ids.iter().copied().collect::<Vec<_>>());
            }
            Ok(())
        }).unwrap();
        assert_index_consistent(&store);
        store.write_blocking(move |tx| tasks.iter().try_for_each(|task| {
            let twin = Record { id: Id::from_text("twin"), ..task.clone() };
            let taken = Error::Duplicate { field: "name".into(), value: task.spec.name.clone() };
            assert_eq!(tx.insert(twin), Err(taken), "a value read from its index row is unchanged");
            tx.delete(&task.id)
        })).unwrap();
        assert_index_consistent(&store);
    }

    #[test]
    fn lists_equal_naive_lists(
        specs in vec(("[abc]{0,2}|a{199,202}", 0_i64..4, "[xy]{1}"), 0..40),
        filter in prop_oneof![
            Just("true"), Just("weight > 1"), Just("name contains \"a\""), Just("anyOf(roles) = \"x\""),
            Just("id in [\"01\", \"03\", \"zz\", \"03\"]"), Just("anyOf(roles) in [\"x\", \"y\"] and weight = 2"),
            Just("name = \"b 1\""), Just("name = \"\""), Just("label contains \"a\" or id = \"03\""), Just("not label contains \"b\""),
            Just("label >= \"b\" and weight = 2"),
        ],
        sort in prop_oneof![Just(""), Just(" sort by weight"), Just(" sort by weight desc, name desc"), Just(" sort by name"), Just(" sort by label"),
            Just(" sort by label desc, weight")],
        (offset, limit) in (0_usize..50, proptest::option::of(0_usize..50)),
        scope in 0..3,
    ) {
        let tasks: Vec<Record<Task>> = specs.iter().enumerate().map(|(n, (name, weight, role))| {
            let mut task = task(&format!("{n:02}"));
            task.spec.name = if name.is_empty() { String::new() } else { format!("{name} {n}") };
            task.spec.weight = *weight;
            task.spec.roles.extend([role.clone()]);
            task
        }).collect();
        let query = Query::parse(&format!("{filter}{sort}"), FilterNames::<Task>::ALL).unwrap();
        let store = with_tasks(tasks.clone());
        let listed = ["02", "03", "05", "20", "77"];
        let naive_scope = |task: &&Record<Task>| match scope { 0 => true, 1 => listed.contains(&task.id.as_str()), _ => task.spec.roles.entries().contains("y") };
        let scope = match scope { 0 => Scope::All, 1 => Scope::Ids(listed.map(str::to_owned).to_vec()), _ => Scope::Having { field: "roles", value: "y".into() } };
        store.read(|tx| {
            let seen = |record| model::entity::RecordTarget { record, lookup: tx };
            let mut naive: Vec<&Record<Task>> = tasks.iter().filter(naive_scope).filter(|task| query.predicate.matches(&seen(task))).collect();
            naive.sort_by(|a, b| order::order(&query.sort, &seen(a), &seen(b)).then_with(|| a.id.cmp(&b.id)));
            let expected: Vec<_> = naive.iter().skip(offset).take(limit.unwrap_or(usize::MAX)).map(|task| task.id.clone()).collect();
            let page = ListPlan::<Task>::of(query.clone(), Window { limit, offset }, scope).page(tx)?;
            assert_eq!(page.records.into_iter().map(|task| task.id).collect::<Vec<_>>(), expected);
            assert_eq!(page.total, naive.len() as u64);
            Ok(())
        }).unwrap();
    }
}

#[test]
fn required_fields_are_never_empty() {
    let store = with_tasks(Vec::new());
    let refused = store.write_blocking(|tx| {
        tx.insert(Record::new(
            Id::from_text("t"),
            Timestamp::from_millis(1),
            Team {
                name: String::new(),
            },
        ))
    });
    assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "name"));
}
