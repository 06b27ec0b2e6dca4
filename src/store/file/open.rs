//! Opening the file: who may, whether it is ours, and what it must contain before anyone uses it.
//!
//! A new file is prepared beside its name and renamed when it is whole, so that there never is a half-made one under that name.

use std::{
    fs::{File, Metadata, OpenOptions, Permissions},
    io::{self, Read as _},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageBackend, TableDefinition, TableHandle, backends::FileBackend,
};

use super::{
    backend::{Backend, BackendHandle},
    open_error::OpenError,
    overlay::Overlay,
    private_file::{clear, create_private, is_named, is_one},
};

/// The format of the files that this release writes: how tables and keys are laid out, and so what a release must know to open one. Files of
/// an earlier format are brought to it (`file/upgrade.rs`). Records carry versions of their own.
pub const NEWEST: u32 = 3;
/// About the file itself.
pub const META: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("meta");
/// The row that holds its format.
pub const FORMAT: &[u8] = b"format";
/// What is wrong with a file of which the checksums of pages say so.
const PAGES: &str = "pages of it are not what was written";
/// The first bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// What was opened, and what it lies on.
pub type Opened = (Arc<Backend>, Database);

/// Whether every page is looked at before the file is used. Of one that was damaged the library may make anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Checked,
    /// The caller does that, and wants to know what came of it.
    Unchecked,
}

/// Opens the file at a path, or makes it.
pub fn file(path: &Path, cache: usize, tables: &[String]) -> Result<Opened, OpenError> {
    if !path.try_exists().map_err(|reason| io_error(path, reason))? {
        return create(path, cache, tables).map(|(opened, _)| opened);
    }
    prepared(existing(path, cache, Pages::Checked)?, path, tables)
}

/// A file that is shorter than this, in bytes, is not worth the time.
const SHORT: u64 = 4 << 20;

/// Gives back what a file does not need, if that is more than half of it. To be called right after it was opened and its pages were checked:
/// then it is known what is needed.
pub fn shorten((backend, database): &mut Opened, path: &Path) -> Result<(), OpenError> {
    let (needed, before) = backend.in_use().map_err(|reason| io_error(path, reason))?;
    if before < SHORT || needed >= before / 2 {
        return Ok(());
    }
    compact(database, path)?;
    let (_, after) = backend.in_use().map_err(|reason| io_error(path, reason))?;
    tracing::info!(path = %path.display(), before, after, "gave back space in the data file, in bytes");
    Ok(())
}

/// Gives back what a file does not need.
pub fn compact(database: &mut Database, path: &Path) -> Result<(), OpenError> {
    database.compact().map(drop).map_err(|e| io_error(path, io::Error::other(e)))
}

/// Opens the file at a path, checks every page of it, and says whether all were what was written; what can be set right by that is.
pub fn verified(path: &Path, cache: usize, tables: &[String]) -> Result<(Opened, bool), OpenError> {
    let mut opened = existing(path, cache, Pages::Unchecked)?;
    let whole = verify(&mut opened.1, path)?;
    Ok((prepared(opened, path, tables)?, whole))
}

/// Who may have a file open that is only looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Whoever only looks at it as well.
    MayLook,
    Nobody,
}

/// Opens the file at a path to look at it, after every page of it was checked. What is written stays in memory.
pub fn open_overlay(path: &Path, others: Others, cache: usize, tables: &[String]) -> Result<Opened, OpenError> {
    let file = ours(path, OpenOptions::new().read(true))?;
    // A controller holds it alone.
    let locked = if others == Others::MayLook { file.try_lock_shared() } else { file.try_lock() };
    locked.map_err(|_| OpenError::Locked(path.into()))?;
    still(path, &file.metadata().map_err(|reason| io_error(path, reason))?)?;
    let mut opened = on(Overlay::new(file).map_err(|reason| io_error(path, reason))?, path, cache, Pages::Unchecked)?;
    // Before anything is written, be it in memory: that gives pages new checksums.
    let whole = verify(&mut opened.1, path)?;
    if whole { prepared(opened, path, tables) } else { Err(damaged(path, PAGES)) }
}

