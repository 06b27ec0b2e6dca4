//! Random role attributes and role lists for models, reproducible in every run.

/// One in so many subjects carries each attribute.
const SHARES: [u64; 8] = [2, 2, 3, 4, 5, 8, 10, 10];

pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// The role attributes of a subject.
    pub fn roles(&mut self) -> Vec<String> {
        (0..SHARES.len())
            .filter(|n| self.below(SHARES[*n]) == 0)
            .map(|n| format!("role{n}"))
            .collect()
    }

    /// The role list of a policy: one to three entries.
    pub fn list(&mut self) -> Vec<String> {
        (0..=self.below(3))
            .map(|_| format!("#role{}", self.below(8)))
            .collect()
    }
}
