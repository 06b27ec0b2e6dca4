//! Time that a process was on a processor.

use std::{collections::HashMap, fs};

/// Nanoseconds that each thread of a process was on a processor.
pub struct Spent(HashMap<String, u64>);

impl Spent {
    /// What a process has spent so far. Counted by thread, because the process as a whole is accounted for in hundredths of a second only.
    pub fn of(process: u32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
        let spent = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((task.file_name().into_string().ok()?, text.split_whitespace().next()?.parse().ok()?))
        };
        Self(tasks.flatten().filter_map(spent).collect())
    }

    /// Seconds spent since something earlier.
    pub fn since(&self, before: &Self) -> f64 {
        let of = |(thread, now): (&String, &u64)| now.saturating_sub(before.0.get(thread).copied().unwrap_or_default());
        self.0.iter().map(of).sum::<u64>() as f64 / 1e9
    }
}
