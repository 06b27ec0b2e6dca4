//! The queries of the engine. An unknown id is not an error here: it has no rights and no related
//! subjects.

use super::{
    Engine, MatchRule, NamedRows, PolicyEntityKind, PolicyKind, Right, ServiceRights,
    policy_index::PolicyIndex, role_index::RoleIndex, roles::MatchReason,
};
use PolicyEntityKind::{EdgeRouter, Identity, PostureCheck, Service};
use model::entity::EdgeRouter as EdgeRouterRecord;
use roaring::RoaringBitmap;
use std::{collections::HashSet, sync::Arc};

/// A policy that grants a right, and its posture checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGrant {
    pub policy: Arc<str>,
    /// The ids of all posture checks that must pass, in order; empty if there are none.
    pub posture_checks: Vec<Arc<str>>,
}

/// A policy that grants a right, and why it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantReason {
    pub policy_grant: PolicyGrant,
    pub identity: RoleMatch,
    pub service: RoleMatch,
}

/// What a role list and a subject have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleMatch {
    Id,
    Everyone,
    /// All attributes of the list under AllOf; the first one found under AnyOf.
    Attributes(Vec<Arc<str>>),
}

impl Engine {
    pub fn may(&self, identity: &str, service: &str, right: Right) -> bool {
        let rows = self.row(Identity, identity).zip(self.row(Service, service));
        rows.is_some_and(|(identity, service)| {
            self.service_policies.links(
                (Identity, identity),
                (Service, service),
                self.types.granting(right),
                &self.all,
            )
        })
    }

    /// The policies that give the identity this right to the service, in order of id.
    pub fn granting(&self, identity: &str, service: &str, right: Right) -> Vec<GrantReason> {
        let rows = self.row(Identity, identity).zip(self.row(Service, service));
        let links = rows.into_iter().flat_map(|(identity, service)| {
            self.linking(identity, service, self.types.granting(right))
        });
        let mut granting: Vec<_> = links
            .filter_map(|(policy, near, far)| self.grant(policy, near, far))
            .collect();
        granting
            .sort_unstable_by(|one, other| one.policy_grant.policy.cmp(&other.policy_grant.policy));
        granting
    }

    /// Up to `limit` policies that give a right, where any one is enough; those without posture
    /// checks come first. `None` if there is no right. If no posture check exists, the list is
    /// empty, because no policy can require one.
    pub fn grants(
        &self,
        identity: &str,
        service: &str,
        right: Right,
        limit: usize,
    ) -> Option<Vec<PolicyGrant>> {
        let Some(asking) = self
            .service_policies
            .role_index(PostureCheck)
            .map(RoleIndex::listing)
            .filter(|_| self.count(PostureCheck) > 0)
        else {
            return self.may(identity, service, right).then(Vec::new);
        };
        let of_right = self.types.granting(right);
        let (free, asking) = (of_right - asking, of_right & asking);
        let grants = self
            .grants_among(identity, service, &free)
            .chain(self.grants_among(identity, service, &asking));
        let grants: Vec<PolicyGrant> = grants.take(limit).collect();
        (!grants.is_empty()).then_some(grants)
    }

    /// All policies that give the identity this right to the service, with their posture checks, in
    /// order of id.
    pub fn all_grants(&self, identity: &str, service: &str, right: Right) -> Vec<PolicyGrant> {
        let mut all: Vec<PolicyGrant> = self
            .grants_among(identity, service, self.types.granting(right))
            .collect();
        all.sort_unstable_by(|one, other| one.policy.cmp(&other.policy));
        all
    }

    /// What the identity may dial and bind, shared, so that the caller can keep it without the
    /// lock. The rows are those of `subjects(Service, ..)` until the next change.
    pub fn rights(&mut self, identity: &str) -> Arc<ServiceRights> {
        self.row(Identity, identity)
            .and_then(|row| self.rights_of(row))
            .unwrap_or_default()
    }

