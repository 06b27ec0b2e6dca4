//! Requests to trace the traffic of an identity. They have no effect.

use std::time::Duration;

use model::{
    clock::Timestamp,
    entity::{Id, Identity, TypedLookup},
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{answer::Data, call::Call, extractor::Body};

/// The parameters of a trace.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TraceSpec {
    enabled: bool,
    /// The duration: numbers with the units h, m, s, ms, us and ns, such as `1h30m`.
    duration: String,
    /// The name of the trace; generated if blank.
    trace_id: String,
    /// The kinds of connection to trace; empty for all.
    channels: Vec<String>,
}

/// The trace.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    /// When it ends.
    until: Timestamp,
}

/// PUT /identities/{id}/trace. The request is checked and answered, but nothing is traced: this
/// controller does not ask routers to trace.
pub(crate) async fn set(
    call: Call,
    id: Id<Identity>,
    Body(wanted): Body<TraceSpec>,
) -> Result<Data<TraceDetail>> {
    call.state.store.read(|tx| tx.get(&id).map(|_| ()))?;
    if !wanted.enabled {
        return Ok(Data(TraceDetail {
            enabled: None,
            trace_id: None,
            until: call.now,
        }));
    }
    let refusal = || {
        Error::invalid(
            "duration",
            "must be numbers with units, such as 1h30m",
            &wanted.duration,
        )
    };
    let until = moment(call.now, &wanted.duration).ok_or_else(refusal)?;
    let trace_id = if wanted.trace_id.is_empty() {
        Uuid::new_v4().to_string()
    } else {
        wanted.trace_id
    };
    Ok(Data(TraceDetail {
        enabled: Some(true),
        trace_id: Some(trace_id),
        until,
    }))
}

/// Seconds in each unit.
const UNITS: [(&str, f64); 7] = [
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ns", 1e-9),
];

/// `now` plus a duration such as `1h30m`, `+1.5s` or `0`. With a leading minus the duration is
/// subtracted.
fn moment(now: Timestamp, text: &str) -> Option<Timestamp> {
    let (sign, length) = text.split_at(text.len() - text.trim_start_matches(['+', '-']).len());
    let length = if length == "0" {
        Duration::ZERO
    } else {
        duration(length)?
    };
    match sign {
        "" | "+" => now.checked_plus(length),
        "-" => Some(now.minus(length)),
        _ => None,
    }
}

/// A duration such as `1h30m` or `1.5s`.
fn duration(text: &str) -> Option<Duration> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, next) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        let seconds = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, seconds)| *seconds)?;
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}
