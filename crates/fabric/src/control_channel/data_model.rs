//! The data model of routers from version 1.7 on that host and dial services themselves. They act
//! by it, instead of asking for their services.
//!
//! A router gets only what concerns itself: its identity, the services that it may use with their
//! configs, and what others get without a model: the public keys, and from version 2 on the
//! identities of its SDKs (`told_identities.rs`). Two policies stand for all those that give it its
//! rights.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ::model::{
    clock::Timestamp,
    entity::{
        self, Config, ConfigType, EdgeRouter, Entity, Id, Identity, Record, Service, TypedLookup,
    },
    error::Result,
};
use prost::Message;
use store::{Event as Commit, Read};
use tokio::time::{Instant, sleep, timeout_at};
use wire::{
    control::{
        TextEntry, content,
        model::{
            self, Action, DataState, Event, Model, PolicyType, RelatedType, ServiceConfigs,
            ServiceConfigsEntry, ServicePolicy, ServicePolicyChange,
        },
    },
    frame::Builder,
};

use super::{
    connection::RouterConnection, control_core::ControlCore, hosting_defaults, public_keys,
    told_identities, tunnel_services, tunnel_session,
};

/// Changes within this time are sent together.
const PAUSE: Duration = Duration::from_millis(200);
/// Rights and keys also change with time and without a commit.
const INTERVAL: Duration = Duration::from_secs(60);
/// The name of the sequence that indexes belong to.
const TIMELINE: &str = "overkeep";

/// Records that a committed change may change models. Runs on the writer's thread.
pub(crate) fn on_commit(core: &ControlCore, commit: &Commit) {
    let kinds = [
        EdgeRouter::KIND,
        Service::KIND,
        Config::KIND,
        ConfigType::KIND,
        entity::ServicePolicy::KIND,
    ];
    let is_of_router = || commit.kind == Identity::KIND && core.registry.find(&commit.id).is_some();
    if !core.registry.is_empty() && (kinds.contains(&commit.kind) || is_of_router()) {
        core.changed_models.add_all();
    }
}

/// Sends models to routers when they may have changed, and at least once in each [`INTERVAL`].
/// Never ends.
pub(crate) async fn run(core: Arc<ControlCore>) {
    let mut next = Instant::now() + INTERVAL;
    loop {
        // Changes of some routers must not delay the turn of all.
        drop(timeout_at(next, core.changed_models.added()).await);
        sleep(PAUSE).await;
        let is_all = Instant::now() >= next;
        if is_all {
            next = Instant::now() + INTERVAL;
        }
        let connections = core.changed_models.take(&core.registry, is_all);
        let sending = core.clone();
        let sent = tokio::task::spawn_blocking(move || {
            connections
                .iter()
                .for_each(|connection| send(&sending, connection))
        });
        if let Err(error) = sent.await {
            tracing::warn!(%error, "data models of routers are not sent");
        }
    }
}

/// Counts a heartbeat as activity of the API session of a router that has a data model.
pub(crate) fn keep_open(core: &ControlCore, connection: &Arc<RouterConnection>) {
    let is_open =
        || tunnel_session::keep_open(core, connection) || connection.tunneler.lock().is_none();
    if connection.has_data_model.load(Ordering::Acquire) && !is_open() {
        core.changed_models.add(connection);
    }
}

/// Sends its model to a router that has one, if the router hosts and dials services itself and does
/// not have the same model already.
fn send(core: &ControlCore, connection: &Arc<RouterConnection>) {
    if !connection.has_data_model.load(Ordering::Acquire) {
        return;
    }
    let has_ended = tunnel_session::take_ended(core, connection);
    let events = match events(core, &connection.router) {
        // Its API session has ended and its terminators with it. Nothing tells it so, but it
        // reports them again when it connects again.
        Ok(Some(_)) if has_ended => return connection.close(),
        Ok(Some(events)) => events,
        // A router that has a model loses it.
        Ok(None) if connection.model.load(Ordering::Acquire) != 0 => Vec::new(),
        Ok(None) => return,
        Err(error) => {
            return tracing::warn!(router = %connection.router, %error, "the data model of a router cannot be read");
        }
    };
    let keys = match public_keys::events(core) {
        Ok(keys) => keys,
        Err(error) => {
            return tracing::warn!(router = %connection.router, %error, "the public keys cannot be read");
        }
    };
    let mut state = DataState {
        events: events.into_iter().chain(keys).collect(),
        timeline_id: TIMELINE.into(),
        ..DataState::default()
    };
    let mut hasher = DefaultHasher::new();
    state.encode_to_vec().hash(&mut hasher);
    let hash = hasher.finish().max(1);
    // Held until the model is queued, so that no identity is told before it and is not in it.
    let announced = connection.announced_sessions.lock();
    let takes_identities = told_identities::takes(connection);
    if takes_identities && !announced.has_begun() {
        // The model follows when it has.
        return;
    }
    if connection.model.swap(hash, Ordering::AcqRel) == hash {
        return;
    }
    if takes_identities {
        state.events.extend(told_identities::events(
            connection,
            &announced,
            &core.channel_sessions.read(),
        ));
    }
    // The router compares indexes to find what has changed.
    state.end_index = u64::try_from(core.network.now().millis()).unwrap_or(1);
    connection.send(Builder::new(content::DATA_STATE).body(&state.encode_to_vec()));
}

fn create(model: Model) -> Event {
    Event {
        action: Action::Create.into(),
        is_synthetic: false,
        model: Some(model),
    }
}

