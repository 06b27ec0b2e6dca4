//! The engine's state and the changes to it. Queries are in `engine_queries.rs`.

use super::{
    Policy, PolicyEntityKind, PolicyKind, ServiceRights,
    observer::Observers,
    policy_index::{PolicyIndex, Populations},
    rights::{Evaluated, Types},
};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Who may use what. Single-threaded: the caller keeps it behind one lock that is held briefly.
///
/// Loading uses the same calls. Any order gives the same state; subjects before policies, ordered
/// by id, is fastest. Times are milliseconds since 1970 and only used for `lastChangeAt`.
pub struct Engine {
    pub(super) all: Populations,
    pub(super) service_policies: PolicyIndex,
    pub(super) edge_router_policies: PolicyIndex,
    pub(super) service_edge_router_policies: PolicyIndex,
    pub(super) types: Types,
    evaluated: Evaluated,
    watch: Observers,
    /// The number of changes so far.
    pub(super) generation: u64,
}

impl Default for Engine {
    fn default() -> Self {
        use PolicyEntityKind::{EdgeRouter, Identity, PostureCheck, Service};
        Engine {
            all: Populations::default(),
            service_policies: PolicyIndex::new(&[Identity, Service, PostureCheck]),
            edge_router_policies: PolicyIndex::new(&[Identity, EdgeRouter]),
            service_edge_router_policies: PolicyIndex::new(&[Service, EdgeRouter]),
            types: Types::default(),
            evaluated: Evaluated::default(),
            watch: Observers::default(),
            generation: 0,
        }
    }
}

impl Engine {
    pub fn new() -> Self {
        Self::default()
    }

    /// A subject was created, or its role attributes may have changed.
    pub fn put_subject(
        &mut self,
        subject: PolicyEntityKind,
        id: &str,
        role_attributes: &[String],
        now: u64,
    ) {
        self.generation += 1;
        let before = self.policies_giving(subject, id);
        let (row, changed) = self.all.population_mut(subject).put(id, role_attributes);
        if !changed {
            return;
        }
        match subject {
            PolicyEntityKind::Identity => self.watch.roles_changed(row, now),
            PolicyEntityKind::EdgeRouter => self.evaluated.forget_reaches(),
            PolicyEntityKind::Service | PolicyEntityKind::PostureCheck => {
                if self.policies_giving(subject, id) != before {
                    self.rights_changed(now);
                }
            }
        }
    }

    pub fn remove_subject(&mut self, subject: PolicyEntityKind, id: &str, now: u64) {
        self.generation += 1;
        let before = self.policies_giving(subject, id);
        let Some(row) = self.all.population_mut(subject).remove(id) else {
            return;
        };
        self.watch.forget_subject((subject, row));
        match subject {
            PolicyEntityKind::Identity => self.watch.forget(row),
            PolicyEntityKind::EdgeRouter => self.evaluated.forget_reaches(),
            PolicyEntityKind::Service | PolicyEntityKind::PostureCheck => {
                if !before.is_empty() {
                    self.rights_changed(now);
                }
            }
        }
    }

    /// A policy was created or may have changed. A policy with the same content, under a new name
    /// for instance, changes nothing.
    pub fn put_policy(&mut self, id: &str, policy: &Policy, now: u64) {
        self.generation += 1;
        if self.write(id, policy) {
            self.policies_changed(policy.kind, now);
        }
    }

    pub fn remove_policy(&mut self, kind: PolicyKind, id: &str, now: u64) {
        self.generation += 1;
        if self.erase(kind, id) {
            self.policies_changed(kind, now);
        }
    }

    /// Stores a policy without informing observers. Returns whether it changed.
    pub(super) fn write(&mut self, id: &str, policy: &Policy) -> bool {
        let (index, all) = self.index_mut(policy.kind);
        let (row, changed) = index.put(id, policy.semantic, &policy.lists, all);
        let turned = policy.right.is_some_and(|right| self.types.set(row, right));
        changed || turned
    }

    /// Removes a policy without informing observers. Returns whether it existed.
    pub(super) fn erase(&mut self, kind: PolicyKind, id: &str) -> bool {
        let (index, all) = self.index_mut(kind);
        let Some(row) = index.remove(id, all) else {
            return false;
        };
        if kind == PolicyKind::Service {
            self.types.clear(row);
        }
        true
    }

    /// A service, or a config of it, changed in a way that identities with access to it see.
    pub fn service_changed(&mut self, id: &str, now: u64) {
        self.subject_changed(PolicyEntityKind::Service, id, now);
    }

