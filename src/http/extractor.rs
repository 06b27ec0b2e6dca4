//! What the functions in the route tables take: each argument describes itself and takes its part of the request.

use std::{marker::PhantomData, sync::Arc};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{
    body::{self, Incoming},
    media_type,
    openapi::operation::{Operation, Parameter, ParameterLocation, Schemas},
};
use crate::{
    change::Draft,
    entity::{Entity, FactsExt, Id, Record},
    error::{Error, Result},
    store::{self, Read},
};

/// An argument of a function in a route table.
pub trait Extractor: Sized + 'static {
    /// What it adds to the operation.
    ///
    /// # Errors
    /// A schema of ours is none, which is a defect.
    fn describe(operation: &mut Operation) -> Result<()>;

    /// Its part of a request.
    ///
    /// # Errors
    /// The request breaks what was described.
    fn take(incoming: &mut Incoming<'_>) -> Result<Self>;
}

impl<E: 'static> Extractor for Id<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        // The path says the name; the document takes it from there.
        let schema = serde_json::json!({ "type": "string" });
        operation.parameters.push(Parameter { name: String::new(), place: ParameterLocation::Path, required: true, schema });
        operation.errors.insert(404);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self::from_text(incoming.next_segment()))
    }
}

/// Query parameters, read into a flat struct. A list takes every value of its name, anything else the first.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Query<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.parameters_of::<T>(ParameterLocation::Query);
        operation.errors.insert(400);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let values = body::query_values(incoming.query, incoming.parameters)?;
        serde_json::from_value(Json::Object(values)).map(Query).map_err(|e| Error::invalid("query", e.to_string(), ""))
    }
}

/// Request headers, read into a flat struct of texts.
pub struct Headers<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Headers<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.parameters_of::<T>(ParameterLocation::Header);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let mut values = Map::new();
        for parameter in incoming.parameters.iter().filter(|p| p.place == ParameterLocation::Header) {
            if let Some(text) = incoming.header(&parameter.name) {
                values.insert(parameter.name.clone(), text.into());
            }
        }
        serde_json::from_value(Json::Object(values)).map(Headers).map_err(|e| Error::invalid("header", e.to_string(), ""))
    }
}

/// What the sender believes the record to be: the entity tags of `If-Match` (RFC 9110 section 13.1.1). Never demanded.
pub struct IfMatch(pub Option<String>);

impl Extractor for IfMatch {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = serde_json::json!({ "type": "string" });
        operation.parameters.push(Parameter { name: "If-Match".into(), place: ParameterLocation::Header, required: false, schema });
        operation.errors.insert(412);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self(incoming.list("if-match").map(Into::into)))
    }
}

impl IfMatch {
    /// Whether the record may be written: nothing was said, or it is what the sender knows.
    ///
    /// # Errors
    /// There is no such record, or it is another by now.
    pub fn check<E: Entity>(&self, tx: &Read<'_>, id: &Id<E>) -> Result<()> {
        let Some(wanted) = &self.0 else { return Ok(()) };
        let tag = entity_tag(&tx.get(id)?)?;
        let known = wanted.trim() == "*" || wanted.split(',').any(|one| one.trim() == tag);
        if known { Ok(()) } else { Err(Error::Changed) }
    }
}

/// The strong entity tag of a record: when it was changed, and a checksum of what it says.
///
/// # Errors
/// The record cannot be encoded, which is a defect.
pub fn entity_tag<E: Entity>(record: &Record<E>) -> Result<String> {
    let sum = crc32fast::hash(&store::encode(record)?);
    Ok(format!("\"{:x}-{sum:08x}\"", record.updated_at.millis()))
}

/// The media types that the sender takes.
pub struct Accept(String);

impl Accept {
    /// The one of these that the sender likes best; the first, if it does not say. Nothing if it takes none.
    pub fn best(&self, offered: &[&'static str]) -> Option<&'static str> {
        let accept = if self.0.trim().is_empty() { "*/*" } else { &self.0 };
        media_type::best(accept, offered)
    }
}

impl Extractor for Accept {
    fn describe(_: &mut Operation) -> Result<()> {
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self(incoming.list("accept").unwrap_or_default().into()))
    }
}

/// A JSON body.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Body<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let title = T::schema_name().into_owned();
        operation.json_body(&body::lower_first(&title), title, Schemas::inline::<T>())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        body::read(incoming.json()?).map(Body)
    }
}

/// A JSON body that may be left out.
pub struct OptionalBody<T>(pub Option<T>);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for OptionalBody<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        Body::<T>::describe(operation)?;
        if let Some(body) = &mut operation.body {
            body.required = false;
        }
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        if incoming.body.is_empty() { Ok(Self(None)) } else { body::read(incoming.json()?).map(|body| Self(Some(body))) }
    }
}

/// The members of a kind that name other records, by the names that references have.
fn references<E: Entity>() -> Vec<(&'static str, &'static str)> {
    E::REFERENCES.iter().map(|reference| (reference.field, reference.kind.path)).collect()
}

/// The body of a PUT: every member, but for those that only creation sets.
pub struct Replace<E>(pub Json, PhantomData<E>);

impl<E: Entity + JsonSchema> Extractor for Replace<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = body::replace_schema(Schemas::inline::<Draft<E>>(), E::FIXED, E::REQUIRED_ON_REPLACE);
        operation.references = references::<E>();
        operation.json_body(E::BODY, body::title(E::KIND.name, "Replace"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self(incoming.json()?, PhantomData))
    }
}

/// The body of a PATCH: the members to change.
pub struct Patch<E> {
    pub body: Json,
    /// Says which members merge.
    pub schema: Arc<Json>,
    /// Members that stay as they are.
    pub fixed: &'static [&'static str],
    of: PhantomData<E>,
}

impl<E: Entity + JsonSchema> Extractor for Patch<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = body::patch_schema(Schemas::inline::<Draft<E>>());
        operation.references = references::<E>();
        operation.json_body(E::BODY, body::title(E::KIND.name, "Patch"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self { body: incoming.patch()?, schema: incoming.schema(), fixed: E::FIXED, of: PhantomData })
    }
}

/// The body of a POST that creates a record.
pub struct Create<E>(pub Draft<E>);

impl<E: Entity + JsonSchema> Extractor for Create<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = Schemas::inline::<Draft<E>>();
        operation.errors.extend((!E::REFERENCES.is_empty()).then_some(404));
        operation.references = references::<E>();
        operation.json_body(E::BODY, body::title(E::KIND.name, "Create"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        body::read(incoming.json()?).map(Self)
    }
}
