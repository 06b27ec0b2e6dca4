//! Which addresses a URL may lead to that another server chose: not those that only this host or
//! its link reaches, unless that server is there itself. The addresses that are checked here are
//! those that are connected to, so that a name cannot change in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Resolves names of URLs that the server at `origin` chose.
#[derive(Debug)]
pub(super) struct ChosenByServer {
    pub origin: Uri,
    pub resolver: DefaultResolver,
}

impl Resolver for ChosenByServer {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        if !found.iter().any(|at| is_of_host(at.ip())) {
            return Ok(found);
        }
        let origin = self.resolver.resolve(&self.origin, config, timeout)?;
        let is_there = |ip: IpAddr| {
            origin
                .iter()
                .any(|at| at.ip().to_canonical() == ip.to_canonical())
        };
        let mut admitted = self.empty();
        for at in found
            .iter()
            .filter(|at| !is_of_host(at.ip()) || is_there(at.ip()))
        {
            admitted.push(*at);
        }
        if admitted.is_empty() {
            return Err(Error::Other(
                "the address leads to this host or its link, where the server that names it is not"
                    .into(),
            ));
        }
        Ok(admitted)
    }
}

/// Whether an address leads to this host (loopback, unspecified) or only to its link, in whichever
/// form it is written.
fn is_of_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_of_host_v4(ip),
        IpAddr::V6(ip) => {
            let is_own = ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || ip.is_multicast();
            is_own || embedded(ip).is_some_and(is_of_host_v4)
        }
    }
}

/// Linux takes any address of `0.0.0.0/8` for the host or rejects it.
fn is_of_host_v4(ip: Ipv4Addr) -> bool {
    let [first, ..] = ip.octets();
    first == 0 || ip.is_loopback() || ip.is_link_local() || ip.is_broadcast() || ip.is_multicast()
}

/// The IPv4 address in an IPv6 address that stands for one: mapped, compatible (RFC 4291, section
/// 2.5.5), translated (RFC 6052), or of a tunnel (RFC 3056).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, a, b]
        | [0, 0, 0, 0, 0xffff, 0, a, b]
        | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => Some(low(a, b)),
        [0x2002, a, b, ..] => Some(low(a, b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_host;

    #[test]
    fn addresses_of_the_host_are_known() {
        let own = [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ];
        let others = [
            "192.0.2.1",
            "10.0.0.1",
            "192.168.1.1",
            "::ffff:192.0.2.1",
            "2001:db8::1",
            "fd00::1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::",
        ];
        assert!(own.iter().all(|ip| is_of_host(ip.parse().unwrap())));
        assert!(others.iter().all(|ip| !is_of_host(ip.parse().unwrap())));
    }
}
