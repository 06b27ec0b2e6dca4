//! Opening the data file: locking, the check that it is a file of Overkeep, and its tables.
//!
//! A new file is prepared under another name and renamed when it is complete, so that an incomplete
//! file never has the final name.

use std::{
    fs::{File, Metadata, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};

use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageBackend, TableDefinition,
    TableHandle, backends::FileBackend,
};

use super::{
    backend::{Backend, BackendHandle},
    names::{directory, reserve, sync_directory, unnamed},
    open_error::OpenError,
    overlay::Overlay,
    private_file::{is_named, is_one, lock_open},
};

/// The file format that this release writes: the layout of tables and keys. A release opens files
/// up to its own format. Files of an earlier format are converted (`file/upgrade.rs`). Records
/// carry versions of their own.
pub const NEWEST: u32 = 4;
/// The table about the file itself.
pub(crate) const META: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("meta");
/// The row of [`META`] that holds the format.
pub(crate) const FORMAT: &[u8] = b"format";
/// The reason given when page checksums do not match.
const PAGES: &str = "page checksums do not match";
/// The first bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// An open database and its backend.
pub(crate) type OpenedFile = (Arc<Backend>, Database);

/// Whether redb checks every page before the file is used. On a damaged page its behaviour is
/// undefined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Checked,
    /// The caller checks the pages itself and needs the result.
    Unchecked,
}

/// Opens the file at a path, or creates it.
pub(crate) fn file(path: &Path, cache: usize, tables: &[String]) -> Result<OpenedFile, OpenError> {
    if !path.try_exists().map_err(|reason| io_error(path, reason))? {
        return create(path, cache, tables).map(|(opened, _)| opened);
    }
    prepared(existing(path, cache, Pages::Checked)?, path, tables)
}

/// Files shorter than this, in bytes, are not compacted.
const MIN_COMPACTED_LENGTH: u64 = 4 << 20;

/// Compacts a file if more than half of it is unused. Must be called right after the file was
/// opened with its pages checked, because only then the size in use is known.
pub(crate) fn shorten((backend, database): &mut OpenedFile, path: &Path) -> Result<(), OpenError> {
    let (needed, before) = backend.in_use().map_err(|reason| io_error(path, reason))?;
    if before < MIN_COMPACTED_LENGTH || needed >= before / 2 {
        return Ok(());
    }
    compact(database, path)?;
    let (_, after) = backend.in_use().map_err(|reason| io_error(path, reason))?;
    tracing::info!(path = %path.display(), before, after, "compacted the data file; sizes in bytes");
    Ok(())
}

/// Releases the unused space of a file.
pub(crate) fn compact(database: &mut Database, path: &Path) -> Result<(), OpenError> {
    database
        .compact()
        .map(drop)
        .map_err(|e| io_error(path, io::Error::other(e)))
}

/// Opens the file at a path, checks every page, repairs what redb can repair, and says whether all
/// pages were intact.
pub(crate) fn verified(
    path: &Path,
    cache: usize,
    tables: &[String],
) -> Result<(OpenedFile, bool), OpenError> {
    let mut opened = existing(path, cache, Pages::Unchecked)?;
    let whole = verify(&mut opened.1, path)?;
    Ok((prepared(opened, path, tables)?, whole))
}

/// Which other processes may have the file open while this process has it open read-only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherProcesses {
    /// Processes that open it read-only as well.
    Readers,
    None,
}

/// Opens the file at a path for reading and checks every page. What is written stays in memory.
pub(crate) fn open_overlay(
    path: &Path,
    others: OtherProcesses,
    cache: usize,
    tables: &[String],
) -> Result<OpenedFile, OpenError> {
    let file = ours(path, OpenOptions::new().read(true))?;
    // A running controller holds an exclusive lock.
    let locked = if others == OtherProcesses::Readers {
        file.try_lock_shared()
    } else {
        file.try_lock()
    };
    locked.map_err(|_| OpenError::Locked(path.into()))?;
    still(
        path,
        &file.metadata().map_err(|reason| io_error(path, reason))?,
    )?;
    let mut opened = on(
        Overlay::new(file).map_err(|reason| io_error(path, reason))?,
        path,
        cache,
        Pages::Unchecked,
    )?;
    // The check comes before any write, even to memory, because a write gives pages new checksums.
    let whole = verify(&mut opened.1, path)?;
    if whole {
        prepared(opened, path, tables)
    } else {
        Err(damaged(path, PAGES))
    }
}

