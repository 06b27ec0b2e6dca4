//! `overkeep publish` and `unpublish`: a service with its configs and policies, made and removed in
//! one transaction each.
//!
//! `publish.rs` writes a network document and applies it, `unpublish.rs` one that deletes. Both
//! apply exactly what they have planned (`changes.rs`). Start with `publish.rs`.
//!
//! Invariants: `publish` changes no record that exists, and `unpublish` deletes no record without
//! the tag that `publish` gives ([`TAG`]).

mod changes;
mod publish;
mod unpublish;

pub(crate) use publish::Publish;
pub(crate) use unpublish::Unpublish;

use super::failure::CommandError;

/// The tag of the records that were made for a service. Its value is the name of the service.
const TAG: &str = "published";
/// How often a command begins again because somebody else changed the network meanwhile.
const ATTEMPTS: usize = 5;
/// The last line of a preview.
const NOTHING_CHANGED: &str = "nothing was changed";

fn given_up() -> CommandError {
    CommandError::of("others change the network at the same time: nothing was changed; try again")
}
