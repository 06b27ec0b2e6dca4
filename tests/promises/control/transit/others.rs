//! What does not, and whom it does not disturb.

use super::*;

#[test]
fn others_cannot_reach_passing_circuits() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        let mut liar = Neighbour::new(&net.scene, "liar").await;
        liar.link.give(&circuit, 0, 0, b"lie").await;
        liar.link.give(&circuit, 0, flag::FROM_HOST, b"lie").await;
        liar.link
            .send(
                &Acknowledgement {
                    flags: 0,
                    buffered: 0,
                    clock: 0,
                    sequences: vec![0],
                }
                .encode(&circuit),
            )
            .await;
        liar.link.send(&Builder::new(common::PING).empty()).await;
        liar.link.next_of(common::RESULT).await;
        net.near.link.give(&circuit, 0, 0, b"truth").await;
        net.far
            .link
            .give(&circuit, 0, flag::FROM_HOST, b"answer")
            .await;
        assert_eq!(net.far.link.payload().await.data[..], b"truth"[..]);
        assert_eq!(net.near.link.payload().await.data[..], b"answer"[..]);
        // A malformed message closes the link of its sender only.
        liar.link
            .send(
                &Builder::new(kind::PAYLOAD)
                    .text(key::CIRCUIT, &circuit)
                    .body(b"no sequence"),
            )
            .await;
        while liar.link.next().await.is_some() {}
        net.near.link.give(&circuit, 1, 0, b"more").await;
        assert_eq!(net.far.link.payload().await.data[..], b"more"[..]);
    });
}

#[test]
fn unread_links_stop_no_others() {
    const PAYLOAD: usize = 64 << 10;
    run(async {
        let mut net = Far::new().await;
        let stuck = net.circuit().await;
        let mut third = Neighbour::new(&net.scene, "third").await;
        net.scene
            .server
            .admin
            .delete("/terminators/terminator")
            .expect(200);
        third.host(&net.scene, "another").await;
        net.dial().await;
        let route = net.near.router.accept_route().await;
        assert_eq!(
            third.router.accept_route().await.circuit_id,
            route.circuit_id
        );
        net.near
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        // Nobody reads the link of the far router. The sockets take up to four megabytes.
        rustix::net::sockopt::set_socket_recv_buffer_size(net.far.link.stream.get_ref().0, PAYLOAD)
            .unwrap();
        for sequence in 0..128 {
            net.near.link.give(&stuck, sequence, 0, &[0; PAYLOAD]).await;
        }
        net.near.link.give(&route.circuit_id, 0, 0, b"ping").await;
        assert_eq!(third.link.payload().await.data[..], b"ping"[..]);
        let queued = net.queued();
        assert!(
            (PAYLOAD..6 << 20).contains(&queued),
            "{queued} bytes are queued"
        );
        net.scene
            .server
            .admin
            .at(Base::Overkeep)
            .delete(&format!("/circuits/{stuck}"))
            .expect(200);
        assert!(
            soon(|| net.queued() < 1 << 20).await,
            "{} bytes stay queued",
            net.queued()
        );
    });
}

#[test]
fn no_traversal_keeps_circuits_away() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        net.scene
            .server
            .admin
            .patch("/edge-routers/built-in", json!({ "noTraversal": true }))
            .expect(200);
        net.dial().await;
        let answer = net.near.router.next_of(content::ERROR).await;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(text.contains("no path from router"), "{text}");
        net.near.link.give(&circuit, 0, 0, b"ping").await;
        assert_eq!(
            net.far.link.payload().await.data[..],
            b"ping"[..],
            "open circuits stay"
        );
        // A direct link takes over when the link to the built-in router is lost.
        net.far.router.verify(&net.near.enrolled).await;
        report(&mut net.near.router, "direct", &net.far.id).await;
        let is_usable = || {
            net.scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links/direct")
                .json["data"]["isUsable"]
                == true
        };
        assert!(soon(is_usable).await);
        drop(net.far.link);
        let [one, other] = [
            net.near.router.accept_route().await,
            net.far.router.accept_route().await,
        ];
        assert_eq!((&one.circuit_id, &other.circuit_id), (&circuit, &circuit));
        let routers = || {
            net.scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/circuits/{circuit}"))
                .expect(200)
                .data()["routers"]
                .clone()
        };
        assert!(soon(|| routers().as_array().unwrap().len() == 2).await);
    });
}
