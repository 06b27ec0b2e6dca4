//! Scopes of API tokens that lead to every right. A token with one of them gets an administrator's
//! session in a few requests, whatever else its scope leaves out.

use super::ApiToken;

/// A part of a scope that leads to every right.
#[derive(Debug, Clone, Copy)]
pub struct Escalation {
    /// The kind, as in scopes.
    pub kind: &'static str,
    /// The actions on the kind, all of which it takes. Reading is not listed.
    pub actions: &'static [&'static str],
    /// The way from there to an administrator's session.
    pub way: &'static str,
}

const fn escalation(
    kind: &'static str,
    actions: &'static [&'static str],
    way: &'static str,
) -> Escalation {
    Escalation { kind, actions, way }
}

/// All of them.
pub const ESCALATIONS: [Escalation; 14] = [
    escalation(
        "identities",
        &["create"],
        "a new administrator enrolls, or logs in by an external id",
    ),
    escalation(
        "identities",
        &["update"],
        "an identity becomes an administrator",
    ),
    escalation(
        "authenticators",
        &["create"],
        "an administrator gets a password",
    ),
    escalation(
        "authenticators",
        &["update"],
        "an administrator gets another password",
    ),
    escalation(
        "enrollments",
        &["create"],
        "an enrollment token of an administrator is redeemed",
    ),
    escalation(
        "external-jwt-signers",
        &["create"],
        "a token of a new signer names an administrator",
    ),
    escalation(
        "external-jwt-signers",
        &["update"],
        "a signer gets another key, whose tokens name an administrator",
    ),
    escalation(
        "auth-policies",
        &["update"],
        "administrators log in by any signer, and without a second factor",
    ),
    escalation(
        "cas",
        &["create", "verify"],
        "a certificate of a new authority has the external id of an administrator",
    ),
    escalation(
        "cas",
        &["update"],
        "certificates of an authority log in, and a claim in them is the external id of an administrator",
    ),
    escalation(
        "edge-routers",
        &["create"],
        "a new router is told the tokens of API sessions of identities that may use it",
    ),
    escalation(
        "edge-routers",
        &["update"],
        "the roles of a router whose keys somebody holds open it to identities, whose tokens it is told",
    ),
    escalation(
        "edge-router-policies",
        &["create"],
        "a router whose keys somebody holds is opened to identities, whose tokens it is told",
    ),
    escalation(
        "edge-router-policies",
        &["update"],
        "a router whose keys somebody holds is opened to identities, whose tokens it is told",
    ),
];

impl ApiToken {
    /// The parts of a restricted scope that lead to every right. Empty for a token without a scope,
    /// which has every right of its identity anyway.
    pub fn escalations(&self) -> impl Iterator<Item = &'static Escalation> {
        let leads = |one: &Escalation| {
            self.covers(one.kind) && one.actions.iter().all(|action| self.may(action))
        };
        let may_lead = self.is_restricted() && !self.self_service;
        ESCALATIONS.iter().filter(move |one| may_lead && leads(one))
    }

    /// The same in words, such as `create identities`.
    pub fn escalation_words(&self) -> Vec<String> {
        self.escalations()
            .map(|one| format!("{} {}", one.actions.join(" and "), one.kind))
            .collect()
    }
}
