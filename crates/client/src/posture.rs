//! What this machine reports for posture checks: its operating system, its addresses, and processes
//! that run.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use ring::digest::{Context, SHA512};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::controller::or_default;

/// The most checks of a service, and processes of one check and of all, that are answered.
const CHECKS: usize = 256;
/// The most bytes of a program's file that are read.
const FILE: u64 = 4 << 30;

/// The checks of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PosturePolicy {
    #[serde(default, deserialize_with = "or_default")]
    posture_queries: Vec<PostureQuery>,
}

/// What a check wants to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostureQuery {
    id: String,
    query_type: String,
    #[serde(default)]
    process: Option<Process>,
    #[serde(default, deserialize_with = "or_default")]
    processes: Vec<Process>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Process {
    path: String,
}

/// The checks of a service, each once.
pub(crate) fn queries(policies: &[PosturePolicy]) -> BTreeSet<PostureQuery> {
    let all = policies.iter().flat_map(|policy| &policy.posture_queries);
    all.take(CHECKS).cloned().collect()
}

/// This machine, with what is known of the programs that run.
#[derive(Default)]
pub(crate) struct Machine {
    digests: HashMap<PathBuf, Digest>,
}

/// The digest of a file, and what changes with its content.
#[derive(Clone)]
struct Digest {
    of: (u64, u64, u64, i64, i64),
    digits: String,
}

impl Machine {
    /// The answers of this machine. A check that only people or other systems can answer gets none.
    /// Blocks.
    pub(crate) fn answers(&mut self, queries: &BTreeSet<PostureQuery>) -> Vec<Json> {
        let paths: BTreeSet<&str> = queries.iter().flat_map(PostureQuery::paths).collect();
        let running = if paths.is_empty() {
            BTreeSet::new()
        } else {
            running_programs()
        };
        let mut states = HashMap::new();
        for path in paths.into_iter().take(CHECKS) {
            let is_running = running.contains(Path::new(path));
            // Only what runs is read: the controller chooses the path.
            let hash = if is_running {
                self.digest(Path::new(path)).unwrap_or_default()
            } else {
                String::new()
            };
            states.insert(path, (is_running, hash));
        }
        let all = queries.iter().flat_map(|query| query.answers(&states));
        all.collect()
    }

    /// The digest of a file, which is read again if it has changed.
    fn digest(&mut self, path: &Path) -> io::Result<String> {
        let about = fs::metadata(path)?;
        let of = (
            about.dev(),
            about.ino(),
            about.len(),
            about.mtime(),
            about.mtime_nsec(),
        );
        if let Some(known) = self.digests.get(path).filter(|known| known.of == of) {
            return Ok(known.digits.clone());
        }
        let digits = sha512(path)?;
        if self.digests.len() >= CHECKS {
            self.digests.clear();
        }
        let digest = Digest {
            of,
            digits: digits.clone(),
        };
        self.digests.insert(path.to_owned(), digest);
        Ok(digits)
    }
}

