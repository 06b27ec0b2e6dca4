//! Requests of routers that dial and host services themselves, as the identity that has the id and
//! the name of the router.

use std::sync::Arc;

use model::{
    entity::{
        ApiSession, ConfigType, EdgeRouter, EnvInfo, Id, Identity, PolicyType, Precedence, Record,
        SdkInfo, Service, Session, TypedLookup,
    },
    error::Error,
};
use parking_lot::Mutex;
use policy::{
    access::Right,
    authentication::login::{self, ClientInfo},
    change::{Change, Lifecycle},
    posture::ServicePermission,
};
use prost::Message;
use tokio::{task::spawn_blocking, time::sleep};
use wire::{
    control::{NumberedBytes, TextEntry, content, edge, fabric::TerminatorPrecedence, tunnel},
    frame::{Builder, Frame},
};

use super::{
    bind,
    connection::RouterConnection,
    control_core::ControlCore,
    dial::{self, RouterDial},
    replies::{body, error},
    sessions::FoundSession,
    tunnel_services,
    tunneler::Tunneler,
};
use crate::{
    network::{Circuit, DialAnswer, FailureReason, RequestFailure, unreadable},
    peer_lines::may_log,
};

/// The `binding` of the terminators of such a router.
pub(crate) const BINDING: &str = "tunnel";
/// The code of a refusal because a router may not do this.
const NOT_ENABLED: u32 = 7;
/// The code of a refusal because there is no such terminator.
const INVALID_TERMINATOR: u32 = 8;
/// The config types of a router that is not known to have asked for others, because it did not open
/// its API session with this connection.
const CONFIG_TYPES: [&str; 3] = ["host.v1", "host.v2", "intercept.v1"];
/// Maximum config types that a router asks for.
const MAX_CONFIG_TYPES: usize = 1000;
/// Maximum length of what a router reports about itself, in characters.
const MAX_TEXT: usize = 253;

type Answer<T> = std::result::Result<T, RequestFailure>;

/// Answers a request in a task of its own, with the body that `work` returns or with an error.
fn answer<M, W>(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    kind: i32,
    work: W,
) where
    M: Message,
    W: Future<Output = Answer<M>> + Send + 'static,
{
    let Some(request) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match work.await {
            Ok(message) => {
                connection.send(Builder::reply(kind, &frame).body(&message.encode_to_vec()))
            }
            Err(failure) => refuse(&core, &connection, &frame, &failure).await,
        }
        drop(request);
    });
}

/// Answers with an error after a pause, because routers repeat refused requests at once.
async fn refuse(
    core: &ControlCore,
    connection: &RouterConnection,
    frame: &Frame,
    failure: &RequestFailure,
) {
    tracing::debug!(router = %connection.router, reason = %failure.text, "a request of a tunneler is refused");
    sleep(core.times.refusal).await;
    connection.send(error(frame, failure.code, &failure.text));
}

/// Opens an API session of the router, or finds the one that it has.
pub(crate) fn open(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(mut asked) = body::<tunnel::CreateApiSession>(connection, &frame) else {
        return;
    };
    asked.config_types.truncate(MAX_CONFIG_TYPES);
    // Routers from version 1.4 on ask for every type; no name means the same.
    if asked.config_types.is_empty() {
        asked.config_types.push(ConfigType::ALL.into());
    }
    let (at, of) = (core.clone(), connection.clone());
    answer(
        core,
        connection,
        frame,
        content::TUNNEL_API_SESSION_RESPONSE,
        async move {
            let _opening = of.opening.lock().await;
            let (identity, api_session) = session_of_router(&at, &of, &asked).await?;
            let config_types = at
                .network
                .store()
                .read(|tx| login::config_types(tx, &asked.config_types))
                .map_err(unreadable)?;
            let opened = opened(&at, &identity, &api_session);
            of.connected
                .seen(&api_session.id, &identity.id, at.online());
            let untold = Mutex::new(None);
            *of.tunneler.lock() = Some(Arc::new(Tunneler {
                identity: identity.id,
                api_session,
                config_types,
                untold,
            }));
            Ok(opened)
        },
    );
}

