//! Services in the management interface: as shown to one identity, or below another record.

use std::collections::BTreeMap;

use model::{
    entity::{
        Config, Document, EdgeRouter, Entity, FilterNames, Id, Identity, Kind, PolicyType,
        PostureQueries, Record, Service, ServiceEdgeRouterPolicy, ServicePolicy, TypedLookup,
    },
    error::Result,
};
use policy::access::{self, PolicyEntityKind, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Read, Scope};

use crate::{
    answer::Tagged,
    api::{
        client::service_list::{self, ServiceListRequest},
        common::service::{ServiceDetail, ViewPlan, Viewer},
    },
    cache::json_cache::CachedJson,
    call::Call,
    conditional::entity_tag,
    crud::RoleFilter,
    envelope::{Detail, detail as seen},
    extractor::Query,
    list_body::{StreamedList, listed},
    listing::Listing,
};

/// The parameters of a list of services.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceListing {
    #[serde(flatten)]
    listing: Listing,
    #[serde(flatten)]
    roles: RoleFilter,
    /// The config types to show, by id or name, separated by commas; `all` for every type.
    #[serde(default)]
    config_types: Vec<String>,
    /// Shows the list as this identity sees it, by id or name.
    #[serde(default)]
    as_identity: Option<String>,
}

/// GET /services
pub(crate) async fn list(
    call: Call,
    Query(wanted): Query<ServiceListing>,
) -> Result<StreamedList<PlainService>> {
    let ServiceListing {
        listing,
        roles,
        config_types,
        as_identity,
    } = wanted;
    let named = config_types.first().filter(|list| !list.is_empty());
    let types = match named {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => call.caller()?.config_types(),
    };
    // Clients expect that a list filtered by roles lacks the members that depend on a viewer.
    let hides_usage = roles.is_some();
    service_list::list(
        &call,
        ServiceListRequest {
            listing,
            roles,
            names: FilterNames::ALL,
            types,
            as_identity,
            hides_usage,
        },
    )
    .await
}

/// GET /services/{id}
pub(crate) async fn detail(call: Call, id: Id<Service>) -> Result<Tagged<ServiceDetail>> {
    let caller = call.caller()?;
    call.state.store.read(|tx| {
        let service = tx.get(&id)?;
        let plan = ViewPlan::new(
            tx,
            &call.state.access,
            call.evidence()?,
            caller.identity.clone(),
            &caller.config_types(),
        )?;
        let data = Viewer::new(tx, &call.state.access, &plan).render(&service)?;
        Ok(Tagged {
            data,
            tag: entity_tag(&service)?,
        })
    })
}

/// The parameters of a list below a service or an identity.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RightListing {
    #[serde(flatten)]
    listing: Listing,
    /// Dial or bind; both by default.
    #[serde(default)]
    #[schemars(with = "WantedRight")]
    policy_type: Option<WantedRight>,
}

/// A right.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WantedRight {
    Dial,
    Bind,
}

impl RightListing {
    fn rights(&self) -> Vec<Right> {
        match self.policy_type {
            None => vec![Right::Dial, Right::Bind],
            Some(WantedRight::Dial) => vec![Right::Dial],
            Some(WantedRight::Bind) => vec![Right::Bind],
        }
    }
}

/// A service in a list. In lists by roles and below other records, the members that depend on a
/// viewer are null or empty.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListedService")]
pub(crate) struct Listed {
    #[serde(flatten)]
    of: <Service as Entity>::View,
    #[schemars(with = "Option<BTreeMap<String, BTreeMap<String, serde_json::Value>>>")]
    config: Option<BTreeMap<String, Document>>,
    permissions: Option<Vec<PolicyType>>,
    posture_queries: Vec<CachedJson<PostureQueries>>,
}

type PlainService = Detail<Listed>;

fn plain(record: &Record<Service>, tx: &Read<'_>) -> Result<PlainService> {
    let of = Service::view(record, tx)?;
    Ok(Detail::new(
        record,
        Listed {
            of,
            config: None,
            permissions: None,
            posture_queries: Vec::new(),
        },
    ))
}

/// GET /identities/{id}/services
pub(crate) async fn of_identity(
    call: Call,
    id: Id<Identity>,
    Query(wanted): Query<RightListing>,
) -> Result<StreamedList<PlainService>> {
    let rights = wanted.rights();
    let ids = call.state.access.ask(|engine| {
        let rights: Vec<_> = rights
            .into_iter()
            .map(|right| engine.rights(id.as_str()).to(right).clone())
            .collect();
        let rows = rights
            .into_iter()
            .fold(Default::default(), |all: roaring::RoaringBitmap, some| {
                all | some
            });
        engine
            .subjects(PolicyEntityKind::Service, rows)
            .in_order()
            .map(|(_, id)| id.to_string())
            .collect::<Vec<_>>()
    });
    listed(
        &call,
        wanted.listing,
        FilterNames::ALL,
        |_| Ok(Scope::Ids(ids)),
        |tx, record| plain(record, tx),
    )
    .await
}

/// GET /services/{id}/identities
pub(crate) async fn identities(
    call: Call,
    id: Id<Service>,
    Query(wanted): Query<RightListing>,
) -> Result<StreamedList<Detail<<Identity as Entity>::View>>> {
    let rights = wanted.rights();
    let mut ids: Vec<String> = call.state.access.ask(|engine| {
        let of = |right| {
            engine
                .identities(id.as_str(), right)
                .in_order()
                .map(|(_, id)| id.to_string())
                .collect::<Vec<_>>()
        };
        rights.into_iter().flat_map(of).collect()
    });
    ids.sort_unstable();
    ids.dedup();
    listed(
        &call,
        wanted.listing,
        FilterNames::ALL,
        |_| Ok(Scope::Ids(ids)),
        |tx, record| seen::<Identity>(record, tx),
    )
    .await
}

async fn below(
    call: Call,
    kind: Kind,
    id: String,
    listing: Listing,
) -> Result<StreamedList<PlainService>> {
    let ids = access::related(&call.state.access, kind, &id, Service::KIND);
    listed(
        &call,
        listing,
        FilterNames::ALL,
        |_| Ok(Scope::Ids(ids)),
        |tx, record| plain(record, tx),
    )
    .await
}

/// GET /configs/{id}/services: the services that have the config. Empty for an unknown config.
pub(crate) async fn of_config(
    call: Call,
    id: Id<Config>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<PlainService>> {
    let wanted = Scope::Having {
        field: "configs",
        value: id.into_text(),
    };
    listed(
        &call,
        listing,
        FilterNames::ALL,
        |_| Ok(wanted),
        |tx, record| plain(record, tx),
    )
    .await
}

/// GET /edge-routers/{id}/services
pub(crate) async fn of_edge_router(
    call: Call,
    id: Id<EdgeRouter>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<PlainService>> {
    below(call, EdgeRouter::KIND, id.into_text(), listing).await
}

/// GET /service-policies/{id}/services
pub(crate) async fn of_service_policy(
    call: Call,
    id: Id<ServicePolicy>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<PlainService>> {
    below(call, ServicePolicy::KIND, id.into_text(), listing).await
}

/// GET /service-edge-router-policies/{id}/services
pub(crate) async fn of_service_edge_router_policy(
    call: Call,
    id: Id<ServiceEdgeRouterPolicy>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<PlainService>> {
    below(call, ServiceEdgeRouterPolicy::KIND, id.into_text(), listing).await
}
