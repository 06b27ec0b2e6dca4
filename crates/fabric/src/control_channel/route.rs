//! The messages by which a router takes its part of a route: what the network commands, and the
//! answers.

use model::error::Result;
use policy::hosting::DialFault;
use prost::Message;
use wire::{
    control::{
        NumberedBytes, TextEntry, content,
        fabric::{self, DestinationType, FaultSubject},
        key,
    },
    frame::{Builder, Frame},
};

use super::{connection::RouterConnection, control_core::ControlCore, replies::unroute};
use crate::network::{
    CircuitInfo, Connecting, LiveTerminator, LocalDial, Node, PendingSet, RefusalCause,
    ReportedLink, RequestFailure, RouteAnswer, RouteFailure, RouteOrder, RouteRefusal, Router,
};

/// The beginning of the text of a router that does not know a link of a route.
const INVALID_LINK: &str = "invalid link destination";
/// The error code of a route whose terminator the router does not know.
const INVALID_TERMINATOR: u8 = 1;
/// The error code of a route whose host did not answer in time.
const TIMED_OUT: u8 = 3;
/// The error code of a route whose host refused.
const REFUSED: u8 = 4;
/// The error code of a route that the host's program refused, of routers since 2.0.
const REJECTED: u8 = 5;
/// The error code of a route whose host takes nothing more, of routers since 2.0.
const NO_RESOURCES: u8 = 9;
/// Maximum length of a router's failure text that is passed on, in characters.
const MAX_TEXT: usize = 1024;

/// A router in another process is commanded by messages.
impl Router for RouterConnection {
    fn as_node(&self) -> Node {
        let (cost, is_end_only) = self.weight();
        Node {
            id: self.router.clone(),
            cost: cost.into(),
            is_end_only,
        }
    }

    fn is_connected(&self) -> bool {
        !self.is_closed()
    }

    fn route(&self, order: RouteOrder<'_>) {
        let ends = order.circuit.ends();
        let forwards = forwards(&order, &ends);
        let [_, address] = ends;
        let entry = |(key, value)| NumberedBytes::new(key, value);
        let egress = order.egress.map(|egress| fabric::Egress {
            binding: egress.binding,
            address,
            destination: egress.destination,
            peer_data: egress.passed_on.into_iter().map(entry).collect(),
        });
        let tags = order.tags.iter();
        let message = fabric::Route {
            circuit_id: order.circuit.id.to_string(),
            attempt: order.attempt,
            egress,
            forwards,
            context: None,
            timeout: u64::try_from(order.timeout.as_nanos()).unwrap_or(u64::MAX),
            tags: tags
                .map(|(name, id)| TextEntry::new(*name, id.as_str()))
                .collect(),
        };
        self.send(Builder::new(content::ROUTE).body(&message.encode_to_vec()));
    }

    fn connect<'c>(&'c self, _: LocalDial<'c>) -> Connecting<'c> {
        Box::pin(async {
            let failure = RequestFailure::internal("the router is in another process");
            Err(RouteFailure::of_path(failure))
        })
    }

    fn unroute(&self, circuit: &str, now: bool, _: &RequestFailure) {
        self.send(unroute(circuit, now));
    }

    fn fail(&self, _: &str, _: &RequestFailure) -> bool {
        false
    }

    fn end_terminator(&self, _: &LiveTerminator) -> bool {
        false
    }

    fn end_lost_channels(&self, _: &PendingSet) -> Result<()> {
        Ok(())
    }

    fn close_link(&self, link: &ReportedLink) {
        let fault = fabric::Fault {
            subject: FaultSubject::Link.into(),
            id: link.id.clone(),
            iteration: link.iteration,
        };
        self.send(Builder::new(content::FAULT).body(&fault.encode_to_vec()));
    }

    fn close_links_of(&self, _: &str) {}

    fn has_accepted(&self, _: &ReportedLink) -> bool {
        false
    }

    fn describe(&self, _: &mut CircuitInfo) {}
}

/// The entries of the forwarding table of one router of a path, both directions. `ends` are the
/// addresses of the circuit at the client's router and at the host's router.
fn forwards(order: &RouteOrder<'_>, ends: &[String; 2]) -> Vec<fabric::Forward> {
    let [before, after] = order.links();
    let [ingress, egress] = ends;
    let of_link = |link| (link, DestinationType::Link);
    let before = before.map_or((ingress, DestinationType::Start), of_link);
    let after = after.map_or((egress, DestinationType::End), of_link);
    let forward =
        |(source, _): (&String, DestinationType),
         (destination, kind): (&String, DestinationType)| fabric::Forward {
            source: source.clone(),
            destination: destination.clone(),
            destination_type: kind.into(),
        };
    vec![forward(before, after), forward(after, before)]
}

/// The answer of a router to a route. A circuit that does not exist here is removed from the router
/// again.
pub(crate) fn result(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let Ok(id) = std::str::from_utf8(frame.body()) else {
        return;
    };
    let attempt = frame.u32(key::ROUTE_ATTEMPT).unwrap_or_default();
    let own = core
        .network
        .circuits
        .find(id)
        .filter(|circuit| circuit.path().has_router(&connection.router));
    match own {
        Some(circuit) => circuit.answered(&connection.router, attempt, answer(frame)),
        None if frame.is_set(key::ROUTE_SUCCESS) => connection.send(unroute(id, true)),
        None => {}
    }
}

fn answer(frame: &Frame) -> RouteAnswer {
    if frame.is_set(key::ROUTE_SUCCESS) {
        let headers = frame.headers();
        return Ok(headers
            .filter_map(|(key, value)| Some((u32::try_from(key).ok()?, value.to_vec())))
            .collect());
    }
    let text: String = frame
        .text(key::ROUTE_ERROR)
        .unwrap_or("the router refused the route")
        .chars()
        .take(MAX_TEXT)
        .collect();
    let code = frame.header(key::ROUTE_ERROR_CODE);
    let cause = if text.starts_with(INVALID_LINK) {
        RefusalCause::Link
    } else if code == Some(&[INVALID_TERMINATOR]) {
        RefusalCause::Terminator
    } else {
        RefusalCause::Other(fault_of(code, &text))
    };
    Err(RouteRefusal { text, cause })
}

/// Why a host was not reached, by the error code and the text of its router. Routers of some
/// versions name a host that does not answer only in the text.
fn fault_of(code: Option<&[u8]>, text: &str) -> DialFault {
    match code {
        Some([TIMED_OUT]) => DialFault::Timeout,
        Some([REFUSED | REJECTED]) => DialFault::Refused,
        Some([NO_RESOURCES]) => DialFault::Busy,
        _ if ["timeout", "timed out", "deadline exceeded"]
            .iter()
            .any(|words| text.contains(words)) =>
        {
            DialFault::Timeout
        }
        _ => DialFault::Refused,
    }
}