async fn session_of_router(
    core: &ControlCore,
    connection: &RouterConnection,
    asked: &tunnel::CreateApiSession,
) -> Answer<(Record<Identity>, Record<ApiSession>)> {
    let (authorizer, router) = (&core.network.authorizer, connection.router.as_str());
    let (id, now) = (Id::<Identity>::from_text(router), authorizer.clock.now());
    let found = authorizer.store.read(|tx| {
        let is_enabled = tx
            .find(&Id::<EdgeRouter>::from_text(router))?
            .is_some_and(|router| router.spec.is_tunneler_enabled);
        let sessions = tx
            .linked::<ApiSession>("identity", router)?
            .into_iter()
            .filter(|session| session.spec.is_of_router());
        Ok((
            is_enabled,
            sessions.max_by_key(|session| session.created_at),
        ))
    });
    let (is_enabled, known) = found.map_err(unreadable)?;
    if !is_enabled {
        let text = "tunneling not enabled: set isTunnelerEnabled of the edge router";
        return Err(RequestFailure {
            code: NOT_ENABLED,
            ..RequestFailure::internal(text)
        });
    }
    let known = known
        .map(|session| {
            authorizer
                .sessions
                .resolve(&authorizer.store, &session.spec.token, now)
        })
        .transpose()
        .map_err(unreadable)?;
    if let Some(caller) = known.flatten() {
        return Ok((caller.identity.clone(), caller.session.clone()));
    }
    let refused =
        |error: Error| RequestFailure::internal(format!("no API session can be opened: {error}"));
    let place = authorizer.sessions.admit(&id).map_err(refused)?;
    let cut = |text: &str| {
        text.chars()
            .filter(|c| !c.is_control())
            .take(MAX_TEXT)
            .collect::<String>()
    };
    let info = ClientInfo {
        env_info: asked.env_info.as_ref().map(|info| EnvInfo {
            arch: cut(&info.arch),
            os: cut(&info.os),
            os_release: cut(&info.os_release),
            os_version: cut(&info.os_version),
            hostname: cut(&info.hostname),
            domain: cut(&info.domain),
        }),
        sdk_info: asked.sdk_info.as_ref().map(|info| SdkInfo {
            app_id: cut(&info.app_id),
            app_version: cut(&info.app_version),
            branch: cut(&info.branch),
            revision: cut(&info.revision),
            r#type: cut(&info.kind),
            version: cut(&info.version),
        }),
        config_types: asked.config_types.clone(),
        address: connection
            .address
            .map(|address| address.ip().to_string())
            .unwrap_or_default(),
    };
    let caller = login::open_for_router(&core.context.changes, id, info, place)
        .await
        .map_err(refused)?;
    Ok((caller.identity, caller.session))
}

/// The API session of the router, in answers to it.
fn opened(
    core: &ControlCore,
    identity: &Record<Identity>,
    session: &Record<ApiSession>,
) -> tunnel::CreateApiSessionResponse {
    let Identity {
        name,
        default_hosting_cost,
        default_hosting_precedence,
        ..
    } = &identity.spec;
    let (service_precedences, service_costs) = hosting(identity);
    tunnel::CreateApiSessionResponse {
        session_id: session.id.to_string(),
        token: session.spec.token.clone(),
        // A little earlier than the session ends.
        refresh_interval_seconds: u32::try_from(
            core.network
                .authorizer
                .sessions
                .timeout()
                .as_secs()
                .saturating_sub(10),
        )
        .unwrap_or(u32::MAX),
        identity_id: identity.id.to_string(),
        identity_name: name.clone(),
        default_hosting_precedence: number(*default_hosting_precedence),
        default_hosting_cost: (*default_hosting_cost).into(),
        app_data_json: app_data(identity),
        service_precedences,
        service_costs,
    }
}

/// The precedences and the costs with which an identity hosts services.
pub(crate) fn hosting(
    identity: &Record<Identity>,
) -> (Vec<tunnel::PrecedenceEntry>, Vec<tunnel::CostEntry>) {
    let (costs, precedences) = (
        &identity.spec.service_hosting_costs,
        &identity.spec.service_hosting_precedences,
    );
    let precedences = precedences
        .iter()
        .map(|(service, value)| tunnel::PrecedenceEntry {
            key: Some(service.to_string()),
            value: Some(number(*value)),
        });
    let costs = costs.iter().map(|(service, cost)| tunnel::CostEntry {
        key: Some(service.to_string()),
        value: Some((*cost).into()),
    });
    (precedences.collect(), costs.collect())
}

