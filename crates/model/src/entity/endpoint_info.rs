//! What a client reports about its machine and its software when an identity logs in.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;

/// The machine that an identity last logged in from, as reported by the client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvInfo {
    #[schemars(length(max = 255))]
    pub arch: String,
    #[schemars(length(max = 255))]
    pub os: String,
    #[schemars(length(max = 255))]
    pub os_release: String,
    #[schemars(length(max = 255))]
    pub os_version: String,
    #[schemars(length(max = 253))]
    pub hostname: String,
    #[schemars(length(max = 253))]
    pub domain: String,
}

/// The program and library that an identity last logged in with, as reported by the client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SdkInfo {
    /// The id of the program.
    #[schemars(length(max = 255))]
    pub app_id: String,
    #[schemars(length(max = 255))]
    pub app_version: String,
    #[schemars(length(max = 255))]
    pub branch: String,
    #[schemars(length(max = 255))]
    pub revision: String,
    #[schemars(length(max = 255))]
    pub r#type: String,
    #[schemars(length(max = 255))]
    pub version: String,
}

/// A struct of texts that is written without its empty members.
pub struct Filled<T>(pub T);

impl<T: Serialize> Serialize for Filled<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut whole = serde_json::to_value(&self.0).map_err(serde::ser::Error::custom)?;
        if let Json::Object(members) = &mut whole {
            members.retain(|_, value| value != "");
        }
        whole.serialize(serializer)
    }
}
impl<T: JsonSchema> JsonSchema for Filled<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.remove("required");
        schema
    }
}
