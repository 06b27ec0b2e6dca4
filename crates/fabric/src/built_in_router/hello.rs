//! The hello, the first message of a channel: identifies the caller and checks its API session.

use std::sync::{Arc, atomic::Ordering};

use model::{entity::VersionInfo, error::Error};
use pki::Certificate;
use policy::authentication::holds;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use wire::{
    frame::{Frame, content},
    sdk::{self, key},
};

use super::{
    channel::{Channel, ChannelLogin},
    connections::Connections,
    receive::Receiver,
    router_core::RouterCore,
    send_queue::SendQueue,
    writer,
};
use crate::network::{ChannelPeer, RequestFailure, read};

/// The maximum number of characters of the hello's text that are kept.
const MAX_HELLO: usize = 256;

/// Why a hello opens no channel, as its sender is told.
#[derive(Debug, thiserror::Error)]
enum HelloRejection {
    #[error("{0}")]
    Invalid(&'static str),
    #[error("the API session cannot be looked up at the moment")]
    Unreadable(#[from] Error),
}

impl From<&'static str> for HelloRejection {
    fn from(reason: &'static str) -> Self {
        Self::Invalid(reason)
    }
}

/// Serves one connection until it ends. `place` is dropped as soon as the peer is authenticated.
pub(crate) async fn serve(
    core: Arc<RouterCore>,
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: ChannelPeer,
    place: impl Send + 'static,
) {
    let hello = match read::hello(&mut stream, core.times.hello).await {
        Ok(hello) => hello,
        Err(stop) => {
            let counter = if stop.is_malformed() {
                &core.counters.malformed
            } else {
                &core.counters.hellos_missing
            };
            counter.increment();
            return tracing::debug!(address = ?peer.address, %stop, "no valid hello");
        }
    };
    let connections = match open_channel(&core, &hello, &peer) {
        Ok(connections) => connections,
        Err(rejection) => {
            if let HelloRejection::Unreadable(error) = &rejection {
                tracing::warn!(%error, "an API session cannot be looked up");
            }
            let reason = rejection.to_string();
            tracing::debug!(address = ?peer.address, reason, "hello rejected");
            core.counters.hellos_refused.increment();
            let answer = sdk::hello_rejected(&hello, &reason);
            let refused = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await
            };
            // The answer is given up if the peer does not read it in time.
            drop(tokio::time::timeout(core.times.hello, refused).await);
            return;
        }
    };
    drop((hello, place));
    run(core, connections, stream).await;
}

/// Opens a channel for the sender of a hello.
fn open_channel(
    core: &Arc<RouterCore>,
    hello: &Frame,
    peer: &ChannelPeer,
) -> Result<Arc<Connections>, HelloRejection> {
    if hello.content_type() != content::HELLO {
        return Err("the first message must be a hello".into());
    }
    accepts_channels(core)?;
    let token = hello
        .text(key::SESSION_TOKEN)
        .ok_or("a hello must carry the token of an API session")?;
    let login = identify(core, hello, token, peer)?;
    let account = core.budget.account(login.identity.as_str());
    let channel = Arc::new(Channel::new(login, SendQueue::new(core.room, account)));
    let version = VersionInfo::of_hello();
    let connections = Arc::new(Connections::new(channel.clone()));
    // Before another thread can find the channel, and end it.
    let identity = channel.login.identity.as_str();
    core.online().channel_opened(identity);
    if !core.registry.add_channel(connections.clone()) {
        core.online().channel_closed(identity);
        return Err(
            "the identity has as many channels as router.max-channels-per-identity allows".into(),
        );
    }
    core.counters.channels_opened.increment();
    channel.send(sdk::hello_accepted(
        hello,
        &channel.login.number.to_string(),
        &version,
        core.context.id.as_str(),
    ));
    // A session that ended between its lookup and its entry into the registry was not reported to
    // this channel.
    if let Err(rejection) = still_accepted(core, &channel) {
        core.end_channel(&channel, &RequestFailure::internal(rejection.to_string()));
        return Err(rejection);
    }
    tracing::debug!(channel = channel.login.number, identity = %channel.login.identity, address = ?channel.login.address, "channel");
    Ok(connections)
}

fn accepts_channels(core: &RouterCore) -> Result<(), HelloRejection> {
    match core.refusal() {
        Some(failure) => {
            tracing::debug!(reason = %failure.text, "hello rejected");
            Err("the router accepts no connections at the moment".into())
        }
        None => Ok(()),
    }
}

/// Whether a channel that was just opened may stay open.
fn still_accepted(core: &RouterCore, channel: &Channel) -> Result<(), HelloRejection> {
    accepts_channels(core)?;
    match core.is_logged_in(channel)? {
        true => Ok(()),
        false => Err("invalid API session".into()),
    }
}

/// The values of the channel that a hello opens.
fn identify(
    core: &RouterCore,
    hello: &Frame,
    token: &str,
    peer: &ChannelPeer,
) -> Result<ChannelLogin, HelloRejection> {
    let network = &core.network;
    let Some(caller) =
        network
            .authorizer
            .sessions
            .resolve(network.store(), token, network.now())?
    else {
        return Err("invalid API session".into());
    };
    let Some(leaf) = peer
        .leaf
        .as_ref()
        .and_then(|leaf| Certificate::from_der(leaf).ok())
    else {
        return Err("a client certificate is needed".into());
    };
    if !network
        .store()
        .read(|tx| holds(tx, &caller.session, &leaf))?
    {
        return Err("the client certificate does not belong to the API session".into());
    }
    Ok(ChannelLogin {
        number: core.number(),
        identity: caller.identity.id.clone(),
        api_session: caller.session.id.clone(),
        token: token.to_owned(),
        address: peer.address,
        hello: String::from_utf8_lossy(hello.body())
            .chars()
            .take(MAX_HELLO)
            .collect(),
        since: network.now(),
    })
}

/// Reads and writes until the channel ends.
async fn run(
    core: Arc<RouterCore>,
    connections: Arc<Connections>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let channel = connections.channel.clone();
    let (read, write) = split(stream);
    let writing = tokio::spawn({
        let channel = channel.clone();
        async move {
            let written = writer::run(
                &channel.outbox,
                |frame| frame.set_sequence(channel.next_sequence()),
                write,
            )
            .await;
            if let Err(error) = &written {
                tracing::debug!(channel = channel.login.number, %error, "writing failed");
            }
            // While the router stops, the peer closes the connection when it has read everything.
            // What it sends until then is read: if the connection were closed before, the system
            // would drop data that is on the way to the peer.
            channel.is_written.store(written.is_ok(), Ordering::Release);
            if written.is_err() || !channel.outbox.is_draining() {
                // Messages read from now on could not be answered.
                channel.close();
            }
        }
    });
    let reader = Receiver::new(core.clone(), connections, read);
    let reason = tokio::select! {
        stop = reader.run() => {
            if stop.is_malformed() {
                core.counters.malformed.increment();
            }
            stop.to_string()
        }
        () = channel.closed() => "the channel was closed".into(),
    };
    core.end_channel(
        &channel,
        &RequestFailure::internal(format!("the peer has left: {reason}")),
    );
    // The queue is closed: the writer ends, unless it is blocked on the socket.
    writing.abort();
    drop(writing.await);
}