    /// The services that an identity with these current rights sees: those with either right, in
    /// order of id.
    pub fn visible<'r>(&self, rights: &'r ServiceRights) -> &'r [u32] {
        let in_order = || {
            let services = self.subjects(Service, rights.to(Right::Dial) | rights.to(Right::Bind));
            services.in_order().map(|(row, _)| row).collect()
        };
        rights.visible.get_or_init(in_order)
    }

    pub fn services(&mut self, identity: &str, right: Right) -> NamedRows<'_> {
        let rights = self.rights(identity);
        self.subjects(Service, rights.to(right).clone())
    }

    /// The identities that have the right to the service.
    pub fn identities(&self, service: &str, right: Right) -> NamedRows<'_> {
        let policies = self.policies_matching(PolicyKind::Service, Service, service)
            & self.types.granting(right);
        self.subjects(
            Identity,
            self.service_policies
                .members(&policies, Identity, &self.all),
        )
    }

    pub fn edge_routers_of_identity(&self, identity: &str) -> NamedRows<'_> {
        self.related(PolicyKind::EdgeRouter, Identity, identity, EdgeRouter)
    }

    pub fn edge_routers_of_service(&self, service: &str) -> NamedRows<'_> {
        self.related(PolicyKind::ServiceEdgeRouter, Service, service, EdgeRouter)
    }

    /// The edge routers over which the identity can reach the service.
    pub fn common_edge_routers(&mut self, identity: &str, service: &str) -> NamedRows<'_> {
        let common = self
            .reaches(identity, service)
            .map(|[near, far]| &*near & &*far)
            .unwrap_or_default();
        self.subjects(EdgeRouter, common)
    }

    /// The edge routers that a session offers to the identity for the service: those over which the
    /// identity can reach the service. For a service that may use the built-in router, these are
    /// the built-in router and those `linked` to it, so that every client reaches every host.
    /// `linked` is `None` while the built-in router is not connected.
    pub fn session_edge_routers(
        &mut self,
        identity: &str,
        service: &str,
        linked: Option<&HashSet<String>>,
    ) -> NamedRows<'_> {
        let [near, far] = self.reaches(identity, service).unwrap_or_default();
        let mut common = &*near & &*far;
        if let Some(linked) = linked
            && self
                .row(EdgeRouter, EdgeRouterRecord::BUILT_IN)
                .is_some_and(|row| far.contains(row))
        {
            let usable = linked
                .iter()
                .map(String::as_str)
                .chain([EdgeRouterRecord::BUILT_IN]);
            common &= usable
                .filter_map(|id| self.row(EdgeRouter, id))
                .collect::<RoaringBitmap>();
        }
        self.subjects(EdgeRouter, common)
    }

    /// The subjects that policies of a kind connect with a subject: the services of an identity
    /// (either type), the identities of an edge router, the services of an edge router.
    pub fn related(
        &self,
        kind: PolicyKind,
        from: PolicyEntityKind,
        id: &str,
        to: PolicyEntityKind,
    ) -> NamedRows<'_> {
        let policies = self.policies_matching(kind, from, id);
        self.subjects(to, self.index(kind).members(&policies, to, &self.all))
    }

    /// Whether a policy of a kind that matches a subject lists `#all` on its other side, so that it
    /// also matches future subjects there.
    pub(crate) fn reaches_everything(
        &self,
        kind: PolicyKind,
        from: PolicyEntityKind,
        id: &str,
        to: PolicyEntityKind,
    ) -> bool {
        let policies = self.policies_matching(kind, from, id);
        self.index(kind)
            .role_index(to)
            .is_some_and(|side| !side.everyone().is_disjoint(&policies))
    }

    /// The policies of a kind that match a subject.
    pub fn policies(&self, kind: PolicyKind, subject: PolicyEntityKind, id: &str) -> NamedRows<'_> {
        NamedRows::new(
            self.index(kind).names(),
            self.policies_matching(kind, subject, id),
        )
    }

    /// The subjects that one policy matches on one side.
    pub fn members(&self, kind: PolicyKind, policy: &str, side: PolicyEntityKind) -> NamedRows<'_> {
        let index = self.index(kind);
        let policy: RoaringBitmap = index.names().row(policy).into_iter().collect();
        self.subjects(side, index.members(&policy, side, &self.all))
    }

    /// The subjects that a role list of `#attribute` and `@id` matches, as in a policy; but `#all`
    /// is an ordinary attribute here.
    pub fn matching(
        &self,
        subject: PolicyEntityKind,
        semantic: MatchRule,
        roles: &[String],
    ) -> NamedRows<'_> {
        let population = self.all.population(subject);
        let carriers = |role: &String| {
            role.strip_prefix('#')
                .map(|name| population.carriers_of(name))
        };
        let by_attributes = match semantic {
            MatchRule::AllOf => roles
                .iter()
                .filter_map(carriers)
                .reduce(|all, some| all & some)
                .unwrap_or_default(),
            MatchRule::AnyOf => roles
                .iter()
                .filter_map(carriers)
                .fold(RoaringBitmap::new(), |all, some| all | some),
        };
        let by_id: RoaringBitmap = roles
            .iter()
            .filter_map(|role| population.row(role.strip_prefix('@')?))
            .collect();
        self.subjects(subject, by_attributes | by_id)
    }

    /// The role attributes that subjects of a kind carry, in order, without duplicates.
    pub fn role_attributes(&self, subject: PolicyEntityKind) -> impl Iterator<Item = &Arc<str>> {
        self.all.population(subject).attributes_in_use()
    }

    /// The number of subjects of a kind.
    pub fn count(&self, subject: PolicyEntityKind) -> usize {
        self.all.population(subject).names().len()
    }

    pub fn row(&self, subject: PolicyEntityKind, id: &str) -> Option<u32> {
        self.all.population(subject).row(id)
    }

    pub fn id(&self, subject: PolicyEntityKind, row: u32) -> Option<&Arc<str>> {
        self.all.population(subject).names().text(row)
    }

    /// The ids of rows of a kind.
    pub fn subjects(&self, subject: PolicyEntityKind, rows: RoaringBitmap) -> NamedRows<'_> {
        NamedRows::new(self.all.population(subject).names(), rows)
    }

    fn linking<'a>(
        &'a self,
        identity: u32,
        service: u32,
        among: &RoaringBitmap,
    ) -> impl Iterator<Item = (u32, MatchReason<'a>, MatchReason<'a>)> + use<'a> {
        self.service_policies
            .linking((Identity, identity), (Service, service), among, &self.all)
    }

    fn grants_among(
        &self,
        identity: &str,
        service: &str,
        among: &RoaringBitmap,
    ) -> impl Iterator<Item = PolicyGrant> {
        let rows = self.row(Identity, identity).zip(self.row(Service, service));
        let links = rows
            .into_iter()
            .flat_map(move |(identity, service)| self.linking(identity, service, among));
        links.filter_map(|(policy, ..)| self.policy_grant(policy))
    }

    fn grant(
        &self,
        policy: u32,
        near: MatchReason<'_>,
        far: MatchReason<'_>,
    ) -> Option<GrantReason> {
        let (identity, service) = (self.reason(Identity, near), self.reason(Service, far));
        Some(GrantReason {
            policy_grant: self.policy_grant(policy)?,
            identity,
            service,
        })
    }

    fn policy_grant(&self, policy: u32) -> Option<PolicyGrant> {
        Some(PolicyGrant {
            policy: self.service_policies.names().text(policy)?.clone(),
            posture_checks: self.checks(policy),
        })
    }

    /// The posture checks that a service policy requires, in order of id.
    pub(super) fn checks(&self, policy: u32) -> Vec<Arc<str>> {
        if !self
            .service_policies
            .role_index(PostureCheck)
            .is_some_and(|side| side.listing().contains(policy))
        {
            return Vec::new();
        }
        let checks = self
            .service_policies
            .members(&[policy].into(), PostureCheck, &self.all);
        self.subjects(PostureCheck, checks)
            .in_order()
            .map(|(_, id)| id.clone())
            .collect()
    }

    pub(super) fn reason(&self, subject: PolicyEntityKind, because: MatchReason<'_>) -> RoleMatch {
        let name = |attribute: &u32| {
            self.all
                .population(subject)
                .attribute_name(*attribute)
                .cloned()
        };
        match because {
            MatchReason::Id => RoleMatch::Id,
            MatchReason::Everyone => RoleMatch::Everyone,
            MatchReason::Attributes(attributes) => {
                RoleMatch::Attributes(attributes.iter().filter_map(name).collect())
            }
        }
    }

    fn policies_matching(
        &self,
        kind: PolicyKind,
        subject: PolicyEntityKind,
        id: &str,
    ) -> RoaringBitmap {
        self.row(subject, id)
            .map(|row| self.index(kind).policies_of(subject, row, &self.all))
            .unwrap_or_default()
    }

    pub(super) fn index(&self, kind: PolicyKind) -> &PolicyIndex {
        match kind {
            PolicyKind::Service => &self.service_policies,
            PolicyKind::EdgeRouter => &self.edge_router_policies,
            PolicyKind::ServiceEdgeRouter => &self.service_edge_router_policies,
        }
    }
}
