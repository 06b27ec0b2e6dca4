//! Why somebody may or may not use a service: the verdict, what it rests on, and what to change.
//!
//! Here: questions to the engine and the store, put together for a person and for programs. Not here: any rule of its own; enforcement
//! asks the same engine. Start reading at [`explain`], then [`edits`], which turns an obstacle into requests that remove it. Invariant: the
//! verdict is what POST /sessions would do now, and doing one edit of every obstacle turns a no into a yes.

mod edits;
mod text;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    access::{Access, Granting, Reason, Right},
    clock::Timestamp,
    entity::{
        ApiSession, Authenticator, EdgeRouter, Enrollment, Entity, EntityRef, Facts, FactsExt, Id, Identity, Record, Service, ServicePolicy,
    },
    error::{Error, Result},
    posture::{Evidence, Judge, Posture, Ruling},
    store::Read,
};

/// A question: may this identity dial, or bind, this service?
pub struct Question<'q> {
    /// By id or name, as the service.
    pub identity: &'q str,
    pub service: &'q str,
    pub right: Right,
    pub access: &'q Access,
    /// What endpoints showed; only a controller that runs knows.
    pub posture: Option<&'q Posture>,
}

/// A question about records that there are.
struct Case<'q> {
    identity: Record<Identity>,
    service: Record<Service>,
    right: Right,
    access: &'q Access,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    identity: EntityRef,
    service: EntityRef,
    #[serde(rename = "type")]
    right: Right,
    /// Whether a session would be opened now.
    pub verdict: bool,
    /// The policies that give the right.
    policies: Vec<Grant>,
    /// The edge routers that identity and service have in common.
    routers: Vec<Router>,
    /// What stands in the way; empty exactly if the verdict is yes.
    pub obstacles: Vec<Obstacle>,
}

/// A policy that gives the right, and by what.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Grant {
    policy: EntityRef,
    /// What of the identity the policy names, as it stands there: `@id`, `#all`, or role attributes.
    identity_by: Vec<String>,
    /// What of the service the policy names.
    service_by: Vec<String>,
}

/// An edge router to go over.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedRouter")]
struct Router {
    id: String,
    name: String,
    is_online: bool,
}

/// Something that stands in the way.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    pub what: What,
    /// The same for a person.
    pub text: String,
    /// Requests of which any one removes it, the smallest first.
    pub edits: Vec<Edit>,
}

/// The kinds of obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ObstacleKind")]
pub enum What {
    Disabled,
    NoCredential,
    NoPolicy,
    Posture,
    NoEdgeRouter,
    IdentityWithoutRouter,
    ServiceWithoutRouter,
    NoCommonRouter,
}

/// A request to the management interface.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Edit {
    pub method: &'static str,
    /// Below the base path of the management interface.
    pub path: String,
    pub body: Json,
    /// The same for a person.
    pub text: String,
}

/// The identity or service that a question names.
fn named<E: Entity>(tx: &Read<'_>, parameter: &str, name: &str) -> Result<Record<E>> {
    let found = tx.find_named::<E>(name)?;
    found.ok_or_else(|| Error::NotFound { kind: E::KIND.name, id: name.into(), field: Some(parameter.into()) })
}

/// Answers a question.
///
/// # Errors
/// There is no such identity or service; or a record cannot be read.
pub fn explain(tx: &Read<'_>, question: &Question<'_>) -> Result<Explanation> {
    let Question { identity, service, right, access, posture } = *question;
    let case = Case { identity: named(tx, "identity", identity)?, service: named(tx, "service", service)?, right, access };
    let evidence = evidence(tx, posture, &case.identity)?;
    answer(tx, &case, evidence)
}

/// What the endpoint of an identity showed, in its newest session.
fn evidence(tx: &Read<'_>, posture: Option<&Posture>, identity: &Record<Identity>) -> Result<Evidence> {
    let sessions = tx.linked::<ApiSession>("identity", identity.id.as_str())?;
    let newest = sessions.iter().max_by_key(|session| session.created_at).map(|session| session.id.as_str());
    let known = posture.map(|posture| posture.evidence(identity.id.as_str(), newest));
    Ok(known.unwrap_or_default().seen_by(&identity.state.sdk_info))
}

fn answer(tx: &Read<'_>, case: &Case<'_>, evidence: Evidence) -> Result<Explanation> {
    let (identity, service) = (case.identity.id.as_str(), case.service.id.as_str());
    let (granting, common) = case.access.ask(|engine| {
        let common: Vec<String> = engine.common_edge_routers(identity, service).in_order().map(|(_, id)| id.to_string()).collect();
        (engine.granting(identity, service, case.right), common)
    });
    let policies = granting.iter().filter_map(|grant| shown(tx, case, grant).transpose()).collect::<Result<Vec<_>>>()?;
    let routers = common.into_iter().filter_map(|id| router(tx, id).transpose()).collect::<Result<Vec<_>>>()?;
    let mut obstacles = login(tx, &case.identity)?;
    if policies.is_empty() {
        obstacles.push(edits::no_policy(tx, case)?);
    } else if let Ruling::Failed(failed) = Judge::new(tx, evidence).rule(&granting)? {
        obstacles.push(edits::posture(case, &failed));
    }
    if routers.is_empty() {
        obstacles.extend(edits::no_router(tx, case)?);
    }
    Ok(Explanation {
        identity: EntityRef::of(&case.identity, &case.identity.spec.name),
        service: EntityRef::of(&case.service, &case.service.spec.name),
        right: case.right,
        verdict: obstacles.is_empty(),
        policies,
        routers,
        obstacles,
    })
}

fn shown(tx: &Read<'_>, case: &Case<'_>, grant: &Granting) -> Result<Option<Grant>> {
    let Some(policy) = tx.find::<ServicePolicy>(&Id::from_text(grant.policy.as_ref()))? else { return Ok(None) };
    let by = |reason: &Reason, id: &str| match reason {
        Reason::Id => vec![format!("@{id}")],
        Reason::Everyone => vec!["#all".into()],
        Reason::Attributes(attributes) => attributes.iter().map(|attribute| format!("#{attribute}")).collect(),
    };
    let (identity_by, service_by) = (by(&grant.identity, case.identity.id.as_str()), by(&grant.service, case.service.id.as_str()));
    Ok(Some(Grant { policy: EntityRef::of(&policy, &policy.spec.name), identity_by, service_by }))
}

fn router(tx: &Read<'_>, id: String) -> Result<Option<Router>> {
    let found = tx.find::<EdgeRouter>(&Id::from_text(id.as_str()))?;
    Ok(found.map(|router| Router { is_online: tx.link(&id).is_some(), id, name: router.spec.name }))
}

/// What keeps an identity from logging in at all.
fn login(tx: &Read<'_>, identity: &Record<Identity>) -> Result<Vec<Obstacle>> {
    let (id, now) = (identity.id.as_str(), tx.now());
    let mut obstacles = Vec::new();
    if identity.state.is_disabled(now) {
        obstacles.push(edits::disabled(identity));
    }
    let has_credential = tx.any::<Authenticator>("identity", id)? || identity.spec.external_id.is_some();
    if !has_credential {
        let outstanding = tx.linked::<Enrollment>("identity", id)?.iter().map(|e| e.spec.expires_at).max();
        obstacles.push(edits::no_credential(identity, outstanding, now));
    }
    Ok(obstacles)
}

/// A day from now, which is how long a suggested enrollment is good for.
fn tomorrow(now: Timestamp) -> Timestamp {
    now.plus_minutes(24 * 60)
}
