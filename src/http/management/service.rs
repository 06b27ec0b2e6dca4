//! Services as administrators list them: as the caller sees each, or below another record.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::{self, Right, Subject},
    entity::{
        Config, Document, EdgeRouter, Entity, FactsExt, Id, Identity, Kind, PolicyType, PostureQueries, Record, Service,
        ServiceEdgeRouterPolicy, ServicePolicy,
    },
    error::{Error, Result},
    http::{
        answer::{Page, Tagged},
        argument::{Query, entity_tag},
        call::Call,
        common::{
            service::{SeenService, ServiceDetail, Usage, Viewer},
            texts::Written,
        },
        envelope::{Detail, detail as seen},
        verbs::{Listing, RoleFilter, of_ids, page},
    },
    store::{Read, Scope},
};

/// Which services, and how they are looked at.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceListing {
    #[serde(flatten)]
    listing: Listing,
    #[serde(flatten)]
    roles: RoleFilter,
    /// Types of settings to show, by id or name, separated by commas; `all` for every one.
    #[serde(default)]
    config_types: Vec<String>,
    /// The list as this identity sees it, by id or name.
    #[serde(default)]
    as_identity: Option<String>,
}

/// GET /services
pub async fn list(call: Call, Query(wanted): Query<ServiceListing>) -> Result<Page<Plain>> {
    let (access, posture, caller) = (call.access.clone(), call.posture.clone(), call.caller()?.clone());
    let own = call.evidence()?;
    call.store
        .scan(move |tx| {
            let other = wanted.as_identity.as_deref().filter(|name| !name.is_empty()).map(|name| named(tx, name)).transpose()?;
            let named: Option<Vec<String>> =
                wanted.config_types.first().filter(|list| !list.is_empty()).map(|list| list.split(',').map(str::to_owned).collect());
            let evidence = match &other {
                Some(identity) => posture.evidence(identity.id.as_str(), None).seen_by(&identity.state.sdk_info),
                None => own,
            };
            let (identity, types) = (other.as_ref().unwrap_or(&caller.identity), named.unwrap_or_else(|| caller.config_types()));
            let viewer = Viewer::new(tx, &access, evidence, identity, &types)?;
            // Somebody else's list has what that one sees in it, and no more.
            let usable = other.as_ref().filter(|other| !other.is_admin()).map(|_| viewer.usable());
            let by_roles = wanted.roles.ids(&access, Subject::Service)?;
            let is_by_roles = by_roles.is_some();
            let ids = match (usable, by_roles) {
                (Some(usable), Some(ids)) => Some(ids.into_iter().filter(|id| usable.binary_search(id).is_ok()).collect()),
                (some, others) => some.or(others),
            };
            let scope = ids.as_deref().map_or(Scope::All, of_ids);
            // Clients know a list by roles as one that is about nobody in particular.
            let show = |record: &_| {
                if is_by_roles { plain(record, tx) } else { Ok(Detail::new(record, viewer.see(record)?.view.into())) }
            };
            page::<Service, _>(tx, &wanted.listing, scope, show)
        })
        .await
}

/// An identity by id or name.
fn named(tx: &Read<'_>, name: &str) -> Result<Record<Identity>> {
    let found = tx.find_named::<Identity>(name)?;
    found.ok_or_else(|| Error::invalid("asIdentity", "no such identity", name))
}

/// GET /services/{id}
pub async fn detail(call: Call, id: Id<Service>) -> Result<Tagged<ServiceDetail>> {
    let caller = call.caller()?;
    call.store.read(|tx| {
        let types = caller.config_types();
        let service = tx.get(&id)?;
        let data = Viewer::new(tx, &call.access, call.evidence()?, &caller.identity, &types)?.see(&service)?;
        Ok(Tagged { data, tag: entity_tag(&service)? })
    })
}

/// Which right a list below a service or an identity is about.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RightListing {
    #[serde(flatten)]
    listing: Listing,
    /// Both unless set.
    #[serde(default)]
    #[schemars(with = "WantedRight")]
    policy_type: Option<WantedRight>,
}

/// A right by name.
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

