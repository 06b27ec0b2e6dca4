//! The log: `tracing` events on stderr, as text for people or as JSON for programs.
//!
//! Not here: what is logged, and the request id, which the listener puts into the span field `request`. Both forms show the fields of the
//! span around an event. Start with `start`. Only `[log]` of the configuration sets the level, not `RUST_LOG`.
//!
//! Invariants: no log line goes to stdout, which is for the answers of commands. Bytes from an anonymous peer cause no warning and no error
//! of a library.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};

use crate::config::{Format, Log};

/// Changes the level of a running log. The format stays.
pub(crate) type LevelChange = Box<dyn Fn(&Log) -> Result<(), String> + Send + Sync>;

static CHANGE: OnceLock<LevelChange> = OnceLock::new();

/// Starts the log of this process on stderr. A second call fails.
///
/// # Errors
/// The level is malformed, or a log was started before; one line.
pub(crate) fn start(log: &Log) -> Result<(), String> {
    let (subscriber, change) = changeable(log, io::stderr().is_terminal(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|error| format!("the log cannot be started: {error}"))?;
    drop(CHANGE.set(change));
    Ok(())
}

/// Changes the level. Does nothing where [`start`] started no log.
///
/// # Errors
/// The level is malformed; one line.
pub(crate) fn change(log: &Log) -> Result<(), String> {
    CHANGE.get().map_or(Ok(()), |change| change(log))
}

/// The subscriber that `start` installs, for any writer. `terminal` says whether a person reads the output.
///
/// # Errors
/// The level is malformed; one line.
pub fn subscriber<W>(log: &Log, terminal: bool, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    changeable(log, terminal, writer).map(|(subscriber, _)| subscriber)
}

/// Like [`subscriber`], with a function that changes its level.
///
/// # Errors
/// The level is malformed; one line.
pub fn changeable<W>(log: &Log, terminal: bool, writer: W) -> Result<(Box<dyn Subscriber + Send + Sync>, LevelChange), String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A line that cannot be written is lost: reporting that would write another line, which panics when it cannot be written.
    let lines = fmt::Subscriber::builder().with_env_filter(filter(log)?).with_writer(writer).log_internal_errors(false);
    Ok(if as_text(log.format, terminal) {
        let lines = lines.with_ansi(terminal && colours_are_welcome()).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |log| handle.reload(filter(log)?).map_err(|error| error.to_string())))
    } else {
        // The list of spans would repeat the current span: spans of requests are not nested.
        let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |log| handle.reload(filter(log)?).map_err(|error| error.to_string())))
    })
}

/// Libraries that log what peers send as errors and warnings. Any peer could fill the log with them.
const OF_PEERS: [&str; 2] = ["actix_http", "h2"];

/// The filter of a level. Events of [`OF_PEERS`] are shown if the level includes debug or names the library.
fn filter(log: &Log) -> Result<EnvFilter, String> {
    let broken = |error: &dyn Display| format!("log.level: {error}");
    let filter = EnvFilter::builder().parse(&log.level).map_err(|error| broken(&error))?;
    let by_target = log.level.parse::<Targets>().ok();
    let detailed = filter.max_level_hint().is_none_or(|level| level >= LevelFilter::DEBUG);
    let is_wanted = |target: &str| {
        log.level.contains(target) || by_target.as_ref().map_or(detailed, |targets| targets.would_enable(target, &Level::DEBUG))
    };
    OF_PEERS.into_iter().filter(|target| !is_wanted(target)).try_fold(filter, |filter, target| {
        let off = format!("{target}=off").parse().map_err(|error: ParseError| broken(&error))?;
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
