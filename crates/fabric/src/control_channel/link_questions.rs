//! Questions to routers for their links, which confirm those that lead to them. A router is asked
//! when a link to it is reported that it has not confirmed: after a restart of the controller,
//! because routers verify each other only when they dial.

use std::{collections::HashSet, sync::Arc, time::Duration};

use model::entity::EdgeRouter;
use serde::Deserialize;
use tokio::time::sleep;

use super::{control_core::ControlCore, inspect};

/// The name of the value of a router that lists its links.
const LINKS: &str = "links";
/// The pauses before each question to a router, as long as it has not confirmed a link. After the
/// last one its measurements are waited for, which it sends each minute. A new link is verified
/// before the first question.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// The links of a router, in its words.
#[derive(Deserialize)]
struct ListedLinks {
    #[serde(default)]
    links: Vec<ListedLink>,
}

#[derive(Deserialize)]
struct ListedLink {
    #[serde(default)]
    id: String,
    /// The router at the other end.
    #[serde(default)]
    dest: String,
}

/// Asks a remote router for its links until it has confirmed those that lead to it, a few times.
/// Does nothing if it is asked already.
pub(crate) fn ask(core: &Arc<ControlCore>, router: &str) {
    if router == EdgeRouter::BUILT_IN
        || !core.network.links.has_unconfirmed(router)
        || !core.asked_routers.begin(router)
    {
        return;
    }
    let (core, router) = (core.clone(), router.to_owned());
    tokio::spawn(async move {
        for pause in PAUSES {
            sleep(pause).await;
            if !core.network.links.has_unconfirmed(&router) || !core.is_connected(&router) {
                break;
            }
            confirm(&core, &router).await;
        }
        core.asked_routers.end(&router);
    });
}

/// Asks a router once.
async fn confirm(core: &ControlCore, router: &str) {
    let Ok(_place) = core.asked_routers.places.acquire().await else {
        return;
    };
    let answer = inspect::inspect(
        core,
        |id| id == router,
        &[LINKS.to_owned()],
        core.times.route,
    )
    .await;
    let values = answer.values.iter().filter(|value| value.name == LINKS);
    for listed in values.filter_map(|value| serde_json::from_str::<ListedLinks>(&value.value).ok())
    {
        let known: HashSet<(&str, &str)> = listed
            .links
            .iter()
            .map(|link| (link.id.as_str(), link.dest.as_str()))
            .collect();
        if core.network.links.confirm(router, |link| {
            known.contains(&(link.id.as_str(), link.source.as_str()))
        }) {
            core.network.paths.changed();
        }
    }
}
