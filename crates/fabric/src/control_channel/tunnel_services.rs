//! The services of a router that dials and hosts services itself, with its rights and the configs
//! that it wants.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use model::{
    entity::{Config, ConfigType, Document, Id, Identity, Record, Service, TypedLookup},
    error::{Error, Result},
};
use policy::access::{PolicyEntityKind, Right};
use prost::Message;
use store::Read;
use wire::control::tunnel;

use super::{control_core::ControlCore, tunneler::Tunneler};

/// The ids of the services that an identity may use, each with the names of its rights.
pub(crate) fn held(core: &ControlCore, identity: &str) -> Vec<(String, Vec<String>)> {
    core.network.authorizer.access.ask(|engine| {
        let rights = engine.rights(identity);
        let held = |row: &u32| {
            let words = [(Right::Bind, "Bind"), (Right::Dial, "Dial")]
                .into_iter()
                .filter(|(right, _)| rights.to(*right).contains(*row));
            Some((
                engine.id(PolicyEntityKind::Service, *row)?.to_string(),
                words.map(|(_, word)| word.to_owned()).collect(),
            ))
        };
        engine.visible(&rights).iter().filter_map(held).collect()
    })
}

/// The services of the router. `last_update` is a hash of all other members of the list.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn list(core: &ControlCore, tunneler: &Tunneler) -> Result<tunnel::ServicesList> {
    let authorizer = &core.network.authorizer;
    let held = held(core, tunneler.identity.as_str());
    let services = authorizer.store.read(|tx| {
        let configs = Configs::of(tx, tunneler)?;
        let mut services = Vec::with_capacity(held.len());
        for (id, permissions) in held {
            if let Some(service) = tx.find(&Id::<Service>::from_text(id))? {
                services.push(render(tx, &service, permissions, &configs)?);
            }
        }
        Ok(services)
    })?;
    let mut list = tunnel::ServicesList {
        last_update: Vec::new(),
        services,
    };
    let mut hasher = DefaultHasher::new();
    list.encode_to_vec().hash(&mut hasher);
    list.last_update = hasher.finish().to_be_bytes().to_vec();
    Ok(list)
}

fn render(
    tx: &Read<'_>,
    service: &Record<Service>,
    permissions: Vec<String>,
    configs: &Configs,
) -> Result<tunnel::Service> {
    let json = |value: serde_json::Result<Vec<u8>>| {
        value.map_err(|error| Error::Internal(format!("a service as JSON: {error}")))
    };
    Ok(tunnel::Service {
        id: service.id.to_string(),
        name: service.spec.name.clone(),
        permissions,
        encryption: service.spec.encryption_required,
        config: json(serde_json::to_vec(&configs.of_service(tx, service)?))?,
        tags: json(serde_json::to_vec(&service.tags))?,
    })
}

/// The configs that a router wants.
struct Configs {
    /// The names of the types by id.
    types: BTreeMap<String, String>,
    /// Configs of the identity by service, which override those of the service.
    own: Vec<(Id<Service>, Id<Config>)>,
}

impl Configs {
    fn of(tx: &Read<'_>, tunneler: &Tunneler) -> Result<Self> {
        let mut types = BTreeMap::new();
        if tunneler
            .config_types
            .iter()
            .any(|id| id.as_str() == ConfigType::ALL)
        {
            tx.each::<ConfigType>(|found| {
                types.insert(found.id.to_string(), found.spec.name);
                Ok(())
            })?;
        }
        for id in &tunneler.config_types {
            types.extend(
                tx.find::<ConfigType>(id)?
                    .map(|found| (id.to_string(), found.spec.name)),
            );
        }
        let identity = tx.find::<Identity>(&tunneler.identity)?;
        let own = identity
            .into_iter()
            .flat_map(|identity| identity.state.service_configs);
        Ok(Self {
            types,
            own: own.map(|own| (own.service, own.config)).collect(),
        })
    }

    /// The data of the configs for a service, by the name of the type.
    fn of_service(
        &self,
        tx: &Read<'_>,
        service: &Record<Service>,
    ) -> Result<BTreeMap<&str, Document>> {
        let own = self
            .own
            .iter()
            .filter(|(of, _)| *of == service.id)
            .map(|(_, config)| config);
        let mut chosen = BTreeMap::new();
        for id in service.spec.configs.iter().chain(own) {
            let Some(config) = tx.find::<Config>(id)? else {
                continue;
            };
            if let Some(name) = self.types.get(config.spec.config_type_id.as_str()) {
                chosen.insert(name.as_str(), config.spec.data);
            }
        }
        Ok(chosen)
    }
}
