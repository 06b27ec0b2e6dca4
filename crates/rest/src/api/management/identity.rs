//! Operations on identities beyond the generic ones.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    entity::{
        Config, EdgeRouter, Enrollment, EntityRef, Id, Identity, Service, Tags, TypedLookup,
        enrollment::Method, identity::Override,
    },
    error::{Error, Result},
};
use policy::{
    access::Right,
    authentication::mfa,
    change::{self, Change, Draft, Lifecycle, enrollment},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Ids, Read};

use crate::{
    answer::{CreatedLocation, Edited, NoData},
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    crud,
    envelope::Pagination,
    extractor::{Body, IfMatch, OptionalBody, Patch},
    list_body::{self, ObjectWithList, StreamedList, joined},
    list_part::Part,
};

/// A new identity.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Identity")]
pub(crate) struct NewIdentity {
    #[serde(flatten)]
    draft: Draft<Identity>,
    /// The enrollment of the identity; of several methods only the first is used.
    #[serde(default)]
    #[schemars(with = "NewEnrollment")]
    enrollment: Option<NewEnrollment>,
}

/// The enrollment methods.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("examples" = [{ "ott": true }]))]
pub(crate) struct NewEnrollment {
    /// By a one-time token, for a certificate of this controller.
    ott: bool,
    /// By a one-time token and a certificate of the certificate authority with this id.
    ottca: String,
    /// By a one-time token, for a password with this user name.
    updb: String,
}

impl NewEnrollment {
    /// The enrollment for an identity, if one is requested.
    fn of(self, identity: Id<Identity>) -> Option<Enrollment> {
        match self {
            Self { ott: true, .. } => Some(Enrollment::of_identity(Method::Ott, identity)),
            Self { ottca, .. } if !ottca.is_empty() => Some(Enrollment {
                ca_id: Some(Id::from_text(ottca)),
                ..Enrollment::of_identity(Method::OttCa, identity)
            }),
            Self { updb, .. } if !updb.is_empty() => Some(Enrollment {
                username: Some(updb),
                ..Enrollment::of_identity(Method::Updb, identity)
            }),
            _ => None,
        }
    }
}

/// POST /identities
pub(crate) async fn create(
    call: Call,
    Body(new): Body<NewIdentity>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<CreatedLocation>> {
    let id = Id::from_text(Identity::new_id());
    let sign = |wanted| {
        call.changes
            .sign(wanted, call.now.plus(call.changes.identity_enrollment()))
    };
    let enrollment = new
        .enrollment
        .and_then(|how| how.of(id.clone()))
        .map(sign)
        .transpose()?;
    let create = move |change: &Change<'_, '_>| {
        let created = CreatedLocation::new(&id);
        change.create_as(id, new.draft)?;
        enrollment
            .map(|wanted| enrollment::issue(wanted, Tags::default(), change))
            .transpose()?;
        Ok(created)
    };
    mode.run(&call, create).await
}

/// PATCH /identities/{id}; `type` is accepted and ignored.
pub(crate) async fn patch(
    call: Call,
    id: Id<Identity>,
    known: IfMatch,
    mut patch: Patch<Identity>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    patch.fixed = &["type"];
    crud::patch(call, id, known, patch, mode).await
}

/// How long an identity stays disabled.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Disable {
    /// Zero: until it is enabled again. A negative number counts as zero; a preview rejects it.
    pub duration_minutes: i64,
}

/// POST /identities/{id}/disable
pub(crate) async fn disable(
    call: Call,
    id: Id<Identity>,
    Body(how): Body<Disable>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    // Other clients send negative numbers. Who asks for a preview, as the page does, is told
    // before.
    if mode == ChangeMode::Preview && how.duration_minutes < 0 {
        return Err(Error::invalid(
            "durationMinutes",
            "must be 0 or more",
            how.duration_minutes.to_string(),
        ));
    }
    let until = (how.duration_minutes > 0).then(|| call.now.plus_minutes(how.duration_minutes));
    mode.run(&call, move |change| {
        change::identity::disable(change, &id, until).map(|()| NoData)
    })
    .await
}

