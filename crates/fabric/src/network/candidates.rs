//! The choice of a terminator for a dial: by precedence, cost, path and the strategy of the
//! service.

use std::{collections::HashMap, sync::Arc};

use model::{
    entity::{EdgeRouter, Id, Record, Terminator, TypedLookup},
    error::Result,
};
use policy::hosting::{DialFault, HostKey};

use super::{
    circuit::Circuit,
    live_terminators::LiveTerminator,
    paths::Path,
    request_failure::{Refusal, RequestFailure},
    select::{Strategy, Weight, choose as choose_by_weight},
    session_authorizer::Grant,
    shared_state::Network,
};

/// A terminator where a circuit may end.
pub(crate) struct Candidate {
    pub terminator: CandidateTerminator,
    /// From the router of the client to that of the host.
    pub path: Arc<Path>,
    weight: Weight,
}

/// What is known of the terminator of a candidate.
pub(crate) enum CandidateTerminator {
    /// Hosted at the router of the client, in this process. Its record need not be read.
    Here(Arc<LiveTerminator>),
    /// With the host of a terminator that was not created over REST.
    Recorded(Box<Record<Terminator>>, Option<Arc<LiveTerminator>>),
}

/// What a dial asks for.
pub(crate) struct DialTarget<'d> {
    /// The instance id; empty for none.
    pub instance: &'d str,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<&'d [u8]>,
    /// Terminators that have failed.
    pub tried: &'d [Id<Terminator>],
}

/// The terminators where a circuit may end.
struct Candidates {
    candidates: Vec<Candidate>,
    /// Whether the service has a terminator with the instance id, wherever it is.
    has_terminators: bool,
    /// Error text about a connected router with a terminator to which there is no path.
    unreachable: Option<String>,
}

impl Candidate {
    pub(crate) fn id(&self) -> &Id<Terminator> {
        match &self.terminator {
            CandidateTerminator::Here(host) => host.id(),
            CandidateTerminator::Recorded(record, _) => &record.id,
        }
    }

    /// The router where it is.
    pub(crate) fn router(&self) -> &str {
        match &self.terminator {
            CandidateTerminator::Here(host) => &host.hosted.router,
            CandidateTerminator::Recorded(record, _) => &record.spec.router,
        }
    }

    /// None for a terminator that was created over REST.
    pub(crate) fn host(&self) -> Option<&Arc<LiveTerminator>> {
        match &self.terminator {
            CandidateTerminator::Here(host) => Some(host),
            CandidateTerminator::Recorded(_, host) => host.as_ref(),
        }
    }

    /// The host that it reaches.
    pub(crate) fn host_key(&self) -> HostKey {
        match &self.terminator {
            CandidateTerminator::Here(host) => {
                HostKey::Identity(host.hosted.identity.as_str().into())
            }
            CandidateTerminator::Recorded(record, _) => HostKey::of(record),
        }
    }
}

/// The terminators of a service that can be reached from a router, except those that were `tried`.
///
/// # Errors
/// The store cannot be read.
fn find(
    network: &Network,
    router: &str,
    service: &str,
    wanted: &DialTarget<'_>,
) -> Result<Candidates> {
    let paths = network.paths_from(router);
    let is_here = router == EdgeRouter::BUILT_IN;
    let mut found = if is_here {
        find_here(network, &paths, service, wanted)
    } else {
        Candidates {
            candidates: Vec::new(),
            has_terminators: false,
            unreachable: None,
        }
    };
    if is_here && network.routers.is_single() {
        return Ok(found);
    }
    let mut records = network
        .store()
        .read(|tx| tx.linked::<Terminator>("service", service))?;
    records.retain(|record| {
        record.spec.identity == wanted.instance && (!is_here || record.spec.router != router)
    });
    found.has_terminators |= !records.is_empty();
    records.retain(|record| !wanted.tried.contains(&record.id));
    found.unreachable = records
        .iter()
        .find(|record| {
            network.routers.find(&record.spec.router).is_some()
                && !paths.contains_key(&record.spec.router)
        })
        .map(|record| {
            format!(
                ": no path from router {router} to router {}",
                record.spec.router
            )
        });
    let recorded = records
        .into_iter()
        .filter_map(|record| of_record(network, &paths, record));
    found.candidates.extend(recorded);
    Ok(found)
}

/// The terminators at the router in this process, for a client there.
fn find_here(
    network: &Network,
    paths: &HashMap<String, Arc<Path>>,
    service: &str,
    wanted: &DialTarget<'_>,
) -> Candidates {
    let mut hosts = network.terminators.of_service(service);
    hosts.retain(|host| {
        host.is_open()
            && host.hosted.router == EdgeRouter::BUILT_IN
            && host.hosted.instance == wanted.instance
    });
    let has_terminators = !hosts.is_empty();
    hosts.retain(|host| !wanted.tried.contains(host.id()));
    let candidates = hosts.into_iter().filter_map(|host| {
        Some(Candidate {
            weight: host.weight(),
            path: paths.get(EdgeRouter::BUILT_IN)?.clone(),
            terminator: CandidateTerminator::Here(host),
        })
    });
    Candidates {
        candidates: candidates.collect(),
        has_terminators,
        unreachable: None,
    }
}

/// The candidate of a terminator's record; `None` if it cannot be reached.
fn of_record(
    network: &Network,
    paths: &HashMap<String, Arc<Path>>,
    record: Record<Terminator>,
) -> Option<Candidate> {
    let path = paths.get(&record.spec.router)?.clone();
    // A terminator of REST has no host, whoever hosts under its id meanwhile.
    let host = if record.is_of_a_connection() {
        let found = network.terminators.find(record.id.as_str())?;
        if !found.is_open() || found.hosted.router != record.spec.router {
            return None;
        }
        Some(found)
    } else {
        None
    };
    let weight = match &host {
        Some(host) => host.weight(),
        None => Weight {
            precedence: record.spec.precedence,
            cost: record.spec.cost,
            ..Weight::default()
        },
    };
    Some(Candidate {
        terminator: CandidateTerminator::Recorded(Box::new(record), host),
        weight: Weight {
            path_cost: path.cost,
            ..weight
        },
        path,
    })
}

/// Chooses the next terminator to dial.
///
/// # Errors
/// There is none, or the store cannot be read.
pub(crate) fn choose(
    network: &Network,
    circuit: &Circuit,
    grant: &Grant,
    wanted: &DialTarget<'_>,
) -> std::result::Result<Candidate, Refusal> {
    let service = grant.service.id.as_str();
    let found = find(network, &circuit.router, service, wanted)?;
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
        return Err(failure.because(DialFault::NoHost).into());
    }
    let weights: Vec<_> = candidates
        .iter()
        .map(|candidate| candidate.weight)
        .collect();
    let sticky = candidates
        .iter()
        .position(|candidate| Some(candidate.id().as_str().as_bytes()) == wanted.sticky);
    let strategy = Strategy::named(&grant.service.spec.terminator_strategy);
    let chosen = choose_by_weight(strategy, &weights, sticky, network.ids.random());
    if let Some(chosen) = chosen {
        return Ok(candidates.swap_remove(chosen));
    }
    let fault = if unreachable.is_some() {
        DialFault::Path
    } else {
        DialFault::NoHost
    };
    let unreachable = unreachable.unwrap_or_default();
    let failure = RequestFailure::internal(format!(
        "service {service} has no online terminators{instance}{unreachable}"
    ));
    Err(failure.because(fault).into())
}
