//! The log: `tracing` events on stderr, as text for people or as JSON for programs.
//!
//! Not here: what is logged, and the request id, which `rest/src/serve.rs` puts into the span
//! `request` as its field `id`. Both forms show the fields of the span around an event. Start with
//! `start`. Only `[log]` of the configuration sets the level, not `RUST_LOG`.
//!
//! Invariants: no log line goes to stdout, which is for the answers of commands. Bytes from an
//! anonymous peer cause no warning and no error of a library. Text of others forges no line and
//! reaches no terminal unescaped, at any level.

use std::fmt::{Debug, Display};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use model::{
    config::{Format, Log},
    hidden_text,
};
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{self, MakeWriter};

/// Why the log cannot be started or changed; one line.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is malformed.
    #[error("log.level: {0}")]
    Level(String),
    /// A log was started before.
    #[error("the log cannot be started: {0}")]
    Started(#[from] SetGlobalDefaultError),
    /// The log whose level should change has ended.
    #[error("{0}")]
    Ended(#[from] tracing_subscriber::reload::Error),
}

/// Changes the level of a running log. The format stays.
pub(crate) type LevelChange = Box<dyn Fn(&Log) -> Result<(), LogError> + Send + Sync>;

static CHANGE: OnceLock<LevelChange> = OnceLock::new();

/// Starts the log of this process on stderr. A second call fails.
///
/// # Errors
/// The level is malformed, or a log was started before.
pub(crate) fn start(log: &Log) -> Result<(), LogError> {
    let (subscriber, change) = changeable(log, io::stderr().is_terminal(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber)?;
    drop(CHANGE.set(change));
    Ok(())
}

/// Changes the level. Does nothing where [`start`] started no log.
///
/// # Errors
/// The level is malformed.
pub(crate) fn change(log: &Log) -> Result<(), LogError> {
    CHANGE.get().map_or(Ok(()), |change| change(log))
}

/// The subscriber that `start` installs, for any writer. `terminal` says whether a person reads the
/// output.
///
/// # Errors
/// The level is malformed.
pub fn subscriber<W>(
    log: &Log,
    terminal: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    changeable(log, terminal, writer).map(|(subscriber, _)| subscriber)
}

/// Like [`subscriber`], with a function that changes its level.
///
/// # Errors
/// The level is malformed.
pub fn changeable<W>(
    log: &Log,
    terminal: bool,
    writer: W,
) -> Result<(Box<dyn Subscriber + Send + Sync>, LevelChange), LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A line that cannot be written is lost: reporting that would write another line, which panics
    // when it cannot be written.
    let lines = fmt::Subscriber::builder()
        .with_env_filter(filter(log)?)
        .log_internal_errors(false);
    Ok(if as_text(log.format, terminal) {
        let lines = lines
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .with_writer(writer);
        let lines = lines
            .with_ansi(terminal && colours_are_welcome())
            .with_filter_reloading();
        let handle = lines.reload_handle();
        (
            Box::new(lines.finish()),
            Box::new(move |log| Ok(handle.reload(filter(log)?)?)),
        )
    } else {
        // The list of spans would repeat the current span: spans of requests are not nested.
        let lines = lines
            .with_writer(EscapedJson(writer))
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_filter_reloading();
        let handle = lines.reload_handle();
        (
            Box::new(lines.finish()),
            Box::new(move |log| Ok(handle.reload(filter(log)?)?)),
        )
    })
}

/// Writes a field of a text line. Values are often text of others.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let value = hidden_text::shown(&format!("{value:?}"));
    match field.name() {
        "message" => write!(writer, "{value}"),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}")
        }
        name => write!(writer, "{name}={value}"),
    }
}

/// Writers of JSON lines in which the characters are escaped that JSON allows and terminals obey.
struct EscapedJson<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for EscapedJson<W> {
    type Writer = EscapedJson<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        EscapedJson(self.0.make_writer())
    }

    fn make_writer_for(&'w self, meta: &Metadata<'_>) -> Self::Writer {
        EscapedJson(self.0.make_writer_for(meta))
    }
}

impl<W: Write> Write for EscapedJson<W> {
    /// Called with whole lines.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0
            .write_all(hidden_text::json(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Libraries that log what peers send as errors and warnings. Any peer could fill the log with
/// them.
const OF_PEERS: [&str; 2] = ["actix_http", "h2"];

/// The filter of a level. Events of [`OF_PEERS`] are shown if the level includes debug or names the
/// library.
fn filter(log: &Log) -> Result<EnvFilter, LogError> {
    let broken = |error: &dyn Display| LogError::Level(error.to_string());
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|error| broken(&error))?;
    let by_target = log.level.parse::<Targets>().ok();
    let detailed = filter
        .max_level_hint()
        .is_none_or(|level| level >= LevelFilter::DEBUG);
    let is_wanted = |target: &str| {
        log.level.contains(target)
            || by_target.as_ref().map_or(detailed, |targets| {
                targets.would_enable(target, &Level::DEBUG)
            })
    };
    OF_PEERS
        .into_iter()
        .filter(|target| !is_wanted(target))
        .try_fold(filter, |filter, target| {
            let off = format!("{target}=off")
                .parse()
                .map_err(|error: ParseError| broken(&error))?;
            Ok(filter.add_directive(off))
        })
}

fn as_text(format: Format, terminal: bool) -> bool {
    match format {
        Format::Auto => terminal,
        Format::Text => true,
        Format::Json => false,
    }
}

/// <https://no-color.org>: a non-empty value means no colours.
fn colours_are_welcome() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
