//! The hosts of a service at this moment.

use std::collections::BTreeMap;

use model::{
    entity::{Terminator, TypedLookup},
    error::Result,
};
use store::Read;

use super::table::{HostKey, is_live};

/// A host of a service at a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveHost {
    pub host: HostKey,
    pub router: String,
    /// The number of its terminators there.
    pub terminators: usize,
}

/// The hosts of a service that can be reached, by host and router. Terminators made by an
/// administrator at one router are one host.
///
/// # Errors
/// The store cannot be read.
pub fn live_hosts(tx: &Read<'_>, service: &str) -> Result<Vec<LiveHost>> {
    let mut counts = BTreeMap::<(HostKey, String), usize>::new();
    for terminator in tx.linked::<Terminator>("service", service)? {
        if is_live(tx.online(), &terminator) {
            *counts
                .entry((HostKey::of(&terminator), terminator.spec.router))
                .or_default() += 1;
        }
    }
    Ok(counts
        .into_iter()
        .map(|((host, router), terminators)| LiveHost {
            host,
            router,
            terminators,
        })
        .collect())
}
