//! The first message of a router: identifies it by its certificate and decides whether it may
//! connect.
//!
//! A router of version 2 may open further connections of its group if it has been told so by a
//! controller that it was connected to before. They are only read: everything is written to the
//! first one, and all of them end with it.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use model::{
    entity::{EdgeRouter, Id, RouterInfo, TransitRouter, TypedLookup},
    error::Error,
};
use pki::Certificate;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, split},
    time::interval,
};
use wire::frame::{Builder, Frame, content as common, key as common_key};

use super::{
    certificates,
    connection::{ConnectionParameters, CountGuard, RouterConnection, RouterKind},
    control_core::ControlCore,
    data_model,
    group::{self, Group},
    hello_values::{answer, body_text, first, link, listeners, server_hello, version},
    link_questions, public_keys,
    receive::MessageReceiver,
    replies::unroute,
    terminator_changes::{VALIDATION_CHUNK, validation},
};
use crate::{
    network::{ChannelPeer, read},
    peer_lines::may_log,
};

/// A router identified by its certificate.
struct IdentifiedRouter {
    id: String,
    kind: RouterKind,
    is_disabled: bool,
    /// Its cost and `noTraversal`.
    weight: (u16, bool),
    /// Whether it has two certificates, because it has not yet connected with the newer one.
    has_two: bool,
}

