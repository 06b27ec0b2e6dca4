//! The counters and gauges of the built-in router.

use crate::{
    built_in_router::TrafficInfo,
    error::Result,
    http::{answer::Shown, call::Call},
};

/// GET /traffic
pub(crate) async fn traffic(call: Call) -> Result<Shown<TrafficInfo>> {
    Ok(Shown(call.router.traffic()))
}
