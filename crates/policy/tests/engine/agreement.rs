//! Every question that an engine answers, asked of the model as well.

use std::{collections::BTreeSet, sync::Arc};

use policy::access::{
    Engine, GrantReason,
    PolicyEntityKind::{self, EdgeRouter, Identity, PostureCheck, Service},
    PolicyGrant, PolicyKind,
};

use crate::{
    histories::policy,
    rules::{Model, RIGHTS, words},
};

pub const SUBJECTS: [PolicyEntityKind; 4] = [Identity, Service, EdgeRouter, PostureCheck];
pub const KINDS: [PolicyKind; 3] = [
    PolicyKind::Service,
    PolicyKind::EdgeRouter,
    PolicyKind::ServiceEdgeRouter,
];

pub fn set<'a>(named: impl Iterator<Item = &'a Arc<str>>) -> BTreeSet<String> {
    named.map(ToString::to_string).collect()
}

pub fn agree(engine: &mut Engine, model: &Model) {
    let ids: Vec<String> = (0..5)
        .map(|n| format!("x{n}"))
        .chain(words("ghost"))
        .collect();
    for id in &ids {
        services_agree(engine, model, id, &ids);
        for other in &ids {
            rights_agree(engine, model, id, other);
        }
        for kind in KINDS {
            policies_agree(engine, model, kind, id);
        }
    }
    for subject in SUBJECTS {
        let attributes: Vec<_> = engine
            .role_attributes(subject)
            .map(ToString::to_string)
            .collect();
        let all = model
            .subjects
            .iter()
            .filter(|((of, _), _)| *of == subject)
            .flat_map(|(_, roles)| roles.clone());
        assert_eq!(
            attributes,
            all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        );
        assert_eq!(engine.count(subject), model.ids(subject).count());
    }
}

pub fn services_agree(engine: &mut Engine, model: &Model, identity: &str, ids: &[String]) {
    for right in RIGHTS {
        let expected: BTreeSet<String> = ids
            .iter()
            .filter(|id| !model.granting(identity, id, right).is_empty())
            .cloned()
            .collect();
        let services = engine.services(identity, right);
        assert_eq!(set(services.ids()), expected);
        assert_eq!(services.len(), expected.len());
        let ordered: Vec<_> = services.in_order().map(|(_, id)| id.to_string()).collect();
        assert_eq!(ordered, expected.into_iter().collect::<Vec<_>>());
    }
    let either = |id: &&String| {
        RIGHTS
            .into_iter()
            .any(|right| !model.granting(identity, id, right).is_empty())
    };
    let expected: BTreeSet<&String> = ids.iter().filter(either).collect();
    let rights = engine.rights(identity);
    let visible = engine
        .visible(&rights)
        .iter()
        .map(|row| engine.id(Service, *row).unwrap().to_string());
    assert_eq!(
        visible.collect::<Vec<_>>(),
        expected.into_iter().cloned().collect::<Vec<_>>()
    );
}

pub fn rights_agree(engine: &mut Engine, model: &Model, identity: &str, service: &str) {
    for right in RIGHTS {
        let expected = model.granting(identity, service, right);
        assert_eq!(engine.may(identity, service, right), !expected.is_empty());
        assert_eq!(
            engine.identities(service, right).contains(identity),
            !expected.is_empty()
        );
        let granting = engine.granting(identity, service, right);
        assert_eq!(
            set(granting
                .iter()
                .map(|granting| &granting.policy_grant.policy)),
            expected
        );
        for GrantReason { policy_grant, .. } in &granting {
            assert_eq!(
                set(policy_grant.posture_checks.iter()),
                model.members(PolicyKind::Service, &policy_grant.policy, PostureCheck)
            );
        }
        let all: Vec<PolicyGrant> = granting
            .into_iter()
            .map(|granting| granting.policy_grant)
            .collect();
        assert_eq!(engine.all_grants(identity, service, right), all);
        let judged = (!all.is_empty()).then(|| {
            if engine.count(PostureCheck) > 0 {
                all
            } else {
                Vec::new()
            }
        });
        assert_eq!(
            engine
                .grants(identity, service, right, usize::MAX)
                .map(in_order),
            judged
        );
    }
    routers_agree(engine, model, identity, service);
}

pub fn in_order(mut grants: Vec<PolicyGrant>) -> Vec<PolicyGrant> {
    grants.sort_by(|one, other| one.policy.cmp(&other.policy));
    grants
}

pub fn routers_agree(engine: &mut Engine, model: &Model, identity: &str, service: &str) {
    let near = model.related(PolicyKind::EdgeRouter, Identity, identity, EdgeRouter);
    let far = model.related(PolicyKind::ServiceEdgeRouter, Service, service, EdgeRouter);
    assert_eq!(set(engine.edge_routers_of_identity(identity).ids()), near);
    assert_eq!(set(engine.edge_routers_of_service(service).ids()), far);
    let common = engine.common_edge_routers(identity, service);
    assert_eq!(
        set(common.ids()),
        near.intersection(&far).cloned().collect()
    );
    assert_eq!(common.len(), near.intersection(&far).count());
}

pub fn all_routers_agree(engine: &mut Engine, model: &Model) {
    (0..25).for_each(|n| {
        routers_agree(
            engine,
            model,
            &format!("x{}", n % 5),
            &format!("x{}", n / 5),
        )
    });
}

pub fn policies_agree(engine: &Engine, model: &Model, kind: PolicyKind, id: &str) {
    for side in SUBJECTS {
        assert_eq!(
            set(engine.members(kind, id, side).ids()),
            model.members(kind, id, side)
        );
        assert_eq!(
            set(engine.policies(kind, side, id).ids()),
            model.with(kind, side, id)
        );
        for to in SUBJECTS {
            assert_eq!(
                set(engine.related(kind, side, id, to).ids()),
                model.related(kind, side, id, to)
            );
        }
    }
}

pub fn loaded(model: &Model, policies_first: bool) -> Engine {
    let mut engine = Engine::new();
    for subjects in [!policies_first, policies_first] {
        if subjects {
            model
                .subjects
                .iter()
                .for_each(|((subject, id), roles)| engine.put_subject(*subject, id, roles, 0));
        } else {
            model.policies.iter().for_each(|((kind, id), written)| {
                engine.put_policy(id, &policy(*kind, written), 0)
            });
        }
    }
    engine
}
