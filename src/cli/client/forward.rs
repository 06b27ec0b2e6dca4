//! `overkeep forward`: local ports, or standard input and output, that lead to services.

use std::str::FromStr;

use clap::Args;
use client::{Forwarding, Right, Session};
use tokio::{
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

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

/// Lead local ports to services of the network, or standard input and output to one.
#[derive(Args, Clone, Debug)]
pub(crate) struct Forward {
    #[command(flatten)]
    identities: IdentityFlags,
    /// Reach the terminator with this identity
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// What is logged: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Services, each with the address where it is to be reached here: HOST:PORT, udp:HOST:PORT, or
    /// - for standard input and output
    #[arg(value_names = ["SERVICE", "LISTEN"], required = true, num_args = 2..)]
    services: Vec<String>,
}

/// Where a service is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Listen {
    Tcp(String),
    Udp(String),
    StandardStreams,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = |address: &str| {
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            match port {
                Some(Ok(_)) => Ok(address.to_owned()),
                _ => Err(format!("{text}: it must be HOST:PORT, udp:HOST:PORT or -")),
            }
        };
        match text.split_once(':') {
            _ if text == "-" => Ok(Self::StandardStreams),
            Some(("tcp", rest)) => address(rest).map(Self::Tcp),
            Some(("udp", rest)) => address(rest).map(Self::Udp),
            _ => address(text).map(Self::Tcp),
        }
    }
}

impl Forward {
    /// Leads ports to services until the process is stopped, or standard input and output to one
    /// until it has ended.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self) -> CommandResult {
        let (pairs, rest) = self.services.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(CommandError::Flag(
                "each SERVICE needs a LISTEN behind it: HOST:PORT, udp:HOST:PORT or -".to_owned(),
            ));
        }
        let mut wanted = Vec::new();
        for [service, listen] in pairs {
            let listen: Listen = listen.parse().map_err(CommandError::Flag)?;
            wanted.push((service.clone(), listen));
        }
        let uses_streams = wanted
            .iter()
            .any(|(_, listen)| *listen == Listen::StandardStreams);
        if uses_streams && wanted.len() > 1 {
            return Err(CommandError::Flag(
                "standard input and output lead to one service only".to_owned(),
            ));
        }
        // The person sees the line that the command ends with, and nothing else.
        start_log(if uses_streams {
            "error"
        } else {
            &self.log_level
        })?;
        let runtime = runtime()?;
        let done = runtime.block_on(self.serve(wanted));
        // A read of standard input cannot be ended.
        runtime.shutdown_background();
        done.map(|()| Outcome::Done(Vec::new()))
    }

    async fn serve(&self, wanted: Vec<(String, Listen)>) -> Result<(), CommandError> {
        let sessions = self.identities.log_in().await?;
        let mut kept: JoinSet<()> = JoinSet::new();
        for session in sessions.clone() {
            kept.spawn(async move { session.keep_alive().await });
        }
        let all = Sessions::from(sessions.clone());
        let ended = tokio::select! {
            stopped = stopped() => stopped,
            served = self.serve_all(&sessions, wanted) => served,
            () = answer_status("forward", all.clone()) => Ok(()),
        };
        all.log_out().await;
        ended
    }

    /// Returns when standard input and output have ended, or a port fails.
    async fn serve_all(
        &self,
        sessions: &[Session],
        wanted: Vec<(String, Listen)>,
    ) -> Result<(), CommandError> {
        let mut tasks = JoinSet::new();
        for (name, listen) in wanted {
            let found = find(sessions, &name, Right::Dial).await;
            let (place, service) = found.map_err(CommandError::of)?;
            let Some(session) = sessions.get(place) else {
                continue;
            };
            let forwarding = Forwarding::new(session.clone(), service, self.identity.clone());
            let failed = |address: &str, error| CommandError::of(format!("{address}: {error}"));
            match listen {
                Listen::StandardStreams => {
                    let served = forwarding.serve_standard_streams().await;
                    return served.map_err(CommandError::of);
                }
                Listen::Tcp(address) => {
                    let port = TcpListener::bind(&address).await;
                    let port = port.map_err(|error| failed(&address, error))?;
                    told(&name, "tcp", port.local_addr());
                    tasks.spawn(async move {
                        forwarding.serve_connections(port).await;
                        Ok(())
                    });
                }
                Listen::Udp(address) => {
                    let port = UdpSocket::bind(&address).await;
                    let port = port.map_err(|error| failed(&address, error))?;
                    told(&name, "udp", port.local_addr());
                    tasks.spawn(forwarding.serve_datagrams(port));
                }
            }
        }
        match tasks.join_next().await {
            Some(Ok(Err(error))) => Err(CommandError::of(error)),
            _ => Ok(()),
        }
    }
}

fn told(service: &str, protocol: &str, address: std::io::Result<std::net::SocketAddr>) {
    if let Ok(address) = address {
        tracing::info!(%service, %protocol, %address, "the service can be reached");
    }
}
