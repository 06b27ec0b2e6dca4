//! Answers of endpoints to posture checks.

use model::{
    entity::{Id, PolicyType, Record, Service, ServicePolicy, TypedLookup},
    error::{Error, FailedCheck, Result},
};
use policy::{
    access::Right,
    authentication::Caller,
    change::Change,
    posture::{
        self, EvaluatedCheck, Evidence, FailedRequest, PolicyFailure, Response,
        ServiceAwaitingCode, ServicePermission, Trigger,
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Ids, Read};

use super::service::visible;
use crate::{
    body::{self, Incoming},
    call::Call,
    envelope::Pagination,
    extractor::{Body, Extractor},
    list_body::{ObjectWithList, joined},
    list_part::Part,
    openapi::operation::{Operation, Schemas},
};

/// Several answers, which are stored all or not at all. Errors name members as for a single answer.
pub(crate) struct Bulk(Vec<Response>);

impl Extractor for Bulk {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.json_body(
            "postureResponse",
            "PostureResponseBulk".into(),
            Schemas::inline::<Vec<Response>>(),
        )
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        incoming
            .json()
            .and_then(body::read)
            .map(Self)
            .map_err(alone)
    }
}

fn alone(error: Error) -> Error {
    match error {
        Error::Invalid {
            field,
            reason,
            value,
            is_missing,
        } => {
            let member = field
                .split_once('.')
                .filter(|(index, _)| index.parse::<usize>().is_ok())
                .map(|(_, member)| member);
            Error::Invalid {
                field: member.unwrap_or(&field).to_owned(),
                reason,
                value,
                is_missing,
            }
        }
        Error::Several(errors) => Error::Several(errors.into_iter().map(alone).collect()),
        other => other,
    }
}

/// The reply to posture answers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PostureResponseAnswer")]
pub(crate) struct PostureReply {
    /// After waking up or being unlocked: the services that will soon require a new code.
    services: Vec<ServiceAwaitingCode>,
}

/// POST /posture-response
pub(crate) async fn respond(call: Call, Body(response): Body<Response>) -> Result<Reply<201>> {
    take(call, vec![response]).await
}

/// POST /posture-response-bulk
pub(crate) async fn respond_at_once(call: Call, Bulk(responses): Bulk) -> Result<Reply<200>> {
    take(call, responses).await
}

type Reply<const STATUS: u16> = ObjectWithList<PostureReply, ServiceAwaitingCode, STATUS>;

/// Separates the id of a service and a number of seconds; no id contains it.
const BETWEEN: char = '\n';

async fn take<const STATUS: u16>(call: Call, responses: Vec<Response>) -> Result<Reply<STATUS>> {
    let caller = call.caller()?;
    let (identity, api_session) = (&caller.identity.id, &caller.session.id);
    let happened = |event: fn(&Response) -> bool| responses.iter().any(event);
    let events = (
        happened(|response| matches!(response, Response::EndpointState { woken: true, .. })),
        happened(|response| matches!(response, Response::EndpointState { unlocked: true, .. })),
    );
    if !responses.is_empty() {
        call.state.posture.take(identity, api_session, responses)?;
        let (posture, trigger) = (
            call.state.posture.clone(),
            Trigger::Identity(identity.to_string()),
        );
        let sessions_to_end = call
            .state
            .store
            .scan(move |tx| posture::sessions_to_end(tx, &posture, &trigger))
            .await?;
        if !sessions_to_end.is_empty() {
            let report = call.state.posture.report(identity, api_session);
            let end = move |change: &Change<'_, '_>| {
                posture::end(change, &sessions_to_end)
                    .and_then(|()| posture::write_report(change, report))
            };
            call.changes.run(end).await?;
        }
    }
    let (access, evidence, identity) = (
        call.state.access.clone(),
        call.evidence()?,
        identity.clone(),
    );
    let find = move |tx: &Read<'_>| {
        let mut services = Ids::default();
        for (service, timeout) in
            posture::awaited(tx, &access, &evidence, identity.as_str(), events)?
        {
            services.push(&format!("{service}{BETWEEN}{timeout}"));
        }
        Ok((services, Pagination::default()))
    };
    let write = |tx: &Read<'_>, _, part: &mut Part<'_>| {
        while let Some((service, timeout)) = part
            .next()
            .map(|service| service.split_once(BETWEEN).unwrap_or_default())
        {
            if let Some(service) = tx.find(&Id::<Service>::from_text(service))? {
                part.add_value(&ServiceAwaitingCode::new(
                    service,
                    timeout.parse().unwrap_or(-1),
                ))?;
            }
        }
        Ok(())
    };
    let entries = joined(&call, Vec::new(), find, write).await?;
    Ok(ObjectWithList {
        data: PostureReply {
            services: Vec::new(),
        },
        entries,
    })
}

/// The policies by which a caller may use a service now. If there are many, only some of them are
/// returned. If the system has no posture checks, none is returned.
///
/// # Errors
/// The caller lacks the right, may not see the service, or fails posture checks; a failure of
/// posture checks is recorded.
pub(crate) fn allowed(
    call: &Call,
    caller: &Caller,
    service: &Record<Service>,
    wanted: PolicyType,
) -> Result<Vec<Id<ServicePolicy>>> {
    let id = service.id.as_str();
    let (policies, evidence) = match call.state.posture.permission(
        &caller.identity,
        &caller.session.id,
        id,
        Right::from(wanted),
    )? {
        ServicePermission::Granted(policies) => return Ok(policies),
        ServicePermission::Blocked(policies, evidence) => (policies, evidence),
        ServicePermission::Missing => {
            call.state
                .store
                .read(|tx| visible(call, caller, tx, &service.id))?;
            return Err(Error::invalid("ServiceId", "service not found", id));
        }
    };
    let failed = call
        .state
        .store
        .read(|tx| failure(call, caller, service, wanted, &policies, &evidence, tx))?;
    call.state
        .posture
        .keep_failure(&caller.identity.id, failed)?;
    Err(Error::InvalidPosture(
        policies
            .into_iter()
            .map(|(policy, checks)| (policy, failing(&checks)))
            .collect(),
    ))
}

fn failing(checks: &[EvaluatedCheck]) -> Vec<FailedCheck> {
    let failed = checks.iter().filter(|judged| !judged.verdict.passes);
    failed
        .map(|judged| FailedCheck {
            id: judged.check.id.to_string(),
            type_id: judged.check.spec.demand.kind().as_str(),
        })
        .collect()
}

fn failure(
    call: &Call,
    caller: &Caller,
    service: &Record<Service>,
    session_type: PolicyType,
    policies: &[(String, Vec<EvaluatedCheck>)],
    evidence: &Evidence,
    tx: &Read<'_>,
) -> Result<FailedRequest> {
    let of = |(policy, checks): &(String, Vec<EvaluatedCheck>)| {
        PolicyFailure::of(policy, checks, evidence, tx)
    };
    Ok(FailedRequest {
        api_session_id: caller.session.id.clone(),
        service_id: service.id.clone(),
        service_name: service.spec.name.clone(),
        session_type,
        when: call.now,
        policy_failures: policies.iter().map(of).collect::<Result<_>>()?,
    })
}
