//! The choice of a terminator for a dial: by precedence, cost, path and the strategy of the
//! service.

use std::sync::Arc;

use super::{circuit::Circuit, core::ControlCore};
use crate::{
    entity::{EdgeRouter, Record, Terminator, TypedLookup},
    error::Result,
    fabric::{
        Grant, LiveTerminator, Path, RequestFailure, Strategy, Weight, choose as choose_by_weight,
        unreadable,
    },
    hosting::{DialFault, HostKey},
};

/// A terminator where a circuit may end.
pub(crate) struct Candidate {
    pub record: Record<Terminator>,
    pub host: Option<Arc<LiveTerminator>>,
    /// From the router of the client to that of the host.
    pub path: Arc<Path>,
    weight: Weight,
}

/// What a dial asks for.
pub(crate) struct DialTarget<'d> {
    /// The instance id; empty for none.
    pub instance: &'d str,
    /// The terminator to try first, which was chosen before.
    pub chosen: Option<&'d str>,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<&'d [u8]>,
    /// Terminators that have failed.
    pub tried: &'d [String],
}

/// The terminators where a circuit may end.
pub(crate) struct Candidates {
    pub candidates: Vec<Candidate>,
    /// Whether the service has a terminator with the instance id, wherever it is.
    has_terminators: bool,
    /// Error text about a connected router with a terminator to which there is no path.
    unreachable: Option<String>,
}

impl Candidate {
    /// The host that it reaches.
    pub(crate) fn host_key(&self) -> HostKey {
        HostKey::of(&self.record)
    }

    /// The id of its terminator, and its weight.
    pub(crate) fn into_weight(self) -> (String, Weight) {
        (self.record.id.into_text(), self.weight)
    }
}

/// The terminators of a service that can be reached from a router, except those that were `tried`.
/// If `router` is the built-in router, its own terminators are left out: it chooses among them
/// itself.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn find(
    core: &ControlCore,
    router: &str,
    service: &str,
    instance: &str,
    tried: &[String],
) -> Result<Candidates> {
    let mut records = core
        .network
        .store()
        .read(|tx| tx.linked::<Terminator>("service", service))?;
    let is_remote = |record: &Record<Terminator>| {
        record.spec.router != router || router != EdgeRouter::BUILT_IN
    };
    records.retain(|record| record.spec.identity == instance && is_remote(record));
    let has_terminators = !records.is_empty();
    records.retain(|record| !tried.iter().any(|tried| *tried == record.id.as_str()));
    let paths = core.paths_from(router);
    let unreachable = records.iter().find(|record| {
        core.is_connected(&record.spec.router) && !paths.contains_key(&record.spec.router)
    });
    let unreachable = unreachable.map(|record| {
        format!(
            ": no path from router {router} to router {}",
            record.spec.router
        )
    });
    let candidates = records.into_iter().filter_map(|record| {
        let path = paths.get(&record.spec.router)?.clone();
        // A terminator of REST has no host, whoever hosts under its id meanwhile.
        let host = if record.is_of_a_connection() {
            let found = core.network.terminators.find(record.id.as_str())?;
            if !found.is_open() || found.hosted.router != record.spec.router {
                return None;
            }
            Some(found)
        } else {
            None
        };
        let (precedence, cost) = (record.spec.precedence, record.spec.cost);
        let weight = host.as_ref().map_or(
            Weight {
                precedence,
                cost,
                ..Weight::default()
            },
            |host| host.weight(),
        );
        Some(Candidate {
            record,
            host,
            weight: Weight {
                path_cost: path.cost,
                ..weight
            },
            path,
        })
    });
    Ok(Candidates {
        candidates: candidates.collect(),
        has_terminators,
        unreachable,
    })
}

/// Chooses the next terminator to dial; the inner error says why there is none.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn choose(
    core: &ControlCore,
    circuit: &Circuit,
    grant: &Grant,
    wanted: &DialTarget<'_>,
) -> std::result::Result<std::result::Result<Candidate, RequestFailure>, RequestFailure> {
    let service = grant.service.id.as_str();
    let found = find(
        core,
        &circuit.router,
        service,
        wanted.instance,
        wanted.tried,
    )
    .map_err(unreadable)?;
    let Candidates {
        mut candidates,
        has_terminators,
        unreachable,
    } = found;
    let instance = if wanted.instance.is_empty() {
        String::new()
    } else {
        format!(" for instanceId {}", wanted.instance)
    };
    if !has_terminators {
        let failure =
            RequestFailure::internal(format!("service {service} has no terminators{instance}"));
        return Ok(Err(failure.because(DialFault::NoHost)));
    }
    let weights: Vec<_> = candidates
        .iter()
        .map(|candidate| candidate.weight)
        .collect();
    let sticky = candidates
        .iter()
        .position(|candidate| Some(candidate.record.id.as_str().as_bytes()) == wanted.sticky);
    let strategy = Strategy::named(&grant.service.spec.terminator_strategy);
    let before = candidates
        .iter()
        .position(|candidate| Some(candidate.record.id.as_str()) == wanted.chosen);
    Ok(
        match before
            .or_else(|| choose_by_weight(strategy, &weights, sticky, core.network.ids.random()))
        {
            Some(chosen) => Ok(candidates.swap_remove(chosen)),
            None => {
                let fault = if unreachable.is_some() {
                    DialFault::Path
                } else {
                    DialFault::NoHost
                };
                let unreachable = unreachable.unwrap_or_default();
                Err(RequestFailure::internal(format!(
                    "service {service} has no online terminators{instance}{unreachable}"
                ))
                .because(fault))
            }
        },
    )
}
