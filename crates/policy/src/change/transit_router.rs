//! Transit routers: the enrollment of a new one.

use model::{
    entity::{Enrollment, Record, Tags, TransitRouter},
    error::Result,
};

use super::{Change, Lifecycle, enrollment, ids::short_id};

impl Lifecycle for TransitRouter {
    fn new_id() -> String {
        short_id()
    }

    fn created(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        let expires_at = change.now().plus(change.context.router_enrollment);
        let wanted = change.sign(Enrollment::of_transit_router(record.id.clone()), expires_at)?;
        enrollment::issue(wanted, Tags::default(), change).map(|_| ())
    }
}
