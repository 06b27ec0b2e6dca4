//! Terminators of SDKs that host at a router: made, changed, removed and confirmed as the router asks.

use std::{collections::HashSet, sync::Arc};

use prost::Message;
use tokio::time::sleep;

use super::{
    answers::{body, error, result},
    connection::RouterConnection,
    core::Core,
    hosted::{HostedTerminator, NewHosted},
    message::{
        content,
        edge::{self, CreateTerminatorResult as Outcome},
        fabric,
    },
    sessions::Shown,
};
use crate::{
    access::Right,
    authentication::{BIND, Refused},
    entity::{Id, Precedence, Service, Terminator},
    frame::{Builder, Frame},
    network::{Failure, Grant, Holder, NewTerminator, Reason, Weight, unreadable},
};

/// An id of a terminator has at most this many bytes.
const MOST_ID: usize = 64;
/// An instance id has at most this many bytes.
const MOST_INSTANCE: usize = 256;
/// A secret has at most this many bytes.
const MOST_SECRET: usize = 256;
/// Peer data has at most this many bytes in all.
pub const MOST_PEER_DATA: usize = 8 << 10;
/// So many services may be hosted at one router.
const MOST_TERMINATORS: usize = 20_000;
/// Terminators that a router is asked about in one message.
pub const VALIDATED: usize = 500;

/// Why a terminator is not made.
struct Refusal {
    outcome: Outcome,
    failure: Failure,
    service: Option<Id<Service>>,
    identity: Option<String>,
}

impl Refusal {
    fn other(text: impl Into<String>) -> Self {
        Self { outcome: Outcome::FailedOther, failure: Failure::internal(text), service: None, identity: None }
    }

    fn of(failure: Failure) -> Self {
        let outcome = match failure.reason {
            Reason::Session | Reason::ApiSession | Reason::Policy | Reason::Posture => Outcome::FailedInvalidSession,
            _ => Outcome::FailedOther,
        };
        Self { outcome, failure, service: None, identity: None }
    }
}

