//! What of earlier runs is deleted.

use model::{
    entity::{EdgeRouter, Record, Terminator, TypedLookup},
    error::Result,
};

use super::control_core::ControlCore;

/// Deletes terminators that earlier runs created for connections. Blocks.
///
/// # Errors
/// The store cannot be read or written.
pub(crate) fn clear(core: &ControlCore) -> Result<()> {
    let mut routers = Vec::new();
    core.network.store().read(|tx| {
        tx.each_readable::<EdgeRouter>(|router| {
            if !router.is_built_in()
                && tx
                    .linked::<Terminator>("router", router.id.as_str())?
                    .iter()
                    .any(Record::is_of_a_connection)
            {
                routers.push(router.id.to_string());
            }
            Ok(())
        })
    })?;
    routers
        .iter()
        .try_for_each(|router| core.network.records.clear(router))
}
