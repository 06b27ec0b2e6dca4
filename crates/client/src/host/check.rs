//! Health checks of a local server, and what they make of a terminator's cost and precedence.

use std::time::Duration;

use http::Request;
use model::{entity::Precedence, outbound::HttpClient};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::connect::connect_to_address;
use crate::binding::Standing;

/// How many servers are asked at the same time: those that do not answer must not take the threads
/// that others need.
static ASKING: Semaphore = Semaphore::const_new(16);
/// The most bytes of a page that a check reads.
const PAGE: u64 = 4 << 20;

/// What a check asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CheckKind {
    /// Whether `host:port` accepts connections.
    Port(String),
    /// Whether a server answers with a status, and a text in the body, which may be empty.
    Http {
        url: String,
        method: String,
        body: String,
        status: u16,
        text: String,
    },
}

/// A check of a local server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) kind: CheckKind,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    /// If there are none, the terminator fails and recovers with the check.
    pub(super) actions: Vec<Action>,
}

/// What follows from results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) trigger: Trigger,
    /// So many results of the same kind in a row.
    pub(super) events: u16,
    /// For so long.
    pub(super) lasting: Duration,
    pub(super) effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Trigger {
    Fail,
    Pass,
    Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    MarkHealthy,
    MarkUnhealthy,
    IncreaseCost(u32),
    DecreaseCost(u32),
    SendEvent,
}

/// The health of one terminator. Its standing is what routers are told.
pub(super) struct Health {
    cost: u16,
    precedence: Precedence,
    /// Held while the standing changes, because several checks change it.
    changing: Mutex<()>,
    standing: watch::Sender<Standing>,
}

impl Health {
    pub(super) fn new(cost: u16, precedence: Precedence) -> Self {
        let standing = Standing {
            cost,
            precedence,
            events: 0,
            has_passed: true,
        };
        Self {
            cost,
            precedence,
            changing: Mutex::default(),
            standing: watch::Sender::new(standing),
        }
    }

    pub(super) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// The cost does not change while the terminator has failed, and is never below that of the
    /// config.
    fn apply(&self, effect: Effect, has_passed: bool) {
        let _one = self.changing.lock();
        let former = *self.standing.borrow();
        let mut next = former;
        let has_failed = former.precedence == Precedence::Failed;
        let cost = u32::from(former.cost);
        let limited = |cost: u32| {
            let cost = u16::try_from(cost).unwrap_or(u16::MAX);
            cost.max(self.cost)
        };
        match effect {
            Effect::MarkHealthy => next.precedence = self.precedence,
            Effect::MarkUnhealthy => next.precedence = Precedence::Failed,
            Effect::IncreaseCost(_) | Effect::DecreaseCost(_) if has_failed => {}
            Effect::IncreaseCost(by) => next.cost = limited(cost.saturating_add(by)),
            Effect::DecreaseCost(by) => next.cost = limited(cost.saturating_sub(by)),
            Effect::SendEvent => {
                next.events = former.events.wrapping_add(1);
                next.has_passed = has_passed;
            }
        }
        if next != former {
            self.standing.send_replace(next);
        }
    }
}

/// The results of a check so far. A check begins as one that passed.
struct History {
    has_passed: bool,
    /// Results of this kind in a row.
    events: u32,
    since: Instant,
}

impl History {
    fn new(now: Instant) -> Self {
        Self {
            has_passed: true,
            events: 0,
            since: now,
        }
    }

    /// Adds a result. Returns whether it is another one than before.
    fn add(&mut self, has_passed: bool, now: Instant) -> bool {
        let has_changed = has_passed != self.has_passed;
        if has_changed {
            *self = Self {
                has_passed,
                events: 0,
                since: now,
            };
        }
        self.events = self.events.saturating_add(1);
        has_changed
    }

    fn triggers(&self, action: &Action, has_changed: bool, now: Instant) -> bool {
        let is_of_kind = match action.trigger {
            Trigger::Fail => !self.has_passed,
            Trigger::Pass => self.has_passed,
            Trigger::Change => has_changed,
        };
        is_of_kind
            && self.events >= u32::from(action.events)
            && now.duration_since(self.since) >= action.lasting
    }
}

