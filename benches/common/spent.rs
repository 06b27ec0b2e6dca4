//! The CPU time of a process.

use std::{collections::HashMap, fs};

/// The CPU time of each thread of a process, in nanoseconds.
pub struct Spent(HashMap<String, u64>);

impl Spent {
    /// The CPU time spent so far. It is counted per thread, because that of the whole process has a
    /// resolution of a hundredth of a second.
    pub fn of(process: u32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
        let spent = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((
                task.file_name().into_string().ok()?,
                text.split_whitespace().next()?.parse().ok()?,
            ))
        };
        Self(tasks.flatten().filter_map(spent).collect())
    }

    /// The CPU time since an earlier measurement, in seconds.
    pub fn since(&self, before: &Self) -> f64 {
        let of = |(thread, now): (&String, &u64)| {
            now.saturating_sub(before.0.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(of).sum::<u64>() as f64 / 1e9
    }
}
