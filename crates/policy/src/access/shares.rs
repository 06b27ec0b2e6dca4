//! A difference of access by service and edge router: who gains and who loses each of them.
//!
//! The counts of a [`Difference`] tell how many pairs there are, and not which ones. This asks for
//! the first services and routers one by one.

use super::{
    AccessDiff, Difference, Engine, PolicyEntityKind,
    preview::PreviewedChanges,
    relation::{BIND, DIAL, IDENTITY_ROUTERS, Relation, SERVICE_ROUTERS},
};
use model::entity::Counted;
use roaring::RoaringBitmap;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// Who gains and who loses one service or edge router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AccessShare")]
pub struct AccessShare<N = Arc<str>> {
    /// The relation, as its counts are named: `dial`, `bind`, `identityRouters` or
    /// `serviceRouters`.
    pub(crate) relation: &'static str,
    /// The service or edge router.
    pub(crate) what: N,
    /// Who may use it after the change and not before.
    pub(crate) gained: Counted<N>,
    /// Who may use it before the change and not after.
    pub(crate) lost: Counted<N>,
}

impl AccessShare {
    /// The same with each list ordered by name and cut to `limit`.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn by_name<E>(
        mut self,
        limit: usize,
        name: &impl Fn(PolicyEntityKind, &str) -> Result<String, E>,
    ) -> Result<Self, E> {
        if let Some((_, relation)) = RELATIONS.iter().find(|(known, _)| *known == self.relation) {
            order(&mut self.gained, limit, &|id: &str| name(relation.who, id))?;
            order(&mut self.lost, limit, &|id: &str| name(relation.who, id))?;
        }
        Ok(self)
    }

    /// The same with each id replaced, or left out where `name` gives nothing; `None` if the
    /// service or router has no name.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn named<N, E>(
        &self,
        name: impl Fn(PolicyEntityKind, &str) -> Result<Option<N>, E>,
    ) -> Result<Option<AccessShare<N>>, E> {
        let Some((_, relation)) = RELATIONS.iter().find(|(known, _)| *known == self.relation)
        else {
            return Ok(None);
        };
        let Some(what) = name(relation.what, &self.what)? else {
            return Ok(None);
        };
        let counted = |Counted { count, first }: &Counted<Arc<str>>| {
            let first: Result<Vec<N>, E> = first
                .iter()
                .filter_map(|id| name(relation.who, id).transpose())
                .collect();
            Ok(Counted {
                count: *count,
                first: first?,
            })
        };
        Ok(Some(AccessShare {
            relation: self.relation,
            what,
            gained: counted(&self.gained)?,
            lost: counted(&self.lost)?,
        }))
    }
}

impl Difference {
    /// The same with each list ordered by name and cut to `limit`. Ids of records that do not exist
    /// yet differ at every attempt.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn by_name<E>(
        mut self,
        limit: usize,
        name: &impl Fn(PolicyEntityKind, &str) -> Result<String, E>,
    ) -> Result<Self, E> {
        let changed = [
            &mut self.dial,
            &mut self.bind,
            &mut self.identity_routers,
            &mut self.service_routers,
        ];
        for ((_, relation), AccessDiff { gained, lost }) in RELATIONS.iter().zip(changed) {
            for pairs in [gained, lost] {
                order(&mut pairs.who, limit, &|id: &str| name(relation.who, id))?;
                order(&mut pairs.what, limit, &|id: &str| name(relation.what, id))?;
            }
        }
        Ok(self)
    }
}

/// Orders ids by name, and cuts the list.
fn order<E>(
    counted: &mut Counted<Arc<str>>,
    limit: usize,
    name: &impl Fn(&str) -> Result<String, E>,
) -> Result<(), E> {
    let named = counted.first.drain(..).map(|id| Ok((name(&id)?, id)));
    let mut named = named.collect::<Result<Vec<(String, Arc<str>)>, E>>()?;
    named.sort_unstable();
    counted.first = named.into_iter().take(limit).map(|(_, id)| id).collect();
    Ok(())
}

static RELATIONS: [(&str, &Relation); 4] = [
    ("dial", &DIAL),
    ("bind", &BIND),
    ("identityRouters", &IDENTITY_ROUTERS),
    ("serviceRouters", &SERVICE_ROUTERS),
];

/// A service or router of a relation, and the relation's name.
pub(super) type Asked = (&'static str, &'static Relation, Arc<str>);

/// How many of them are asked for while the engine is locked. With more changes there are as many,
/// because all changes are applied each time.
pub(super) const AT_A_TIME: usize = 8;

/// The services and routers that a difference lists.
pub(super) fn listed_objects(difference: &Difference) -> Vec<Asked> {
    let changed = [
        &difference.dial,
        &difference.bind,
        &difference.identity_routers,
        &difference.service_routers,
    ];
    let each = RELATIONS.iter().zip(changed);
    each.flat_map(|((name, relation), changed)| {
        listed(changed)
            .into_iter()
            .map(|what| (*name, *relation, what))
    })
    .collect()
}

