//! A link of a simulated router to the built-in router.

use std::collections::BTreeMap;

use bytes::BytesMut;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;
use wire::{
    control::{content, fabric},
    frame::{Builder, Frame, FrameLimits, HEAD, Head, content as common, key as common_key},
    link::{Acknowledgement, Payload, flag, key, kind},
};

use super::mock::{Enrolled, MockRouter, PATIENCE};
use crate::harness::TestServer;

const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 16,
    body: 1 << 24,
};

/// Has a router report that it has dialed a link to another router.
pub async fn report(router: &mut MockRouter, link: &str, destination: &str) {
    let reported = fabric::RouterLink {
        id: link.into(),
        destination_router_id: destination.into(),
        protocol: "tls".into(),
        iteration: 1,
        ..Default::default()
    };
    let report = fabric::RouterLinks {
        links: vec![reported],
        full_refresh: false,
    };
    router
        .send(Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()))
        .await;
}

/// A connection of a link, for payloads and acknowledgements.
pub struct MockLink {
    pub stream: TlsStream<TcpStream>,
}

impl MockLink {
    pub fn hello(link: &str, router: &str) -> Frame {
        let hello = Builder::new(common::HELLO)
            .text(common_key::CONNECTION_ID, "group")
            .text(key::ROUTER, router)
            .u32(key::ITERATION, 1);
        let mut hello = hello.body(link.as_bytes());
        hello.set_sequence(-1);
        hello
    }

    pub async fn try_open(
        server: &TestServer,
        router: &Enrolled,
        hello: Frame,
    ) -> Result<Self, String> {
        let mut link = Self {
            stream: router.tls(server.bound(), "ziti-link").await,
        };
        link.send(&hello).await;
        let answer = link.next().await.ok_or("the connection was closed")?;
        assert_eq!(
            (answer.content_type(), answer.reply_for()),
            (common::RESULT, None),
            "a reply to -1"
        );
        if answer.is_set(common_key::SUCCESS) {
            Ok(link)
        } else {
            Err(String::from_utf8_lossy(answer.body()).into_owned())
        }
    }

    pub async fn send(&mut self, frame: &Frame) {
        // Otherwise TLS may keep the end of a frame that a full socket did not take.
        self.stream.write_all(frame.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next message; none if the connection has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; HEAD];
            self.stream.read_exact(&mut head).await.ok()?;
            let mut bytes = BytesMut::from(&head[..]);
            bytes.resize(Head::decode(&head, LIMITS).unwrap().size(), 0);
            self.stream.read_exact(&mut bytes[HEAD..]).await.ok()?;
            Some(Frame::decode(bytes, LIMITS).unwrap())
        };
        timeout(PATIENCE, read).await.expect("a message in time")
    }

    pub async fn next_of(&mut self, content_type: i32) -> Frame {
        loop {
            let frame = self.next().await.expect("the link is open");
            if frame.content_type() == content_type {
                return frame;
            }
        }
    }

    /// The next payload, which is not acknowledged.
    pub async fn payload(&mut self) -> Payload {
        Payload::decode(&self.next_of(kind::PAYLOAD).await)
            .unwrap()
            .1
    }

    /// The next payload that was not received before, acknowledged.
    pub async fn take(&mut self, circuit: &str, known: &mut u32) -> Payload {
        loop {
            let payload = self.payload().await;
            let from_host = if payload.is_from_host() {
                0
            } else {
                flag::FROM_HOST
            };
            let acknowledgement = Acknowledgement {
                flags: from_host,
                buffered: 0,
                clock: payload.clock,
                sequences: vec![payload.sequence],
            };
            self.send(&acknowledgement.encode(circuit)).await;
            if payload.sequence == *known {
                *known += 1;
                return payload;
            }
        }
    }

    /// Sends a payload.
    pub async fn give(&mut self, circuit: &str, sequence: u32, flags: u32, data: &[u8]) {
        let data = data.to_vec().into();
        let payload = Payload {
            sequence,
            flags,
            clock: 0,
            uuid: None,
            data_flags: None,
            data,
        };
        self.send(&payload.encode(circuit, 1)).await;
    }
}

/// A trace route on a link.
pub fn trace(circuit: &str, hops: u32) -> Frame {
    let builder = Builder::new(kind::CONTROL)
        .u32(key::TRACE_HOPS, hops)
        .u64(key::TRACE_TIME, 12345)
        .u32(key::TRACE_REQUEST, 7);
    builder.body(format!("\u{1}{circuit}").as_bytes())
}

/// The answer to a trace route.
pub fn trace_answer(circuit: &str, request: u32, node: (&str, &str)) -> Frame {
    let builder = Builder::new(kind::CONTROL)
        .u32(key::TRACE_HOPS, 0)
        .u64(key::TRACE_TIME, 12345)
        .text(key::TRACE_HOP_TYPE, node.0);
    builder
        .text(key::TRACE_HOP_ID, node.1)
        .u32(key::TRACE_REQUEST, request)
        .body(format!("\u{2}{circuit}").as_bytes())
}

/// The headers of a message, by key, and its body.
pub fn content_of(frame: &Frame) -> (BTreeMap<i32, Vec<u8>>, Vec<u8>) {
    (
        frame
            .headers()
            .map(|(key, value)| (key, value.to_vec()))
            .collect(),
        frame.body().to_vec(),
    )
}
