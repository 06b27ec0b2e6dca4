//! What the router says in several messages: its introduction, binds, dials and faults.

use prost::Message;
use serde_json::Value as Json;
use wire::{
    control::{content, edge, fabric, key},
    frame::{Builder, Frame, value},
};

use super::{MockRouter, bind_request};

impl MockRouter {
    /// Reports its listener and waits for the full state. Returns the API sessions of it.
    pub async fn introduce(&mut self) -> Vec<edge::ApiSession> {
        let hello = self.next_of(content::SERVER_HELLO).await;
        self.answer_hello(&hello, false).await;
        self.full_state().await
    }

    /// Reports its listener, and whether it has a data model.
    pub async fn answer_hello(&mut self, hello: &Frame, has_data_model: bool) {
        let advertise = edge::Address {
            value: "router.example:3022".into(),
            protocol: "tls".into(),
            hostname: "router.example".into(),
            port: 3022,
        };
        let listener = edge::EdgeListener {
            address: Some(advertise.clone()),
            advertise: Some(advertise),
        };
        let client_hello = edge::ClientHello {
            version: "v1.1.15".into(),
            hostname: "router.example".into(),
            listeners: vec![listener],
            ..Default::default()
        };
        let answer = Builder::reply(content::CLIENT_HELLO, hello);
        let answer = if has_data_model {
            answer.flag(key::DATA_MODEL, true)
        } else {
            answer
        };
        self.send(answer.body(&client_hello.encode_to_vec())).await;
    }

    /// Reports its listener although it was not asked.
    pub async fn hello_unasked(&mut self) {
        self.answer_hello(&Builder::new(content::SERVER_HELLO).empty(), true)
            .await;
    }

    /// Waits for a full state.
    pub async fn full_state(&mut self) -> Vec<edge::ApiSession> {
        let mut sessions = Vec::new();
        loop {
            let frame = self.next_of(content::API_SESSION_ADDED).await;
            let part = edge::ApiSessionAdded::decode(frame.body()).unwrap();
            if !part.is_full_state {
                continue;
            }
            sessions.extend(part.api_sessions);
            let state: Json =
                serde_json::from_slice(frame.header(key::SYNC_STATE).unwrap()).unwrap();
            if state["isLast"] == true {
                self.gained.clear();
                return sessions;
            }
        }
    }

    /// Requests a terminator for a session. Returns the answer.
    pub async fn bind(
        &mut self,
        id: &str,
        token: &str,
        fingerprint: &str,
    ) -> edge::CreateTerminatorResponse {
        let answer = self
            .ask(
                bind_request(id, token, fingerprint),
                content::CREATE_TERMINATOR_RESPONSE,
            )
            .await;
        edge::CreateTerminatorResponse::decode(answer.body()).unwrap()
    }

    /// Requests a circuit; the answer comes later.
    pub async fn dial(&mut self, token: &str, fingerprint: &str) -> i32 {
        let frame = Builder::new(content::CREATE_CIRCUIT)
            .bytes(
                key::PEER_DATA,
                &value::of_bytes_by_number(&[(1008, "caller")]),
            )
            .text(key::SESSION_TOKEN, token)
            .bytes(key::FINGERPRINTS, &value::of_texts(&[fingerprint]))
            .text(key::INSTANCE, "");
        self.send(frame.empty()).await
    }

    /// The next route, answered with success.
    pub async fn accept_route(&mut self) -> fabric::Route {
        let frame = self.next_of(content::ROUTE).await;
        let route = fabric::Route::decode(frame.body()).unwrap();
        let result = Builder::reply(content::ROUTE_RESULT, &frame)
            .u32(key::ROUTE_ATTEMPT, route.attempt)
            .flag(key::ROUTE_SUCCESS, true);
        self.send(result.body(route.circuit_id.as_bytes())).await;
        route
    }

    /// Opens a circuit. Returns its id.
    pub async fn circuit(&mut self, token: &str, fingerprint: &str) -> String {
        let request = self.dial(token, fingerprint).await;
        let route = self.accept_route().await;
        let answer = self.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(
            answer.text(key::CIRCUIT_ID),
            Some(route.circuit_id.as_str())
        );
        route.circuit_id
    }

    /// The code and text of a refused dial.
    pub async fn refused(&mut self, token: &str, fingerprint: &str) -> (u32, String) {
        let request = self.dial(token, fingerprint).await;
        let answer = self.next_of(content::ERROR).await;
        assert_eq!(answer.reply_for(), Some(request));
        (
            answer.u32(key::ERROR_CODE).unwrap(),
            String::from_utf8_lossy(answer.body()).into_owned(),
        )
    }

    /// Reports a fault. A lost link has the iteration that a mock reports.
    pub async fn fault(&mut self, subject: fabric::FaultSubject, id: &str) {
        let is_of_link = matches!(
            subject,
            fabric::FaultSubject::Link | fabric::FaultSubject::LinkDuplicate
        );
        let fault = fabric::Fault {
            subject: subject.into(),
            id: id.into(),
            iteration: u32::from(is_of_link),
        };
        self.send(Builder::new(content::FAULT).body(&fault.encode_to_vec()))
            .await;
    }
}
