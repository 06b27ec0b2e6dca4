//! A copy of everything as it is at one moment, in a new and compact file that can be opened like the first and says what it holds
//! ([`Manifest`]). Writers never wait for it. And back: a snapshot becomes a data file the same way, row by row.
//!
//! Invariant: under the name that was asked for there is never anything but a whole and checked copy.

use std::{
    fs::Metadata,
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::{
    manifest::{Manifest, Sum, tables},
    open::{self, FORMAT, META},
    open_error::OpenError,
    private_file::{clear, is_named, is_one, lock},
};
use crate::error::{Error, Result};
use crate::store::{history::log::ANCHOR, progress::Progress, reader::Reader, tx::tables::broken};

/// Bytes of the new file kept in memory.
const CACHE: usize = 16 << 20;
/// Bytes of rows written in one transaction.
const BATCH: usize = 8 << 20;
/// Between one view that goes and the next: time for a write or some.
const PAUSE: Duration = Duration::from_millis(10);

type Definition<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;
/// A table's name, a key and a value.
type Row<'n> = (&'n str, Vec<u8>, Vec<u8>);

impl Reader {
    /// Copies everything to a file, readable for its owner alone, in place of one of that name. Blocks for as long as that takes;
    /// the copy is of the moment it began.
    ///
    /// # Errors
    /// The copy cannot be written or is not the same as what was read, or the watcher stopped it; then the file of that name is as it
    /// was before.
    pub fn snapshot(&self, to: &Path, watch: &Progress) -> Result<Manifest> {
        self.copied(to, Owner::Ours, watch)
    }

    /// The same in place of a data file, which stays its owner's.
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn supersede(&self, file: &Path, watch: &Progress) -> Result<Manifest> {
        self.copied(file, Owner::OfTheOneBefore, watch)
    }

    fn copied(&self, to: &Path, owner: Owner, watch: &Progress) -> Result<Manifest> {
        let views = Views::of(self)?;
        let format = open::format(&views.first).map_err(broken)?.ok_or_else(|| failed("the file has no format"))?;
        copy(views, to, owner, watch, |sum| Manifest::of(sum, format, self.core().clock.now()))
    }

    /// Copies a snapshot, which this store is one of, as [`Reader::supersede`] does. What comes of it is a snapshot too, until it is opened
    /// to be written.
    ///
    /// # Errors
    /// As [`Reader::snapshot`], and if what is read is not what this manifest says.
    pub fn restore(&self, manifest: &Manifest, to: &Path, watch: &Progress) -> Result<Manifest> {
        copy(Views::of(self)?, to, Owner::OfTheOneBefore, watch, |sum| manifest.confirm(sum))
    }

    /// What the file says of itself, once all of it was read and found to be so; nothing if it is no snapshot.
    ///
    /// # Errors
    /// It is not so, the file cannot be read, or the watcher stopped it.
    pub fn manifest(&self, watch: &Progress) -> Result<Option<Manifest>> {
        let from = self.core().database()?.begin_read().map_err(broken)?;
        let Some(manifest) = Manifest::load(&from)? else { return Ok(None) };
        watch.begin(count(&from)?);
        manifest.confirm(Sum::of(&from, watch)?).map(Some)
    }
}

fn failed(reason: impl ToString) -> Error {
    Error::Storage(format!("a snapshot: {}", reason.to_string()))
}

/// What is copied, and what was there since, from time to time. No page that writers replace can be used again as long as an older view is
/// open, and whoever writes when the last one goes has to free all of them while every other waits. So newer views are opened on the way, and
/// let go one after the other.
struct Views<'s> {
    store: &'s Reader,
    first: ReadTransaction,
    later: Vec<ReadTransaction>,
}

impl<'s> Views<'s> {
    fn of(store: &'s Reader) -> Result<Self> {
        let first = store.core().database()?.begin_read().map_err(broken)?;
        Ok(Self { store, first, later: Vec::new() })
    }

    fn open_another(&mut self) {
        // Of a store that was closed nothing is freed either.
        self.later.extend(self.store.core().database().ok().and_then(|database| database.begin_read().ok()));
    }

    fn let_go(self, watch: &Progress) {
        drop(self.first);
        for view in self.later {
            // Who stops it all has no time for that.
            if watch.go_on().is_ok() {
                thread::sleep(PAUSE);
            }
            drop(view);
        }
    }
}

/// Makes a file with the same rows and the manifest that `seal` gives for them.
fn copy(mut views: Views<'_>, to: &Path, owner: Owner, watch: &Progress, seal: impl FnOnce(Sum) -> Result<Manifest>) -> Result<Manifest> {
    watch.begin(2 * count(&views.first)?);
    let names = tables(&views.first)?;
    let (unfinished, mut database) = Unfinished::make(to, &names).map_err(failed)?;
    let written = write(&mut views, &database, &names, watch).and_then(|sum| carry(&views.first, &database).map(|()| sum).map_err(failed));
    views.let_go(watch);
    let manifest = seal(written?)?;
    manifest.store(&database)?;
    database.compact().map_err(failed)?;
    drop(database);
    reopened(&unfinished.path, &names, &manifest, watch)?;
    unfinished.place(to, owner)?;
    Ok(manifest)
}

