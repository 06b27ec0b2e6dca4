//! An explanation as text.

use std::fmt;

use model::hidden_text::shown;

use super::{
    Explanation, authentication::State, dials, edits::lacks, obstacle::ObstacleKind,
    policies::Missing, traffic,
};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, identity, service) = (
            self.right.verb(),
            shown(&self.identity.name),
            shown(&self.service.name),
        );
        match (self.allowed, self.verdict) {
            (false, _) => write!(f, "no: {identity} may not {verb} {service}")?,
            (true, false) => write!(
                f,
                "may, but cannot now: {identity} may {verb} {service}, but it would not work now"
            )?,
            (true, true) => write!(f, "yes: {identity} may {verb} {service}")?,
        }
        self.write_policies(f)?;
        self.write_standing(f)?;
        for router in &self.routers {
            let state = if router.is_online {
                "connected"
            } else {
                "not connected"
            };
            let disabled = if router.is_disabled { ", disabled" } else { "" };
            write!(
                f,
                "\n  over the edge router {} ({state}{disabled})",
                shown(&router.router.name)
            )?;
        }
        let is_connected = self.routers.iter().any(|router| router.is_online);
        if let Some(hosts) = traffic::hosted_by(&self.hosts, self.host_count, is_connected) {
            write!(f, "\n  {}", shown(&hosts))?;
        }
        if !self
            .obstacles
            .iter()
            .any(|obstacle| obstacle.what == ObstacleKind::DialsFail)
        {
            for failing in self.hosts.iter().filter_map(dials::sentence) {
                write!(f, "\n  {}", shown(&failing))?;
            }
        }
        for obstacle in &self.obstacles {
            write!(f, "\n  {}", shown(&obstacle.text))?;
            if let Some(remedy) = &obstacle.remedy {
                write!(f, "\n    to change that: {}", shown(remedy))?;
            }
            for (edit, command) in obstacle.edits.iter().zip(&obstacle.commands) {
                write!(
                    f,
                    "\n    to change that: {}\n      {}",
                    shown(&edit.text),
                    shown(command)
                )?;
            }
        }
        Ok(())
    }
}

impl Explanation {
    /// Writes the policies that give the right, with their failed checks, and those that nearly do.
    fn write_policies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for grant in &self.policies {
            let [policy, of_identity, of_service] = [
                &grant.policy.name,
                &grant.identity_by.join(" "),
                &grant.service_by.join(" "),
            ]
            .map(|text| shown(text));
            write!(
                f,
                "\n  granted by the policy {policy} (identity by {of_identity}, service by {of_service})"
            )?;
            for failure in &grant.failed_checks {
                write!(
                    f,
                    "\n    but the check fails: {}",
                    shown(&failure.to_string())
                )?;
            }
        }
        let (identity, service) = (shown(&self.identity.name), shown(&self.service.name));
        for near in &self.near_policies {
            let (missing, other) = match near.missing {
                Missing::Identity => (&identity, &service),
                Missing::Service => (&service, &identity),
            };
            let (policy, by) = (shown(&near.policy.name), shown(&near.matched_by.join(" ")));
            write!(
                f,
                "\n  the policy {policy} matches {other} (by {by}) but not {missing}"
            )?;
            if !near.is_passing {
                write!(
                    f,
                    ", and requires posture checks that the endpoint does not pass"
                )?;
            }
        }
        Ok(())
    }

    /// Writes facts about logging in that are not listed as obstacles.
    fn write_standing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_obstacle = |what| self.obstacles.iter().any(|obstacle| obstacle.what == what);
        if self.authentication.state == State::NotAllowed
            && !is_obstacle(ObstacleKind::CredentialNotAllowed)
        {
            let lacks = lacks(&self.authentication.credentials);
            write!(
                f,
                "\n  {} could not log in again: {}",
                shown(&self.identity.name),
                shown(&lacks)
            )?;
        }
        if self
            .authentication
            .credentials
            .iter()
            .any(|means| means.is_extend_requested)
        {
            write!(
                f,
                "\n  {} was asked to renew its certificate and has not done so",
                shown(&self.identity.name)
            )?;
        }
        for factor in &self.authentication.second_factors {
            if !self
                .obstacles
                .iter()
                .any(|obstacle| obstacle.text == factor.text)
            {
                write!(f, "\n  {}", shown(&factor.text))?;
            }
        }
        Ok(())
    }
}
