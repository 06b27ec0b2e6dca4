//! The log: tracing, written to stderr, as text for people and as JSON for machines.
//!
//! Not here: what is logged, and the request id, which the listener puts into the span field `request`; both forms show
//! the fields of the span around an event. Start with `start`. Only `[log]` of the configuration decides, not `RUST_LOG`.
//!
//! Invariant: stdout stays free for answers of commands; no line of the log goes there.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{self, MakeWriter};

use crate::config::{Format, Log};

/// Sends everything this process logs from now on to stderr. Called once; a second call is refused.
pub fn start(log: &Log) -> Result<(), String> {
    let subscriber = subscriber(log, io::stderr().is_terminal(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|error| format!("the log cannot be started: {error}"))
}

/// What `start` installs, for any writer. `terminal` says whether a person reads along.
pub fn subscriber<W>(log: &Log, terminal: bool, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, String>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(&log.level).map_err(|error| format!("log.level: {error}"))?;
    // A line that cannot be written is lost: saying so would be a line, too, and one that panics when it cannot be written.
    let lines = fmt::Subscriber::builder().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    Ok(if as_text(log.format, terminal) {
        Box::new(lines.with_ansi(terminal && colours_are_welcome()).finish())
    } else {
        // The list of spans would repeat the current one; the request is never nested deeper.
        Box::new(lines.json().flatten_event(true).with_current_span(true).with_span_list(false).finish())
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
