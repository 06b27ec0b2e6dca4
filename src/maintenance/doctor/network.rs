//! Checks of a running or stopped controller that need the network: ports, advertised addresses, certificates that end, key sets.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use rustls::pki_types::CertificateDer;

use super::Finding;
use crate::{
    config::{Address, Config},
    outbound::Client,
};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all key sets may take together.
const PATIENCE_WITH_KEY_SETS: Duration = Duration::from_secs(20);
/// The maximum bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// Names in one finding.
const SHOWN: usize = 5;

/// What the checks know of a running controller.
pub(crate) struct ControllerFacts {
    /// The authorities that its clients trust.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Kinds and names of what ends within 30 days or has ended, without enrollments.
    pub ending: Result<Vec<String>, String>,
    /// Names of the enabled signers with a key set, and its URL.
    pub signers: Result<Vec<(String, String)>, String>,
}

/// The findings of all network checks. `controller` is what is known of the controller that runs with this configuration; `None` if none
/// runs.
pub(crate) fn findings(config: &Config, controller: Option<&ControllerFacts>) -> Vec<Finding> {
    let own = [config.router.listen.filter(|_| config.router.enabled), config.routers.listen, config.metrics.listen];
    let addresses = config.listen.addresses().iter().copied().chain(own.into_iter().flatten()).filter(|address| address.port() != 0);
    let mut found: Vec<Finding> = addresses.map(|address| port(address, controller.is_some())).collect();
    let Some(ControllerFacts { authorities, ending, signers }) = controller else { return found };
    let addresses: Vec<SocketAddr> = config.listen.addresses().iter().copied().filter(|address| address.port() != 0).collect();
    let advertised = if config.advertise.is_empty() && addresses.is_empty() { Vec::new() } else { config.advertised(&addresses) };
    let authorities = config.tls.certificate.is_none().then_some(authorities.as_slice());
    found.extend(advertised.iter().map(|address| served(address, authorities)));
    found.push(certificates(ending));
    found.push(key_sets(signers));
    found
}

/// A port that the controller listens on, or would listen on.
fn port(address: SocketAddr, is_running: bool) -> Finding {
    const CHECK: &str = "port";
    if is_running {
        return match TcpStream::connect_timeout(&reachable(address), PATIENCE) {
            Ok(_) => Finding::good(CHECK, format!("{address} is open")),
            Err(error) => Finding::bad(CHECK, format!("{address}: {error}"), "does the controller run with this configuration? restart it"),
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(CHECK, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Finding::bad(CHECK, format!("another program has {address}"), format!("ss -ltnp 'sport = :{}' shows which", address.port()))
        }
        Err(error) => {
            Finding::bad(CHECK, format!("{address}: {error}"), "set listen to an address of this host, and to a port that the user may use")
        }
    }
}

/// An address of this host for a listener on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether an advertised address leads to this controller, and the certificate there has the name of the address. `authorities` are those
/// of the controller's own certificate; `None` if the controller serves a certificate of another issuer.
pub(crate) fn served(address: &Address, authorities: Option<&[CertificateDer<'_>]>) -> Finding {
    const CHECK: &str = "advertised address";
    let resolved = (address.host(), address.port()).to_socket_addrs().map(|found| found.map(|at| at.ip().to_string()).collect::<Vec<_>>());
    let resolved = match resolved {
        Ok(resolved) if !resolved.is_empty() => resolved.join(", "),
        Ok(_) => return Finding::bad(CHECK, format!("{address}: no address found"), "add the name to the DNS, or correct advertise"),
        Err(error) => return Finding::bad(CHECK, format!("{address}: {error}"), "add the name to the DNS, or correct advertise"),
    };
    let client = match authorities {
        Some(authorities) => Client::trusting(authorities, PATIENCE),
        None => Client::of_system(PATIENCE),
    };
    match client.and_then(|client| client.get(&format!("https://{address}/health"), MAX_ANSWER)).map(|answer| answer.status) {
        Ok(200) => Finding::good(CHECK, format!("{address} ({resolved}) serves this controller's certificate")),
        Ok(status) => Finding::bad(
            CHECK,
            format!("{address} ({resolved}) answers with status {status}"),
            "a proxy or another program answers there; the port must lead to this controller",
        ),
        Err(error) => Finding::bad(
            CHECK,
            format!("{address} ({resolved}): {error}"),
            "the port must lead to this controller without a proxy that ends TLS; a firewall may block the port, or this host cannot reach its own public address",
        ),
    }
}

/// Certificates that end within 30 days.
pub(crate) fn certificates(ending: &Result<Vec<String>, String>) -> Finding {
    const CHECK: &str = "certificates";
    match ending {
        Ok(ending) if ending.is_empty() => Finding::good(CHECK, "none ends within 30 days"),
        Ok(ending) => {
            let first: Vec<&str> = ending.iter().take(SHOWN).map(String::as_str).collect();
            let told = format!("{} end within 30 days or have ended: {}", ending.len(), first.join(", "));
            Finding::bad(CHECK, told, "overkeep expiring lists them; enroll again what does not renew itself")
        }
        Err(error) => Finding::bad(CHECK, error, "overkeep check"),
    }
}

/// Whether the key sets of the signers can be fetched from this host.
pub(crate) fn key_sets(signers: &Result<Vec<(String, String)>, String>) -> Finding {
    const CHECK: &str = "key sets";
    let signers = match signers {
        Ok(signers) => signers,
        Err(error) => return Finding::bad(CHECK, error, "overkeep check"),
    };
    let (mut reached, mut failed, until) = (0_usize, Vec::new(), Instant::now() + PATIENCE_WITH_KEY_SETS);
    let client = Client::of_system(PATIENCE);
    for (name, endpoint) in signers {
        if Instant::now() > until {
            failed.push(format!("{name}: not checked, as the others took too long"));
            continue;
        }
        match client.as_ref().map_err(Clone::clone).and_then(|client| client.get(endpoint, MAX_ANSWER)).map(|answer| answer.status) {
            Ok(200) => reached += 1,
            Ok(status) => failed.push(format!("{name}: status {status}")),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    if failed.is_empty() {
        return Finding::good(CHECK, format!("{reached} can be fetched"));
    }
    failed.truncate(SHOWN);
    let mend = "the jwksEndpoint must be reachable from this host, with a certificate of an authority that the system trusts";
    Finding::bad(CHECK, failed.join("; "), mend)
}
