//! Controllers of a group. A controller that runs alone, as all do at present, lists none.

use std::collections::BTreeMap;

use query::{Type, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Field, Kind, Lookup, Record, Stateful, value::other_certificate};
use crate::{clock::Timestamp, error::Result};

/// A member of a group of controllers. Requests do not write it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    pub name: String,
    pub cert_pem: String,
    pub fingerprint: String,
    pub is_online: bool,
    pub(crate) last_joined_at: Timestamp,
    /// The address for the other controllers.
    pub(crate) ctrl_address: Option<String>,
    /// The addresses for clients, by interface.
    pub(crate) api_addresses: BTreeMap<String, Vec<ApiAddress>>,
}

/// The address of an interface of a controller.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApiAddress {
    url: String,
    version: String,
}

/// A controller in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ControllerDetail")]
pub struct View {
    name: String,
    cert_pem: String,
    fingerprint: String,
    is_online: bool,
    last_joined_at: Timestamp,
    ctrl_address: Option<String>,
    api_addresses: BTreeMap<String, Vec<ApiAddress>>,
}

impl Stateful for Controller {
    type State = ();
}

impl Entity for Controller {
    const KIND: Kind = Kind {
        name: "controller",
        path: "controllers",
        noun: "controller",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("certPem", Type::Text, |r| (&r.spec.cert_pem).into()),
        Field::unique("fingerprint", Type::Text, |r| (&r.spec.fingerprint).into()),
        Field::plain("isOnline", Type::Bool, |r| r.spec.is_online.into()),
        Field::plain("lastJoinedAt", Type::Date, |r| {
            Value::Date(r.spec.last_joined_at.millis())
        }),
        Field::plain("ctrlAddress", Type::Text, |r| {
            r.spec.ctrl_address.as_ref().into()
        }),
    ];
    type View = View;

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        other_certificate(&record.spec.fingerprint, &record.spec.cert_pem)
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            cert_pem,
            fingerprint,
            is_online,
            last_joined_at,
            ctrl_address,
            api_addresses,
        } = record.spec.clone();
        Ok(View {
            name,
            cert_pem,
            fingerprint,
            is_online,
            last_joined_at,
            ctrl_address,
            api_addresses,
        })
    }
}