fn write(views: &mut Views<'_>, into: &Database, names: &[String], watch: &Progress) -> Result<Sum> {
    let (mut sum, mut batch, mut size) = (Sum::default(), Vec::new(), 0);
    for name in names {
        for row in views.first.open_table(Definition::new(name)).map_err(broken)?.iter().map_err(broken)? {
            let (key, value) = row.map_err(broken)?;
            let (key, value) = (key.value(), value.value());
            sum.add(name, key, value);
            size += key.len() + value.len();
            batch.push((name.as_str(), key.to_vec(), value.to_vec()));
            if size >= BATCH {
                insert(into, std::mem::take(&mut batch)).map_err(failed)?;
                size = 0;
                views.open_another();
            }
            watch.step()?;
        }
    }
    insert(into, batch).map_err(failed)?;
    Ok(sum)
}

/// Takes along what the table about the file itself says that holds of a copy as well: the format, and what the first row of the history
/// is chained to.
fn carry(from: &ReadTransaction, into: &Database) -> Result<(), redb::Error> {
    let meta = from.open_table(META)?;
    let transaction = into.begin_write()?;
    for key in [FORMAT, ANCHOR] {
        if let Some(value) = meta.get(key)? {
            transaction.open_table(META)?.insert(key, value.value())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Writes rows that are in the order of their tables.
fn insert(into: &Database, batch: Vec<Row<'_>>) -> Result<(), redb::Error> {
    let transaction = into.begin_write()?;
    for rows in batch.chunk_by(|(one, ..), (next, ..)| one == next) {
        let Some((name, ..)) = rows.first() else { continue };
        let mut table = transaction.open_table(Definition::new(name))?;
        for (_, key, value) in rows {
            table.insert(key.as_slice(), value.as_slice())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Opens the new file, checks every page of it once, and reads all of it again.
fn reopened(file: &Path, names: &[String], manifest: &Manifest, watch: &Progress) -> Result<()> {
    let ((_, database), whole) = open::verified(file, CACHE, names).map_err(failed)?;
    if !whole {
        return Err(failed("the copy is damaged"));
    }
    let rows = database.begin_read().map_err(broken)?;
    let same = Manifest::load(&rows)?.as_ref() == Some(manifest) && manifest.confirm(Sum::of(&rows, watch)?).is_ok();
    if same { Ok(()) } else { Err(failed("the copy is not the same as what was read")) }
}

/// How many rows there are.
fn count(of: &ReadTransaction) -> Result<u64> {
    let rows = |name: &String| of.open_table(Definition::new(name)).map_err(broken)?.len().map_err(broken);
    tables(of)?.iter().map(rows).sum()
}

/// A file that is being made. Gone if it does not get its name.
struct Unfinished {
    path: PathBuf,
    which: Metadata,
}

impl Unfinished {
    /// Makes it anew. What an earlier attempt left there goes, unless another is at it.
    fn make(to: &Path, tables: &[String]) -> Result<(Self, Database), OpenError> {
        let path = open::beside(to, ".unfinished");
        clear(&path)?;
        let ((_, database), which) = open::create(&path, CACHE, tables)?;
        Ok((Self { path, which }, database))
    }

    /// Gives it its name, so that a crash leaves either the one before or this one.
    fn place(self, to: &Path, owner: Owner) -> Result<()> {
        let file = lock(&self.path).map_err(failed)?;
        if !is_named(&self.path, &self.which) || !file.metadata().is_ok_and(|file| is_one(&file, &self.which)) {
            return Err(failed(format!("another file has taken the name {}", self.path.display())));
        }
        let before = std::fs::metadata(to).ok().filter(|_| owner == Owner::OfTheOneBefore);
        let before = before.map(|before| (before.uid(), before.gid()));
        if let Some((user, group)) = before.filter(|(user, _)| self.which.uid() != *user) {
            fchown(&file, Some(user), Some(group)).map_err(failed)?;
        }
        file.sync_all().and_then(|()| std::fs::rename(&self.path, to)).and_then(|()| open::sync_directory(to)).map_err(failed)
    }
}

/// Whose a file is that takes the place of another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Whose this process is. At a path that somebody names anybody's file may be, and the copy holds keys.
    Ours,
    /// Whose the one before was, whoever runs this: of data files.
    OfTheOneBefore,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Not there any more if it got its name, and another's if that is not the one that was made.
        if is_named(&self.path, &self.which) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}
