//! Checks of `overkeep doctor` that need the network or the running controller: ports, addresses, certificates, key sets.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::Duration,
};

use serde_json::Value as Json;

use crate::{
    cli::{
        api::{https, request::Request, transport::Transport},
        trust::roots_of,
    },
    config::{Address, Config},
    maintenance::doctor::Finding,
};

/// How long a connection or an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
const CONTROLLER: &str = "controller";
/// Names in one finding.
const MAX_NAMES: usize = 5;

/// All findings about a running controller, with the configuration that it runs with: it checks its host itself, and its answer names the addresses that it
/// advertises. `None` if none answers.
pub(crate) fn running_findings(controller: &Transport) -> Option<Vec<Finding>> {
    let mut found: Vec<Finding> = serde_json::from_value(data(&get(controller, "/overkeep/v1/doctor", &[]).ok()?)).ok()?;
    let roots = roots_of(&get(controller, "/.well-known/est/cacerts", &[]).ok()?).ok()?;
    let version = data(&get(controller, "/edge/management/v1/version", &[]).ok()?);
    let urls = version.pointer("/apiVersions/edge-management/v1/apiBaseUrls").and_then(Json::as_array);
    let hosts = urls.into_iter().flatten().filter_map(|url| url.as_str()?.strip_prefix("https://")?.split('/').next());
    found.push(Finding::good(CONTROLLER, "it answers, and is checked with the configuration that it runs with"));
    let pem = in_pem(&roots);
    found.extend(hosts.filter_map(|host| host.parse().ok()).map(|address| {
        let own = served(&address, Some(&pem));
        // Its certificate may be one of another issuer.
        let other = (!own.healthy).then(|| served(&address, None)).filter(|other| other.healthy);
        other.unwrap_or(own)
    }));
    found.extend([ending(controller), key_sets(controller)]);
    Some(found)
}

fn in_pem(roots: &[Vec<u8>]) -> String {
    roots.iter().map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.as_slice()))).collect()
}

/// All of them.
pub(crate) fn findings(config: &Config, controller: &Transport) -> Vec<Finding> {
    let roots = get(controller, "/.well-known/est/cacerts", &[]).ok().and_then(|answer| roots_of(&answer).ok());
    let mut found = vec![running(config, roots.is_some())];
    let own = [config.router.listen.filter(|_| config.router.enabled), config.routers.listen, config.metrics.listen];
    let addresses = config.listen.addresses().iter().copied().chain(own.into_iter().flatten()).filter(|address| address.port() != 0);
    found.extend(addresses.map(|address| port(address, roots.is_some())));
    let Some(roots) = roots else { return found };
    let pem = in_pem(&roots);
    let addresses: Vec<SocketAddr> = config.listen.addresses().iter().copied().filter(|address| address.port() != 0).collect();
    let advertised = if config.advertise.is_empty() && addresses.is_empty() { Vec::new() } else { config.advertised(&addresses) };
    found.extend(advertised.iter().map(|address| served(address, (config.tls.certificate.is_none()).then_some(pem.as_str()))));
    found.push(ending(controller));
    found.push(key_sets(controller));
    found
}

fn running(config: &Config, is_running: bool) -> Finding {
    if is_running {
        return Finding::good(CONTROLLER, format!("it answers beside {}", config.data.display()));
    }
    let detail = format!("no controller answers beside {}; addresses, certificates and key sets were not checked", config.data.display());
    Finding::bad(CONTROLLER, detail, "overkeep run, or run this as the user of the controller")
}