/// A service as lists show it. By roles and below other records, what it is for a caller stays null: these are about nobody in particular.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListedService")]
pub struct Listed {
    #[serde(flatten)]
    of: <Service as Entity>::View,
    #[schemars(with = "Option<BTreeMap<String, BTreeMap<String, serde_json::Value>>>")]
    config: Option<BTreeMap<String, Document>>,
    permissions: Option<Vec<PolicyType>>,
    posture_queries: Option<Vec<Written<PostureQueries>>>,
}

type Plain = Detail<Listed>;

impl From<SeenService> for Listed {
    fn from(SeenService { of, usage }: SeenService) -> Self {
        let Usage { config, permissions, posture_queries } = usage;
        Self { of, config: Some(config), permissions: Some(permissions), posture_queries: Some(posture_queries) }
    }
}

fn plain(record: &Record<Service>, tx: &Read<'_>) -> Result<Plain> {
    let of = Service::view(record, tx)?;
    Ok(Detail::new(record, Listed { of, config: None, permissions: None, posture_queries: None }))
}

/// GET /identities/{id}/services
pub async fn of_identity(call: Call, id: Id<Identity>, Query(wanted): Query<RightListing>) -> Result<Page<Plain>> {
    let rights = wanted.rights();
    let ids = call.access.ask(|engine| {
        let rights: Vec<_> = rights.into_iter().map(|right| engine.rights(id.as_str()).to(right).clone()).collect();
        let rows = rights.into_iter().fold(Default::default(), |all: roaring::RoaringBitmap, some| all | some);
        engine.subjects(Subject::Service, rows).in_order().map(|(_, id)| id.to_string()).collect::<Vec<_>>()
    });
    call.store.scan(move |tx| page::<Service, _>(tx, &wanted.listing, of_ids(&ids), |record| plain(record, tx))).await
}

/// GET /services/{id}/identities
pub async fn identities(
    call: Call,
    id: Id<Service>,
    Query(wanted): Query<RightListing>,
) -> Result<Page<Detail<<Identity as Entity>::View>>> {
    let rights = wanted.rights();
    let mut ids: Vec<String> = call.access.ask(|engine| {
        let of = |right| engine.identities(id.as_str(), right).in_order().map(|(_, id)| id.to_string()).collect::<Vec<_>>();
        rights.into_iter().flat_map(of).collect()
    });
    ids.sort_unstable();
    ids.dedup();
    call.store.scan(move |tx| page::<Identity, _>(tx, &wanted.listing, of_ids(&ids), |record| seen(record, tx))).await
}

async fn below(call: Call, kind: Kind, id: String, listing: Listing) -> Result<Page<Plain>> {
    let ids = access::related(&call.access, kind, &id, Service::KIND);
    call.store.scan(move |tx| page::<Service, _>(tx, &listing, of_ids(&ids), |record| plain(record, tx))).await
}

/// GET /configs/{id}/services: those that name the config. An unknown config has none.
pub async fn of_config(call: Call, id: Id<Config>, Query(listing): Query<Listing>) -> Result<Page<Plain>> {
    let list = move |tx: &Read<'_>| {
        let scope = Scope::Having { field: "configs", value: id.as_str() };
        page::<Service, _>(tx, &listing, scope, |record| plain(record, tx))
    };
    call.store.scan(list).await
}

/// GET /edge-routers/{id}/services
pub async fn of_edge_router(call: Call, id: Id<EdgeRouter>, Query(listing): Query<Listing>) -> Result<Page<Plain>> {
    below(call, EdgeRouter::KIND, id.into_text(), listing).await
}

/// GET /service-policies/{id}/services
pub async fn of_service_policy(call: Call, id: Id<ServicePolicy>, Query(listing): Query<Listing>) -> Result<Page<Plain>> {
    below(call, ServicePolicy::KIND, id.into_text(), listing).await
}

/// GET /service-edge-router-policies/{id}/services
pub async fn of_service_edge_router_policy(
    call: Call,
    id: Id<ServiceEdgeRouterPolicy>,
    Query(listing): Query<Listing>,
) -> Result<Page<Plain>> {
    below(call, ServiceEdgeRouterPolicy::KIND, id.into_text(), listing).await
}
