//! Hosting services, and the records of terminators.

mod hosts;
mod terminators;

use std::time::{Duration, Instant};

use model::clock::Clock;

use serde_json::json;

use wire::frame::{Builder, content};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Event, Options, key, kind},
};

use crate::harness::{TestServer, fresh};
