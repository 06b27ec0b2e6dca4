//! Ends sessions whose tokens are opaque and over which routers may now be used that read only
//! signed ones. Their SDKs open others, with signed tokens. It happens when a router is replaced by
//! one of a later version, or policies change.

use std::{sync::Arc, time::Duration};

use model::{
    entity::{
        EdgeRouter, EdgeRouterPolicy, Entity, Id, Identity, Service, ServiceEdgeRouterPolicy,
        Session,
    },
    error::Result,
};
use policy::{authentication::session_tokens::is_read_signed, change::Change};
use store::Event;
use tokio::time::sleep;

use super::{control_core::ControlCore, sync_queue::CHUNK};

/// Changes within this time are handled together.
const PAUSE: Duration = Duration::from_millis(500);

/// Records a committed change that may let a session be used over another router. Runs on the
/// writer's thread.
pub(crate) fn on_commit(core: &ControlCore, event: &Event) {
    let policies = [EdgeRouterPolicy::KIND, ServiceEdgeRouterPolicy::KIND];
    let has_other_roles = match (
        event.of::<Identity>(),
        event.of::<Service>(),
        event.of::<EdgeRouter>(),
    ) {
        (Some((Some(old), Some(new))), ..) => old.spec.role_attributes != new.spec.role_attributes,
        (_, Some((Some(old), Some(new))), _) => {
            old.spec.role_attributes != new.spec.role_attributes
        }
        (.., Some((Some(old), Some(new)))) => old.spec.role_attributes != new.spec.role_attributes,
        _ => false,
    };
    if (has_other_roles || policies.contains(&event.kind)) && core.online().is_any_signed() {
        core.unfit_tokens.notify_one();
    }
}

/// Ends such sessions after changes. Never ends.
pub(crate) async fn run(core: Arc<ControlCore>) {
    loop {
        core.unfit_tokens.notified().await;
        sleep(PAUSE).await;
        let reader = core.clone();
        let found = tokio::task::spawn_blocking(move || unfit(&reader)).await;
        let ended = match found {
            Ok(Ok(found)) => end(&core, found).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "sessions with tokens that routers do not read cannot be ended; it is tried again");
            core.unfit_tokens.notify_one();
            sleep(core.times.refusal).await;
        }
    }
}

fn unfit(core: &ControlCore) -> Result<Vec<Id<Session>>> {
    let (store, access) = (&core.network.store(), &core.network.authorizer.access);
    let mut unfit = Vec::new();
    store.read(|tx| {
        tx.each_readable::<Session>(|session| {
            // The tunneler of a router shows no token.
            let is_of_router = || {
                tx.find_readable(&Id::<EdgeRouter>::from_text(
                    session.spec.identity_id.as_str(),
                ))
            };
            if !Session::is_signed(&session.spec.token)
                && is_read_signed(store, access, &session.spec)
                && is_of_router()?.is_none()
            {
                unfit.push(session.id.clone());
            }
            Ok(())
        })
    })?;
    Ok(unfit)
}

async fn end(core: &ControlCore, unfit: Vec<Id<Session>>) -> Result<()> {
    for some in unfit.chunks(CHUNK) {
        let some = some.to_vec();
        let delete = move |change: &Change<'_, '_>| {
            for id in &some {
                change
                    .read()
                    .find_readable(id)?
                    .map_or(Ok(()), |session| change.delete_record(session))?;
            }
            Ok(())
        };
        core.context.changes.run(delete).await?;
    }
    Ok(())
}
