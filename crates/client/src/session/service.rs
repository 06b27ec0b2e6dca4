//! Services as an identity sees them, and what it offers to those that dial them.

use std::collections::BTreeMap;

use model::entity::Precedence;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::{controller::or_default, posture::PosturePolicy};

/// A service, as its identity sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub id: String,
    pub name: String,
    /// Whether both ends encrypt what they send.
    #[serde(default)]
    pub encryption_required: bool,
    #[serde(default, deserialize_with = "or_default")]
    permissions: Vec<String>,
    /// Its configs, by the names of their types.
    #[serde(default, deserialize_with = "or_default")]
    pub config: BTreeMap<String, Json>,
    #[serde(rename = "postureQueries", default, deserialize_with = "or_default")]
    pub(crate) posture: Vec<PosturePolicy>,
}

impl Service {
    /// Whether the identity that sees the service may do this with it.
    pub fn grants(&self, right: Right) -> bool {
        self.permissions.iter().any(|one| one == right.name())
    }
}

/// What an identity may do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    Dial,
    Bind,
}

impl Right {
    /// In requests and answers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dial => "Dial",
            Self::Bind => "Bind",
        }
    }

    /// For people.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Bind => "host",
        }
    }
}

/// What a host says about a terminator that it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// A name of the listener, which stays the same through reconnects.
    pub listener: String,
    /// The identity of the terminator, by which it can be dialed.
    pub terminator: Option<String>,
    pub cost: u16,
    pub precedence: Precedence,
}

impl Offer {
    /// A terminator that is like any other one.
    pub fn new(listener: String) -> Self {
        Self {
            listener,
            terminator: None,
            cost: 0,
            precedence: Precedence::Default,
        }
    }
}