/// Why a hello opens no connection, as its router logs it.
#[derive(Debug, thiserror::Error)]
enum HelloRejection {
    #[error("{0}")]
    Invalid(&'static str),
    #[error("there is no router with this id: it was deleted, or is of another controller")]
    UnknownRouter,
    #[error("the router cannot be looked up at the moment")]
    Unreadable(#[from] Error),
}

impl HelloRejection {
    /// For a router that was accepted at first: whether it was deleted meanwhile, and whether it
    /// has lost its right for certain.
    fn after_registration(&self) -> (bool, bool) {
        match self {
            Self::UnknownRouter => (true, true),
            Self::Invalid(_) => (false, true),
            Self::Unreadable(_) => (false, false),
        }
    }
}

impl From<&'static str> for HelloRejection {
    fn from(reason: &'static str) -> Self {
        Self::Invalid(reason)
    }
}

/// Serves one connection until it ends. Drops `place` as soon as the router is authenticated.
pub(crate) async fn serve(
    core: Arc<ControlCore>,
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: ChannelPeer,
    place: impl Send + 'static,
) {
    let hello = match read::hello(&mut stream, core.times.hello).await {
        Ok(hello) => hello,
        Err(stop) => {
            return tracing::debug!(address = ?peer.address, %stop, "a router sent no valid hello");
        }
    };
    let opened = match open(&core, &hello, &peer) {
        Ok(opened) => opened,
        Err(rejection) => {
            let reason = rejection.to_string();
            if let HelloRejection::Unreadable(error) = &rejection {
                tracing::warn!(%error, "a router cannot be looked up");
            }
            if peer.may_log() {
                tracing::warn!(address = ?peer.address, router = %body_text(&hello), reason, "a router is rejected");
            }
            let refusal = first(
                Builder::reply(common::RESULT, &hello)
                    .flag(common_key::SUCCESS, false)
                    .body(reason.as_bytes()),
            );
            let refused = async {
                stream.write_all(refusal.as_bytes()).await?;
                stream.shutdown().await
            };
            // A router that does not read the answer is disconnected without it.
            drop(tokio::time::timeout(core.times.hello, refused).await);
            return;
        }
    };
    let answer = answer(&hello, opened.connection());
    drop((hello, place));
    match opened {
        Opened::First(connection) => run(core, connection, answer, stream).await,
        Opened::Further(connection, counted) => {
            run_further(core, &connection, answer, stream).await;
            drop(counted);
        }
    }
}

/// What a hello has opened.
enum Opened {
    First(Arc<RouterConnection>),
    /// A further connection of the group whose first one this is.
    Further(Arc<RouterConnection>, CountGuard),
}

impl Opened {
    fn connection(&self) -> &RouterConnection {
        match self {
            Self::First(connection) | Self::Further(connection, _) => connection,
        }
    }
}

/// Opens a connection for the sender of a hello.
fn open(
    core: &Arc<ControlCore>,
    hello: &Frame,
    peer: &ChannelPeer,
) -> Result<Opened, HelloRejection> {
    if hello.content_type() != common::HELLO {
        return Err("the first message must be a hello".into());
    }
    let number = core.network.ids.next();
    let group = Group::of(hello, number)?;
    let leaf = peer
        .leaf
        .as_ref()
        .and_then(|leaf| Certificate::from_der(leaf).ok())
        .ok_or("a client certificate is needed")?;
    let known = identify(core, hello, &leaf)?;
    if group::is_further(hello) {
        let first = core
            .registry
            .find(&known.id)
            .filter(|first| first.group == group)
            .ok_or("a router may have only one connection")?;
        let counted = first
            .join()
            .ok_or("a router may have only three connections")?;
        return Ok(Opened::Further(first, counted));
    }
    let version = hello
        .text(common_key::VERSION)
        .map(version)
        .ok_or("a hello must carry the version of the router")?;
    let listeners = listeners(hello);
    let parameters = ConnectionParameters {
        number,
        router: known.id.clone(),
        kind: known.kind,
        address: peer.address,
        group,
        link: RouterInfo {
            since: Some(core.network.now()),
            ..link(known.kind, version, &listeners)
        },
        listeners,
        weight: known.weight,
    };
    let connection = Arc::new(RouterConnection::new(parameters));
    let is_reconnect = group::is_reconnect(hello);
    // Before the connection is found, so that no route of a circuit that comes back to the router
    // is in its queue before the removal.
    let told = if is_reconnect {
        remove_unconfirmed(core, &connection, &HashSet::new())
    } else {
        HashSet::new()
    };
    // A live connection answers a heartbeat more often than this.
    core.registry.add(
        &connection,
        is_reconnect,
        core.times.silence / 2,
        &core.network,
    )?;
    core.network.paths.changed();
    // A change between the first look-up and the registration was not reported to this connection,
    // so the record is read again.
    if let Err(rejection) = identify(core, hello, &leaf) {
        // The other routers are told of the deletion. The change itself found no connection.
        let (is_deleted, is_revoked) = rejection.after_registration();
        connection.is_deleted.store(is_deleted, Ordering::SeqCst);
        connection.is_revoked.store(is_revoked, Ordering::SeqCst);
        connection.close();
        let (core, reason) = (core.clone(), rejection.to_string());
        // A connection that this one has replaced leaves the clean-up to it.
        tokio::spawn(async move { core.left(&connection, &reason).await });
        return Err(rejection);
    }
    if known.has_two {
        certificates::used(core, &connection, leaf.fingerprint());
    }
    if is_reconnect {
        // Those that ended meanwhile.
        remove_unconfirmed(core, &connection, &told);
    } else {
        core.earlier.router_started(&connection.router);
        core.forget(&connection.router, "its router was restarted");
        core.network.removals.forget(&connection.router);
        core.measurements.started(&connection.router);
    }
    link_questions::ask(core, &connection.router);
    if may_log(&connection.router) {
        tracing::info!(router = %connection.router, address = ?connection.address, is_reconnect, "router connected");
    }
    Ok(Opened::First(connection))
}

/// Tells a router that has connected again which circuits to remove, except those that it was
/// `told` of. Returns their ids.
fn remove_unconfirmed(
    core: &ControlCore,
    connection: &RouterConnection,
    told: &HashSet<String>,
) -> HashSet<String> {
    // A later attempt or a reroute may have brought the circuit back to the router.
    let is_back = |id: &str| {
        core.network
            .circuits
            .find(id)
            .is_some_and(|circuit| circuit.path().has_router(&connection.router))
    };
    let mut unconfirmed = core.network.removals.unconfirmed(&connection.router);
    unconfirmed.retain(|(circuit, _)| !told.contains(circuit) && !is_back(circuit));
    for (circuit, now) in &unconfirmed {
        connection.send(unroute(circuit, *now));
    }
    unconfirmed
        .into_iter()
        .map(|(circuit, _)| circuit)
        .collect()
}

/// The router that a certificate belongs to, if it may connect.
fn identify(
    core: &ControlCore,
    hello: &Frame,
    leaf: &Certificate,
) -> Result<IdentifiedRouter, HelloRejection> {
    let context = &core.context;
    let now = core.network.now();
    if !context.keystore.authority().has_issued(leaf) {
        return Err("the client certificate was not issued by this controller".into());
    }
    if !leaf.valid_at(now.seconds()) {
        return Err("the client certificate has expired, or is not valid yet".into());
    }
    let (Ok(name), fingerprint) = (std::str::from_utf8(hello.body()), leaf.fingerprint()) else {
        return Err("the id of a router must be UTF-8".into());
    };
    let known = |kind, is_disabled, weight| IdentifiedRouter {
        id: name.to_owned(),
        kind,
        is_disabled,
        weight,
        has_two: false,
    };
    let found = core.network.store().read(|tx| {
        if let Some(router) = tx
            .find(&Id::<EdgeRouter>::from_text(name))?
            .filter(|router| !router.is_built_in())
        {
            let EdgeRouter {
                cost,
                no_traversal,
                disabled,
                ..
            } = router.spec;
            return Ok(Some((
                known(RouterKind::Edge, disabled, (cost, no_traversal)),
                router.state,
            )));
        }
        let transit = tx.find(&Id::<TransitRouter>::from_text(name))?;
        Ok(transit.map(|router| {
            let TransitRouter {
                cost,
                no_traversal,
                disabled,
                ..
            } = router.spec;
            (
                known(RouterKind::Transit, disabled, (cost, no_traversal)),
                router.state,
            )
        }))
    })?;
    let (known, state) = found.ok_or(HelloRejection::UnknownRouter)?;
    if !state.is_verified {
        return Err("the router is not enrolled: enroll it with its enrollment token".into());
    }
    if !state.has_fingerprint(&fingerprint) {
        return Err("the client certificate is not the one that the router has now: it was enrolled again or its certificate extended".into());
    }
    if known.is_disabled {
        return Err("the router is disabled".into());
    }
    Ok(IdentifiedRouter {
        has_two: state.unverified_fingerprint.is_some(),
        ..known
    })
}

/// Reads and writes until the connection ends.
async fn run(
    core: Arc<ControlCore>,
    connection: Arc<RouterConnection>,
    answer: Frame,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let (read, mut write) = split(stream);
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move {
            let written = async {
                write.write_all(answer.as_bytes()).await?;
                connection.outbox.write(&mut write).await
            };
            if let Err(error) = written.await {
                tracing::debug!(router = %connection.router, %error, "writing to a router failed");
            }
            // Messages read from now on could not be answered.
            connection.close();
        }
    });
    core.note_connected(&connection);
    if connection.kind == RouterKind::Edge {
        connection.send(server_hello());
        core.registry
            .update_link(&connection, core.online(), |link| {
                link.sync_status = "SYNC_HELLO".into()
            });
    }
    for some in core
        .network
        .terminators
        .of_router(&connection.router)
        .chunks(VALIDATION_CHUNK)
    {
        connection.send(validation(some));
    }
    let reason = tokio::select! {
        stop = MessageReceiver::new(core.clone(), connection.clone(), read).run() => stop.to_string(),
        () = connection.closed() => "it was cut off".into(),
        () = send_heartbeats(&core, &connection) => "it answered no heartbeats".into(),
    };
    connection.close();
    writing.abort();
    drop(writing.await);
    connection.connected.close(core.online());
    if may_log(&connection.router) {
        tracing::info!(router = %connection.router, address = ?connection.address, reason, "router disconnected");
    }
    tokio::spawn(async move { core.left(&connection, &reason).await });
}

