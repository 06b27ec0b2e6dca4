//! An explanation as a person reads it.

use std::fmt;

use super::{Explanation, What, authentication::State, policies::Missing};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, verb) = (if self.verdict { "yes" } else { "no" }, self.right.verb());
        let (identity, service) = (plain(&self.identity.name), plain(&self.service.name));
        write!(f, "{answer}: {identity} may {}{verb} {service}", if self.verdict { "" } else { "not " })?;
        for grant in &self.policies {
            let [policy, of_identity, of_service] =
                [&grant.policy.name, &grant.identity_by.join(" "), &grant.service_by.join(" ")].map(|text| plain(text));
            write!(f, "\n  granted by the policy {policy} (identity by {of_identity}, service by {of_service})")?;
        }
        for near in &self.near_policies {
            let (missing, other) = match near.missing {
                Missing::Identity => (&identity, &service),
                Missing::Service => (&service, &identity),
            };
            let (policy, by) = (plain(&near.policy.name), plain(&near.matched_by.join(" ")));
            write!(f, "\n  the policy {policy} matches {other} (by {by}) but not {missing}")?;
            if !near.is_passing {
                write!(f, ", and asks for posture checks that the endpoint does not pass")?;
            }
        }
        // For somebody who has no session it is an obstacle.
        let is_obstacle = self.obstacles.iter().any(|obstacle| obstacle.what == What::CredentialNotAllowed);
        if self.authentication.state == State::NotAllowed && !is_obstacle {
            write!(f, "\n  the auth policy of {identity} allows none of its credentials")?;
        }
        for factor in &self.authentication.second_factors {
            write!(f, "\n  {}", plain(&factor.text))?;
        }
        for router in &self.routers {
            let state = if router.is_online { "connected" } else { "not connected" };
            write!(f, "\n  over the edge router {} ({state})", plain(&router.router.name))?;
        }
        for obstacle in &self.obstacles {
            write!(f, "\n  {}", plain(&obstacle.text))?;
            for edit in &obstacle.edits {
                write!(f, "\n    to change that: {}\n      {} {} {}", plain(&edit.text), edit.method, edit.path, edit.body)?;
            }
        }
        Ok(())
    }
}

/// Text in which nothing ends a line or steers a terminal: names are as somebody made them.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() { plain.extend(sign.escape_default()) } else { plain.push(sign) }
    }
    plain
}
