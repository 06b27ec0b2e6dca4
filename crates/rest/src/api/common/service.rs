//! Services as shown to one identity: its rights to each, and the configs for it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, hash_map::Entry},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

use model::{
    entity::{
        Config, ConfigType, Document, Entity, Id, Identity, PolicyType, PostureQueries, Record,
        Service, TypedLookup,
    },
    error::{Error, Result},
};
use policy::{
    access::{Access, PolicyEntityKind, PolicyGrant, Right},
    posture::{Evidence, PostureEvaluator},
};
use query::Window;
use schemars::JsonSchema;
use serde::Serialize;
use store::{Ids, Read};

use super::held_rights::{Held, HeldRights};
use crate::{
    cache::json_cache::{CachedJson, JsonCache, Present, SOME, ServiceJson},
    envelope::Detail,
    list_part::Part,
};

/// A service as shown to one identity.
pub(crate) type ServiceDetail = Detail<SeenService>;

/// A service, with the members that depend on the viewer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceDetail")]
pub(crate) struct SeenService {
    #[serde(flatten)]
    pub of: <Service as Entity>::View,
    #[serde(flatten)]
    pub usage: Usage,
}

/// The members of a service that depend on the viewer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    /// Config data by name of config type: those of the service, overridden by those of the
    /// identity.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub config: BTreeMap<String, Document>,
    /// `Bind`, `Dial`, or `Invalid` for an administrator who has neither right.
    pub permissions: Vec<PolicyType>,
    /// The posture checks of each policy that grants a right.
    pub posture_queries: Vec<CachedJson<PostureQueries>>,
}

/// The members of [`Usage`] in lists that show none, as clients expect them.
const NO_USAGE: &[u8] = br#","config":null,"permissions":null,"postureQueries":[]}"#;
/// The maximum number of services looked up at a time if posture checks exist: the policies of each
/// are read under the lock of the engine.
const CHECKED: usize = 16;

/// The identity for which services are shown, and what is shown. The plan is made once per answer;
/// the answer may be written in several transactions.
pub(crate) struct ViewPlan {
    identity: Record<Identity>,
    evidence: Evidence,
    /// The wanted config types: their names by id.
    wanted: BTreeMap<String, String>,
    /// Whether the system has any posture check.
    has_checks: bool,
    /// Whether the members that depend on the viewer are left out.
    hides_usage: bool,
    /// Posture queries by policy id, as they were when the answer first needed them. One policy may
    /// apply to many services.
    asked: Mutex<HashMap<Arc<str>, CachedJson<PostureQueries>>>,
}

/// Shows services to an identity within one transaction.
pub(crate) struct Viewer<'v> {
    tx: &'v Read<'v>,
    access: &'v Access,
    plan: &'v ViewPlan,
    evaluator: PostureEvaluator<'v>,
    /// The identity's own configs, by service id.
    overrides: HashMap<&'v str, Vec<&'v Id<Config>>>,
    /// Configs that were read already, by id.
    settings: RefCell<HashMap<String, Setting>>,
    /// The end of an entry, for services where it depends only on the held rights.
    alike: RefCell<HashMap<HeldRights, Vec<u8>>>,
}

/// A config's type name and data; `None` if its type is not wanted.
type Setting = Rc<Option<(String, Document)>>;

