//! Circuits that get another path: because theirs has lost a link or a router, or because another
//! one has become clearly cheaper.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use tokio::time::{Instant, interval, sleep};

use super::{
    circuit::Circuit,
    paths::Path,
    route::{self, REROUTE},
    shared_state::Network,
};

/// The interval between two searches for another path.
const AGAIN: Duration = Duration::from_millis(100);
/// The interval between two searches for cheaper paths.
const IMPROVE: Duration = Duration::from_secs(60);
/// At most one of so many circuits moves to a cheaper path at a time.
const PART: usize = 50;
/// At most this many circuits move to a cheaper path at a time.
const MAX_IMPROVED: usize = 4;
/// A path must cost at least this much less: latencies vary, and a circuit that moves has to send
/// some data again.
const MIN_SAVING: u32 = 15;

/// Reroutes circuits that are established. A dial in progress gives up its attempt.
pub(crate) fn begin(network: &Arc<Network>, circuits: Vec<Arc<Circuit>>, reason: &str) {
    for circuit in circuits {
        if circuit.begin_reroute() {
            tokio::spawn(reroute(network.clone(), circuit, reason.to_owned()));
        } else {
            // A reroute in progress looks for another path as well.
            circuit.give_up();
        }
    }
}

async fn reroute(network: Arc<Network>, circuit: Arc<Circuit>, reason: String) {
    // The search for a path goes on until then: routers dial a lost link again at once, so a path
    // may come back.
    let end = Instant::now() + network.times.reroute;
    while network.circuits.find(&circuit.id).is_some() {
        let last = circuit.path().routers.last().cloned().unwrap_or_default();
        let found = network.paths_from(&circuit.router).get(&last).cloned();
        if let Some(path) = found {
            match route::send(&network, &circuit, &path, REROUTE, None, &[]).await {
                Ok(_) => {
                    circuit.end_reroute();
                    // A link may have been lost meanwhile.
                    if network.has_links_of(&path) {
                        tracing::debug!(circuit = %circuit.id, path = ?path.routers, reason, "circuit rerouted");
                        return;
                    }
                    if !circuit.begin_reroute() {
                        return;
                    }
                }
                Err(failed) => {
                    tracing::debug!(circuit = %circuit.id, reason = %failed.failure.text, "reroute failed")
                }
            }
        }
        if Instant::now() >= end {
            network.end_circuit(&circuit, true, &reason);
            return;
        }
        sleep(AGAIN).await;
    }
}

/// Moves circuits to cheaper paths periodically. Never ends.
pub(crate) async fn improve_paths(network: Arc<Network>) {
    let mut ticks = interval(IMPROVE);
    loop {
        ticks.tick().await;
        improve(&network);
    }
}

/// Moves a few circuits to cheaper paths, beginning with those whose path costs most.
pub(crate) fn improve(network: &Arc<Network>) {
    let open: Vec<_> = network
        .circuits
        .all()
        .into_iter()
        .filter(|circuit| circuit.is_open() && !circuit.path().links.is_empty())
        .collect();
    let count = open.len().div_ceil(PART).min(MAX_IMPROVED);
    let mut by_cost: Vec<_> = open
        .into_iter()
        .filter_map(|circuit| Some((network.cost_of(&circuit.path())?, circuit)))
        .collect();
    by_cost.sort_by_key(|(cost, _)| Reverse(*cost));
    let improved = by_cost.into_iter().filter_map(|(present, circuit)| {
        let path = network
            .paths_from(&circuit.router)
            .get(circuit.path().routers.last()?)?
            .clone();
        (path.cost.saturating_add(MIN_SAVING) <= present).then_some((circuit, path))
    });
    for (circuit, path) in improved.take(count) {
        if circuit.begin_reroute() {
            tokio::spawn(move_to(network.clone(), circuit, path));
        }
    }
}

/// Moves a circuit to a path, and back if that fails.
async fn move_to(network: Arc<Network>, circuit: Arc<Circuit>, path: Arc<Path>) {
    let Some(before) = network.circuits.set_path(&circuit, &path) else {
        return;
    };
    let is_moved = route::ask(&network, &circuit, &path, REROUTE, None, &[])
        .await
        .is_ok();
    let (kept, left) = if is_moved {
        (&path, &before)
    } else {
        (&before, &path)
    };
    let is_open = network.circuits.set_path(&circuit, kept).is_some();
    for router in left
        .routers
        .iter()
        .filter(|router| !kept.has_router(router))
    {
        network.unroute(&circuit, router, !is_open);
    }
    if !is_open {
        // It has ended meanwhile, when it had the other path.
        return kept
            .routers
            .iter()
            .for_each(|router| network.unroute(&circuit, router, true));
    }
    let stands = is_moved
        || route::ask(&network, &circuit, &before, REROUTE, None, &[])
            .await
            .is_ok();
    tracing::debug!(circuit = %circuit.id, path = ?kept.routers, is_moved, "a cheaper path was tried");
    circuit.end_reroute();
    // A router or link may have been lost meanwhile.
    if !stands || network.cost_of(kept).is_none() {
        begin(
            &network,
            vec![circuit],
            "its path was lost while it moved to a cheaper one",
        );
    }
}
