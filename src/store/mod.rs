//! Records in one file: typed transactions over redb, one writer with group commit, indexes, references, lists.
//!
//! Not here: any kind by name (the list of [`KindEntry`]s is handed in), who may do what, what else happens when a record changes.
//! Integrity check and repair (`integrity/`) and snapshots (`file/snapshot.rs`) go over the same list.
//!
//! Start with [`Store::write`] and [`Store::read`], then `tx/write.rs` and `tx/read.rs` for what a transaction can do, `tx/writer.rs` for how
//! jobs become durable, `index.rs` and `codec.rs` for what lies on disk.
//!
//! A change that is only looked at never comes to the writer (`tx/dry_run.rs`).
//!
//! A disk that fails is not the end: nothing is written until it works again, and what was on disk is read meanwhile (`file/backend.rs`,
//! `file/recovery.rs`).
//!
//! What ends in very large numbers is over at once and deleted some at a time (`tx/tombstone.rs`). A file of an earlier format becomes one of ours
//! before anything is looked up in it or written to it (`file/upgrade.rs`).
//!
//! Invariant: who is told that a write is done finds it on disk after any crash, and every listener knew of it before. What is not
//! on disk yet, no reader sees.

mod cache;
mod codec;
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
mod tx;

pub use cache::{Cache, CommitNumber};
pub use codec::{decode, encode};
pub use dependency::{Dependency, DependencyRecorder};
pub use event::{Event, Phase, Tombstone, Version};
pub use file::manifest::Manifest;
pub use file::open::{NEWEST, beside, hold, reserve, sync_directory, unnamed};
pub use file::open_error::OpenError;
pub use file::private_file::{clear, create_private, is_one};
pub use handle::Store;
pub use history::log::{Anchor, Retention, Verified};
pub use index::{Code, IndexEntry, code as index_code, entries};
pub use integrity::{Finding, Position, Report, Unreadable};
pub use list::{
    ids::{Ids, Page},
    plan::{Candidates, Plan, Scope},
};
pub use opening::{OpenStore, Options};
pub use progress::Progress;
pub use reader::Reader;
pub use registry::{KindEntry, ReferenceEdge, Rule, Target};
pub use tx::read::Read;
pub use tx::{edit::check_every, write::Tx};
