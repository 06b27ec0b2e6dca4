//! What else happens when a record of a kind is written.

use model::{
    entity::{Entity, Record},
    error::Result,
};

use super::{changes::Change, ids::long_id};

/// What a kind does besides being stored. Each step is part of the transaction that calls it, and
/// may reject the change.
pub trait Lifecycle: Entity {
    /// The id of a new record: 22 letters and digits that ascend with time.
    fn new_id() -> String {
        long_id()
    }

    /// Called before a new record is stored; may alter it.
    ///
    /// # Errors
    /// A rule is broken.
    fn creating(_record: &mut Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Called after a new record was stored.
    ///
    /// # Errors
    /// A further write fails.
    fn created(_record: &Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Called before an edited record is stored; may alter it.
    ///
    /// # Errors
    /// A rule is broken.
    fn edited(
        _old: &Record<Self>,
        _new: &mut Record<Self>,
        _change: &Change<'_, '_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Called before a record is deleted.
    ///
    /// # Errors
    /// The record must not be deleted.
    fn deleting(_record: &Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Whether every request to delete a record is rejected.
    fn is_kept(record: &Record<Self>) -> bool {
        record.is_system
    }

    /// Whether the release made a record and nobody has changed it since.
    fn is_factory(_record: &Record<Self>) -> bool {
        false
    }
}
