//! `overkeep host`: local servers as services of the network.

use std::time::Duration;

use clap::Args;
use client::{Hosted, Right, Session, Target, host};
use tokio::task::JoinSet;

use super::{
    identities::{IdentityFlags, find, log_out},
    runtime, start_log, stopped,
};
use crate::{
    admin_socket::Outcome,
    cli::failure::{CommandError, CommandResult},
};

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

    async fn serve(&self, wanted: Vec<(String, Target)>) -> Result<(), CommandError> {
        let sessions = self.identities.log_in().await?;
        let hosted = hosted(&sessions, wanted).await?;
        let poll = Duration::from_secs(self.poll.unsigned_abs());
        let mut tasks = JoinSet::new();
        for (session, hosted) in sessions.iter().zip(hosted) {
            if let Some(hosted) = hosted {
                tasks.spawn(host(session.clone(), hosted, poll));
            }
            let session = session.clone();
            tasks.spawn(async move { session.keep_alive().await });
        }
        let ended = stopped().await;
        drop(tasks);
        log_out(&sessions).await;
        ended
    }
}

/// What each session hosts, in their order. A service that is named belongs to the first identity
/// that may host it.
async fn hosted(
    sessions: &[Session],
    wanted: Vec<(String, Target)>,
) -> Result<Vec<Option<Hosted>>, CommandError> {
    if wanted.is_empty() {
        return Ok(vec![Some(Hosted::Configured); sessions.len()]);
    }
    let mut all: Vec<Vec<(String, Target)>> = vec![Vec::new(); sessions.len()];
    for (name, target) in wanted {
        let found = find(sessions, &name, Right::Bind).await;
        let (place, service) = found.map_err(CommandError::of)?;
        if let Some(targets) = all.get_mut(place) {
            targets.push((service.name, target));
        }
    }
    let all = all.into_iter();
    Ok(all
        .map(|targets| (!targets.is_empty()).then_some(Hosted::Targets(targets)))
        .collect())
}
