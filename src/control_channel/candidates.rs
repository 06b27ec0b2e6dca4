//! The choice of a terminator for a dial: by precedence, cost, path and the strategy of the service.

use std::sync::Arc;

use super::{circuit::Circuit, core::Core, hosted_terminator::HostedTerminator, paths::Path};
use crate::{
    built_in_router::{Failure, Grant, Strategy, Weight, choose as choose_by_weight, unreadable},
    entity::{FactsExt, Record, Terminator},
};

/// A terminator where a circuit may end.
pub(crate) struct Candidate {
    pub record: Record<Terminator>,
    pub host: Option<Arc<HostedTerminator>>,
    /// From the router of the client to that of the host.
    pub path: Arc<Path>,
    weight: Weight,
}

/// What a dial asks for.
pub(crate) struct DialTarget<'d> {
    /// The instance id; empty for none.
    pub instance: &'d str,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<&'d [u8]>,
    /// Terminators that have failed.
    pub tried: &'d [String],
}

/// Chooses the next terminator to dial; the inner error says why there is none.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn choose(
    core: &Core,
    circuit: &Circuit,
    grant: &Grant,
    wanted: &DialTarget<'_>,
) -> Result<Result<Candidate, Failure>, Failure> {
    let service = grant.service.id.as_str();
    let mut records = core.parts.rights.store.read(|tx| tx.linked::<Terminator>("service", service)).map_err(unreadable)?;
    records.retain(|record| record.spec.identity == wanted.instance);
    let instance = if wanted.instance.is_empty() { String::new() } else { format!(" for instanceId {}", wanted.instance) };
    if records.is_empty() {
        return Ok(Err(Failure::internal(format!("service {service} has no terminators{instance}"))));
    }
    records.retain(|record| !wanted.tried.iter().any(|tried| *tried == record.id.as_str()));
    let paths = core.paths_from(&circuit.router);
    let unreachable = records.iter().find(|record| core.is_connected(&record.spec.router) && !paths.contains_key(&record.spec.router));
    let unreachable = unreachable.map(|record| format!(": no path from router {} to router {}", circuit.router, record.spec.router));
    let candidates = records.into_iter().filter_map(|record| {
        let path = paths.get(&record.spec.router)?.clone();
        let host = core.hosted.find(record.id.as_str());
        if record.is_of_a_connection() {
            host.as_ref().filter(|host| host.is_listed() && host.router == record.spec.router)?;
        }
        let (precedence, cost) = (record.spec.precedence, record.spec.cost);
        let weight = host.as_ref().map_or(Weight { precedence, cost, ..Weight::default() }, |host| host.weight());
        Some(Candidate { record, host, weight: Weight { path_cost: path.cost, ..weight }, path })
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    let weights: Vec<_> = candidates.iter().map(|candidate| candidate.weight).collect();
    let sticky = candidates.iter().position(|candidate| Some(candidate.record.id.as_str().as_bytes()) == wanted.sticky);
    let strategy = Strategy::named(&grant.service.spec.terminator_strategy);
    Ok(match choose_by_weight(strategy, &weights, sticky, core.numbers.random()) {
        Some(chosen) => Ok(candidates.swap_remove(chosen)),
        None => {
            let unreachable = unreachable.unwrap_or_default();
            Err(Failure::internal(format!("service {service} has no online terminators{instance}{unreachable}")))
        }
    })
}
