//! Why an identity may or may not use a service: the verdict, its reasons, and the edits that would
//! change it.
//!
//! Here: queries to the engine and the store, combined for people and programs. Not here: any rule
//! of its own; enforcement asks the same engine. Start at [`explain`], then [`edits`], which gives
//! the requests that remove an obstacle, and [`command`], which writes them as commands.
//!
//! Invariant: `allowed` is what POST /sessions would answer now in the newest complete session;
//! except that an open session is always returned again. Without a complete session, it is what an
//! identity would get that logs in now, with a one-time code if it has set them up. Applying one
//! edit of every obstacle to a right gives the right. The verdict is yes only if traffic could flow
//! as well (`traffic.rs`), and not while the last dial of every host failed (`dials.rs`).

mod authentication;
mod case;
mod checks;
mod command;
mod credentials;
mod dials;
mod edits;
mod host_failures;
mod obstacle;
mod paths;
mod policies;
mod routers;
mod second_factors;
mod text;
mod traffic;

use model::{
    clock::CalendarTime,
    entity::{Entity, Id, Lookup, Record, ServicePolicy, TypedLookup},
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use self::{
    authentication::Authentication,
    case::{Case, MAX_LISTED, NamedRecord},
    obstacle::Obstacle,
    policies::{GrantingPolicy, NearGrant, PolicyCandidate},
    routers::CommonRouter,
    traffic::Host,
};
use crate::{
    access::{Access, NearMiss, Right},
    authentication::mfa,
    hosting::Hosting,
    posture::{Decision, Evidence, Posture, PostureEvaluator},
};

/// A question: may this identity dial, or bind, this service?
pub struct Question<'q> {
    /// An id or a name, for the service too.
    pub identity: &'q str,
    pub service: &'q str,
    pub right: Right,
    pub access: &'q Access,
    /// The posture data of endpoints; only a running controller has it.
    pub posture: Option<&'q Posture>,
    /// Who hosts what, and which dials failed; only a running controller knows.
    pub hosting: Option<&'q Hosting>,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    identity: NamedRecord,
    service: NamedRecord,
    #[serde(rename = "type")]
    right: Right,
    /// Whether it would work now: the right is there, a common router is connected, and, to dial, a
    /// host binds the service, and the last dial of at least one host did not fail.
    pub verdict: bool,
    /// Whether the right is there: a session would be opened now for an identity that has logged in
    /// completely, and it can log in. An open session is returned in any case.
    pub(crate) allowed: bool,
    /// Whether the identity can log in, and with which credentials.
    authentication: Authentication,
    /// The policies that give the right.
    policies: Vec<GrantingPolicy>,
    /// If no policy gives it: those that lack least, at most 10.
    near_policies: Vec<NearGrant>,
    /// The edge routers that identity and service have in common.
    routers: Vec<CommonRouter>,
    /// The reachable hosts of the service, at most 10.
    hosts: Vec<Host>,
    /// The number of all reachable hosts.
    host_count: usize,
    /// The obstacles, those to the right first; empty exactly if the verdict is yes.
    pub(crate) obstacles: Vec<Obstacle>,
    /// The answer in plain English, in lines, with the commands that remove the obstacles.
    pub text: String,
}

/// Answers a question.
///
/// # Errors
/// [`Error::Invalid`] if the identity or the service is empty; [`Error::NotFound`] with the name of
/// the parameter if there is no such record; or a record cannot be read.
pub fn explain(tx: &Read<'_>, question: &Question<'_>) -> Result<Explanation> {
    let Question {
        identity,
        service,
        right,
        access,
        posture,
        hosting,
    } = *question;
    let (identity, service) = (
        named(tx, "identity", identity)?,
        named(tx, "service", service)?,
    );
    let session = authentication::logged_in(tx, &identity)?;
    let restored_at = posture.and_then(Posture::restored_at);
    let case = Case {
        identity,
        service,
        right,
        access,
        hosting,
        session,
        restored_at,
    };
    let evidence = evidence(tx, posture, &case)?;
    answer(tx, case, &evidence)
}

/// The identity or service that a question names.
fn named<E: Entity>(tx: &Read<'_>, parameter: &str, name: &str) -> Result<Record<E>> {
    if name.is_empty() {
        return Err(Error::invalid(parameter, "must not be empty", name));
    }
    let found = tx.find_named::<E>(name)?;
    found.ok_or_else(|| Error::NotFound {
        kind: E::KIND.name,
        id: name.into(),
        field: Some(parameter.into()),
    })
}

