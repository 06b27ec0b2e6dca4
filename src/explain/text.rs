//! An explanation as a person reads it.

use std::fmt;

use super::{Explanation, policies::Missing};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, verb) = (if self.verdict { "yes" } else { "no" }, self.right.verb());
        write!(f, "{answer}: {} may {}{verb} {}", self.identity.name, if self.verdict { "" } else { "not " }, self.service.name)?;
        for grant in &self.policies {
            let (identity, service) = (grant.identity_by.join(" "), grant.service_by.join(" "));
            write!(f, "\n  granted by the policy {} (identity by {identity}, service by {service})", grant.policy.name)?;
        }
        for near in &self.near_policies {
            let (missing, other) = match near.missing {
                Missing::Identity => (&self.identity.name, &self.service.name),
                Missing::Service => (&self.service.name, &self.identity.name),
            };
            write!(f, "\n  the policy {} matches {other} (by {}) but not {missing}", near.policy.name, near.matched_by.join(" "))?;
        }
        let credentials = &self.authentication.credentials;
        if !credentials.is_empty() && credentials.iter().all(|means| !means.is_allowed) {
            write!(f, "\n  the auth policy of {} allows none of its credentials", self.identity.name)?;
        }
        for router in &self.routers {
            write!(
                f,
                "\n  over the edge router {} ({})",
                router.router.name,
                if router.is_online { "connected" } else { "not connected" }
            )?;
        }
        for obstacle in &self.obstacles {
            write!(f, "\n  {}", obstacle.text)?;
            for edit in &obstacle.edits {
                write!(f, "\n    to change that: {}\n      {} {} {}", edit.text, edit.method, edit.path, edit.body)?;
            }
        }
        Ok(())
    }
}
