//! Services: what identities dial and host.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Amount, Config, Entity, Field, HalLinks, Id, Kind, Lookup, OnDelete, OsType, PolicyType,
    PostureKind, Record, Reference, Roles, Stateful, Tags, TypedLookup,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// The ways to choose a terminator; the first is the default.
const STRATEGIES: [&str; 4] = ["smartrouting", "weighted", "random", "sticky"];
/// The longest idle time: routers count it in nanoseconds, in 64 bits.
const MAX_IDLE_MILLIS: i64 = i64::MAX / 1_000_000;

/// A service that identities dial and host.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub name: String,
    /// Whether the two ends encrypt the traffic between them. It cannot be changed.
    #[schemars(extend("default" = true))]
    pub encryption_required: bool,
    /// How a terminator is chosen: `smartrouting` (the default), `weighted`, `random` or `sticky`.
    #[serde(default = "smartrouting")]
    pub terminator_strategy: String,
    /// A circuit without traffic for so many milliseconds is closed; 0 means never.
    #[serde(default)]
    pub max_idle_time_millis: i64,
    /// Names by which policies find the service.
    #[serde(default)]
    pub role_attributes: Roles,
    /// Configs by id, at most one of each config type.
    #[serde(default)]
    pub configs: Vec<Id<Config>>,
}

/// A service in responses, without the members that depend on the caller.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceMembers")]
pub struct View {
    name: String,
    encryption_required: bool,
    terminator_strategy: String,
    max_idle_time_millis: i64,
    role_attributes: Roles,
    configs: Vec<Id<Config>>,
}

impl Stateful for Service {
    type State = ();
}

impl Entity for Service {
    const KIND: Kind = Kind {
        name: "service",
        path: "services",
        noun: "service",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("terminatorStrategy", Type::Text, |r| {
            (&r.spec.terminator_strategy).into()
        }),
        Field::indexed("roleAttributes", Type::Set, |r| {
            (&r.spec.role_attributes).into()
        }),
        Field::plain("configs", Type::Set, |r| {
            r.spec.configs.iter().map(Id::as_str).collect()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::to::<Config>(
        "configs",
        |r| r.spec.configs.iter().map(Id::as_str).collect(),
        OnDelete::Clear(|r, id| r.spec.configs.retain(|config| config.as_str() != id)),
    )];
    const LINKS: &'static [&'static str] = &[
        "service-edge-router-policies",
        "service-policies",
        "terminators",
        "configs",
    ];
    const FIXED: &'static [&'static str] = &["encryptionRequired"];
    type View = View;

    fn tidy(&mut self) {
        if self.terminator_strategy.trim().is_empty() {
            self.terminator_strategy = smartrouting();
        }
    }

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        Error::all([
            self.role_attributes.check_attributes(),
            self.check_strategy(),
            self.check_idle_time(),
            self.check_configs(lookup),
        ])
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("roleAttributes", self.role_attributes.amount())]
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            encryption_required,
            terminator_strategy,
            max_idle_time_millis,
            role_attributes,
            configs,
        } = record.spec.clone();
        Ok(View {
            name,
            encryption_required,
            terminator_strategy,
            max_idle_time_millis,
            role_attributes,
            configs,
        })
    }
}

impl Service {
    fn check_strategy(&self) -> Result<()> {
        if STRATEGIES.contains(&self.terminator_strategy.as_str()) {
            return Ok(());
        }
        Err(Error::NotFound {
            kind: "terminatorStrategy",
            id: self.terminator_strategy.clone(),
            field: None,
        })
    }

    fn check_idle_time(&self) -> Result<()> {
        if (0..=MAX_IDLE_MILLIS).contains(&self.max_idle_time_millis) {
            return Ok(());
        }
        let reason = format!("must be between 0 and {MAX_IDLE_MILLIS}");
        Err(Error::invalid(
            "maxIdleTimeMillis",
            reason,
            self.max_idle_time_millis.to_string(),
        ))
    }

    fn check_configs(&self, lookup: &dyn Lookup) -> Result<()> {
        let mut types = Vec::with_capacity(self.configs.len());
        for id in &self.configs {
            let of = lookup.get(id)?.spec.config_type_id;
            if types.contains(&of) {
                let ids: Vec<&str> = self.configs.iter().map(Id::as_str).collect();
                return Err(Error::invalid(
                    "configs",
                    "at most one config of each type",
                    format!("[{}]", ids.join(" ")),
                ));
            }
            types.push(of);
        }
        Ok(())
    }
}

fn smartrouting() -> String {
    "smartrouting".into()
}

/// The posture checks of one service policy, as the caller's endpoint has to answer them before it
/// may use the service.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostureQueries {
    pub policy_id: String,
    pub policy_type: PolicyType,
    /// Whether all checks of the policy pass.
    pub is_passing: bool,
    pub posture_queries: Vec<PostureQuery>,
}

impl PostureQueries {
    /// The answer for a right without posture checks. Clients need one for every right.
    pub fn unchecked(policy_type: PolicyType) -> Self {
        let policy_id = format!(
            "dummy {} policy: no posture checks defined",
            policy_type.as_str().to_lowercase()
        );
        Self {
            policy_id,
            policy_type,
            is_passing: true,
            posture_queries: Vec::new(),
        }
    }
}

/// One posture check, as a query to the endpoint.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostureQuery {
    #[serde(rename = "_links")]
    pub links: HalLinks,
    pub id: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub tags: Tags,
    pub query_type: PostureKind,
    pub is_passing: bool,
    /// How many seconds an answer is valid; -1 means without limit.
    pub timeout: i64,
    /// How many seconds the last answer is still valid; -1 means without limit, 0 means no longer.
    pub timeout_remaining: i64,
    /// The process to report, if the check is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// The processes to report, if the check is about several.
    pub processes: Option<Vec<ProcessRef>>,
}

/// A process to report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureQueryProcess")]
pub struct ProcessRef {
    pub os_type: OsType,
    pub path: String,
}
