//! What programs conclude from the versions that the controller says: in hellos, in `GET /version`,
//! and about the built-in router.

use wire::{
    control::{content, edge, fabric},
    frame::{Builder, content as common, key as common_key},
};

use super::{
    mock::{Enrolled, run},
    router_two::recorded,
};
use crate::{
    harness::TestServer,
    router::{scene::Member, sdk::key},
};

/// A version as the Go libraries of OpenZiti compare it: numbers, and from 2.0.80 on a part after a
/// dash. Earlier ones do not read that part.
#[derive(Clone, PartialEq, Eq)]
struct Compared {
    numbers: Vec<u32>,
    is_pre_release: bool,
}

impl Compared {
    fn of(text: &str, reads_suffix: bool) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, suffix) = match text.split_once('-') {
            Some((numbers, suffix)) if reads_suffix => (numbers, Some(suffix)),
            _ => (text, None),
        };
        let numbers: Result<_, _> = numbers.split('.').map(str::parse).collect();
        Some(Self {
            numbers: numbers.ok()?,
            is_pre_release: suffix.is_some(),
        })
    }

    fn is_development(&self) -> bool {
        self.numbers == [0, 0, 0] && !self.is_pre_release
    }

    /// Whether it is at least another version, or a development build, which may do everything.
    fn allows(&self, least: &str) -> bool {
        let least = Self::of(least, false).unwrap();
        let order = self
            .numbers
            .cmp(&least.numbers)
            .then(least.is_pre_release.cmp(&self.is_pre_release));
        order.is_ge() || self.is_development()
    }
}

/// The version of the controller is that of a development build, in both libraries.
fn is_exempt(version: &str) -> bool {
    [false, true].into_iter().all(|reads_suffix| {
        let Some(compared) = Compared::of(version, reads_suffix) else {
            return false;
        };
        // Names of bindings in links, reports of interfaces, config types of lists, routers of a
        // service without a session.
        let bounds = ["0.30.0", "1.6.3", "1.1.0", "1.0.0"];
        compared.is_development() && bounds.iter().all(|least| compared.allows(least))
    })
}

#[test]
fn said_versions_are_exempt_from_comparisons() {
    let server = TestServer::with_router();
    let answered = server.anonymous().get("/version").expect(200);
    let version = answered.data()["version"].as_str().unwrap();
    assert!(is_exempt(version), "GET /version: {version}");
    // libziti takes the first number; browser clients know a development build by its text.
    assert_eq!(version.trim_start_matches('v'), "0.0.0");
    assert_eq!(
        answered.data()["apiVersions"]["overkeep"]["v1"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    assert!(answered.data()["apiVersions"]["edge-client"]["v1"]["version"].is_null());

    let (router, member) = (Enrolled::new(&server), Member::new(&server, "member"));
    let own = format!("overkeep-{}", env!("CARGO_PKG_VERSION"));
    let hello_is_exempt = |text: &str| {
        let parts: Vec<&str> = text.split('|').collect();
        assert!(
            parts.len() == 5 && is_exempt(parts[0]) && parts[1] == own,
            "{text}"
        );
    };
    run(async {
        let mut connected = router.connect(&server).await;
        hello_is_exempt(
            connected
                .answer
                .take()
                .unwrap()
                .text(common_key::VERSION)
                .unwrap(),
        );
        // Of the built-in router: below 1.6.6 and no development build, so that nobody groups the
        // connections of a link to it.
        let peers: fabric::PeerStateChanges = connected.receive(content::PEER_STATE_CHANGES).await;
        let built_in = peers
            .changes
            .iter()
            .find(|peer| peer.id == "built-in")
            .unwrap();
        for reads_suffix in [false, true] {
            let compared = Compared::of(&built_in.version, reads_suffix).unwrap();
            assert!(
                !compared.allows("1.6.6") && compared.allows("0.30.0"),
                "{}",
                built_in.version
            );
        }
        let hello: edge::ServerHello = connected.receive(content::SERVER_HELLO).await;
        assert!(is_exempt(&hello.version), "{}", hello.version);
        let mut hello = Builder::new(common::HELLO)
            .text(key::SESSION_TOKEN, member.token())
            .body(b"tester");
        hello.set_sequence(-1);
        let answer = crate::router::scene::answer(member.stream(&server), hello.as_bytes())
            .await
            .unwrap();
        hello_is_exempt(answer.text(common_key::VERSION).unwrap());
    });
}

/// Routers from 1.6.3 on report their interfaces to a controller that is new enough, and again
/// after a minute unless it says that it took them.
#[test]
fn reported_interfaces_are_taken() {
    let server = TestServer::start();
    let router = Enrolled::new(&server);
    let sent = recorded("connect-then-cut.upstream-2.0.3").concat();
    let report = sent
        .into_iter()
        .find(|frame| frame.content_type() == content::UPDATE_ROUTER_INTERFACES)
        .unwrap();
    run(async {
        let mut connected = router.online(&server).await;
        for _ in 0..2 {
            let taken = connected.ask(report.clone(), common::RESULT).await;
            assert!(taken.is_set(common_key::SUCCESS) && taken.body().is_empty());
        }
        assert!(
            connected.rest().await.is_empty(),
            "nothing else is said about it"
        );
    });
}
