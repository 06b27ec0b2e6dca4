//! Snapshots: a copy of everything at one moment in a new, compact file that can be opened like the
//! original and has a manifest ([`Manifest`]). Writers do not wait for it. Restoring copies a
//! snapshot to a data file the same way, row by row.
//!
//! Invariant: the requested name always belongs to a complete and checked copy, or to the file that
//! had it before.

use std::{
    fs::Metadata,
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};

use super::{
    manifest::{Manifest, Sum, is_unopened_snapshot, tables},
    names,
    open::{self, FORMAT, META},
    open_error::OpenError,
    private_file::{clear, is_named, is_one, lock},
    restoration::RESTORED,
};
use crate::{history::log::anchor_key, progress::Progress, reader::Reader, tx::tables::broken};
use model::entity::HistoryClass;
use model::error::{Error, Result};

/// The page cache of the new file, in bytes.
const CACHE: usize = 16 << 20;
/// The size of rows written in one transaction, in bytes.
const BATCH: usize = 8 << 20;
/// The pause between closing two views, so that waiting writers can run in between.
const PAUSE: Duration = Duration::from_millis(10);

type Definition<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;
/// A table's name, a key and a value.
type Row<'n> = (&'n str, Vec<u8>, Vec<u8>);

impl Reader {
    /// Copies everything to a file, readable by its owner only, and replaces a file of that name.
    /// Blocks until the copy is complete. The copy holds the state at its beginning. The file
    /// belongs to the user of this process.
    ///
    /// # Errors
    /// The copy cannot be written, differs from what was read, or was cancelled by `watch`; then
    /// the file of that name is unchanged.
    pub fn snapshot(&self, to: &Path, watch: &Progress) -> Result<Manifest> {
        self.copy(to, Purpose::Snapshot, watch)
    }

    /// Like [`Reader::snapshot`], for a data file: the new file keeps the owner of the one that it
    /// replaces.
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn supersede(&self, file: &Path, watch: &Progress) -> Result<Manifest> {
        self.copy(file, Purpose::SameContent, watch)
    }

    fn copy(&self, to: &Path, purpose: Purpose, watch: &Progress) -> Result<Manifest> {
        let views = Views::of(self)?;
        let format = open::format(&views.first)
            .map_err(broken)?
            .ok_or_else(|| failed("the file has no format"))?;
        copy(views, to, purpose, watch, |sum| {
            Manifest::of(sum, format, self.core().clock.now())
        })
    }

    /// Copies a snapshot, which this store must have open, over a data file as
    /// [`Reader::supersede`] does. The result is a snapshot too, until it is opened for writing.
    ///
    /// # Errors
    /// As [`Reader::snapshot`]; also if the rows do not match the manifest.
    pub fn restore(&self, manifest: &Manifest, to: &Path, watch: &Progress) -> Result<Manifest> {
        copy(Views::of(self)?, to, Purpose::Restore, watch, |sum| {
            manifest.confirm(sum)
        })
    }

    /// Reads the whole file and checks it against its manifest. Returns the manifest; `None` if the
    /// file is not a snapshot.
    ///
    /// # Errors
    /// The content does not match, the file cannot be read, or `watch` cancelled it.
    pub fn manifest(&self, watch: &Progress) -> Result<Option<Manifest>> {
        let from = self.core().database()?.begin_read().map_err(broken)?;
        let Some(manifest) = Manifest::load(&from)? else {
            return Ok(None);
        };
        watch.begin(count(&from)?);
        manifest.confirm(Sum::of(&from, watch)?).map(Some)
    }
}

fn failed(reason: impl ToString) -> Error {
    Error::Storage(format!("a snapshot: {}", reason.to_string()))
}

/// The read view that is copied, and views opened later on the way. redb cannot reuse a page that
/// writers replace while an older view is open. When the last old view closes, the next writer has
/// to free all such pages while every other writer waits. So newer views are opened during the copy
/// and closed one after the other.
struct Views<'s> {
    store: &'s Reader,
    first: ReadTransaction,
    later: Vec<ReadTransaction>,
}

impl<'s> Views<'s> {
    fn of(store: &'s Reader) -> Result<Self> {
        let first = store.core().database()?.begin_read().map_err(broken)?;
        Ok(Self {
            store,
            first,
            later: Vec::new(),
        })
    }

    fn add_view(&mut self) {
        // A closed store frees nothing, so that it needs no view.
        self.later.extend(
            self.store
                .core()
                .database()
                .ok()
                .and_then(|database| database.begin_read().ok()),
        );
    }

    fn release_views(self, watch: &Progress) {
        drop(self.first);
        for view in self.later {
            // A cancelled copy does not pause.
            if watch.check_cancelled().is_ok() {
                thread::sleep(PAUSE);
            }
            drop(view);
        }
    }
}

/// Creates a file with the same rows and the manifest that `seal` makes for them.
fn copy(
    mut views: Views<'_>,
    to: &Path,
    purpose: Purpose,
    watch: &Progress,
    seal: impl FnOnce(Sum) -> Result<Manifest>,
) -> Result<Manifest> {
    watch.begin(2 * count(&views.first)?);
    let names = tables(&views.first)?;
    let is_same = purpose == Purpose::SameContent && !is_unopened_snapshot(&views.first)?;
    let (unfinished, mut database) = Unfinished::make(to, &names).map_err(failed)?;
    let written = write(&mut views, &database, &names, watch)
        .and_then(|sum| carry(&views.first, &database).map(|()| sum).map_err(failed));
    views.release_views(watch);
    let manifest = seal(written?)?;
    manifest.store(&database, is_same)?;
    database.compact().map_err(failed)?;
    drop(database);
    verify_copy(&unfinished.path, &names, &manifest, watch)?;
    unfinished.place(to, purpose)?;
    Ok(manifest)
}

