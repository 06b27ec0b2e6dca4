//! Service policies and their posture checks, judged for one caller.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use model::{
    clock::Timestamp,
    entity::{
        Entity, HalLinks, Id, Lookup, PolicyType, PostureCheck, PostureQueries, PostureQuery,
        PostureRequirement, Record, ServicePolicy, TypedLookup, service::ProcessRef,
    },
    error::Result,
};
use store::{Cache, CommitNumber, Dependency};

use super::{
    Evidence,
    evaluation::{Verdict, evaluate},
};
use crate::access::{Access, PolicyGrant, Right};

/// A check and its verdict.
#[derive(Debug, Clone)]
pub struct EvaluatedCheck {
    pub check: Arc<Record<PostureCheck>>,
    pub verdict: Verdict,
}

/// Judges policies by the evidence about one caller. Each check is read and judged once, however
/// many policies name it.
pub struct PostureEvaluator<'f> {
    lookup: &'f dyn Lookup,
    /// The shared cache of checks, and the commit number at which this evaluator began.
    known: Option<(&'f Cache<Record<PostureCheck>>, CommitNumber)>,
    evidence: Evidence,
    judged: RefCell<HashMap<String, Option<EvaluatedCheck>>>,
}

/// The decision about a right.
pub(crate) enum Decision {
    /// These policies grant it and all their checks pass.
    Passed(Vec<Id<ServicePolicy>>),
    /// Every policy that would grant it: its id and its checks.
    Failed(Vec<(String, Vec<EvaluatedCheck>)>),
}

impl<'f> PostureEvaluator<'f> {
    /// Judges at the moment of the evidence.
    pub fn new(lookup: &'f dyn Lookup, evidence: Evidence) -> Self {
        Self {
            lookup,
            known: None,
            evidence,
            judged: RefCell::default(),
        }
    }

    /// Reads checks from a shared cache and adds to it. `lookup` must be from `at` or later.
    pub(super) fn with_cache(
        self,
        checks: &'f Cache<Record<PostureCheck>>,
        at: CommitNumber,
    ) -> Self {
        Self {
            known: Some((checks, at)),
            ..self
        }
    }

