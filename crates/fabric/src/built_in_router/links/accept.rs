//! A connection of a link, which a remote router has dialed: its hello, and the messages on it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pki::Certificate;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, split},
    time::{interval, timeout},
};
use wire::{
    frame::{Builder, Frame, FrameLimits, HEAD, content, key as common},
    link::{NotOfCircuit, key, kind},
    sdk::success,
};

use super::{
    link::{Introduction, Link, LinkConnection, LinkPurpose},
    relay,
};
use crate::{
    built_in_router::{router_core::RouterCore, send_queue::SendQueue, writer},
    network::{
        ChannelPeer,
        read::{self, Stop, UNCOUNTED},
        strip_on_link,
    },
    peer_lines::may_log,
};

/// Maximum length of the header section of other messages, in bytes.
const HEADERS: usize = 16 << 10;
/// Maximum length of the ids in a hello, in bytes.
const MAX_ID: usize = 255;
/// How often a heartbeat is sent.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// A connection without any message for this time is closed. Routers send heartbeats, so a live
/// connection is never silent for so long.
const SILENCE: Duration = Duration::from_secs(60);

/// Why a connection of a link ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Stop(#[from] Stop),
    #[error("a message of a circuit cannot be read: {0}")]
    NotOfCircuit(#[from] NotOfCircuit),
    #[error("nothing was received for {} s", SILENCE.as_secs())]
    Silence,
}

/// Serves one connection until it ends. Drops `place` as soon as the router is authenticated.
pub(crate) async fn serve(
    core: Arc<RouterCore>,
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: ChannelPeer,
    place: impl Send + 'static,
) {
    let hello = match read::hello(&mut stream, core.times.hello).await {
        Ok(hello) => hello,
        Err(stop) => {
            return tracing::debug!(address = ?peer.address, %stop, "no valid hello on a link");
        }
    };
    let joined = introduction(&core, &hello, &peer).and_then(|introduction| {
        let account = core
            .budget
            .account(&format!("router {}", introduction.router));
        let connection = Arc::new(LinkConnection::new(SendQueue::new(core.room, account)));
        core.links
            .join(introduction, &connection)
            .map(|joined| (joined, connection))
    });
    let ((link, replaced), connection) = match joined {
        Ok(joined) => joined,
        Err(reason) => {
            if peer.may_log() {
                tracing::warn!(address = ?peer.address, reason, "a link is rejected");
            }
            let refusal = first(
                Builder::reply(content::RESULT, &hello)
                    .flag(common::SUCCESS, false)
                    .body(reason.as_bytes()),
            );
            let refused = async {
                stream.write_all(refusal.as_bytes()).await?;
                stream.shutdown().await
            };
            drop(timeout(core.times.hello, refused).await);
            return;
        }
    };
    if let Some(link) = &replaced {
        link.close();
    }
    if core
        .network
        .links
        .confirm(core.context.id.as_str(), |known| {
            known.id == link.id && known.source == link.router
        })
    {
        core.network.paths.changed();
    }
    let answer = Builder::reply(content::RESULT, &hello)
        .flag(common::SUCCESS, true)
        .text(common::CONNECTION_ID, &core.number().to_string())
        .text(common::ID, core.context.id.as_str());
    let answer = first(answer.empty());
    drop((hello, place));
    run(core, link, connection, answer, stream).await;
}

/// The first message of a connection has sequence number -1.
fn first(mut frame: Frame) -> Frame {
    frame.set_sequence(-1);
    frame
}

/// The introduction in a hello. The error says why the connection is rejected.
fn introduction(
    core: &RouterCore,
    hello: &Frame,
    peer: &ChannelPeer,
) -> Result<Introduction, &'static str> {
    if hello.content_type() != content::HELLO {
        return Err("the first message must be a hello");
    }
    if core.refusal().is_some() {
        return Err("the router accepts no connections at the moment");
    }
    let id = |text: Option<&str>| {
        text.filter(|text| !text.is_empty() && text.len() <= MAX_ID)
            .map(str::to_owned)
    };
    let link = id(std::str::from_utf8(hello.body()).ok())
        .ok_or("a hello must carry the id of the link")?;
    let router = id(hello.text(key::ROUTER)).ok_or("a hello must carry the id of the router")?;
    let leaf = peer
        .leaf
        .as_ref()
        .and_then(|leaf| Certificate::from_der(leaf).ok())
        .ok_or("a client certificate is needed")?;
    if !core.network.is_of_router(&leaf, &router) {
        return Err("the client certificate is not one of an enrolled router with this id");
    }
    let purpose = match hello.header(key::CONNECTION_TYPE) {
        None | Some([0 | 1]) => LinkPurpose::Payloads,
        Some([2]) => LinkPurpose::Acknowledgements,
        Some(_) => return Err("a connection of a link is for payloads or for acknowledgements"),
    };
    let group = hello.header(common::CONNECTION_ID).unwrap_or_default();
    Ok(Introduction {
        link,
        router,
        group: group.to_vec(),
        iteration: hello.u32(key::ITERATION).unwrap_or_default(),
        purpose,
    })
}

