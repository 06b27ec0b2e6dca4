//! Configs: settings that services carry for the clients that use or host them.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::entity::{
    ConfigType, Document, Entity, EntityRef, Field, Id, IdPath, Kind, Lookup, OnDelete, Record,
    Reference, Stateful, TypedLookup,
};
use crate::{
    error::{Error, Result},
    schema::Checker,
};

/// Settings of one config type.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    pub name: String,
    pub config_type_id: Id<ConfigType>,
    /// Valid under the schema of the config type.
    #[schemars(schema_with = "crate::entity::value::object", extend("examples" = [{ "protocol": "tcp", "address": "localhost", "port": 5432 }]))]
    pub data: Document,
}

/// A config in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConfigDetail")]
pub struct View {
    name: String,
    config_type: EntityRef,
    config_type_id: Id<ConfigType>,
    #[schemars(with = "Json")]
    data: Document,
}

impl Stateful for Config {
    type State = ();
}

impl Entity for Config {
    const KIND: Kind = Kind {
        name: "config",
        path: "configs",
        noun: "config",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::indexed("type", Type::Text, |r| {
            r.spec.config_type_id.as_str().into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::with_paths::<ConfigType>(
        "type",
        &[IdPath::Ids("configTypeId")],
        |r| vec![r.spec.config_type_id.as_str()],
        OnDelete::Restrict,
    )];
    const FIXED: &'static [&'static str] = &["configTypeId"];
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let unknown =
            || Error::invalid("type", "no such config type", self.config_type_id.as_str());
        let of = lookup.find(&self.config_type_id)?.ok_or_else(unknown)?;
        let Some(schema) = of.spec.schema.filter(|s| !s.0.is_empty()) else {
            return Ok(());
        };
        let checker = Checker::foreign(&Json::Object(schema.0))
            .map_err(|error| Error::invalid("type", error.to_string(), of.spec.name))?;
        checker.check_data(&Json::Object(self.data.0.clone()))
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            config_type_id,
            data,
        } = record.spec.clone();
        let of = lookup.get(&config_type_id)?;
        Ok(View {
            name,
            config_type: EntityRef::of(&of, &of.spec.name),
            config_type_id,
            data,
        })
    }
}
