//! The data file while it is opened and created.

use super::*;

#[test]
fn file_is_private_and_locked() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    let store = open(&directory);
    assert!(store.is_new());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let second = |path: &Path| stores::of(KINDS).try_open(path).err().unwrap();
    assert!(matches!(second(&path), OpenError::Locked(_)));
    assert!(
        second(&path)
            .to_string()
            .ends_with("data is in use by another process")
    );
    drop(store);
    assert!(open(&directory).is_new(), "nothing has been stored yet");

    let nowhere = directory.path().join("none/data");
    assert!(matches!(second(&nowhere), OpenError::Directory { .. }));
    for other in [
        &b"x"[..],
        b"PK\x03\x04 and more than the first few bytes",
        &[0; 8192],
    ] {
        std::fs::write(&path, other).unwrap();
        assert!(matches!(second(&path), OpenError::NotOurs(_)));
    }
    std::fs::remove_file(&path).unwrap();
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    drop(
        transaction
            .open_table(TableDefinition::<u64, u64>::new("something"))
            .unwrap(),
    );
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(second(&path), OpenError::NotOurs(_)));

    std::fs::remove_file(&path).unwrap();
    drop(open(&directory));
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = TableDefinition::<&[u8], &[u8]>::new("meta");
    transaction
        .open_table(meta)
        .unwrap()
        .insert(b"format".as_slice(), (NEWEST + 1).to_le_bytes().as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(
        matches!(second(&path), OpenError::Newer { found, known: NEWEST, .. } if found > NEWEST)
    );
}

#[test]
fn interrupted_start_blocks_nothing() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("data.new"), b"half a file").unwrap();
    let store = open(&directory);
    store
        .write_blocking(|tx| tx.set_setting("a", Some(b"1")))
        .unwrap();
    drop(store);
    assert_eq!(
        open(&directory).read(|tx| tx.setting("a")).unwrap(),
        Some(b"1".to_vec())
    );
    assert!(!directory.path().join("data.new").exists());
}
