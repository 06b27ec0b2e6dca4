//! Previews: what a change would give and take, instead of the change.
//!
//! The change is made as it would be, rules, references and all, in memory beside the store; the engine compares what would have been
//! published with what is. Nothing is written, and nobody hears of it.

use super::{
    answer::{Answer, Reply, Shown},
    body::Incoming,
    call::Call,
    envelope::Envelope,
    extractor::Extractor,
    openapi::operation::{Operation, Parameter, ParameterLocation, Schemas},
    row::Row,
};
use crate::{
    access::{Difference, Subject},
    change::Change,
    entity::{EdgeRouter, Entity, EntityRef, FactsExt, Id, Identity, PostureCheck, Record, Service},
    error::{Error, Result},
    store::{Event, Read},
};

const NAME: &str = "preview";
/// So many are named of each side.
const MOST: usize = 20;

/// Whether a change is only to be looked at.
#[derive(Debug, Clone, Copy)]
pub struct Preview(bool);

impl Extractor for Preview {
    fn describe(operation: &mut Operation) -> Result<()> {
        let description = "`true`: changes nothing, and answers who would gain and who would lose what.";
        let schema = serde_json::json!({ "type": "boolean", "description": description });
        operation.parameters.push(Parameter { name: NAME.into(), place: ParameterLocation::Query, required: false, schema });
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

/// Refuses to do what somebody only wants to look at.
///
/// # Errors
/// A preview is asked of an operation that has none.
pub fn refuse_elsewhere(row: &Row, query: &str) -> Result<()> {
    let offered = row.method == "GET" || row.operation.parameters.iter().any(|parameter| parameter.name == NAME);
    match asked(query) {
        Some(value) if !offered && value != "false" => Err(Error::invalid(NAME, "is not offered by this operation", value)),
        _ => Ok(()),
    }
}

/// What is asked for; where it is asked for more than once, not to do it wins.
fn asked(query: &str) -> Option<String> {
    let values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == NAME).map(|(_, value)| value.into_owned());
    values.reduce(|one, other| if one == "false" { other } else { one })
}

impl Preview {
    /// Makes a change, or looks at what it would do.
    ///
    /// # Errors
    /// The job's own, in both cases.
    pub async fn change<A: Send + 'static>(
        self,
        call: &Call,
        job: impl FnOnce(&Change<'_, '_>) -> Result<A> + Send + 'static,
    ) -> Result<Outcome<A>> {
        if !self.0 {
            return call.changes.run(job).await.map(Outcome::Done);
        }
        let access = call.access.clone();
        let look = move |tx: &Read<'_>, events: Vec<Event>| {
            let difference = access.preview(&events, MOST, |left| tx.before(left))?;
            difference.named(|subject, id| named(tx, &events, subject, id))
        };
        call.changes.rehearse(job, look).await.map(|seen| Outcome::Foreseen(Box::new(seen)))
    }
}

/// What came of a change that may only have been looked at.
pub enum Outcome<A> {
    Done(A),
    Foreseen(Box<Difference<EntityRef>>),
}

impl<A: Answer> Answer for Outcome<A> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        A::describe(operation, schemas);
        operation.preview = Some(schemas.answer::<Envelope<Difference<EntityRef>>>());
    }
    fn reply(self) -> Result<Reply> {
        match self {
            Self::Done(answer) => answer.reply(),
            Self::Foreseen(difference) => Shown(*difference).reply(),
        }
    }
}

/// A subject by its name; what would be created is not in the store.
fn named(tx: &Read<'_>, events: &[Event], subject: Subject, id: &str) -> Result<EntityRef> {
    match subject {
        Subject::Identity => reference::<Identity>(tx, events, id, |identity| &identity.name),
        Subject::Service => reference::<Service>(tx, events, id, |service| &service.name),
        Subject::EdgeRouter => reference::<EdgeRouter>(tx, events, id, |router| &router.name),
        Subject::PostureCheck => reference::<PostureCheck>(tx, events, id, |check| &check.name),
    }
}

fn reference<E: Entity>(tx: &Read<'_>, events: &[Event], id: &str, name: fn(&E) -> &String) -> Result<EntityRef> {
    let created = || events.iter().filter(|event| event.id == id).find_map(|event| event.of::<E>()?.1).cloned();
    let record: Option<Record<E>> = tx.find(&Id::from_text(id))?.or_else(created);
    Ok(EntityRef::new(E::KIND, id, record.as_ref().map_or("", |record| name(&record.spec))))
}