/// Reads and writes until the connection ends, which ends the link.
async fn run(
    core: Arc<RouterCore>,
    link: Arc<Link>,
    connection: Arc<LinkConnection>,
    answer: Frame,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    tracing::debug!(
        link = link.id,
        router = link.router,
        iteration = link.iteration,
        "connection of a link"
    );
    let (read, mut write) = split(stream);
    let writing = tokio::spawn({
        let connection = connection.clone();
        let link = link.clone();
        async move {
            let written = async {
                write.write_all(answer.as_bytes()).await?;
                write.flush().await?;
                writer::run(&connection.outbox, |frame| connection.number(frame), write).await
            };
            if let Err(error) = written.await {
                tracing::debug!(link = link.id, %error, "writing to a link failed");
            }
            link.close();
        }
    });
    let began = Instant::now();
    let mut reader = Reader {
        core: core.clone(),
        link: link.clone(),
        connection: connection.clone(),
        stream: read,
        began,
    };
    let reason = tokio::select! {
        end = reader.run() => end.to_string(),
        () = connection.closed() => "it was closed".into(),
        () = beat(&connection, began) => "it was closed".into(),
    };
    link.close();
    writing.abort();
    drop(writing.await);
    if core.links.remove(&link) {
        if may_log(&link.router) {
            tracing::info!(link = link.id, router = link.router, reason, "link closed");
        }
        core.network
            .lose_link(&link.id, core.context.id.as_str(), link.iteration);
    }
}

/// Sends heartbeats until the connection is closed.
async fn beat(connection: &LinkConnection, began: Instant) {
    let mut ticks = interval(HEARTBEAT);
    loop {
        ticks.tick().await;
        if !connection.outbox.control(
            Builder::new(content::HEARTBEAT)
                .u64(common::HEARTBEAT, nanos(began))
                .empty(),
        ) {
            return;
        }
    }
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The reader of one connection. It waits only for its peer.
struct Reader<S> {
    core: Arc<RouterCore>,
    link: Arc<Link>,
    connection: Arc<LinkConnection>,
    stream: S,
    /// The start of the clock in heartbeats.
    began: Instant,
}

impl<S: AsyncRead + Unpin> Reader<S> {
    async fn run(&mut self) -> End {
        loop {
            match timeout(SILENCE, self.next()).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return end,
                Err(_) => return End::Silence,
            }
        }
    }

    /// Reads the next message, and handles it. What does not pass on is dropped before the body is
    /// read, so that a message that waits holds only what is counted. A message for which there is
    /// no memory is dropped, like one for which a queue has no room: its sender sends it again.
    async fn next(&mut self) -> Result<(), End> {
        let limits = FrameLimits {
            headers: HEADERS,
            body: self.core.max_message,
        };
        let stall = self.core.times.stall;
        let begun = read::head(&mut self.stream, limits).await?;
        let (connection, size) = (self.connection.clone(), begun.0.size());
        let unfinished = if size > UNCOUNTED {
            connection.outbox.account.try_hold(size)
        } else {
            None
        };
        if size > UNCOUNTED && unfinished.is_none() {
            return Ok(read::skip(&mut self.stream, size - HEAD, stall).await?);
        }
        let mut frame = read::headers(&mut self.stream, begun, stall).await?;
        self.heartbeat(&frame);
        strip_on_link(&mut frame);
        read::fill(&mut self.stream, &mut frame, stall).await?;
        drop(unfinished);
        self.take(frame)
    }

    /// Takes the heartbeat or its echo, which any message may carry.
    fn heartbeat(&self, frame: &Frame) {
        if let Some(clock) = frame.u64(common::HEARTBEAT) {
            self.connection.outbox.control(
                Builder::new(content::HEARTBEAT)
                    .u64(common::HEARTBEAT_ECHO, clock)
                    .empty(),
            );
        }
        if let Some(clock) = frame.u64(common::HEARTBEAT_ECHO) {
            let latency = nanos(self.began)
                .checked_sub(clock)
                .map(Duration::from_nanos);
            if let Some(latency) = latency {
                self.measured(latency);
            }
        }
    }

    /// Reports the latency of the link.
    fn measured(&self, latency: Duration) {
        let (network, own) = (&self.core.network, self.core.context.id.as_str());
        let latency = self.link.measured(latency);
        if network.links.measured(&self.link.id, own, latency) {
            network.paths.changed();
        }
    }

    fn take(&self, frame: Frame) -> Result<(), End> {
        match frame.content_type() {
            kind::PAYLOAD | kind::ACKNOWLEDGEMENT | kind::CONTROL => self.of_circuit(frame)?,
            content::LATENCY | content::PING => {
                let _ = self.connection.outbox.control(success(&frame));
            }
            other => tracing::trace!(
                link = self.link.id,
                content_type = other,
                "a message of an unsupported type is ignored"
            ),
        }
        Ok(())
    }

    /// Handles a message of a circuit. A link carries only the circuits that use it.
    fn of_circuit(&self, frame: Frame) -> Result<(), NotOfCircuit> {
        let circuit = wire::link::circuit(&frame)?;
        if let Some(endpoint) = self.core.endpoints.find(circuit) {
            match frame.content_type() {
                _ if !endpoint.is_over(&self.link.router) => {}
                kind::CONTROL => relay::trace(&self.core, &endpoint, frame),
                _ => endpoint.take(&frame)?,
            }
        } else if let Some(transit) = self.core.transits.find(circuit)
            && let Some((from, bytes)) =
                transit.forward(&self.link, frame, self.core.context.id.as_str())
        {
            self.core.counters.relayed(from, bytes);
        }
        Ok(())
    }
}
