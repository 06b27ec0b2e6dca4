//! After any sequence of changes, what routers were told is what a full state says now, and the
//! open circuits are those that are allowed.

mod actions;
mod changes;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use model::{clock::Clock, config::Span};
use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{content, fabric},
    frame::Builder,
};

use self::records::{BIND, DIAL, End, FAR, NEAR, Records};
use super::{
    mock::{Enrolled, PATIENCE, run, soon},
    told::{ApiSessions, FollowingRouter},
};
use crate::{
    harness::{Base, Caller, Rng, TestServer, fresh},
    router::scene::Member,
};

const STEPS: usize = 60;
/// After so many steps nearly everything is allowed again.
const STEPS_PER_RESTORE: usize = 5;
/// From the near router to the far one.
const LINKS: [&str; 2] = ["link-1", "link-2"];

/// The changes that must end circuits in these histories. The others end some by chance.
const CAUSES: [&str; 4] = ["policy", "disabled", "sessions", "api-sessions"];

struct Circuit {
    id: String,
    client: End,
    host: End,
}

struct World {
    server: TestServer,
    routers: [FollowingRouter; 2],
    /// Connects only to get a full state.
    witness: FollowingRouter,
    records: Records,
    terminators: Vec<(String, End)>,
    circuits: Vec<Circuit>,
    /// The links that the near router has dialed, and how often it has dialed one.
    links: BTreeSet<&'static str>,
    dialed: u32,
    /// Logs in by password, and to mark a moment.
    other: Member,
    /// The API sessions of its log-ins by password.
    by_password: Vec<String>,
    /// The number of circuits that were opened.
    opened: usize,
    /// How many circuits ended because of a change of access, by the name of the change.
    ended: BTreeMap<String, usize>,
}

fn api_session_of(caller: &Caller) -> Option<String> {
    let answer = caller.get("/current-api-session");
    (answer.status == 200).then(|| answer.data()["id"].as_str().unwrap().to_owned())
}

impl World {
    async fn new() -> Self {
        let server = TestServer::with(Clock::system(), |config| {
            config.routers.reroute_timeout = Span::seconds(1)
        });
        let routers = [(); 2].map(|()| FollowingRouter::new(Enrolled::new(&server)));
        let witness = FollowingRouter::new(Enrolled::new(&server));
        let records = Records::new(
            &server,
            [NEAR, FAR].map(|router| routers[router].enrolled.id.clone()),
        );
        let other = Member::new(&server, "other");
        // Beside the policies that change.
        let everybody = json!({ "name": fresh("witness"), "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": [format!("@{}", witness.enrolled.id)] });
        server
            .admin
            .post("/edge-router-policies", everybody)
            .expect(201);
        routers
            .iter()
            .for_each(|router| server.allow_router(&other.id, &router.enrolled.id));
        server.give_password(&other.id, &other.name);
        let (terminators, circuits, by_password) = (Vec::new(), Vec::new(), Vec::new());
        let links = LINKS.into();
        let ended = BTreeMap::new();
        let mut world = Self {
            server,
            routers,
            witness,
            records,
            terminators,
            circuits,
            links,
            dialed: 0,
            other,
            by_password,
            opened: 0,
            ended,
        };
        for router in [NEAR, FAR] {
            world.connect(router, true).await;
        }
        world
    }

    async fn connect(&mut self, router: usize, is_new: bool) {
        let online = |server: &TestServer, routers: &[FollowingRouter]| {
            routers[router].enrolled.shown(server)["isOnline"] == true
        };
        if is_new && self.routers[router].connection.take().is_some() {
            assert!(soon(|| !online(&self.server, &self.routers)).await);
        }
        self.routers[router].connect(&self.server, is_new).await;
        if is_new {
            self.circuits.clear();
        }
        if is_new && router == FAR {
            self.terminators.clear();
        }
        if router == NEAR {
            self.report_links().await;
        }
        self.confirm_links().await;
    }

    /// The far router accepts links from the near one.
    async fn confirm_links(&mut self) {
        if self.routers.iter().all(FollowingRouter::is_connected) {
            let [near, far] = &mut self.routers;
            let question = far.connection().verify(&near.enrolled).await;
            self.answer(FAR, question).await;
        }
    }

