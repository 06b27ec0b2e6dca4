//! Edge routers as shown to users of services.

use model::{
    entity::{
        EdgeRouter, Entity, FilterNames, Id, Identity, Service, TypedLookup, edge_router::Common,
    },
    error::{Error, Result},
};
use policy::access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Read, Scope};

use super::service::visible;
use crate::{
    call::Call,
    envelope::Detail,
    extractor::{Headers, Query},
    list_body::{ObjectWithList, StreamedList, listed},
    listing::Listing,
};

/// The filterable names of a router.
const FILTER_NAMES: FilterNames<EdgeRouter> = FilterNames::only(&[
    "id",
    "createdAt",
    "updatedAt",
    "tags",
    "name",
    "cost",
    "noTraversal",
    "disabled",
    "connected",
    "online",
]);
/// The filterable names of a router below a service; the list is ordered by id.
const BELOW_SERVICE: FilterNames<EdgeRouter> = FilterNames::only(&[
    "id",
    "name",
    "cost",
    "noTraversal",
    "disabled",
    "connected",
    "online",
]);

/// GET /current-identity/edge-routers; without routers that are not enrolled yet.
pub(crate) async fn of_caller(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<Common>>> {
    let caller = call.caller()?;
    let all = caller.is_admin();
    let ids = access::related(
        &call.state.access,
        Identity::KIND,
        caller.identity.id.as_str(),
        EdgeRouter::KIND,
    );
    let wanted = move |tx: &Read<'_>| {
        let mut enrolled = Vec::new();
        if all {
            tx.each::<EdgeRouter>(|router| {
                enrolled.extend(router.state.is_verified.then(|| router.id.to_string()));
                Ok(())
            })?;
        } else {
            for id in ids {
                let router = tx.find(&Id::<EdgeRouter>::from_text(id))?;
                enrolled.extend(
                    router
                        .filter(|router| router.state.is_verified)
                        .map(|router| router.id.to_string()),
                );
            }
        }
        Ok(Scope::Ids(enrolled))
    };
    listed(&call, listing, &FILTER_NAMES, wanted, |tx, router| {
        Ok(Detail::new(router, Common::of(router, tx)))
    })
    .await
}

/// The token of a service session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SessionToken {
    /// A signed token of a service session. This controller issues none.
    #[serde(default)]
    session_token: Option<String>,
}

/// The routers over which a service is reached.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceEdgeRouters {
    edge_routers: Vec<Common>,
}

/// GET /services/{id}/edge-routers
pub(crate) async fn of_service(
    call: Call,
    id: Id<Service>,
    Query(listing): Query<Listing>,
    Headers(token): Headers<SessionToken>,
) -> Result<ObjectWithList<ServiceEdgeRouters, Common>> {
    if token.session_token.is_some() {
        // This controller issues no such tokens, so any token is rejected like a missing one.
        return Err(Error::Unauthorized { anonymous: true });
    }
    let caller = call.caller()?;
    call.state
        .store
        .read(|tx| visible(&call, caller, tx, &id).map(|_| ()))?;
    let identity = caller.identity.id.as_str();
    let linked = call.state.store.online().linked_to_built_in();
    let ids = call.state.access.ask(|engine| {
        let routers = engine.session_edge_routers(identity, id.as_str(), linked.as_ref());
        routers.in_order().map(|(_, id)| id.to_string()).collect()
    });
    let wanted = |_: &Read<'_>| Ok(Scope::Ids(ids));
    let entries = listed(&call, listing, &BELOW_SERVICE, wanted, |tx, router| {
        Ok(Common::of(router, tx))
    })
    .await?;
    Ok(ObjectWithList {
        data: ServiceEdgeRouters {
            edge_routers: Vec::new(),
        },
        entries,
    })
}
