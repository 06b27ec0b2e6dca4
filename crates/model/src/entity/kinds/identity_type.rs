//! Identity types. There are two, made at the first start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Field, Kind, Lookup, Record, Stateful};
use crate::error::Result;

/// A type of identity.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdentityType {
    pub name: String,
}

/// An identity type in responses.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IdentityTypeDetail")]
pub struct View {
    name: String,
}

impl Stateful for IdentityType {
    type State = ();
}

impl Entity for IdentityType {
    const KIND: Kind = Kind {
        name: "identityType",
        path: "identity-types",
        noun: "identity type",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::every("name", |r| (&r.spec.name).into())];
    type View = View;

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        Ok(View {
            name: record.spec.name.clone(),
        })
    }
}