/// POST /identities/{id}/enable
pub(crate) async fn enable(
    call: Call,
    id: Id<Identity>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let identity = id.clone();
    let outcome = mode
        .run(&call, move |change| {
            change::identity::enable(change, &identity).map(|()| NoData)
        })
        .await?;
    if outcome.is_written() {
        call.state.logins.passwords.forgive(&id);
    }
    Ok(outcome)
}

/// DELETE /identities/{id}/mfa
pub(crate) async fn remove_mfa(
    call: Call,
    id: Id<Identity>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let identity = id.clone();
    let outcome = mode
        .run(&call, move |change| {
            mfa::remove_without_code(change, &identity).map(|()| NoData)
        })
        .await?;
    if outcome.is_written() {
        call.state.logins.codes.forgive(&id);
    }
    Ok(outcome)
}

/// Separates the two ids of a pair; no id contains it.
const BETWEEN: char = '\n';

/// A config that an identity has for a service in place of the service's own.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceConfigDetail {
    config: EntityRef,
    config_id: Id<Config>,
    service: EntityRef,
    service_id: Id<Service>,
}

/// GET /identities/{id}/service-configs
pub(crate) async fn service_configs(
    call: Call,
    id: Id<Identity>,
) -> Result<StreamedList<ServiceConfigDetail>> {
    let find = move |tx: &Read<'_>| {
        let mut pairs = Ids::default();
        for Override { service, config } in tx.get(&id)?.state.service_configs {
            pairs.push(&format!("{service}{BETWEEN}{config}"));
        }
        let count = pairs.len() as i64;
        Ok((
            pairs,
            Pagination {
                limit: count,
                offset: 0,
                total_count: count,
            },
        ))
    };
    let write = |tx: &Read<'_>, _, part: &mut Part<'_>| {
        while let Some(pair) = part.next() {
            let Some((service, config)) = pair.split_once(BETWEEN) else {
                continue;
            };
            let (service_id, config_id) = (
                Id::<Service>::from_text(service),
                Id::<Config>::from_text(config),
            );
            // Records deleted since the answer began are left out.
            let (Some(service), Some(config)) = (tx.find(&service_id)?, tx.find(&config_id)?)
            else {
                continue;
            };
            let (config, service) = (
                EntityRef::of(&config, &config.spec.name),
                EntityRef::of(&service, &service.spec.name),
            );
            part.add_value(&ServiceConfigDetail {
                config,
                config_id,
                service,
                service_id,
            })?;
        }
        Ok(())
    };
    joined(&call, Vec::new(), find, write).await
}

/// A config for a service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceConfigAssign {
    config_id: Id<Config>,
    service_id: Id<Service>,
}

impl ServiceConfigAssign {
    fn pair(&self) -> Override {
        Override {
            service: self.service_id.clone(),
            config: self.config_id.clone(),
        }
    }
}

/// POST /identities/{id}/service-configs
pub(crate) async fn assign_service_configs(
    call: Call,
    id: Id<Identity>,
    Body(pairs): Body<Vec<ServiceConfigAssign>>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let assign = move |change: &Change<'_, '_>| {
        let mut identity = change.get(&id)?;
        let mut named = BTreeMap::<_, BTreeSet<_>>::new();
        for pair in &pairs {
            change.get(&pair.service_id)?;
            let of = change.get(&pair.config_id)?.spec.config_type_id;
            if !named.entry(&pair.service_id).or_default().insert(of) {
                return Err(Error::invalid(
                    "configId",
                    "assigns two configs of one type to the same service",
                    pair.config_id.as_str(),
                ));
            }
        }
        // One config per type and service: a new one replaces an earlier one.
        let mut kept = Vec::new();
        for old in std::mem::take(&mut identity.state.service_configs) {
            let goes = match named.get(&old.service) {
                Some(types) => types.contains(&change.get(&old.config)?.spec.config_type_id),
                None => false,
            };
            kept.extend((!goes).then_some(old));
        }
        kept.extend(pairs.iter().map(ServiceConfigAssign::pair));
        identity.state.service_configs = kept;
        change.put(identity).map(|()| NoData)
    };
    mode.run(&call, assign).await
}

