//! Services: what goes with one is said by references in `entity/`.

use super::Lifecycle;
use crate::entity::Service;

impl Lifecycle for Service {}
