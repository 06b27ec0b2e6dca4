//! The counters and gauges of the built-in router.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::Result,
    http::{answer::Shown, call::Call},
    network::TrafficInfo,
};

/// The counters and gauges of the built-in router. The counters say "since the start": they only grow, and are 0 when the controller starts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrafficDetail")]
pub struct Traffic {
    /// Channels that are open now.
    channels: u64,
    /// Channels whose hello was accepted, since the start.
    channels_opened: u64,
    /// Channels that ended, since the start.
    channels_closed: u64,
    /// Connections whose hello was refused, since the start.
    hellos_refused: u64,
    /// Connections that ended, or reached the time limit, before a complete hello arrived, since the start.
    hellos_missing: u64,
    /// Connections that were closed because a message could not be read, since the start.
    malformed: u64,
    /// Channels that were closed because the memory limit was reached and their client read nothing, since the start.
    cut_off: u64,
    /// Bindings that are open now; each has one terminator.
    binds: u64,
    /// Binds that created a terminator, since the start.
    binds_accepted: u64,
    /// Binds that were refused, since the start.
    binds_refused: u64,
    /// Accepted binds that ended, since the start.
    binds_ended: u64,
    /// Circuits that are open now, including those that wait for their host.
    circuits: u64,
    /// Circuits that a host accepted, since the start.
    circuits_opened: u64,
    /// Circuits that ended after a host had accepted them, since the start.
    circuits_closed: u64,
    /// Dials that were refused for lack of a right, since the start.
    dials_refused: u64,
    /// Dials that failed for another reason, such as no host or no answer, since the start.
    dials_failed: u64,
    /// Bytes of data from clients to hosts, since the start.
    client_bytes: u64,
    /// Bytes of data from hosts to clients, since the start.
    host_bytes: u64,
    /// How often reading from a channel paused because a queue had no room for its messages, since the start.
    reader_pauses: u64,
    /// Bytes that are queued now, of all channels.
    queued_bytes: u64,
}

/// GET /traffic
pub async fn traffic(call: Call) -> Result<Shown<Traffic>> {
    let TrafficInfo {
        channels,
        channels_opened,
        channels_closed,
        hellos_refused,
        hellos_missing,
        malformed,
        cut_off,
        binds,
        binds_accepted,
        binds_refused,
        binds_ended,
        circuits,
        circuits_opened,
        circuits_closed,
        dials_refused,
        dials_failed,
        client_bytes,
        host_bytes,
        reader_pauses,
        queued_bytes,
    } = call.router.traffic();
    Ok(Shown(Traffic {
        channels,
        channels_opened,
        channels_closed,
        hellos_refused,
        hellos_missing,
        malformed,
        cut_off,
        binds,
        binds_accepted,
        binds_refused,
        binds_ended,
        circuits,
        circuits_opened,
        circuits_closed,
        dials_refused,
        dials_failed,
        client_bytes,
        host_bytes,
        reader_pauses,
        queued_bytes,
    }))
}
