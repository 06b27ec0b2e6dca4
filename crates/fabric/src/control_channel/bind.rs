//! Terminators of SDKs that host at a router, created at its request. Their later changes:
//! `terminator_changes.rs`.

use std::sync::Arc;

use model::entity::{Id, Precedence, Service, Terminator};
use policy::{
    access::Right,
    authentication::{BIND, RejectedCaller},
};
use prost::Message;
use tokio::time::sleep;
use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult as Outcome},
        fabric,
    },
    frame::{Builder, Frame},
};

use super::{
    connection::RouterConnection,
    control_core::ControlCore,
    replies::body,
    sessions::{FoundSession, SdkCredentials},
};
use crate::network::{
    EDGE, FailureReason, Grant, HostedService, LiveTerminator, PresentedSession, RequestFailure,
    Weight,
};

/// Maximum length of a terminator id, in bytes.
pub(crate) const MAX_ID: usize = 64;
/// Maximum length of an instance id, in bytes.
const MAX_INSTANCE: usize = 256;
/// Maximum length of an instance secret, in bytes.
const MAX_SECRET: usize = 256;
/// Maximum length of all peer data of a terminator, in bytes.
pub(crate) const MAX_PEER_DATA: usize = 8 << 10;

/// Why a terminator is not created.
pub(crate) struct BindRefusal {
    pub outcome: Outcome,
    pub failure: RequestFailure,
    service: Option<Id<Service>>,
    identity: Option<String>,
}

impl BindRefusal {
    fn other(text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::FailedOther,
            failure: RequestFailure::internal(text),
            service: None,
            identity: None,
        }
    }

    pub(crate) fn of(failure: RequestFailure) -> Self {
        let outcome = match failure.reason {
            FailureReason::Session
            | FailureReason::ApiSession
            | FailureReason::Policy
            | FailureReason::Posture => Outcome::FailedInvalidSession,
            _ => Outcome::FailedOther,
        };
        Self {
            outcome,
            failure,
            service: None,
            identity: None,
        }
    }
}

/// Creates a terminator for an SDK that hosts.
pub(crate) fn create(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(request_body) = body::<edge::CreateTerminator>(connection, &frame) else {
        return;
    };
    let id = request_body.address.clone();
    let hosting = {
        let (core, connection) = (core.clone(), connection.clone());
        async move { host(&core, &connection, &request_body).await }
    };
    answer_with(
        core,
        connection,
        frame.len(),
        hosting,
        move |outcome, text| answer(&frame, &id, outcome, text),
    );
}

/// Answers a request of this length for a terminator in a task of its own, with the outcome of
/// `hosting`.
pub(crate) fn answer_with(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    bytes: usize,
    hosting: impl Future<Output = Result<(), BindRefusal>> + Send + 'static,
    answer: impl Fn(Outcome, &str) -> Frame + Send + 'static,
) {
    let Some(request) = connection.begin_request(bytes) else {
        return connection.send(answer(
            Outcome::FailedBusy,
            "too many requests at the same time",
        ));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match hosting.await {
            Ok(()) => connection.send(answer(Outcome::Success, "")),
            Err(refusal) => {
                tracing::debug!(router = %connection.router, reason = %refusal.failure.text, "bind refused");
                // The delay limits SDKs that repeat a refused bind immediately, thousands of times
                // a second.
                sleep(core.times.refusal).await;
                connection.send(answer(refusal.outcome, &refusal.failure.text));
                count_refusal(&core, refusal).await;
            }
        }
        drop(request);
    });
}

fn answer(to: &Frame, id: &str, outcome: Outcome, text: &str) -> Frame {
    let id: String = id.chars().take(MAX_ID).collect();
    let answer = edge::CreateTerminatorResponse {
        terminator_id: id,
        result: outcome.into(),
        text: text.to_owned(),
    };
    Builder::reply(content::CREATE_TERMINATOR_RESPONSE, to).body(&answer.encode_to_vec())
}

