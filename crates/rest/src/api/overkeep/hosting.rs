//! Who hosts each service, since when nobody does, and which dials failed.

use model::{
    clock::Timestamp,
    entity::{Id, Record, Roles, Service, Terminator, TypedLookup},
    error::Result,
};
use policy::hosting::{Absence, DialReason, FailedDials, HostKey, Hosting, Standing, live_hosts};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::names::{Named, RecordNames};
use crate::{
    api::common::in_memory_list::{self, Entry, Name},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// The maximum number of hosts, and of hosts with failed dials, of an entry.
const NAMED: usize = 5;

/// Whether a service is hosted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HostingDetail")]
pub(crate) struct ServiceHosting {
    /// The id of the service.
    id: String,
    /// The name of the service.
    name: String,
    role_attributes: Roles,
    /// Whether it is hosted.
    state: HostingState,
    /// The state as a sentence without its end, such as `nobody hosts wiki since
    /// 2026-11-26T22:05:11.000Z` or `wiki is hosted by bob`.
    text: String,
    /// Since when nobody hosts it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// `true`: since this time or earlier; it is that of the start of the controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    or_earlier: bool,
    /// The host that left last, if nobody hosts it and that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_host: Option<Named>,
    /// The first five hosts.
    hosts: Vec<Host>,
    /// The number of all hosts.
    host_count: usize,
    /// The hosts with failed dials, the last failure first; at most five. They are kept in memory.
    failures: Vec<Failures>,
}

/// Whether a service is hosted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "HostingState")]
pub(super) enum HostingState {
    /// It has a host that was reached by its last dial, or that was not dialed.
    Hosted,
    /// It has hosts, and the last dial of each failed.
    Failing,
    /// Nobody hosts it, and somebody did, or it is older than the start of the controller.
    Unhosted,
    /// Nobody has hosted it yet.
    NeverHosted,
}

impl HostingState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hosted => "hosted",
            Self::Failing => "failing",
            Self::Unhosted => "unhosted",
            Self::NeverHosted => "never-hosted",
        }
    }
}

/// A host of a service.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HostingHost")]
struct Host {
    /// The identity; absent for a terminator that an administrator made.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Named>,
    /// The router of its terminators.
    router: Named,
    /// The number of its terminators at this router.
    terminators: usize,
}

/// Failed dials of a service at one host.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HostingFailures")]
struct Failures {
    /// The identity that hosts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Named>,
    /// The id of the terminator that an administrator made. Without it and `identity`: no host was
    /// found.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminator_id: Option<String>,
    /// The router of the last attempt.
    router: Named,
    /// How many dials failed since the last one that succeeded, or since the host bound the service
    /// anew.
    times: u64,
    /// The first of these, or of those before them.
    since: Timestamp,
    /// The last one.
    last: Timestamp,
    /// When a dial succeeded after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    succeeded: Option<Timestamp>,
    /// Why, the last reason first; at most four are kept.
    reasons: Vec<DialReason>,
}

const NAMES: &[Name<ServiceHosting>] = &[
    Name("id", Type::Text, |one| one.id.as_str().into()),
    Name("name", Type::Text, |one| one.name.as_str().into()),
    Name("roleAttributes", Type::Set, |one| {
        (&one.role_attributes).into()
    }),
    Name("state", Type::Text, |one| one.state.as_str().into()),
    Name("since", Type::Date, |one| {
        one.since
            .map_or(Value::Null, |since| Value::Date(since.millis()))
    }),
];

impl Entry for ServiceHosting {
    const NAMES: &'static [Name<Self>] = NAMES;
    fn id(&self) -> &str {
        &self.id
    }
}

