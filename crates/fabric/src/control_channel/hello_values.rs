//! What a hello of a router says, and what the answer says.

use model::entity::{RouterInfo, VersionInfo};
use prost::Message;
use wire::{
    control::{content, edge, fabric, key},
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    connection::{RouterConnection, RouterKind},
    group,
};

/// Maximum length of a version member that is stored, in characters.
const MAX_VERSION_LENGTH: usize = 64;

/// The controller's capabilities, as bits of the protocol.
mod capability {
    /// Routers send version 2 of requests for terminators.
    pub(crate) const CREATE_TERMINATOR_V2: u8 = 1 << 1;
    /// The router that has dialed a link reports it, and not the other one.
    pub(crate) const SINGLE_LINK_SOURCE: u8 = 1 << 2;
    /// Routers send version 2 of requests for circuits.
    pub(crate) const CREATE_CIRCUIT_V2: u8 = 1 << 3;
    /// Routers take public keys, and verify the tokens of sessions with them.
    pub(crate) const DATA_MODEL: u8 = 1 << 4;
    /// The tokens of sessions are JWTs. Required by routers of version 2.
    pub(crate) const JWT_SESSIONS: u8 = 1 << 6;
}

/// The capabilities offered to a router. Routers of versions 1.3 to 1.6 require the whole data
/// model once it is offered, so it is not.
pub(crate) fn capabilities(is_grouped: bool, version: &str) -> u8 {
    let mut numbers = version
        .trim_start_matches('v')
        .split('.')
        .map(|number| number.parse::<u32>().ok());
    let wants_whole_model = matches!(
        (numbers.next(), numbers.next()),
        (Some(Some(1)), Some(Some(3..=6)))
    );
    let mut all = capability::CREATE_TERMINATOR_V2
        | capability::SINGLE_LINK_SOURCE
        | capability::CREATE_CIRCUIT_V2;
    if !wants_whole_model {
        all |= capability::DATA_MODEL;
    }
    if is_grouped {
        all |= capability::JWT_SESSIONS;
    }
    all
}

pub(crate) fn body_text(hello: &Frame) -> String {
    String::from_utf8_lossy(hello.body())
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_VERSION_LENGTH)
        .collect()
}

/// Parses version, revision, build date, system and architecture.
pub(crate) fn version(text: &str) -> VersionInfo {
    let mut parts = text.split('|').map(|part| {
        part.chars()
            .filter(|c| !c.is_control())
            .take(MAX_VERSION_LENGTH)
            .collect::<String>()
    });
    let mut next = || parts.next().unwrap_or_default();
    VersionInfo {
        version: next(),
        revision: next(),
        build_date: next(),
        os: next(),
        arch: next(),
    }
}

/// The link shown on the record of a router that has just said hello.
pub(crate) fn link(
    kind: RouterKind,
    version: VersionInfo,
    listeners: &[fabric::LinkListener],
) -> RouterInfo {
    let sync_status = if kind == RouterKind::Edge {
        "SYNC_NEW"
    } else {
        "SYNC_UNKNOWN"
    };
    let listeners = listeners
        .iter()
        .map(|listener| (listener.address.clone(), listener.protocol.clone()))
        .collect();
    RouterInfo {
        sync_status: sync_status.into(),
        version,
        listeners,
        ..RouterInfo::default()
    }
}

/// Where a router accepts links. Other routers get this list, whose length is bounded by the length
/// of a hello.
pub(crate) fn listeners(hello: &Frame) -> Vec<fabric::LinkListener> {
    let key = if group::is_grouped(hello) {
        key::HELLO_LISTENERS_V2
    } else {
        key::HELLO_LISTENERS
    };
    let listeners = hello
        .header(key)
        .and_then(|listeners| fabric::Listeners::decode(listeners).ok());
    listeners.unwrap_or_default().listeners
}

/// The answer to an accepted hello. Keys above 9 differ for routers of version 2, which mark their
/// hello as one of a group of connections. They open further ones only if the answer says that they
/// may, which it does not.
pub(crate) fn answer(hello: &Frame, connection: &RouterConnection) -> Frame {
    let answer = Builder::reply(common::RESULT, hello)
        .flag(common_key::SUCCESS, true)
        .text(common_key::VERSION, &VersionInfo::of_hello())
        .text(common_key::ID, "overkeep");
    let capabilities = [capabilities(
        connection.group.is_some(),
        &connection.link.lock().version.version,
    )];
    let answer = match &connection.group {
        Some(group) => group
            .repeat(hello, answer)
            .bytes(key::CAPABILITIES_V2, &capabilities),
        None => answer
            .text(common_key::CONNECTION_ID, &connection.number.to_string())
            .bytes(key::CAPABILITIES, &capabilities),
    };
    first(answer.empty())
}

/// The first message of a connection has sequence number -1.
pub(crate) fn first(mut frame: Frame) -> Frame {
    frame.set_sequence(-1);
    frame
}

/// The message to an edge router after the hello.
pub(crate) fn server_hello() -> Frame {
    let text = wire::control::TextEntry::new;
    let hello = edge::ServerHello {
        version: VersionInfo::COMPARED.into(),
        data: vec![text("instant", "true"), text("routerModel", "true")],
    };
    Builder::new(content::SERVER_HELLO)
        .flag(key::DATA_MODEL, true)
        .body(&hello.encode_to_vec())
}
