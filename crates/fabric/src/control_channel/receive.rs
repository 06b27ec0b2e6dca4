//! Reads the messages of a control channel one after the other and dispatches them. A report of
//! links waits for the store, and one of sessions for room among those that are not processed yet
//! (`report_queue.rs`).

use std::sync::{Arc, atomic::Ordering};

use tokio::io::AsyncRead;
use wire::{
    control::{content, edge, key},
    frame::{Builder, Frame, FrameLimits, content as common, key as common_key},
};

use super::{
    bind, certificates,
    connection::{RouterConnection, RouterKind},
    control_core::ControlCore,
    dial, fault, inspect, link_reports, metrics_reports, public_keys,
    replies::{body, result},
    route, session_reports, terminator_changes, tunnel, tunnel_dial, tunnel_v2,
};
use crate::network::read::{self, Stop};

/// Maximum lengths of the sections of a message, in bytes. Metrics of a router with thousands of
/// circuits fit.
const LIMITS: FrameLimits = FrameLimits {
    headers: 64 << 10,
    body: 4 << 20,
};
/// Maximum listeners of a router.
const MAX_LISTENERS: usize = 16;
/// Maximum length of names and addresses that a router reports, in bytes.
const MAX_NAME: usize = 255;

/// The reader of one connection.
pub(crate) struct MessageReceiver<S> {
    core: Arc<ControlCore>,
    connection: Arc<RouterConnection>,
    stream: S,
}

impl<S: AsyncRead + Unpin> MessageReceiver<S> {
    pub(crate) fn new(
        core: Arc<ControlCore>,
        connection: Arc<RouterConnection>,
        stream: S,
    ) -> Self {
        Self {
            core,
            connection,
            stream,
        }
    }

    /// Reads until the connection ends, and returns why it ended.
    pub(crate) async fn run(mut self) -> Stop {
        loop {
            match read::whole(&mut self.stream, LIMITS, self.core.times.stall).await {
                Ok(frame) => dispatch(&self.core, &self.connection, frame).await,
                Err(stop) => return stop,
            }
        }
    }
}

/// Handles a message.
async fn dispatch(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    if let Some(clock) = frame.u64(common_key::HEARTBEAT) {
        connection.send(
            Builder::new(common::HEARTBEAT)
                .u64(common_key::HEARTBEAT_ECHO, clock)
                .empty(),
        );
    }
    if let Some(clock) = frame.u64(common_key::HEARTBEAT_ECHO) {
        connection.heartbeat_answered();
        core.network
            .removals
            .answered(&connection.router, connection.number, clock);
        core.earlier
            .heartbeat_answered(&connection.router, connection.number);
    }
    if connection.kind != RouterKind::Edge && content::is_of_edge_routers(frame.content_type()) {
        let content_type = frame.content_type();
        return tracing::debug!(router = %connection.router, content_type, "a message that only edge routers may send is ignored");
    }
    match frame.content_type() {
        common::PING | content::UPDATE_ROUTER_INTERFACES => {
            connection.send(result(&frame, true, ""))
        }
        content::VERIFY_ROUTER => report(core, connection, frame, link_reports::verify).await,
        content::ROUTER_LINKS => link_reports::links(core, connection, &frame),
        content::METRICS => metrics_reports::take(core, connection, &frame),
        content::QUIESCE | content::DEQUIESCE | content::DECOMMISSION => {
            connection.send(result(&frame, false, "not supported"))
        }
        content::CLIENT_HELLO => client_hello(core, connection, &frame),
        content::API_SESSION_HEARTBEAT => {
            report(core, connection, frame, session_reports::heartbeat).await
        }
        content::CONNECT_EVENTS => {
            report(core, connection, frame, session_reports::connect_events).await
        }
        content::REQUEST_RESYNC => {
            let _ =
                connection.is_introduced.load(Ordering::Acquire) && core.sync.resync(connection);
        }
        content::VALIDATE_SESSIONS => {
            report(core, connection, frame, session_reports::validate).await
        }
        content::EXTEND_ENROLLMENT => certificates::extend(core, connection, &frame),
        content::EXTEND_ENROLLMENT_VERIFY => certificates::confirm(core, connection, frame),
        content::CREATE_TERMINATOR => bind::create(core, connection, frame),
        content::UPDATE_TERMINATOR => terminator_changes::update(core, connection, frame),
        content::REMOVE_TERMINATORS => terminator_changes::remove(core, connection, &frame),
        content::VALIDATE_TERMINATORS_RESPONSE => {
            terminator_changes::validated(core, connection, &frame)
        }
        content::CREATE_CIRCUIT => dial::create(core, connection, frame),
        content::TUNNEL_API_SESSION => tunnel::open(core, connection, frame),
        content::TUNNEL_LIST_SERVICES => tunnel::list_services(core, connection, frame),
        content::TUNNEL_TERMINATOR => tunnel::host(core, connection, frame),
        content::TUNNEL_UPDATE_TERMINATOR => tunnel::update(core, connection, frame),
        content::TUNNEL_REMOVE_TERMINATOR => tunnel::unhost(core, connection, &frame),
        content::TUNNEL_CIRCUIT => tunnel_dial::create_circuit(core, connection, frame),
        content::TUNNEL_TERMINATOR_V2 => tunnel_v2::host(core, connection, frame),
        content::TUNNEL_CIRCUIT_V2 => tunnel_v2::create_circuit(core, connection, frame),
        content::INSPECT_RESPONSE => inspect::answered(connection, frame),
        content::ROUTE_RESULT => route::result(core, connection, &frame),
        content::FAULT => fault::fault(core, connection, &frame),
        content::CIRCUIT_CONFIRMATION => fault::confirm(core, connection, &frame),
        other => {
            tracing::trace!(router = %connection.router, content_type = other, "a message of an unsupported type is ignored")
        }
    }
}

