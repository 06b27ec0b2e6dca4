//! The counters and gauges of the built-in router.

use fabric::built_in_router::TrafficInfo;
use model::error::Result;

use crate::{answer::Data, call::Call};

/// GET /traffic
pub(crate) async fn traffic(call: Call) -> Result<Data<TrafficInfo>> {
    Ok(Data(call.state.network.router.traffic()))
}
