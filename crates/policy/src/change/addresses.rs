//! The addresses that enrollment tokens named over time, and how many clients still use one that
//! tokens no longer name.
//!
//! A client keeps the address that its enrollment token named and never learns of another one.
//! Identities are counted by the newest of their certificate authenticators, and edge routers by
//! their certificate. A certificate that was enrolled, or renewed by a router, during the period of
//! an address counts for that address. Invariant: there is a period for each time that the first
//! address changed.

use model::{
    clock::Timestamp,
    config::Address,
    entity::{Authenticator, Credential, EdgeRouter, Record},
    error::{Error, Result},
};
use pki::{BACKDATE, Certificate};
use serde::{Deserialize, Serialize};
use store::{Read, Store};

use std::collections::HashMap;

/// The setting with all periods, oldest first.
const PERIODS: &str = "addresses";
/// The setting with the addresses that the controller advertised when it last ran.
const ADVERTISED: &str = "advertised";
/// The greatest number of periods kept; the oldest are dropped.
const LIMIT: usize = 64;

/// An address, and since when tokens name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AdvertisedPeriod {
    address: Address,
    since: Timestamp,
}

/// An address that tokens named in the past, and who enrolled with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerAddress {
    pub(crate) address: Address,
    pub(crate) identities: usize,
    pub(crate) routers: usize,
    /// Whether it is still advertised, but not first.
    pub(crate) is_advertised: bool,
}

impl std::fmt::Display for FormerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            address,
            identities,
            routers,
            is_advertised,
        } = self;
        let count = |number: &usize, one: &str, many: &str| {
            format!("{number} {}", if *number == 1 { one } else { many })
        };
        let (identities, routers) = (
            count(identities, "identity", "identities"),
            count(routers, "edge router", "edge routers"),
        );
        let remedy = if *is_advertised {
            "it is still advertised; keep it in advertise and listen until they use the first address"
        } else {
            "it is no longer advertised: add it to advertise and listen again, or change them to the new address"
        };
        write!(
            f,
            "{identities} and {routers} enrolled under {address}; {remedy}"
        )
    }
}

/// Stores the advertised addresses, for counting the clients that enrolled under earlier addresses,
/// and for commands on the file while no controller runs.
///
/// # Errors
/// The file cannot be read or written.
pub(crate) fn note(store: &Store, advertised: &[Address], now: Timestamp) -> Result<()> {
    // The periods of a file of an earlier release begin with the address that was noted last.
    note_period(store, advertised, now)?;
    let text =
        serde_json::to_vec(advertised).map_err(|e| Error::Internal(format!("addresses: {e}")))?;
    if store.read(|read| read.setting(ADVERTISED))?.as_deref() == Some(&text) {
        return Ok(());
    }
    store.write_blocking(move |tx| tx.set_setting(ADVERTISED, Some(&text)))
}

/// The addresses that the controller advertised when it last ran on this file, if they were stored.
///
/// # Errors
/// The file cannot be read.
pub fn last_advertised(store: &Store) -> Result<Option<Vec<Address>>> {
    Ok(store
        .read(|read| read.setting(ADVERTISED))?
        .and_then(|text| serde_json::from_slice(&text).ok()))
}

fn note_period(store: &Store, advertised: &[Address], now: Timestamp) -> Result<()> {
    let Some(address) = advertised.first().cloned() else {
        return Ok(());
    };
    let mut periods = store.read(periods)?;
    if periods.is_empty() {
        // A file of an earlier release holds only the addresses of its last controller.
        let first = last_advertised(store)?
            .and_then(|last| last.into_iter().next())
            .unwrap_or_else(|| address.clone());
        periods.push(AdvertisedPeriod {
            address: first,
            since: Timestamp::from_millis(0),
        });
    } else if periods.last().is_some_and(|last| last.address == address) {
        return Ok(());
    }
    if periods.last().is_some_and(|last| last.address != address) {
        periods.push(AdvertisedPeriod {
            address,
            since: now,
        });
    }
    let surplus = periods.len().saturating_sub(LIMIT);
    periods.drain(..surplus);
    let text =
        serde_json::to_vec(&periods).map_err(|e| Error::Internal(format!("addresses: {e}")))?;
    store.write_blocking(move |tx| tx.set_setting(PERIODS, Some(&text)))
}

/// Who enrolled under addresses that are not the first advertised one; the address that was
/// replaced last comes last.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn former_addresses(
    store: &Store,
    advertised: &[Address],
) -> Result<Vec<FormerAddress>> {
    let periods = store.read(periods)?;
    let mut moved: Vec<FormerAddress> = Vec::new();
    for AdvertisedPeriod { address, .. } in &periods {
        if advertised.first() != Some(address)
            && !moved.iter().any(|known| known.address == *address)
        {
            let is_advertised = advertised.contains(address);
            moved.push(FormerAddress {
                address: address.clone(),
                identities: 0,
                routers: 0,
                is_advertised,
            });
        }
    }
    if moved.is_empty() {
        return Ok(moved);
    }
    let mut count = |at: Timestamp, add: fn(&mut FormerAddress)| {
        let period = periods
            .iter()
            .rev()
            .find(|period| period.since <= at)
            .or(periods.first());
        moved
            .iter_mut()
            .filter(|moved| period.is_some_and(|period| period.address == moved.address))
            .for_each(add);
    };
    store.read(|tx| {
        let mut newest: HashMap<String, Timestamp> = HashMap::new();
        tx.each_readable::<Authenticator>(|authenticator| {
            if matches!(authenticator.spec.credential, Credential::Cert { .. }) {
                let at = newest
                    .entry(authenticator.spec.identity_id.to_string())
                    .or_insert(authenticator.created_at);
                *at = (*at).max(authenticator.created_at);
            }
            Ok(())
        })?;
        newest
            .into_values()
            .for_each(|at| count(at, |moved| moved.identities += 1));
        tx.each_readable::<EdgeRouter>(|router: Record<EdgeRouter>| {
            let held = router
                .state
                .cert_pem
                .as_deref()
                .and_then(|pem| Certificate::first(pem).ok());
            held.into_iter().for_each(|held| {
                count(
                    Timestamp::from_seconds(held.not_before() + BACKDATE),
                    |moved| moved.routers += 1,
                )
            });
            Ok(())
        })
    })?;
    moved.retain(|moved| moved.identities + moved.routers > 0);
    Ok(moved)
}

fn periods(read: &Read<'_>) -> Result<Vec<AdvertisedPeriod>> {
    Ok(read
        .setting(PERIODS)?
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default())
}
