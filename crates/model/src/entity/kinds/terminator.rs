//! Terminators: where a service can be reached, and at which cost.

use base64::{Engine, engine::general_purpose::STANDARD};
use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    EdgeRouter, Entity, EntityRef, Field, Id, Kind, Logged, Lookup, OnDelete, Precedence, Record,
    Reference, Service, Stateful, TransitRouter, TypedLookup,
};
use crate::error::{Error, Result};

/// One way to reach a service: an address behind a router. It holds a secret and has no `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Terminator {
    /// The address that the router connects to, such as `tcp:localhost:80`.
    pub address: String,
    /// How the router handles the address; if empty, `udp` or `transport`, depending on the
    /// address.
    pub binding: String,
    /// The id of an edge or transit router.
    pub router: String,
    pub service: Id<Service>,
    /// Its share of the cost of a path.
    #[serde(default)]
    pub cost: u16,
    #[serde(default)]
    pub precedence: Precedence,
    /// The name of the instance, which a dialing client may ask for. It cannot be changed.
    #[serde(default)]
    pub identity: String,
    /// The secret, in base64, that others need to host under the same instance name. It cannot be
    /// changed and is never shown.
    #[serde(default)]
    #[schemars(extend("format" = "byte"))]
    pub identity_secret: String,
}

/// The part of a record that only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Whether `router` is a transit router.
    pub is_on_transit_router: bool,
    /// The id of the identity that hosts it; empty if an administrator made it.
    pub host_id: String,
}

/// A terminator in responses to administrators.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TerminatorDetail")]
pub struct View {
    address: String,
    binding: String,
    router: EntityRef,
    router_id: String,
    service: EntityRef,
    service_id: Id<Service>,
    cost: u16,
    /// The cost that load and failures add at present.
    pub dynamic_cost: u16,
    precedence: Precedence,
    identity: String,
}

impl Terminator {
    /// The key that all terminators of a service with the same instance name share; an index finds
    /// them by this key.
    pub fn instance_key(&self) -> String {
        format!("{}/{}", self.service, self.identity)
    }

    /// The name of its router, and whether that is a transit router.
    ///
    /// # Errors
    /// There is no such router, or it cannot be read.
    pub fn find_router(&self, lookup: &dyn Lookup) -> Result<(String, bool)> {
        if let Some(edge) = lookup.find(&Id::<EdgeRouter>::from_text(&self.router))? {
            return Ok((edge.spec.name, false));
        }
        match lookup.find(&Id::<TransitRouter>::from_text(&self.router))? {
            Some(transit) => Ok((transit.spec.name, true)),
            None => Err(Error::NotFound {
                kind: "router",
                id: self.router.clone(),
                field: None,
            }),
        }
    }
}

impl Record<Terminator> {
    /// Whether a connection made it; then it is deleted with the connection. An administrator made
    /// the others.
    pub fn is_of_a_connection(&self) -> bool {
        !self.state.host_id.is_empty()
    }
}

impl Stateful for Terminator {
    type State = State;
}

impl Entity for Terminator {
    const KIND: Kind = Kind {
        name: "terminator",
        path: "terminators",
        noun: "terminator",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::plain("binding", Type::Text, |r| (&r.spec.binding).into()),
        Field::plain("address", Type::Text, |r| (&r.spec.address).into()),
        Field::plain("instanceId", Type::Text, |r| (&r.spec.identity).into()),
        Field::plain("hostId", Type::Text, |r| (&r.state.host_id).into()),
        Field::indexed("service", Type::Text, |r| r.spec.service.as_str().into()),
        Field::indexed("router", Type::Text, |r| (&r.spec.router).into()),
        Field::inner("instance", Type::Text, |r| {
            (!r.spec.identity.is_empty())
                .then(|| r.spec.instance_key())
                .into()
        }),
        Field::asked("service.name", Type::Text, |r, lookup| {
            lookup.get(&r.spec.service).ok().map(|s| s.spec.name).into()
        }),
        Field::asked("router.name", Type::Text, |r, lookup| {
            r.spec.find_router(lookup).ok().map(|(name, _)| name).into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Service>(
            "service",
            |r| vec![r.spec.service.as_str()],
            OnDelete::Cascade,
        ),
        Reference::to::<EdgeRouter>("router", |r| of_kind(r, false), OnDelete::Cascade),
        Reference::to::<TransitRouter>("router", |r| of_kind(r, true), OnDelete::Cascade),
    ];
    const FIXED: &'static [&'static str] = &["identity", "identitySecret"];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/identitySecret"],
        quiet: &[],
    };
    type View = View;

    fn is_unlogged(record: &Record<Self>) -> bool {
        record.is_of_a_connection()
    }

    fn tidy(&mut self) {
        if self.binding.trim().is_empty() {
            self.binding = if self.address.starts_with("udp:") {
                "udp"
            } else {
                "transport"
            }
            .into();
        }
    }

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let needed = [
            ("service", self.service.as_str()),
            ("router", &self.router),
            ("address", &self.address),
        ];
        let blank = needed
            .iter()
            .filter(|(_, text)| text.is_empty())
            .map(|(name, _)| Err(Error::invalid(*name, "must not be blank", "")));
        let secret = STANDARD.decode(&self.identity_secret).map(|_| ());
        let secret =
            secret.map_err(|_| Error::Unparseable("identitySecret: must be base64".into()));
        Error::all(blank.chain([secret]))?;
        Error::all([
            lookup.get(&self.service).map(|_| ()),
            self.find_router(lookup).map(|_| ()),
        ])
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            address,
            binding,
            router,
            service,
            cost,
            precedence,
            identity,
            ..
        } = record.spec.clone();
        let (router_name, _) = record.spec.find_router(lookup)?;
        let service = lookup.get(&service)?;
        // A terminator that no connection made has no dynamic cost; a view that reads the cost
        // cannot be cached.
        let dynamic_cost = if record.is_of_a_connection() {
            lookup.dynamic_cost(record.id.as_str())
        } else {
            0
        };
        Ok(View {
            address,
            binding,
            router: EntityRef::new(TransitRouter::KIND, &router, &router_name),
            router_id: router,
            service: EntityRef::of(&service, &service.spec.name),
            service_id: service.id,
            cost,
            dynamic_cost,
            precedence,
            identity,
        })
    }
}

fn of_kind(record: &Record<Terminator>, transit: bool) -> Vec<&str> {
    if record.state.is_on_transit_router == transit {
        vec![&record.spec.router]
    } else {
        Vec::new()
    }
}