impl ViewPlan {
    /// The plan for an identity with this posture evidence. `types` are the config types to show,
    /// by id or name; `all` means every type. Unknown types are ignored.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn new(
        tx: &Read<'_>,
        access: &Access,
        evidence: Evidence,
        identity: Record<Identity>,
        types: &[String],
    ) -> Result<Self> {
        let mut wanted = BTreeMap::new();
        if types.iter().any(|name| name == ConfigType::ALL) {
            tx.each::<ConfigType>(|record| {
                wanted.insert(record.id.to_string(), record.spec.name);
                Ok(())
            })?;
        } else {
            for name in types {
                let found = tx.find_named::<ConfigType>(name)?;
                wanted.extend(found.map(|record| (record.id.to_string(), record.spec.name)));
            }
        }
        let has_checks = access.ask(|engine| engine.count(PolicyEntityKind::PostureCheck) > 0);
        Ok(Self {
            identity,
            evidence,
            wanted,
            has_checks,
            hides_usage: false,
            asked: Mutex::default(),
        })
    }

    /// The same plan. If `hides_usage` is set, the members that depend on the viewer are left out.
    #[must_use]
    pub(crate) fn hiding_usage(self, hides_usage: bool) -> Self {
        Self {
            hides_usage,
            ..self
        }
    }

    /// Whether only the services that the identity may use are listed.
    pub(crate) fn is_restricted(&self) -> bool {
        !self.identity.is_admin()
    }

    /// The ids of usable services in a window, ordered by id, and their total number.
    pub(crate) fn some_usable(&self, access: &Access, window: Window) -> (Ids, u64) {
        access.ask(|engine| {
            let rights = engine.rights(self.identity.id.as_str());
            let usable = engine.visible(&rights);
            let part = usable
                .iter()
                .skip(window.offset)
                .take(window.limit.unwrap_or(usize::MAX));
            let mut ids = Ids::default();
            for id in part.filter_map(|row| engine.id(PolicyEntityKind::Service, *row)) {
                ids.push(id);
            }
            (ids, usable.len() as u64)
        })
    }

    /// The ids of all usable services, in order.
    pub(crate) fn usable(&self, access: &Access) -> Vec<String> {
        access.ask(|engine| {
            let rights = engine.rights(self.identity.id.as_str());
            engine
                .visible(&rights)
                .iter()
                .filter_map(|row| Some(engine.id(PolicyEntityKind::Service, *row)?.to_string()))
                .collect()
        })
    }
}

impl<'v> Viewer<'v> {
    /// A viewer in one transaction.
    pub(crate) fn new(tx: &'v Read<'v>, access: &'v Access, plan: &'v ViewPlan) -> Self {
        let mut overrides: HashMap<_, Vec<_>> = HashMap::new();
        for own in &plan.identity.state.service_configs {
            overrides
                .entry(own.service.as_str())
                .or_default()
                .push(&own.config);
        }
        let (settings, alike) = (RefCell::default(), RefCell::default());
        Self {
            tx,
            access,
            plan,
            evaluator: PostureEvaluator::new(tx, plan.evidence.clone()),
            overrides,
            settings,
            alike,
        }
    }

