//! The mode of a change: it is made, or with `preview=true` only previewed. Every operation that
//! offers previews makes its changes with [`ChangeMode::run`].
//!
//! Not here: what a preview shows (`preview.rs`).

use model::error::{Error, Result};
use policy::change::Change;
use store::{Event, Read};

use super::{
    answer::{Answer, Data, Reply},
    body::Incoming,
    call::Call,
    envelope::Envelope,
    extractor::Extractor,
    openapi::operation::{Operation, Parameter, ParameterLocation, Schemas},
    preview::PreviewedAccess,
    row::Row,
};

/// The query parameter that asks for a preview.
const NAME: &str = "preview";

/// Whether a request makes its change or only previews it, by its parameter `preview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeMode {
    Write,
    Preview,
}

impl Extractor for ChangeMode {
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
            None | Some("false") => Ok(Self::Write),
            Some("true") => Ok(Self::Preview),
            Some(other) => Err(Error::invalid(NAME, "must be true or false", other)),
        }
    }
}

impl ChangeMode {
    /// Carries out the job of a change: for a write in a transaction, for a preview in a dry run.
    ///
    /// # Errors
    /// Those of `job`, in both modes.
    pub(crate) async fn run<A: Send + 'static>(
        self,
        call: &Call,
        job: impl FnOnce(&Change<'_, '_>) -> Result<A> + Send + 'static,
    ) -> Result<ChangeOutcome<A>> {
        match self {
            Self::Write => call.changes.run(job).await.map(ChangeOutcome::Written),
            Self::Preview => {
                let (access, caller) = (call.state.access.clone(), call.caller()?.clone());
                let look = move |tx: &Read<'_>, events: Vec<Event>, answer: A| {
                    let previewed = PreviewedAccess::of(&access, &caller, tx, &events)?;
                    Ok(ChangeOutcome::Previewed(Box::new(previewed), answer))
                };
                call.changes.dry_run(job, look).await
            }
        }
    }
}

/// What became of a change: it was made, or only previewed.
pub(crate) enum ChangeOutcome<A> {
    Written(A),
    /// The preview, and the answer that the change would have had.
    Previewed(Box<PreviewedAccess>, A),
}

impl<A> ChangeOutcome<A> {
    /// Whether the change was made, and not only previewed.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

impl<A: Answer> Answer for ChangeOutcome<A> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        A::describe(operation, schemas);
        operation.preview = Some(schemas.answer::<Envelope<PreviewedAccess>>());
    }
    fn reply(self) -> Result<Reply> {
        match self {
            Self::Written(answer) => answer.reply(),
            Self::Previewed(access, answer) => {
                let mut reply = Data(*access).reply()?;
                reply.headers = answer.reply()?.headers;
                Ok(reply)
            }
        }
    }
}

/// Rejects a preview parameter on an operation without previews, so that it is not executed.
///
/// # Errors
/// [`Error::Invalid`] for the parameter.
pub(crate) fn refuse_unsupported_preview(row: &Row, query: &str) -> Result<()> {
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
pub(crate) fn is_preview(row: &Row, query: &str) -> bool {
    row.operation.preview.is_some() && asks_for_preview(query)
}

/// Whether the parameters of a request ask for a preview.
pub(crate) fn asks_for_preview(query: &str) -> bool {
    asked(query).as_deref() == Some("true")
}

/// The value of the parameter `preview`. If it is repeated, any value other than `false` takes
/// precedence.
fn asked(query: &str) -> Option<String> {
    let values = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name == NAME)
        .map(|(_, value)| value.into_owned());
    values.reduce(|one, other| if one == "false" { other } else { one })
}
