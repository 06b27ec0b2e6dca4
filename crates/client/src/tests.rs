//! Channels, connections and bindings against a router that does what each test says.

use std::time::Duration;

use tokio::{
    io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    time::timeout,
};
use wire::{
    frame::{Builder, Frame, content, key as common},
    sdk::{self, key, kind},
};

use crate::{
    Bind, Binding, Channel, ChannelError, Connection, Dial, DialError, ReceiveError,
    frames::FrameReader, pump,
};

const PATIENCE: Duration = Duration::from_secs(20);
const FIN: u32 = 1;
const PARTS: u32 = 16;

struct Router {
    reader: FrameReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Router {
    /// A channel, and the router at its other end.
    async fn with_channel() -> (Channel, Self) {
        let (near, far) = duplex(64 << 10);
        let (reader, writer) = split(far);
        let mut router = Self {
            reader: FrameReader::new(reader),
            writer,
        };
        let accepting = async {
            let hello = router.next().await;
            assert_eq!(hello.text(key::SESSION_TOKEN), Some("the token"));
            router.send(sdk::success(&hello)).await;
        };
        let (channel, ()) = tokio::join!(Channel::open(near, "the token"), accepting);
        (channel.unwrap(), router)
    }

    async fn next(&mut self) -> Frame {
        let next = timeout(PATIENCE, self.reader.next()).await;
        next.unwrap().unwrap().unwrap()
    }

    async fn send(&mut self, frame: Frame) {
        self.writer.write_all(frame.as_bytes()).await.unwrap();
    }

    /// Accepts the next Connect. Returns the id of the connection.
    async fn connect(&mut self) -> u32 {
        let connect = self.next().await;
        assert_eq!(connect.content_type(), kind::CONNECT);
        let id = connect.u32(key::CONNECTION).unwrap();
        self.send(sdk::connected(&connect, id).empty()).await;
        id
    }

    async fn data(&mut self, id: u32, flags: u32, body: &[u8]) {
        let data = Builder::new(kind::DATA)
            .u32(key::CONNECTION, id)
            .u32(key::FLAGS, flags);
        self.send(data.body(body)).await;
    }

    async fn close(&mut self, id: u32) {
        self.send(sdk::ended(id, "")).await;
    }
}

fn plain() -> Dial<'static> {
    Dial {
        session: "a session",
        caller: "alice",
        is_encrypted: false,
        terminator: None,
        app_data: None,
        patience: PATIENCE,
    }
}

async fn connected() -> (Connection, u32, Channel, Router) {
    let (channel, mut router) = Router::with_channel().await;
    let dial = plain();
    let (connection, id) = tokio::join!(Connection::dial(&channel, &dial), router.connect());
    (connection.unwrap(), id, channel, router)
}

async fn bound() -> (Binding, u32, Router) {
    let (channel, mut router) = Router::with_channel().await;
    let bind = Bind {
        session: "a session",
        is_encrypted: false,
        terminator: None,
        cost: 0,
        precedence: model::entity::Precedence::Default,
        listener: "a listener",
    };
    let answering = async {
        let asked = router.next().await;
        assert_eq!(asked.content_type(), kind::BIND);
        let id = asked.u32(key::CONNECTION).unwrap();
        router.send(sdk::connected(&asked, id).empty()).await;
        id
    };
    let (binding, id) = tokio::join!(Binding::bind(&channel, &bind), answering);
    (binding.unwrap(), id, router)
}

fn dial(binding: u32, session: &str, id: u32) -> Frame {
    let mut dial = Builder::new(kind::DIAL)
        .u32(key::CONNECTION, binding)
        .u32(key::ROUTER_CONNECTION, id)
        .body(session.as_bytes());
    dial.set_sequence(77);
    dial
}

