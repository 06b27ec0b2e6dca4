//! `overkeep host`: local servers as services of the network.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use client::{Hosted, IdentityFile, Right, Session, Target, host, jittered};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};

use super::{
    identities::{IdentityFlags, at_least_one, find},
    runtime,
    sessions::Sessions,
    start_log,
    status::answer_status,
    stopped,
};
use crate::{
    admin_socket::Outcome,
    cli::failure::{CommandError, CommandResult},
};

/// The first pause before an identity logs in again; it doubles up to the last one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Host services of the network: their connections lead to servers that this machine reaches.
/// Without a service, everything is hosted that the identities may host and whose configs (host.v1
/// or host.v2) say where it leads.
#[derive(Args, Clone, Debug)]
pub(crate) struct Host {
    #[command(flatten)]
    identities: IdentityFlags,
    /// What is logged: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Seconds until the controller is asked again what has changed
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = 1..=3600)]
    poll: i64,
    /// Services, each with the address of its server: HOST:PORT or udp:HOST:PORT
    #[arg(value_names = ["SERVICE", "TARGET"], num_args = 2..)]
    services: Vec<String>,
}

impl Host {
    /// Hosts the services until the process is stopped.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self) -> CommandResult {
        let (pairs, rest) = self.services.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(CommandError::Flag(
                "each SERVICE needs a TARGET behind it: HOST:PORT or udp:HOST:PORT".to_owned(),
            ));
        }
        let mut wanted = Vec::new();
        for [service, target] in pairs {
            let target: Target = target
                .parse()
                .map_err(|error| CommandError::Flag(format!("{target}: {error}")))?;
            wanted.push((service.clone(), target));
        }
        start_log(&self.log_level)?;
        let runtime = runtime()?;
        let done = runtime.block_on(self.serve(wanted));
        runtime.shutdown_background();
        done.map(|()| Outcome::Done(Vec::new()))
    }

    async fn serve(self, wanted: Vec<(String, Target)>) -> Result<(), CommandError> {
        let (poll, sessions) = (
            Duration::from_secs(self.poll.unsigned_abs()),
            Sessions::default(),
        );
        let hosting = async {
            if wanted.is_empty() {
                let hosts = Hosts::new(self.identities, poll, sessions.clone());
                hosts.keep().await
            } else {
                let all = self.identities.log_in().await?;
                let hosted = targets(&all, wanted).await?;
                let mut tasks = JoinSet::new();
                for (session, hosted) in all.iter().zip(hosted) {
                    sessions.add(session.clone());
                    tasks.spawn(keep_hosting(session.clone(), hosted, poll));
                }
                tasks.join_all().await;
                Ok(())
            }
        };
        // What is hosted ends after the log-outs, which end it at the routers.
        let mut hosting = pin!(hosting);
        let ended = tokio::select! {
            stopped = stopped() => stopped,
            hosted = &mut hosting => hosted,
            () = answer_status("host", sessions.clone()) => Ok(()),
        };
        sessions.log_out().await;
        ended
    }
}

async fn keep_hosting(session: Session, hosted: Hosted, poll: Duration) {
    tokio::join!(host(session.clone(), hosted, poll), session.keep_alive());
}

/// What each session hosts, in their order. A service belongs to the first identity that may host
/// it.
///
/// # Errors
/// No identity sees a service, or a controller does not answer.
async fn targets(
    sessions: &[Session],
    wanted: Vec<(String, Target)>,
) -> Result<Vec<Hosted>, CommandError> {
    let mut all: Vec<Vec<(String, Target)>> = vec![Vec::new(); sessions.len()];
    for (name, target) in wanted {
        let found = find(sessions, &name, Right::Bind).await;
        let (place, service) = found.map_err(CommandError::of)?;
        if let Some(targets) = all.get_mut(place) {
            targets.push((service.name, target));
        }
    }
    Ok(all.into_iter().map(Hosted::Targets).collect())
}

/// The identities that host what their configs say, each in a task of its own. SIGHUP reads their
/// files again.
struct Hosts {
    flags: Arc<IdentityFlags>,
    poll: Duration,
    sessions: Sessions,
    running: BTreeMap<PathBuf, Running>,
}

/// One identity. Dropping it ends what it hosts.
struct Running {
    /// Once it is logged in.
    session: Arc<Mutex<Option<Session>>>,
    _task: JoinSet<()>,
}

impl Running {
    /// Whether the file still holds the identity that is logged in. One that cannot be read now
    /// does not end what runs.
    fn is_in(&self, path: &Path) -> bool {
        let session = self.session.lock();
        let Some(session) = &*session else {
            return false;
        };
        IdentityFile::read(path).map_or(true, |identity| session.holds(&identity))
    }
}

impl Hosts {
    fn new(flags: IdentityFlags, poll: Duration, sessions: Sessions) -> Self {
        Self {
            flags: Arc::new(flags),
            poll,
            sessions,
            running: BTreeMap::new(),
        }
    }

    /// Hosts for as long as this is awaited.
    ///
    /// # Errors
    /// At the start there is no identity, or the signal cannot be received.
    async fn keep(mut self) -> Result<(), CommandError> {
        let mut hangup = signal(SignalKind::hangup()).map_err(CommandError::of)?;
        let files = at_least_one(self.flags.files()?)?;
        self.take(files);
        while hangup.recv().await.is_some() {
            match self.flags.files() {
                Ok(files) => self.take(files),
                Err(error) => {
                    tracing::warn!(error = error.message(), "the identities are not read again");
                }
            }
        }
        Ok(())
    }

    /// Hosts with the identities in these files, and with no others. One whose file holds the same
    /// goes on.
    fn take(&mut self, files: Vec<PathBuf>) {
        self.running.retain(|path, _| files.contains(path));
        for path in files {
            if self.running.get(&path).is_some_and(|one| one.is_in(&path)) {
                continue;
            }
            // The former task ends before the new one begins.
            self.running.remove(&path);
            let (mut task, session) = (JoinSet::new(), Arc::default());
            let host = IdentityHost {
                path: path.clone(),
                flags: Arc::clone(&self.flags),
                poll: self.poll,
                sessions: self.sessions.clone(),
                session: Arc::clone(&session),
            };
            task.spawn(host.run());
            let running = Running {
                session,
                _task: task,
            };
            self.running.insert(path, running);
        }
        tracing::info!(identities = self.running.len(), "identities are read");
    }
}

/// A session that ends when the task is dropped.
struct Listed {
    session: Session,
    sessions: Sessions,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.remove(&self.session);
        let session = self.session.clone();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { session.log_out().await });
        }
    }
}

/// What hosts with the identity in one file.
struct IdentityHost {
    path: PathBuf,
    flags: Arc<IdentityFlags>,
    poll: Duration,
    sessions: Sessions,
    session: Arc<Mutex<Option<Session>>>,
}

impl IdentityHost {
    /// Hosts until the task is dropped. While the identity cannot log in, it tries again.
    async fn run(self) {
        let (mut pause, mut told) = (FIRST_PAUSE, String::new());
        let session = loop {
            match self.flags.log_in_from(&self.path).await {
                Ok(session) => break session,
                Err(error) => {
                    if error.message() != told {
                        tracing::warn!(error = error.message(), "the identity cannot log in");
                    }
                    error.message().clone_into(&mut told);
                }
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        };
        tracing::info!(identity = %session.identity(), "the identity is logged in");
        *self.session.lock() = Some(session.clone());
        self.sessions.add(session.clone());
        let _listed = Listed {
            session: session.clone(),
            sessions: self.sessions,
        };
        keep_hosting(session, Hosted::Configured, self.poll).await;
    }
}
