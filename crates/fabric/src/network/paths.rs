//! The cheapest path between two routers: by the latency of links and the cost of routers.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// Entering a router costs at least this.
const MIN_ROUTER_COST: u32 = 10;

/// The routers of a circuit in order, and the links between them, which are one fewer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path {
    pub routers: Vec<String>,
    pub links: Vec<String>,
    pub cost: u32,
}

impl Path {
    pub(crate) fn has_router(&self, router: &str) -> bool {
        self.routers.iter().any(|known| known == router)
    }

    /// Whether a router is its first or last one.
    pub(crate) fn ends_at(&self, router: &str) -> bool {
        self.routers.first().is_some_and(|first| first == router)
            || self.routers.last().is_some_and(|last| last == router)
    }
}

/// A connected router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub id: String,
    pub cost: u32,
    /// Circuits may begin and end at it and not pass through it.
    pub is_end_only: bool,
}

impl Node {
    /// What a path pays for entering it.
    pub(crate) fn entry_cost(&self) -> u32 {
        self.cost.max(MIN_ROUTER_COST)
    }
}

/// A usable link, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    pub link: String,
    pub ends: [String; 2],
    pub cost: u32,
}

/// The cost at which a router is reached, and the router and link before it; none before the first
/// router.
type Reached = (u32, Option<(usize, String)>);

/// The connected routers and the links between them.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    places: HashMap<String, usize>,
    /// By router: the neighbour, the link and its cost.
    edges: Vec<Vec<(usize, String, u32)>>,
}

impl Graph {
    /// Edges to routers that are not among the nodes are left out.
    pub(crate) fn new(nodes: Vec<Node>, all: Vec<Edge>) -> Self {
        let places: HashMap<String, usize> = nodes
            .iter()
            .enumerate()
            .map(|(place, node)| (node.id.clone(), place))
            .collect();
        let mut edges: Vec<Vec<_>> = vec![Vec::new(); nodes.len()];
        for edge in all {
            let [one, other] = edge.ends.each_ref().map(|id| places.get(id).copied());
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            for (from, to) in [(one, other), (other, one)] {
                if let Some(of_node) = edges.get_mut(from) {
                    of_node.push((to, edge.link.clone(), edge.cost));
                }
            }
        }
        Self {
            nodes,
            places,
            edges,
        }
    }

    /// The cheapest paths from a router to every router (Dijkstra's algorithm).
    pub(crate) fn paths_from(&self, source: &str) -> HashMap<String, Arc<Path>> {
        let Some(&start) = self.places.get(source) else {
            return HashMap::new();
        };
        let mut best: Vec<Option<Reached>> = vec![None; self.nodes.len()];
        let mut done = vec![false; self.nodes.len()];
        let mut queue = BinaryHeap::from([Reverse((0_u32, start))]);
        if let Some(known) = best.get_mut(start) {
            *known = Some((0, None));
        }
        while let Some(Reverse((cost, place))) = queue.pop() {
            let Some(is_done) = done.get_mut(place).filter(|is_done| !**is_done) else {
                continue;
            };
            *is_done = true;
            if place != start && self.nodes.get(place).is_none_or(|node| node.is_end_only) {
                continue;
            }
            for (next, link, of_link) in self.edges.get(place).into_iter().flatten() {
                let Some(node) = self.nodes.get(*next) else {
                    continue;
                };
                let total = cost
                    .saturating_add(*of_link)
                    .saturating_add(node.entry_cost());
                let Some(known) = best.get_mut(*next) else {
                    continue;
                };
                if known.as_ref().is_none_or(|(known, _)| total < *known) {
                    *known = Some((total, Some((place, link.clone()))));
                    queue.push(Reverse((total, *next)));
                }
            }
        }
        let reached = self.nodes.iter().enumerate().filter_map(|(place, node)| {
            Some((node.id.clone(), Arc::new(self.path_to(place, &best)?)))
        });
        reached.collect()
    }

    fn path_to(&self, place: usize, best: &[Option<Reached>]) -> Option<Path> {
        let (cost, mut before) = best.get(place)?.clone()?;
        let mut path = Path {
            routers: vec![self.nodes.get(place)?.id.clone()],
            links: Vec::new(),
            cost,
        };
        while let Some((previous, link)) = before {
            path.routers.push(self.nodes.get(previous)?.id.clone());
            path.links.push(link);
            before = best.get(previous)?.clone()?.1;
        }
        path.routers.reverse();
        path.links.reverse();
        Some(path)
    }
}

/// The paths that were computed since routers or links changed last.
#[derive(Default)]
pub(crate) struct Paths {
    changes: AtomicU64,
    computed: Mutex<Computed>,
}

#[derive(Default)]
struct Computed {
    /// The number of changes that the graph contains.
    changes: u64,
    graph: Option<Arc<Graph>>,
    by_source: HashMap<String, Arc<HashMap<String, Arc<Path>>>>,
}

impl Paths {
    /// Call it after a router, a link or a cost has changed.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The cheapest paths from a router, by the router where each ends. `graph` makes the present
    /// graph.
    pub(crate) fn from(
        &self,
        source: &str,
        graph: impl FnOnce() -> Graph,
    ) -> Arc<HashMap<String, Arc<Path>>> {
        let mut computed = self.computed.lock();
        let changes = self.changes.load(Ordering::SeqCst);
        if computed.graph.is_none() || computed.changes != changes {
            *computed = Computed {
                changes,
                graph: Some(Arc::new(graph())),
                by_source: HashMap::new(),
            };
        }
        if let Some(paths) = computed.by_source.get(source) {
            return paths.clone();
        }
        let paths = Arc::new(
            computed
                .graph
                .as_ref()
                .map(|graph| graph.paths_from(source))
                .unwrap_or_default(),
        );
        computed.by_source.insert(source.to_owned(), paths.clone());
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, cost: u32, is_end_only: bool) -> Node {
        Node {
            id: id.into(),
            cost,
            is_end_only,
        }
    }