/// JSON, blank if there is none.
pub(crate) fn app_data(identity: &Record<Identity>) -> String {
    let data = &identity.spec.app_data;
    if data.0.is_empty() {
        String::new()
    } else {
        serde_json::to_string(data).unwrap_or_default()
    }
}

pub(crate) fn number(precedence: Precedence) -> i32 {
    match precedence {
        Precedence::Default => TerminatorPrecedence::Default.into(),
        Precedence::Required => TerminatorPrecedence::Required.into(),
        Precedence::Failed => TerminatorPrecedence::Failed.into(),
    }
}

/// Sends the services of the router if they differ from those that it knows. Counts as activity of
/// its API session.
pub(crate) fn list_services(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
) {
    let Some(request) = connection.begin_request(frame.len()) else {
        return;
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match ensure_open(&core, &connection).await {
            Ok(()) => drop(spawn_blocking(move || send_services(&core, &connection, &frame)).await),
            Err(refusal) => {
                tracing::debug!(router = %connection.router, reason = %refusal.text, "a tunneler gets no services")
            }
        }
        drop(request);
    });
}

fn send_services(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(tunneler) = connection.tunneler.lock().clone() else {
        return;
    };
    match tunnel_services::list(core, &tunneler) {
        Ok(list) if list.last_update == frame.body() => {}
        Ok(list) => {
            connection.send(Builder::new(content::TUNNEL_SERVICES).body(&list.encode_to_vec()))
        }
        Err(error) if may_log(&connection.router) => {
            tracing::warn!(router = %connection.router, %error, "the services of a tunneler cannot be listed");
        }
        Err(_) => {}
    }
}