/// Opens what is on a backend; `path` is its name in errors.
pub fn backend(backend: impl StorageBackend, path: &Path, cache: usize, tables: &[String]) -> Result<Opened, OpenError> {
    prepared(on(backend, path, cache, Pages::Checked)?, path, tables)
}

/// Opens once more what was opened before, by a new handle.
pub fn again(handle: BackendHandle, path: &Path, cache: usize, tables: &[String]) -> Result<Database, OpenError> {
    prepared((handle.backend(), with(handle, path, cache, Pages::Checked)?), path, tables).map(|(_, database)| database)
}

fn existing(path: &Path, cache: usize, pages: Pages) -> Result<Opened, OpenError> {
    let file = ours(path, OpenOptions::new().read(true).write(true))?;
    // It holds keys; a copy put back by hand often comes with the rights of any file.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(|reason| io_error(path, reason))?;
    let found = file.metadata().map_err(|reason| io_error(path, reason))?;
    let opened = on(FileBackend::new(file).map_err(|e| failed(path, e))?, path, cache, pages)?;
    still(path, &found)?;
    Ok(opened)
}

/// A file that nobody else has open, as long as this lives; for whoever puts another in its place.
pub fn hold(path: &Path) -> Result<File, OpenError> {
    let held = regular(path, OpenOptions::new().read(true).write(true))?;
    held.try_lock().map_err(|_| OpenError::Locked(path.into()))?;
    still(path, &held.metadata().map_err(|reason| io_error(path, reason))?)?;
    Ok(held)
}

/// Refuses a file that was locked a moment too late: whoever had it before has put another in its place.
fn still(path: &Path, locked: &Metadata) -> Result<(), OpenError> {
    let there = std::fs::metadata(path).map_err(|reason| io_error(path, reason))?;
    if is_one(&there, locked) { Ok(()) } else { Err(OpenError::Locked(path.into())) }
}

fn on(backend: impl StorageBackend, path: &Path, cache: usize, pages: Pages) -> Result<Opened, OpenError> {
    let handle = Backend::of(backend);
    Ok((handle.backend(), with(handle, path, cache, pages)?))
}

fn with(handle: BackendHandle, path: &Path, cache: usize, pages: Pages) -> Result<Database, OpenError> {
    let mut builder = Database::builder();
    builder.set_cache_size(cache).set_check_integrity_on_open(pages == Pages::Checked);
    // Of a damaged file redb may panic.
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.create_with_backend(handle)));
    opened.map_err(|_| unreadable(path))?.map_err(|e| failed(path, e))
}

fn verify(database: &mut Database, path: &Path) -> Result<bool, OpenError> {
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.check_integrity()));
    checked.map_err(|_| unreadable(path))?.map_err(|e| failed(path, e))
}

/// The file next to another, with something behind its name.
pub fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The directory of a file.
fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name of a file last.
pub fn sync_directory(file: &Path) -> io::Result<()> {
    File::open(directory(file))?.sync_all()
}

