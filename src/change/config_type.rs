//! Config types: their rules are all in `entity/`.

use super::Lifecycle;
use crate::entity::ConfigType;

impl Lifecycle for ConfigType {}
