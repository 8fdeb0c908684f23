//! A cluster: which of its nodes has a slot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rand::seq::{IndexedRandom, SliceRandom};
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, RedisError, RedisResult, from_redis_value,
};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::address;
use crate::node::Node;
use crate::open_slots::OpenSlots;
use crate::shared_look::SharedLook;
use crate::slot::{SLOTS, Slot};
use crate::view::{PreferredHosts, View};

/// How long a node may take to tell what it knows.
const ANSWER_MAX: Duration = Duration::from_millis(700);
/// How many nodes are asked at once, and how many answers are enough.
const ASKED_MAX: usize = 3;
const ANSWERS_MIN: usize = 2;
/// How often a node is asked although no command missed its server: nodes may have joined.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// The shortest time between two questions.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The slots and their owners.
#[derive(Default)]
pub(crate) struct SlotMap {
    /// For each slot its primary, with the epoch in which that one claims it.
    owners: Vec<Option<(u64, Node)>>,
    pub(crate) primaries: Vec<Node>,
    pub(crate) replicas: usize,
}

pub(crate) struct Cluster {
    template: ConnectionInfo,
    seeds: Vec<Node>,
    config: AsyncConnectionConfig,
    nodes: Mutex<BTreeMap<String, Node>>,
    map: watch::Sender<Arc<SlotMap>>,
    looking: SharedLook<()>,
    /// Wakes the task that keeps the map.
    wake: Arc<Notify>,
    /// A node that was named as the owner of a slot, and so knows more than others.
    hint: Mutex<Option<Node>>,
    pub(crate) open_slots: OpenSlots,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<ConnectionInfo>,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let template = seeds[0].clone();
        let seeds = seeds.into_iter().map(|info| Node::new(info, config));
        let seeds: Vec<Node> = seeds.collect::<RedisResult<_>>()?;
        let nodes = seeds.iter().map(|node| (node.name().to_owned(), node.clone())).collect();
        Ok(Self {
            template,
            seeds,
            config: config.clone(),
            nodes: Mutex::new(nodes),
            map: watch::Sender::default(),
            looking: SharedLook::new(),
            wake: Arc::default(),
            hint: Mutex::default(),
            open_slots: OpenSlots::default(),
        })
    }

    /// The map, as far as it is known.
    pub(crate) fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.borrow())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.map.subscribe()
    }

    /// The server of a slot, or any primary for a command without keys.
    pub(crate) async fn owner(&self, slot: Option<Slot>) -> RedisResult<Node> {
        let mut map = self.map();
        if map.primaries.is_empty() {
            self.look().await?;
            map = self.map();
        }
        let owner = slot.and_then(|slot| map.owner(slot));
        let owner = owner.or_else(|| map.primaries.choose(&mut rand::rng()));
        owner.cloned().ok_or_else(|| unreachable_cluster("no node has slots"))
    }

    /// The node at an address that another node named; `asked` stands for a host that is missing.
    pub(crate) fn named(&self, address: &str, asked: &Node) -> RedisResult<Node> {
        let own_host = address::host_of(asked.info().addr()).unwrap_or_default();
        let parsed = address.rsplit_once(':').and_then(|(host, port)| {
            let host = if matches!(host, "" | "?") { own_host } else { host };
            Some((host, port.parse().ok()?))
        });
        let (host, port) =
            parsed.ok_or_else(|| unreachable_cluster("an unreadable redirection"))?;
        self.node(host, port)
    }

    /// Has the map read again soon, first from `hint`.
    pub(crate) fn wake(&self, hint: Option<&Node>) {
        if let Some(hint) = hint {
            *self.hint.lock().unwrap_or_else(PoisonError::into_inner) = Some(hint.clone());
        }
        self.wake.notify_one();
    }

    /// Reads the map again. Callers that wait together get one answer.
    pub(crate) async fn look(&self) -> RedisResult<()> {
        self.looking.share(self.read_map()).await
    }

    async fn read_map(&self) -> RedisResult<()> {
        let hint = self.hint.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut primaries = self.map().primaries.clone();
        primaries.shuffle(&mut rand::rng());
        primaries.truncate(ASKED_MAX);
        let (hinted, views) =
            tokio::join!(self.views(hint.into_iter().collect()), self.views(primaries));
        let mut views: Vec<View> = hinted.into_iter().chain(views).collect();
        if views.is_empty() {
            // Whoever is left, and the addresses of the URL: all nodes may have new ones.
            let known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
            views =
                self.views(known.into_values().chain(self.seeds.iter().cloned()).collect()).await;
        }
        let map = self.merged(&views)?;
        if map.primaries.is_empty() {
            return Err(unreachable_cluster("no node tells who has the slots"));
        }
        self.map.send_replace(Arc::new(map));
        Ok(())
    }

    /// What the first nodes answer.
    async fn views(&self, nodes: Vec<Node>) -> Vec<View> {
        let by_name = matches!(self.template.addr(), redis::ConnectionAddr::TcpTls { .. });
        let mut questions = redis::pipe();
        let enough = ANSWERS_MIN.min(nodes.len());
        questions.cmd("CLUSTER").arg("NODES").cmd("CLUSTER").arg("SLOTS");
        let questions = &questions;
        let ask = async |node: Node| {
            let answers = timeout(ANSWER_MAX, node.pipeline(questions, 0, 2)).await.ok()?.ok()?;
            let [nodes, slots] = <[_; 2]>::try_from(answers).ok()?;
            let text: String = from_redis_value(nodes.extract_error().ok()?).ok()?;
            let own_host = address::host_of(node.info().addr())?;
            Some(View::read(&text, &PreferredHosts::read(&slots), own_host, by_name))
        };
        let mut asked: FuturesUnordered<_> = nodes.into_iter().map(ask).collect();
        let mut views = Vec::new();
        while views.len() < enough
            && let Some(view) = asked.next().await
        {
            views.extend(view.filter(|view| !view.primaries.is_empty()));
        }
        views
    }

    /// One map of several views: of two owners of a slot, the one with the higher epoch.
    fn merged(&self, views: &[View]) -> RedisResult<SlotMap> {
        let mut owners: Vec<Option<(u64, Node)>> = vec![None; SLOTS.into()];
        let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
        for primary in views.iter().flat_map(|view| &view.primaries) {
            let named = self.node(&primary.host, primary.port)?;
            let node = nodes.entry(&primary.id).or_insert(named);
            for slot in primary.ranges.iter().flat_map(|(first, last)| *first..=*last) {
                let owner = &mut owners[usize::from(slot)];
                if owner.as_ref().is_none_or(|(epoch, _)| *epoch < primary.epoch) {
                    *owner = Some((primary.epoch, node.clone()));
                }
            }
        }
        // Some may have lost all their slots to others.
        let has_slots = |node: &Node| owners.iter().flatten().any(|(_, owner)| owner.is(node));
        let primaries = nodes.into_values().filter(has_slots).collect();
        // The view with the most of them: a node that has just joined knows few.
        let replicas = views.iter().map(|view| view.replicas.len()).max().unwrap_or(0);
        let map = SlotMap { owners, primaries, replicas };
        self.forget_others(&map, views);
        Ok(map)
    }

    /// Drops connections to nodes that no view names any more.
    fn forget_others(&self, map: &SlotMap, views: &[View]) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|name, node| {
            map.primaries.iter().chain(&self.seeds).any(|other| other.is(node))
                || views.iter().any(|view| view.replicas.contains(name))
        });
    }

    fn node(&self, host: &str, port: u16) -> RedisResult<Node> {
        let info = address::at(&self.template, host, port);
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(&info.addr().to_string()) {
            return Ok(node.clone());
        }
        let node = Node::new(info, &self.config)?;
        nodes.insert(node.name().to_owned(), node.clone());
        Ok(node)
    }
}

impl SlotMap {
    pub(crate) fn owner(&self, slot: Slot) -> Option<&Node> {
        self.owners.get(slot.index())?.as_ref().map(|(_, owner)| owner)
    }
}

/// Keeps the map until nobody uses the connection any more.
pub(crate) async fn keep(cluster: Weak<Cluster>) {
    let Some(wake) = cluster.upgrade().map(|cluster| Arc::clone(&cluster.wake)) else { return };
    loop {
        // In time, or when a command found another server than it expected.
        let _ = timeout(LOOK_PERIOD, wake.notified()).await;
        let Some(cluster) = cluster.upgrade() else { return };
        if let Err(error) = cluster.look().await {
            tracing::debug!(%error, "Redis Cluster: its slots are not known");
        }
        drop(cluster);
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

pub(crate) fn unreachable_cluster(why: &'static str) -> RedisError {
    RedisError::from((ErrorKind::ClusterConnectionNotFound, "Redis Cluster", why.to_owned()))
}
