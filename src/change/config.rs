//! Configs: their rules are all in `entity/`.

use super::Lifecycle;
use crate::entity::Config;

impl Lifecycle for Config {}