/// What makes the model of a router; `None` if it neither hosts nor dials.
fn events(core: &ControlCore, router: &str) -> Result<Option<Vec<Event>>> {
    let (store, now) = (core.network.store(), core.network.now());
    let record = store.read(|tx| tx.find(&Id::<EdgeRouter>::from_text(router)))?;
    if !record.is_some_and(|router| router.spec.is_tunneler_enabled) {
        return Ok(None);
    }
    let held = tunnel_services::held(core, router);
    store.read(|tx| {
        let Some(identity) = tx.find(&Id::<Identity>::from_text(router))? else {
            return Ok(None);
        };
        let mut services = Vec::with_capacity(held.len());
        for (id, _) in &held {
            services.extend(tx.find(&Id::<Service>::from_text(id.as_str()))?);
        }
        let configs = Configs::of(tx, &identity, &services)?;
        let policies = [("Dial", PolicyType::Dial), ("Bind", PolicyType::Bind)]
            .into_iter()
            .flat_map(|(right, kind)| {
                let of_right = held
                    .iter()
                    .filter(|(_, rights)| rights.iter().any(|held| held == right))
                    .map(|(id, _)| id.clone());
                policy(router, right, kind, of_right.collect())
            });
        let policies: Vec<Event> = policies.collect();
        let mut events: Vec<Event> = configs
            .types
            .values()
            .cloned()
            .map(Model::ConfigType)
            .map(create)
            .collect();
        events.extend(configs.all.values().cloned().map(Model::Config).map(create));
        events.push(create(Model::Identity(of_identity(
            &identity, &configs, now,
        ))));
        events.extend(
            services
                .iter()
                .map(of_service)
                .map(Model::Service)
                .map(create),
        );
        events.extend(policies);
        Ok(Some(events))
    })
}

/// A policy that gives a router a right to services.
fn policy(router: &str, right: &str, kind: PolicyType, services: Vec<String>) -> [Event; 3] {
    let id = format!("{router}-{right}");
    let policy = ServicePolicy {
        id: id.clone(),
        name: id.clone(),
        policy_type: kind.into(),
    };
    let related = |related_entity_ids, related_entity_type: RelatedType| ServicePolicyChange {
        policy_id: id.clone(),
        related_entity_ids,
        related_entity_type: related_entity_type.into(),
        add: true,
    };
    let (services, identities) = (
        related(services, RelatedType::Service),
        related(vec![router.to_owned()], RelatedType::Identity),
    );
    [
        Model::ServicePolicy(policy),
        Model::ServicePolicyChange(services),
        Model::ServicePolicyChange(identities),
    ]
    .map(create)
}

fn of_service(service: &Record<Service>) -> model::Service {
    model::Service {
        id: service.id.to_string(),
        name: service.spec.name.clone(),
        encryption_required: service.spec.encryption_required,
        configs: service
            .spec
            .configs
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

fn of_identity(identity: &Record<Identity>, configs: &Configs, now: Timestamp) -> model::Identity {
    let (service_hosting_precedences, service_hosting_costs) = hosting_defaults::hosting(identity);
    let mut own: BTreeMap<String, Vec<TextEntry>> = BTreeMap::new();
    for of_service in &identity.state.service_configs {
        if let Some(config) = configs.all.get(of_service.config.as_str()) {
            own.entry(of_service.service.to_string())
                .or_default()
                .push(TextEntry::new(config.type_id.as_str(), config.id.as_str()));
        }
    }
    let service_configs = own
        .into_iter()
        .map(|(service, configs)| ServiceConfigsEntry {
            key: Some(service),
            value: Some(ServiceConfigs { configs }),
        });
    model::Identity {
        id: identity.id.to_string(),
        name: identity.spec.name.clone(),
        default_hosting_precedence: hosting_defaults::number(
            identity.spec.default_hosting_precedence,
        ),
        default_hosting_cost: identity.spec.default_hosting_cost.into(),
        service_hosting_precedences,
        service_hosting_costs,
        app_data_json: hosting_defaults::app_data(identity).into_bytes(),
        service_configs: service_configs.collect(),
        disabled: identity.state.is_disabled(now),
    }
}

/// The configs of services and their types, by their ids.
struct Configs {
    all: BTreeMap<String, model::Config>,
    types: BTreeMap<String, model::ConfigType>,
}

impl Configs {
    /// Those of services that an identity may use, and those that the identity has of its own for
    /// these services.
    fn of(
        tx: &Read<'_>,
        identity: &Record<Identity>,
        services: &[Record<Service>],
    ) -> Result<Self> {
        let held: BTreeSet<&str> = services.iter().map(|service| service.id.as_str()).collect();
        let own = identity
            .state
            .service_configs
            .iter()
            .filter(|own| held.contains(own.service.as_str()))
            .map(|own| &own.config);
        let (mut all, mut types) = (BTreeMap::new(), BTreeMap::new());
        for id in services
            .iter()
            .flat_map(|service| &service.spec.configs)
            .chain(own)
        {
            let Some(config) = tx.find::<Config>(id)? else {
                continue;
            };
            let Some(kind) = tx.find::<ConfigType>(&config.spec.config_type_id)? else {
                continue;
            };
            let (type_id, data_json) = (
                kind.id.to_string(),
                serde_json::to_string(&config.spec.data).unwrap_or_default(),
            );
            types.insert(
                type_id.clone(),
                model::ConfigType {
                    id: type_id.clone(),
                    name: kind.spec.name,
                },
            );
            all.insert(
                id.to_string(),
                model::Config {
                    id: id.to_string(),
                    type_id,
                    name: config.spec.name,
                    data_json,
                },
            );
        }
        Ok(Self { all, types })
    }
}
