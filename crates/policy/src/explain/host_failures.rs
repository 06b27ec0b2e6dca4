//! The failed dials of one host.

use model::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::case::Case;
use crate::hosting::{DialReason, FailedDials, HostKey};

/// The dials of a host that failed since the last one that succeeded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HostFailures")]
pub(crate) struct HostFailures {
    /// How many.
    times: u64,
    /// The first one.
    since: Timestamp,
    /// The last one.
    last: Timestamp,
    /// Why, the last reason first; at most four are kept.
    reasons: Vec<DialReason>,
}

impl HostFailures {
    /// The failures of a host, which has one key, or one for each of its terminators. `None` unless
    /// the last dials of all failed.
    pub(super) fn of(case: &Case<'_>, keys: &[HostKey]) -> Option<Self> {
        let hosting = case
            .hosting
            .filter(|hosting| hosting.fails(case.service.id.as_str(), keys))?;
        let mut all: Option<Self> = None;
        for FailedDials {
            host,
            failures,
            first,
            last,
            reasons,
            ..
        } in hosting.failed_dials(case.service.id.as_str())
        {
            if !host.is_some_and(|host| keys.contains(&host)) {
                continue;
            }
            match &mut all {
                // The last failure comes first.
                Some(known) => {
                    (known.times, known.since) = (known.times + failures, known.since.min(first));
                    known.reasons.extend(reasons);
                }
                None => {
                    all = Some(Self {
                        times: failures,
                        since: first,
                        last,
                        reasons,
                    })
                }
            }
        }
        all
    }

    /// The failures as text, such as `3 dials failed since T, the last one at T: the host did not
    /// answer in time`.
    pub(super) fn text(&self) -> String {
        let Self {
            times,
            since,
            last,
            reasons,
        } = self;
        let reason = reasons.first().map_or("", |reason| reason.text.as_str());
        match times {
            1 => format!("the last dial failed at {last}: {reason}"),
            _ => format!(
                "the last {times} dials failed since {since}, the last one at {last}: {reason}"
            ),
        }
    }
}
