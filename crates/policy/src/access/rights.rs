//! What an identity may dial and bind, and which edge routers an identity or service reaches,
//! evaluated once per class.

use super::{
    PolicyEntityKind, Right,
    policy_index::{PolicyIndex, Populations, SubjectClass},
};
use roaring::RoaringBitmap;
use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, OnceLock},
};

/// The services an identity may dial and bind, as rows of services; valid until the next change of
/// the engine.
#[derive(Debug, Default)]
pub struct ServiceRights {
    dial: RoaringBitmap,
    bind: RoaringBitmap,
    posture_checks: RoaringBitmap,
    fingerprint: u64,
    /// Services with either right in order of id, computed on first use, because clients page
    /// through thousands.
    pub(super) visible: OnceLock<Box<[u32]>>,
}

impl ServiceRights {
    pub fn to(&self, right: Right) -> &RoaringBitmap {
        match right {
            Right::Dial => &self.dial,
            Right::Bind => &self.bind,
        }
    }

    /// Changes exactly when the identity's access does: the services it may dial and bind, each
    /// with its alternative sets of posture checks. A second policy that grants the same with the
    /// same checks changes nothing.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether a service, or a posture check of a policy that grants something, is visible to the
    /// identity.
    pub(super) fn shows(&self, subject: PolicyEntityKind, row: u32) -> bool {
        match subject {
            PolicyEntityKind::Service => self.dial.contains(row) || self.bind.contains(row),
            PolicyEntityKind::PostureCheck => self.posture_checks.contains(row),
            PolicyEntityKind::Identity | PolicyEntityKind::EdgeRouter => false,
        }
    }
}

/// The type of each service policy.
#[derive(Default)]
pub(super) struct Types {
    dial: RoaringBitmap,
    bind: RoaringBitmap,
}

impl Types {
    pub(crate) fn granting(&self, right: Right) -> &RoaringBitmap {
        match right {
            Right::Dial => &self.dial,
            Right::Bind => &self.bind,
        }
    }

    /// Returns whether the type changed.
    pub(crate) fn set(&mut self, policy: u32, right: Right) -> bool {
        let (to, from) = match right {
            Right::Dial => (&mut self.dial, &mut self.bind),
            Right::Bind => (&mut self.bind, &mut self.dial),
        };
        from.remove(policy);
        to.insert(policy)
    }

    /// The type of a service policy.
    pub(crate) fn right(&self, policy: u32) -> Option<Right> {
        [Right::Dial, Right::Bind]
            .into_iter()
            .find(|right| self.granting(*right).contains(policy))
    }

    pub(crate) fn clear(&mut self, policy: u32) {
        self.dial.remove(policy);
        self.bind.remove(policy);
    }
}

/// The greatest number of cached classes, so that memory does not grow with the number of
/// identities that ask.
const CLASSES: usize = 512;

/// Cached results. A change that affects more than one identity or service clears the whole cache:
/// evaluating again costs about as much as finding out which entries are still valid.
#[derive(Default)]
pub(super) struct Evaluated {
    rights: BoundedCache<SubjectClass, ServiceRights>,
    reaches: BoundedCache<(PolicyEntityKind, SubjectClass), RoaringBitmap>,
    hasher: RandomState,
}

/// Cached results by key.
struct BoundedCache<K, V>(HashMap<K, Arc<V>>);

impl<K, V> Default for BoundedCache<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, V> BoundedCache<K, V> {
    fn find(&self, key: &K) -> Option<Arc<V>> {
        self.0.get(key).cloned()
    }

    fn keep(&mut self, key: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        if self.0.len() >= CLASSES {
            self.0.clear();
        }
        self.0.insert(key, value.clone());
        value
    }
}

impl Evaluated {
    pub(crate) fn forget_rights(&mut self) {
        self.rights.0.clear();
    }

    pub(crate) fn forget_reaches(&mut self) {
        self.reaches.0.clear();
    }

    /// The edge routers that policies of a kind connect with an identity or a service.
    pub(crate) fn reach(
        &mut self,
        subject: PolicyEntityKind,
        row: u32,
        policies: &PolicyIndex,
        all: &Populations,
    ) -> Option<Arc<RoaringBitmap>> {
        let class = (subject, policies.class(subject, row, all)?);
        self.reaches.find(&class).or_else(|| {
            let routers = policies.members(
                &policies.policies_of(subject, row, all),
                PolicyEntityKind::EdgeRouter,
                all,
            );
            Some(self.reaches.keep(class, routers))
        })
    }

    pub(crate) fn service_rights(
        &mut self,
        identity: u32,
        policies: &PolicyIndex,
        types: &Types,
        all: &Populations,
    ) -> Option<Arc<ServiceRights>> {
        let class = policies.class(PolicyEntityKind::Identity, identity, all)?;
        self.rights.find(&class).or_else(|| {
            let rights = self.evaluate(identity, policies, types, all);
            Some(self.rights.keep(class, rights))
        })
    }

    fn evaluate(
        &self,
        identity: u32,
        policies: &PolicyIndex,
        types: &Types,
        all: &Populations,
    ) -> ServiceRights {
        let mut rights = ServiceRights::default();
        for ((right, checks), alike) in alternatives(identity, policies, types, all) {
            let services = policies.members(&alike, PolicyEntityKind::Service, all);
            if services.is_empty() {
                continue;
            }
            let checks: RoaringBitmap = checks.into_iter().collect();
            let under = all
                .population(PolicyEntityKind::PostureCheck)
                .fingerprint(&checks);
            let what = all
                .population(PolicyEntityKind::Service)
                .fingerprint(&services);
            rights.fingerprint = rights
                .fingerprint
                .wrapping_add(self.hasher.hash_one((right, under, what)));
            rights.posture_checks |= checks;
            match right {
                Right::Dial => rights.dial |= services,
                Right::Bind => rights.bind |= services,
            }
        }
        rights.dial.optimize();
        rights.bind.optimize();
        rights
    }
}

/// The identity's policies, grouped by type and set of posture checks. Most have no checks; they
/// are split off at once.
fn alternatives(
    identity: u32,
    policies: &PolicyIndex,
    types: &Types,
    all: &Populations,
) -> BTreeMap<(Right, Vec<u32>), RoaringBitmap> {
    let mine = policies.policies_of(PolicyEntityKind::Identity, identity, all);
    let asking = policies
        .role_index(PolicyEntityKind::PostureCheck)
        .map(|side| side.listing().clone())
        .unwrap_or_default();
    let mut alternatives = BTreeMap::<_, RoaringBitmap>::new();
    for right in [Right::Dial, Right::Bind] {
        let mine = &mine & types.granting(right);
        for policy in &mine & &asking {
            let checks = policies.members(&[policy].into(), PolicyEntityKind::PostureCheck, all);
            alternatives
                .entry((right, checks.iter().collect()))
                .or_default()
                .insert(policy);
        }
        *alternatives.entry((right, Vec::new())).or_default() |= mine - &asking;
    }
    alternatives
}
