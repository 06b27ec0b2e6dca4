//! From a Connect message to a connection, or to a refusal with its reason.

mod hosts;
mod messages;

use serde_json::json;

use wire::frame::{Builder, content, key as common};

use super::{
    scene::{Member, Scene, run},
    sdk::{Event, Host, Options, Refused, Sdk, encryption::Keys, key, kind},
};

use crate::harness::{TestServer, fresh};

/// The refusal of a dial.
async fn refused(sdk: &Sdk, token: &str) -> Refused {
    sdk.dial(token).await.err().unwrap()
}
