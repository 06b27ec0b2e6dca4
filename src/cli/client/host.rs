//! `overkeep host`: local servers as services of the network.

use clap::Args;
use client::{Right, Target, host};
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
#[derive(Args, Clone, Debug)]
pub(crate) struct Host {
    #[command(flatten)]
    identities: IdentityFlags,
    /// What is logged: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Services, each with the address of its server: HOST:PORT or udp:HOST:PORT
    #[arg(value_names = ["SERVICE", "TARGET"], required = true, num_args = 2..)]
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
        let mut tasks = JoinSet::new();
        for (name, target) in wanted {
            let found = find(&sessions, &name, Right::Bind).await;
            let (session, service) = found.map_err(CommandError::of)?;
            tasks.spawn(host(session, service.name, target));
        }
        for session in sessions.clone() {
            tasks.spawn(async move { session.keep_alive().await });
        }
        let ended = stopped().await;
        drop(tasks);
        log_out(&sessions).await;
        ended
    }
}
