//! The counters and gauges of the built-in router.

use crate::{
    error::Result,
    http::{answer::Shown, call::Call},
    network::TrafficInfo,
};

/// GET /traffic
pub(crate) async fn traffic(call: Call) -> Result<Shown<TrafficInfo>> {
    Ok(Shown(call.router.traffic()))
}
