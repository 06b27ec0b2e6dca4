//! One terminator of a service: its bindings at several routers, and its health.

use std::{collections::HashSet, sync::Arc, time::Duration};

use model::entity::Precedence;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    check::Health,
    config::HostConfig,
    destination::{SHOWN, cut},
    identity::{HostIdentity, instance},
    lead::{HostError, lead},
};
use crate::{
    Binding, Right, RouterError, Service, Session, SessionError,
    binding::Standing,
    jittered,
    session::Offer,
    status::{ServiceRole, ServiceStatus},
};

/// The most connections of one terminator at a time.
const CONNECTIONS: usize = 10_000;
/// The first pause before a terminator is offered again; it doubles up to the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// The pause before another router is looked for when each has the terminator already.
const ALL_TAKEN: Duration = Duration::from_secs(600);

/// A terminator as it is to be.
#[derive(Debug, Clone)]
pub(super) struct Terminator {
    service: Service,
    config: Arc<HostConfig>,
    instance: Option<String>,
    cost: u16,
    precedence: Precedence,
}

/// Two are equal if nothing has to be done to make one out of the other.
impl PartialEq for Terminator {
    fn eq(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            let service = &one.service;
            (
                service.name.clone(),
                service.encryption_required,
                service.posture.clone(),
            )
        };
        of(self) == of(other)
            && self.config == other.config
            && self.instance == other.instance
            && (self.cost, self.precedence) == (other.cost, other.precedence)
    }
}

/// What the bindings of a terminator share.
struct Shared {
    session: Session,
    terminator: Terminator,
    health: Health,
    free: Arc<Semaphore>,
    /// The addresses of the routers that have a binding.
    taken: Mutex<HashSet<String>>,
}

/// A binding that has ended, or was not made.
struct Ended {
    error: SessionError,
    /// For how long it lasted.
    lasted: Duration,
}

impl Terminator {
    /// The identity's cost and precedence for the service count before those of the config, and
    /// these before those of the identity for every service.
    pub(super) fn new(service: &Service, config: HostConfig, identity: &HostIdentity) -> Self {
        let cost = identity.costs.get(&service.id).copied();
        let precedence = identity.precedences.get(&service.id).copied();
        Self {
            service: service.clone(),
            instance: config
                .instance
                .as_deref()
                .map(|text| instance(text, identity)),
            cost: cost.or(config.cost).unwrap_or(identity.cost),
            precedence: precedence
                .or(config.precedence)
                .unwrap_or(identity.precedence),
            config: Arc::new(config),
        }
    }

    /// Bindings and checks that it needs.
    pub(super) fn tasks(&self) -> usize {
        self.config.routers + self.config.checks.len()
    }

    pub(super) fn service(&self) -> &str {
        &self.service.name
    }

    /// Offers the terminator at as many routers as its config says, until the task is dropped.
    pub(super) async fn run(self, session: Session) {
        let shared = Arc::new(Shared {
            session,
            health: Health::new(self.cost, self.precedence),
            free: Arc::new(Semaphore::new(CONNECTIONS)),
            taken: Mutex::default(),
            terminator: self,
        });
        let weak = Arc::downgrade(&shared);
        let describe = move || weak.upgrade().map(|shared| shared.status());
        shared.session.describe(Box::new(describe));
        let config = &shared.terminator.config;
        let mut tasks = JoinSet::new();
        for check in config.checks.clone() {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                check.run(shared.terminator.service(), &shared.health).await;
            });
        }
        for place in 0..config.routers {
            tasks.spawn(Arc::clone(&shared).keep(place == 0));
        }
        while tasks.join_next().await.is_some() {}
    }
}

impl Shared {
    fn status(&self) -> ServiceStatus {
        let mut at: Vec<String> = self.taken.lock().iter().cloned().collect();
        at.sort();
        ServiceStatus {
            service: self.terminator.service().to_owned(),
            role: ServiceRole::Hosted,
            at,
            connections: CONNECTIONS.saturating_sub(self.free.available_permits()),
            has_failed: self.health.standing().borrow().precedence == Precedence::Failed,
        }
    }

