//! `overkeep host`: local servers as services of the network.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use client::{Hosted, Right, Session, Target, host, jittered};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};
use zeroize::Zeroizing;

use super::{
    identities::{IdentityFlags, find},
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
        let ended = tokio::select! {
            stopped = stopped() => stopped,
            hosted = hosting => hosted,
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
    /// The text of its file.
    text: Zeroizing<Vec<u8>>,
    _task: JoinSet<()>,
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
        self.take(self.flags.files()?);
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

    /// Hosts with the identities in these files, and with no others. One whose file is the same
    /// goes on.
    fn take(&mut self, files: Vec<PathBuf>) {
        self.running.retain(|path, _| files.contains(path));
        for path in files {
            let text = Zeroizing::new(fs::read(&path).unwrap_or_default());
            if self
                .running
                .get(&path)
                .is_some_and(|one| *one.text == *text)
            {
                continue;
            }
            let mut task = JoinSet::new();
            let (flags, sessions) = (Arc::clone(&self.flags), self.sessions.clone());
            task.spawn(host_with(path.clone(), flags, self.poll, sessions));
            self.running.insert(path, Running { text, _task: task });
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

/// Hosts with the identity in a file. While it cannot log in, it tries again.
async fn host_with(path: PathBuf, flags: Arc<IdentityFlags>, poll: Duration, sessions: Sessions) {
    let (mut pause, mut told) = (FIRST_PAUSE, String::new());
    let session = loop {
        match flags.log_in_from(&path).await {
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
    sessions.add(session.clone());
    let listed = Listed { session, sessions };
    keep_hosting(listed.session.clone(), Hosted::Configured, poll).await;
}
