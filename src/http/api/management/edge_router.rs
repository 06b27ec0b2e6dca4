//! Operations on edge routers beyond the generic ones.

use crate::{
    change::edge_router,
    entity::{EdgeRouter, Id},
    error::Result,
    http::{
        answer::Done,
        call::Call,
        preview::{Outcome, Preview},
    },
};

/// POST /edge-routers/{id}/re-enroll
pub(crate) async fn re_enroll(call: Call, id: Id<EdgeRouter>, preview: Preview) -> Result<Outcome<Done>> {
    preview.change(&call, move |change| edge_router::re_enroll(change, &id).map(|()| Done)).await
}
