//! Changes of terminators at the request of their router, and what a router says is still hosted.

use std::sync::Arc;

use prost::Message;
use wire::{
    control::{content, edge, fabric},
    frame::{Builder, Frame},
};

use super::{
    bind::precedence,
    connection::RouterConnection,
    control_core::ControlCore,
    replies::{Lists, body, error, result},
};
use crate::network::{LiveTerminator, Weight};

/// Maximum terminators in one validation message.
pub(crate) const VALIDATION_CHUNK: usize = 500;

/// Changes cost or precedence of a terminator.
pub(crate) fn update(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(request_body) = body::<edge::UpdateTerminator>(connection, &frame) else {
        return;
    };
    change(
        core,
        connection,
        frame,
        &request_body,
        content::UPDATE_TERMINATOR_RESPONSE,
    );
}

/// Changes cost or precedence of a terminator and answers with a message of the type `answer`.
pub(crate) fn change(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    request_body: &edge::UpdateTerminator,
    answer: i32,
) {
    let Some(request) = connection.begin_request(frame.len()) else {
        return;
    };
    let own = core
        .network
        .terminators
        .find(&request_body.terminator_id)
        .filter(|known| known.hosted.router == connection.router);
    let Some(terminator) = own else {
        return connection.send(error(&frame, 8, "invalid terminator"));
    };
    let known = terminator.weight();
    let cost = if request_body.update_cost {
        u16::try_from(request_body.cost).ok()
    } else {
        Some(known.cost)
    };
    let precedence = if request_body.update_precedence {
        precedence(request_body.precedence)
    } else {
        Some(known.precedence)
    };
    let (Some(cost), Some(precedence)) = (cost, precedence) else {
        return connection.send(error(
            &frame,
            if cost.is_none() { 10 } else { 9 },
            "invalid cost or precedence",
        ));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        core.network
            .records
            .update(
                &terminator.hosted.router,
                terminator.id().clone(),
                Weight {
                    precedence,
                    cost,
                    ..Weight::default()
                },
            )
            .await;
        connection.send(Builder::reply(answer, &frame).empty());
        drop(request);
    });
}

/// Removes terminators. Ids of other routers are acknowledged and ignored.
pub(crate) fn remove(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let Some(request_body) = Lists::of(connection, frame) else {
        return;
    };
    let own = request_body
        .texts(1)
        .filter_map(|id| core.network.terminators.find(id))
        .filter(|known| known.hosted.router == connection.router);
    for terminator in own {
        core.network.end_terminator(&terminator);
    }
    connection.send(result(frame, true, ""));
}

/// A request to validate terminators.
pub(crate) fn validation(hosted: &[Arc<LiveTerminator>]) -> Frame {
    let of = |terminator: &Arc<LiveTerminator>| fabric::Terminator {
        id: terminator.id().to_string(),
        binding: terminator.hosted.binding.into(),
        address: terminator.id().to_string(),
        marker: 1,
    };
    let validation = fabric::ValidateTerminators {
        terminators: hosted.iter().map(of).collect(),
        fix_invalid: true,
        post_create: false,
    };
    Builder::new(content::VALIDATE_TERMINATORS).body(&validation.encode_to_vec())
}

/// Handles the answer to a validation: terminators that the router does not know are removed.
pub(crate) fn validated(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let Some(answer) = Lists::of(connection, frame) else {
        return;
    };
    let is_invalid = |entry: &fabric::TerminatorStateEntry| {
        entry.value.as_ref().is_some_and(|state| !state.valid)
    };
    let invalid = answer
        .messages(1)
        .filter(is_invalid)
        .filter_map(|entry: fabric::TerminatorStateEntry| entry.key);
    let own = invalid
        .filter_map(|id| core.network.terminators.find(&id))
        .filter(|known| known.hosted.router == connection.router);
    for terminator in own {
        core.network.end_terminator(&terminator);
    }
}
