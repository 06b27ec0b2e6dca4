//! Hosting services: the messages Bind, Unbind and UpdateBind.

use std::{sync::Arc, time::Duration};

use model::entity::{EdgeRouter, Id, Precedence, Record, Session, Terminator};
use policy::{access::Right, authentication::BIND, change::Lifecycle};
use tokio::time::sleep;
use wire::{
    frame::{Builder, Frame},
    sdk::{self, Retry, key, kind},
};

use super::{
    binding::{BindRequest, Binding},
    channel::Channel,
    connections::{ConnectionEntry, Connections},
    message,
    requests::RequestGuard,
    router_core::RouterCore,
};
use crate::network::{EDGE, HostedService, LiveTerminator, NotAdded, RequestFailure, Weight};

/// The maximum length in bytes of an instance id.
const MAX_INSTANCE: usize = 256;
/// The maximum length in bytes of a key for end-to-end encryption.
const MAX_KEY: usize = 4096;
/// The maximum length in bytes of a listener id and of an instance secret.
const MAX_SECRET: usize = 256;

/// The delay between the answer to a Bind and BindSuccess. The Go SDK 1.9 never considers a
/// listener established if BindSuccess arrives before it has processed the answer.
const BIND_SUCCESS_AFTER: Duration = Duration::from_millis(250);

/// Starts the task that handles a Bind.
pub(crate) fn bind(core: &Arc<RouterCore>, connections: &Arc<Connections>, frame: Frame) {
    let channel = &connections.channel;
    // Beyond the limit of open requests a Bind gets no answer: an SDK that is rejected at once
    // binds again at once.
    let Some(request) = core.requests.begin(channel, &frame) else {
        core.counters.binds_refused.increment();
        return tracing::debug!(
            channel = channel.login.number,
            "too many binds at the same time"
        );
    };
    tokio::spawn(run(core.clone(), connections.clone(), frame, request));
}

async fn run(
    core: Arc<RouterCore>,
    connections: Arc<Connections>,
    frame: Frame,
    request: RequestGuard,
) {
    let channel = &connections.channel;
    let connection = frame.u32(key::CONNECTION);
    let outcome = match connection {
        Some(connection) => host(&core, &connections, &frame, connection).await,
        None => Err(RequestFailure::internal(
            "a Bind must carry a connection id",
        )),
    };
    match outcome {
        Ok(()) => {
            let connection = connection.unwrap_or_default();
            let answer = sdk::connected(&frame, connection);
            let gives_ids = frame.is_set(key::ROUTER_CONNECTION);
            channel.send(
                if gives_ids {
                    answer.flag(key::ROUTER_CONNECTION, true)
                } else {
                    answer
                }
                .empty(),
            );
            drop(request);
            if frame.is_set(key::BIND_SUCCESS) {
                sleep(BIND_SUCCESS_AFTER).await;
                channel.send(
                    Builder::new(kind::BIND_SUCCESS)
                        .u32(key::CONNECTION, connection)
                        .empty(),
                );
            }
        }
        Err(failure) => {
            tracing::debug!(channel = channel.login.number, identity = %channel.login.identity, reason = %failure.text, "bind rejected");
            core.counters.binds_refused.increment();
            sleep(core.times.refusal).await;
            channel.send(message::refused(
                &frame,
                connection.unwrap_or_default(),
                &failure,
            ));
            drop(request);
            let service = core.service_of(channel, frame.body(), &failure);
            core.note_refusal(BIND, channel, service.as_ref(), &failure)
                .await;
        }
    }
}

