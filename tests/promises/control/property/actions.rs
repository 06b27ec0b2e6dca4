//! What the routers and their clients do: dial, bind, and end sessions and circuits.

use std::time::Instant;

use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult},
        fabric::{self, FaultSubject},
        key,
    },
    frame::Builder,
};

use super::super::mock::{PATIENCE, bind_request};
use super::{
    Circuit, World, api_session_of,
    records::{BIND, DIAL, End, FAR, NEAR, PEOPLE, SERVICES},
};
use crate::harness::{Rng, fresh};

impl World {
    /// A new session of an identity for a service, with its token.
    pub(super) fn session(&mut self, rng: &mut Rng, kind: usize) -> Option<(End, String, String)> {
        let (person, service) = (rng.below(PEOPLE), rng.below(SERVICES));
        let person = &mut self.records.people[person];
        if person.is_enabled
            && (rng.below(4) == 0 || api_session_of(&person.member.caller).is_none())
        {
            person.member.caller = person.member.caller.log_in_by_certificate();
        }
        let api_session = api_session_of(&person.member.caller)?;
        let right = ["Dial", "Bind"][kind];
        let body = json!({ "serviceId": self.records.services[service].id, "type": right });
        let answer = person.member.caller.post("/sessions", body);
        if answer.status != 201 {
            return None;
        }
        let member = |name: &str| answer.data()[name].as_str().unwrap().to_owned();
        let (identity, service) = (
            person.member.id.clone(),
            self.records.services[service].id.clone(),
        );
        Some((
            End {
                identity,
                service,
                api_session,
                session: member("id"),
            },
            member("token"),
            person.member.fingerprint(),
        ))
    }

    /// The answer of the controller to a request of a router.
    pub(super) async fn answer(&mut self, router: usize, request: i32) -> wire::frame::Frame {
        let began = Instant::now();
        loop {
            for router in &mut self.routers {
                router.drain().await;
            }
            if let Some(answer) = self.routers[router].answer(request) {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "no answer");
        }
    }

    pub(super) async fn dial(&mut self, rng: &mut Rng) -> String {
        let Some((client, token, fingerprint)) = self
            .session(rng, DIAL)
            .filter(|_| self.routers[NEAR].is_connected())
        else {
            return String::new();
        };
        self.routers[NEAR]
            .told
            .sessions
            .insert(client.session.clone(), client.api_session.clone());
        let request = self.routers[NEAR]
            .connection()
            .dial(&token, &fingerprint)
            .await;
        let answer = self.answer(NEAR, request).await;
        let is_hosted = self
            .terminators
            .iter()
            .any(|(_, host)| host.service == client.service);
        let is_possible = is_hosted && self.routers[FAR].is_connected() && !self.links.is_empty();
        let is_opened = answer.content_type() == content::CREATE_CIRCUIT_RESPONSE;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert_eq!(
            is_opened,
            is_possible && self.records.stands(&client, DIAL, NEAR),
            "a dial: {text}"
        );
        if is_opened {
            let id = answer.text(key::CIRCUIT_ID).unwrap().to_owned();
            let terminator = self.routers[FAR].told.circuits[&id].clone().unwrap();
            let host = self
                .terminators
                .iter()
                .find(|(known, _)| *known == terminator)
                .unwrap()
                .1
                .clone();
            self.circuits.push(Circuit { id, client, host });
            self.opened += 1;
        }
        "a dial".into()
    }

    pub(super) async fn bind(&mut self, rng: &mut Rng) -> String {
        let Some((host, token, fingerprint)) = self
            .session(rng, BIND)
            .filter(|_| self.routers[FAR].is_connected())
        else {
            return String::new();
        };
        let terminator = fresh("terminator");
        self.routers[FAR]
            .told
            .sessions
            .insert(host.session.clone(), host.api_session.clone());
        let request = self.routers[FAR]
            .connection()
            .send(bind_request(&terminator, &token, &fingerprint))
            .await;
        let answer = self.answer(FAR, request).await;
        let answer = edge::CreateTerminatorResponse::decode(answer.body()).unwrap();
        let is_hosted = answer.result() == CreateTerminatorResult::Success;
        assert_eq!(
            is_hosted,
            self.records.stands(&host, BIND, FAR),
            "a bind: {answer:?}"
        );
        if is_hosted {
            self.routers[FAR].hosted.insert(terminator.clone());
            self.terminators.push((terminator, host));
        }
        "a bind".into()
    }

    /// A router ends a circuit or a terminator.
    pub(super) async fn end(&mut self, rng: &mut Rng) -> String {
        let router = rng.below(2);
        if !self.routers[router].is_connected() {
            return String::new();
        }
        if router == FAR && !self.terminators.is_empty() && rng.below(2) == 0 {
            let (id, _) = self
                .terminators
                .swap_remove(rng.below(self.terminators.len()));
            self.routers[FAR].hosted.remove(&id);
            let body = fabric::RemoveTerminators {
                terminator_ids: vec![id],
            };
            self.routers[FAR]
                .connection()
                .send(Builder::new(content::REMOVE_TERMINATORS).body(&body.encode_to_vec()))
                .await;
            return "a host leaves".into();
        }
        if self.circuits.is_empty() {
            return String::new();
        }
        let circuit = self.circuits.swap_remove(rng.below(self.circuits.len()));
        let subject = [FaultSubject::Ingress, FaultSubject::Egress][router];
        self.routers[router]
            .connection()
            .fault(subject, &circuit.id)
            .await;
        "an end closes a circuit".into()
    }
}
