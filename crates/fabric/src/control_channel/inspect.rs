//! Questions of administrators to routers about their state, such as `links`, `circuits` and
//! `stackdump`.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::{sync::oneshot, task::JoinSet, time::timeout};
use wire::{
    control::{content, fabric},
    frame::{Builder, Frame},
};

use super::{connection::RouterConnection, control_core::ControlCore, replies::Lists};

/// The maximum bytes of all values in an answer.
const MAX_BYTES: usize = 16 << 20;

/// The maximum number of values and of errors in the answer of one router.
const MAX_VALUES: usize = 1000;

/// A value of a router.
#[derive(Debug)]
pub struct InspectedValue {
    pub router: String,
    pub name: String,
    /// Mostly JSON.
    pub value: String,
}

/// The answers of routers.
#[derive(Debug, Default)]
pub struct RouterInspection {
    pub values: Vec<InspectedValue>,
    pub errors: Vec<String>,
}

/// Asks the connected routers that `is_meant` selects by their id for values by name. One that has
/// not answered within `limit`, or in the time for all answers of routers, is named in the errors.
pub(crate) async fn inspect(
    core: &ControlCore,
    is_meant: impl Fn(&str) -> bool,
    names: &[String],
    limit: Duration,
) -> RouterInspection {
    let body = fabric::InspectRequest {
        requested_values: names.to_vec(),
    }
    .encode_to_vec();
    let mut asked = JoinSet::new();
    core.registry.each(|connection| {
        if is_meant(&connection.router) {
            let (answer, connection, limit) = (
                ask(connection, &body),
                connection.clone(),
                limit.min(core.times.route),
            );
            asked.spawn(async move { (connection, timeout(limit, answer).await) });
        }
    });
    let (mut inspection, mut left) = (RouterInspection::default(), MAX_BYTES);
    while let Some(Ok((connection, answer))) = asked.join_next().await {
        let answer = answer.ok().and_then(Result::ok);
        let Some(lists) = answer.as_ref().and_then(|answer| Lists::new(answer.body())) else {
            inspection.errors.push(format!(
                "router {} did not answer in time",
                connection.router
            ));
            continue;
        };
        let values: Vec<fabric::InspectValue> = lists.plain_messages(3).take(MAX_VALUES).collect();
        inspection.errors.extend(
            lists
                .texts(2)
                .take(MAX_VALUES)
                .map(|error| format!("router {}: {error}", connection.router)),
        );
        let length = values
            .iter()
            .map(|found| found.value.len() + found.name.len())
            .sum::<usize>();
        if length > left {
            inspection.errors.push(format!(
                "router {}: its values are left out, because all values together exceed {MAX_BYTES} bytes",
                connection.router
            ));
            continue;
        }
        left -= length;
        let router = &connection.router;
        inspection
            .values
            .extend(values.into_iter().map(|found| InspectedValue {
                router: router.clone(),
                name: found.name,
                value: found.value,
            }));
    }
    inspection
        .values
        .sort_unstable_by(|one, other| (&one.router, &one.name).cmp(&(&other.router, &other.name)));
    inspection
}

/// Sends a question. The receiver gets the answer.
fn ask(connection: &RouterConnection, body: &[u8]) -> oneshot::Receiver<Frame> {
    let (sender, answer) = oneshot::channel();
    let mut waiting = connection.inspections.lock();
    // Under the lock, so that the reader of the answer finds the waiting task.
    if let Some(sequence) = connection
        .outbox
        .push(Builder::new(content::INSPECT_REQUEST).body(body))
    {
        waiting.retain(|_, sender: &mut oneshot::Sender<Frame>| !sender.is_closed());
        waiting.insert(sequence, sender);
    }
    answer
}

/// Passes an answer to the task that waits for it.
pub(crate) fn answered(connection: &Arc<RouterConnection>, frame: Frame) {
    if let Some(waiting) = frame
        .reply_for()
        .and_then(|sequence| connection.inspections.lock().remove(&sequence))
    {
        // The task may have given up.
        drop(waiting.send(frame));
    }
}
