//! The routers in the composition: the record of the built-in router (its address, whether it is
//! online), and what the listener passes to the built-in router and to the control channel.

use std::{collections::BTreeMap, net::SocketAddr, pin::Pin, sync::Arc};

use fabric::{
    built_in_router::{Router, RouterContext},
    control_channel::Control,
    network::{ChannelPeer, Network},
};
use listener::{Stream, StreamServer, Unauthenticated};
use model::{
    config::{Address, Config},
    entity::{EdgeRouter, Id, Record, RouterInfo, TypedLookup, VersionInfo},
    error::Result,
};
use store::{CommitFeed, OpenStore, Phase};

/// The address of the built-in router for clients, if it is enabled; `own` is the router's separate
/// socket, if it has one.
pub(crate) fn address(
    config: &Config,
    bound: SocketAddr,
    own: Option<SocketAddr>,
) -> Option<Address> {
    config
        .router
        .enabled
        .then(|| config.router_address(bound, own))
}

/// Shows the router as online as long as its record exists and is not disabled.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn follow(store: &OpenStore, address: &Address) -> Result<()> {
    let (online, link) = (store.online().clone(), link(address));
    let show = move |router: Option<&Record<EdgeRouter>>| {
        let is_online = router.is_some_and(|router| !router.spec.disabled);
        online.set_router(EdgeRouter::BUILT_IN, is_online.then(|| link.clone()));
    };
    let built_in = Id::<EdgeRouter>::from_text(EdgeRouter::BUILT_IN);
    show(store.read(|tx| tx.find(&built_in))?.as_ref());
    store.subscribe(Phase::Update, move |events| {
        let of_built_in = events
            .iter()
            .filter(|event| event.id == EdgeRouter::BUILT_IN);
        for (_, new) in of_built_in.filter_map(|event| event.of::<EdgeRouter>()) {
            show(new);
        }
    });
    Ok(())
}

/// Notes which edge routers have enrolled, now and later.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn follow_enrolled(store: &OpenStore) -> Result<()> {
    let online = store.online().clone();
    store.subscribe(Phase::Update, move |events| {
        for event in events
            .iter()
            .filter(|event| event.id != EdgeRouter::BUILT_IN)
        {
            if let Some((_, new)) = event.of::<EdgeRouter>() {
                online.set_enrolled(
                    &event.id,
                    new.is_some_and(|router| router.state.is_verified),
                );
            }
        }
    });
    store.read(|tx| {
        tx.each_readable::<EdgeRouter>(|router| {
            if router.state.is_verified && !router.is_built_in() {
                store.online().set_enrolled(router.id.as_str(), true);
            }
            Ok(())
        })
    })
}

/// Starts the router, if it is enabled.
///
/// # Errors
/// The file cannot be read or written, or no thread can be started.
pub(crate) fn start(
    config: &Config,
    feed: &CommitFeed,
    network: &Arc<Network>,
    context: impl FnOnce() -> RouterContext,
) -> Result<Router> {
    if config.router.enabled {
        Router::start(network.clone(), context(), feed)
    } else {
        Ok(Router::default())
    }
}

/// The function to which the listener passes connections for the router, if it is enabled.
pub(crate) fn stream_server(router: &Router) -> Option<StreamServer> {
    let (runtime, router) = (router.handle()?.clone(), router.clone());
    let serve = Arc::new(
        move |stream: Stream, place: Unauthenticated| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let peer = peer(&stream);
            match router.channel(stream, peer, place) {
                Some(channel) => Box::pin(channel),
                None => Box::pin(std::future::ready(())),
            }
        },
    );
    Some(StreamServer { runtime, serve })
}

/// The function to which the listener passes links that remote routers open to the built-in router,
/// if it is enabled.
pub(crate) fn link_server(router: &Router) -> Option<StreamServer> {
    let (runtime, router) = (router.handle()?.clone(), router.clone());
    let serve = Arc::new(
        move |stream: Stream, place: Unauthenticated| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let peer = peer(&stream);
            match router.link(stream, peer, place) {
                Some(link) => Box::pin(link),
                None => Box::pin(std::future::ready(())),
            }
        },
    );
    Some(StreamServer { runtime, serve })
}

/// The function to which the listener passes the control connections of remote routers.
pub(crate) fn control_server(control: &Control) -> StreamServer {
    let (runtime, control) = (control.handle().clone(), control.clone());
    let serve = Arc::new(
        move |stream: Stream, place: Unauthenticated| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let peer = peer(&stream);
            Box::pin(control.serve(stream, peer, place))
        },
    );
    StreamServer { runtime, serve }
}

fn peer(stream: &Stream) -> ChannelPeer {
    let (socket, tls) = stream.stream.get_ref();
    let leaf = tls
        .peer_certificates()
        .and_then(|chain| chain.first())
        .map(|leaf| leaf.clone().into_owned());
    ChannelPeer {
        address: socket.stream.peer_addr().ok(),
        leaf,
    }
}

fn link(address: &Address) -> RouterInfo {
    RouterInfo {
        hostname: address.host().to_owned(),
        protocols: BTreeMap::from([("tls".to_owned(), format!("tls://{address}"))]),
        sync_status: "SYNC_DONE".into(),
        version: VersionInfo {
            arch: std::env::consts::ARCH.into(),
            os: std::env::consts::OS.into(),
            version: concat!("v", env!("CARGO_PKG_VERSION")).into(),
            ..VersionInfo::default()
        },
        ..RouterInfo::default()
    }
}
