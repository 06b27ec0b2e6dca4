//! The cluster of controllers, as operator tools show it. This controller is the only member.

use model::{entity::VersionInfo, error::Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{answer::Data, call::Call};

/// A controller of the cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClusterMember")]
pub(crate) struct ClusterMember {
    /// Its id in the cluster.
    id: &'static str,
    /// The address at which routers and clients reach it, as `tls:host:port`.
    address: String,
    /// Whether it has a vote.
    voter: bool,
    /// Whether it leads the cluster.
    leader: bool,
    /// The version that `GET /version` reports.
    version: &'static str,
    /// Whether this controller has a connection to it.
    connected: bool,
    /// Whether it refuses changes because the members differ.
    read_only: bool,
    /// Whether it leads the cluster whenever it can.
    preferred_leader: bool,
}

/// GET /cluster/list-members
pub(crate) async fn members(call: Call) -> Result<Data<Vec<ClusterMember>>> {
    let only = ClusterMember {
        id: "overkeep",
        address: format!("tls:{}", call.state.instance.address),
        voter: true,
        leader: true,
        version: VersionInfo::COMPARED,
        connected: true,
        read_only: false,
        preferred_leader: false,
    };
    Ok(Data(vec![only]))
}
