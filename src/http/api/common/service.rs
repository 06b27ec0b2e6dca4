//! Services as shown to one identity: its rights to each, and the configs for it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, hash_map::Entry},
    rc::Rc,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::{Access, PolicyGrant, Right, Rights, Subject},
    entity::{Config, ConfigType, Document, Entity, FactsExt, Id, Identity, PolicyType, PostureQueries, Record, Service},
    error::{Error, Result},
    http::{
        cache::json_cache::{CachedJson, JsonCache, Present, SOME, Text},
        envelope::Detail,
        list_part::Part,
    },
    posture::{Evidence, Judge},
    query::Window,
    store::{Ids, Read},
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
    /// Config data by name of config type: those of the service, overridden by those of the identity.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub config: BTreeMap<String, Document>,
    /// `Bind`, `Dial`, or `Invalid` for an administrator who has neither right.
    pub permissions: Vec<PolicyType>,
    /// The posture checks of each policy that grants a right.
    pub posture_queries: Vec<CachedJson<PostureQueries>>,
}

/// The rights that an identity has to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HeldRights {
    bind: bool,
    dial: bool,
}

impl HeldRights {
    fn of(rights: &Rights, row: u32) -> Self {
        Self { bind: rights.to(Right::Bind).contains(row), dial: rights.to(Right::Dial).contains(row) }
    }

    fn permissions(self) -> Vec<PolicyType> {
        let held = [(self.bind, PolicyType::Bind), (self.dial, PolicyType::Dial)];
        let held: Vec<_> = held.into_iter().filter(|(may, _)| *may).map(|(_, right)| right).collect();
        if held.is_empty() { vec![PolicyType::Invalid] } else { held }
    }
}

/// An identity that looks at services.
pub(crate) struct Viewer<'v> {
    pub tx: &'v Read<'v>,
    pub access: &'v Access,
    pub identity: &'v Record<Identity>,
    judge: Judge<'v>,
    /// Whether the system has any posture check.
    has_checks: bool,
    wanted: BTreeMap<String, String>,
    /// The identity's own configs, by service id.
    overrides: HashMap<&'v str, Vec<&'v Id<Config>>>,
    /// Configs that were read already, by id.
    settings: RefCell<HashMap<String, Setting>>,
    /// The end of an entry, for services where it depends only on the held rights.
    alike: RefCell<HashMap<HeldRights, Vec<u8>>>,
    /// Posture queries by policy id. One policy may apply to many services.
    asked: RefCell<HashMap<Arc<str>, CachedJson<PostureQueries>>>,
}

/// A config's type name and data; `None` if its type is not wanted.
type Setting = Rc<Option<(String, Document)>>;

impl<'v> Viewer<'v> {
    /// A viewer with this posture evidence, who wants configs of these types, by id or name; `all` means every type, unknown ones are
    /// ignored.
    ///
    /// # Errors
    /// The store cannot be read.
    /// The store cannot be read.
    pub(crate) fn new(
        tx: &'v Read<'v>,
        access: &'v Access,
        evidence: Evidence,
        identity: &'v Record<Identity>,
        types: &[String],
    ) -> Result<Self> {
        let mut wanted = BTreeMap::new();
        if types.iter().any(|name| name == "all") {
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
        let has_checks = access.ask(|engine| engine.count(Subject::PostureCheck) > 0);
        let mut overrides: HashMap<_, Vec<_>> = HashMap::new();
        for own in &identity.state.service_configs {
            overrides.entry(own.service.as_str()).or_default().push(&own.config);
        }
        let (settings, alike, asked) = (RefCell::default(), RefCell::default(), RefCell::default());
        Ok(Self { tx, access, identity, judge: Judge::new(tx, evidence), has_checks, wanted, overrides, settings, alike, asked })
    }

    /// A service as shown to this viewer.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn see(&self, service: &Record<Service>) -> Result<ServiceDetail> {
        let held = self.held(&[service.id.as_str()]).first().copied().unwrap_or(HeldRights { bind: false, dial: false });
        let usage = self.usage(&service.id, &service.spec.configs, held)?;
        Ok(Detail::new(service, SeenService { of: Service::view(service, self.tx)?, usage }))
    }