async fn host(
    core: &Arc<RouterCore>,
    connections: &Connections,
    frame: &Frame,
    connection: u32,
) -> Result<(), RequestFailure> {
    let channel = &connections.channel;
    if let Some(failure) = core.refusal() {
        return Err(failure);
    }
    let session = core.session_of(channel, frame.body()).await?;
    let (instance, secret) = instance(frame)?;
    if listener(frame).is_some_and(|listener| listener.len() > MAX_SECRET) {
        return Err(RequestFailure::instance(format!(
            "a listener id has at most {MAX_SECRET} bytes"
        )));
    }
    let public_key = frame.header(key::PUBLIC_KEY);
    if public_key.is_some_and(|key| key.len() > MAX_KEY) {
        return Err(RequestFailure::new(
            1,
            Retry::Never,
            format!("a public key has at most {MAX_KEY} bytes"),
        ));
    }
    let earlier = earlier(
        core,
        channel,
        frame,
        session.spec.service_id.as_str(),
        &instance,
    );
    if let Earlier::Same = earlier {
        return Ok(());
    }
    core.check(channel, &session, Right::Bind)?;
    let taken_over = earlier.end(core);
    let binding = new_binding(
        core,
        channel,
        frame,
        &session,
        instance,
        taken_over.as_ref(),
    );
    if !connections.enter(connection, ConnectionEntry::Binding(binding.clone())) {
        core.network
            .records
            .remove(EdgeRouter::BUILT_IN, taken_over);
        return Err(RequestFailure::internal(format!(
            "connection id {connection} is in use"
        )));
    }
    // From here on the review of a change finds the binding. The second check covers changes before
    // this point.
    let terminator = &binding.terminator;
    let outcome =
        match add(core, &binding).and_then(|()| core.check(channel, &session, Right::Bind)) {
            Ok(_) => core.network.records.add(terminator, secret).await,
            Err(failure) => Err(failure),
        };
    if let Err(failure) = outcome {
        core.drop_binding(&binding, None);
        core.network
            .records
            .remove(EdgeRouter::BUILT_IN, taken_over);
        return Err(failure);
    }
    core.counters.binds_accepted.increment();
    terminator.set_listed(true);
    if terminator.is_ended() {
        // A binding that has taken over the terminator keeps it.
        core.network.terminators.when_free(binding.id(), |id| {
            core.network.records.remove(EdgeRouter::BUILT_IN, [id]);
        });
        return Err(RequestFailure::access_denied(
            "access has ended in the meantime",
        ));
    }
    tracing::debug!(terminator = %binding.id(), service = %session.spec.service_id, identity = %channel.login.identity, "hosted");
    Ok(())
}

/// The binding that a Bind asks for. It continues the terminator `taken_over`, if there is one.
fn new_binding(
    core: &RouterCore,
    channel: &Arc<Channel>,
    frame: &Frame,
    session: &Record<Session>,
    instance: String,
    taken_over: Option<&Id<Terminator>>,
) -> Arc<Binding> {
    let public_key = frame
        .header(key::PUBLIC_KEY)
        .and_then(|value| Some((u32::try_from(key::PUBLIC_KEY).ok()?, value.to_vec())));
    let hosted = HostedService {
        id: taken_over
            .cloned()
            .unwrap_or_else(|| Id::from_text(Terminator::new_id())),
        router: core.context.id.to_string(),
        binding: EDGE,
        service: session.spec.service_id.clone(),
        instance,
        identity: channel.login.identity.clone(),
        session: session.id.clone(),
        api_session: channel.login.api_session.clone(),
        token: channel.login.token.clone(),
        peer_data: public_key.into_iter().collect(),
    };
    let request = BindRequest {
        channel: channel.clone(),
        connection: frame.u32(key::CONNECTION).unwrap_or_default(),
        token: frame.body().to_vec(),
        listener: listener(frame).map(<[u8]>::to_vec),
        gives_ids: frame.is_set(key::ROUTER_CONNECTION),
        wants_sdk_flow_control: frame.is_set(key::SDK_FLOW_CONTROL),
    };
    let terminator = LiveTerminator::new(hosted, weight(frame, Weight::default()));
    Arc::new(Binding::new(Arc::new(terminator), request))
}

/// Adds a binding here, and its terminator to the network.
fn add(core: &RouterCore, binding: &Arc<Binding>) -> Result<(), RequestFailure> {
    core.registry.add_binding(binding)?;
    let added = core.network.terminators.add(&binding.terminator);
    added.map_err(|reason| match reason {
        NotAdded::Ended => RequestFailure::access_denied("the connection has ended"),
        NotAdded::Exists => RequestFailure::internal("another terminator has this id"),
    })
}

/// The listener id of a Bind, if it has one.
fn listener(frame: &Frame) -> Option<&[u8]> {
    frame
        .header(key::LISTENER)
        .filter(|listener| !listener.is_empty())
}

/// The earlier bindings that a new Bind repeats or replaces.
enum Earlier {
    Nothing,
    /// The same binding on the same connection.
    Same,
    /// A binding with the same listener id: the new binding continues it with its terminator.
    TakenOver(Arc<Binding>),
    /// Bindings of an earlier connection of the same session.
    Left(Vec<Arc<Binding>>),
}

fn earlier(
    core: &RouterCore,
    channel: &Arc<Channel>,
    frame: &Frame,
    service: &str,
    instance: &str,
) -> Earlier {
    let mut own = core.network.terminators.of_service(service);
    own.retain(|host| host.hosted.identity == channel.login.identity);
    let hosts = core.registry.bindings_of(&own);
    let is_here = |binding: &Binding| Arc::ptr_eq(binding.channel(), channel);
    if let Some(listener) = listener(frame) {
        let known = |binding: &&Arc<Binding>| {
            binding.request.listener.as_deref() == Some(listener) && !binding.terminator.is_ended()
        };
        return match hosts.iter().find(known) {
            Some(old)
                if is_here(old)
                    && old.request.token == frame.body()
                    && Some(old.request.connection) == frame.u32(key::CONNECTION) =>
            {
                Earlier::Same
            }
            Some(old) => Earlier::TakenOver(old.clone()),
            None => Earlier::Nothing,
        };
    }
    let left = |binding: &Arc<Binding>| {
        !is_here(binding)
            && binding.request.token == frame.body()
            && binding.terminator.hosted.instance == instance
    };
    Earlier::Left(hosts.into_iter().filter(left).collect())
}

