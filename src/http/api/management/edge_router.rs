//! Operations on edge routers beyond the generic ones.

use crate::{
    change::edge_router,
    entity::{EdgeRouter, Id},
    error::Result,
    http::{answer::Done, call::Call},
};

/// POST /edge-routers/{id}/re-enroll
pub(crate) async fn re_enroll(call: Call, id: Id<EdgeRouter>) -> Result<Done> {
    call.changes.run(move |change| edge_router::re_enroll(change, &id)).await.map(|()| Done)
}
