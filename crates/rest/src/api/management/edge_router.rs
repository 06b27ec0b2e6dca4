//! Operations on edge routers beyond the generic ones.

use model::{
    entity::{EdgeRouter, Id},
    error::Result,
};
use policy::change::edge_router;

use crate::{
    answer::NoData,
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
};

/// POST /edge-routers/{id}/re-enroll
pub(crate) async fn re_enroll(
    call: Call,
    id: Id<EdgeRouter>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    mode.run(&call, move |change| {
        edge_router::re_enroll(change, &id).map(|()| NoData)
    })
    .await
}
