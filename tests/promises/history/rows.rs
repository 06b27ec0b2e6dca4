//! Rows that changes leave.

use super::*;

#[test]
fn changes_and_rows_commit_together() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    let refused = store.write_blocking(|tx| {
        tx.insert(task("b"))?;
        Err::<(), _>(Error::InvalidAuth)
    });
    assert_eq!(refused, Err(Error::InvalidAuth));
    store
        .write_blocking(|tx| {
            tx.insert(task("c"))?;
            // A failed call undoes only its own row.
            assert!(tx.insert(task("a")).is_err());
            let mut a = tx.get(&Id::<Task>::from_text("a"))?;
            a.spec.weight = 7;
            tx.put(a)?;
            tx.delete(&Id::<Task>::from_text("c"))
        })
        .unwrap();
    let found: Vec<(u64, Action, String)> = rows(&store)
        .into_iter()
        .map(|row| (row.sequence, row.action, row.id))
        .collect();
    let expected = [
        (1, Action::Create, "a"),
        (2, Action::Create, "c"),
        (3, Action::Update, "a"),
        (4, Action::Delete, "c"),
    ];
    assert_eq!(
        found,
        expected.map(|(sequence, action, id)| (sequence, action, id.to_owned()))
    );
    let changed = &rows(&store)[2];
    assert_eq!(
        (
            Json::from(changed.before.clone()),
            Json::from(changed.after.clone())
        ),
        (json!({ "weight": 0 }), json!({ "weight": 7 }))
    );
    assert_eq!(
        rows(&store)[3].before.as_ref().unwrap()["name"],
        "task c",
        "a deletion must record the whole record"
    );
}

#[test]
fn empty_changes_leave_no_row() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    store
        .write_blocking(|tx| {
            let mut same = tx.get(&Id::<Task>::from_text("a"))?;
            same.updated_at = Timestamp::from_millis(5_000);
            tx.put(same)
        })
        .unwrap();
    assert_eq!(rows(&store).len(), 1);
}

#[test]
fn store_handle_names_the_author() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let ann = Author {
        session: Some("s".into()),
        ..Author::remote(Some("10.0.0.1".into())).known_as(&Id::from_text("ann"), Some("Ann"))
    };
    for (id, handle) in [
        ("a", store.clone()),
        ("b", store.by(Author::local())),
        ("c", store.by(ann.clone())),
    ] {
        handle
            .write_blocking(move |tx| tx.insert(task(id)))
            .unwrap();
    }
    let authors: Vec<Author> = rows(&store).into_iter().map(|row| row.by).collect();
    assert_eq!(authors, [Author::default(), Author::local(), ann]);
    assert_eq!(
        (authors[0].who, authors[1].who, authors[2].who),
        (Who::System, Who::Local, Who::Identity)
    );
}
