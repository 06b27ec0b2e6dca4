//! The built-in router as a peer of the others: they are told of it and dial links to it, and it is
//! told of them.

use std::sync::Arc;

use model::entity::{EdgeRouter, RouterInfo, VersionInfo};
use tokio::runtime;
use wire::{
    control::{
        content,
        fabric::{self, PeerState},
    },
    frame::Frame,
};

use super::{
    connection::{ConnectionParameters, RouterConnection, RouterKind},
    control_core::ControlCore,
    replies::decoded,
};

/// Makes the built-in router a peer of the others, which are told to dial links to `address`. Its
/// task runs on `handle`.
pub(crate) fn join(core: &Arc<ControlCore>, address: &str, handle: &runtime::Handle) {
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
        // The router itself knows its weight.
        weight: (0, false),
    }));
    core.registry.admit(&connection);
    let core = Arc::downgrade(core);
    handle.spawn(async move {
        while let Some(frame) = connection.outbox.next().await {
            let Some(core) = core.upgrade() else { return };
            if frame.content_type() == content::PEER_STATE_CHANGES {
                take_changes(&core, &connection, &frame);
            }
        }
    });
}

/// Closes the links of routers that are gone.
fn take_changes(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let changes = decoded::<fabric::PeerStateChanges>(connection, frame)
        .unwrap_or_default()
        .changes;
    // Links of a router that is only disconnected stay.
    for left in changes
        .iter()
        .filter(|change| change.state() != PeerState::Healthy)
    {
        let may_connect = matches!(core.network.enrolled(&left.id), Ok(Some(_)) | Err(_));
        let router = core.network.routers.find(&connection.router);
        if let Some(router) = router.filter(|_| !may_connect || left.state() == PeerState::Removed)
        {
            router.close_links_of(&left.id);
        }
    }
}