/// Opens a file that begins as ours do. An empty one is not a new one: something has taken what was in it.
fn ours(path: &Path, how: &OpenOptions) -> Result<File, OpenError> {
    let (file, mut magic) = (regular(path, how)?, Vec::new());
    (&file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(|reason| io_error(path, reason))?;
    if magic == MAGIC { Ok(file) } else { Err(OpenError::NotOurs(path.into())) }
}

/// Opens a file, or says what is wrong with a directory. A pipe or a device may never begin, may not end, and is not ours to change.
fn regular(path: &Path, how: &OpenOptions) -> Result<File, OpenError> {
    let found = std::fs::metadata(path).map_err(|reason| io_error(path, reason))?;
    if !found.is_file() && !found.is_dir() {
        return Err(OpenError::NotOurs(path.into()));
    }
    how.open(path).map_err(|reason| io_error(path, reason))
}

/// Where a new file is made before it has its name.
pub fn unnamed(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// The right to make a file that is not there, as long as this lives: what another start left half-made may be dropped, what it is making
/// may not. The file is made anew.
pub fn reserve(path: &Path) -> Result<File, OpenError> {
    let refused = |reason| OpenError::Directory { directory: directory(path).into(), reason };
    clear(&unnamed(path)).map_err(|error| if let OpenError::Locked(_) = error { OpenError::Locked(path.into()) } else { error })?;
    let file = create_private(&unnamed(path)).map_err(refused)?;
    file.try_lock().map_err(|_| OpenError::Locked(path.into()))?;
    if !is_named(&unnamed(path), &file.metadata().map_err(refused)?) {
        return Err(OpenError::Locked(path.into()));
    }
    if path.exists() {
        // Another was faster; its file is whole and ours is nothing yet.
        drop(std::fs::remove_file(unnamed(path)));
        return Err(OpenError::Locked(path.into()));
    }
    Ok(file)
}

/// Makes the file at a path, where none may be, and says which it is.
pub fn create(path: &Path, cache: usize, tables: &[String]) -> Result<(Opened, Metadata), OpenError> {
    let refused = |reason| OpenError::Directory { directory: directory(path).into(), reason };
    let (file, unfinished) = (reserve(path)?, unnamed(path));
    let which = file.metadata().map_err(refused)?;
    // It stays locked: the library locks it again by the same opening of it.
    let made = FileBackend::new(file).map_err(|e| failed(path, e)).and_then(|own| backend(own, path, cache, tables));
    let named = made.and_then(|opened| {
        std::fs::rename(&unfinished, path).map_err(refused)?;
        sync_directory(path).map_err(refused)?;
        if is_named(path, &which) { Ok(opened) } else { Err(OpenError::Locked(path.into())) }
    });
    // Of one that did not come about nothing is to stay, above all where there was no room for it.
    let opened = named.inspect_err(|_| {
        if is_named(&unfinished, &which) {
            drop(std::fs::remove_file(&unfinished));
        }
    })?;
    Ok((opened, which))
}

/// Checks the format and makes the tables that are missing.
fn prepared((backend, database): Opened, path: &Path, tables: &[String]) -> Result<Opened, OpenError> {
    let present =
        || -> Result<Vec<String>, redb::Error> { Ok(database.begin_read()?.list_tables()?.map(|table| table.name().to_owned()).collect()) };
    let present = present().map_err(|e| broken(path, e))?;
    if !present.is_empty() {
        let found = database.begin_read().map_err(redb::Error::from).and_then(|from| format(&from)).map_err(|e| broken(path, e))?;
        let found = found.ok_or_else(|| OpenError::NotOurs(path.into()))?;
        if found > NEWEST {
            return Err(OpenError::Newer { path: path.into(), found, known: NEWEST });
        }
    }
    if tables.iter().all(|table| present.contains(table)) {
        return Ok((backend, database));
    }
    let complete = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        for table in tables {
            transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(table))?;
        }
        if present.is_empty() {
            transaction.open_table(META)?.insert(FORMAT, NEWEST.to_le_bytes().as_slice())?;
        }
        Ok(transaction.commit()?)
    };
    complete().map_err(|e| OpenError::Io { path: path.into(), reason: io::Error::other(e.to_string()) })?;
    Ok((backend, database))
}

/// The format of a file that has tables; nothing if it is none of ours.
pub fn format(from: &ReadTransaction) -> Result<Option<u32>, redb::Error> {
    let meta = match from.open_table(META) {
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => return Ok(None),
        other => other?,
    };
    Ok(meta.get(FORMAT)?.and_then(|value| value.value().try_into().ok()).map(u32::from_le_bytes))
}

fn failed(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(path.into()),
        DatabaseError::Storage(redb::StorageError::Io(reason)) if reason.kind() == io::ErrorKind::UnexpectedEof => {
            damaged(path, "it ends too early")
        }
        DatabaseError::Storage(redb::StorageError::Io(reason)) => io_error(path, reason),
        other => broken(path, other.into()),
    }
}

/// The library tells of damage in words about itself.
fn broken(path: &Path, error: redb::Error) -> OpenError {
    match error {
        redb::Error::Corrupted(_) => damaged(path, PAGES),
        other => damaged(path, other),
    }
}

fn unreadable(path: &Path) -> OpenError {
    damaged(path, "the database library could not read it")
}

fn damaged(path: &Path, reason: impl ToString) -> OpenError {
    OpenError::Damaged { path: path.into(), reason: reason.to_string() }
}

fn io_error(path: &Path, reason: io::Error) -> OpenError {
    OpenError::Io { path: path.into(), reason }
}
