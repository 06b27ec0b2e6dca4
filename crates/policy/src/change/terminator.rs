//! Terminators: whether one is on an edge router or on a transit router.

use model::{
    entity::{Record, Terminator},
    error::Result,
};

use super::{Change, Lifecycle};

impl Lifecycle for Terminator {
    fn creating(record: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        place(record, change)
    }

    fn edited(_: &Record<Self>, new: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        place(new, change)
    }
}

/// Sets the kind of router that the terminator's reference leads to.
fn place(record: &mut Record<Terminator>, change: &Change<'_, '_>) -> Result<()> {
    record.state.is_on_transit_router = record.spec.find_router(change.tx)?.1;
    Ok(())
}
