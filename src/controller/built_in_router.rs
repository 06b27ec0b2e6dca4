//! The built-in router as records show it: where clients are sent, and that it is online.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::{
    change,
    config::{Address, Config},
    entity::{EdgeRouter, FactsExt, Id, Record, RouterLink, VersionInfo},
    error::Result,
    network::{Parts, Router},
    store::Store,
};

/// Where clients of the built-in router are sent, if it is enabled.
pub fn address(config: &Config, bound: SocketAddr) -> Option<Address> {
    config.router.enabled.then(|| config.router_address(bound, config.router.listen))
}

/// Makes its record if there is none, and shows it as online from now on, unless an administrator disabled it.
///
/// # Errors
/// The file cannot be read or written.
pub fn establish(store: &Store, address: &Address) -> Result<()> {
    change::built_in_router::establish(store)?;
    let (online, link) = (store.online().clone(), link(address));
    let show = move |router: Option<&Record<EdgeRouter>>| {
        let is_online = router.is_some_and(|router| !router.spec.disabled);
        online.set_router(EdgeRouter::BUILT_IN, is_online.then(|| link.clone()));
    };
    let built_in = Id::<EdgeRouter>::from_text(EdgeRouter::BUILT_IN);
    show(store.read(|tx| tx.find(&built_in))?.as_ref());
    store.subscribe(move |events| {
        let of_built_in = events.iter().filter(|event| event.id == EdgeRouter::BUILT_IN);
        of_built_in.filter_map(|event| event.of::<EdgeRouter>()).for_each(|(_, new)| show(new));
    });
    Ok(())
}

/// Starts the router, if it is enabled.
///
/// # Errors
/// The file cannot be read or written, or the system gives no threads.
pub fn start(config: &Config, parts: impl FnOnce() -> Parts) -> Result<Router> {
    if config.router.enabled { Router::start(parts()) } else { Ok(Router::default()) }
}

fn link(address: &Address) -> RouterLink {
    RouterLink {
        hostname: address.host().to_owned(),
        protocols: BTreeMap::from([("tls".to_owned(), format!("tls://{address}"))]),
        sync_status: "SYNC_DONE".into(),
        version: VersionInfo {
            arch: std::env::consts::ARCH.into(),
            os: std::env::consts::OS.into(),
            version: concat!("v", env!("CARGO_PKG_VERSION")).into(),
            ..VersionInfo::default()
        },
    }
}
