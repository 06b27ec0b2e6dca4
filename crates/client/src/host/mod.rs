//! Hosting: connections to services of the network lead to local servers.
//!
//! One task for each identity follows its services. It keeps a [`Terminator`](terminator) for each
//! that is to be hosted, and makes it anew when the service or its configs become others.
//! `config.rs` reads what a config says, `destination.rs` decides where a connection leads to,
//! `connect.rs` connects, and `check.rs` checks the health of servers.

mod address;
mod check;
mod config;
mod connect;
mod destination;
mod duration;
mod identity;
mod lead;
mod target;
mod terminator;

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{Right, Service, Session, SessionError, jittered};
use config::HostConfig;
pub(crate) use destination::TEST;
use destination::cut;
use identity::HostIdentity;
pub(crate) use lead::ECHO;
pub use target::{Protocol, Target};
use terminator::Terminator;

/// Everything is read again after so long, even if nothing has changed.
const WHOLE: Duration = Duration::from_secs(300);

/// The most bindings and health checks of an identity.
const TASKS: usize = 20_000;
/// The most characters of the reason why a service is not hosted.
const REASON: usize = 300;

/// What a host hosts.
#[derive(Debug, Clone)]
pub enum Hosted {
    /// Every service that the identity may host, as its configs say.
    Configured,
    /// These services, by their names.
    Targets(Vec<(String, Target)>),
}

/// A service that is hosted. Dropping it ends its terminators, not their connections.
struct Running {
    terminators: Vec<Terminator>,
    _tasks: JoinSet<()>,
}

/// The services that one identity hosts.
struct Follower {
    session: Session,
    hosted: Hosted,
    running: BTreeMap<String, Running>,
    /// What was said about a service that is not hosted, by its name.
    told: BTreeMap<String, String>,
    /// When everything was read, and which change was the last then.
    read: Option<(Instant, String)>,
}

/// Hosts services until the task is dropped. Bindings that end are made anew. What cannot be hosted
/// is logged once. The controller is asked for changes once in `poll`.
pub async fn host(session: Session, hosted: Hosted, poll: Duration) {
    let mut follower = Follower {
        session,
        hosted,
        running: BTreeMap::new(),
        told: BTreeMap::new(),
        read: None,
    };
    let mut told = None;
    loop {
        let failure = follower.follow().await.err().map(|error| error.to_string());
        if let Some(error) = &failure
            && told != failure
        {
            tracing::warn!(%error, "the services of the identity cannot be read");
        }
        told = failure;
        sleep(jittered(poll)).await;
    }
}

impl Follower {
    /// Hosts what is to be hosted now.
    async fn follow(&mut self) -> Result<(), SessionError> {
        let change = self.session.last_change().await?;
        if let Some((at, last)) = &self.read
            && *last == change
            && at.elapsed() < WHOLE
        {
            return Ok(());
        }
        let services = self.session.services().await?;
        let identity: HostIdentity = self.session.about_identity().await?;
        self.read = Some((Instant::now(), change));
        let mut wanted = BTreeMap::new();
        let mut problems = BTreeMap::new();
        let mut tasks = 0;
        for (service, configs) in self.configs(&services, &mut problems) {
            let terminators: Vec<_> = configs
                .into_iter()
                .map(|config| Terminator::new(&service, config, &identity))
                .collect();
            let more: usize = terminators.iter().map(Terminator::tasks).sum();
            if tasks + more > TASKS {
                let reason = format!("over {TASKS} bindings and checks are needed in all");
                problems.insert(service.name, reason);
                continue;
            }
            tasks += more;
            wanted.insert(service.id, terminators);
        }
        self.running.retain(|id, running| {
            let is_wanted = wanted.contains_key(id);
            if !is_wanted && let Some(one) = running.terminators.first() {
                tracing::info!(
                    service = one.service(),
                    "the service is not hosted any more"
                );
                self.session.forget_service(id);
            }
            is_wanted
        });
        for (id, terminators) in wanted {
            if self
                .running
                .get(&id)
                .is_some_and(|one| one.terminators == terminators)
            {
                continue;
            }
            // The former terminators end before the new ones begin.
            self.running.remove(&id);
            let mut tasks = JoinSet::new();
            for terminator in &terminators {
                tasks.spawn(terminator.clone().run(self.session.clone()));
            }
            let running = Running {
                terminators,
                _tasks: tasks,
            };
            self.running.insert(id, running);
        }
        for (service, problem) in &problems {
            if self.told.get(service) != Some(problem) {
                tracing::warn!(%service, error = %problem, "the service is not hosted");
            }
        }
        self.told = problems;
        Ok(())
    }

    /// The services to host, with what their terminators are like.
    fn configs(
        &self,
        services: &[Service],
        problems: &mut BTreeMap<String, String>,
    ) -> Vec<(Service, Vec<HostConfig>)> {
        let mut all = Vec::new();
        match &self.hosted {
            Hosted::Configured => {
                for service in services.iter().filter(|one| one.grants(Right::Bind)) {
                    match HostConfig::of_service(&service.config) {
                        Ok(configs) => all.push((service.clone(), configs)),
                        Err(error) => {
                            problems.insert(service.name.clone(), cut(&error.to_string(), REASON));
                        }
                    }
                }
            }
            Hosted::Targets(targets) => {
                let mut by_name: BTreeMap<&str, Vec<HostConfig>> = BTreeMap::new();
                for (name, target) in targets {
                    let config = HostConfig::fixed(target.clone());
                    by_name.entry(name).or_default().push(config);
                }
                for (name, configs) in by_name {
                    let found = services.iter().find(|service| service.name == name);
                    match found {
                        Some(service) if service.grants(Right::Bind) => {
                            all.push((service.clone(), configs));
                        }
                        Some(_) => {
                            let right = Right::Bind.verb();
                            let service = name.to_owned();
                            let error = SessionError::NoRight { right, service };
                            problems.insert(name.to_owned(), error.to_string());
                        }
                        None => {
                            let error = SessionError::NoService(name.to_owned());
                            problems.insert(name.to_owned(), error.to_string());
                        }
                    }
                }
            }
        }
        all
    }
}
