//! Selects the host to dial: by precedence, cost and the strategy of the service.

use model::entity::Precedence;

/// The values by which a host is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub precedence: Precedence,
    pub cost: u16,
    /// The cost of open circuits and failed dials.
    pub dynamic_cost: u16,
    /// The cost of the path between the routers of client and host; 0 if they are the same router.
    pub path_cost: u32,
}

/// The terminator strategy of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The lowest cost.
    Smartrouting,
    /// Random; hosts with lower cost more often.
    Weighted,
    /// Random with equal chances.
    Random,
    /// The previous host, otherwise the lowest cost.
    Sticky,
}

impl Strategy {
    /// The strategy with this name; an unknown name means smartrouting.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "weighted" => Self::Weighted,
            "random" => Self::Random,
            "sticky" => Self::Sticky,
            _ => Self::Smartrouting,
        }
    }
}

impl Weight {
    /// The cost among hosts of the same precedence.
    fn within(&self) -> u32 {
        (u32::from(self.cost) + u32::from(self.dynamic_cost)).saturating_add(self.path_cost)
    }

    fn rank(&self) -> u32 {
        match self.precedence {
            Precedence::Required => 0,
            Precedence::Default => 1,
            Precedence::Failed => 2,
        }
    }
}

/// Selects a host; returns its index. `sticky` is the index of the previous host, if present; `lot`
/// is a random number.
pub(crate) fn choose(
    strategy: Strategy,
    weights: &[Weight],
    sticky: Option<usize>,
    lot: u64,
) -> Option<usize> {
    let best = weights.iter().map(Weight::rank).min()?;
    let of_best = || {
        weights
            .iter()
            .enumerate()
            .filter(move |(_, weight)| weight.rank() == best)
    };
    let cheapest = || {
        of_best()
            .min_by_key(|(_, weight)| weight.within())
            .map(|(place, _)| place)
    };
    match strategy {
        Strategy::Smartrouting => cheapest(),
        Strategy::Sticky => of_best()
            .map(|(place, _)| place)
            .find(|place| Some(*place) == sticky)
            .or_else(cheapest),
        Strategy::Random => {
            let count = of_best().count() as u64;
            of_best()
                .nth(usize::try_from(lot.checked_rem(count)?).ok()?)
                .map(|(place, _)| place)
        }
        Strategy::Weighted => {
            // The chance is the total cost minus the host's own. If the total is zero, all chances
            // are equal.
            let total: u64 = of_best()
                .map(|(_, weight)| u64::from(weight.within()))
                .sum();
            let alone = of_best().count() == 1;
            let chance = |weight: &Weight| {
                if total == 0 || alone {
                    1
                } else {
                    total - u64::from(weight.within())
                }
            };
            let all: u64 = of_best().map(|(_, weight)| chance(weight)).sum();
            let mut left = lot.checked_rem(all)?;
            for (place, weight) in of_best() {
                match left.checked_sub(chance(weight)) {
                    Some(rest) => left = rest,
                    None => return Some(place),
                }
            }
            cheapest()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Precedence::{Default, Failed, Required};
    use Strategy::{Random, Smartrouting, Sticky, Weighted};

    fn weight(precedence: Precedence, cost: u16) -> Weight {
        Weight {
            precedence,
            cost,
            ..Weight::default()
        }
    }

    /// How often each host is selected.
    fn drawn<const N: usize>(strategy: Strategy, weights: [Weight; N]) -> [u64; N] {
        let mut drawn = [0; N];
        for lot in 0..60_000 {
            drawn[choose(strategy, &weights, None, lot).unwrap()] += 1;
        }
        drawn
    }

    #[test]
    fn precedence_goes_before_every_cost() {
        let weights = [
            weight(Failed, 0),
            weight(Default, 5),
            weight(Required, u16::MAX),
            weight(Required, 9),
        ];
        for strategy in [Smartrouting, Weighted, Random, Sticky] {
            let chosen = choose(strategy, &weights, Some(1), 0).unwrap();
            assert!(chosen == 2 || chosen == 3, "{strategy:?}");
        }
        assert_eq!(choose(Smartrouting, &weights, None, 0), Some(3));
        assert_eq!(choose(Smartrouting, &weights[..2], None, 0), Some(1));
        assert_eq!(choose(Smartrouting, &weights[..1], None, 0), Some(0));
        assert_eq!(choose(Smartrouting, &[], None, 0), None);
    }

    #[test]
    fn dynamic_cost_counts_like_cost() {
        let busy = Weight {
            dynamic_cost: 40,
            ..weight(Default, 10)
        };
        assert_eq!(
            choose(Smartrouting, &[busy, weight(Default, 49)], None, 0),
            Some(1)
        );
        assert_eq!(
            choose(Smartrouting, &[busy, weight(Default, 51)], None, 0),
            Some(0)
        );
    }

    #[test]
    fn sticky_host_needs_best_precedence() {
        let weights = [weight(Default, 1), weight(Default, 100), weight(Failed, 0)];
        assert_eq!(choose(Sticky, &weights, Some(1), 0), Some(1));
        assert_eq!(choose(Sticky, &weights, Some(2), 0), Some(0));
        assert_eq!(choose(Sticky, &weights, None, 0), Some(0));
    }

    #[test]
    fn hosts_are_drawn_by_cost() {
        assert_eq!(
            drawn(
                Random,
                [weight(Default, 0), weight(Default, 900), weight(Failed, 0)]
            ),
            [30_000, 30_000, 0]
        );
        assert_eq!(
            drawn(
                Weighted,
                [weight(Default, 0), weight(Default, 0), weight(Default, 0)]
            ),
            [20_000; 3]
        );
        assert_eq!(
            drawn(Weighted, [weight(Default, 1), weight(Default, 3)]),
            [45_000, 15_000]
        );
        assert_eq!(drawn(Weighted, [weight(Default, 5)]), [60_000]);
        // Cost shares of 1/6, 2/6 and 3/6 give chances of 5, 4 and 3 in 12.
        assert_eq!(
            drawn(
                Weighted,
                [weight(Default, 1), weight(Default, 2), weight(Default, 3)]
            ),
            [25_000, 20_000, 15_000]
        );
    }
}
