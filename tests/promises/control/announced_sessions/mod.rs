//! Routers learn only of API sessions that an SDK can show to them, and act only for identities
//! that may use them.

mod changes;
mod users;

use std::time::Duration;

use prost::Message;

use serde_json::{Value as Json, json};

use wire::{
    control::{content, edge},
    frame::{Builder, Frame, content as common},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, bind_request, run, server, soon},
};

use crate::{
    harness::{Base, Caller, Key, TestServer, fresh},
    router::scene::Member,
};

/// What a router was sent up to now.
async fn sent_to(router: &mut MockRouter) -> Vec<Frame> {
    // Routers are told by tasks of their own.
    tokio::time::sleep(Duration::from_millis(300)).await;
    router.rest().await
}

fn mention(frames: &[Frame], text: &str) -> bool {
    frames.iter().any(|frame| {
        frame
            .as_bytes()
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

/// The tokens of the API sessions that it learns of next.
async fn added(router: &mut MockRouter) -> Vec<String> {
    router
        .gained()
        .await
        .into_iter()
        .map(|session| session.token)
        .collect()
}

async fn removed(router: &mut MockRouter) -> Vec<String> {
    router
        .receive::<edge::Removed>(content::API_SESSION_REMOVED)
        .await
        .tokens
}

fn router_policy(server: &TestServer, identity_roles: &str, router_roles: &str) -> String {
    let roles = json!({ "name": fresh("policy"), "semantic": "AnyOf", "identityRoles": [identity_roles], "edgeRouterRoles": [router_roles] });
    server
        .admin
        .post("/edge-router-policies", roles)
        .expect(201)
        .id()
}
