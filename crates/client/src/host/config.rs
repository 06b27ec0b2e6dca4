//! The configs `host.v1`, `host.v2` and `ziti-tunneler-server.v1`, as they are read.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive, time::Duration};

use model::entity::Precedence;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value as Json;

use super::{
    address::{AddressPattern, Translation},
    check::{Action, Check, CheckKind, Effect, Trigger},
    destination::{DestinationRules, Part},
    duration::duration,
    identity::IDENTITY,
    target::{Protocol, Target},
};
use crate::controller::or_default;

/// How long a local server may take to accept, unless a config says otherwise. Routers wait 5
/// seconds for the answer to a Dial.
pub(super) const CONNECTING: Duration = Duration::from_secs(4);
/// The number of routers at which a service is hosted, unless a config says otherwise; and the most.
pub(super) const ROUTERS: usize = 3;
const MOST_ROUTERS: usize = 32;
/// The most terminators of one config, and checks of one terminator.
const TERMINATORS: usize = 64;
const CHECKS: usize = 32;
/// The most entries of a list.
const ENTRIES: usize = 4_096;
/// Checks are no more frequent, and no shorter.
const SHORTEST: Duration = Duration::from_millis(100);
/// A local server gets no more time.
const LONGEST: Duration = Duration::from_secs(60);

/// How one terminator of a service is hosted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostConfig {
    pub(super) rules: DestinationRules,
    /// `host:port` of a proxy for HTTP CONNECT.
    pub(super) proxy: Option<String>,
    pub(super) connecting: Duration,
    pub(super) routers: usize,
    /// A template for the identity of the terminator.
    pub(super) instance: Option<String>,
    pub(super) cost: Option<u16>,
    pub(super) precedence: Option<Precedence>,
    pub(super) checks: Vec<Check>,
}

/// Why a service is not hosted as its configs say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("it has none of the configs host.v2, host.v1 and ziti-tunneler-server.v1")]
    None,
    #[error("its config {config} cannot be read: {reason}")]
    Unreadable {
        config: &'static str,
        reason: String,
    },
}

impl HostConfig {
    /// Leads everybody to one target.
    pub(super) fn fixed(target: Target) -> Self {
        Self {
            rules: DestinationRules::fixed(target),
            proxy: None,
            connecting: CONNECTING,
            routers: ROUTERS,
            instance: None,
            cost: None,
            precedence: None,
            checks: Vec::new(),
        }
    }

