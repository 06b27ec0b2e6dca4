//! Where a connection leads to: what a config fixes, and what it lets the dialing side ask for.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
};

use serde::Deserialize;

use super::{
    address::{AddressPattern, Translation, translated},
    target::{Protocol, Target, unbracketed},
};

/// The most bytes of what a dialer says that are looked at.
const APP_DATA: usize = 16 << 10;
/// The most characters of what a dialer says that are shown.
pub(super) const SHOWN: usize = 64;
/// The type of connections that test the network, and lead to no server.
pub(crate) const TEST: &str = "overkeep-test";
/// The most bytes of a name that a dialer asks for.
const NAME: usize = 255;

/// A part of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part<T, A> {
    Fixed(T),
    /// What the dialer asks for, if one of these allows it.
    Asked(Vec<A>),
}

/// What a config says about destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DestinationRules {
    pub(super) protocol: Part<Protocol, Protocol>,
    pub(super) address: Part<String, AddressPattern>,
    pub(super) translations: Vec<Translation>,
    pub(super) port: Part<u16, RangeInclusive<u16>>,
    /// The local addresses that a dialer may ask for.
    pub(super) sources: Vec<AddressPattern>,
}

/// Where one connection leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) target: Target,
    /// The local address to connect from.
    pub(super) source: Option<SocketAddr>,
}

/// Why a dialer is refused. The dialer sees the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the host needs to know {0}, which the dialing side did not send")]
    Missing(&'static str),
    #[error("the host cannot read {0} that the dialing side sent")]
    Unreadable(&'static str),
    #[error("the host does not allow the {what} {value}")]
    NotAllowed { what: &'static str, value: String },
    #[error("the host does not support connections of type {0}")]
    Kind(String),
}

/// What tunnelers say about a connection. Values are those of its interception at the other end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AppData {
    dst_protocol: Option<String>,
    dst_hostname: Option<String>,
    dst_ip: Option<String>,
    dst_port: Option<String>,
    source_addr: Option<String>,
    #[serde(rename = "connType")]
    kind: Option<String>,
}

impl DestinationRules {
    /// One target for everybody.
    pub(super) fn fixed(target: Target) -> Self {
        Self {
            protocol: Part::Fixed(target.protocol),
            address: Part::Fixed(target.host),
            translations: Vec::new(),
            port: Part::Fixed(target.port),
            sources: Vec::new(),
        }
    }

    /// Whether nothing depends on the dialer.
    fn is_fixed(&self) -> bool {
        matches!(
            (&self.protocol, &self.address, &self.port),
            (Part::Fixed(_), Part::Fixed(_), Part::Fixed(_))
        ) && self.sources.is_empty()
    }

    /// Where the connection of somebody who says this leads to.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn destination(&self, app_data: Option<&[u8]>) -> Result<Destination, Refusal> {
        let said = match app_data.unwrap_or_default() {
            [] => AppData::default(),
            bytes => match AppData::read(bytes) {
                Some(said) => said,
                // An application may say anything to another one.
                None if self.is_fixed() => AppData::default(),
                None => return Err(Refusal::Unreadable("what")),
            },
        };
        match said.kind.as_deref() {
            None | Some("" | "data") => {}
            Some(kind) => return Err(Refusal::Kind(cut(kind, SHOWN))),
        }
        let target = Target {
            protocol: self.protocol(&said)?,
            host: self.host(&said)?,
            port: self.port(&said)?,
        };
        Ok(Destination {
            target,
            source: self.source(&said)?,
        })
    }

    fn protocol(&self, said: &AppData) -> Result<Protocol, Refusal> {
        let allowed = match &self.protocol {
            Part::Fixed(protocol) => return Ok(*protocol),
            Part::Asked(allowed) => allowed,
        };
        let name = asked(said.dst_protocol.as_ref(), "dst_protocol")?;
        Protocol::of_name(name)
            .filter(|protocol| allowed.contains(protocol))
            .ok_or_else(|| not_allowed("protocol", name))
    }

    /// A name that was asked for must be allowed by name, and an address by address.
    fn host(&self, said: &AppData) -> Result<String, Refusal> {
        let allowed = match &self.address {
            Part::Fixed(host) => return Ok(host.clone()),
            Part::Asked(allowed) => allowed,
        };
        let name = said.dst_hostname.as_deref().unwrap_or_default();
        if !name.is_empty() && literal(name).is_none() {
            return if is_name(name) && allowed.iter().any(|one| one.allows_name(name)) {
                Ok(name.to_owned())
            } else {
                Err(not_allowed("address", name))
            };
        }
        let text = if name.is_empty() {
            asked(said.dst_ip.as_ref(), "dst_ip")?
        } else {
            name
        };
        let address = literal(text).ok_or(Refusal::Unreadable("the dst_ip"))?;
        if allowed.iter().any(|one| one.allows_address(address)) {
            Ok(translated(address, &self.translations).to_string())
        } else {
            Err(not_allowed("address", text))
        }
    }

    fn port(&self, said: &AppData) -> Result<u16, Refusal> {
        let allowed = match &self.port {
            Part::Fixed(port) => return Ok(*port),
            Part::Asked(allowed) => allowed,
        };
        let text = asked(said.dst_port.as_ref(), "dst_port")?;
        text.parse()
            .ok()
            .filter(|port| *port != 0 && allowed.iter().any(|range| range.contains(port)))
            .ok_or_else(|| not_allowed("port", text))
    }

    fn source(&self, said: &AppData) -> Result<Option<SocketAddr>, Refusal> {
        let text = match said.source_addr.as_deref() {
            None | Some("") => return Ok(None),
            Some(text) => text,
        };
        let source = text
            .parse()
            .ok()
            .or_else(|| literal(text).map(|address| SocketAddr::new(address, 0)))
            .ok_or(Refusal::Unreadable("the source_addr"))?;
        if self
            .sources
            .iter()
            .any(|one| one.allows_address(source.ip()))
        {
            Ok(Some(source))
        } else {
            Err(not_allowed("source address", text))
        }
    }
}