/// A port that the controller listens on, or would listen on.
fn port(address: SocketAddr, is_running: bool) -> Finding {
    const CHECK: &str = "port";
    if is_running {
        return match TcpStream::connect_timeout(&reachable(address), TIMEOUT) {
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

/// Whether an advertised address leads to this controller, and its certificate has the name. `authorities` are those of the controller's own
/// certificate; `None` if it has one of another issuer.
fn served(address: &Address, authorities: Option<&str>) -> Finding {
    const CHECK: &str = "advertised address";
    let resolved = (address.host(), address.port()).to_socket_addrs().map(|found| found.map(|at| at.ip().to_string()).collect::<Vec<_>>());
    let resolved = match resolved {
        Ok(resolved) if !resolved.is_empty() => resolved.join(", "),
        Ok(_) => return Finding::bad(CHECK, format!("{address} resolves to nothing"), "add the name to the DNS, or correct advertise"),
        Err(error) => return Finding::bad(CHECK, format!("{address}: {error}"), "add the name to the DNS, or correct advertise"),
    };
    let agent = match authorities {
        Some(pem) => https::agent(Some(pem)).map_err(|failure| failure.message()),
        None => Ok(https::of_system(TIMEOUT)),
    };
    let url = format!("https://{address}/health");
    let asked = agent.and_then(|agent| {
        let asked = agent.get(&url).config().timeout_global(Some(TIMEOUT)).build().call();
        asked.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    });
    match asked {
        Ok(200) => Finding::good(CHECK, format!("{address} ({resolved}) serves this controller's certificate")),
        Ok(status) => {
            Finding::bad(CHECK, format!("{address} ({resolved}) answers with status {status}"), "a proxy or another program is there")
        }
        Err(error) => Finding::bad(
            CHECK,
            format!("{address} ({resolved}): {error}"),
            "the port must lead to this controller without a proxy that ends TLS; a firewall may be closed, or this host cannot reach its own public address",
        ),
    }
}

/// Certificates that end within 30 days.
fn ending(controller: &Transport) -> Finding {
    const CHECK: &str = "certificates";
    match get(controller, "/overkeep/v1/expiring", &[("within", "30d")]).map(|text| data(&text)) {
        Ok(found) => {
            let items: Vec<&Json> = found.get("items").and_then(Json::as_array).into_iter().flatten().collect();
            // Enrollments last for hours, and snapshots have a check of their own.
            let other = |item: &&&Json| item.get("kind").is_none_or(|kind| kind != "enrollment" && kind != "snapshot");
            let ending: Vec<&&Json> = items.iter().filter(other).collect();
            if ending.is_empty() {
                return Finding::good(CHECK, "none ends within 30 days");
            }
            let of = |item: &&&Json, member: &str| item.get(member).and_then(Json::as_str).unwrap_or_default().to_owned();
            let first: Vec<String> =
                ending.iter().take(MAX_NAMES).map(|item| format!("{} {}", of(item, "kind"), of(item, "name"))).collect();
            let told = format!("{} end within 30 days or have ended: {}", ending.len(), first.join(", "));
            Finding::bad(CHECK, told, "overkeep expiring lists them; enroll again what does not renew itself")
        }
        Err(error) => Finding::bad(CHECK, error, "overkeep check"),
    }
}

/// Whether the key sets of the enabled signers can be fetched from this host.
fn key_sets(controller: &Transport) -> Finding {
    const CHECK: &str = "key sets";
    let signers = match get(controller, "/edge/management/v1/external-jwt-signers", &[("limit", "500")]).map(|text| data(&text)) {
        Ok(signers) => signers,
        Err(error) => return Finding::bad(CHECK, error, "overkeep check"),
    };
    let (mut reached, mut failed) = (0_usize, Vec::new());
    let agent = https::of_system(TIMEOUT);
    for signer in signers.as_array().into_iter().flatten() {
        let text = |member: &str| signer.get(member).and_then(Json::as_str).filter(|text| !text.is_empty());
        let (Some(endpoint), Some(&Json::Bool(true))) = (text("jwksEndpoint"), signer.get("enabled")) else { continue };
        match agent.get(endpoint).call().map(|answer| answer.status().as_u16()) {
            Ok(200) => reached += 1,
            Ok(status) => failed.push(format!("{}: status {status}", text("name").unwrap_or(endpoint))),
            Err(error) => failed.push(format!("{}: {error}", text("name").unwrap_or(endpoint))),
        }
    }
    if failed.is_empty() {
        return Finding::good(CHECK, format!("{reached} can be fetched"));
    }
    failed.truncate(MAX_NAMES);
    let mend = "the jwksEndpoint must be reachable from this host, with a certificate of an authority that the system trusts";
    Finding::bad(CHECK, failed.join("; "), mend)
}

/// The body of a successful answer.
fn get(controller: &Transport, path: &str, query: &[(&str, &str)]) -> Result<String, String> {
    let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let request = Request { method: "GET".into(), path: path.into(), query, ..Request::default() };
    let answer = controller.ask(request, None).and_then(|answer| answer.good());
    answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).map_err(|failure| failure.message())
}

fn data(text: &str) -> Json {
    let mut whole: Json = serde_json::from_str(text).unwrap_or_default();
    whole.get_mut("data").map(Json::take).unwrap_or_default()
}
