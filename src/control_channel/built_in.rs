//! The built-in router as a member of the network of routers: it gets routes as other routers do,
//! in this process and without a connection, and dials hosts at other routers.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use pki::Certificate;
use tokio::{runtime, sync::oneshot};
use wire::{
    control::{
        NumberedBytes, content,
        fabric::{self, DestinationType, FaultSubject, PeerState},
        key,
    },
    frame::{Builder, Frame},
    sdk::key as sdk,
};

use super::{
    candidates,
    circuit::Circuit,
    connection::{ConnectionParameters, RouterConnection, RouterKind},
    core::ControlCore,
    dial::{self, DialAnswer, DialRequest},
    fault, link_reports,
    replies::{body, decoded},
    route::{INVALID_LINK, ROUTE_INVALID_TERMINATOR, code_of},
    sessions::FoundSession,
};
use crate::{
    built_in_router::{
        DialReply, RemoteDial, RemoteRouters, Route, RouteError, RouteToHost, Router,
    },
    entity::{EdgeRouter, Id, RouterInfo, TypedLookup, VersionInfo},
    error::Result,
    fabric::{EDGE, RequestFailure, Weight, unreadable},
    hosting::DialFault,
};

/// Makes the built-in router a member of the network: other routers are told to dial links to
/// `address`, and it takes part in paths. Its tasks run on `handle`.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn join(
    core: &Arc<ControlCore>,
    router: &Router,
    address: &str,
    handle: &runtime::Handle,
) -> Result<()> {
    let record = core
        .network
        .store()
        .read(|tx| tx.find(&Id::<EdgeRouter>::from_text(EdgeRouter::BUILT_IN)))?;
    let listener = fabric::LinkListener {
        address: format!("tls:{address}"),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        ..fabric::LinkListener::default()
    };
    let version = VersionInfo {
        version: VersionInfo::OF_LINKS.into(),
        ..VersionInfo::default()
    };
    let connection = Arc::new(RouterConnection::new(ConnectionParameters {
        number: core.network.ids.next(),
        router: EdgeRouter::BUILT_IN.into(),
        kind: RouterKind::BuiltIn,
        address: None,
        group: None,
        link: RouterInfo {
            version,
            ..RouterInfo::default()
        },
        listeners: vec![listener],
        weight: record.map_or((0, false), |record| {
            (record.spec.cost, record.spec.no_traversal)
        }),
    }));
    drop(core.built_in.set(router.clone()));
    core.registry.admit(&connection);
    core.paths.changed();
    router.meet(Box::new(ControlChannelRouters {
        core: Arc::downgrade(core),
        connection: connection.clone(),
        handle: handle.clone(),
    }));
    let (core, router) = (Arc::downgrade(core), router.clone());
    handle.spawn(async move {
        while let Some(frame) = connection.outbox.next().await {
            let Some(core) = core.upgrade() else { return };
            take(&core, &connection, &router, &frame);
        }
    });
    Ok(())
}

/// Handles a message to the built-in router.
fn take(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    router: &Router,
    frame: &Frame,
) {
    match frame.content_type() {
        content::ROUTE => {
            if let Some(route) = body::<fabric::Route>(connection, frame) {
                self::route(core, connection, router, route);
            }
        }
        content::UNROUTE => {
            if let Some(unroute) = body::<fabric::Unroute>(connection, frame) {
                router.unroute(&unroute.circuit_id, unroute.now);
            }
        }
        content::FAULT => {
            if let Some(fault) = body::<fabric::Fault>(connection, frame)
                .filter(|fault| fault.subject() == FaultSubject::Link)
            {
                router.close_link(&fault.id);
            }
        }
        content::PEER_STATE_CHANGES => {
            let changes = decoded::<fabric::PeerStateChanges>(connection, frame)
                .unwrap_or_default()
                .changes;
            // Links of a router that is only disconnected stay.
            for left in changes
                .iter()
                .filter(|change| change.state() != PeerState::Healthy)
            {
                let may_connect =
                    matches!(link_reports::enrolled(core, &left.id), Ok(Some(_)) | Err(_));
                if !may_connect || left.state() == PeerState::Removed {
                    router.close_links_of(&left.id);
                }
            }
        }
        _ => {}
    }
}