    /// The terminators that the configs of a service describe, by the names of their types. The
    /// first of `host.v2`, `host.v1` and `ziti-tunneler-server.v1` counts.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub(crate) fn of_service(configs: &BTreeMap<String, Json>) -> Result<Vec<Self>, ConfigError> {
        if let Some(config) = configs.get("host.v2") {
            let unreadable = unreadable("host.v2");
            let all: HostV2 = read(config).map_err(&unreadable)?;
            if all.terminators.is_empty() || all.terminators.len() > TERMINATORS {
                return Err(unreadable(format!(
                    "it has 0 or over {TERMINATORS} terminators"
                )));
            }
            let all = all.terminators.into_iter().map(Self::of_host_v1);
            return all.collect::<Result<_, _>>().map_err(unreadable);
        }
        if let Some(config) = configs.get("host.v1") {
            let config = read(config).and_then(Self::of_host_v1);
            return Ok(vec![config.map_err(unreadable("host.v1"))?]);
        }
        if let Some(config) = configs.get("ziti-tunneler-server.v1") {
            let config = read(config).and_then(Self::of_server_v1);
            return Ok(vec![config.map_err(unreadable("ziti-tunneler-server.v1"))?]);
        }
        Err(ConfigError::None)
    }

    fn of_host_v1(config: HostV1) -> Result<Self, String> {
        let options = config.listen_options;
        let connecting = match (options.connect_timeout, options.connect_timeout_seconds) {
            (Some(text), _) => time(&text, "connectTimeout")?,
            (None, Some(seconds)) => Duration::from_secs(u64::from(seconds)),
            (None, None) => CONNECTING,
        };
        let connecting = match connecting {
            Duration::ZERO => CONNECTING,
            other => other.min(LONGEST),
        };
        let instance = match options.identity {
            _ if options.bind_using_edge_identity => Some(IDENTITY.to_owned()),
            identity => identity.filter(|identity| !identity.is_empty()),
        };
        let rules = DestinationRules {
            protocol: part(
                config.forward_protocol,
                config.protocol,
                few(config.allowed_protocols, "allowedProtocols")?,
                "protocol",
            )?,
            address: part(
                config.forward_address,
                config.address,
                patterns(&few(config.allowed_addresses, "allowedAddresses")?),
                "address",
            )?,
            translations: few(config.translations, "forwardAddressTranslations")?
                .into_iter()
                .map(|one| {
                    Translation::new(one.from, one.to, one.prefix_length)
                        .ok_or("forwardAddressTranslations holds one that is impossible")
                })
                .collect::<Result<_, _>>()?,
            port: part(
                config.forward_port,
                config.port,
                few(config.allowed_port_ranges, "allowedPortRanges")?
                    .into_iter()
                    .map(|range| RangeInclusive::new(range.low, range.high))
                    .collect(),
                "port",
            )?,
            sources: patterns(&few(
                config.allowed_source_addresses,
                "allowedSourceAddresses",
            )?),
        };
        Ok(Self {
            rules,
            proxy: config.proxy.map(|proxy| proxy.address),
            connecting,
            routers: match options.max_connections {
                None | Some(0) => ROUTERS,
                Some(most) => usize::from(most).min(MOST_ROUTERS),
            },
            instance,
            cost: options.cost,
            precedence: options.precedence,
            checks: checks(config.port_checks, config.http_checks)?,
        })
    }

    fn of_server_v1(config: ServerV1) -> Result<Self, String> {
        let target = Target {
            protocol: config.protocol.unwrap_or(Protocol::Tcp),
            host: config.hostname,
            port: config.port,
        };
        Ok(Self {
            checks: checks(config.port_checks, config.http_checks)?,
            ..Self::fixed(target)
        })
    }
}