async fn host(
    core: &ControlCore,
    connection: &RouterConnection,
    request_body: &edge::CreateTerminator,
) -> Result<(), BindRefusal> {
    let credentials = SdkCredentials {
        token: &request_body.session_token,
        api_session_token: Some(request_body.api_session_token.as_str())
            .filter(|token| !token.is_empty()),
        fingerprints: request_body
            .fingerprints
            .iter()
            .map(String::as_str)
            .collect(),
    };
    let found = core.session_of(&credentials).map_err(BindRefusal::of)?;
    core.seen(connection, &found.api_session);
    host_for(core, connection, request_body, &found, EDGE).await
}

/// Creates a terminator for a session that the caller has found. The tokens in the request are
/// ignored.
///
/// # Errors
/// The session has no right to it, or the request exceeds a limit.
pub(crate) async fn host_for(
    core: &ControlCore,
    connection: &RouterConnection,
    request_body: &edge::CreateTerminator,
    found: &FoundSession,
    binding: &'static str,
) -> Result<(), BindRefusal> {
    let weight = check(request_body)?;
    let request = BindRequest {
        request_body,
        found,
        binding,
        weight,
    };
    request.authorize(core, connection)?;
    let spec = &found.session.spec;
    let Some(known) = core.network.terminators.find(&request_body.address) else {
        return request.create(core, connection).await;
    };
    let before = &known.hosted;
    let is_same = before.router == connection.router
        && before.service == spec.service_id
        && before.identity == spec.identity_id;
    if !is_same {
        return Err(request.refusal(Outcome::FailedIdConflict, "another terminator has this id"));
    }
    if before.session == found.session.id && known.is_listed() {
        core.network
            .records
            .update(&before.router, before.id.clone(), weight)
            .await;
        return Ok(());
    }
    // The record is deleted unless it is replaced first.
    core.network.end_terminator(&known);
    request.create(core, connection).await
}

/// A request for a terminator within its limits.
struct BindRequest<'r> {
    request_body: &'r edge::CreateTerminator,
    found: &'r FoundSession,
    binding: &'static str,
    weight: Weight,
}

