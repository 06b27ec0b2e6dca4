//! Method `trott`: a one-time token and two certificate requests become the certificates of a
//! transit router.

use model::{
    entity::{Enrollment, Record, TypedLookup},
    error::Result,
};

use super::{
    context::{EnrollmentContext, EnrollmentRequest, Issued, unknown, use_up},
    router::RouterCsrs,
};
use crate::change::Change;

/// Issues both certificates, records the client certificate at the router and deletes the
/// enrollment.
pub(crate) async fn redeem(
    context: &EnrollmentContext<'_>,
    enrollment: Record<Enrollment>,
    body: &EnrollmentRequest,
) -> Result<Issued> {
    let id = enrollment
        .spec
        .transit_router_id
        .clone()
        .ok_or_else(unknown)?;
    let pair = RouterCsrs::of(body)?
        .of_transit_router(id.as_str())?
        .issue(context)?;
    let given = pair.handed_out(context);
    let work = move |change: &Change<'_, '_>| {
        use_up(change, &enrollment)?;
        let mut router = change.get(&id)?;
        pair.enter(&mut router.state, false);
        change.put(router)
    };
    context.changes.run(work).await?;
    Ok(given)
}
