//! The address of a local server, as a person writes it.

use std::{fmt, str::FromStr};

use serde::Deserialize;

/// The protocol of a local server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// The protocol with this name, in any case.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp]
            .into_iter()
            .find(|protocol| name.eq_ignore_ascii_case(protocol.name()))
    }

    /// In configs and addresses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The address of a local server: `host:port`, with `tcp:` or `udp:` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    /// A name or an address, without the brackets of IPv6.
    pub host: String,
    /// From 1 on.
    pub port: u16,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (protocol, address) = match text.split_once(':') {
            Some(("tcp", address)) => (Protocol::Tcp, address),
            Some(("udp", address)) => (Protocol::Udp, address),
            _ => (Protocol::Tcp, text),
        };
        let target = address
            .trim_start_matches("//")
            .rsplit_once(':')
            .and_then(|(host, port)| {
                let host = unbracketed(host);
                let port = port.parse().ok().filter(|port| *port != 0)?;
                is_host(host).then(|| Self {
                    protocol,
                    host: host.to_owned(),
                    port,
                })
            });
        target.ok_or("it must be host:port, tcp:host:port or udp:host:port")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.protocol == Protocol::Udp {
            f.write_str("udp:")?;
        }
        let Self { host, port, .. } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// Whether a text can be a name or an address.
fn is_host(text: &str) -> bool {
    let is_letter = |one: char| one.is_alphanumeric() || "-_.:%".contains(one);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_letter)
}

/// A host without the brackets of IPv6.
pub(super) fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written() {
        for (text, written) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("tcp:db.internal:5432", "db.internal:5432"),
            ("tcp://db.internal:5432", "db.internal:5432"),
            ("udp:127.0.0.1:53", "udp:127.0.0.1:53"),
            ("[::1]:80", "[::1]:80"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), written);
        }
        for text in [
            "",
            "80",
            ":80",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "[]:1",
            "-x:1",
            "http://web:80",
            "a b:1",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
