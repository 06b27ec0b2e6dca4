//! The trace routes that the ends of a circuit have asked for. An answer passes to the end that has
//! asked for it, once: an SDK takes it for the answer to whatever request of its own has the number
//! in it.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::circuit_side::CircuitSide;

/// Maximum trace routes of one end without an answer; the oldest one is forgotten first.
const MAX: usize = 64;

/// The first byte of the body of a trace route, where a message of the same type may be an answer;
/// the id of the circuit follows.
pub(crate) const REQUEST: u8 = 1;
/// The same of an answer.
pub(crate) const ANSWER: u8 = 2;

/// The numbers of the trace routes of the client and of the host that have no answer.
#[derive(Debug, Default)]
pub(crate) struct AskedTraces(Mutex<[VecDeque<u32>; 2]>);

impl AskedTraces {
    /// Records that a side has asked.
    pub(crate) fn asked(&self, side: CircuitSide, number: u32) {
        let mut all = self.0.lock();
        let of_side = of(&mut all, side);
        if of_side.len() >= MAX {
            of_side.pop_front();
        }
        of_side.push_back(number);
    }

    /// Whether a side has asked for the trace route with this number and got no answer. It counts
    /// as answered from now on.
    pub(crate) fn answered(&self, side: CircuitSide, number: u32) -> bool {
        let mut all = self.0.lock();
        let of_side = of(&mut all, side);
        let place = of_side.iter().position(|asked| *asked == number);
        place.is_some_and(|place| of_side.remove(place).is_some())
    }

    /// Whether a message passes from a side to the other one: a request does, an answer only if it
    /// was asked for. `purpose` is the first byte of its body.
    pub(crate) fn passes(
        &self,
        purpose: Option<u8>,
        from: CircuitSide,
        number: Option<u32>,
    ) -> bool {
        match purpose {
            Some(REQUEST) => {
                if let Some(number) = number {
                    self.asked(from, number);
                }
                true
            }
            Some(ANSWER) => number.is_some_and(|number| self.answered(from.other(), number)),
            _ => false,
        }
    }
}

fn of(all: &mut [VecDeque<u32>; 2], side: CircuitSide) -> &mut VecDeque<u32> {
    let [client, host] = all;
    if side == CircuitSide::Client {
        client
    } else {
        host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_pass_once_to_who_asked() {
        let (traces, client, host) = (
            AskedTraces::default(),
            CircuitSide::Client,
            CircuitSide::Host,
        );
        assert!(!traces.passes(Some(ANSWER), host, Some(7)), "nobody asked");
        assert!(
            traces.passes(Some(REQUEST), client, Some(7))
                && traces.passes(Some(REQUEST), client, None)
        );
        assert!(
            !traces.passes(Some(ANSWER), client, Some(7)),
            "the host has not asked"
        );
        assert!(
            !traces.passes(Some(ANSWER), host, Some(8)) && !traces.passes(Some(ANSWER), host, None)
        );
        assert!(
            traces.passes(Some(ANSWER), host, Some(7))
                && !traces.passes(Some(ANSWER), host, Some(7))
        );
        assert!(!traces.passes(Some(3), host, Some(7)) && !traces.passes(None, host, Some(7)));
        for number in 0..100 {
            traces.asked(host, number);
        }
        assert!(
            !traces.answered(host, 0) && traces.answered(host, 99),
            "the oldest ones are forgotten"
        );
        assert!(traces.0.lock()[1].len() < MAX);
    }
}
