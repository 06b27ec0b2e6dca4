//! Records in one file: typed transactions over redb, one writer with group commit, indexes,
//! references, lists.
//!
//! Not here: the kinds (the list of [`KindEntry`]s is passed in), permissions, and side effects of
//! changes. Integrity check and repair (`integrity/`) and snapshots (`file/snapshot.rs`) use the
//! same list.
//!
//! Start with [`Store::write`] and [`Reader::read`]; then `tx/write.rs` and `tx/read.rs` for what a
//! transaction can do, `tx/writer.rs` for how jobs become durable, `index.rs` and `codec.rs` for
//! the layout on disk.
//!
//! A change that is only previewed never reaches the writer (`tx/dry_run.rs`).
//!
//! After a disk failure, writes are rejected until the disk works again; reads continue on the
//! state flushed last (`file/backend.rs`, `file/recovery.rs`).
//!
//! Very many records are deleted by a tombstone at once and removed in batches later
//! (`tx/tombstone.rs`). A file of an earlier format is converted before anything is read from it or
//! written to it (`file/upgrade.rs`).
//!
//! Invariant: a write that was answered as done is on disk after any crash, and every listener was
//! called before the answer. No reader sees what is not on disk yet.

mod cache;
mod codec;
mod commit_feed;
mod context;
mod core;
mod dependency;
mod event;
mod file;
mod handle;
mod history;
mod index;
mod integrity;
mod list;
mod opening;
mod progress;
mod reader;
mod refusal;
mod registry;
mod space;
mod tx;

pub use cache::Cache;
pub(crate) use cache::CommitNumber;
pub use codec::{decode, encode};
pub(crate) use commit_feed::CommitFeed;
pub(crate) use dependency::Dependency;
pub use dependency::DependencyRecorder;
pub(crate) use event::Tombstone;
pub use event::{Event, Phase};
pub(crate) use file::manifest::Manifest;
pub use file::open::{NEWEST, beside};
pub(crate) use file::open::{ReservedName, hold, is_held, sync_directory};
pub use file::open_error::OpenError;
pub(crate) use file::private_file::{clear, create_private, is_one};
pub(crate) use file::restoration::Restoration;
pub use handle::Store;
pub use history::log::Retention;
pub use history::verification::HistoryAnchor;
pub(crate) use history::verification::{Reach, Verified};
pub use index::{IndexCode, code as index_code};
pub(crate) use integrity::{Finding, Position};
pub use integrity::{Report, Unreadable};
pub(crate) use list::ids::Ids;
pub use list::plan::{Candidates, ListPlan, Scope};
pub use opening::{OpenStore, Options};
pub use progress::Progress;
pub(crate) use reader::Reader;
pub use registry::{DeleteRule, KindEntry};
pub(crate) use space::free_bytes;
pub(crate) use tx::edit::check_every;
pub use tx::read::Read;
pub use tx::write::Tx;