/// Takes a route, and passes its result on.
fn route(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    router: &Router,
    route: fabric::Route,
) {
    let (circuit, attempt) = (route.circuit_id.clone(), route.attempt);
    let (result_core, result_connection, terminator) = (
        core.clone(),
        connection.clone(),
        route
            .egress
            .as_ref()
            .map(|egress| egress.destination.clone()),
    );
    let done = move |outcome: std::result::Result<DialReply, RouteError>| {
        let builder = Builder::new(content::ROUTE_RESULT).u32(key::ROUTE_ATTEMPT, attempt);
        let failed = |builder: Builder, text: &str| builder.text(key::ROUTE_ERROR, text);
        let builder = match outcome {
            Ok(answer) => {
                let builder = builder.flag(key::ROUTE_SUCCESS, true);
                let headers = answer
                    .iter()
                    .filter_map(|(key, value)| Some((i32::try_from(*key).ok()?, value)));
                headers.fold(builder, |builder, (key, value)| builder.bytes(key, value))
            }
            Err(RouteError::Link) => failed(builder, INVALID_LINK),
            Err(RouteError::Terminator) => failed(
                builder,
                &format!(
                    "terminator {} is not hosted here",
                    terminator.unwrap_or_default()
                ),
            )
            .bytes(key::ROUTE_ERROR_CODE, &[ROUTE_INVALID_TERMINATOR]),
            Err(RouteError::Failed(text, fault)) => {
                failed(builder, &text).bytes(key::ROUTE_ERROR_CODE, &[code_of(fault)])
            }
        };
        dial::result(
            &result_core,
            &result_connection,
            builder.body(circuit.as_bytes()),
        );
    };
    let to_links = route
        .forwards
        .iter()
        .filter(|forward| forward.destination_type() == DestinationType::Link);
    let links: Vec<&str> = to_links
        .map(|forward| forward.destination.as_str())
        .collect();
    let link = match links[..] {
        [link] => link.to_owned(),
        [to_host, to_client] => {
            return done(
                router
                    .pass_through(&route.circuit_id, [to_client, to_host])
                    .map(|()| DialReply::new()),
            );
        }
        _ => return done(Err(RouteError::Link)),
    };
    let Some(found) = core.circuits.find(&route.circuit_id) else {
        return done(Err(RouteError::Link));
    };
    let host = match route.egress {
        Some(egress) if egress.binding == EDGE => Some(RouteToHost {
            terminator: egress.destination,
            client: found.client.clone(),
            service: found.service.clone(),
            peer_data: egress
                .peer_data
                .into_iter()
                .filter_map(|entry| Some((entry.key?, entry.value?)))
                .collect(),
        }),
        Some(egress) => {
            let text = format!(
                "the built-in router does not serve terminators of binding {}",
                egress.binding
            );
            return done(Err(RouteError::Failed(text, DialFault::Other)));
        }
        None => None,
    };
    router.route(
        Route {
            circuit: route.circuit_id,
            link,
            host,
        },
        done,
    );
}

/// The remote routers, as the built-in router sees them.
struct ControlChannelRouters {
    core: Weak<ControlCore>,
    connection: Arc<RouterConnection>,
    handle: runtime::Handle,
}

impl RemoteRouters for ControlChannelRouters {
    fn is_router(&self, router: &str, leaf: &Certificate) -> bool {
        let Some(core) = self.core.upgrade() else {
            return false;
        };
        let now = core.network.now();
        let is_issued =
            core.context.keystore.authority().issued(leaf) && leaf.valid_at(now.seconds());
        let enrolled = link_reports::enrolled(&core, router);
        is_issued
            && matches!(enrolled, Ok(Some(state)) if state.has_fingerprint(&leaf.fingerprint()))
    }