/// Opens the database on a backend; `path` names it in errors.
pub(crate) fn backend(
    backend: impl StorageBackend,
    path: &Path,
    cache: usize,
    tables: &[String],
) -> Result<OpenedFile, OpenError> {
    prepared(on(backend, path, cache, Pages::Checked)?, path, tables)
}

/// Opens the database again, by a new handle.
pub(crate) fn again(
    handle: BackendHandle,
    path: &Path,
    cache: usize,
    tables: &[String],
) -> Result<Database, OpenError> {
    prepared(
        (handle.backend(), with(handle, path, cache, Pages::Checked)?),
        path,
        tables,
    )
    .map(|(_, database)| database)
}

fn existing(path: &Path, cache: usize, pages: Pages) -> Result<OpenedFile, OpenError> {
    let file = ours(path, OpenOptions::new().read(true).write(true))?;
    // The file holds keys, and a copy restored by hand often has default permissions.
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(|reason| io_error(path, reason))?;
    let found = file.metadata().map_err(|reason| io_error(path, reason))?;
    // redb locks the same open file again.
    lock_open(&file, path)?;
    let opened = on(
        FileBackend::new(file).map_err(|e| failed(path, e))?,
        path,
        cache,
        pages,
    )?;
    still(path, &found)?;
    Ok(opened)
}

/// Locks the file exclusively as long as the result lives; for a caller that replaces the file.
pub fn hold(path: &Path) -> Result<File, OpenError> {
    let held = regular(path, OpenOptions::new().read(true).write(true))?;
    lock_open(&held, path)?;
    still(
        path,
        &held.metadata().map_err(|reason| io_error(path, reason))?,
    )?;
    Ok(held)
}

/// Whether another process holds a data file exclusively, or prepares a new one for its name. A
/// file that cannot be opened counts as free.
pub fn is_held(path: &Path) -> bool {
    let is_locked = |path: &Path| {
        let opened = regular(path, OpenOptions::new().read(true));
        opened.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    };
    is_locked(path) || is_locked(&unnamed(path))
}

/// Rejects a file that was replaced by another between opening and locking.
fn still(path: &Path, locked: &Metadata) -> Result<(), OpenError> {
    let there = std::fs::metadata(path).map_err(|reason| io_error(path, reason))?;
    if is_one(&there, locked) {
        Ok(())
    } else {
        Err(OpenError::Locked(path.into()))
    }
}

fn on(
    backend: impl StorageBackend,
    path: &Path,
    cache: usize,
    pages: Pages,
) -> Result<OpenedFile, OpenError> {
    let handle = Backend::of(backend);
    Ok((handle.backend(), with(handle, path, cache, pages)?))
}

fn with(
    handle: BackendHandle,
    path: &Path,
    cache: usize,
    pages: Pages,
) -> Result<Database, OpenError> {
    let mut builder = Database::builder();
    builder
        .set_cache_size(cache)
        .set_check_integrity_on_open(pages == Pages::Checked);
    // redb may panic on a damaged file.
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        builder.create_with_backend(handle)
    }));
    opened
        .map_err(|_| unreadable(path))?
        .map_err(|e| failed(path, e))
}

fn verify(database: &mut Database, path: &Path) -> Result<bool, OpenError> {
    let checked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.check_integrity()));
    checked
        .map_err(|_| unreadable(path))?
        .map_err(|e| failed(path, e))
}

/// Opens a file that begins like a redb file. An empty file is rejected: its content was lost.
fn ours(path: &Path, how: &OpenOptions) -> Result<File, OpenError> {
    let (file, mut magic) = (regular(path, how)?, Vec::new());
    (&file)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .map_err(|reason| io_error(path, reason))?;
    if magic == MAGIC {
        Ok(file)
    } else {
        Err(OpenError::NotOurs(path.into()))
    }
}