impl Engine {
    /// The shares of some services and routers, with at most `limit` ids in each list.
    pub(super) fn shares(
        &mut self,
        changes: &PreviewedChanges,
        asked: &[Asked],
        limit: usize,
    ) -> Vec<AccessShare> {
        let reach = |engine: &Engine| -> Vec<RoaringBitmap> {
            asked
                .iter()
                .map(|(_, of, what)| of.reach(engine, of.what, engine.row(of.what, what)))
                .collect()
        };
        let counted = |engine: &Engine, of: &Relation, rows: RoaringBitmap| {
            let count = rows.len();
            Counted {
                count,
                first: engine
                    .subjects(of.who, rows)
                    .in_order()
                    .take(limit)
                    .map(|(_, id)| id.clone())
                    .collect(),
            }
        };
        let before = reach(self);
        // A new subject has an id only with the changes applied, and one that goes only without
        // them.
        let (after, gained): (Vec<RoaringBitmap>, Vec<_>) = {
            let delta = changes.to_apply(self);
            let what_if = self.as_if(delta);
            let engine = what_if.engine();
            let after = reach(engine);
            let gained = asked
                .iter()
                .zip(before.iter().zip(&after))
                .map(|((_, of, _), (before, after))| counted(engine, of, after - before));
            let gained = gained.collect();
            (after, gained)
        };
        let lost = asked
            .iter()
            .zip(before.iter().zip(&after))
            .map(|((_, of, _), (before, after))| counted(self, of, before - after));
        let lost: Vec<_> = lost.collect();
        let sides = gained.into_iter().zip(lost);
        let shares = asked
            .iter()
            .zip(sides)
            .map(|((name, _, what), (gained, lost))| AccessShare {
                relation: name,
                what: what.clone(),
                gained,
                lost,
            });
        shares
            .filter(|share| share.gained.count + share.lost.count > 0)
            .collect()
    }
}

/// The services or routers that are gained or lost, each once.
fn listed(changed: &AccessDiff<Arc<str>>) -> Vec<Arc<str>> {
    let mut all = changed.gained.what.first.clone();
    all.extend(
        changed
            .lost
            .what
            .first
            .iter()
            .filter(|id| !changed.gained.what.first.contains(id))
            .cloned(),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::{super::Policy, *};
    use crate::access::{Delta, MatchRule, Right};

    fn subject(kind: PolicyEntityKind, id: &str, roles: Option<&[&str]>) -> Delta {
        let roles = roles.map(|roles| roles.iter().map(ToString::to_string).collect());
        Delta::Subject {
            kind,
            id: id.into(),
            roles,
        }
    }

    fn policy(id: &str, semantic: MatchRule, identities: &[&str], services: &[&str]) -> Delta {
        let [identities, services] =
            [identities, services].map(|list| list.iter().map(ToString::to_string).collect());
        let policy = Policy::service(Right::Dial, semantic, identities, services, Vec::new());
        Delta::Policy {
            kind: policy.kind,
            id: id.into(),
            policy: Some(policy),
        }
    }

    #[test]
    fn policies_losing_the_deleted_stay_unapplied() {
        let (any, all) = (MatchRule::AnyOf, MatchRule::AllOf);
        let mut engine = Engine::new();
        let before = [
            subject(PolicyEntityKind::Identity, "a", Some(&["x"])),
            subject(PolicyEntityKind::Identity, "b", Some(&["x"])),
            subject(PolicyEntityKind::Identity, "c", Some(&[])),
            subject(PolicyEntityKind::Service, "s", Some(&["y"])),
            subject(PolicyEntityKind::Service, "t", Some(&["y"])),
            policy("both", any, &["@a", "@b"], &["@s"]),
            policy("alone", any, &["@a"], &["#y"]),
            policy("with-role", all, &["@a", "#x"], &["@t"]),
            policy("others", any, &["@a", "@c"], &["@t"]),
        ];
        before.iter().for_each(|delta| engine.apply(delta, 0));
        let deletion = subject(PolicyEntityKind::Identity, "a", None);
        let changes = [
            policy("both", any, &["@b"], &["@s"]),
            policy("alone", any, &[], &["#y"]),
            policy("with-role", all, &["#x"], &["@t"]),
            // It loses an identity that stays too.
            policy("others", any, &[], &["@t"]),
            deletion.clone(),
        ];
        let (difference, changes) = engine.preview_changes(&changes, 9);
        assert_eq!(
            changes.to_apply(&engine),
            [policy("others", any, &[], &["@t"]), deletion]
        );
        let asked = listed_objects(&difference);
        let shares = engine.shares(&changes, &asked, 9);
        let lost = |share: &AccessShare| {
            (
                share.what.to_string(),
                share
                    .lost
                    .first
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        };
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected = [
            ("s".to_owned(), ids(&["a"])),
            ("t".to_owned(), ids(&["a", "c"])),
        ];
        assert_eq!(shares.iter().map(lost).collect::<Vec<_>>(), expected);
        // After another change all are applied, with the same result.
        engine.apply(&subject(PolicyEntityKind::Identity, "d", Some(&[])), 0);
        assert_eq!(changes.to_apply(&engine).len(), 5);
        assert_eq!(engine.shares(&changes, &asked, 9), shares);
    }
}
