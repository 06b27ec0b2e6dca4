//! The route of a circuit: the message to each router of its path, and the answers of the routers.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use wire::{
    control::{
        TextEntry, content,
        fabric::{self, DestinationType},
        key,
    },
    frame::{Builder, Frame},
};

use super::{circuit::Circuit, core::ControlCore, replies::unroute};
use crate::{
    entity::EdgeRouter,
    fabric::{Path, RequestFailure},
    hosting::DialFault,
};

/// The attempt number of routes for circuits that are established. Later failures of such a route
/// do not end the circuit at a router.
pub(crate) const REROUTE: u32 = 99_969_996;
/// How long the built-in router has to pass the end of a circuit on.
const PASSING_ON: Duration = Duration::from_millis(300);
/// The beginning of the text of a router that does not know a link of a route.
pub(crate) const INVALID_LINK: &str = "invalid link destination";
/// The error code of a route whose terminator the router does not know.
pub(crate) const ROUTE_INVALID_TERMINATOR: u8 = 1;
/// The error code of a route whose host did not answer in time.
const ROUTE_TIMED_OUT: u8 = 3;
/// The error code of a route whose host refused.
const ROUTE_REFUSED: u8 = 4;
/// The error code of a route that the host's program refused, of routers since 2.0.
const ROUTE_REJECTED: u8 = 5;
/// The error code of a route whose host takes nothing more, of routers since 2.0.
const ROUTE_NO_RESOURCES: u8 = 9;
/// Maximum length of a router's failure text that is passed on, in characters.
const MAX_TEXT: usize = 1024;

/// A route that did not succeed.
pub(crate) struct RouteFailure {
    pub failure: RequestFailure,
    /// Whether the router of the host reported it, so that another host may be reached over the
    /// same path.
    pub is_of_host: bool,
    pub is_invalid_terminator: bool,
    /// Whether a router does not know a link of the path.
    pub is_invalid_link: bool,
}

impl RouteFailure {
    fn of_path(text: impl Into<String>) -> Self {
        let failure = RequestFailure::internal(text).because(DialFault::Path);
        Self {
            failure,
            is_of_host: false,
            is_invalid_terminator: false,
            is_invalid_link: false,
        }
    }
}

/// The error code of a route whose host was not reached for this reason.
pub(crate) fn code_of(fault: DialFault) -> u8 {
    match fault {
        DialFault::Timeout => ROUTE_TIMED_OUT,
        DialFault::Refused => ROUTE_REFUSED,
        _ => 0,
    }
}

/// Why a host was not reached, by the error code and the text of its router. Routers of some
/// versions name a host that does not answer only in the text.
fn fault_of(code: Option<&[u8]>, text: &str) -> DialFault {
    match code {
        Some([ROUTE_INVALID_TERMINATOR]) => DialFault::Left,
        Some([ROUTE_TIMED_OUT]) => DialFault::Timeout,
        Some([ROUTE_REFUSED | ROUTE_REJECTED]) => DialFault::Refused,
        Some([ROUTE_NO_RESOURCES]) => DialFault::Busy,
        _ if ["timeout", "timed out", "deadline exceeded"]
            .iter()
            .any(|words| text.contains(words)) =>
        {
            DialFault::Timeout
        }
        _ => DialFault::Refused,
    }
}

