//! One port: the protocol is recognized by ALPN or by the first byte.

mod load;
mod shared;
mod stop;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::{clock::Clock, config::Span};

use rustls::{
    SignatureScheme, client::ResolvesClientCert, pki_types::ServerName, sign::CertifiedKey,
};

use serde_json::json;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use tokio_rustls::TlsConnector;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Event, Options, Sdk},
};

use crate::harness::{Base, PASSWORD, TestServer, fresh, speaking};

const REQUEST: &[u8] =
    b"GET /edge/client/v1/version HTTP/1.1\r\nhost: it\r\nconnection: close\r\n\r\n";
