//! A queue of clients in which their networks take turns: each network gets its next turn in order
//! of arrival, so that many clients of one network delay only each other.
//!
//! Invariant: a network is in `turns` exactly if it is in `waiting`, and it is in `turns` once.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
};

/// The network of a client, or none if the address is unknown.
pub type ClientPrefix = Option<IpAddr>;

/// What waits, by network and number.
pub struct FairQueue<T> {
    next_number: u64,
    waiting: HashMap<ClientPrefix, BTreeMap<u64, T>>,
    turns: VecDeque<ClientPrefix>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            next_number: 0,
            waiting: HashMap::new(),
            turns: VecDeque::new(),
        }
    }
}

impl<T> FairQueue<T> {
    /// Adds an item behind all others of its network. Returns its number.
    pub fn push(&mut self, network: ClientPrefix, item: T) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.put_back(network, number, item);
        number
    }

    /// Adds an item again that was taken out, in its former place.
    pub fn put_back(&mut self, network: ClientPrefix, number: u64, item: T) {
        let queue = self.waiting.entry(network).or_insert_with(|| {
            self.turns.push_back(network);
            BTreeMap::new()
        });
        queue.insert(number, item);
    }

    /// Removes an item, if it waits. Its network keeps its turn, even with nothing left.
    pub fn remove(&mut self, network: ClientPrefix, number: u64) {
        if let Some(queue) = self.waiting.get_mut(&network) {
            queue.remove(&number);
        }
    }

    /// Whether nothing waits, and no network has a turn.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.turns.is_empty()
    }

    /// Takes out the item that is next. Items that have left are dropped, and cost their network no
    /// turn before its next item.
    pub fn pop(&mut self, has_left: impl Fn(&T) -> bool) -> Option<T> {
        while let Some(network) = self.turns.pop_front() {
            let queue = self.waiting.get_mut(&network)?;
            let mut next = queue.pop_first();
            while next.as_ref().is_some_and(|(_, item)| has_left(item)) {
                next = queue.pop_first();
            }
            if queue.is_empty() {
                self.waiting.remove(&network);
            } else {
                self.turns.push_back(network);
            }
            if let Some((_, item)) = next {
                return Some(item);
            }
        }
        None
    }
}