/// Whether somebody who says this tests the network.
pub(super) fn is_test(app_data: Option<&[u8]>) -> bool {
    let said = app_data.and_then(AppData::read);
    said.and_then(|said| said.kind).as_deref() == Some(TEST)
}

impl AppData {
    fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= APP_DATA)
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()
    }
}

/// Whether a text can be the name of a host. What resolvers read as a number is an address.
fn is_name(text: &str) -> bool {
    let last = text.trim_end_matches('.').rsplit('.').next();
    let is_number =
        |label: &str| label.starts_with("0x") || label.bytes().all(|digit| digit.is_ascii_digit());
    text.len() <= NAME
        && !last.is_none_or(is_number)
        && text
            .chars()
            .all(|one| one.is_alphanumeric() || "-_.".contains(one))
}

/// An address. One of IPv4 within IPv6 is taken as that of IPv4, so that both are allowed alike.
fn literal(text: &str) -> Option<IpAddr> {
    let address: IpAddr = unbracketed(text).parse().ok()?;
    Some(address.to_canonical())
}

fn asked<'a>(value: Option<&'a String>, name: &'static str) -> Result<&'a str, Refusal> {
    match value.map(String::as_str) {
        None | Some("") => Err(Refusal::Missing(name)),
        Some(value) => Ok(value),
    }
}

fn not_allowed(what: &'static str, value: &str) -> Refusal {
    Refusal::NotAllowed {
        what,
        value: cut(value, SHOWN),
    }
}