/// Reads a further connection of a group until it or the group ends. The router opens a lost one
/// again.
async fn run_further(
    core: Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    answer: Frame,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let (read, mut write) = split(stream);
    let reading = async {
        match tokio::time::timeout(core.times.hello, write.write_all(answer.as_bytes())).await {
            Ok(Ok(())) => MessageReceiver::new(core.clone(), connection.clone(), read)
                .run()
                .await
                .to_string(),
            _ => "it does not read the answer to its hello".into(),
        }
    };
    let reason = tokio::select! {
        reason = reading => reason,
        () = connection.closed() => "the first one has ended".into(),
    };
    tracing::debug!(router = %connection.router, reason, "a further connection of a router has ended");
}

/// Sends heartbeats until the router has not answered any for too long.
async fn send_heartbeats(core: &ControlCore, connection: &Arc<RouterConnection>) {
    let mut ticks = interval(core.times.heartbeat);
    let began = Instant::now();
    loop {
        ticks.tick().await;
        if connection.last_answer().elapsed() > core.times.silence {
            return;
        }
        let clock = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let heartbeat = Builder::new(common::HEARTBEAT)
            .u64(common_key::HEARTBEAT, clock)
            .empty();
        core.network
            .removals
            .heartbeat(&connection.router, connection.number, clock, || {
                connection.send(heartbeat)
            });
        connection.connected.expire(core.online());
        public_keys::send(core, connection);
        data_model::keep_open(core, connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_a_hello_reject() {
        let flags = |rejection: HelloRejection| rejection.after_registration();
        assert_eq!(flags(HelloRejection::UnknownRouter), (true, true));
        assert_eq!(flags("the router is disabled".into()), (false, true));
        let unreadable = Error::Internal("the disk is gone".into());
        assert_eq!(flags(unreadable.into()), (false, false));
    }
}