    /// A service as shown to this viewer.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn render(&self, service: &Record<Service>) -> Result<ServiceDetail> {
        let held = self.held(&[service.id.as_str()]).pop().unwrap_or_default();
        let usage = self.usage(&service.id, &service.spec.configs, &held)?;
        Ok(Detail::new(
            service,
            SeenService {
                of: Service::view(service, self.tx)?,
                usage,
            },
        ))
    }

    /// Writes services as shown to this viewer. `texts` caches their common JSON; `at` is a commit
    /// number from before the transaction.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn write(
        &self,
        json_cache: &JsonCache,
        at: Present,
        part: &mut Part<'_>,
    ) -> Result<()> {
        if self.plan.has_checks {
            self.tx.leave()?;
        }
        loop {
            // With checks, an entry may fill a part by itself.
            let ids = part.ahead(if self.plan.has_checks {
                part.room(CHECKED)
            } else {
                SOME
            });
            if ids.is_empty() {
                return Ok(());
            }
            for ((id, known), held) in ids
                .iter()
                .zip(json_cache.services(ids.iter().copied()))
                .zip(self.held(&ids))
            {
                if part.next().is_none() {
                    return Ok(());
                }
                let id = Id::from_text(*id);
                let text = match known {
                    Some(text) => text,
                    None => {
                        // The service was just deleted.
                        let Some(record) = self.tx.find(&id)? else {
                            continue;
                        };
                        json_cache.service(&record, self.tx, at)?
                    }
                };
                self.append(part, &id, &text, &held)?;
            }
        }
    }

    fn append(
        &self,
        part: &mut Part<'_>,
        id: &Id<Service>,
        text: &ServiceJson,
        held: &Held,
    ) -> Result<()> {
        if self.plan.hides_usage {
            part.add(&[text.open.as_bytes(), NO_USAGE]);
            return Ok(());
        }
        let written = |usage: &Usage| {
            let mut usage = serde_json::to_vec(usage)
                .map_err(|e| Error::Internal(format!("cannot write a service as JSON: {e}")))?;
            // The members of `usage` are appended to those of the text.
            if let Some(open) = usage.first_mut() {
                *open = b',';
            }
            Ok::<_, Error>(usage)
        };
        if !self.plan.wanted.is_empty() || self.plan.has_checks {
            part.add(&[
                text.open.as_bytes(),
                &written(&self.usage(id, &text.configs, held)?)?,
            ]);
            return Ok(());
        }
        // Without configs and posture checks, the end is the same for all services with these
        // rights.
        let mut alike = self.alike.borrow_mut();
        let usage = match alike.entry(held.rights) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(written(&self.usage(id, &text.configs, held)?)?),
        };
        part.add(&[text.open.as_bytes(), usage]);
        Ok(())
    }

    /// The rights that the identity has to each of these services, and the policies that grant
    /// them. The engine is locked once for all services.
    fn held(&self, services: &[&str]) -> Vec<Held> {
        if self.plan.hides_usage {
            return services.iter().map(|_| Held::default()).collect();
        }
        let identity = self.plan.identity.id.as_str();
        self.access.ask(|engine| {
            let rights = engine.rights(identity);
            let of = |service: &&str| {
                let rights = engine
                    .row(PolicyEntityKind::Service, service)
                    .map(|row| HeldRights::of(&rights, row))
                    .unwrap_or_default();
                let words = [
                    (Right::Bind, PolicyType::Bind),
                    (Right::Dial, PolicyType::Dial),
                ]
                .into_iter()
                .filter(|_| self.plan.has_checks);
                let granted = |(right, word)| {
                    engine
                        .all_grants(identity, service, right)
                        .into_iter()
                        .map(move |grant| (word, grant))
                };
                Held {
                    rights,
                    grants: words.flat_map(granted).collect(),
                }
            };
            services.iter().map(of).collect()
        })
    }

    fn usage(&self, service: &Id<Service>, configs: &[Id<Config>], held: &Held) -> Result<Usage> {
        let permissions = held.rights.permissions();
        let posture_queries = self.posture_queries(&held.grants, &permissions)?;
        Ok(Usage {
            config: self.config(service, configs)?,
            permissions,
            posture_queries,
        })
    }

    /// The posture queries of each policy; without a policy, one entry per right.
    fn posture_queries(
        &self,
        grants: &[(PolicyType, PolicyGrant)],
        permissions: &[PolicyType],
    ) -> Result<Vec<CachedJson<PostureQueries>>> {
        if grants.is_empty() {
            return permissions
                .iter()
                .map(|right| CachedJson::of(&PostureQueries::unchecked(*right)))
                .collect();
        }
        grants
            .iter()
            .map(|(right, grant)| self.asked(grant, *right))
            .collect()
    }

    /// The posture queries of a policy.
    fn asked(&self, grant: &PolicyGrant, right: PolicyType) -> Result<CachedJson<PostureQueries>> {
        let mut asked = self
            .plan
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked.get(&grant.policy) {
            return Ok(known.clone());
        }
        let queries = CachedJson::of(&self.evaluator.queries(grant, right)?)?;
        asked.insert(grant.policy.clone(), queries.clone());
        Ok(queries)
    }

    /// The configs by name of their type.
    fn config(
        &self,
        service: &Id<Service>,
        configs: &[Id<Config>],
    ) -> Result<BTreeMap<String, Document>> {
        if self.plan.wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let own = self
            .overrides
            .get(service.as_str())
            .into_iter()
            .flatten()
            .copied();
        let mut chosen = BTreeMap::new();
        for id in configs.iter().chain(own) {
            if let Some((name, data)) = self.setting(id)?.as_ref() {
                chosen.insert(name.clone(), data.clone());
            }
        }
        Ok(chosen)
    }

    /// A config with the name of its type, if the type is wanted. Each is read once.
    fn setting(&self, id: &'_ Id<Config>) -> Result<Setting> {
        if let Some(known) = self.settings.borrow().get(id.as_str()) {
            return Ok(known.clone());
        }
        // The config may have been deleted since the service was read.
        let config: Option<Record<Config>> = self.tx.find(id)?;
        let named = config.and_then(|config| {
            Some((
                self.plan
                    .wanted
                    .get(config.spec.config_type_id.as_str())?
                    .clone(),
                config.spec.data,
            ))
        });
        let setting = Rc::new(named);
        self.settings
            .borrow_mut()
            .insert(id.to_string(), setting.clone());
        Ok(setting)
    }
}
