//! Services as somebody sees them: what they may do with each, and the settings it carries for them.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::{Access, Right},
    entity::{Config, ConfigType, Document, Entity, FactsExt, Id, Identity, PolicyType, PostureQueries, Record, Service},
    error::Result,
    http::envelope::Detail,
    store::Read,
};

/// A service as one identity sees it.
pub type ServiceDetail = Detail<SeenService>;

/// What a service is, and what it is for the one who asks.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceDetail")]
pub struct SeenService {
    #[serde(flatten)]
    of: <Service as Entity>::View,
    /// Settings by name of config type: those of the service, replaced by those made for the identity alone.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    config: BTreeMap<String, Document>,
    /// `Bind`, `Dial`, or `Invalid` for an administrator who may neither.
    permissions: Vec<PolicyType>,
    /// The posture checks behind each right, by policy.
    posture_queries: Vec<PostureQueries>,
}

/// Somebody who looks at services.
pub struct Viewer<'v> {
    pub tx: &'v Read<'v>,
    pub access: &'v Access,
    pub identity: &'v Record<Identity>,
    wanted: BTreeMap<String, String>,
}

impl<'v> Viewer<'v> {
    /// A viewer who wants settings of these types, by id or name; `all` for every one, unknown ones count for nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(tx: &'v Read<'v>, access: &'v Access, identity: &'v Record<Identity>, types: &[String]) -> Result<Self> {
        let mut wanted = BTreeMap::new();
        if types.iter().any(|name| name == "all") {
            tx.each::<ConfigType>(|record| {
                wanted.insert(record.id.to_string(), record.spec.name);
                Ok(())
            })?;
        } else {
            for name in types {
                let by_id = tx.find(&Id::<ConfigType>::from_text(name.as_str()))?;
                let found = if by_id.is_some() { by_id } else { tx.find_by::<ConfigType>("name", name)? };
                wanted.extend(found.map(|record| (record.id.to_string(), record.spec.name)));
            }
        }
        Ok(Self { tx, access, identity, wanted })
    }

    /// How a service looks to this viewer.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn see(&self, service: &Record<Service>) -> Result<ServiceDetail> {
        let permissions = self.permissions(service.id.as_str());
        let posture_queries = permissions.iter().map(|right| PostureQueries::unchecked(*right)).collect();
        let view = SeenService { of: Service::view(service, self.tx)?, config: self.config(service)?, permissions, posture_queries };
        Ok(Detail::new(service, view))
    }

    fn permissions(&self, service: &str) -> Vec<PolicyType> {
        let identity = self.identity.id.as_str();
        let (bind, dial) =
            self.access.ask(|engine| (engine.may(identity, service, Right::Bind), engine.may(identity, service, Right::Dial)));
        match (bind, dial) {
            (false, false) => vec![PolicyType::Invalid],
            _ => [(bind, PolicyType::Bind), (dial, PolicyType::Dial)].into_iter().filter(|(may, _)| *may).map(|(_, right)| right).collect(),
        }
    }

    /// The settings by name of their type.
    fn config(&self, service: &Record<Service>) -> Result<BTreeMap<String, Document>> {
        if self.wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let own = self.identity.state.service_configs.iter().filter(|pair| pair.service == service.id).map(|pair| &pair.config);
        let mut chosen = HashMap::new();
        for id in service.spec.configs.iter().chain(own) {
            let config: Record<Config> = self.tx.get(id)?;
            if let Some(name) = self.wanted.get(config.spec.config_type_id.as_str()) {
                chosen.insert(name.clone(), config.spec.data);
            }
        }
        Ok(chosen.into_iter().collect())
    }
}