/// Finds or opens the API session of a router that has none on this connection, or whose API
/// session has ended: a router opens it only when it starts, and may have started before the
/// controller. The router learns of it from the answer to the next dial or terminator.
///
/// # Errors
/// The router may not have one.
pub(crate) async fn ensure_open(core: &ControlCore, connection: &RouterConnection) -> Answer<()> {
    let _opening = connection.opening.lock().await;
    if keep_open(core, connection) {
        return Ok(());
    }
    let asked = tunnel::CreateApiSession {
        config_types: CONFIG_TYPES.map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let (identity, api_session) = session_of_router(core, connection, &asked).await?;
    connection
        .connected
        .seen(&api_session.id, &identity.id, core.online());
    let untold = Mutex::new(Some(opened(core, &identity, &api_session)));
    let config_types = api_session.spec.config_types.clone();
    *connection.tunneler.lock() = Some(Arc::new(Tunneler {
        identity: identity.id,
        api_session,
        config_types,
        untold,
    }));
    Ok(())
}

/// Takes the API session that a router was not told of yet, for an answer to it.
fn take_untold(connection: &RouterConnection) -> Option<tunnel::CreateApiSessionResponse> {
    let tunneler = connection.tunneler.lock().clone()?;
    tunneler.untold.lock().take()
}

/// Counts as activity of the API session of a router. Returns whether the router has one.
pub(crate) fn keep_open(core: &ControlCore, connection: &RouterConnection) -> bool {
    let tunneler = connection.tunneler.lock().clone();
    tunneler.is_some_and(|tunneler| is_valid(core, connection, &tunneler))
}

/// Counts as activity of the API session of a router, and takes the API session if it has ended.
/// Returns whether it was taken.
pub(crate) fn take_ended(core: &ControlCore, connection: &RouterConnection) -> bool {
    let Some(tunneler) = connection.tunneler.lock().clone() else {
        return false;
    };
    // Another one may be opened meanwhile.
    !is_valid(core, connection, &tunneler)
        && connection
            .tunneler
            .lock()
            .take_if(|known| Arc::ptr_eq(known, &tunneler))
            .is_some()
}

fn is_valid(core: &ControlCore, connection: &RouterConnection, tunneler: &Tunneler) -> bool {
    let authorizer = &core.network.authorizer;
    let is_valid = matches!(
        authorizer.sessions.resolve(
            &authorizer.store,
            &tunneler.api_session.spec.token,
            authorizer.clock.now()
        ),
        Ok(Some(_))
    );
    if is_valid {
        connection
            .connected
            .seen(&tunneler.api_session.id, &tunneler.identity, core.online());
    }
    is_valid
}

/// The session of the router for a service: the one that it has, or a new one.
///
/// # Errors
/// The router has no right to the service.
pub(crate) async fn session(
    core: &ControlCore,
    connection: &RouterConnection,
    service: &str,
    right: Right,
) -> Answer<FoundSession> {
    let tunneler = connection
        .tunneler
        .lock()
        .clone()
        .ok_or_else(RequestFailure::invalid_api_session)?;
    let authorizer = &core.network.authorizer;
    let api_session = tunneler.api_session.clone();
    let policy_type = if right == Right::Dial {
        PolicyType::Dial
    } else {
        PolicyType::Bind
    };
    let found = authorizer.store.read(|tx| {
        let Some(service) = tx.find_by::<Service>("name", service)? else {
            return Ok(None);
        };
        let known = tx.find_by::<Session>(
            "key",
            &Session::key(&api_session.id, &service.id, policy_type),
        )?;
        Ok(Some((service, known)))
    });
    let (service, known) = found
        .map_err(unreadable)?
        .ok_or_else(RequestFailure::no_service)?;
    if let Some(session) = known {
        return Ok(FoundSession {
            session,
            api_session,
        });
    }
    let identity = authorizer
        .store
        .read(|tx| tx.get(&tunneler.identity))
        .map_err(unreadable)?;
    let permission = authorizer
        .posture
        .permission(&identity, &api_session.id, service.id.as_str(), right)
        .map_err(unreadable)?;
    let service_policies = match permission {
        ServicePermission::Granted(policies) => policies,
        ServicePermission::Missing | ServicePermission::Blocked(..) => {
            return Err(RequestFailure::not_permitted(FailureReason::Policy));
        }
    };
    let id = Id::<Session>::from_text(Session::new_id());
    let mut session = Session {
        token: String::new(),
        api_session_id: api_session.id.clone(),
        identity_id: tunneler.identity.clone(),
        service_id: service.id,
        policy_type,
        service_policies,
    };
    let refused =
        |error: Error| RequestFailure::internal(format!("no session can be opened: {error}"));
    // Its router knows the session by the id.
    session.token = core
        .context
        .changes
        .session_token(&id, &session, false, authorizer.clock.now())
        .map_err(refused)?;
    let place = authorizer
        .sessions
        .admit_service(&tunneler.identity)
        .map_err(refused)?;
    // The slot is released when the session counts itself.
    let open = move |change: &Change<'_, '_>| {
        change
            .insert(Record::new(id, change.now(), session))
            .map(|record| (record, place))
    };
    let (session, _) = core.context.changes.run(open).await.map_err(refused)?;
    Ok(FoundSession {
        session,
        api_session,
    })
}

/// The session in every answer: the process of a router exits if the session is missing. The router
/// learns of the end of a session by the id of the session, so that the id stands for the token as
/// well.
fn session_response(session: &Record<Session>) -> Option<tunnel::CreateSessionResponse> {
    Some(tunnel::CreateSessionResponse {
        session_id: session.id.to_string(),
        token: session.id.to_string(),
    })
}

/// Creates a terminator at the router itself.
pub(crate) fn host(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(asked) = body::<tunnel::CreateTerminator>(connection, &frame) else {
        return;
    };
    let (at, of) = (core.clone(), connection.clone());
    answer(
        core,
        connection,
        frame,
        content::TUNNEL_TERMINATOR_RESPONSE,
        async move {
            let tunnel::CreateTerminator {
                service_name,
                address,
                peer_data,
                cost,
                precedence,
                start_time,
                ..
            } = asked;
            let tunnel::CreateTerminator {
                instance_id,
                instance_secret,
                ..
            } = asked;
            ensure_open(&at, &of).await?;
            let found = session(&at, &of, &service_name, Right::Bind).await?;
            let wanted = edge::CreateTerminator {
                address,
                peer_data,
                cost,
                precedence,
                instance_id,
                instance_secret,
                ..Default::default()
            };
            if let Err(refusal) = bind::host_for(&at, &of, &wanted, &found, BINDING).await {
                let failure = refusal.failure.clone();
                bind::count_refusal(&at, refusal).await;
                return Err(failure);
            }
            let (api_session, session) = (take_untold(&of), session_response(&found.session));
            Ok(tunnel::CreateTerminatorResponse {
                api_session,
                session,
                terminator_id: wanted.address,
                start_time,
            })
        },
    );
}

/// Changes cost or precedence of a terminator.
pub(crate) fn update(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(asked) = body::<tunnel::UpdateTerminator>(connection, &frame) else {
        return;
    };
    let tunnel::UpdateTerminator {
        terminator_id,
        cost,
        precedence,
        update_precedence,
        update_cost,
    } = asked;
    let wanted = edge::UpdateTerminator {
        terminator_id,
        cost,
        precedence,
        update_precedence,
        update_cost,
        ..Default::default()
    };
    bind::change(
        core,
        connection,
        frame,
        &wanted,
        content::TUNNEL_UPDATE_TERMINATOR_RESPONSE,
    );
}

/// Removes a terminator.
pub(crate) fn unhost(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let id = String::from_utf8_lossy(frame.body());
    match core
        .network
        .terminators
        .find(&id)
        .filter(|known| known.hosted.router == connection.router)
    {
        Some(hosted) => {
            core.network.end_terminator(&hosted);
            connection
                .send(Builder::reply(content::TUNNEL_REMOVE_TERMINATOR_RESPONSE, frame).empty());
        }
        None => connection.send(error(
            frame,
            INVALID_TERMINATOR,
            "invalid terminator: not found",
        )),
    }
}

/// Dials a service.
pub(crate) fn create_circuit(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
) {
    let Some(asked) = body::<tunnel::CreateCircuit>(connection, &frame) else {
        return;
    };
    dial_as(core, connection, frame, asked, DialForm::V1);
}

/// Dials a service in a task of its own, and answers in the form of the request.
pub(crate) fn dial_as(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    asked: tunnel::CreateCircuit,
    form: DialForm,
) {
    let Some(counted) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        let dialed = async {
            ensure_open(&core, &connection).await?;
            let found = session(&core, &connection, &asked.service_name, Right::Dial).await?;
            circuit(&core, &connection, &frame, asked, found, form).await
        };
        if let Err(failure) = dialed.await {
            refuse(&core, &connection, &frame, &failure).await;
        }
        drop(counted);
    });
}

