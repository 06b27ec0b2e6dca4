//! The rights that an identity has to a service.

use model::entity::PolicyType;
use policy::access::{PolicyGrant, Right, ServiceRights};

/// The rights that an identity has to a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct HeldRights {
    bind: bool,
    dial: bool,
}

/// The rights that an identity has to a service, and if posture checks exist the policies that
/// grant them.
#[derive(Default)]
pub(super) struct Held {
    pub(super) rights: HeldRights,
    pub(super) grants: Vec<(PolicyType, PolicyGrant)>,
}

impl HeldRights {
    pub(super) fn of(rights: &ServiceRights, row: u32) -> Self {
        Self {
            bind: rights.to(Right::Bind).contains(row),
            dial: rights.to(Right::Dial).contains(row),
        }
    }

    pub(super) fn permissions(self) -> Vec<PolicyType> {
        let held = [(self.bind, PolicyType::Bind), (self.dial, PolicyType::Dial)];
        let held: Vec<_> = held
            .into_iter()
            .filter(|(may, _)| *may)
            .map(|(_, right)| right)
            .collect();
        if held.is_empty() {
            vec![PolicyType::Invalid]
        } else {
            held
        }
    }
}
