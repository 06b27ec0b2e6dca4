//! Config types and configs: their rules are all in `entity/`.

use super::Lifecycle;
use crate::entity::{Config, ConfigType};

impl Lifecycle for ConfigType {}
impl Lifecycle for Config {}