fn write(
    views: &mut Views<'_>,
    into: &Database,
    names: &[String],
    watch: &Progress,
) -> Result<Sum> {
    let (mut sum, mut batch, mut size) = (Sum::default(), Vec::new(), 0);
    for name in names {
        for row in views
            .first
            .open_table(Definition::new(name))
            .map_err(broken)?
            .iter()
            .map_err(broken)?
        {
            let (key, value) = row.map_err(broken)?;
            let (key, value) = (key.value(), value.value());
            sum.add(name, key, value);
            size += key.len() + value.len();
            batch.push((name.as_str(), key.to_vec(), value.to_vec()));
            if size >= BATCH {
                insert(into, std::mem::take(&mut batch)).map_err(failed)?;
                size = 0;
                views.add_view();
            }
            watch.step()?;
        }
    }
    insert(into, batch).map_err(failed)?;
    Ok(sum)
}

/// Copies the rows of the table about the file itself that are true of a copy as well: the format,
/// the anchors of the history, and how often the file was restored.
fn carry(from: &ReadTransaction, into: &Database) -> Result<(), redb::Error> {
    let meta = from.open_table(META)?;
    let transaction = into.begin_write()?;
    for key in [FORMAT, RESTORED]
        .into_iter()
        .chain(HistoryClass::ALL.map(anchor_key))
    {
        if let Some(value) = meta.get(key)? {
            transaction.open_table(META)?.insert(key, value.value())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Writes rows, which are sorted by table.
fn insert(into: &Database, batch: Vec<Row<'_>>) -> Result<(), redb::Error> {
    let transaction = into.begin_write()?;
    for rows in batch.chunk_by(|(one, ..), (next, ..)| one == next) {
        let Some((name, ..)) = rows.first() else {
            continue;
        };
        let mut table = transaction.open_table(Definition::new(name))?;
        for (_, key, value) in rows {
            table.insert(key.as_slice(), value.as_slice())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Opens the new file, checks every page, and reads all rows again.
fn verify_copy(file: &Path, names: &[String], manifest: &Manifest, watch: &Progress) -> Result<()> {
    let ((_, database), whole) = open::verified(file, CACHE, names).map_err(failed)?;
    if !whole {
        return Err(failed("the copy is damaged"));
    }
    let rows = database.begin_read().map_err(broken)?;
    let same = Manifest::load(&rows)?.as_ref() == Some(manifest)
        && manifest.confirm(Sum::of(&rows, watch)?).is_ok();
    if same {
        Ok(())
    } else {
        Err(failed("the copy differs from what was read"))
    }
}

/// The number of rows of all tables.
fn count(of: &ReadTransaction) -> Result<u64> {
    let rows = |name: &String| {
        of.open_table(Definition::new(name))
            .map_err(broken)?
            .len()
            .map_err(broken)
    };
    tables(of)?.iter().map(rows).sum()
}

/// A file that is being made. It is removed unless it gets its final name.
struct Unfinished {
    path: PathBuf,
    which: Metadata,
}

impl Unfinished {
    /// Creates the file. Removes what an earlier attempt left, unless another process is using it.
    fn make(to: &Path, tables: &[String]) -> Result<(Self, Database), OpenError> {
        let path = names::beside(to, ".unfinished");
        clear(&path)?;
        let ((_, database), which) = open::create(&path, CACHE, tables)?;
        Ok((Self { path, which }, database))
    }

    /// Renames it to its final name. After a crash the name belongs to the previous file or to this
    /// one.
    fn place(self, to: &Path, purpose: Purpose) -> Result<()> {
        let file = lock(&self.path).map_err(failed)?;
        if !is_named(&self.path, &self.which)
            || !file.metadata().is_ok_and(|file| is_one(&file, &self.which))
        {
            return Err(failed(format!(
                "another file has taken the name {}",
                self.path.display()
            )));
        }
        let before = std::fs::metadata(to)
            .ok()
            .filter(|_| purpose != Purpose::Snapshot);
        let before = before.map(|before| (before.uid(), before.gid()));
        if let Some((user, group)) = before.filter(|(user, _)| self.which.uid() != *user) {
            fchown(&file, Some(user), Some(group)).map_err(failed)?;
        }
        file.sync_all()
            .and_then(|()| std::fs::rename(&self.path, to))
            .and_then(|()| names::sync_directory(to))
            .map_err(failed)
    }
}

/// What a copy is made for. A snapshot belongs to the user of this process, because the path may
/// hold a file of any user, and the copy contains keys. A data file keeps the owner of the one that
/// it replaces, also if this process belongs to another user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Snapshot,
    /// A data file with the content of a snapshot.
    Restore,
    /// A data file with the content of the one that it replaces.
    SameContent,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename no file has the temporary name. A file of that name that is not ours
        // must not be removed.
        if is_named(&self.path, &self.which) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}