/// An SDK hosts.
pub fn create(core: &Arc<Core>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(wish) = body::<edge::CreateTerminator>(connection, &frame) else { return };
    let Some(request) = connection.begin_request() else {
        return connection.send(answer(&frame, &wish.address, Outcome::FailedBusy, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match host(&core, &connection, &wish).await {
            Ok(()) => connection.send(answer(&frame, &wish.address, Outcome::Success, "")),
            Err(refusal) => {
                tracing::debug!(router = %connection.router, reason = %refusal.failure.text, "bind refused");
                // SDKs bind again at once, thousands of times a second.
                sleep(core.times.refusal).await;
                connection.send(answer(&frame, &wish.address, refusal.outcome, &refusal.failure.text));
                note(&core, refusal).await;
            }
        }
        drop(request);
    });
}

fn answer(to: &Frame, id: &str, outcome: Outcome, text: &str) -> Frame {
    let id: String = id.chars().take(MOST_ID).collect();
    let answer = edge::CreateTerminatorResponse { terminator_id: id, result: outcome.into(), text: text.to_owned() };
    Builder::reply(content::CREATE_TERMINATOR_RESPONSE, to).body(&answer.encode_to_vec())
}

async fn host(core: &Core, connection: &RouterConnection, wish: &edge::CreateTerminator) -> Result<(), Refusal> {
    let weight = check(wish)?;
    let shown = Shown {
        token: &wish.session_token,
        api_session_token: Some(wish.api_session_token.as_str()).filter(|token| !token.is_empty()),
        fingerprints: wish.fingerprints.iter().map(String::as_str).collect(),
    };
    let found = core.session_of(&shown).map_err(Refusal::of)?;
    let spec = &found.session.spec;
    let named =
        |refusal: Refusal| Refusal { service: Some(spec.service_id.clone()), identity: Some(spec.identity_id.to_string()), ..refusal };
    let judge = || -> Result<Grant, Refusal> {
        let holder = Holder { api_session: &found.api_session.id, token: &found.api_session.spec.token };
        let judged = core.parts.rights.judge(holder, &found.session, Right::Bind, &connection.router);
        judged.map_err(unreadable).flatten().map_err(|failure| named(Refusal::of(failure)))
    };
    let grant = judge()?;
    let id = Id::<Terminator>::from_text(wish.address.as_str());
    if let Some(known) = core.hosted.find(&wish.address) {
        let is_same = known.router == connection.router && known.service == spec.service_id && known.identity == spec.identity_id;
        if is_same && known.session == found.session.id && known.is_listed() {
            core.records.update(id, weight).await;
            return Ok(());
        }
        if !is_same {
            return Err(named(Refusal { outcome: Outcome::FailedIdConflict, ..Refusal::other("another terminator has this id") }));
        }
        core.hosted.remove(&known);
    }
    if core.hosted.count(&connection.router) >= MOST_TERMINATORS {
        return Err(named(Refusal { outcome: Outcome::FailedBusy, ..Refusal::other("too many terminators at this router") }));
    }
    let hosted = Arc::new(HostedTerminator::from(NewHosted {
        id: id.clone(),
        router: connection.router.clone(),
        service: spec.service_id.clone(),
        identity: spec.identity_id.clone(),
        session: found.session.id.clone(),
        api_session: found.api_session.id.clone(),
        token: found.api_session.spec.token.clone(),
        peer_data: wish.peer_data.clone(),
        weight,
    }));
    if !core.hosted.add(&hosted) {
        return Err(named(Refusal { outcome: Outcome::FailedBusy, ..Refusal::other("the terminator is being made") }));
    }
    // From here on a change that takes the right away finds it; the check is made once more for what changed before.
    let new = NewTerminator {
        id,
        router: connection.router.clone(),
        service: spec.service_id.clone(),
        weight,
        instance: wish.instance_id.clone(),
        secret: if wish.instance_id.is_empty() { Vec::new() } else { wish.instance_secret.clone() },
        host: grant.identity.id.clone(),
    };
    let written = match judge() {
        Ok(_) => core.records.add(new).await.map_err(|failure| named(Refusal::of(failure))),
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = written {
        core.hosted.remove(&hosted);
        return Err(refusal);
    }
    if core.hosted.find(hosted.id.as_str()).is_none() {
        core.records.remove([hosted.id.clone()]);
        return Err(named(Refusal::of(Failure::invalid_session())));
    }
    tracing::debug!(router = %connection.router, terminator = %hosted.id, service = %hosted.service, identity = %hosted.identity, "hosted");
    Ok(())
}

/// Whether a wish is within its bounds.
fn check(wish: &edge::CreateTerminator) -> Result<Weight, Refusal> {
    let is_id = |id: &str| !id.is_empty() && id.len() <= MOST_ID && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !is_id(&wish.address) {
        return Err(Refusal::other(format!("address: 1 to {MOST_ID} letters, digits, '-', '_' and '.' are allowed")));
    }
    if wish.instance_id.len() > MOST_INSTANCE || wish.instance_secret.len() > MOST_SECRET {
        return Err(Refusal::of(Failure::instance(format!("an instance id has at most {MOST_INSTANCE} bytes, its secret {MOST_SECRET}"))));
    }
    let bytes: usize = wish.peer_data.iter().map(|entry| 8 + entry.value.as_ref().map_or(0, Vec::len)).sum();
    if bytes > MOST_PEER_DATA {
        return Err(Refusal::other(format!("peerData: {bytes} bytes; at most {MOST_PEER_DATA} are allowed")));
    }
    let cost = u16::try_from(wish.cost).map_err(|_| Refusal::other("cost: at most 65535 is allowed"))?;
    let precedence = precedence(wish.precedence).ok_or_else(|| Refusal::other("precedence: 0, 1 and 2 are allowed"))?;
    Ok(Weight { precedence, cost, dynamic_cost: 0 })
}

fn precedence(number: i32) -> Option<Precedence> {
    Some(match fabric::TerminatorPrecedence::try_from(number).ok()? {
        fabric::TerminatorPrecedence::Default => Precedence::Default,
        fabric::TerminatorPrecedence::Required => Precedence::Required,
        fabric::TerminatorPrecedence::Failed => Precedence::Failed,
    })
}

/// Counts a refusal for want of a right, for the history.
async fn note(core: &Core, refusal: Refusal) {
    let Some(reason) = refusal.failure.reason.text() else { return };
    let service = refusal.service.map(|service| service.to_string());
    let refused = Refused { what: BIND, identity: refusal.identity, address: None, service, reason };
    core.parts.refusals.note(&core.parts.rights.store, refused, core.parts.rights.clock.now()).await;
}

/// Cost or precedence of what an SDK hosts change.
pub fn update(core: &Arc<Core>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(wish) = body::<edge::UpdateTerminator>(connection, &frame) else { return };
    let Some(request) = connection.begin_request() else { return };
    let own = core.hosted.find(&wish.terminator_id).filter(|hosted| hosted.router == connection.router);
    let Some(hosted) = own else { return connection.send(error(&frame, 8, "invalid terminator")) };
    let known = hosted.weight();
    let cost = if wish.update_cost { u16::try_from(wish.cost).ok() } else { Some(known.cost) };
    let precedence = if wish.update_precedence { precedence(wish.precedence) } else { Some(known.precedence) };
    let (Some(cost), Some(precedence)) = (cost, precedence) else {
        return connection.send(error(&frame, if cost.is_none() { 10 } else { 9 }, "invalid cost or precedence"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        core.records.update(hosted.id.clone(), Weight { precedence, cost, dynamic_cost: 0 }).await;
        connection.send(Builder::reply(content::UPDATE_TERMINATOR_RESPONSE, &frame).empty());
        drop(request);
    });
}

/// An SDK hosts no more. Ids of others count as done, and nothing happens to them.
pub fn remove(core: &Core, connection: &RouterConnection, frame: &Frame) {
    let Some(wish) = body::<fabric::RemoveTerminators>(connection, frame) else { return };
    let own = wish.terminator_ids.iter().filter_map(|id| core.hosted.find(id)).filter(|hosted| hosted.router == connection.router);
    own.for_each(|hosted| core.end_hosted(&hosted));
    connection.send(result(frame, true, ""));
}

/// Asks a router whether it knows terminators.
pub fn validation(hosted: &[Arc<HostedTerminator>]) -> Frame {
    let of = |hosted: &Arc<HostedTerminator>| fabric::Terminator {
        id: hosted.id.to_string(),
        binding: "edge".into(),
        address: hosted.id.to_string(),
        marker: 1,
    };
    let asked = fabric::ValidateTerminators { terminators: hosted.iter().map(of).collect(), fix_invalid: true, post_create: false };
    Builder::new(content::VALIDATE_TERMINATORS).body(&asked.encode_to_vec())
}

/// What a router answers to that: those that it does not know end.
pub fn validated(core: &Core, connection: &RouterConnection, frame: &Frame) {
    let Some(answer) = body::<fabric::ValidateTerminatorsResponse>(connection, frame) else { return };
    let is_invalid = |entry: &fabric::TerminatorStateEntry| entry.value.as_ref().is_some_and(|state| !state.valid);
    let invalid: HashSet<String> = answer.states.into_iter().filter(is_invalid).filter_map(|entry| entry.key).collect();
    let own = invalid.iter().filter_map(|id| core.hosted.find(id)).filter(|hosted| hosted.router == connection.router);
    own.for_each(|hosted| core.end_hosted(&hosted));
}
