//! Subject alternative names (RFC 5280 section 4.2.1.6) of the four types used here.

use super::{Error, Result};
use rcgen::SanType;
use std::net::IpAddr;
use x509_parser::extensions::GeneralName;

/// Alternative names by type, each in the order of the certificate. Other types (directory names,
/// registered ids, ...) are neither read nor issued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// Host names; the first label may be `*`.
    pub dns: Vec<String>,
    /// IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// URIs, such as `spiffe://trust.domain/identity/id`.
    pub uris: Vec<String>,
}

impl AlternativeNames {
    /// The names of a server: every text that parses as an IP address (IPv6 also in brackets)
    /// becomes one, the others become host names; without duplicates.
    pub fn of_hosts<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        for host in hosts {
            match host.trim_start_matches('[').trim_end_matches(']').parse() {
                Ok(address) if names.addresses.contains(&address) => {}
                Ok(address) => names.addresses.push(address),
                Err(_) if names.dns.iter().any(|known| known == host) => {}
                Err(_) => names.dns.push(host.to_owned()),
            }
        }
        names
    }

    /// Whether every DNS name and address of `hosts` is among these.
    pub fn cover(&self, hosts: &Self) -> bool {
        hosts.dns.iter().all(|name| self.dns.contains(name))
            && hosts
                .addresses
                .iter()
                .all(|address| self.addresses.contains(address))
    }

    /// Whether there is no name of any type.
    pub fn is_empty(&self) -> bool {
        self.dns.is_empty()
            && self.addresses.is_empty()
            && self.emails.is_empty()
            && self.uris.is_empty()
    }

    /// The first host name, or else the first address, as text.
    pub(super) fn first_host(&self) -> Option<String> {
        self.dns
            .first()
            .cloned()
            .or_else(|| self.addresses.first().map(ToString::to_string))
    }

    pub(super) fn read(names: &[GeneralName<'_>]) -> Self {
        let mut found = Self::default();
        for name in names {
            match name {
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => found.emails.push((*name).to_owned()),
                GeneralName::URI(name) => found.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => found.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        found
    }

    pub(super) fn to_rcgen(&self) -> Result<Vec<SanType>> {
        let ascii = |name: &String| {
            rcgen::string::Ia5String::try_from(name.as_str()).map_err(|_| Error::BadName)
        };
        let dns = self
            .dns
            .iter()
            .map(|name| ascii(name).map(SanType::DnsName));
        let emails = self
            .emails
            .iter()
            .map(|name| ascii(name).map(SanType::Rfc822Name));
        let addresses = self
            .addresses
            .iter()
            .map(|address| Ok(SanType::IpAddress(*address)));
        let uris = self.uris.iter().map(|name| ascii(name).map(SanType::URI));
        dns.chain(emails).chain(addresses).chain(uris).collect()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