/// Processes a report on a thread that may wait for the disk, after the reports before it. Waits
/// while too many bytes of them wait.
async fn report(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    work: fn(&ControlCore, &Arc<RouterConnection>, &Frame),
) {
    let (bytes, core, of) = (frame.len(), core.clone(), connection.clone());
    let process = move || {
        // Nothing can be answered after the connection has ended.
        if !of.is_closed() {
            work(&core, &of, &frame);
        }
    };
    connection.reports.add(bytes, Box::new(process)).await;
}

/// Stores what a router reports about itself and starts its full state.
fn client_hello(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(hello) = body::<edge::ClientHello>(connection, frame) else {
        return;
    };
    let is_name = |text: &str| {
        !text.is_empty()
            && text.len() <= MAX_NAME
            && !text.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    let advertised = hello
        .listeners
        .into_iter()
        .take(MAX_LISTENERS)
        .filter_map(|listener| listener.advertise);
    let usable = advertised.filter(|at| {
        is_name(&at.protocol) && is_name(&at.hostname) && (1..=65_535).contains(&at.port)
    });
    let protocols = usable
        .map(|at| {
            (
                at.protocol.clone(),
                format!("{}://{}:{}", at.protocol, at.hostname, at.port),
            )
        })
        .collect();
    let has_data_model = frame.is_set(key::DATA_MODEL);
    connection
        .has_data_model
        .store(has_data_model, Ordering::Release);
    // Before SDKs see where it is reached.
    if core
        .online()
        .set_reads_signed(&connection.router, has_data_model)
    {
        core.unfit_tokens.notify_one();
    }
    core.registry
        .update_link(connection, core.online(), |link| {
            link.protocols = protocols;
            link.hostname = if is_name(&hello.hostname) {
                hello.hostname
            } else {
                String::new()
            };
            link.sync_status = "SYNC_QUEUED".into();
        });
    // A router introduces itself once. What follows is much work, so that it is not done for each
    // repetition.
    if !connection.is_introduced.swap(true, Ordering::AcqRel) {
        core.sync.begin(connection);
    } else if !core.sync.resync(connection) {
        return;
    }
    public_keys::send(core, connection);
    core.changed_models.add(connection);
}
