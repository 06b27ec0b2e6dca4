//! Config types: the schemas of configs.

use query::{Type, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{Document, Entity, Field, Kind, Lookup, Record, Stateful};
use crate::{
    error::{Error, Result},
    schema::Checker,
};

/// A name under which services carry settings, and a JSON schema for the settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConfigType {
    pub name: String,
    /// A JSON schema whose root type is `object`; without one, every object is accepted.
    #[serde(default)]
    #[schemars(schema_with = "crate::entity::value::object")]
    pub schema: Option<Document>,
}

/// A config type in responses.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigTypeDetail")]
pub struct View {
    name: String,
    #[schemars(with = "Option<serde_json::Value>")]
    schema: Option<Document>,
}

impl ConfigType {
    /// The word that means every config type, in what clients and routers ask for. No type has this
    /// name.
    pub const ALL: &'static str = "all";
}

impl Stateful for ConfigType {
    type State = ();
}

impl Entity for ConfigType {
    const KIND: Kind = Kind {
        name: "configType",
        path: "config-types",
        noun: "config type",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("schema", Type::Text, |r| text(r.spec.schema.as_ref())),
    ];
    type View = View;

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        if self.name == Self::ALL {
            return Err(Error::invalid("name", "is a reserved word", Self::ALL));
        }
        let Some(schema) = self.schema.as_ref().filter(|s| !s.0.is_empty()) else {
            return Ok(());
        };
        let refuse = |reason: String| Error::invalid("schema", reason, "");
        if schema.0.get("type").and_then(|t| t.as_str()) != Some("object") {
            return Err(refuse("the root type must be object".into()));
        }
        Checker::foreign(&serde_json::Value::Object(schema.0.clone()))
            .map(|_| ())
            .map_err(|error| refuse(error.to_string()))
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self { name, schema } = record.spec.clone();
        Ok(View { name, schema })
    }
}

fn text(schema: Option<&Document>) -> Value<'_> {
    schema.and_then(|s| serde_json::to_string(s).ok()).into()
}
