//! Posture check types: what can be required of an endpoint, and on which operating systems. Made
//! at the first start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Field, Kind, Lookup, OperatingSystem, Record, Stateful};
use crate::error::Result;

/// A type of requirement on endpoints.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostureCheckType {
    pub name: String,
    /// The operating systems that support it.
    pub(crate) operating_systems: Vec<OperatingSystem>,
}

/// A posture check type in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureCheckTypeDetail")]
pub struct View {
    name: String,
    operating_systems: Vec<OperatingSystem>,
    /// Never set.
    version: Option<String>,
}

impl Stateful for PostureCheckType {
    type State = ();
}

impl Entity for PostureCheckType {
    const KIND: Kind = Kind {
        name: "postureCheckType",
        path: "posture-check-types",
        noun: "posture check type",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::every("name", |r| (&r.spec.name).into())];
    type View = View;

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            operating_systems,
        } = record.spec.clone();
        Ok(View {
            name,
            operating_systems,
            version: None,
        })
    }
}