/// DELETE /identities/{id}/service-configs
pub(crate) async fn remove_service_configs(
    call: Call,
    id: Id<Identity>,
    OptionalBody(pairs): OptionalBody<Vec<ServiceConfigAssign>>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let pairs = pairs.unwrap_or_default();
    let remove = move |change: &Change<'_, '_>| {
        let mut identity = change.get(&id)?;
        for pair in &pairs {
            change.get(&pair.service_id)?;
            change.get(&pair.config_id)?;
        }
        let removed: BTreeSet<_> = pairs
            .iter()
            .map(|pair| (&pair.service_id, &pair.config_id))
            .collect();
        identity.state.service_configs.retain(|pair| {
            !removed.is_empty() && !removed.contains(&(&pair.service, &pair.config))
        });
        change.put(identity).map(|()| NoData)
    };
    mode.run(&call, remove).await
}

/// Whether an identity may use a service, and the routers of both.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyAdvice {
    identity: EntityRef,
    identity_id: Id<Identity>,
    service: EntityRef,
    service_id: Id<Service>,
    is_bind_allowed: bool,
    is_dial_allowed: bool,
    /// The number of edge routers that the identity may use.
    identity_router_count: u32,
    /// The number of edge routers over which the service may be reached.
    service_router_count: u32,
    /// The edge routers in both sets.
    // Must stay the last member: the list is sent in parts.
    common_routers: Vec<AdvisedRouter>,
}

/// A router that identity and service share.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RouterEntityRef")]
pub(crate) struct AdvisedRouter {
    #[serde(flatten)]
    of: EntityRef,
    is_online: bool,
}

/// GET /identities/{id}/policy-advice/{serviceId}
pub(crate) async fn policy_advice(
    call: Call,
    id: Id<Identity>,
    service_id: Id<Service>,
) -> Result<ObjectWithList<PolicyAdvice, AdvisedRouter>> {
    let (identity, service) = call
        .state
        .store
        .read(|tx| Ok((tx.get(&id)?, tx.get(&service_id)?)))?;
    let asked = call.state.access.ask(|engine| {
        let mut common = Ids::default();
        let routers = engine.common_edge_routers(id.as_str(), service_id.as_str());
        for (_, id) in routers.in_order() {
            common.push(id);
        }
        let may = |right| engine.may(id.as_str(), service_id.as_str(), right);
        let counts = (
            engine.edge_routers_of_identity(id.as_str()).len(),
            engine.edge_routers_of_service(service_id.as_str()).len(),
        );
        (common, may(Right::Bind), may(Right::Dial), counts)
    });
    let (common, is_bind_allowed, is_dial_allowed, (identity_routers, service_routers)) = asked;
    let total_count = common.len() as i64;
    let all = Pagination {
        limit: total_count,
        offset: 0,
        total_count,
    };
    let write = |tx: &Read<'_>, _, part: &mut Part<'_>| {
        list_body::viewed::<EdgeRouter, _>(tx, part, |router| {
            let is_online = model::entity::Lookup::router_info(tx, router.id.as_str()).is_some();
            Ok(AdvisedRouter {
                of: EntityRef::of(router, &router.spec.name),
                is_online,
            })
        })
    };
    let entries = joined(&call, Vec::new(), move |_| Ok((common, all)), write).await?;
    let data = PolicyAdvice {
        identity: EntityRef::of(&identity, &identity.spec.name),
        identity_id: id,
        service: EntityRef::of(&service, &service.spec.name),
        service_id,
        is_bind_allowed,
        is_dial_allowed,
        identity_router_count: identity_routers as u32,
        service_router_count: service_routers as u32,
        common_routers: Vec::new(),
    };
    Ok(ObjectWithList { data, entries })
}
