//! An explanation as a person reads it.

use std::fmt;

use super::Explanation;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, verb) = (if self.verdict { "yes" } else { "no" }, self.right.verb());
        write!(f, "{answer}: {} may {}{verb} {}", self.identity.name, if self.verdict { "" } else { "not " }, self.service.name)?;
        for grant in &self.policies {
            let (identity, service) = (grant.identity_by.join(" "), grant.service_by.join(" "));
            write!(f, "\n  granted by the policy {} (identity by {identity}, service by {service})", grant.policy.name)?;
        }
        for router in &self.routers {
            write!(f, "\n  over the edge router {} ({})", router.name, if router.is_online { "connected" } else { "not connected" })?;
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
