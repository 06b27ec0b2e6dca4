//! Decides whether a session grants its right at a router now, for the built-in router and for
//! routers with a control channel.

use model::{
    clock::Clock,
    entity::{ApiSession, Id, Identity, Record, Service, Session, TypedLookup},
};
use policy::{
    access::{Access, PolicyEntityKind, Right},
    authentication::Sessions,
    posture::{Posture, ServicePermission},
};
use store::Store;

use super::request_failure::{FailureReason, Refusal, RequestFailure};

/// Decides whether a session grants its right. Cheap to clone.
#[derive(Clone)]
pub struct SessionAuthorizer {
    pub store: Store,
    pub access: Access,
    pub posture: Posture,
    pub sessions: Sessions,
    pub clock: Clock,
}

/// The API session of the caller that presents a session.
#[derive(Clone, Copy)]
pub(crate) struct PresentedSession<'h> {
    pub api_session: &'h Id<ApiSession>,
    pub token: &'h str,
}

/// A granted right.
pub(crate) struct Grant {
    pub identity: Record<Identity>,
    pub service: Record<Service>,
}

impl SessionAuthorizer {
    /// What a session grants at a router now.
    ///
    /// # Errors
    /// It does not grant its right, or the store cannot be read.
    pub(crate) fn authorize(
        &self,
        presented: PresentedSession<'_>,
        session: &Record<Session>,
        right: Right,
        router: &str,
    ) -> Result<Grant, Refusal> {
        // First, because what follows counts as activity of the API session: a router must not keep
        // those of others open.
        if !self.may_use(router, session.spec.identity_id.as_str()) {
            return Err(RequestFailure::no_router().into());
        }
        let Some(caller) = self
            .sessions
            .resolve(&self.store, presented.token, self.clock.now())?
        else {
            return Err(RequestFailure::invalid_api_session().into());
        };
        // A token of an external signer is not required here: REST requests carry it, and it was
        // required for the creation of the session.
        if caller.queries.iter().any(|query| !query.is_token()) {
            return Err(RequestFailure::invalid_api_session().into());
        }
        let spec = &session.spec;
        if spec.api_session_id != *presented.api_session {
            return Err(RequestFailure::invalid_session().into());
        }
        if Right::from(spec.policy_type) != right {
            return Err(RequestFailure::wrong_type().into());
        }
        let (stands, service) = self
            .store
            .read(|tx| Ok((tx.find(&session.id)?.is_some(), tx.find(&spec.service_id)?)))?;
        if !stands {
            return Err(RequestFailure::invalid_session().into());
        }
        let Some(service) = service else {
            return Err(RequestFailure::no_service().into());
        };
        let identity = caller.identity.id.as_str();
        let permission = self.posture.permission(
            &caller.identity,
            presented.api_session,
            service.id.as_str(),
            right,
        )?;
        match permission {
            ServicePermission::Granted(_) => {}
            ServicePermission::Missing => {
                return Err(RequestFailure::not_permitted(FailureReason::Policy).into());
            }
            ServicePermission::Blocked(..) => {
                return Err(RequestFailure::not_permitted(FailureReason::Posture).into());
            }
        }
        let may_use = self.access.ask(|engine| {
            engine
                .common_edge_routers(identity, service.id.as_str())
                .contains(router)
        });
        if !may_use {
            return Err(RequestFailure::no_router().into());
        }
        Ok(Grant {
            identity: caller.identity.clone(),
            service,
        })
    }

    /// Whether an identity may use a router.
    pub(crate) fn may_use(&self, router: &str, identity: &str) -> bool {
        self.access.ask(|engine| {
            let row = engine.row(PolicyEntityKind::EdgeRouter, router);
            row.zip(engine.usable_edge_routers(identity))
                .is_some_and(|(row, usable)| usable.contains(row))
        })
    }
}
