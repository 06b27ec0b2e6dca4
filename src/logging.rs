//! The log: tracing, written to stderr, as text for people and as JSON for machines.
//!
//! Not here: what is logged, and the request id, which the listener puts into the span field `request`; both forms show
//! the fields of the span around an event. Start with `start`. Only `[log]` of the configuration decides, not `RUST_LOG`.
//!
//! Invariants: stdout stays free for answers of commands; no line of the log goes there. What an anonymous peer sends writes no warning
//! and no error of a library.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};

use crate::config::{Format, Log};

/// Changes which events a log that was started shows. The form of its lines stays.
pub type Change = Box<dyn Fn(&Log) -> Result<(), String> + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Sends everything this process logs from now on to stderr. Called once; a second call is refused.
///
/// # Errors
/// The level is none, or there is a log already; one line.
pub fn start(log: &Log) -> Result<(), String> {
    let (subscriber, change) = changeable(log, io::stderr().is_terminal(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|error| format!("the log cannot be started: {error}"))?;
    drop(CHANGE.set(change));
    Ok(())
}

/// Shows another level from now on. Nothing happens where [`start`] started no log.
///
/// # Errors
/// The level is none; one line.
pub fn change(log: &Log) -> Result<(), String> {
    CHANGE.get().map_or(Ok(()), |change| change(log))
}

/// What `start` installs, for any writer. `terminal` says whether a person reads along.
///
/// # Errors
/// The level is none; one line.
pub fn subscriber<W>(log: &Log, terminal: bool, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    changeable(log, terminal, writer).map(|(subscriber, _)| subscriber)
}

/// The same, and what changes its level.
///
/// # Errors
/// The level is none; one line.
pub fn changeable<W>(log: &Log, terminal: bool, writer: W) -> Result<(Box<dyn Subscriber + Send + Sync>, Change), String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A line that cannot be written is lost: saying so would be a line, too, and one that panics when it cannot be written.
    let lines = fmt::Subscriber::builder().with_env_filter(filter(log)?).with_writer(writer).log_internal_errors(false);
    Ok(if as_text(log.format, terminal) {
        let lines = lines.with_ansi(terminal && colours_are_welcome()).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |log| handle.reload(filter(log)?).map_err(|error| error.to_string())))
    } else {
        // The list of spans would repeat the current one; the request is never nested deeper.
        let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |log| handle.reload(filter(log)?).map_err(|error| error.to_string())))
    })
}

/// Libraries that log as errors and warnings what peers send: with them anybody could fill the log with alarms.
const OF_PEERS: [&str; 2] = ["actix_http", "h2"];

/// The filter of a level. What peers send is shown where the level asks for debug, or names the library.
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

/// <https://no-color.org>: set and not empty means no colours, whatever the value.
fn colours_are_welcome() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