impl ServiceHosting {
    /// An entry without hosts and failures, for filters and sorts.
    fn brief(service: Record<Service>, hosting: &Hosting) -> Self {
        let standing = hosting.standing(&service);
        let (since, or_earlier) = match &standing {
            Standing::Unhosted(Absence::Since(at), _) => (Some(*at), false),
            Standing::Unhosted(Absence::BeforeStart, _) | Standing::Unseen => {
                (Some(hosting.started()), true)
            }
            Standing::Hosted | Standing::New => (None, false),
        };
        let state = match standing {
            Standing::Hosted if hosting.is_failing(service.id.as_str()) => HostingState::Failing,
            Standing::Hosted => HostingState::Hosted,
            Standing::Unhosted(..) | Standing::Unseen => HostingState::Unhosted,
            Standing::New => HostingState::NeverHosted,
        };
        let text = hosting
            .absence_text(&standing, &service.spec.name)
            .unwrap_or_default();
        let (id, name, role_attributes) = (
            service.id.to_string(),
            service.spec.name,
            service.spec.role_attributes,
        );
        let (hosts, failures) = (Vec::new(), Vec::new());
        Self {
            id,
            name,
            role_attributes,
            state,
            text,
            since,
            or_earlier,
            last_host: None,
            hosts,
            host_count: 0,
            failures,
        }
    }

    /// The entry of a service; `None` if there is no such service.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(super) fn find(tx: &Read<'_>, hosting: &Hosting, id: &str) -> Result<Option<Self>> {
        let service = tx.find(&Id::<Service>::from_text(id))?;
        service
            .map(|service| Self::whole(service, hosting, &RecordNames::of(tx), tx))
            .transpose()
    }

    fn whole(
        service: Record<Service>,
        hosting: &Hosting,
        names: &RecordNames<'_>,
        tx: &Read<'_>,
    ) -> Result<Self> {
        let last = match hosting.standing(&service) {
            Standing::Unhosted(_, last) => last,
            _ => None,
        };
        let mut entry = Self::brief(service, hosting);
        entry.last_host = last
            .map(|last| named(&last, names, tx))
            .transpose()?
            .filter(|last| !last.name.is_empty());
        let hosts = live_hosts(tx, &entry.id)?;
        entry.host_count = hosts.len();
        for host in hosts.into_iter().take(NAMED) {
            let identity = host
                .host
                .identity()
                .map(|id| names.identity(id.to_owned()))
                .transpose()?;
            entry.hosts.push(Host {
                identity,
                router: names.router(host.router)?,
                terminators: host.terminators,
            });
        }
        if !entry.hosts.is_empty() {
            let name = |host: &Host| {
                host.identity.as_ref().map_or_else(
                    || format!("a terminator on {}", host.router.name),
                    |one| one.name.clone(),
                )
            };
            let mut by: Vec<String> = entry.hosts.iter().map(name).collect();
            by.dedup();
            let more = if entry.host_count > NAMED {
                " and more"
            } else {
                ""
            };
            entry.text = format!("{} is hosted by {}{more}", entry.name, by.join(", "));
        }
        for failed in hosting.failed_dials(&entry.id).into_iter().take(NAMED) {
            entry.failures.push(Failures::of(failed, names)?);
        }
        Ok(entry)
    }
}

impl Failures {
    fn of(failed: FailedDials, names: &RecordNames<'_>) -> Result<Self> {
        let FailedDials {
            host,
            router,
            failures,
            first,
            last,
            succeeded,
            reasons,
        } = failed;
        let (identity, terminator_id) = match host {
            Some(HostKey::Identity(id)) => (Some(names.identity(id.to_string())?), None),
            Some(HostKey::Terminator(id)) => (None, Some(id.to_string())),
            None => (None, None),
        };
        Ok(Self {
            identity,
            terminator_id,
            router: names.router(router)?,
            times: failures,
            since: first,
            last,
            succeeded,
            reasons,
        })
    }
}

/// An identity, or the router of a terminator.
fn named(host: &HostKey, names: &RecordNames<'_>, tx: &Read<'_>) -> Result<Named> {
    match host {
        HostKey::Identity(id) => names.identity(id.to_string()),
        HostKey::Terminator(id) => {
            let terminator = tx.find(&Id::<Terminator>::from_text(&**id))?;
            terminator.map_or_else(
                || Ok(Named::default()),
                |terminator| names.router(terminator.spec.router),
            )
        }
    }
}

/// GET /hosting
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<ServiceHosting>> {
    let (hosting, same) = (
        call.state.network.hosting.clone(),
        call.state.network.hosting.clone(),
    );
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(ServiceHosting)| {
        tx.each_readable::<Service>(|service| {
            found(ServiceHosting::brief(service, &hosting));
            Ok(())
        })
    };
    let one = move |tx: &Read<'_>, id: &str| ServiceHosting::find(tx, &same, id);
    in_memory_list::list(&call, listing, each, one).await
}
