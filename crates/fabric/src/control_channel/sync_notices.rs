//! What a committed change means to edge routers, recorded on the thread of the writer.

use model::entity::{
    ApiSession, AuthPolicy, Authenticator, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Record,
    Session, SessionCertificate,
};
use store::Event;

use super::{
    control_core::ControlCore,
    sync_queue::{EndedSession, Notice},
};

/// Records what a committed change means to routers. While none is connected, little is recorded: a
/// router gets a full state when it connects.
pub(crate) fn on_commit(core: &ControlCore, event: &Event) {
    let has_earlier_ended = match event.of::<Session>() {
        Some((Some(old), None)) => core.earlier.session_ended(old),
        // The sessions of an API session end in such numbers with it, and routers are told of that.
        _ if event.kind == Session::KIND
            && event
                .tombstone
                .as_ref()
                .is_some_and(|tombstone| tombstone.field != "apiSession") =>
        {
            core.earlier.some_ended()
        }
        _ => false,
    };
    if core.registry.is_empty() {
        return;
    }
    let sync = &core.sync;
    if has_earlier_ended {
        sync.record(Notice::EarlierEnded);
    }
    if event.tombstone.is_some() {
        // The event does not name the records when very many end at once.
        if event.kind == ApiSession::KIND || event.kind == SessionCertificate::KIND {
            sync.record(Notice::Everything);
        }
        return;
    }
    if let Some((old, new)) = event.of::<ApiSession>() {
        let is_same = old
            .zip(new)
            .is_some_and(|(old, new)| old.spec.is_mfa_complete == new.spec.is_mfa_complete);
        if let (Some(old), None) = (old, new) {
            core.registry
                .each(|connection| connection.connected.ended(&old.id, core.online()));
        }
        if let Some(session) = new.or(old).filter(|_| !is_same) {
            sync.record(Notice::ApiSessions(vec![session.id.clone()]));
        }
    }
    if let Some((Some(old), None)) = event.of::<Session>() {
        sync.record(Notice::SessionsEnded(vec![EndedSession::of(old)]));
    }
    if let Some((old, new)) = event.of::<SessionCertificate>()
        && let Some(certificate) = new.or(old)
    {
        sync.record(Notice::ApiSessions(vec![
            certificate.spec.api_session_id.clone(),
        ]))
    }
    if let Some((old, new)) = event.of::<Authenticator>() {
        let fingerprints = |record: Option<&Record<Authenticator>>| {
            let of_record = record
                .into_iter()
                .flat_map(|record| record.spec.credential.fingerprints().map(String::from));
            of_record.collect::<Vec<_>>()
        };
        if fingerprints(old) != fingerprints(new)
            && let Some(record) = new.or(old)
        {
            sync.record(Notice::OfIdentity(record.spec.identity_id.clone()))
        }
    }
    if let Some((Some(old), Some(new))) = event.of::<Identity>()
        && (old.spec.role_attributes != new.spec.role_attributes
            || old.spec.auth_policy() != new.spec.auth_policy())
    {
        sync.record(Notice::OfIdentity(new.id.clone()));
    }
    let is_other_router = event.of::<EdgeRouter>().is_some_and(|(old, new)| {
        old.zip(new)
            .is_some_and(|(old, new)| old.spec.role_attributes != new.spec.role_attributes)
    });
    if is_other_router || event.kind == EdgeRouterPolicy::KIND {
        sync.record(Notice::Rights);
    }
    // Whether a second factor is outstanding depends on it.
    if event.kind == AuthPolicy::KIND && event.old.is_some() {
        sync.record(Notice::Everything);
    }
}
