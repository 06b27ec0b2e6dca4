//! The API session of a router that dials and hosts itself, and its sessions for services.

use std::sync::Arc;

use model::{
    entity::{
        ApiSession, EdgeRouter, EnvInfo, Id, Identity, PolicyType, Record, SdkInfo, Service,
        Session, TypedLookup,
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
use wire::control::tunnel;

use super::{
    connection::RouterConnection,
    control_core::ControlCore,
    hosting_defaults::{app_data, hosting, number},
    sessions::FoundSession,
    tunneler::Tunneler,
};
use crate::network::{FailureReason, RequestFailure, unreadable};

/// The code of a refusal because a router may not do this.
const NOT_ENABLED: u32 = 7;
/// The config types of a router that is not known to have asked for others, because it did not open
/// its API session with this connection.
const CONFIG_TYPES: [&str; 3] = ["host.v1", "host.v2", "intercept.v1"];
/// Maximum length of what a router reports about itself, in characters.
const MAX_TEXT: usize = 253;

pub(crate) type Answer<T> = std::result::Result<T, RequestFailure>;

pub(crate) async fn session_of_router(
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
pub(crate) fn opened(
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
pub(crate) fn take_untold(
    connection: &RouterConnection,
) -> Option<tunnel::CreateApiSessionResponse> {
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
pub(crate) fn session_response(session: &Record<Session>) -> Option<tunnel::CreateSessionResponse> {
    Some(tunnel::CreateSessionResponse {
        session_id: session.id.to_string(),
        token: session.id.to_string(),
    })
}
