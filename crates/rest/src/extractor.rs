//! The argument types of the functions in the route tables. Each type describes itself in the
//! OpenAPI document and takes its value from a request.

use std::{marker::PhantomData, sync::Arc};

use model::{
    entity::{Entity, Id, Record},
    error::{Error, Result},
};
use policy::change::{Draft, Lifecycle};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{
    body::{self, Incoming},
    body_schema, conditional, media_type,
    network_document::kind::DeclaredKind,
    openapi::operation::{Operation, Parameter, ParameterLocation, Schemas},
    unknown_members,
};

/// An argument of a function in a route table.
pub(crate) trait Extractor: Sized + 'static {
    /// Adds the argument to the description of the operation.
    ///
    /// # Errors
    /// A schema of this API is invalid, which is a defect.
    fn describe(operation: &mut Operation) -> Result<()>;

    /// Takes the argument from a request.
    ///
    /// # Errors
    /// The request does not match the description.
    fn take(incoming: &mut Incoming<'_>) -> Result<Self>;
}

impl<E: 'static> Extractor for Id<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        // The OpenAPI document takes the name from the path.
        let schema = serde_json::json!({ "type": "string" });
        operation.parameters.push(Parameter {
            name: String::new(),
            place: ParameterLocation::Path,
            required: true,
            schema,
        });
        operation.errors.insert(404);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self::from_text(incoming.next_segment()))
    }
}

/// Query parameters in a flat struct. A list takes every value of its name, other types the first
/// one.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Query<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.parameters_of::<T>(ParameterLocation::Query);
        operation.errors.insert(400);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let values = body::query_values(incoming.query, incoming.parameters)?;
        serde_json::from_value(Json::Object(values))
            .map(Query)
            .map_err(|e| Error::invalid("query", e.to_string(), ""))
    }
}

/// Request headers in a flat struct of texts.
pub(crate) struct Headers<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Headers<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.parameters_of::<T>(ParameterLocation::Header);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let mut values = Map::new();
        for parameter in incoming
            .parameters
            .iter()
            .filter(|p| p.place == ParameterLocation::Header)
        {
            if let Some(text) = incoming.header(&parameter.name) {
                values.insert(parameter.name.clone(), text.into());
            }
        }
        serde_json::from_value(Json::Object(values))
            .map(Headers)
            .map_err(|e| Error::invalid("header", e.to_string(), ""))
    }
}

/// The entity tags of `If-Match` (RFC 9110 section 13.1.1); optional.
pub(crate) struct IfMatch(pub Option<String>);

impl Extractor for IfMatch {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = serde_json::json!({ "type": "string" });
        operation.parameters.push(Parameter {
            name: "If-Match".into(),
            place: ParameterLocation::Header,
            required: false,
            schema,
        });
        operation.errors.insert(412);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self(incoming.list("if-match").map(Into::into)))
    }
}

impl IfMatch {
    /// Checks that the stored record has one of the tags, if any are given.
    ///
    /// # Errors
    /// The record has changed ([`Error::Changed`]).
    pub(crate) fn check<E: Entity>(&self, stored: &Record<E>) -> Result<()> {
        let Some(known) = &self.0 else { return Ok(()) };
        if conditional::lists_record(known, &conditional::entity_tag(stored)?) {
            Ok(())
        } else {
            Err(Error::Changed)
        }
    }

    /// Whether the header is missing, or lists this tag or `*`.
    pub(crate) fn names(&self, tag: &str) -> bool {
        let Some(wanted) = &self.0 else { return true };
        wanted.trim() == "*" || wanted.split(',').any(|one| one.trim() == tag)
    }
}

/// The media types that the client accepts.
pub(crate) struct Accept(String);

impl Accept {
    /// The offered type that the client prefers; the first if it has no preference. `None` if it
    /// accepts none.
    pub(crate) fn best(&self, offered: &[&'static str]) -> Option<&'static str> {
        let accept = if self.0.trim().is_empty() {
            "*/*"
        } else {
            &self.0
        };
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
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for Body<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let title = T::schema_name().into_owned();
        operation.json_body(
            &body_schema::lower_first(&title),
            title,
            Schemas::inline::<T>(),
        )
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        body::read(incoming.json()?).map(Body)
    }
}

/// An optional JSON body.
pub(crate) struct OptionalBody<T>(pub Option<T>);

impl<T: DeserializeOwned + JsonSchema + 'static> Extractor for OptionalBody<T> {
    fn describe(operation: &mut Operation) -> Result<()> {
        Body::<T>::describe(operation)?;
        if let Some(body) = &mut operation.body {
            body.required = false;
        }
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        if incoming.body.is_empty() {
            Ok(Self(None))
        } else {
            body::read(incoming.json()?).map(|body| Self(Some(body)))
        }
    }
}

/// The members of a kind that refer to other records, with the paths of their kinds.
fn references<E: Entity>() -> Vec<(&'static str, &'static str)> {
    E::REFERENCES
        .iter()
        .map(|reference| (reference.field, reference.kind.path))
        .collect()
}

/// The body of a PUT: every member except those that only creation sets.
pub(crate) struct Replace<E> {
    pub body: Json,
    /// Whether a change of a member that only creation sets is rejected.
    pub is_strict: bool,
    of: PhantomData<E>,
}

impl<E: Lifecycle + JsonSchema> Extractor for Replace<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let draft = Schemas::inline::<Draft<E>>();
        operation.declared = DeclaredKind::of::<E>(Arc::new(draft.clone()));
        let schema = body_schema::replace_schema(draft, E::FIXED, E::REQUIRED_ON_REPLACE);
        operation.references = references::<E>();
        operation.json_body(E::BODY, body_schema::title(E::KIND.name, "Replace"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        Ok(Self {
            body: incoming.json()?,
            is_strict: unknown_members::is_asked(incoming.query)?,
            of: PhantomData,
        })
    }
}

/// The body of a PATCH: the members to change.
pub(crate) struct Patch<E> {
    pub body: Json,
    /// Determines which members are merged.
    pub schema: Arc<Json>,
    /// Members that are unchanged.
    pub fixed: &'static [&'static str],
    /// Whether a change of one of them is rejected.
    pub is_strict: bool,
    of: PhantomData<E>,
}

impl<E: Entity + JsonSchema> Extractor for Patch<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = body_schema::patch_schema(Schemas::inline::<Draft<E>>(), E::FIXED);
        operation.references = references::<E>();
        operation.json_body(E::BODY, body_schema::title(E::KIND.name, "Patch"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let is_strict = unknown_members::is_asked(incoming.query)?;
        Ok(Self {
            body: incoming.patch()?,
            schema: incoming.schema(),
            fixed: E::FIXED,
            is_strict,
            of: PhantomData,
        })
    }
}

/// The body of a POST that creates a record.
pub(crate) struct Create<E>(pub Draft<E>);

impl<E: Entity + JsonSchema> Extractor for Create<E> {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = Schemas::inline::<Draft<E>>();
        operation
            .errors
            .extend((!E::REFERENCES.is_empty()).then_some(404));
        operation.references = references::<E>();
        operation.json_body(E::BODY, body_schema::title(E::KIND.name, "Create"), schema)
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        body::read(incoming.json()?).map(Self)
    }
}