/// The posture data of the identity's newest complete session. Without one, an identity with
/// one-time codes counts as having just entered one, because it has to when it logs in.
fn evidence(tx: &Read<'_>, posture: Option<&Posture>, case: &Case<'_>) -> Result<Evidence> {
    let (identity, session) = (
        &case.identity,
        case.session.as_ref().map(|session| session.id.as_str()),
    );
    let known = posture.map(|posture| posture.evidence(identity.id.as_str(), session));
    let mut known = known.unwrap_or_else(|| Evidence::none(CalendarTime::at(tx.now())));
    if session.is_none() && mfa::is_enrolled(tx, &identity.id)? {
        known.mfa_state.passed_at = Some(known.now);
    }
    Ok(known.seen_by(&identity.state.sdk_info))
}

fn answer(tx: &Read<'_>, case: Case<'_>, evidence: &Evidence) -> Result<Explanation> {
    let (identity, service) = (case.identity.id.as_str(), case.service.id.as_str());
    let (granting, common) = case.access.ask(|engine| {
        let common: Vec<String> = engine
            .common_edge_routers(identity, service)
            .in_order()
            .map(|(_, id)| id.to_string())
            .collect();
        (engine.granting(identity, service, case.right), common)
    });
    let evaluator = PostureEvaluator::new(tx, evidence.clone());
    let granted = |grant| policies::granting(tx, &case, grant, &evaluator, evidence).transpose();
    let policies = granting
        .iter()
        .filter_map(granted)
        .collect::<Result<Vec<_>>>()?;
    let near = if policies.is_empty() {
        nearest(tx, &case, &evaluator)?
    } else {
        Vec::new()
    };
    let routers = common
        .iter()
        .filter_map(|id| routers::in_common(tx, id).transpose())
        .collect::<Result<Vec<_>>>()?;
    let (authentication, mut obstacles) = authentication::obstacles(tx, &case)?;
    if policies.is_empty() {
        obstacles.push(edits::no_policy(tx, &case, &near)?);
    } else if let Decision::Failed(failed) =
        evaluator.evaluate(granting.iter().map(|grant| &grant.policy_grant))?
    {
        obstacles.push(checks::not_passed(tx, &case, &failed, evidence)?);
    }
    if routers.is_empty() {
        obstacles.extend(routers::missing(tx, &case)?);
    }
    let allowed = obstacles.is_empty();
    let mut hosts = traffic::hosts(tx, &case)?;
    obstacles.extend(traffic::obstacles(tx, &case, &routers, &hosts)?);
    if case.right == Right::Dial {
        obstacles.extend(paths::missing(tx, &case, &routers, &hosts)?);
        obstacles.extend(dials::failing(&case, &hosts));
    }
    command::add_commands(tx, &mut obstacles)?;
    let host_count = hosts.len();
    hosts.truncate(MAX_LISTED);
    let mut explanation = Explanation {
        identity: NamedRecord::new(&case.identity, &case.identity.spec.name),
        service: NamedRecord::new(&case.service, &case.service.spec.name),
        right: case.right,
        verdict: obstacles.is_empty(),
        allowed,
        authentication,
        policies,
        near_policies: near
            .iter()
            .map(|candidate| policies::nearly(&case, candidate))
            .collect(),
        routers,
        hosts,
        host_count,
        obstacles,
        text: String::new(),
    };
    explanation.text = explanation.to_string();
    Ok(explanation)
}

/// The policies that lack least to give the right; those whose posture checks pass come first.
fn nearest(
    tx: &Read<'_>,
    case: &Case<'_>,
    evaluator: &PostureEvaluator<'_>,
) -> Result<Vec<PolicyCandidate>> {
    let (identity, service) = (case.identity.id.as_str(), case.service.id.as_str());
    let mut nearest = Vec::new();
    for near in case
        .access
        .ask(|engine| engine.near_misses(identity, service, case.right))
    {
        nearest.push((!evaluator.passes(&near.posture_checks)?, near));
    }
    nearest
        .sort_by_key(|(is_failing, near)| (*is_failing, near.lacking.iter().map(Vec::len).min()));
    let read = |(is_failing, near): (bool, NearMiss)| {
        let policy = tx.find(&Id::<ServicePolicy>::from_text(near.policy.as_ref()))?;
        Ok(policy.map(|policy| PolicyCandidate {
            policy,
            near,
            is_passing: !is_failing,
        }))
    };
    nearest
        .into_iter()
        .take(MAX_LISTED)
        .filter_map(|near| read(near).transpose())
        .collect()
}
