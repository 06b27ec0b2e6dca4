//! Random changes of the network.

use serde_json::{Value as Json, json};

use super::super::people::Person;
use super::{Network, PEOPLE, POLICIES, SERVICES, attributes, new_service, role};
use crate::harness::{Rng, fresh};

impl Network<'_> {
    /// A dialing or a hosting identity, and the service that it hosts.
    pub(super) fn somebody(&mut self, rng: &mut Rng) -> (&mut Person, Option<&mut Option<String>>) {
        let number = rng.below(PEOPLE + SERVICES);
        match self.people.get_mut(number) {
            Some(person) => (person, None),
            None => {
                let service = &mut self.services[number - PEOPLE];
                (&mut service.host, Some(&mut service.bound))
            }
        }
    }

    /// Changes one thing. Returns what it was.
    pub(super) fn change(&mut self, rng: &mut Rng) -> &'static str {
        let (server, admin) = (self.server, &self.server.admin);
        match rng.below(16) {
            0..=2 => self.add_or_delete_policy(rng),
            3 | 4 => {
                let (kind, role) = (
                    rng.below(POLICIES.len()),
                    ["#red", "#green", "#all"][rng.below(3)],
                );
                self.patch_policies(kind, |body, roles| {
                    roles
                        .iter()
                        .for_each(|member| body[*member] = json!([role]))
                });
                [
                    "Dial policy changed",
                    "Bind policy changed",
                    "edge router policy changed",
                    "service edge router policy changed",
                ][kind]
            }
            5 => {
                let checks = [json!([]), json!(["#office"])][rng.below(2)].clone();
                self.patch_policies(rng.below(2), |body, _| {
                    body["postureCheckRoles"] = checks.clone()
                });
                "posture checks of policies changed"
            }
            6 => {
                let path = format!("/identities/{}", self.somebody(rng).0.member.id);
                admin
                    .patch(&path, json!({ "roleAttributes": attributes(rng) }))
                    .expect(200);
                "roles of an identity changed"
            }
            7 => {
                let path = format!("/services/{}", self.services[rng.below(SERVICES)].id);
                admin
                    .patch(&path, json!({ "roleAttributes": attributes(rng) }))
                    .expect(200);
                "roles of a service changed"
            }
            8 if !self.open.is_empty() => self.delete_session(rng),
            9 => {
                let (person, bound) = self.somebody(rng);
                let of = format!("identity = \"{}\"", person.member.id);
                for id in admin.list("/api-sessions", &of, "").expect(200).each("id") {
                    admin.delete(&format!("/api-sessions/{id}")).expect(200);
                }
                person.is_out();
                bound.into_iter().for_each(|bound| *bound = None);
                "API session deleted"
            }
            10 => {
                let (person, bound) = self.somebody(rng);
                admin
                    .post(
                        &format!("/identities/{}/disable", person.member.id),
                        json!({ "durationMinutes": 0 }),
                    )
                    .expect(200);
                person.is_out();
                person.is_disabled = true;
                bound.into_iter().for_each(|bound| *bound = None);
                "identity disabled"
            }
            11 => {
                let (person, bound) = self.somebody(rng);
                admin
                    .delete(&format!("/identities/{}", person.member.id))
                    .expect(200);
                let logins = person.logins + 1;
                *person = Person {
                    logins,
                    ..Person::new(server, person.options, ["red", "green"][rng.below(2)])
                };
                // A new identity is logged in already.
                bound.into_iter().for_each(|bound| *bound = None);
                "identity deleted"
            }
            12 if rng.below(2) == 0 => {
                let service = &mut self.services[rng.below(SERVICES)];
                admin
                    .delete(&format!("/services/{}", service.id))
                    .expect(200);
                (service.id, service.bound) =
                    (new_service(server, ["red", "green"][rng.below(2)]), None);
                "service deleted"
            }
            _ => {
                let check = self.check.clone();
                let (person, _) = self.somebody(rng);
                if person.channel.is_some() {
                    person.report(
                        &check,
                        ["good.example", "bad.example", "bad.example"][rng.below(3)],
                    );
                }
                "posture reported"
            }
        }
    }

    /// Creates a policy of a kind that has one at most, and deletes one of any other kind.
    pub(super) fn add_or_delete_policy(&mut self, rng: &mut Rng) -> &'static str {
        let kind = rng.below(POLICIES.len());
        let (path, right, roles) = POLICIES[kind];
        let of_kind: Vec<usize> = (0..self.policies.len())
            .filter(|number| self.policies[*number].0 == kind)
            .collect();
        if of_kind.len() > 1 {
            let (_, id) = self.policies.swap_remove(of_kind[rng.below(of_kind.len())]);
            self.server
                .admin
                .delete(&format!("{path}/{id}"))
                .expect(200);
            return [
                "Dial policy deleted",
                "Bind policy deleted",
                "edge router policy deleted",
                "service edge router policy deleted",
            ][kind];
        }
        let mut body = json!({ "name": fresh("policy"), "semantic": "AnyOf" });
        if right.is_empty() {
            body["edgeRouterRoles"] = json!(["#all"]);
        } else {
            body["type"] = json!(right);
        }
        roles
            .iter()
            .for_each(|member| body[*member] = json!([role(rng)]));
        self.policies
            .push((kind, self.server.admin.post(path, body).expect(201).id()));
        "policy created"
    }

    /// Changes every policy of a kind in the same way.
    pub(super) fn patch_policies(&self, kind: usize, set: impl Fn(&mut Json, &[&str])) {
        let (path, _, roles) = POLICIES[kind];
        let mut body = json!({});
        set(&mut body, roles);
        for (_, id) in self.policies.iter().filter(|(of, _)| *of == kind) {
            self.server
                .admin
                .patch(&format!("{path}/{id}"), body.clone())
                .expect(200);
        }
    }

    /// Allows everything to everybody with a role or to everybody, with or without the posture
    /// check, which everybody then passes.
    pub(super) fn reset_policies(&self, granted: &Json, checks: &Json) {
        let everybody = self
            .people
            .iter()
            .chain(self.services.iter().map(|service| &service.host));
        everybody
            .filter(|person| person.channel.is_some())
            .for_each(|person| person.report(&self.check, "good.example"));
        for (kind, (_, right, _)) in POLICIES.iter().enumerate() {
            self.patch_policies(kind, |body, roles| {
                body["semantic"] = json!("AnyOf");
                roles
                    .iter()
                    .for_each(|member| body[*member] = granted.clone());
                if !right.is_empty() {
                    body["postureCheckRoles"] = checks.clone();
                }
            });
        }
    }

    pub(super) fn delete_session(&mut self, rng: &mut Rng) -> &'static str {
        let of = rng.below(self.open.len());
        let end = rng.below(2);
        let session = self.open[of].sessions[end].clone();
        self.server
            .admin
            .delete(&format!("/sessions/{session}"))
            .expect(200);
        for open in &mut self.open {
            // No session has this id, so that the circuit counts as forbidden.
            open.sessions
                .iter_mut()
                .filter(|id| **id == session)
                .for_each(String::clear);
        }
        self.services
            .iter_mut()
            .filter(|service| service.bound.as_ref() == Some(&session))
            .for_each(|service| service.bound = None);
        ["session of a client deleted", "session of a host deleted"][end]
    }
}