/// The form of a dial and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialForm {
    V1,
    /// Of routers from version 1.7 on.
    V2,
}

/// Opens a circuit for a session of the router, and answers.
///
/// # Errors
/// The service cannot be reached.
async fn circuit(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: &Frame,
    asked: tunnel::CreateCircuit,
    found: FoundSession,
    form: DialForm,
) -> Answer<()> {
    let session = session_response(&found.session);
    let answer = |circuit: &Circuit, opened: &DialAnswer<'_>| {
        let (circuit_id, address) = (circuit.id.to_string(), opened.address.to_owned());
        let peer_data = dial::answered(opened)
            .into_iter()
            .map(|(key, value)| NumberedBytes::new(key, value))
            .collect();
        let tags = opened
            .tags
            .iter()
            .map(|(name, id)| TextEntry::new(*name, id.as_str()))
            .collect();
        let (kind, body) = match form {
            DialForm::V1 => {
                let (api_session, session) = (take_untold(connection), session.clone());
                let message = tunnel::CreateCircuitResponse {
                    api_session,
                    session,
                    circuit_id,
                    address,
                    peer_data,
                    tags,
                };
                (content::TUNNEL_CIRCUIT_RESPONSE, message.encode_to_vec())
            }
            DialForm::V2 => {
                let message = tunnel::CreateCircuitV2Response {
                    circuit_id,
                    address,
                    peer_data,
                    tags,
                };
                (content::TUNNEL_CIRCUIT_V2_RESPONSE, message.encode_to_vec())
            }
        };
        connection.send(Builder::reply(kind, frame).body(&body));
    };
    let passed_on = asked
        .peer_data
        .into_iter()
        .filter_map(|entry| Some((entry.key?, entry.value.unwrap_or_default())))
        .collect();
    let wanted = RouterDial {
        router: &connection.router,
        instance: &asked.terminator_instance_id,
        passed_on,
    };
    let circuit = dial::dial_for_session(core, found, wanted, &answer).await?;
    dial::end_unless_answered(core, connection, &circuit);
    Ok(())
}