/// Opens a regular file, or gives the error of a directory. A pipe or device may block, may be
/// endless and must not be changed.
fn regular(path: &Path, how: &OpenOptions) -> Result<File, OpenError> {
    let found = std::fs::metadata(path).map_err(|reason| io_error(path, reason))?;
    if !found.is_file() && !found.is_dir() {
        return Err(OpenError::NotOurs(path.into()));
    }
    how.open(path).map_err(|reason| io_error(path, reason))
}

/// Creates the file at a path that must not exist, and returns its metadata.
pub(crate) fn create(
    path: &Path,
    cache: usize,
    tables: &[String],
) -> Result<(OpenedFile, Metadata), OpenError> {
    let refused = |reason| OpenError::Directory {
        directory: directory(path).into(),
        reason,
    };
    let (file, unfinished) = (reserve(path)?, unnamed(path));
    let which = file.metadata().map_err(refused)?;
    // The lock stays: redb locks the same open file again.
    let made = FileBackend::new(file)
        .map_err(|e| failed(path, e))
        .and_then(|own| backend(own, path, cache, tables));
    let named = made.and_then(|opened| {
        std::fs::rename(&unfinished, path).map_err(refused)?;
        sync_directory(path).map_err(refused)?;
        if is_named(path, &which) {
            Ok(opened)
        } else {
            Err(OpenError::Locked(path.into()))
        }
    });
    // A file that was not completed is removed, especially after the disk was full.
    let opened = named.inspect_err(|_| {
        if is_named(&unfinished, &which) {
            drop(std::fs::remove_file(&unfinished));
        }
    })?;
    Ok((opened, which))
}

/// Checks the format and creates missing tables.
fn prepared(
    (backend, database): OpenedFile,
    path: &Path,
    tables: &[String],
) -> Result<OpenedFile, OpenError> {
    let present = || -> Result<Vec<String>, redb::Error> {
        Ok(database
            .begin_read()?
            .list_tables()?
            .map(|table| table.name().to_owned())
            .collect())
    };
    let present = present().map_err(|e| broken(path, e))?;
    if !present.is_empty() {
        let found = database
            .begin_read()
            .map_err(redb::Error::from)
            .and_then(|from| format(&from))
            .map_err(|e| broken(path, e))?;
        let found = found.ok_or_else(|| OpenError::NotOurs(path.into()))?;
        if found > NEWEST {
            return Err(OpenError::Newer {
                path: path.into(),
                found,
                known: NEWEST,
            });
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
            transaction
                .open_table(META)?
                .insert(FORMAT, NEWEST.to_le_bytes().as_slice())?;
        }
        Ok(transaction.commit()?)
    };
    complete().map_err(|e| OpenError::Io {
        path: path.into(),
        reason: io::Error::other(e.to_string()),
    })?;
    Ok((backend, database))
}

/// The format of a file that has tables; `None` if it is not a file of Overkeep.
pub(crate) fn format(from: &ReadTransaction) -> Result<Option<u32>, redb::Error> {
    let meta = match from.open_table(META) {
        Err(
            redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. },
        ) => return Ok(None),
        other => other?,
    };
    Ok(meta
        .get(FORMAT)?
        .and_then(|value| value.value().try_into().ok())
        .map(u32::from_le_bytes))
}

fn failed(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(path.into()),
        DatabaseError::Storage(redb::StorageError::Io(reason))
            if reason.kind() == io::ErrorKind::UnexpectedEof =>
        {
            damaged(path, "it is too short")
        }
        DatabaseError::Storage(redb::StorageError::Io(reason)) => io_error(path, reason),
        other => broken(path, other.into()),
    }
}

/// Replaces redb's texts about damage by our own.
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
    OpenError::Damaged {
        path: path.into(),
        reason: reason.to_string(),
    }
}

fn io_error(path: &Path, reason: io::Error) -> OpenError {
    OpenError::Io {
        path: path.into(),
        reason,
    }
}