impl BindRequest<'_> {
    /// The refusal with the service and the identity of the session.
    fn named(&self, refusal: BindRefusal) -> BindRefusal {
        let spec = &self.found.session.spec;
        BindRefusal {
            service: Some(spec.service_id.clone()),
            identity: Some(spec.identity_id.to_string()),
            ..refusal
        }
    }

    fn refusal(&self, outcome: Outcome, text: &str) -> BindRefusal {
        self.named(BindRefusal {
            outcome,
            ..BindRefusal::other(text)
        })
    }

    /// Checks that the session may host at the router.
    fn authorize(
        &self,
        core: &ControlCore,
        connection: &RouterConnection,
    ) -> Result<Grant, BindRefusal> {
        let api_session = &self.found.api_session;
        let presented = PresentedSession {
            api_session: &api_session.id,
            token: &api_session.spec.token,
        };
        let authorized = core.network.authorizer.authorize(
            presented,
            &self.found.session,
            Right::Bind,
            &connection.router,
        );
        authorized.map_err(|refusal| self.named(BindRefusal::of(refusal.into())))
    }

    /// Creates the terminator and writes its record.
    async fn create(
        &self,
        core: &ControlCore,
        connection: &RouterConnection,
    ) -> Result<(), BindRefusal> {
        let Self {
            request_body,
            found,
            binding,
            weight,
        } = *self;
        let (id, spec) = (
            Id::<Terminator>::from_text(request_body.address.as_str()),
            &found.session.spec,
        );
        if core.network.terminators.count(&connection.router)
            >= core.context.routers.max_terminators
        {
            return Err(self.refusal(Outcome::FailedBusy, "too many terminators at this router"));
        }
        let hosted = HostedService {
            id: id.clone(),
            router: connection.router.clone(),
            binding,
            service: spec.service_id.clone(),
            instance: request_body.instance_id.clone(),
            identity: spec.identity_id.clone(),
            session: found.session.id.clone(),
            api_session: found.api_session.id.clone(),
            token: found.api_session.spec.token.clone(),
            peer_data: request_body
                .peer_data
                .iter()
                .filter_map(|entry| Some((entry.key?, entry.value.clone()?)))
                .collect(),
        };
        let terminator = Arc::new(LiveTerminator::new(hosted, weight));
        if core.network.terminators.add(&terminator).is_err() {
            return Err(self.refusal(
                Outcome::FailedBusy,
                "a terminator with this id is being created",
            ));
        }
        // The router may have been restarted meanwhile, and its terminators removed before this one
        // was added.
        if connection.is_closed() {
            core.network.terminators.remove(&terminator, |_| ());
            return Err(self.refusal(
                Outcome::FailedOther,
                "the connection of the router has ended",
            ));
        }
        // From here on a change that removes the right finds the terminator; the second check
        // covers changes before.
        let written = match self.authorize(core, connection) {
            Ok(_) => {
                let secret = &request_body.instance_secret;
                core.network
                    .records
                    .add(&terminator, secret)
                    .await
                    .map_err(|failure| self.named(BindRefusal::of(failure)))
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = written {
            core.network.terminators.remove(&terminator, |_| ());
            return Err(refusal);
        }
        terminator.set_listed(true);
        if core.network.terminators.when_free(terminator.id(), |id| {
            core.network.records.remove(&connection.router, [id])
        }) {
            return Err(self.named(BindRefusal::of(RequestFailure::invalid_session())));
        }
        tracing::debug!(router = %connection.router, terminator = %terminator.id(), service = %spec.service_id, identity = %spec.identity_id, "hosted");
        Ok(())
    }
}

/// Checks the limits of a request.
fn check(request_body: &edge::CreateTerminator) -> Result<Weight, BindRefusal> {
    let is_id = |id: &str| {
        !id.is_empty()
            && id.len() <= MAX_ID
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    if !is_id(&request_body.address) {
        return Err(BindRefusal::other(format!(
            "address: 1 to {MAX_ID} letters, digits, '-', '_' and '.' are allowed"
        )));
    }
    if request_body.instance_id.len() > MAX_INSTANCE
        || request_body.instance_secret.len() > MAX_SECRET
    {
        return Err(BindRefusal::of(RequestFailure::instance(format!(
            "an instance id has at most {MAX_INSTANCE} bytes, its secret {MAX_SECRET}"
        ))));
    }
    let bytes: usize = request_body
        .peer_data
        .iter()
        .map(|entry| 8 + entry.value.as_ref().map_or(0, Vec::len))
        .sum();
    if bytes > MAX_PEER_DATA {
        return Err(BindRefusal::other(format!(
            "peerData: {bytes} bytes; at most {MAX_PEER_DATA} are allowed"
        )));
    }
    let cost = u16::try_from(request_body.cost)
        .map_err(|_| BindRefusal::other("cost: at most 65535 is allowed"))?;
    let precedence = precedence(request_body.precedence)
        .ok_or_else(|| BindRefusal::other("precedence: 0, 1 and 2 are allowed"))?;
    Ok(Weight {
        precedence,
        cost,
        ..Weight::default()
    })
}

pub(crate) fn precedence(number: i32) -> Option<Precedence> {
    Some(match fabric::TerminatorPrecedence::try_from(number).ok()? {
        fabric::TerminatorPrecedence::Default => Precedence::Default,
        fabric::TerminatorPrecedence::Required => Precedence::Required,
        fabric::TerminatorPrecedence::Failed => Precedence::Failed,
    })
}

/// Counts a refusal for lack of a right, for the history.
pub(crate) async fn count_refusal(core: &ControlCore, refusal: BindRefusal) {
    let Some(reason) = refusal.failure.reason.text() else {
        return;
    };
    let service = refusal.service.map(|service| service.to_string());
    let refused = RejectedCaller {
        what: BIND,
        identity: refusal.identity,
        address: None,
        service,
        reason,
    };
    core.network.note_refusal(refused).await;
}