    /// Writes services as shown to this viewer. `texts` caches their common JSON; `at` is a commit number from before the transaction.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn write(&self, texts: &JsonCache, at: Present, part: &mut Part<'_>) -> Result<()> {
        loop {
            let ids = part.ahead(SOME);
            if ids.is_empty() {
                return Ok(());
            }
            for ((id, known), held) in ids.iter().zip(texts.services(ids.iter().copied())).zip(self.held(&ids)) {
                if part.next().is_none() {
                    return Ok(());
                }
                let id = Id::from_text(*id);
                let text = match known {
                    Some(text) => text,
                    None => {
                        // The service was just deleted.
                        let Some(record) = self.tx.find(&id)? else { continue };
                        texts.service(&record, self.tx, at)?
                    }
                };
                self.append(part, &id, &text, held)?;
            }
        }
    }

    /// The ids of usable services in a window, ordered by id, and their total number.
    pub(crate) fn some_usable(&self, window: Window) -> (Ids, u64) {
        self.access.ask(|engine| {
            let rights = engine.rights(self.identity.id.as_str());
            let usable = engine.visible(&rights);
            let part = usable.iter().skip(window.offset).take(window.limit.unwrap_or(usize::MAX));
            let mut ids = Ids::default();
            part.filter_map(|row| engine.id(Subject::Service, *row)).for_each(|id| ids.push(id));
            (ids, usable.len() as u64)
        })
    }

    /// The ids of all usable services, in order.
    pub(crate) fn usable(&self) -> Vec<String> {
        self.access.ask(|engine| {
            let rights = engine.rights(self.identity.id.as_str());
            engine.visible(&rights).iter().filter_map(|row| Some(engine.id(Subject::Service, *row)?.to_string())).collect()
        })
    }

    fn append(&self, part: &mut Part<'_>, id: &Id<Service>, text: &Text, held: HeldRights) -> Result<()> {
        let written = |usage: &Usage| {
            let mut usage = serde_json::to_vec(usage).map_err(|e| Error::Internal(format!("a service as JSON: {e}")))?;
            // Its members are appended to those of the text.
            if let Some(open) = usage.first_mut() {
                *open = b',';
            }
            Ok::<_, Error>(usage)
        };
        if !self.wanted.is_empty() || self.has_checks {
            part.add(&[text.open.as_bytes(), &written(&self.usage(id, &text.configs, held)?)?]);
            return Ok(());
        }
        // Without configs and checks the end is equal for all services with these rights.
        let mut alike = self.alike.borrow_mut();
        let usage = match alike.entry(held) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(written(&self.usage(id, &text.configs, held)?)?),
        };
        part.add(&[text.open.as_bytes(), usage]);
        Ok(())
    }

    fn held(&self, services: &[&str]) -> Vec<HeldRights> {
        let identity = self.identity.id.as_str();
        self.access.ask(|engine| {
            let rights = engine.rights(identity);
            let row = |service: &&str| engine.row(Subject::Service, service);
            services
                .iter()
                .map(|service| row(service).map_or(HeldRights { bind: false, dial: false }, |row| HeldRights::of(&rights, row)))
                .collect()
        })
    }

    fn usage(&self, service: &Id<Service>, configs: &[Id<Config>], held: HeldRights) -> Result<Usage> {
        let permissions = held.permissions();
        let posture_queries = self.posture_queries(service.as_str(), &permissions)?;
        Ok(Usage { config: self.config(service, configs)?, permissions, posture_queries })
    }

    /// The posture queries of each policy; if the system has no posture check, one entry per right.
    fn posture_queries(&self, service: &str, permissions: &[PolicyType]) -> Result<Vec<CachedJson<PostureQueries>>> {
        let unchecked = || permissions.iter().map(|right| CachedJson::of(&PostureQueries::unchecked(*right))).collect();
        if !self.has_checks {
            return unchecked();
        }
        let identity = self.identity.id.as_str();
        let grants = self.access.ask(|engine| {
            let rights = [(Right::Bind, PolicyType::Bind), (Right::Dial, PolicyType::Dial)];
            let of = |(right, word)| engine.all_grants(identity, service, right).into_iter().map(move |grant| (word, grant));
            rights.into_iter().flat_map(of).collect::<Vec<_>>()
        });
        if grants.is_empty() {
            return unchecked();
        }
        grants.iter().map(|(right, grant)| self.asked(grant, *right)).collect()
    }

    /// The posture queries of a policy.
    fn asked(&self, grant: &PolicyGrant, right: PolicyType) -> Result<CachedJson<PostureQueries>> {
        if let Some(known) = self.asked.borrow().get(&grant.policy) {
            return Ok(known.clone());
        }
        let queries = CachedJson::of(&self.judge.queries(grant, right)?)?;
        self.asked.borrow_mut().insert(grant.policy.clone(), queries.clone());
        Ok(queries)
    }

    /// The configs by name of their type.
    fn config(&self, service: &Id<Service>, configs: &[Id<Config>]) -> Result<BTreeMap<String, Document>> {
        if self.wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let own = self.overrides.get(service.as_str()).into_iter().flatten().copied();
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
        // It may have been deleted since the service was read.
        let config: Option<Record<Config>> = self.tx.find(id)?;
        let named = config.and_then(|config| Some((self.wanted.get(config.spec.config_type_id.as_str())?.clone(), config.spec.data)));
        let setting = Rc::new(named);
        self.settings.borrow_mut().insert(id.to_string(), setting.clone());
        Ok(setting)
    }
}
