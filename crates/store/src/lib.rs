//! Records in one file: typed transactions over redb, one writer with group commit, indexes,
//! references, lists. Beside them, in memory, the connections at this moment ([`online`]).
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

#![warn(unreachable_pub)]

mod cache;
mod codec;
mod commit_feed;
mod context;
mod dependency;
mod event;
mod file;
mod handle;
mod history;
mod index;
mod integrity;
mod list;
pub mod online;
mod opening;
mod progress;
mod reader;
mod refusal;
mod registry;
mod space;
mod store_core;
mod tx;

pub use cache::{Cache, CommitNumber};
pub use codec::{decode, encode};
pub use commit_feed::CommitFeed;
pub use dependency::{Dependency, DependencyRecorder};
pub use event::{Event, Phase, Tombstone};
pub use file::manifest::Manifest;
pub use file::names::{ReservedName, beside, sync_directory};
pub use file::open::{NEWEST, hold, is_held};
pub use file::open_error::OpenError;
pub use file::private_file::{clear, create_private, is_one};
pub use file::restoration::Restoration;
pub use handle::Store;
pub use history::log::Retention;
pub use history::verification::{HistoryAnchor, Reach, Verified};
pub use index::{IndexCode, code as index_code};
pub use integrity::{Finding, Position, Report, Unreadable};
pub use list::ids::Ids;
pub use list::list_plan::{Candidates, ListPlan, Scope};
pub use opening::{OpenStore, Options};
pub use progress::Progress;
pub use reader::Reader;
pub use registry::{DeleteRule, KindEntry};
pub use space::free_bytes;
pub use tx::edit::check_every;
pub use tx::read::Read;
pub use tx::write::Tx;