/// Tells the routers of a path to forward a circuit, and waits until all have answered. Returns the
/// answer of the last one. After a failure, every router has been told to remove the circuit; a
/// failed reroute leaves it.
///
/// # Errors
/// A router is not connected, does not answer in time, or refuses.
pub(crate) async fn send(
    core: &ControlCore,
    circuit: &Arc<Circuit>,
    path: &Arc<Path>,
    attempt: u32,
    egress: Option<fabric::Egress>,
    tags: &[(&'static str, String)],
) -> Result<Frame, RouteFailure> {
    let Some(before) = core.circuits.set_path(circuit, path) else {
        return Err(RouteFailure {
            failure: RequestFailure::access_denied("the circuit has ended in the meantime"),
            ..RouteFailure::of_path("")
        });
    };
    before
        .routers
        .iter()
        .filter(|router| !path.has_router(router))
        .for_each(|router| core.unroute(circuit, router, true));
    let outcome = ask(core, circuit, path, attempt, egress, tags).await;
    if outcome.is_err() && attempt != REROUTE {
        path.routers
            .iter()
            .for_each(|router| core.unroute(circuit, router, true));
    }
    outcome
}

/// Sends a route and waits until all routers have answered it. Returns the answer of the last one.
///
/// # Errors
/// A router is not connected, does not answer in time, or refuses.
pub(crate) async fn ask(
    core: &ControlCore,
    circuit: &Arc<Circuit>,
    path: &Path,
    attempt: u32,
    mut egress: Option<fabric::Egress>,
    tags: &[(&'static str, String)],
) -> Result<Frame, RouteFailure> {
    let mut answers = circuit.expect(attempt, &path.routers);
    let last = path.routers.len().saturating_sub(1);
    for (place, router) in path.routers.iter().enumerate() {
        let message = fabric::Route {
            circuit_id: circuit.id.clone(),
            attempt,
            egress: if place == last { egress.take() } else { None },
            forwards: forwards(path, place, &circuit.ends()),
            context: None,
            timeout: u64::try_from(core.times.route.as_nanos()).unwrap_or(u64::MAX),
            tags: tags
                .iter()
                .map(|(name, id)| TextEntry::new(*name, id.as_str()))
                .collect(),
        };
        if !core.send(
            router,
            Builder::new(content::ROUTE).body(&message.encode_to_vec()),
        ) {
            return Err(RouteFailure::of_path(format!(
                "router {router} is not connected"
            )));
        }
    }
    let all = async {
        let mut of_host = None;
        for _ in &path.routers {
            let lost = || {
                RouteFailure::of_path(
                    "a router or link of the path was lost, or the circuit has ended",
                )
            };
            let (router, answer) = answers.recv().await.ok_or_else(lost)?;
            let is_of_host = path.routers.last() == Some(&router);
            if !answer.is_set(key::ROUTE_SUCCESS) {
                let text: String = answer
                    .text(key::ROUTE_ERROR)
                    .unwrap_or("the router refused the route")
                    .chars()
                    .take(MAX_TEXT)
                    .collect();
                let is_invalid_terminator = is_of_host
                    && answer.header(key::ROUTE_ERROR_CODE) == Some(&[ROUTE_INVALID_TERMINATOR]);
                let is_invalid_link = text.starts_with(INVALID_LINK);
                let is_of_host = is_of_host && !is_invalid_link;
                let fault = if is_of_host {
                    fault_of(answer.header(key::ROUTE_ERROR_CODE), &text)
                } else {
                    DialFault::Path
                };
                let failure = RequestFailure::internal(text).because(fault);
                return Err(RouteFailure {
                    failure,
                    is_of_host,
                    is_invalid_terminator,
                    is_invalid_link,
                });
            }
            if is_of_host {
                of_host = Some(answer);
            }
        }
        of_host.ok_or_else(|| RouteFailure::of_path("the path is empty"))
    };
    let late = || RouteFailure::of_path("a router did not answer in time");
    timeout(core.times.route, all).await.unwrap_or_else(|_| {
        Err(RouteFailure {
            failure: late().failure.because(DialFault::Timeout),
            ..late()
        })
    })
}

/// The entries of the forwarding table of one router of a path, both directions.
fn forwards(path: &Path, place: usize, [ingress, egress]: &[String; 2]) -> Vec<fabric::Forward> {
    let before = place
        .checked_sub(1)
        .and_then(|before| path.links.get(before));
    let [before, after] = [
        before.map_or((ingress, DestinationType::Start), |link| {
            (link, DestinationType::Link)
        }),
        path.links
            .get(place)
            .map_or((egress, DestinationType::End), |link| {
                (link, DestinationType::Link)
            }),
    ];
    let forward =
        |(source, _): (&String, DestinationType),
         (destination, kind): (&String, DestinationType)| fabric::Forward {
            source: source.clone(),
            destination: destination.clone(),
            destination_type: kind.into(),
        };
    vec![forward(before, after), forward(after, before)]
}

impl ControlCore {
    /// Tells the routers of a circuit to remove it. An end at the built-in router is passed on over
    /// its link, and the others are told a moment later, so that the SDK there learns of it at
    /// once: a router of version 1.1 that removes a circuit leaves it waiting for half a minute.
    pub(crate) fn unroute_all(&self, circuit: &Circuit, now: bool) {
        let path = circuit.path();
        let is_here = |router: &String| router == EdgeRouter::BUILT_IN;
        let has_time = now && path.ends_at(EdgeRouter::BUILT_IN);
        for router in &path.routers {
            let later = if has_time && !is_here(router) {
                self.registry.find(router).zip(Handle::try_current().ok())
            } else {
                None
            };
            match later {
                Some((connection, runtime)) => {
                    let (frame, circuit, removals) = (
                        unroute(&circuit.id, now),
                        circuit.id.clone(),
                        self.removals.clone(),
                    );
                    // A router that connects again meanwhile is told on its new connection.
                    removals.add(router, &circuit, now, || ());
                    runtime.spawn(async move {
                        sleep(PASSING_ON).await;
                        removals.add(&connection.router, &circuit, now, || connection.send(frame));
                    });
                }
                None => self.unroute(circuit, router, now),
            }
        }
    }

    /// Tells one router to remove a circuit; also on its next connection, unless it confirms the
    /// message by a heartbeat.
    pub(crate) fn unroute(&self, circuit: &Circuit, router: &str, now: bool) {
        let send = || {
            self.send(router, unroute(&circuit.id, now));
        };
        if router == EdgeRouter::BUILT_IN {
            return send();
        }
        self.removals.add(router, &circuit.id, now, send);
    }
}