    fn edge(one: &str, other: &str, cost: u32) -> Edge {
        Edge {
            link: format!("{one}{other}{cost}"),
            ends: [one.into(), other.into()],
            cost,
        }
    }

    #[test]
    fn the_cheapest_path_is_chosen() {
        let nodes = vec![
            node("a", 0, false),
            node("b", 0, false),
            node("c", 0, false),
            node("lonely", 0, false),
        ];
        let graph = Graph::new(
            nodes,
            vec![
                edge("a", "b", 5),
                edge("b", "c", 5),
                edge("a", "c", 50),
                edge("c", "a", 19),
                edge("a", "gone", 1),
            ],
        );
        let paths = graph.paths_from("a");
        assert_eq!(
            *paths["a"],
            Path {
                routers: vec!["a".into()],
                links: vec![],
                cost: 0
            }
        );
        // 5 + 10 + 5 + 10 over b is more than 19 + 10 over the cheaper of two links.
        assert_eq!(
            *paths["c"],
            Path {
                routers: vec!["a".into(), "c".into()],
                links: vec!["ca19".into()],
                cost: 29
            }
        );
        assert!(!paths.contains_key("lonely") && !paths.contains_key("gone"));
        assert!(graph.paths_from("gone").is_empty());
    }

    /// The least costs of all routers from the first one, by relaxing every link as often as there
    /// are routers.
    fn least_costs(nodes: &[Node], edges: &[Edge]) -> HashMap<String, u32> {
        let mut costs = HashMap::from([(nodes[0].id.clone(), 0)]);
        for _ in nodes {
            for edge in edges {
                for [from, to] in
                    [[0, 1], [1, 0]].map(|[from, to]| [&edge.ends[from], &edge.ends[to]])
                {
                    let by_id = |id: &str| nodes.iter().find(|node| node.id == id);
                    let (Some(cost), Some(source), Some(target)) =
                        (costs.get(from).copied(), by_id(from), by_id(to))
                    else {
                        continue;
                    };
                    if source.is_end_only && *from != nodes[0].id {
                        continue;
                    }
                    let total = cost + edge.cost + target.cost.max(MIN_ROUTER_COST);
                    costs
                        .entry(to.clone())
                        .and_modify(|known| *known = total.min(*known))
                        .or_insert(total);
                }
            }
        }
        costs
    }

    #[test]
    fn paths_cost_least_on_random_graphs() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut below = |end: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from(state % u64::from(end)).unwrap()
        };
        for _ in 0..500 {
            let count = 2 + below(8);
            let nodes: Vec<Node> = (0..count)
                .map(|id| node(&id.to_string(), below(40), below(4) == 0))
                .collect();
            let edges: Vec<Edge> = (0..below(20))
                // Now and then a link of a router that is not connected.
                .map(|_| {
                    edge(
                        &below(count + 1).to_string(),
                        &below(count + 1).to_string(),
                        1 + below(100),
                    )
                })
                .collect();
            let (expected, found) = (
                least_costs(&nodes, &edges),
                Graph::new(nodes.clone(), edges.clone()).paths_from("0"),
            );
            let costs: HashMap<String, u32> = found
                .iter()
                .map(|(id, path)| (id.clone(), path.cost))
                .collect();
            assert_eq!(costs, expected, "{nodes:?} {edges:?}");
            for (id, path) in &found {
                assert_eq!(
                    (
                        path.routers.first().map(String::as_str),
                        path.routers.last()
                    ),
                    (Some("0"), Some(id))
                );
                let steps = path.routers.windows(2).zip(&path.links);
                let price = |(ends, link): (&[String], &String)| {
                    let is_it = |edge: &&Edge| {
                        edge.link == *link && ends.iter().all(|end| edge.ends.contains(end))
                    };
                    let of_link = edges
                        .iter()
                        .filter(is_it)
                        .map(|edge| edge.cost)
                        .min()
                        .unwrap();
                    of_link
                        + nodes
                            .iter()
                            .find(|node| node.id == ends[1])
                            .unwrap()
                            .cost
                            .max(MIN_ROUTER_COST)
                };
                assert_eq!(
                    steps.map(price).sum::<u32>(),
                    path.cost,
                    "the path has the cost that it names"
                );
            }
        }
    }

    #[test]
    fn costs_and_no_traversal_count() {
        let edges = || {
            vec![
                edge("a", "b", 1),
                edge("b", "d", 1),
                edge("a", "c", 1),
                edge("c", "d", 1),
            ]
        };
        let over = |b: Node, c: Node| {
            let graph = Graph::new(vec![node("a", 0, true), b, c, node("d", 0, true)], edges());
            graph
                .paths_from("a")
                .get("d")
                .map(|path| path.routers[1].clone())
        };
        assert_eq!(
            over(node("b", 30, false), node("c", 20, false)).as_deref(),
            Some("c")
        );
        assert_eq!(
            over(node("b", 30, false), node("c", 20, true)).as_deref(),
            Some("b")
        );
        assert_eq!(over(node("b", 30, true), node("c", 20, true)), None);
    }
}
