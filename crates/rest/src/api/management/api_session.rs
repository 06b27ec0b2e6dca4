//! API sessions as shown to administrators: with the last activity, which is in memory.

use model::{
    entity::{ApiSession, Entity, FilterNames, Id, Record, TypedLookup},
    error::Result,
};
use policy::authentication::Sessions;
use store::{Read, Scope};

use crate::{
    answer::Tagged,
    call::Call,
    conditional::entity_tag,
    envelope::{Detail, detail as seen},
    extractor::Query,
    list_body::{StreamedList, listed},
    listing::Listing,
};

type ShownSession = Detail<<ApiSession as Entity>::View>;

fn render(tx: &Read<'_>, sessions: &Sessions, record: &Record<ApiSession>) -> Result<ShownSession> {
    let mut session = seen(record, tx)?;
    session.view.cached_last_activity_at = sessions.last_activity(record);
    Ok(session)
}

/// GET /api-sessions
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<ShownSession>> {
    let sessions = call.state.logins.sessions.clone();
    listed(
        &call,
        listing,
        FilterNames::ALL,
        |_| Ok(Scope::All),
        move |tx, record| render(tx, &sessions, record),
    )
    .await
}

/// GET /api-sessions/{id}
pub(crate) async fn detail(call: Call, id: Id<ApiSession>) -> Result<Tagged<ShownSession>> {
    call.state.store.read(|tx| {
        let record = tx.get(&id)?;
        Ok(Tagged {
            data: render(tx, &call.state.logins.sessions, &record)?,
            tag: entity_tag(&record)?,
        })
    })
}
