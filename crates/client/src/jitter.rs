//! Pauses of different lengths, so that many clients that lost one server do not come back at once.

use std::time::Duration;

/// A random time from a half of `pause` up to one and a half.
pub fn jittered(pause: Duration) -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The highest bits of such an identifier are random.
    let part = u32::try_from(random >> 52).unwrap_or_default();
    pause / 2 + pause * part / 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_around_their_length() {
        let all: Vec<_> = (0..100).map(|_| jittered(Duration::from_secs(8))).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(4) && *most < Duration::from_secs(12));
        assert!(*most - *least > Duration::from_secs(2));
    }
}
