//! Routers that host and dial services themselves.

mod dials;
mod models;

use prost::Message;

use serde_json::json;

use wire::{
    control::{
        NumberedBytes, content,
        edge::CreateTerminatorResult,
        fabric::FaultSubject,
        model::{DataState, Model},
        tunnel,
    },
    frame::{Builder, Frame, content as common},
};

use super::{
    circuits::Scene,
    mock::{MockRouter, run, soon},
};

use crate::harness::fresh;

async fn services(router: &mut MockRouter, last: &[u8]) -> tunnel::ServicesList {
    router
        .send(Builder::new(content::TUNNEL_LIST_SERVICES).body(last))
        .await;
    router.receive(content::TUNNEL_SERVICES).await
}

fn hosting(service: &str, id: &str) -> tunnel::CreateTerminator {
    tunnel::CreateTerminator {
        service_name: service.into(),
        address: id.into(),
        start_time: 7,
        ..Default::default()
    }
}