    /// A posture check has other requirements.
    pub fn posture_check_changed(&mut self, id: &str, now: u64) {
        self.subject_changed(PolicyEntityKind::PostureCheck, id, now);
    }

    /// Something else that the identity sees changed: a config override, or what its endpoint
    /// reported.
    pub fn identity_changed(&mut self, id: &str, now: u64) {
        if let Some(row) = self.all.population(PolicyEntityKind::Identity).row(id) {
            self.rights_of(row);
            self.watch.move_to(row, now);
        }
    }

    /// When the services and rights of the identity last changed, in milliseconds. If no change is
    /// known, `otherwise`: the start of its API session, or of the controller if later. The result
    /// after a change is later than every earlier result for this identity.
    pub fn last_change_at(&mut self, identity: &str, otherwise: u64) -> u64 {
        let Some(row) = self
            .all
            .population(PolicyEntityKind::Identity)
            .row(identity)
        else {
            return otherwise;
        };
        if !self.watch.is_current(row) {
            self.rights_of(row);
        }
        self.watch.last_change(row, otherwise)
    }

    /// The rights of an identity; the observer records that it saw them. All rights are read
    /// through this function.
    pub(super) fn rights_of(&mut self, identity: u32) -> Option<Arc<ServiceRights>> {
        let rights = self.evaluated.service_rights(
            identity,
            &self.service_policies,
            &self.types,
            &self.all,
        )?;
        self.watch.update(identity, &rights);
        Some(rights)
    }

    /// The rows of the edge routers that the identity may use, shared by identities with the same
    /// roles.
    pub fn usable_edge_routers(&mut self, identity: &str) -> Option<Arc<RoaringBitmap>> {
        let (known, all) = (&mut self.evaluated, &self.all);
        let row = all.population(PolicyEntityKind::Identity).row(identity)?;
        known.reach(
            PolicyEntityKind::Identity,
            row,
            &self.edge_router_policies,
            all,
        )
    }

    /// The edge routers that the identity may use, and those over which the service may be reached.
    pub(super) fn reaches(
        &mut self,
        identity: &str,
        service: &str,
    ) -> Option<[Arc<RoaringBitmap>; 2]> {
        let near = self.usable_edge_routers(identity)?;
        let (known, all) = (&mut self.evaluated, &self.all);
        let row = all.population(PolicyEntityKind::Service).row(service)?;
        let far = known.reach(
            PolicyEntityKind::Service,
            row,
            &self.service_edge_router_policies,
            all,
        )?;
        Some([near, far])
    }

    fn subject_changed(&mut self, subject: PolicyEntityKind, id: &str, now: u64) {
        if let Some(row) = self.all.population(subject).row(id) {
            self.watch.subject_changed((subject, row), now);
        }
    }

    /// Drops all cached results.
    pub(super) fn forget_evaluated(&mut self) {
        self.evaluated.forget_rights();
        self.evaluated.forget_reaches();
    }

    fn index_mut(&mut self, kind: PolicyKind) -> (&mut PolicyIndex, &mut Populations) {
        let index = match kind {
            PolicyKind::Service => &mut self.service_policies,
            PolicyKind::EdgeRouter => &mut self.edge_router_policies,
            PolicyKind::ServiceEdgeRouter => &mut self.service_edge_router_policies,
        };
        (index, &mut self.all)
    }

    /// Drops the cached results that depend on policies of a kind.
    fn policies_changed(&mut self, kind: PolicyKind, now: u64) {
        match kind {
            PolicyKind::Service => self.rights_changed(now),
            PolicyKind::EdgeRouter | PolicyKind::ServiceEdgeRouter => {
                self.evaluated.forget_reaches()
            }
        }
    }

    fn rights_changed(&mut self, now: u64) {
        self.evaluated.forget_rights();
        self.watch.rights_changed(now);
    }

    /// The service policies through which a service or posture check belongs to the rights of
    /// identities.
    fn policies_giving(&self, subject: PolicyEntityKind, id: &str) -> RoaringBitmap {
        let of = |row| self.service_policies.policies_of(subject, row, &self.all);
        match subject {
            PolicyEntityKind::Service | PolicyEntityKind::PostureCheck => {
                self.row(subject, id).map(of).unwrap_or_default()
            }
            PolicyEntityKind::Identity | PolicyEntityKind::EdgeRouter => RoaringBitmap::new(),
        }
    }
}
