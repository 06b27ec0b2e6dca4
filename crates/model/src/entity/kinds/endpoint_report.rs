//! Endpoint reports: what the endpoint of an API session last said about itself. Clients report a
//! value only when it changes, so that a restart must not forget it.

use std::sync::Arc;

use query::Type;
use serde::{Deserialize, Serialize};

use crate::entity::{
    ApiSession, Entity, Field, Id, Kind, Logged, Lookup, OnDelete, Record, Reference, Stateful,
};
use crate::{clock::Timestamp, error::Result};

/// The reports of one API session, whose id the record has. Requests do not write it directly.
/// There is no `Debug`, because the values are nobody's business but the administrators'.
#[derive(Clone, Serialize, Deserialize)]
pub struct EndpointReport {
    pub api_session_id: Id<ApiSession>,
    /// How often the data file had been restored when it was written: reports from before the last
    /// restore do not count.
    pub restorations: u64,
    pub os: Option<Answered<Os>>,
    pub domain: Option<Answered<String>>,
    pub addresses: Option<Answered<Vec<String>>>,
    /// By posture check.
    pub processes: Vec<Answered<Process>>,
    /// By path.
    pub paths: Vec<Answered<(String, Process)>>,
    /// When a one-time code was last accepted in the session.
    pub passed: Option<Moment>,
    pub woken: Option<Moment>,
    pub unlocked: Option<Moment>,
}

/// An answer and the check that it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answered<T> {
    /// The id given in the answer; the check need not exist.
    pub check: String,
    pub at: Timestamp,
    pub what: T,
    /// The API session that it was given in. A record holds those of one session only.
    #[serde(skip)]
    pub session: Arc<str>,
}

/// An operating system, as the endpoint names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Os {
    pub os_type: String,
    pub version: String,
    pub build: String,
}

/// The state of a process. Digits are lower-case hexadecimal without separators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub is_running: bool,
    pub hash: String,
    pub signers: Vec<String>,
}

/// A moment from which times count.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The date that the host's clock showed.
    pub shown: Timestamp,
    /// The date by the host's clock at the time of writing, minus the age. The two differ if the
    /// clock was set in between.
    pub at: Timestamp,
}

impl EndpointReport {
    /// No reports of an API session.
    pub fn blank(api_session_id: Id<ApiSession>, restorations: u64) -> Self {
        let (processes, paths) = (Vec::new(), Vec::new());
        let (os, domain, addresses, passed, woken, unlocked) = (None, None, None, None, None, None);
        Self {
            api_session_id,
            restorations,
            os,
            domain,
            addresses,
            processes,
            paths,
            passed,
            woken,
            unlocked,
        }
    }

    /// Whether it says nothing.
    pub fn is_blank(&self) -> bool {
        let Self {
            os,
            domain,
            addresses,
            processes,
            paths,
            passed,
            woken,
            unlocked,
            ..
        } = self;
        let is_silent = os.is_none()
            && domain.is_none()
            && addresses.is_none()
            && processes.is_empty()
            && paths.is_empty();
        is_silent && passed.is_none() && woken.is_none() && unlocked.is_none()
    }

    /// About as many bytes as it takes.
    pub fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let process = |check: &str, signers: &[String]| check.len() + texts(signers) + 256;
        let processes = self
            .processes
            .iter()
            .map(|answer| process(&answer.check, &answer.what.signers))
            .sum::<usize>();
        let paths = self
            .paths
            .iter()
            .map(|answer| answer.what.0.len() + process(&answer.check, &answer.what.1.signers))
            .sum::<usize>();
        processes
            + paths
            + self
                .addresses
                .iter()
                .map(|answer| texts(&answer.what))
                .sum::<usize>()
            + 1024
    }
}

impl Process {
    /// The bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.hash.len() + self.signers.iter().map(String::len).sum::<usize>()
    }
}

impl Stateful for EndpointReport {
    type State = ();
}

impl Entity for EndpointReport {
    const KIND: Kind = Kind {
        name: "endpointReport",
        path: "endpoint-reports",
        noun: "endpoint report",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::indexed("apiSession", Type::Text, |r| {
        r.spec.api_session_id.as_str().into()
    })];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::to::<ApiSession>(
        "apiSession",
        |r| vec![r.spec.api_session_id.as_str()],
        OnDelete::Cascade,
    )];
    const ENDS_BY: &'static [&'static str] = &["apiSession"];
    const LOGGED: Logged = Logged::Nothing;
    type View = ();

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        (record.id.as_str() != record.spec.api_session_id.as_str())
            .then_some("is about another API session than its id says")
    }

    /// No list shows it: `GET /identities/{id}/posture-data` shows the reports of an identity.
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}
