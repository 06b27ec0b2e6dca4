//! The last hour, in steps.

use model::error::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    answer::Data,
    call::Call,
    last_hour::{STEP, TrafficSample},
};

/// The last hour, or what of it this process has seen.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LastHour")]
pub(crate) struct View {
    /// The length of a step in seconds.
    step_seconds: u64,
    /// The steps, the oldest first.
    steps: Vec<TrafficSample>,
}

/// GET /last-hour
pub(crate) async fn show(call: Call) -> Result<Data<View>> {
    Ok(Data(View {
        step_seconds: STEP.as_secs(),
        steps: call.state.network.last_hour.steps(),
    }))
}
