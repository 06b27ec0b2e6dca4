//! Routes of circuits over links, as the controller orders them.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use wire::{
    frame::{Builder, Frame},
    sdk::kind,
};

use super::{
    endpoint::LinkEndpoint,
    link::Link,
    relay,
    transit::{Transit, Way},
};
use crate::{
    built_in_router::{
        channel::{Channel, ChannelLogin},
        circuit::{Circuit, CircuitEnd},
        core::RouterCore,
        dial::dial as dial_host,
        passed_on::{TO_CLIENT, TO_HOST},
        remote_routers::DialReply,
        send_queue::SendQueue,
    },
    entity::{Id, Identity, Record, Service, TypedLookup},
    error::Result as StoreResult,
    fabric::{Grant, RequestFailure},
    hosting::DialFault,
};

/// A circuit that the controller has ended ends at this router after this time without a message.
const QUIET: Duration = Duration::from_secs(5);
/// A circuit that passes through is removed at the latest after this time.
const MAX_CLOSING: Duration = Duration::from_secs(30);

/// A route to or from an SDK at this router.
pub(crate) struct Route {
    pub circuit: String,
    /// The link to the next router.
    pub link: String,
    /// Where the circuit ends if its host is at this router; `None` if its client is.
    pub host: Option<RouteToHost>,
}

/// The host's end of a route.
pub(crate) struct RouteToHost {
    pub terminator: String,
    pub client: Id<Identity>,
    pub service: Id<Service>,
    /// What the client passes on, by the header keys of SDK channels.
    pub peer_data: Vec<(u32, Vec<u8>)>,
}

/// A route that is not possible.
#[derive(Debug)]
pub(crate) enum RouteError {
    /// The link is not open.
    Link,
    /// The terminator is not one of this router.
    Terminator,
    /// The host or the store failed, with the reason for which the host was not reached.
    Failed(String, DialFault),
}

/// A route whose host is to be dialed.
pub(crate) struct RoutedDial {
    endpoint: Arc<LinkEndpoint>,
    host: RouteToHost,
}

/// Prepares the end of a circuit at this router, or moves an existing end to another link. `None`
/// if no host has to be dialed.
///
/// # Errors
/// The link is not open, or the terminator is not one of this router.
pub(crate) fn prepare(core: &RouterCore, route: Route) -> Result<Option<RoutedDial>, RouteError> {
    let link = core.links.find(&route.link).ok_or(RouteError::Link)?;
    if let Some(endpoint) = core.endpoints.find(&route.circuit) {
        endpoint.move_to(link);
        return Ok(None);
    }
    let other = route
        .host
        .as_ref()
        .map_or_else(|| Id::from_text(""), |host| host.client.clone());
    let endpoint = endpoint(core, &route.circuit, route.host.is_some(), link, other);
    core.endpoints.add(&endpoint.circuit, &endpoint);
    // The endpoint of a client is taken by its dial in progress.
    Ok(route.host.map(|host| RoutedDial { endpoint, host }))
}

fn endpoint(
    core: &RouterCore,
    circuit: &str,
    is_of_host: bool,
    link: Arc<Link>,
    other: Id<Identity>,
) -> Arc<LinkEndpoint> {
    // What waits in both directions counts as the client's, like the circuit: its identity is known
    // at both ends.
    let client = core.registry.circuit(circuit).map_or_else(
        || other.clone(),
        |circuit| circuit.client.channel.identity.clone(),
    );
    let login = ChannelLogin {
        number: core.number(),
        identity: other,
        api_session: Id::from_text(""),
        token: String::new(),
        address: None,
        hello: String::new(),
        since: core.network.now(),
    };
    let channel = Arc::new(Channel::new(
        login,
        SendQueue::new(core.room, core.budget.account(client.as_str())),
    ));
    Arc::new(LinkEndpoint::new(circuit.into(), is_of_host, link, channel))
}

/// Dials the host of a route. Returns what the host passes on to the client.
///
/// # Errors
/// The host cannot be reached.
pub(crate) async fn dial(
    core: &Arc<RouterCore>,
    dialing: RoutedDial,
) -> Result<DialReply, RouteError> {
    let RoutedDial { endpoint, host } = dialing;
    let outcome = to_host(core, &endpoint, &host).await;
    if outcome.is_err() {
        core.endpoints.remove(&endpoint.circuit, &endpoint);
    }
    outcome
}

