//! Terminators: which of the two kinds of router one is behind.

use super::{Change, Lifecycle};
use crate::{
    entity::{Record, Terminator},
    error::Result,
};

impl Lifecycle for Terminator {
    fn creating(record: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        place(record, change)
    }

    fn edited(_: &Record<Self>, new: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        place(new, change)
    }
}

/// Its reference leads to the kind of router that it says.
fn place(record: &mut Record<Terminator>, change: &Change<'_, '_>) -> Result<()> {
    record.state.is_on_transit_router = record.spec.find_router(change.tx)?.1;
    Ok(())
}