    /// The near router reports its links.
    async fn report_links(&mut self) {
        self.dialed += 1;
        let (destination, iteration) = (self.routers[FAR].enrolled.id.clone(), self.dialed);
        let link = |id: &&str| fabric::RouterLink {
            id: (*id).into(),
            destination_router_id: destination.clone(),
            protocol: "tls".into(),
            iteration,
            ..Default::default()
        };
        let report = fabric::RouterLinks {
            links: self.links.iter().map(link).collect(),
            full_refresh: true,
        };
        self.routers[NEAR]
            .connection()
            .send(Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()))
            .await;
    }

    /// Waits until exactly the allowed circuits and terminators are left, at the controller and at
    /// the connected routers.
    async fn settle(&mut self, change: &str) {
        let before = self.circuits.len();
        let (mut terminators, mut circuits) = (
            std::mem::take(&mut self.terminators),
            std::mem::take(&mut self.circuits),
        );
        terminators.retain(|(_, end)| self.records.stands(end, BIND, FAR));
        circuits.retain(|circuit| {
            self.records.stands(&circuit.client, DIAL, NEAR)
                && self.records.stands(&circuit.host, BIND, FAR)
        });
        (self.terminators, self.circuits) = (terminators, circuits);
        if self.circuits.len() < before {
            *self.ended.entry(change.to_owned()).or_default() += before - self.circuits.len();
        }
        let ids = |answer: &Json| -> BTreeSet<String> {
            answer
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let expected: BTreeSet<String> = self
            .circuits
            .iter()
            .map(|circuit| circuit.id.clone())
            .collect();
        let hosted: BTreeSet<String> = self.terminators.iter().map(|(id, _)| id.clone()).collect();
        let began = Instant::now();
        loop {
            let admin = &self.server.admin;
            let shown = ids(admin
                .at(Base::Overkeep)
                .get("/circuits?limit=500")
                .expect(200)
                .data());
            let listed = ids(admin.get("/terminators?limit=500").expect(200).data());
            let mut is_settled = shown == expected && listed == hosted;
            for router in &mut self.routers {
                router.drain().await;
                is_settled &=
                    !router.is_connected() || router.told.circuits.keys().eq(expected.iter());
            }
            if is_settled {
                return;
            }
            let told = [NEAR, FAR].map(|router| &self.routers[router].told.circuits);
            assert!(
                began.elapsed() < PATIENCE,
                "{expected:?} {hosted:?} are allowed; {shown:?} {listed:?} are listed; {told:?} told"
            );
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Compares what the routers were told with a full state, of which each may know the API
    /// sessions of those that may use it.
    async fn compare(&mut self) {
        let marker = self.other.caller.log_in_by_certificate().token.unwrap();
        let began = Instant::now();
        for router in self
            .routers
            .iter_mut()
            .filter(|router| router.is_connected())
        {
            while !router.told.api_sessions.contains_key(&marker) {
                assert!(began.elapsed() < PATIENCE, "a log-in is not reported");
                router.drain().await;
            }
        }
        let listed = || {
            self.server
                .admin
                .at(Base::Overkeep)
                .get("/links")
                .expect(200)
        };
        let expected: Vec<&str> = self.links.iter().copied().collect();
        assert!(
            soon(|| listed().each("id") == expected).await,
            "{expected:?} are reported, {:?} are listed",
            listed().each("id")
        );
        self.witness.connect(&self.server, false).await;
        let witness = &self.witness.enrolled.id.clone();
        for (at, router) in self
            .routers
            .iter_mut()
            .enumerate()
            .filter(|(_, router)| router.is_connected())
        {
            let router_id = router.enrolled.id.clone();
            router.drain().await;
            let may = |identity: &String| {
                *identity == self.other.id || self.records.may_use(identity, at)
            };
            let expected = self
                .witness
                .told
                .api_sessions
                .iter()
                .filter(|(_, (_, identity, _))| may(identity));
            let expected: ApiSessions = expected
                .map(|(token, session)| (token.clone(), session.clone()))
                .collect();
            assert_eq!(router.told.api_sessions, expected);
            let peers = |told: &super::told::Told| -> BTreeSet<String> {
                told.peers
                    .iter()
                    .filter(|id| *id != witness && **id != router_id)
                    .cloned()
                    .collect()
            };
            // Changes of other routers are collected for a moment.
            while peers(&router.told) != peers(&self.witness.told) {
                let found = [peers(&router.told), peers(&self.witness.told)];
                assert!(began.elapsed() < PATIENCE, "the other routers: {found:?}");
                router.drain().await;
                self.witness.drain().await;
            }
            let exists =
                |id: &String| self.server.admin.get(&format!("/sessions/{id}")).status == 200;
            let wrong: Vec<_> = router
                .told
                .ended_sessions
                .iter()
                .filter(|id| exists(id))
                .collect();
            assert!(
                wrong.is_empty(),
                "sessions that exist were reported as ended: {wrong:?}"
            );
            while let Some(id) = router.told.sessions.keys().find(|id| !exists(id)).cloned() {
                assert!(
                    began.elapsed() < PATIENCE,
                    "the end of session {id} is not reported"
                );
                router.drain().await;
            }
        }
        self.witness.connection = None;
    }
}

/// Runs one history, and prints it if a check fails. Returns how many circuits were opened, and how
/// many ended by which change.
async fn run_history(seed: u64) -> (usize, BTreeMap<String, usize>) {
    struct Steps(u64, Vec<String>);
    impl Drop for Steps {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}: {:#?}", self.0, self.1);
            }
        }
    }
    let (mut world, mut rng, mut steps) =
        (World::new().await, Rng::new(seed), Steps(seed, Vec::new()));
    for step in 0..STEPS {
        if step % STEPS_PER_RESTORE == 0 {
            world.restore(&mut rng).await;
        }
        let what = match rng.below(12) {
            0..5 => world.change(&mut rng).await,
            5..9 => world.dial(&mut rng).await,
            9..11 => world.bind(&mut rng).await,
            _ => world.end(&mut rng).await,
        };
        world.settle(&what).await;
        steps.1.push(what);
        if step % 10 == 9 {
            world.compare().await;
            world.settle("").await;
        }
    }
    (world.opened, world.ended)
}

#[test]
fn routers_know_the_present_state() {
    let (mut opened, mut ended) = (0, BTreeMap::<String, usize>::new());
    for seed in 0..4 {
        let (more, by_change) = run(run_history(seed));
        opened += more;
        by_change
            .into_iter()
            .for_each(|(change, count)| *ended.entry(change).or_default() += count);
    }
    assert!(opened > 150, "only {opened} circuits were opened");
    for cause in CAUSES {
        assert!(
            ended
                .keys()
                .any(|change| change.split(' ').any(|word| word == cause)),
            "{cause} ended no circuit: {ended:#?}"
        );
    }
}