    /// The checks with these ids, judged. Deleted checks are skipped.
    ///
    /// # Errors
    /// A check cannot be read.
    pub(crate) fn checks(&self, ids: &[Arc<str>]) -> Result<Vec<EvaluatedCheck>> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.check(id)?);
        }
        Ok(found)
    }

    /// Whether all of these checks pass.
    ///
    /// # Errors
    /// A check cannot be read.
    pub(crate) fn passes(&self, ids: &[Arc<str>]) -> Result<bool> {
        self.checks(ids).map(|checks| passes(&checks))
    }

    /// [`PostureEvaluator::evaluate`] on the policies that grant an identity a right to a service.
    /// `some` of them are usually enough; all are fetched only if none of these passes.
    ///
    /// # Errors
    /// A check cannot be read.
    pub(crate) fn evaluate_policies(
        &self,
        access: &Access,
        (identity, service, right): (&str, &str, Right),
        some: &[PolicyGrant],
    ) -> Result<Decision> {
        let ruling = self.evaluate(some)?;
        if let Decision::Passed(_) = ruling {
            return Ok(ruling);
        }
        let all = access.ask(|engine| engine.all_grants(identity, service, right));
        if all.len() > some.len() {
            self.evaluate(&all)
        } else {
            Ok(ruling)
        }
    }

    /// Whether a policy that grants a right has only passing checks; stops at the first one.
    ///
    /// # Errors
    /// A check cannot be read.
    pub(crate) fn allows(&self, grants: &[PolicyGrant]) -> Result<bool> {
        for grant in grants {
            if self.passes(&grant.posture_checks)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The policies that grant a right and pass all their checks, or the failed ones if none does.
    ///
    /// # Errors
    /// A check cannot be read.
    pub(crate) fn evaluate<'g>(
        &self,
        grants: impl IntoIterator<Item = &'g PolicyGrant>,
    ) -> Result<Decision> {
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        for PolicyGrant {
            policy,
            posture_checks,
        } in grants
        {
            let checks = self.checks(posture_checks)?;
            if passes(&checks) {
                passed.push(Id::from_text(policy.as_ref()));
            } else {
                failed.push((policy.to_string(), checks));
            }
        }
        Ok(if passed.is_empty() {
            Decision::Failed(failed)
        } else {
            Decision::Passed(passed)
        })
    }

    /// The posture queries of a policy, as its users see them.
    ///
    /// # Errors
    /// A check cannot be read.
    pub fn queries(&self, grant: &PolicyGrant, policy_type: PolicyType) -> Result<PostureQueries> {
        let checks = self.checks(&grant.posture_checks)?;
        let posture_queries = checks.iter().map(|judged| self.query(judged)).collect();
        Ok(PostureQueries {
            policy_id: grant.policy.to_string(),
            policy_type,
            is_passing: passes(&checks),
            posture_queries,
        })
    }

    fn check(&self, id: &str) -> Result<Option<EvaluatedCheck>> {
        if let Some(known) = self.judged.borrow().get(id) {
            return Ok(known.clone());
        }
        let judged = self.find(id)?.map(|check| {
            let verdict = evaluate(&check.spec.demand, id, &self.evidence);
            EvaluatedCheck { check, verdict }
        });
        self.judged
            .borrow_mut()
            .insert(id.to_owned(), judged.clone());
        Ok(judged)
    }

    fn find(&self, id: &str) -> Result<Option<Arc<Record<PostureCheck>>>> {
        if let Some(known) = self.known.and_then(|(checks, _)| checks.find(id)) {
            return Ok(Some(known));
        }
        let found = self.lookup.find(&Id::from_text(id))?.map(Arc::new);
        if let Some((check, (checks, at))) = found.as_ref().zip(self.known) {
            checks.insert(
                id,
                check.clone(),
                vec![Dependency::of_record(PostureCheck::KIND, id)],
                at,
            );
        }
        Ok(found)
    }

    fn query(&self, EvaluatedCheck { check, verdict }: &EvaluatedCheck) -> PostureQuery {
        let demand = &check.spec.demand;
        let path = |os_type, path: &String| ProcessRef {
            os_type,
            path: path.clone(),
        };
        PostureQuery {
            links: HalLinks::of(check),
            id: check.id.to_string(),
            created_at: check.created_at,
            updated_at: self
                .last_request_of_code(demand)
                .map_or(check.updated_at, |at| at.max(check.updated_at)),
            tags: check.tags.clone(),
            query_type: demand.kind(),
            is_passing: verdict.passes,
            timeout: verdict.timeout,
            timeout_remaining: verdict.remaining,
            process: match demand {
                PostureRequirement::Process { process } => {
                    Some(path(process.os_type, &process.path))
                }
                _ => None,
            },
            processes: match demand {
                PostureRequirement::ProcessMulti { processes, .. } => {
                    Some(processes.iter().map(|p| path(p.os_type, &p.path)).collect())
                }
                _ => None,
            },
        }
    }

    /// When an event last made a check require a new one-time code. Clients notice the new
    /// requirement by the changed `updatedAt`.
    fn last_request_of_code(&self, demand: &PostureRequirement) -> Option<Timestamp> {
        let PostureRequirement::Mfa {
            prompt_on_wake,
            prompt_on_unlock,
            ..
        } = demand
        else {
            return None;
        };
        let mfa_state = self.evidence.mfa_state;
        let last = mfa_state
            .woken_at
            .filter(|_| *prompt_on_wake)
            .max(mfa_state.unlocked_at.filter(|_| *prompt_on_unlock));
        last.map(|moment| moment.shown)
    }
}

fn passes(checks: &[EvaluatedCheck]) -> bool {
    checks.iter().all(|judged| judged.verdict.passes)
}
