//! The edge router inside the controller: what SDKs are promised on their channels.

mod relay;
mod scene;
#[path = "../../sdk/mod.rs"]
mod sdk;