    fn has_routers(&self) -> bool {
        self.core
            .upgrade()
            .is_some_and(|core| !core.registry.is_empty())
    }

    fn hosts(&self, service: &str, instance: &str) -> Vec<(String, Weight)> {
        let Some(core) = self.core.upgrade() else {
            return Vec::new();
        };
        let found = candidates::find(&core, &self.connection.router, service, instance, &[]);
        found
            .map(|found| {
                found
                    .candidates
                    .into_iter()
                    .map(candidates::Candidate::into_weight)
                    .collect()
            })
            .unwrap_or_default()
    }

    fn dial(
        &self,
        dial: RemoteDial,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<DialReply, RequestFailure>> + Send + '_>>
    {
        let (core, router, handle) = (
            self.core.clone(),
            self.connection.router.clone(),
            self.handle.clone(),
        );
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            handle.spawn(async move {
                let Some(core) = core.upgrade() else { return };
                let circuit = dial.circuit.clone();
                let outcome = establish(&core, &router, dial).await;
                // The client has left meanwhile.
                if done.send(outcome).is_err()
                    && let Some(circuit) = core.circuits.find(&circuit)
                {
                    core.end_circuit(&circuit, true, "its client has left");
                }
            });
            answer
                .await
                .unwrap_or_else(|_| Err(RequestFailure::busy("the controller is stopping")))
        })
    }

    fn circuit_ended(&self, circuit: &str, is_of_host: bool) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let subject = if is_of_host {
            FaultSubject::Egress
        } else {
            FaultSubject::Ingress
        };
        let fault = fabric::Fault {
            subject: subject.into(),
            id: circuit.to_owned(),
            iteration: 0,
        };
        let _guard = self.handle.enter();
        fault::take(&core, &self.connection, &fault);
    }

    fn link_opened(&self, link: &str, router: &str) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if core.links.confirm(&self.connection.router, |known| {
            known.id == link && known.source == router
        }) {
            core.paths.changed();
        }
    }

    fn link_lost(&self, link: &str, iteration: u32) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let fault = fabric::Fault {
            subject: FaultSubject::Link.into(),
            id: link.to_owned(),
            iteration,
        };
        let _guard = self.handle.enter();
        fault::take(&core, &self.connection, &fault);
    }

    fn link_measured(&self, link: &str, latency: Duration) {
        if let Some(core) = self.core.upgrade()
            && core.links.measured(link, &self.connection.router, latency)
        {
            core.paths.changed();
        }
    }
}

/// Routes a circuit from the built-in router to a host at another router.
async fn establish(
    core: &Arc<ControlCore>,
    router: &str,
    dial: RemoteDial,
) -> std::result::Result<DialReply, RequestFailure> {
    let found = core
        .network
        .store()
        .read(|tx| tx.find(&dial.api_session))
        .map_err(unreadable)?;
    let api_session = found.ok_or_else(RequestFailure::invalid_session)?;
    let sticky = dial.sticky.map(|terminator| (key::STICKINESS, terminator));
    let peer_data = dial
        .peer_data
        .into_iter()
        .chain(sticky)
        .map(|(key, value)| NumberedBytes::new(key, value))
        .collect();
    let opened: Mutex<DialReply> = Mutex::default();
    let answer =
        |_: &Circuit, of_circuit: &DialAnswer<'_>| *opened.lock() = of_circuit.peer_data.to_vec();
    let request = DialRequest {
        router,
        circuit: Some(dial.circuit),
        instance: &dial.instance,
        terminator: dial.terminator.as_deref(),
        peer_data,
        answer: &answer,
    };
    dial::dial(
        core,
        FoundSession {
            session: dial.session,
            api_session,
        },
        &request,
    )
    .await?;
    let mut answer = opened.into_inner();
    for (key, _) in answer.iter_mut().filter(|(key, _)| *key == key::STICKINESS) {
        *key = u32::try_from(sdk::STICKINESS).unwrap_or_default();
    }
    Ok(answer)
}