impl Earlier {
    /// Ends the earlier bindings. Returns the id of a terminator to continue.
    fn end(self, core: &RouterCore) -> Option<Id<Terminator>> {
        match self {
            Self::Nothing | Self::Same => None,
            Self::TakenOver(old) => {
                let failure = RequestFailure::new(1, Retry::Never, "the listener was bound again");
                // If the old binding has ended in the meantime, its terminator is deleted and
                // cannot be continued.
                core.drop_binding(&old, Some(&failure)).then(|| {
                    core.counters.binds_ended.increment();
                    old.id().clone()
                })
            }
            Self::Left(bindings) => {
                for old in &bindings {
                    core.end_binding(old, None);
                }
                None
            }
        }
    }
}

/// The instance id under which the service is hosted (blank: none) and its secret.
fn instance(frame: &Frame) -> Result<(String, &[u8]), RequestFailure> {
    let Some(instance) = frame.header(key::INSTANCE) else {
        return Ok((String::new(), &[]));
    };
    let secret = frame.header(key::INSTANCE_SECRET).unwrap_or_default();
    let text = std::str::from_utf8(instance)
        .map_err(|_| RequestFailure::instance("an instance id must be UTF-8"))?;
    if text.len() > MAX_INSTANCE || secret.len() > MAX_SECRET {
        return Err(RequestFailure::instance(format!(
            "an instance id has at most {MAX_INSTANCE} bytes, its secret {MAX_SECRET}"
        )));
    }
    Ok((text.to_owned(), if text.is_empty() { &[] } else { secret }))
}

/// Cost and precedence from a message. A value that the message lacks is taken from `known`.
fn weight(frame: &Frame, known: Weight) -> Weight {
    // Some SDKs send four bytes for each.
    let cost = frame
        .header(key::COST)
        .and_then(<[u8]>::first_chunk)
        .map(|cost| u16::from_le_bytes(*cost));
    let precedence = frame
        .header(key::PRECEDENCE)
        .and_then(<[u8]>::first)
        .and_then(|precedence| match precedence {
            0 => Some(Precedence::Default),
            1 => Some(Precedence::Required),
            2 => Some(Precedence::Failed),
            _ => None,
        });
    Weight {
        cost: cost.unwrap_or(known.cost),
        precedence: precedence.unwrap_or(known.precedence),
        ..known
    }
}

/// The binding that a message names by connection id and token.
fn binding_of(connections: &Connections, frame: &Frame) -> Option<Arc<Binding>> {
    match frame
        .u32(key::CONNECTION)
        .and_then(|connection| connections.entry(connection))
    {
        Some(ConnectionEntry::Binding(binding)) if binding.request.token == frame.body() => {
            Some(binding)
        }
        _ => None,
    }
}

/// Ends hosting. Always sends an answer: some SDKs wait for the answer, the others ignore it.
pub(crate) fn unbind(core: &RouterCore, connections: &Connections, frame: &Frame) {
    if let Some(binding) = binding_of(connections, frame) {
        core.end_binding(&binding, None);
    }
    let connection = frame.u32(key::CONNECTION).unwrap_or_default();
    connections
        .channel
        .send(sdk::ended(connection, "unbound").with_reply_for(frame.sequence()));
}

/// Changes cost and precedence.
pub(crate) fn update(core: &Arc<RouterCore>, connections: &Connections, frame: &Frame) {
    let Some(binding) = binding_of(connections, frame) else {
        return;
    };
    let known = binding.wanted();
    let weight = weight(frame, known);
    if weight != known && binding.terminator.is_listed() && binding.want(weight) {
        let core = core.clone();
        tokio::spawn(async move {
            while let Some(weight) = binding.next_update() {
                let id = binding.id().clone();
                core.network
                    .records
                    .update(EdgeRouter::BUILT_IN, id, weight)
                    .await;
            }
        });
    }
}

/// Logs the reported health of a host. The SDK itself reacts to it by updating its precedence.
pub(crate) fn health(connections: &Connections, frame: &Frame) {
    if let Some(binding) = binding_of(connections, frame) {
        tracing::debug!(terminator = %binding.id(), passed = frame.is_set(key::HEALTH_PASSED), "health of a host");
    }
}
