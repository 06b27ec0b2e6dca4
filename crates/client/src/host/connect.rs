//! Connecting to a local server.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, UdpSocket},
    sync::Semaphore,
    task::spawn_blocking,
};

use super::{destination::Destination, target::unbracketed};

/// How many names are looked up at the same time: a resolver that does not answer must not take the
/// threads that others need.
static LOOKUPS: Semaphore = Semaphore::const_new(64);
/// The most bytes of a proxy's answer, before the connection.
const HEAD: usize = 8 << 10;

/// Connects to the server, or to a proxy at `host:port` that connects to it.
///
/// # Errors
/// No address of the name accepts a connection, or the proxy refuses.
pub(super) async fn connect_stream(
    destination: &Destination,
    proxy: Option<&str>,
) -> io::Result<TcpStream> {
    let (target, source) = (&destination.target, destination.source);
    let Some(proxy) = proxy else {
        return connect_to(&target.host, target.port, source).await;
    };
    let mut stream = connect_to_address(proxy, source).await?;
    // Its text of TCP has no protocol before it.
    let authority = target.to_string();
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(&mut stream).await?;
    let first = head.lines().next().unwrap_or_default();
    match first.split_ascii_whitespace().nth(1) {
        Some(status) if status.starts_with('2') && status.len() == 3 => Ok(stream),
        status => Err(io::Error::other(format!(
            "the proxy answered {}",
            status.unwrap_or("nothing that can be read")
        ))),
    }
}

/// The head of an answer, up to its empty line. Not a byte behind it is read.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Connects to `host:port`.
///
/// # Errors
/// As [`connect_stream`].
pub(super) async fn connect_to_address(
    address: &str,
    source: Option<SocketAddr>,
) -> io::Result<TcpStream> {
    let (host, port) = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((unbracketed(host), port.parse().ok()?)))
        .ok_or_else(|| io::Error::other("the address is not host:port"))?;
    connect_to(host, port, source).await
}

async fn connect_to(host: &str, port: u16, source: Option<SocketAddr>) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses(host, port, source).await? {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if let Some(source) = source {
            socket.set_reuseaddr(true)?;
            socket
                .bind(source)
                .map_err(|error| of_source(source, &error))?;
        }
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket that is connected to a server for datagrams.
///
/// # Errors
/// The name has no address, or none that datagrams can be sent to.
pub(super) async fn connect_datagrams(destination: &Destination) -> io::Result<UdpSocket> {
    let (target, source) = (&destination.target, destination.source);
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses(&target.host, target.port, source).await? {
        let any = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let own = source.unwrap_or(SocketAddr::new(any, 0));
        let socket = UdpSocket::bind(own)
            .await
            .map_err(|error| of_source(own, &error))?;
        match socket.connect(address).await {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a name, of the family of the source.
async fn addresses(
    host: &str,
    port: u16,
    source: Option<SocketAddr>,
) -> io::Result<Vec<SocketAddr>> {
    let all = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => {
            let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            // The lookup has its turn until it ends, even if nobody waits any more.
            let looking = spawn_blocking(move || {
                let _turn = turn;
                (host.as_str(), port).to_socket_addrs()
            });
            looking.await.map_err(io::Error::other)??.collect()
        }
    };
    let fits = |one: &SocketAddr| source.is_none_or(|source| source.is_ipv4() == one.is_ipv4());
    let fitting: Vec<_> = all.into_iter().filter(fits).collect();
    if fitting.is_empty() {
        return Err(io::Error::other("the name has no address that can be used"));
    }
    Ok(fitting)
}

fn of_source(source: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::other(format!("from {source}: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn through(answer: &'static [u8]) -> io::Result<(TcpStream, String)> {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = proxy.local_addr().unwrap().to_string();
        let answering = tokio::spawn(async move {
            let (mut socket, _) = proxy.accept().await.unwrap();
            let asked = read_head(&mut socket).await.unwrap();
            socket.write_all(answer).await.unwrap();
            asked
        });
        let destination = Destination {
            target: "db.internal:5432".parse().unwrap(),
            source: Some("127.0.0.2:0".parse().unwrap()),
        };
        let stream = connect_stream(&destination, Some(&address)).await?;
        Ok((stream, answering.await.unwrap()))
    }

    #[tokio::test]
    async fn proxies_connect_to_the_target() {
        let (mut stream, asked) = through(b"HTTP/1.1 200 OK\r\na: b\r\n\r\nhello")
            .await
            .unwrap();
        assert!(
            asked.starts_with("CONNECT db.internal:5432 HTTP/1.1\r\n"),
            "{asked}"
        );
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), "127.0.0.2");
        let mut text = [0; 5];
        stream.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        for refused in [&b"HTTP/1.1 407 No\r\n\r\n"[..], b"nonsense\r\n\r\n"] {
            assert!(through(refused).await.is_err());
        }
    }

    #[tokio::test]
    async fn sources_that_are_not_of_this_machine_are_named() {
        let destination = Destination {
            target: "127.0.0.1:9".parse().unwrap(),
            source: Some("192.0.2.1:0".parse().unwrap()),
        };
        let error = connect_stream(&destination, None).await.unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
        let error = connect_datagrams(&destination).await.unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
