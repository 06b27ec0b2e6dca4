//! Transit routers, under both of their paths. Edge routers are listed among them, and can be
//! deleted but not changed there.

use model::{
    entity::{
        EdgeRouter, Entity, FilterNames, Id, TransitRouter, TypedLookup, filterable, missing,
        transit_router_view::View,
    },
    error::{Error, Refusal, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Ids, ListPlan, Read, Scope};

use crate::{
    answer::{Edited, NoData, Tagged},
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    conditional::entity_tag,
    crud,
    envelope::{Detail, Pagination, detail as seen},
    extractor::{IfMatch, Patch, Query, Replace},
    list_body::{StreamedList, joined},
    listing::Listing,
    permission::Permission::Admin,
    route::Routes,
};

/// The rows of one path.
pub(crate) fn routes(routes: Routes, path: &str) -> Routes {
    let one = format!("{path}/{{id}}");
    routes
        .get(path, Admin, list)
        .summary("All routers: transit routers and edge routers.")
        .post(path, Admin, crud::create::<TransitRouter>)
        .summary("Creates a transit router, and the enrollment for its certificates.")
        .get(one.as_str(), Admin, detail)
        .summary("One router of either kind.")
        .put(one.as_str(), Admin, replace)
        .summary("Replaces the name and tags of a transit router, and those of its other members that the body contains.")
        .refuses(&[409])
        .patch(one.as_str(), Admin, patch)
        .summary("Changes some members of a transit router.")
        .refuses(&[409])
        .delete(one, Admin, delete)
        .summary("Deletes a router of either kind.")
        .refuses(&[409])
}

fn find(tx: &Read<'_>, id: &Id<TransitRouter>) -> Result<Option<Detail<View>>> {
    match tx
        .find(&edge_router(id))?
        .map(TransitRouter::of_edge_router)
    {
        Some(router) => Ok(Some(Detail::new(
            &router,
            View::of_edge_router(&router, tx),
        ))),
        None => tx.find(id)?.map(|router| seen(&router, tx)).transpose(),
    }
}

fn edge_router(id: &Id<TransitRouter>) -> Id<EdgeRouter> {
    Id::from_text(id.as_str())
}

/// A function that finds a router of either kind and returns its view.
type Find<V> = fn(&Read<'_>, &Id<TransitRouter>) -> Result<Option<Detail<V>>>;

/// A list of the routers of both kinds, each shown by `find`.
///
/// # Errors
/// The filter or the sort is invalid, or a record cannot be read.
pub(crate) async fn listed<V: Serialize + JsonSchema + Send + 'static>(
    call: &Call,
    listing: Listing,
    find: Find<V>,
) -> Result<StreamedList<Detail<V>>> {
    let find_all = move |tx: &Read<'_>| of_both_kinds(tx, &listing);
    joined(
        call,
        filterable::<TransitRouter>().collect(),
        find_all,
        move |tx, _, part| {
            while let Some(id) = part.next() {
                find(tx, &Id::from_text(id))?.map_or(Ok(()), |router| part.add_value(&router))?;
            }
            Ok(())
        },
    )
    .await
}

/// The ids of the routers of both kinds on a page. All routers are sorted in memory. Each scanning
/// thread does this for at most one request at a time, and a record holds only its tags (bounded by
/// `members` in the configuration) and some short members.
fn of_both_kinds(tx: &Read<'_>, listing: &Listing) -> Result<(Ids, Pagination)> {
    let (query, window) = listing.query(FilterNames::<TransitRouter>::ALL)?;
    let mut routers = Vec::new();
    tx.each::<TransitRouter>(|router| {
        routers.push(router);
        Ok(())
    })?;
    tx.each::<EdgeRouter>(|router| {
        routers.push(TransitRouter::of_edge_router(router));
        Ok(())
    })?;
    let (ids, total) = ListPlan::of(query, window, Scope::All).ids_from(tx, routers);
    Ok((ids, Pagination::of(window, total)))
}

async fn list(call: Call, Query(listing): Query<Listing>) -> Result<StreamedList<Detail<View>>> {
    listed(&call, listing, find).await
}

async fn detail(call: Call, id: Id<TransitRouter>) -> Result<Tagged<Detail<View>>> {
    call.state.store.read(|tx| {
        let edge = tx.find(&edge_router(&id))?;
        let tag = edge.map_or_else(|| entity_tag(&tx.get(&id)?), |edge| entity_tag(&edge))?;
        let data = find(tx, &id)?.ok_or_else(|| missing(TransitRouter::KIND, &id))?;
        Ok(Tagged { data, tag })
    })
}

fn refuse_edge_router(call: &Call, id: &Id<TransitRouter>) -> Result<()> {
    let edge = call.state.store.read(|tx| tx.find(&edge_router(id)))?;
    if edge.is_some() {
        Err(Error::Refused(Refusal::CannotUpdateRouter))
    } else {
        Ok(())
    }
}

async fn replace(
    call: Call,
    id: Id<TransitRouter>,
    known: IfMatch,
    body: Replace<TransitRouter>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    refuse_edge_router(&call, &id)?;
    crud::replace(call, id, known, body, mode).await
}

async fn patch(
    call: Call,
    id: Id<TransitRouter>,
    known: IfMatch,
    body: Patch<TransitRouter>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    refuse_edge_router(&call, &id)?;
    crud::patch(call, id, known, body, mode).await
}

async fn delete(
    call: Call,
    id: Id<TransitRouter>,
    known: IfMatch,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let edge = edge_router(&id);
    let is_edge = call.state.store.read(|tx| tx.find(&edge))?.is_some();
    if is_edge {
        crud::delete(call, edge, known, mode).await
    } else {
        crud::delete(call, id, known, mode).await
    }
}
