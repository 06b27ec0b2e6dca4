//! New certificates for a router that is connected: it asks a week before the present ones end.

use std::sync::Arc;

use model::entity::Id;
use policy::enrollment::{
    EnrollmentContext, Issued, Renewing, confirm_router, note_router_use, offer_router,
};
use prost::Message;
use wire::{
    control::{content, edge},
    frame::{Builder, Frame},
};

use super::{
    connection::{RouterConnection, RouterKind},
    control_core::ControlCore,
    replies::body,
};
use crate::peer_lines::may_log;

fn renewing(connection: &RouterConnection) -> Renewing {
    match connection.kind {
        RouterKind::Edge => Renewing::Edge(Id::from_text(connection.router.as_str())),
        RouterKind::Transit | RouterKind::BuiltIn => {
            Renewing::Transit(Id::from_text(connection.router.as_str()))
        }
    }
}

fn context<'c>(core: &'c ControlCore, connection: &RouterConnection) -> EnrollmentContext<'c> {
    let context = &core.context;
    EnrollmentContext {
        store: core.network.store(),
        changes: &context.changes,
        keystore: &context.keystore,
        passwords: &context.passwords,
        reserved: &context.reserved,
        now: core.network.now(),
        address: connection.address.map(|address| address.ip()),
    }
}

/// Issues certificates. The client certificate becomes the current one when the router confirms
/// that it arrived.
pub(crate) fn extend(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(asked) = body::<edge::ExtendEnrollment>(connection, frame) else {
        return;
    };
    let Some(request) = connection.begin_request(frame.len()) else {
        return;
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        let requests = (
            asked.client_cert_csr.as_str(),
            asked.server_cert_csr.as_str(),
        );
        let issued = offer_router(
            &context(&core, &connection),
            &renewing(&connection),
            requests,
            !asked.require_verification,
        )
        .await;
        match issued {
            Ok(Issued {
                ca,
                cert,
                server_cert,
                ..
            }) => {
                let issued = edge::EnrollmentCertificates {
                    client_cert_pem: cert.unwrap_or_default(),
                    server_cert_pem: server_cert.unwrap_or_default(),
                    ca_certs_pem: ca.unwrap_or_default(),
                };
                if may_log(&connection.router) {
                    tracing::info!(router = %connection.router, "new certificates were issued to the router");
                }
                connection.send(
                    Builder::new(content::ENROLLMENT_CERTIFICATES).body(&issued.encode_to_vec()),
                );
            }
            // The protocol has no refusal; the router asks again.
            Err(error) if may_log(&connection.router) => {
                tracing::warn!(router = %connection.router, %error, "no certificates are issued");
            }
            Err(_) => {}
        }
        drop(request);
    });
}

/// Makes a new certificate the current one.
pub(crate) fn confirm(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(shown) = body::<edge::ExtendEnrollmentVerify>(connection, &frame) else {
        return;
    };
    let Some(request) = connection.begin_request(frame.len()) else {
        return;
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        let confirmed = confirm_router(
            &context(&core, &connection),
            &renewing(&connection),
            &shown.client_cert_pem,
        )
        .await;
        let answer = match confirmed {
            Ok(()) => Vec::new(),
            Err(error) => {
                if may_log(&connection.router) {
                    tracing::warn!(router = %connection.router, %error, "a certificate is not confirmed");
                }
                let message = error.to_string();
                edge::Refusal {
                    code: "INVALID_CLIENT_CERT".into(),
                    message,
                    cause: String::new(),
                }
                .encode_to_vec()
            }
        };
        connection.send(Builder::reply(content::ERROR, &frame).body(&answer));
        drop(request);
    });
}

/// Records that a router has connected with the newer of two certificates.
pub(crate) fn used(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    fingerprint: String,
) {
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        let recorded = note_router_use(
            &context(&core, &connection),
            &renewing(&connection),
            fingerprint,
        )
        .await;
        if let Err(error) = recorded
            && may_log(&connection.router)
        {
            tracing::warn!(router = %connection.router, %error, "the use of a new certificate cannot be recorded");
        }
    });
}