    /// Keeps a binding at one router. The first binding of a terminator announces health as well.
    async fn keep(self: Arc<Self>, is_first: bool) {
        let service = self.terminator.service();
        let listener = uuid::Uuid::new_v4().to_string();
        let (mut pause, mut told) = (FIRST_PAUSE, String::new());
        loop {
            let Ended { error, lasted } = self.serve(&listener, is_first).await;
            if matches!(error, SessionError::Router(RouterError::AllTaken)) {
                sleep(jittered(ALL_TAKEN)).await;
                self.session
                    .forget_session(&self.terminator.service, Right::Bind);
                continue;
            }
            // Whatever ended the binding may have ended the session.
            if !matches!(error, SessionError::Router(RouterError::Unreachable(_))) {
                self.session
                    .forget_session(&self.terminator.service, Right::Bind);
            }
            let has_lasted = lasted > LAST_PAUSE;
            let reason = error.to_string();
            if has_lasted || reason != told {
                tracing::warn!(%service, error = %reason, "the service is not hosted");
            }
            told = reason;
            if has_lasted {
                pause = FIRST_PAUSE;
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Offers the terminator at one router until that ends.
    async fn serve(&self, listener: &str, is_first: bool) -> Ended {
        let mut standing = self.health.standing();
        let present = *standing.borrow_and_update();
        let (binding, router) = match self.bind(listener, present).await {
            Ok(bound) => bound,
            Err(error) => {
                return Ended {
                    error,
                    lasted: Duration::ZERO,
                };
            }
        };
        let begin = Instant::now();
        let service = self.terminator.service();
        tracing::info!(%service, %router, "the service is hosted");
        let announced = present.events;
        let error = self.answer(binding, standing, announced, is_first).await;
        self.taken.lock().remove(&router);
        Ended {
            error,
            lasted: begin.elapsed(),
        }
    }

    /// Offers the terminator at a router that has none of its bindings.
    async fn bind(
        &self,
        listener: &str,
        standing: Standing,
    ) -> Result<(Binding, String), SessionError> {
        let offer = Offer {
            listener: listener.to_owned(),
            terminator: self.terminator.instance.clone(),
            cost: standing.cost,
            precedence: standing.precedence,
        };
        let service = &self.terminator.service;
        loop {
            let taken = self.taken.lock().clone();
            let (router, channel) = self.session.hosting_channel(service, &taken).await?;
            // Another binding of this terminator may have got there in the meantime.
            if !self.taken.lock().insert(router.clone()) {
                continue;
            }
            let bound = self.session.bind_over(&channel, service, &offer).await;
            if bound.is_err() {
                self.taken.lock().remove(&router);
            }
            return bound.map(|binding| (binding, router));
        }
    }

    /// Answers those who dial, until the binding ends.
    async fn answer(
        &self,
        mut binding: Binding,
        mut standing: watch::Receiver<Standing>,
        mut announced: u64,
        is_first: bool,
    ) -> SessionError {
        let of_service = |error| SessionError::Dial {
            service: self.terminator.service().to_owned(),
            error,
        };
        loop {
            let dialer = tokio::select! {
                dialer = binding.next() => dialer,
                // The sender lives as long as this does.
                Ok(()) = standing.changed() => {
                    let present = *standing.borrow_and_update();
                    let mut told = binding.update(&present).await;
                    if is_first && present.events != announced && told.is_ok() {
                        told = binding.announce(present.has_passed).await;
                    }
                    announced = present.events;
                    match told {
                        Ok(()) => continue,
                        Err(error) => return of_service(error.into()),
                    }
                }
            };
            let dialer = match dialer {
                Ok(dialer) => dialer,
                Err(error) => return of_service(error),
            };
            let Ok(one) = Arc::clone(&self.free).try_acquire_owned() else {
                dialer.reject("the host has too many connections").await;
                continue;
            };
            let service = self.terminator.service().to_owned();
            let config = Arc::clone(&self.terminator.config);
            tokio::spawn(async move {
                let dialed_by = cut(dialer.name().unwrap_or_default(), SHOWN);
                match lead(dialer, &config).await {
                    Ok(()) => tracing::debug!(%service, %dialed_by, "a connection has ended"),
                    // Dialers choose what they ask for.
                    Err(error @ HostError::Refused(_)) => {
                        tracing::debug!(%service, %dialed_by, %error, "a dialer is refused");
                    }
                    Err(error) => {
                        tracing::warn!(%service, %dialed_by, %error, "a connection failed");
                    }
                }
                drop(one);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn terminator(config: serde_json::Value, identity: serde_json::Value) -> Terminator {
        let service = json!({ "id": "s1", "name": "web", "permissions": ["Bind"] });
        let service = serde_json::from_value(service).unwrap();
        let mut config = config;
        for (name, value) in [
            ("protocol", json!("tcp")),
            ("address", json!("127.0.0.1")),
            ("port", json!(80)),
        ] {
            config[name] = value;
        }
        let configs = BTreeMap::from([("host.v1".to_owned(), config)]);
        let config = HostConfig::of_service(&configs).unwrap().remove(0);
        Terminator::new(&service, config, &serde_json::from_value(identity).unwrap())
    }

    #[test]
    fn what_is_said_about_a_service_counts_first() {
        let of_config = json!({ "listenOptions": { "cost": 5, "precedence": "failed" } });
        let of_identity = json!({
            "name": "server", "defaultHostingCost": 7, "defaultHostingPrecedence": "required",
        });
        let mut of_service = of_identity.clone();
        of_service["serviceHostingCosts"] = json!({ "s1": 9, "s2": 11 });
        of_service["serviceHostingPrecedences"] = json!({ "s1": "default" });
        for (config, identity, expected) in [
            (
                json!({}),
                json!({ "name": "server" }),
                (0, Precedence::Default),
            ),
            (json!({}), of_identity.clone(), (7, Precedence::Required)),
            (of_config.clone(), of_identity, (5, Precedence::Failed)),
            (of_config, of_service, (9, Precedence::Default)),
        ] {
            let terminator = terminator(config, identity);
            assert_eq!((terminator.cost, terminator.precedence), expected);
        }
    }

    #[test]
    fn instances_are_templates() {
        let identity = json!({
            "name": "server",
            "tags": {
                "site": "a$tunneler_id.tag[site]", "floor": 3, "list": ["$tunneler_id.tag[list]"],
            },
            "appData": { "rack": "r1" },
        });
        for (options, expected) in [
            (json!({}), None),
            (json!({ "identity": "" }), None),
            (json!({ "bindUsingEdgeIdentity": true }), Some("server")),
            (
                json!({ "identity": "$tunneler_id.name/$tunneler_id.tag[floor]" }),
                Some("server/3"),
            ),
            (
                json!({ "identity": "$tunneler_id.appData[rack]-$tunneler_id.tag[none]" }),
                Some("r1-"),
            ),
            (
                json!({ "identity": "$tunneler_id.tag[site]" }),
                Some("a$tunneler_id.tag[site]"),
            ),
            (
                json!({ "identity": "$tunneler_id.tag[list]" }),
                Some(r#"["$tunneler_id.tag[list]"]"#),
            ),
            (
                json!({ "identity": "$tunneler_id.tag[site" }),
                Some("$tunneler_id.tag[site"),
            ),
        ] {
            let terminator = terminator(json!({ "listenOptions": options }), identity.clone());
            assert_eq!(terminator.instance.as_deref(), expected);
        }
    }
}