impl Check {
    /// Checks on and on.
    pub(super) async fn run(&self, service: &str, health: &Health) {
        let client = self.client();
        let mut history = History::new(Instant::now());
        let mut next = interval(self.interval);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            next.tick().await;
            let result = self.result(client.as_ref()).await;
            let now = Instant::now();
            let has_changed = history.add(result.is_ok(), now);
            match &result {
                Err(error) if has_changed => {
                    tracing::warn!(%service, check = self.name(), %error, "a health check fails");
                }
                Ok(()) if has_changed => {
                    tracing::info!(%service, check = self.name(), "a health check passes");
                }
                _ => {}
            }
            self.act(&history, has_changed, now, health);
        }
    }

    fn act(&self, history: &History, has_changed: bool, now: Instant, health: &Health) {
        const USUAL: [(Trigger, Effect); 2] = [
            (Trigger::Fail, Effect::MarkUnhealthy),
            (Trigger::Pass, Effect::MarkHealthy),
        ];
        if self.actions.is_empty() {
            for (trigger, effect) in USUAL {
                let action = Action {
                    trigger,
                    events: 0,
                    lasting: Duration::ZERO,
                    effect,
                };
                if history.triggers(&action, has_changed, now) {
                    health.apply(effect, history.has_passed);
                }
            }
        }
        for action in &self.actions {
            if history.triggers(action, has_changed, now) {
                health.apply(action.effect, history.has_passed);
            }
        }
    }

    /// A client for servers, if one is needed.
    fn client(&self) -> Option<HttpClient> {
        let is_needed = matches!(self.kind, CheckKind::Http { .. });
        is_needed.then(|| HttpClient::of_system(self.timeout).ok())?
    }

    fn name(&self) -> &str {
        match &self.kind {
            CheckKind::Port(address) => address,
            CheckKind::Http { url, .. } => url,
        }
    }

    async fn result(&self, client: Option<&HttpClient>) -> Result<(), String> {
        let late = || format!("no answer within {:?}", self.timeout);
        match &self.kind {
            CheckKind::Port(address) => {
                let connecting = connect_to_address(address, None);
                let connecting = timeout(self.timeout, connecting).await;
                let connected = connecting.map_err(|_| late())?;
                connected.map(drop).map_err(|error| error.to_string())
            }
            CheckKind::Http { .. } => {
                let client = client.cloned().ok_or("TLS cannot be set up")?;
                let turn = timeout(self.timeout, ASKING.acquire()).await;
                let turn = turn.map_err(|_| "too many servers do not answer")?;
                let kind = self.kind.clone();
                let asked = spawn_blocking(move || {
                    let _turn = turn;
                    kind.ask(&client)
                });
                asked.await.map_err(|error| error.to_string())?
            }
        }
    }
}

