//! Explain names the hosts of a service on the built-in router, or what is missing.

use overkeep::testing::admin_socket::{Command, socket};
use policy::access::Right;
use serde_json::Value as Json;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::Options,
};
use crate::{
    admin_socket::asked,
    harness::{Base, fresh},
};

fn why(scene: &Scene, right: &str) -> Json {
    let path = format!(
        "/explain?identity={}&service={}&type={right}",
        scene.client.id, scene.service
    );
    scene
        .server
        .admin
        .at(Base::Overkeep)
        .get(&path)
        .expect(200)
        .data()
        .clone()
}

fn text(scene: &Scene) -> String {
    let command = Command::Explain {
        right: Right::Dial,
        identity: scene.client.id.clone(),
        service: scene.service.clone(),
        json: false,
    };
    asked(&socket::beside(&scene.server.data()), &command).join("\n")
}

fn obstacle_names(why: &Json) -> Vec<&str> {
    why["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|obstacle| obstacle["what"].as_str().unwrap())
        .collect()
}

#[test]
fn hosts_are_named_while_they_host() {
    let scene = Scene::new();
    let missing = why(&scene, "Dial");
    assert_eq!(
        (obstacle_names(&missing), &missing["hostCount"]),
        (vec!["noHost"], &0.into()),
        "{missing:#}"
    );
    let explanation = text(&scene);
    assert!(
        explanation.contains("no host binds")
            && explanation.contains(&scene.host.name)
            && !explanation.contains("hosted by"),
        "{explanation}"
    );
    run(async {
        let listener = scene.hosted(Options::GO).await;
        let found = why(&scene, "Dial");
        assert!(
            found["verdict"] == true && obstacle_names(&found).is_empty(),
            "{found:#}"
        );
        let host = &found["hosts"][0];
        assert_eq!(
            (&host["identity"]["name"], &host["identity"]["id"]),
            (
                &scene.host.name.as_str().into(),
                &scene.host.id.as_str().into()
            )
        );
        assert_eq!(
            (&host["router"]["name"], &host["terminators"]),
            (&"built-in".into(), &1.into())
        );
        assert!(
            text(&scene).contains(&format!("connected, hosted by {}", scene.host.name)),
            "{}",
            text(&scene)
        );

        // A second host, and one more terminator of the first.
        let other = Member::new(&scene.server, "a-second-host");
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", other.id)],
            &[&format!("@{}", scene.service)],
        );
        let second = other
            .connect(&scene.server, Options::GO)
            .await
            .host(&other.session(&scene.service, "Bind"))
            .await
            .unwrap();
        let third = listener
            .sdk
            .host(&scene.host.session(&scene.service, "Bind"))
            .await
            .unwrap();
        let found = why(&scene, "Dial");
        assert_eq!(
            (
                found["hosts"].as_array().unwrap().len(),
                &found["hostCount"]
            ),
            (2, &2.into()),
            "{found:#}"
        );
        assert_eq!(found["hosts"][1]["terminators"], 2, "{found:#}");
        let both = format!("connected, hosted by {}, {}", other.name, scene.host.name);
        assert!(text(&scene).contains(&both), "{}", text(&scene));

        drop(third);
        for host in [listener, second] {
            host.sdk.leave().await;
        }
    });
    assert!(soon(|| obstacle_names(&why(&scene, "Dial")) == ["noHost"]));
    assert!(!text(&scene).contains("hosted by"));
}

#[test]
fn hosts_beyond_ten_are_counted() {
    let scene = Scene::new();
    let hosts: Vec<Member> = (0..11)
        .map(|_| Member::new(&scene.server, &fresh("host")))
        .collect();
    scene
        .server
        .service_policy("Bind", &["#all"], &[&format!("@{}", scene.service)]);
    let _listeners = run(async {
        let mut listeners = Vec::new();
        for host in &hosts {
            let sdk = host.connect(&scene.server, Options::GO).await;
            listeners.push(
                sdk.host(&host.session(&scene.service, "Bind"))
                    .await
                    .unwrap(),
            );
        }
        listeners
    });
    let found = why(&scene, "Dial");
    assert_eq!(
        (
            found["hosts"].as_array().unwrap().len(),
            &found["hostCount"]
        ),
        (10, &11.into()),
        "{found:#}"
    );
    assert!(text(&scene).contains(" and more"), "{}", text(&scene));
}
