//! A simulated router that remembers what it is told, as unmodified routers do: API sessions, ended
//! sessions, circuits, other routers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use prost::Message;
use serde_json::Value as Json;
use wire::{
    control::{
        content, edge,
        fabric::{self, PeerState},
        key,
    },
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::mock::{Enrolled, MockRouter, PATIENCE};
use crate::harness::TestServer;

/// The id, the identity and the certificates of API sessions, by token.
pub type ApiSessions = BTreeMap<String, (String, String, BTreeSet<String>)>;

/// What a router was told.
#[derive(Default)]
pub struct Told {
    pub api_sessions: ApiSessions,
    /// The parts of a full state that has not ended.
    coming: ApiSessions,
    full_states: usize,
    /// The sessions with which SDKs dialed or hosted and their API sessions, by their ids, unless
    /// the router was told that one of both has ended.
    pub sessions: BTreeMap<String, String>,
    pub ended_sessions: BTreeSet<String>,
    /// The terminator of each circuit, if the circuit ends here.
    pub circuits: BTreeMap<String, Option<String>>,
    /// The other routers that are connected.
    pub peers: BTreeSet<String>,
    /// By the sequence number of the request.
    answers: HashMap<i32, Frame>,
}

/// A router that is connected or not.
pub struct FollowingRouter {
    pub enrolled: Enrolled,
    pub connection: Option<MockRouter>,
    pub told: Told,
    /// The terminators that it hosts.
    pub hosted: BTreeSet<String>,
}

impl FollowingRouter {
    pub fn new(enrolled: Enrolled) -> Self {
        Self {
            enrolled,
            connection: None,
            told: Told::default(),
            hosted: BTreeSet::new(),
        }
    }

    /// Connects and takes the full state. With `is_new`, it is another process, without circuits
    /// and terminators.
    pub async fn connect(&mut self, server: &TestServer, is_new: bool) {
        if is_new {
            self.told = Told::default();
            self.hosted.clear();
        }
        let connection = if is_new {
            self.enrolled.connect(server).await
        } else {
            self.enrolled.reconnect(server).await
        };
        self.connection = Some(connection);
        self.told.peers.clear();
        self.told.coming.clear();
        self.told.answers.clear();
        let (before, began) = (self.told.full_states, Instant::now());
        while self.told.full_states == before {
            assert!(began.elapsed() < PATIENCE, "no full state");
            self.drain().await;
        }
        let request = edge::ValidateSessions {
            session_tokens: self.told.sessions.keys().cloned().collect(),
        };
        self.connection()
            .send(Builder::new(content::VALIDATE_SESSIONS).body(&request.encode_to_vec()))
            .await;
    }

    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub fn connection(&mut self) -> &mut MockRouter {
        self.connection.as_mut().expect("a connected router")
    }

    /// The answer to a request, if it has come.
    pub fn answer(&mut self, request: i32) -> Option<Frame> {
        self.told.answers.remove(&request)
    }

    /// Handles everything that the controller has queued for it until now.
    pub async fn drain(&mut self) {
        if !self.is_connected() {
            return;
        }
        let ping = self
            .connection()
            .send(Builder::new(common::PING).empty())
            .await;
        while self.answer(ping).is_none() {
            let frame = self
                .connection()
                .next()
                .await
                .expect("the connection stays");
            self.take(frame).await;
        }
    }

    /// Handles everything that the controller sends until it closes the connection.
    pub async fn drain_to_end(&mut self) {
        while let Some(frame) = self.connection().next().await {
            self.take(frame).await;
        }
        self.connection = None;
    }

    async fn take(&mut self, frame: Frame) {
        let Self {
            connection,
            told,
            hosted,
            ..
        } = self;
        let connection = connection.as_mut().unwrap();
        if let Some(clock) = frame.u64(common_key::HEARTBEAT) {
            connection
                .send(
                    Builder::new(common::HEARTBEAT)
                        .u64(common_key::HEARTBEAT_ECHO, clock)
                        .empty(),
                )
                .await;
        }
        match frame.content_type() {
            content::SERVER_HELLO => connection.answer_hello(&frame, false).await,
            content::API_SESSION_ADDED => told.add(&frame),
            content::API_SESSION_UPDATED => {
                let updated = edge::ApiSessionUpdated::decode(frame.body()).unwrap();
                told.api_sessions
                    .extend(updated.api_sessions.into_iter().map(entry));
            }
            content::API_SESSION_REMOVED => {
                let removed = edge::Removed::decode(frame.body()).unwrap();
                // The connection of its SDK is closed, and what rests on it has ended.
                for (ended, ..) in removed
                    .tokens
                    .iter()
                    .filter_map(|token| told.api_sessions.remove(token))
                {
                    told.sessions.retain(|_, api_session| *api_session != ended);
                }
            }
            content::SESSION_REMOVED => {
                let removed = edge::Removed::decode(frame.body()).unwrap();
                told.sessions.retain(|id, _| !removed.ids.contains(id));
                told.ended_sessions.extend(removed.ids);
            }
            content::PEER_STATE_CHANGES => {
                for peer in fabric::PeerStateChanges::decode(frame.body())
                    .unwrap()
                    .changes
                {
                    match peer.state() {
                        PeerState::Healthy => told.peers.insert(peer.id),
                        _ => told.peers.remove(&peer.id),
                    };
                }
            }
            content::ROUTE => {
                let route = fabric::Route::decode(frame.body()).unwrap();
                let result = Builder::reply(content::ROUTE_RESULT, &frame)
                    .u32(key::ROUTE_ATTEMPT, route.attempt);
                connection
                    .send(
                        result
                            .flag(key::ROUTE_SUCCESS, true)
                            .body(route.circuit_id.as_bytes()),
                    )
                    .await;
                // The route of another path names no terminator.
                let terminator = told.circuits.entry(route.circuit_id).or_default();
                *terminator = route
                    .egress
                    .map(|egress| egress.destination)
                    .or(terminator.take());
            }
            content::UNROUTE => {
                let unroute = fabric::Unroute::decode(frame.body()).unwrap();
                told.circuits.remove(&unroute.circuit_id);
            }
            content::VALIDATE_TERMINATORS => {
                let asked = fabric::ValidateTerminators::decode(frame.body()).unwrap();
                let states = asked.terminators.into_iter().map(|asked| {
                    let state = fabric::TerminatorState {
                        valid: hosted.contains(&asked.id),
                        ..Default::default()
                    };
                    fabric::TerminatorStateEntry {
                        key: Some(asked.id),
                        value: Some(state),
                    }
                });
                let answer = fabric::ValidateTerminatorsResponse {
                    states: states.collect(),
                };
                let reply = Builder::reply(content::VALIDATE_TERMINATORS_RESPONSE, &frame);
                connection.send(reply.body(&answer.encode_to_vec())).await;
            }
            _ => {}
        }
        if let Some(request) = frame.reply_for() {
            told.answers.insert(request, frame);
        }
    }
}

impl Told {
    fn add(&mut self, frame: &Frame) {
        let added = edge::ApiSessionAdded::decode(frame.body()).unwrap();
        let sessions = added.api_sessions.into_iter().map(entry);
        if !added.is_full_state {
            return self.api_sessions.extend(sessions);
        }
        let state: Json = serde_json::from_slice(frame.header(key::SYNC_STATE).unwrap()).unwrap();
        if state["sequence"] == 0 {
            self.coming.clear();
        }
        self.coming.extend(sessions);
        if state["isLast"] == true {
            self.api_sessions = std::mem::take(&mut self.coming);
            self.full_states += 1;
        }
    }
}

fn entry(session: edge::ApiSession) -> (String, (String, String, BTreeSet<String>)) {
    (
        session.token,
        (
            session.id,
            session.identity_id,
            session.cert_fingerprints.into_iter().collect(),
        ),
    )
}