impl CheckKind {
    /// Asks a server. Blocks.
    fn ask(&self, client: &HttpClient) -> Result<(), String> {
        let Self::Http {
            url,
            method,
            body,
            status,
            text,
        } = self
        else {
            return Ok(());
        };
        let request = Request::builder()
            .method(method.as_str())
            .uri(url)
            .body(body.as_bytes())
            .map_err(|error| error.to_string())?;
        let answer = client.send(request, PAGE);
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != *status {
            return Err(format!("it answered {} for {status}", answer.status));
        }
        if String::from_utf8_lossy(&answer.body).contains(text.as_str()) {
            Ok(())
        } else {
            Err("the expected text is not in its answer".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actions: &[(Trigger, u16, u64, Effect)]) -> Check {
        let actions = actions
            .iter()
            .map(|(trigger, events, seconds, effect)| Action {
                trigger: *trigger,
                events: *events,
                lasting: Duration::from_secs(*seconds),
                effect: *effect,
            });
        Check {
            kind: CheckKind::Port(String::new()),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            actions: actions.collect(),
        }
    }

    /// The costs and precedences after results that come once a second.
    fn after(check: &Check, results: &[bool]) -> Vec<(u16, Precedence)> {
        let health = Health::new(100, Precedence::Required);
        let mut now = Instant::now();
        let mut history = History::new(now);
        let mut all = Vec::new();
        for result in results {
            let has_changed = history.add(*result, now);
            check.act(&history, has_changed, now, &health);
            let standing = *health.standing().borrow();
            all.push((standing.cost, standing.precedence));
            now += Duration::from_secs(1);
        }
        all
    }

    #[test]
    fn without_actions_terminators_fail_and_recover_with_the_check() {
        use Precedence::{Failed, Required};
        let all = after(&check(&[]), &[true, false, false, true]);
        let precedences = all.iter().map(|one| one.1).collect::<Vec<_>>();
        assert_eq!(precedences, [Required, Failed, Failed, Required]);
    }

    #[test]
    fn costs_rise_and_fall_between_the_configured_one_and_the_greatest() {
        let check = check(&[
            (Trigger::Fail, 0, 0, Effect::IncreaseCost(40_000)),
            (Trigger::Pass, 0, 0, Effect::DecreaseCost(30_000)),
        ]);
        let all = after(&check, &[false, false, true, true, true]);
        let costs = all.iter().map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(costs, [40_100, 65_535, 35_535, 5_535, 100]);
    }

    #[test]
    fn actions_wait_for_results_in_a_row_and_for_a_time() {
        use Precedence::{Failed, Required};
        let in_a_row = check(&[(Trigger::Fail, 3, 0, Effect::MarkUnhealthy)]);
        let all = after(&in_a_row, &[false, false, true, false, false, false]);
        assert_eq!(all.iter().position(|one| one.1 == Failed), Some(5));
        let lasting = check(&[(Trigger::Fail, 0, 3, Effect::MarkUnhealthy)]);
        let all = after(&lasting, &[false, false, false, false]);
        assert_eq!(all.iter().filter(|one| one.1 == Required).count(), 3);
        assert_eq!(all[3].1, Failed);
    }

    #[test]
    fn costs_stay_while_the_terminator_has_failed() {
        let check = check(&[
            (Trigger::Fail, 0, 0, Effect::MarkUnhealthy),
            (Trigger::Fail, 0, 0, Effect::IncreaseCost(5)),
        ]);
        assert_eq!(after(&check, &[false, false])[1], (100, Precedence::Failed));
    }

    #[test]
    fn events_are_counted_when_results_change() {
        let check = check(&[(Trigger::Change, 0, 0, Effect::SendEvent)]);
        let health = Health::new(0, Precedence::Default);
        let now = Instant::now();
        let mut history = History::new(now);
        for (result, events) in [(true, 0), (false, 1), (false, 1), (true, 2)] {
            let has_changed = history.add(result, now);
            check.act(&history, has_changed, now, &health);
            let standing = *health.standing().borrow();
            assert_eq!(standing.events, events);
        }
    }

    #[tokio::test]
    async fn servers_are_asked() {
        use tokio::{io::AsyncWriteExt, net::TcpListener};
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = server.accept().await {
                let answer = b"HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\n\r\nready";
                drop(socket.write_all(answer).await);
            }
        });
        let asked = async |status, text: &str| {
            let kind = CheckKind::Http {
                url: format!("http://{address}/health"),
                method: "GET".to_owned(),
                body: String::new(),
                status,
                text: text.to_owned(),
            };
            let mut check = check(&[]);
            check.kind = kind;
            check.timeout = Duration::from_secs(20);
            check.result(check.client().as_ref()).await
        };
        assert_eq!(asked(202, "").await, Ok(()));
        assert_eq!(asked(202, "ready").await, Ok(()));
        assert!(asked(200, "").await.unwrap_err().contains("202"));
        assert!(asked(202, "absent").await.unwrap_err().contains("text"));
        let mut port = check(&[]);
        port.kind = CheckKind::Port(address.to_string());
        assert_eq!(port.result(None).await, Ok(()));
        port.kind = CheckKind::Port("127.0.0.1:1".to_owned());
        assert!(port.result(None).await.is_err());
    }
}