async fn to_host(
    core: &Arc<RouterCore>,
    endpoint: &Arc<LinkEndpoint>,
    host: &RouteToHost,
) -> Result<DialReply, RouteError> {
    let binding = core
        .registry
        .binding(&host.terminator)
        .filter(|binding| binding.terminator.is_open())
        .ok_or(RouteError::Terminator)?;
    let failed = |failure: RequestFailure| RouteError::Failed(failure.text, failure.fault);
    if let Some(refusal) = core.refusal() {
        return Err(failed(refusal));
    }
    let grant = grant(core, host)
        .map_err(|error| RouteError::Failed(error.to_string(), DialFault::Other))?;
    let grant = grant.ok_or_else(|| {
        RouteError::Failed(
            "the identity or the service was deleted".into(),
            DialFault::Other,
        )
    })?;
    let client = CircuitEnd {
        channel: endpoint.channel.clone(),
        connection: 0,
        queue: endpoint.channel.outbox.open(),
    };
    let circuit = Arc::new(Circuit::new(
        endpoint.circuit.clone(),
        core.network.now(),
        client,
        0,
    ));
    let dialed = async {
        core.registry.add_circuit(&circuit, None)?;
        dial_host(core, &circuit, &connect(host), &grant, &binding).await
    };
    if let Err(failure) = dialed.await {
        core.fail_circuit(&circuit, &failure);
        return Err(failed(failure));
    }
    // The answer that a client with a channel would get, and what the host has sent since.
    let mut batch = Vec::new();
    let bytes = endpoint
        .channel
        .outbox
        .take(&mut batch, |_| ())
        .await
        .unwrap_or_default();
    let answer = batch
        .first()
        .filter(|frame| frame.content_type() == kind::STATE_CONNECTED);
    let answered = TO_CLIENT
        .iter()
        .filter_map(|key| Some((u32::try_from(*key).ok()?, answer?.header(*key)?.to_vec())))
        .collect();
    let held = core
        .endpoints
        .find(&endpoint.circuit)
        .is_some_and(|known| Arc::ptr_eq(&known, endpoint));
    if !held {
        let failure = RequestFailure::access_denied("the circuit has ended in the meantime");
        core.fail_circuit(&circuit, &failure);
        return Err(failed(failure));
    }
    relay::start(core, &circuit, endpoint.clone(), (batch, bytes));
    Ok(answered)
}

/// The records of the client and the service; `None` if one does not exist.
fn grant(core: &RouterCore, host: &RouteToHost) -> StoreResult<Option<Grant>> {
    core.network.store().read(|tx| {
        let (identity, service): (Option<Record<Identity>>, Option<Record<Service>>) =
            (tx.find(&host.client)?, tx.find(&host.service)?);
        Ok(identity
            .zip(service)
            .map(|(identity, service)| Grant { identity, service }))
    })
}

/// The Connect that a client with a channel would send.
fn connect(host: &RouteToHost) -> Frame {
    let of_key = |key: i32| {
        host.peer_data
            .iter()
            .find(|(known, _)| i32::try_from(*known) == Ok(key))
            .map(|(_, value)| value)
    };
    TO_HOST
        .iter()
        .fold(Builder::new(kind::CONNECT), |builder, key| {
            builder.optional(*key, of_key(*key))
        })
        .empty()
}

/// Ends a circuit that the controller has ended: at once if `now`, else after the data on the way
/// was delivered.
pub(crate) fn unroute(core: &Arc<RouterCore>, id: &str, now: bool) {
    let Some(endpoint) = core.endpoints.find(id) else {
        return unroute_passing(core, id, now);
    };
    if now || !endpoint.is_running() {
        return end(core, &endpoint);
    }
    let core = core.clone();
    tokio::spawn(async move {
        loop {
            let before = endpoint.arrived();
            sleep(QUIET).await;
            if endpoint.is_stopped() || endpoint.is_cut() {
                return;
            }
            if endpoint.arrived() == before && !endpoint.has_end() {
                return end(&core, &endpoint);
            }
        }
    });
}

/// Forwards a circuit between the links to the next router on the way to the client and on the way
/// to the host.
///
/// # Errors
/// A link is not open, or the router starts nothing new.
pub(crate) fn pass_through(
    core: &RouterCore,
    circuit: &str,
    [to_client, to_host]: [&str; 2],
) -> Result<(), RouteError> {
    if let Some(refusal) = core.refusal() {
        return Err(RouteError::Failed(refusal.text, DialFault::Busy));
    }
    let way = |link| {
        core.links
            .find(link)
            .and_then(Way::over)
            .ok_or(RouteError::Link)
    };
    let ways = [way(to_client)?, way(to_host)?];
    // A new one also after a reroute, because the former one may be closing.
    let transit = Arc::new(match core.transits.find(circuit) {
        Some(former) => former.over(ways),
        None => Transit::new(circuit.into(), ways),
    });
    core.transits.replace(&transit.circuit, &transit);
    Ok(())
}

/// Removes a circuit that passes through: at once if `now`, else after the data on the way was
/// forwarded.
fn unroute_passing(core: &Arc<RouterCore>, id: &str, now: bool) {
    let Some(transit) = core.transits.find(id) else {
        return;
    };
    if now {
        transit.discard();
        core.transits.remove(id, &transit);
        return;
    }
    let core = core.clone();
    tokio::spawn(async move {
        let end = Instant::now() + MAX_CLOSING;
        loop {
            let before = transit.arrived();
            sleep(QUIET).await;
            if transit.arrived() == before || Instant::now() >= end {
                break;
            }
        }
        core.transits.remove(&transit.circuit, &transit);
    });
}

fn end(core: &RouterCore, endpoint: &Arc<LinkEndpoint>) {
    let failure = RequestFailure::access_denied("the circuit was ended by the controller");
    let circuit = core.registry.circuit(&endpoint.circuit);
    endpoint.cut();
    // The client of a dial in progress waits for the next attempt.
    if endpoint.is_running() || endpoint.is_of_host {
        circuit
            .iter()
            .for_each(|circuit| core.fail_circuit(circuit, &failure));
    }
    if !endpoint.is_running() {
        core.endpoints.remove(&endpoint.circuit, endpoint);
    }
}