#[derive(Deserialize)]
struct HostV2 {
    terminators: Vec<HostV1>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct HostV1 {
    protocol: Option<Protocol>,
    #[serde(deserialize_with = "or_default")]
    forward_protocol: bool,
    #[serde(deserialize_with = "or_default")]
    allowed_protocols: Vec<Protocol>,
    address: Option<String>,
    #[serde(deserialize_with = "or_default")]
    forward_address: bool,
    #[serde(deserialize_with = "or_default")]
    allowed_addresses: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    allowed_source_addresses: Vec<String>,
    #[serde(rename = "forwardAddressTranslations", deserialize_with = "or_default")]
    translations: Vec<AddressTranslation>,
    port: Option<u16>,
    #[serde(deserialize_with = "or_default")]
    forward_port: bool,
    #[serde(deserialize_with = "or_default")]
    allowed_port_ranges: Vec<PortRange>,
    proxy: Option<Proxy>,
    #[serde(deserialize_with = "or_default")]
    listen_options: ListenOptions,
    #[serde(deserialize_with = "or_default")]
    port_checks: Vec<PortCheck>,
    #[serde(deserialize_with = "or_default")]
    http_checks: Vec<HttpCheck>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressTranslation {
    from: IpAddr,
    to: IpAddr,
    prefix_length: u8,
}

#[derive(Deserialize)]
struct PortRange {
    low: u16,
    high: u16,
}

#[derive(Deserialize)]
struct Proxy {
    address: String,
    /// Read, so that another kind is refused.
    #[serde(rename = "type")]
    _kind: ProxyKind,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProxyKind {
    Http,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListenOptions {
    #[serde(deserialize_with = "or_default")]
    bind_using_edge_identity: bool,
    identity: Option<String>,
    connect_timeout: Option<String>,
    connect_timeout_seconds: Option<u32>,
    cost: Option<u16>,
    precedence: Option<Precedence>,
    max_connections: Option<u16>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerV1 {
    hostname: String,
    port: u16,
    #[serde(default)]
    protocol: Option<Protocol>,
    #[serde(default, deserialize_with = "or_default")]
    port_checks: Vec<PortCheck>,
    #[serde(default, deserialize_with = "or_default")]
    http_checks: Vec<HttpCheck>,
}

#[derive(Deserialize)]
struct PortCheck {
    address: String,
    interval: String,
    timeout: String,
    #[serde(default, deserialize_with = "or_default")]
    actions: Vec<CheckAction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpCheck {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    expect_status: Option<u16>,
    #[serde(default)]
    expect_in_body: Option<String>,
    interval: String,
    timeout: String,
    #[serde(default, deserialize_with = "or_default")]
    actions: Vec<CheckAction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckAction {
    trigger: Trigger,
    #[serde(default)]
    consecutive_events: Option<u16>,
    #[serde(default)]
    duration: Option<String>,
    action: String,
}

fn read<T: DeserializeOwned>(config: &Json) -> Result<T, String> {
    T::deserialize(config).map_err(|error| error.to_string())
}

fn unreadable(config: &'static str) -> impl Fn(String) -> ConfigError {
    move |reason| ConfigError::Unreadable { config, reason }
}

/// A part that is fixed, or that the dialer may ask for.
fn part<T, A>(
    is_asked: bool,
    fixed: Option<T>,
    allowed: Vec<A>,
    name: &'static str,
) -> Result<Part<T, A>, String> {
    match fixed {
        _ if is_asked => Ok(Part::Asked(allowed)),
        Some(fixed) => Ok(Part::Fixed(fixed)),
        None => Err(format!("{name} is missing")),
    }
}

fn patterns(texts: &[String]) -> Vec<AddressPattern> {
    texts.iter().map(|text| AddressPattern::of(text)).collect()
}

fn few<T>(list: Vec<T>, name: &str) -> Result<Vec<T>, String> {
    if list.len() > ENTRIES {
        return Err(format!("{name} has over {ENTRIES} entries"));
    }
    Ok(list)
}

fn time(text: &str, name: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| format!("{name}: {text} is no duration"))
}

fn checks(ports: Vec<PortCheck>, urls: Vec<HttpCheck>) -> Result<Vec<Check>, String> {
    if ports.len() + urls.len() > CHECKS {
        return Err(format!("it has over {CHECKS} checks"));
    }
    let ports = ports.into_iter().map(|check| {
        let kind = CheckKind::Port(check.address);
        check_of(kind, &check.interval, &check.timeout, check.actions)
    });
    let urls = urls.into_iter().map(|check| {
        let kind = CheckKind::Http {
            url: check.url,
            method: check.method.unwrap_or_else(|| "GET".to_owned()),
            body: check.body.unwrap_or_default(),
            status: check.expect_status.unwrap_or(200),
            text: check.expect_in_body.unwrap_or_default(),
        };
        check_of(kind, &check.interval, &check.timeout, check.actions)
    });
    ports.chain(urls).collect()
}

fn check_of(
    kind: CheckKind,
    interval: &str,
    timeout: &str,
    actions: Vec<CheckAction>,
) -> Result<Check, String> {
    let actions = actions.into_iter().map(action).collect::<Result<_, _>>()?;
    Ok(Check {
        kind,
        interval: time(interval, "interval")?.max(SHORTEST),
        timeout: time(timeout, "timeout")?.clamp(SHORTEST, LONGEST),
        actions,
    })
}

fn action(action: CheckAction) -> Result<Action, String> {
    let text = action.action.trim();
    let number = |rest: &str| {
        rest.trim()
            .parse()
            .map(|by: u32| by.min(u32::from(u16::MAX)))
    };
    let effect = match text {
        "mark healthy" => Some(Effect::MarkHealthy),
        "mark unhealthy" => Some(Effect::MarkUnhealthy),
        "send event" => Some(Effect::SendEvent),
        _ => match (
            text.strip_prefix("increase cost "),
            text.strip_prefix("decrease cost "),
        ) {
            (Some(rest), _) => number(rest).ok().map(Effect::IncreaseCost),
            (_, Some(rest)) => number(rest).ok().map(Effect::DecreaseCost),
            _ => None,
        },
    };
    Ok(Action {
        trigger: action.trigger,
        events: action.consecutive_events.unwrap_or(0),
        lasting: match &action.duration {
            Some(text) => time(text, "duration")?,
            None => Duration::ZERO,
        },
        effect: effect.ok_or_else(|| format!("the action {text} is not known"))?,
    })
}