/// As many characters of a stranger's text as are shown.
pub(super) fn cut(text: &str, most: usize) -> String {
    let shown = text.chars().filter(|one| !one.is_control());
    shown.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarding() -> DestinationRules {
        let pattern = |text| AddressPattern::of(text);
        DestinationRules {
            protocol: Part::Asked(vec![Protocol::Tcp]),
            address: Part::Asked(vec![pattern("*.internal"), pattern("10.0.0.0/8")]),
            translations: Vec::new(),
            port: Part::Asked(vec![80..=81, 443..=443]),
            sources: vec![pattern("127.0.0.0/8")],
        }
    }

    fn led(app_data: &str) -> Result<String, String> {
        let led = forwarding().destination(Some(app_data.as_bytes()));
        led.map(|led| led.target.to_string())
            .map_err(|error| error.to_string())
    }

    fn asking(host: &str, ip: &str, port: &str) -> String {
        serde_json::json!({
            "dst_protocol": "TCP", "dst_hostname": host, "dst_ip": ip, "dst_port": port,
        })
        .to_string()
    }

    #[test]
    fn what_is_allowed_is_forwarded() {
        for (app_data, target) in [
            (
                asking("web.internal", "100.64.0.2", "80"),
                "web.internal:80",
            ),
            (asking("", "10.1.2.3", "443"), "10.1.2.3:443"),
            (asking("10.1.2.3", "", "81"), "10.1.2.3:81"),
            (asking("", "::ffff:10.1.2.3", "81"), "10.1.2.3:81"),
        ] {
            assert_eq!(led(&app_data).unwrap(), target);
        }
    }

    #[test]
    fn what_is_not_allowed_is_refused_by_its_name() {
        for (app_data, refused) in [
            (asking("web.external", "10.1.2.3", "80"), "web.external"),
            (asking("", "11.1.2.3", "80"), "11.1.2.3"),
            (asking("::ffff:11.1.2.3", "", "80"), "::ffff:11.1.2.3"),
            (asking("a.internal", "", "82"), "port 82"),
            (asking("a.internal", "", "0"), "port 0"),
            (asking("a.internal", "", "70000"), "port 70000"),
            (asking("a.internal", "", ""), "dst_port"),
            (asking("", "", "80"), "dst_ip"),
            (asking("", "internal", "80"), "dst_ip"),
            (asking(&"a".repeat(300), "", "80"), "aaaa"),
            (asking("127.1.", "", "80"), "address 127.1"),
            (asking("0x7f000001", "", "80"), "address 0x7f"),
            (asking("a\r\n.internal", "", "80"), "address a.internal"),
            (r#"{"dst_protocol":"udp"}"#.to_owned(), "udp"),
            (r#"{"connType":"resolver"}"#.to_owned(), "resolver"),
            ("text".to_owned(), "cannot read"),
            (String::new(), "dst_protocol"),
        ] {
            let text = led(&app_data).unwrap_err();
            assert!(text.contains(refused), "{app_data}: {text}");
            assert!(text.len() < 200, "{text}");
        }
    }

    #[test]
    fn fixed_targets_take_any_app_data() {
        let target: Target = "127.0.0.1:80".parse().unwrap();
        let rules = DestinationRules::fixed(target.clone());
        for app_data in [None, Some(&b"\xff\xfe"[..]), Some(&b"{}"[..])] {
            assert_eq!(rules.destination(app_data).unwrap().target, target);
        }
    }

    #[test]
    fn sources_are_those_that_are_listed() {
        let mut said: serde_json::Value =
            serde_json::from_str(&asking("a.internal", "", "80")).unwrap();
        for (source, expected) in [
            ("127.0.0.9", Some("127.0.0.9:0")),
            ("127.0.0.9:4000", Some("127.0.0.9:4000")),
            ("10.0.0.1", None),
            ("nonsense", None),
        ] {
            said["source_addr"] = source.into();
            let led = forwarding().destination(Some(said.to_string().as_bytes()));
            let source = led.ok().and_then(|led| led.source);
            assert_eq!(source.map(|source| source.to_string()).as_deref(), expected);
        }
    }
}