impl PostureQuery {
    /// The programs that it asks about.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let all = self.process.iter().chain(&self.processes);
        all.take(CHECKS).map(|process| process.path.as_str())
    }

    /// `states` holds whether a program runs, and the digest of its file.
    fn answers(&self, states: &HashMap<&str, (bool, String)>) -> Vec<Json> {
        let (id, kind) = (&self.id, &self.query_type);
        match kind.as_str() {
            "OS" => {
                let name = rustix::system::uname();
                let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
                vec![json!({
                    "id": id,
                    "typeId": kind,
                    "type": text(name.sysname()),
                    "version": version(&text(name.release())),
                    "build": "",
                })]
            }
            "MAC" => vec![json!({ "id": id, "typeId": kind, "macAddresses": mac_addresses() })],
            "DOMAIN" => vec![json!({ "id": id, "typeId": kind, "domain": domain() })],
            "PROCESS" | "PROCESS_MULTI" => {
                let answer = |path| {
                    let (is_running, hash) = states.get(path)?;
                    Some(json!({
                        "id": id,
                        "typeId": "PROCESS",
                        "path": path,
                        "isRunning": is_running,
                        "hash": hash,
                        "signerFingerprints": [],
                    }))
                };
                self.paths().filter_map(answer).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The three numbers at the begin of a kernel's release.
fn version(release: &str) -> String {
    let numbers = release.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let numbers = numbers.into_iter().next().unwrap_or_default();
    let mut parts: Vec<&str> = numbers.split('.').filter(|part| !part.is_empty()).collect();
    parts.resize(3, "0");
    parts.join(".")
}

/// The addresses of the network interfaces.
fn mac_addresses() -> Vec<String> {
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else {
        return Vec::new();
    };
    let address = |entry: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.ok()?.path().join("address")).ok()?;
        let digits: String = text.trim().chars().filter(|one| *one != ':').collect();
        let is_one = !digits.is_empty() && digits.chars().any(|digit| digit != '0');
        is_one.then(|| digits.to_ascii_lowercase())
    };
    let all: BTreeSet<String> = interfaces.filter_map(address).take(CHECKS).collect();
    all.into_iter().collect()
}

/// The domain of this machine, if it has one: that of the kernel, or that of its name.
fn domain() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let domain = read("/proc/sys/kernel/domainname");
    match domain.trim() {
        "" | "(none)" => {
            let host = read("/proc/sys/kernel/hostname");
            let domain = host.trim().split_once('.').map(|(_, domain)| domain);
            domain.unwrap_or_default().to_owned()
        }
        domain => domain.to_owned(),
    }
}

/// The files of the programs that run. Those of other users are seen by root only.
fn running_programs() -> BTreeSet<PathBuf> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    let is_process = |process: &fs::DirEntry| {
        let name = process.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    let processes = processes.flatten().filter(is_process);
    processes
        .filter_map(|process| fs::read_link(process.path().join("exe")).ok())
        .collect()
}

/// The digest of a file, in hexadecimal digits.
fn sha512(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut file = fs::File::open(path)?;
    if file.metadata()?.len() > FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut digest = Context::new(&SHA512);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => digest.update(buffer.get(..length).unwrap_or_default()),
        }
    }
    let digest = digest.finish();
    Ok(digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(kind: &str, more: Json) -> Vec<Json> {
        let mut query = more;
        query["id"] = "check".into();
        query["queryType"] = kind.into();
        let policies = json!([{ "policyId": "p", "postureQueries": [query] }, {}]);
        let policies: Vec<PosturePolicy> = serde_json::from_value(policies).unwrap();
        Machine::default().answers(&queries(&policies))
    }

    #[test]
    fn versions_have_three_numbers() {
        for (release, expected) in [
            ("6.1.0-18-amd64", "6.1.0"),
            ("5.15.153.1-microsoft", "5.15.153"),
            ("6.9", "6.9.0"),
            ("", "0.0.0"),
        ] {
            assert_eq!(version(release), expected);
        }
    }

    #[test]
    fn this_machine_answers() {
        let system = query("OS", json!({ "process": null, "processes": null }));
        assert_eq!(system[0]["type"], "Linux");
        assert_eq!(system[0]["version"].as_str().unwrap().split('.').count(), 3);
        assert!(query("MAC", json!({}))[0]["macAddresses"].is_array());
        assert!(query("DOMAIN", json!({}))[0]["domain"].is_string());
        assert!(query("MFA", json!({})).is_empty());
        assert!(query("SOMETHING", json!({})).is_empty());
    }

    #[test]
    fn running_programs_are_seen_with_their_digest() {
        let own = std::env::current_exe().unwrap();
        let paths = json!([{ "path": own.to_str().unwrap() }, { "path": "/etc/hostname" }]);
        let both = query("PROCESS_MULTI", json!({ "processes": paths }));
        assert_eq!(both[0]["isRunning"], true);
        assert_eq!(both[0]["hash"].as_str().unwrap().len(), 128);
        // It exists, and is not read.
        assert_eq!(
            (&both[1]["isRunning"], &both[1]["hash"]),
            (&json!(false), &json!(""))
        );
        let one = query("PROCESS", json!({ "process": { "path": "/nowhere" } }));
        assert_eq!(one[0]["typeId"], "PROCESS");
        assert_eq!(one[0]["isRunning"], false);
    }
}
