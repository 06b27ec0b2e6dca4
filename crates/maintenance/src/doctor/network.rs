//! Checks of a running or stopped controller that need the network: ports, advertised addresses,
//! certificates that end, key sets.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use model::{
    config::{self, Address, Config},
    error::Error,
    outbound::HttpClient,
};
use policy::authentication::key_sets;
use rustls::pki_types::CertificateDer;

use super::DoctorFinding;

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all key sets may take together.
const PATIENCE_WITH_KEY_SETS: Duration = Duration::from_secs(20);
/// The maximum bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// Names in one finding.
const SHOWN: usize = 5;

/// The checks of [`record_findings`].
pub const RECORD_CHECKS: [&str; 2] = [CERTIFICATES, KEY_SETS];
const CERTIFICATES: &str = "certificates";
const KEY_SETS: &str = "key sets";

/// The findings about ports and advertised addresses. `authorities` are those that clients of the
/// controller trust that runs with this configuration; `None` if none runs.
pub fn address_findings(
    config: &Config,
    authorities: Option<&[CertificateDer<'_>]>,
) -> Vec<DoctorFinding> {
    let own = [
        config.router.listen.filter(|_| config.router.enabled),
        config.routers.listen,
        config.metrics.listen,
    ];
    let addresses = config
        .listen
        .addresses()
        .iter()
        .copied()
        .chain(own.into_iter().flatten())
        .filter(|address| address.port() != 0);
    let mut found: Vec<DoctorFinding> = addresses
        .map(|address| port(address, authorities.is_some()))
        .collect();
    let Some(authorities) = authorities else {
        return found;
    };
    let addresses: Vec<SocketAddr> = config
        .listen
        .addresses()
        .iter()
        .copied()
        .filter(|address| address.port() != 0)
        .collect();
    let advertised = if config.advertise.is_empty() && addresses.is_empty() {
        Vec::new()
    } else {
        config.advertised(&addresses)
    };
    let authorities = config.tls.certificate.is_none().then_some(authorities);
    found.extend(
        advertised
            .iter()
            .map(|address| served(address, authorities)),
    );
    found
}

/// What the controller knows of its records.
pub struct RecordFacts {
    /// Kinds and names of what ends within 30 days or has ended, without enrollments.
    pub ending: Vec<String>,
    /// Names of the enabled signers with a key set, and its URL.
    pub signers: Vec<(String, String)>,
}

/// The findings about certificates that end, and about the key sets of signers. `facts` is an error
/// if the records cannot be read.
pub fn record_findings(config: &Config, facts: Result<&RecordFacts, &Error>) -> Vec<DoctorFinding> {
    match facts {
        Ok(RecordFacts { ending, signers }) => vec![
            certificates(ending),
            key_set_finding(signers, &config.key_sets),
        ],
        Err(error) => RECORD_CHECKS
            .map(|check| DoctorFinding::unreadable(check, error))
            .into(),
    }
}

/// A port that the controller listens on, or would listen on.
fn port(address: SocketAddr, is_running: bool) -> DoctorFinding {
    const CHECK: &str = "port";
    if is_running {
        return match TcpStream::connect_timeout(&reachable(address), PATIENCE) {
            Ok(_) => DoctorFinding::good(CHECK, format!("{address} is open")),
            Err(error) => DoctorFinding::bad(
                CHECK,
                format!("{address}: {error}"),
                "does the controller run with this configuration? restart it",
            ),
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => DoctorFinding::good(CHECK, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => DoctorFinding::bad(
            CHECK,
            format!("another program has {address}"),
            format!("ss -ltnp 'sport = :{}' shows which", address.port()),
        ),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{address}: {error}"),
            "set listen to an address of this host, and to a port that the user may use",
        ),
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

/// Whether an advertised address leads to this controller, and the certificate there has the name
/// of the address. `authorities` are those of the controller's own certificate; `None` if the
/// controller serves a certificate of another issuer.
fn served(address: &Address, authorities: Option<&[CertificateDer<'_>]>) -> DoctorFinding {
    const CHECK: &str = "advertised address";
    let resolved = (address.host(), address.port())
        .to_socket_addrs()
        .map(|found| found.map(|at| at.ip().to_string()).collect::<Vec<_>>());
    let resolved = match resolved {
        Ok(resolved) if !resolved.is_empty() => resolved.join(", "),
        Ok(_) => {
            return DoctorFinding::bad(
                CHECK,
                format!("{address}: no address found"),
                "add the name to the DNS, or correct advertise",
            );
        }
        Err(error) => {
            return DoctorFinding::bad(
                CHECK,
                format!("{address}: {error}"),
                "add the name to the DNS, or correct advertise",
            );
        }
    };
    let client = match authorities {
        Some(authorities) => HttpClient::trusting(authorities, PATIENCE),
        None => HttpClient::of_system(PATIENCE),
    };
    match client
        .and_then(|client| client.get(&format!("https://{address}/health"), MAX_ANSWER))
        .map(|answer| answer.status)
    {
        Ok(200) => DoctorFinding::good(
            CHECK,
            format!("{address} ({resolved}) serves this controller's certificate"),
        ),
        Ok(status) => DoctorFinding::bad(
            CHECK,
            format!("{address} ({resolved}) answers with status {status}"),
            "a proxy or another program answers there; the port must lead to this controller",
        ),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{address} ({resolved}): {error}"),
            "the port must lead to this controller without a proxy that ends TLS; a firewall may block the port, or this host cannot reach its own public address",
        ),
    }
}

/// Certificates that end within 30 days.
fn certificates(ending: &[String]) -> DoctorFinding {
    if ending.is_empty() {
        return DoctorFinding::good(CERTIFICATES, "none ends within 30 days");
    }
    let first: Vec<&str> = ending.iter().take(SHOWN).map(String::as_str).collect();
    let told = format!(
        "{} end within 30 days or have ended: {}",
        ending.len(),
        first.join(", ")
    );
    DoctorFinding::bad(
        CERTIFICATES,
        told,
        "overkeep expiring lists them; enroll again what does not renew itself",
    )
}

/// Whether the key sets of the signers can be fetched from this host and hold usable keys, and
/// which of their keys are not used.
fn key_set_finding(signers: &[(String, String)], settings: &config::KeySetConfig) -> DoctorFinding {
    let (mut failed, mut skipped, until) = (
        Vec::new(),
        Vec::new(),
        Instant::now() + PATIENCE_WITH_KEY_SETS,
    );
    let client = HttpClient::of_system(PATIENCE);
    for (name, endpoint) in signers {
        if Instant::now() > until {
            failed.push(format!("{name}: not checked, as the others took too long"));
            continue;
        }
        let admitted = key_sets::admit(endpoint, settings);
        let client = admitted.and_then(|()| Ok(client.as_ref().map_err(Clone::clone)?));
        match client.and_then(|client| key_sets::get(client, endpoint, settings)) {
            Ok(keys) if keys.is_empty() => failed.push(format!(
                "{name}: no key can be used{}",
                listed(": ", keys.skipped())
            )),
            Ok(keys) => skipped.extend(keys.skipped().iter().map(|key| format!("{name}: {key}"))),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    if failed.is_empty() {
        skipped.truncate(SHOWN);
        return DoctorFinding::good(
            KEY_SETS,
            format!(
                "{} can be fetched{}",
                signers.len(),
                listed("; keys that are not used: ", &skipped)
            ),
        );
    }
    failed.truncate(SHOWN);
    let mend = "the jwksEndpoint must be reachable from this host, with a certificate of an authority that the system trusts, and hold keys for signatures";
    DoctorFinding::bad(KEY_SETS, failed.join("; "), mend)
}

/// The texts after some words; nothing if there are none.
fn listed(lead: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        String::new()
    } else {
        format!("{lead}{}", texts.join("; "))
    }
}