#[tokio::test]
async fn a_connection_that_is_closed_after_its_last_message_ends() {
    let (connection, id, _channel, mut router) = connected().await;
    // The local program stays, and sends nothing.
    let (local, _program) = duplex(1 << 10);
    let (input, output) = split(local);
    let pumping = tokio::spawn(pump(connection, input, output));
    router.data(id, FIN, b"").await;
    router.close(id).await;
    timeout(PATIENCE, pumping).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn the_last_message_leaves_the_other_direction_open() {
    let (connection, id, _channel, mut router) = connected().await;
    let (local, mut program) = duplex(1 << 10);
    let (input, output) = split(local);
    let pumping = tokio::spawn(pump(connection, input, output));
    router.data(id, FIN, b"last").await;
    program.write_all(b"more").await.unwrap();
    assert_eq!(router.next().await.body(), b"more");
    program.shutdown().await.unwrap();
    let fin = router.next().await;
    assert_eq!((fin.body(), fin.u32(key::FLAGS)), (&b""[..], Some(FIN)));
    timeout(PATIENCE, pumping).await.unwrap().unwrap().unwrap();
    assert_eq!(router.next().await.content_type(), kind::STATE_CLOSED);
}

#[tokio::test]
async fn messages_that_came_as_one_are_given_out_one_by_one() {
    let (connection, id, _channel, mut router) = connected().await;
    let (_sender, mut receiver) = connection.split();
    router.data(id, PARTS, b"\x01\x00a\x00\x00\x02\x00bc").await;
    for expected in [&b"a"[..], b"", b"bc"] {
        assert_eq!(receiver.receive().await.unwrap().unwrap(), expected);
    }
    router.data(id, PARTS, b"\x05\x00abc").await;
    let cut = receiver.receive().await;
    assert!(matches!(cut, Err(ReceiveError::Cipher(_))), "{cut:?}");
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_the_router_back() {
    let (connection, id, _channel, mut router) = connected().await;
    let (_sender, mut receiver) = connection.split();
    let body = vec![7; 64 << 10];
    let sending = tokio::spawn(async move {
        for _ in 0..64 {
            router.data(id, 0, &body).await;
        }
        router
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!sending.is_finished());
    for _ in 0..64 {
        let received = timeout(PATIENCE, receiver.receive()).await.unwrap();
        assert_eq!(received.unwrap().unwrap().len(), 64 << 10);
    }
    timeout(PATIENCE, sending).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dialer_that_has_given_up_is_not_accepted() {
    let (mut binding, id, mut router) = bound().await;
    router.send(dial(id, "a session", 0x8000_0001)).await;
    let dialer = binding.next().await.unwrap();
    router.close(0x8000_0001).await;
    // The next Dial shows that the router's message before it was read.
    router.send(dial(id, "a session", 0x8000_0002)).await;
    let next = binding.next().await.unwrap();
    assert!(matches!(
        dialer.accept().await.err(),
        Some(DialError::Refused { .. })
    ));
    next.accept().await.unwrap();
    let accepted = router.next().await;
    assert_eq!(accepted.content_type(), kind::DIAL_SUCCESS);
    assert_eq!(accepted.u32(key::ROUTER_CONNECTION), Some(0x8000_0002));
    assert_eq!(accepted.reply_for(), Some(77));
}

#[tokio::test]
async fn dials_with_another_token_and_dropped_ones_are_refused() {
    let (mut binding, id, mut router) = bound().await;
    router.send(dial(id, "another session", 0x8000_0001)).await;
    router.send(dial(id, "a session", 0x8000_0002)).await;
    drop(binding.next().await.unwrap());
    for text in ["invalid token", "the host did not answer"] {
        let refused = router.next().await;
        assert_eq!(refused.content_type(), kind::DIAL_FAILED);
        assert_eq!(refused.body(), text.as_bytes());
    }
}

#[tokio::test]
async fn long_refusals_are_cut() {
    let (channel, mut router) = Router::with_channel().await;
    let refusing = async {
        let connect = router.next().await;
        let closed = Builder::reply(kind::STATE_CLOSED, &connect)
            .u32(key::CONNECTION, connect.u32(key::CONNECTION).unwrap())
            .u32(key::ERROR_CODE, 14);
        router.send(closed.body(&[b'x'; 10_000])).await;
    };
    let dial = plain();
    let (refused, ()) = tokio::join!(Connection::dial(&channel, &dial), refusing);
    let Some(DialError::Refused { text, code }) = refused.err() else {
        panic!("no refusal");
    };
    assert_eq!((text.len(), code), (1 << 10, Some(14)));
}

#[tokio::test]
async fn the_end_of_a_channel_reaches_all_who_wait() {
    let (connection, _, channel, mut router) = connected().await;
    let (_sender, mut receiver) = connection.split();
    let dialing = tokio::spawn({
        let channel = channel.clone();
        async move { Connection::dial(&channel, &plain()).await.err() }
    });
    router.next().await;
    drop(router);
    let refused = timeout(PATIENCE, dialing).await.unwrap().unwrap();
    assert!(matches!(
        refused,
        Some(DialError::Channel(ChannelError::Ended(_)))
    ));
    let ended = timeout(PATIENCE, receiver.receive()).await.unwrap();
    assert!(matches!(
        ended,
        Err(ReceiveError::Channel(ChannelError::Ended(_)))
    ));
    assert!(channel.has_ended());
}

#[tokio::test]
async fn questions_of_the_router_are_answered() {
    let (_channel, mut router) = Router::with_channel().await;
    let mut probe = Builder::new(content::LATENCY).u64(128, 5).empty();
    probe.set_sequence(9);
    router.send(probe).await;
    let answer = router.next().await;
    assert_eq!(answer.content_type(), content::RESULT);
    assert!(answer.is_set(common::SUCCESS));
    assert_eq!((answer.reply_for(), answer.u64(128)), (Some(9), Some(5)));
}

#[tokio::test]
async fn ids_in_use_are_not_given_twice() {
    let (_connection, id, channel, _router) = connected().await;
    assert!(channel.register_as(id).is_err());
    assert!(channel.register_as(id + 1).is_ok());
}
