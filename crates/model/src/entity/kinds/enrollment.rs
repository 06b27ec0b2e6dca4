//! Enrollments: one-time tokens with which an identity or a router gets its credential.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Ca, EdgeRouter, Entity, EntityRef, Field, Id, Identity, Kind, Logged, Lookup, OnDelete, Record,
    Reference, Stateful, TransitRouter, TypedLookup, authenticator::check_username,
};
use crate::{clock::Timestamp, error::Result};

/// An unused one-time token. Requests do not write it directly, and it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enrollment {
    pub method: Method,
    /// The secret that entitles its holder to the credential.
    pub token: String,
    pub expires_at: Timestamp,
    /// The token as a signed JWT, which names the controller.
    pub jwt: String,
    /// The identity or router that gets the credential; exactly one of the three is set.
    pub identity_id: Option<Id<Identity>>,
    pub edge_router_id: Option<Id<EdgeRouter>>,
    pub transit_router_id: Option<Id<TransitRouter>>,
    /// For `ottca`: the CA that must have issued the certificate.
    pub ca_id: Option<Id<Ca>>,
    /// For `updb`: the user name that the password is for.
    pub username: Option<String>,
}

impl Enrollment {
    /// An enrollment of an identity, without a token yet.
    pub fn of_identity(method: Method, id: Id<Identity>) -> Self {
        Self {
            identity_id: Some(id),
            ..Self::blank(method)
        }
    }

    /// An enrollment of an edge router, without a token yet.
    pub fn of_edge_router(id: Id<EdgeRouter>) -> Self {
        Self {
            edge_router_id: Some(id),
            ..Self::blank(Method::ErOtt)
        }
    }

    /// An enrollment of a transit router, without a token yet.
    pub fn of_transit_router(id: Id<TransitRouter>) -> Self {
        Self {
            transit_router_id: Some(id),
            ..Self::blank(Method::TrOtt)
        }
    }

    /// The id of the identity or router that gets the credential.
    pub fn subject(&self) -> &str {
        let identity = self.identity_id.as_ref().map(Id::as_str);
        let router = || {
            self.edge_router_id
                .as_ref()
                .map(Id::as_str)
                .or(self.transit_router_id.as_ref().map(Id::as_str))
        };
        identity.or_else(router).unwrap_or_default()
    }

    /// The name of that identity or router; its id if it was deleted.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub fn subject_name(&self, lookup: &dyn Lookup) -> Result<String> {
        let name = match self {
            Self {
                identity_id: Some(id),
                ..
            } => lookup.find(id)?.map(|identity| identity.spec.name),
            Self {
                edge_router_id: Some(id),
                ..
            } => lookup.find(id)?.map(|router| router.spec.name),
            Self {
                transit_router_id: Some(id),
                ..
            } => lookup.find(id)?.map(|router| router.spec.name),
            _ => None,
        };
        Ok(name.unwrap_or_else(|| self.subject().to_owned()))
    }

    const fn blank(method: Method) -> Self {
        Self {
            method,
            token: String::new(),
            expires_at: Timestamp::ZERO_TIME,
            jwt: String::new(),
            identity_id: None,
            edge_router_id: None,
            transit_router_id: None,
            ca_id: None,
            username: None,
        }
    }
}

/// The credential that the token gives: a certificate of the controller (`ott`), one of a
/// third-party CA (`ottca`), a password (`updb`), or the certificates of an edge router (`erott`)
/// or transit router (`trott`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "EnrollmentMethod")]
pub enum Method {
    Ott,
    OttCa,
    Updb,
    ErOtt,
    TrOtt,
}

impl Method {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ott => "ott",
            Self::OttCa => "ottca",
            Self::Updb => "updb",
            Self::ErOtt => "erott",
            Self::TrOtt => "trott",
        }
    }
}

/// An enrollment in responses to administrators.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EnrollmentDetail")]
pub struct View {
    method: Method,
    token: String,
    expires_at: Timestamp,
    jwt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity_id: Option<Id<Identity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<EntityRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edge_router_id: Option<Id<EdgeRouter>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edge_router: Option<EntityRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transit_router_id: Option<Id<TransitRouter>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transit_router: Option<EntityRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_id: Option<Id<Ca>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
}

impl Stateful for Enrollment {
    type State = ();
}

impl Entity for Enrollment {
    const KIND: Kind = Kind {
        name: "enrollment",
        path: "enrollments",
        noun: "enrollment",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("token", Type::Text, |r| (&r.spec.token).into()),
        Field::indexed("identity", Type::Text, |r| text(&r.spec.identity_id).into()),
        Field::indexed("edgeRouter", Type::Text, |r| {
            text(&r.spec.edge_router_id).into()
        }),
        Field::indexed("transitRouter", Type::Text, |r| {
            text(&r.spec.transit_router_id).into()
        }),
        Field::indexed("caId", Type::Text, |r| text(&r.spec.ca_id).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Identity>(
            "identity",
            |r| text(&r.spec.identity_id).into_iter().collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<EdgeRouter>(
            "edgeRouter",
            |r| text(&r.spec.edge_router_id).into_iter().collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<TransitRouter>(
            "transitRouter",
            |r| text(&r.spec.transit_router_id).into_iter().collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<Ca>(
            "caId",
            |r| text(&r.spec.ca_id).into_iter().collect(),
            OnDelete::Cascade,
        ),
    ];
    const ENDS_BY: &'static [&'static str] = &["caId"];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/token", "/jwt"],
        quiet: &[],
    };
    type View = View;

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        self.username.as_deref().map_or(Ok(()), check_username)
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        let Self {
            identity_id,
            edge_router_id,
            transit_router_id,
            ..
        } = &record.spec;
        let subjects = [
            identity_id.is_some(),
            edge_router_id.is_some(),
            transit_router_id.is_some(),
        ];
        (subjects.into_iter().filter(|set| *set).count() != 1)
            .then_some("does not belong to exactly one identity or router")
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            method,
            token,
            expires_at,
            jwt,
            identity_id,
            edge_router_id,
            transit_router_id,
            ca_id,
            username,
        } = record.spec.clone();
        Ok(View {
            method,
            token,
            expires_at,
            jwt,
            identity: named(identity_id.as_ref(), lookup, |r| &r.spec.name)?,
            edge_router: named(edge_router_id.as_ref(), lookup, |r| &r.spec.name)?,
            transit_router: named(transit_router_id.as_ref(), lookup, |r| &r.spec.name)?,
            identity_id,
            edge_router_id,
            transit_router_id,
            ca_id,
            username,
        })
    }
}

fn text<E>(id: &Option<Id<E>>) -> Option<&str> {
    id.as_ref().map(Id::as_str)
}

fn named<E: Entity>(
    id: Option<&Id<E>>,
    lookup: &dyn Lookup,
    name: fn(&Record<E>) -> &str,
) -> Result<Option<EntityRef>> {
    let Some(id) = id else { return Ok(None) };
    let record = lookup.get(id)?;
    Ok(Some(EntityRef::of(&record, name(&record))))
}
