//! Policies: what they grant is derived in `access/` from what is published, so that nothing happens here.

use super::Lifecycle;
use crate::entity::{EdgeRouterPolicy, ServiceEdgeRouterPolicy, ServicePolicy};

impl Lifecycle for ServicePolicy {}
impl Lifecycle for EdgeRouterPolicy {}
impl Lifecycle for ServiceEdgeRouterPolicy {}
