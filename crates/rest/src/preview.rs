//! Previews: a request with `preview=true` reports who would gain or lose access by its change, and
//! changes nothing.
//!
//! The change is carried out in memory, with all rules and references, and the access engine
//! compares the result with the present state. Nothing is written to the store or published. An API
//! token sees names of the kinds in its scope only, and the counts of all.

use model::{
    entity::{
        EdgeRouter, Entity, EntityRef, Id, Identity, PostureCheck, Record, Service, TypedLookup,
    },
    error::{Error, Result},
};
use policy::{
    access::{AccessShare, Difference, PolicyEntityKind},
    change::Change,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Event, Read};

use super::{
    answer::{Answer, Data, Reply},
    body::Incoming,
    call::Call,
    envelope::Envelope,
    extractor::Extractor,
    openapi::operation::{Operation, Parameter, ParameterLocation, Schemas},
    row::Row,
};

const NAME: &str = "preview";
/// The maximum number of names listed per side.
pub(crate) const MAX_LISTED: usize = 20;

/// The parameter `preview`: whether the request asks for a preview only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreviewParameter(bool);

impl Extractor for PreviewParameter {
    fn describe(operation: &mut Operation) -> Result<()> {
        let description = "`true`: change nothing, and answer who would gain or lose access.";
        let schema = serde_json::json!({ "type": "boolean", "description": description });
        operation.parameters.push(Parameter {
            name: NAME.into(),
            place: ParameterLocation::Query,
            required: false,
            schema,
        });
        operation.errors.insert(400);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        match asked(incoming.query).as_deref() {
            None | Some("false") => Ok(Self(false)),
            Some("true") => Ok(Self(true)),
            Some(other) => Err(Error::invalid(NAME, "must be true or false", other)),
        }
    }
}

/// Rejects a preview parameter on an operation without previews, so that it is not executed.
///
/// # Errors
/// [`Error::Invalid`] for the parameter.
pub(crate) fn refuse_unsupported(row: &Row, query: &str) -> Result<()> {
    let offered = row.method == "GET"
        || row
            .operation
            .parameters
            .iter()
            .any(|parameter| parameter.name == NAME);
    match asked(query) {
        Some(value) if !offered && value != "false" => Err(Error::invalid(
            NAME,
            "is not offered by this operation",
            value,
        )),
        _ => Ok(()),
    }
}

/// Whether a request to an operation with previews asks for one.
pub(crate) fn is_asked(row: &Row, query: &str) -> bool {
    row.operation.preview.is_some() && asks(query)
}

/// Whether the parameters of a request ask for a preview.
pub(crate) fn asks(query: &str) -> bool {
    asked(query).as_deref() == Some("true")
}

/// The value of the parameter. If it is repeated, any value other than `false` takes precedence.
fn asked(query: &str) -> Option<String> {
    let values = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name == NAME)
        .map(|(_, value)| value.into_owned());
    values.reduce(|one, other| if one == "false" { other } else { one })
}

impl PreviewParameter {
    /// Whether the request asks for a preview only.
    pub(crate) fn is_asked(self) -> bool {
        self.0
    }

    /// Makes a change, or previews it.
    ///
    /// # Errors
    /// Those of `job`, in both cases.
    pub(crate) async fn change<A: Send + 'static>(
        self,
        call: &Call,
        job: impl FnOnce(&Change<'_, '_>) -> Result<A> + Send + 'static,
    ) -> Result<ChangeOutcome<A>> {
        if !self.0 {
            return call.changes.run(job).await.map(ChangeOutcome::Done);
        }
        let (access, caller) = (call.access.clone(), call.caller()?.clone());
        let look = move |tx: &Read<'_>, events: Vec<Event>, answer: A| {
            let (difference, changes) =
                access.preview_changes(&events, MAX_LISTED, |left| tx.before(left))?;
            let shares = access.shares(&changes, &difference, MAX_LISTED);
            let name = |subject, id: &str| {
                caller
                    .may_name(path(subject))
                    .then(|| named(tx, &events, subject, id))
                    .transpose()
            };
            let shares = shares
                .iter()
                .filter_map(|share| share.named(name).transpose())
                .collect::<Result<_>>()?;
            let difference = difference.named(name)?;
            Ok(ChangeOutcome::Previewed(
                Box::new(PreviewedAccess { difference, shares }),
                answer,
            ))
        };
        call.changes.dry_run(job, look).await
    }
}

/// Who would gain and who would lose access.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Preview")]
pub(crate) struct PreviewedAccess {
    #[serde(flatten)]
    difference: Difference<EntityRef>,
    /// Who gains and who loses each of the services and edge routers that the counts list first.
    shares: Vec<AccessShare<EntityRef>>,
}

/// The result of a change or of its preview.
pub(crate) enum ChangeOutcome<A> {
    Done(A),
    /// The preview, and the answer that the change would have had.
    Previewed(Box<PreviewedAccess>, A),
}

impl<A> ChangeOutcome<A> {
    /// Whether the change was made, and not only previewed.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl<A: Answer> Answer for ChangeOutcome<A> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        A::describe(operation, schemas);
        operation.preview = Some(schemas.answer::<Envelope<PreviewedAccess>>());
    }
    fn reply(self) -> Result<Reply> {
        match self {
            Self::Done(answer) => answer.reply(),
            Self::Previewed(access, answer) => {
                let mut reply = Data(*access).reply()?;
                reply.headers = answer.reply()?.headers;
                Ok(reply)
            }
        }
    }
}

/// The path segment of a kind.
fn path(subject: PolicyEntityKind) -> &'static str {
    match subject {
        PolicyEntityKind::Identity => Identity::KIND.path,
        PolicyEntityKind::Service => Service::KIND.path,
        PolicyEntityKind::EdgeRouter => EdgeRouter::KIND.path,
        PolicyEntityKind::PostureCheck => PostureCheck::KIND.path,
    }
}

/// A subject with its name; a record that would be created is found in the events.
///
/// # Errors
/// The record cannot be read.
pub(crate) fn named(
    tx: &Read<'_>,
    events: &[Event],
    subject: PolicyEntityKind,
    id: &str,
) -> Result<EntityRef> {
    match subject {
        PolicyEntityKind::Identity => {
            reference::<Identity>(tx, events, id, |identity| &identity.name)
        }
        PolicyEntityKind::Service => reference::<Service>(tx, events, id, |service| &service.name),
        PolicyEntityKind::EdgeRouter => {
            reference::<EdgeRouter>(tx, events, id, |router| &router.name)
        }
        PolicyEntityKind::PostureCheck => {
            reference::<PostureCheck>(tx, events, id, |check| &check.name)
        }
    }
}

fn reference<E: Entity>(
    tx: &Read<'_>,
    events: &[Event],
    id: &str,
    name: fn(&E) -> &String,
) -> Result<EntityRef> {
    let created = || {
        events
            .iter()
            .filter(|event| event.id == id)
            .find_map(|event| event.of::<E>()?.1)
            .cloned()
    };
    let record: Option<Record<E>> = tx.find(&Id::from_text(id))?.or_else(created);
    Ok(EntityRef::new(
        E::KIND,
        id,
        record.as_ref().map_or("", |record| name(&record.spec)),
    ))
}
