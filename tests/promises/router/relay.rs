//! Data from one SDK to another.

use super::{
    scene::{Scene, run},
    sdk::{Event, Options},
};

#[test]
fn a_message_reaches_the_other_end_and_the_answer_comes_back() {
    let scene = Scene::new();
    for options in [Options::GO, Options::C] {
        run(async {
            let (mut client, mut host, _listener) = scene.connected(options).await;
            client.send(b"ping").await;
            assert_eq!(host.data().await, b"ping");
            host.send(b"pong").await;
            assert_eq!(client.data().await, b"pong");
            client.finish().await;
            assert_eq!(host.next().await, Event::Fin);
            host.send(b"still here").await;
            assert_eq!(client.data().await, b"still here");
            host.close().await;
            assert!(matches!(client.next().await, Event::Closed(reason) if reason.text == "done"));
        });
    }
}
