//! Ranks in network namespaces of their own, joined by a link (a veth pair), as
//! two machines are (root and `ip`), or said to be on machines of their own.

use super::processes::Result;
use rankway::boot::{Boot, BootError, ContactInfo};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The end of the link in each namespace.
const LINK: &str = "link0";
/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:00:99";

/// Why this machine cannot join two namespaces, if so.
pub fn cannot_join() -> Option<String> {
    let mut command = Command::new("unshare");
    command.args(["--net", "ip", "link", "add", "link0", "type", "veth", "peer", "name", "link1"]);
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Some(format!("unshare: {e}")),
    }
}

fn ip(words: &str) -> Result<String> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|e| format!("ip: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn address(rank: u32) -> String {
    format!("10.77.0.{}", rank + 1)
}

/// Moves each of the two ranks into a network namespace of its own and joins
/// them. Before anything of the library looks at the network; the namespaces
/// end with the processes.
pub fn join(boot: &dyn Boot) -> Result {
    const PID: &str = "test-pid";
    let rank = boot.rank();
    // SAFETY: takes an integer; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("unshare: {}", std::io::Error::last_os_error()));
    }
    let fence = || boot.fence(&mut || ()).map_err(|e| e.to_string());
    boot.put(PID, &std::process::id().to_le_bytes()).map_err(|e| e.to_string())?;
    fence()?;
    if rank == 0 {
        let pid = boot.get(1, PID).map_err(|e| e.to_string())?;
        let pid = u32::from_le_bytes(pid.try_into().map_err(|_| "four bytes of a pid")?);
        ip(&format!("link add {LINK} type veth peer name {LINK} netns {pid}"))?;
    }
    fence()?;
    ip(&format!("addr add {}/24 dev {LINK}", address(rank)))?;
    ip("link set lo up")?;
    ip(&format!("link set {LINK} up"))?;
    fence()?;
    // It runs a moment after both ends are up; libraries overlook it until then.
    let start = Instant::now();
    while !ip(&format!("link show {LINK}"))?.contains("state UP") {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(format!("{LINK} does not come up"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    fence()
}

/// From now on what this rank sends to the other goes to nobody, without a word.
pub fn cut(boot: &dyn Boot) -> Result {
    let other = address(1 - boot.rank());
    ip(&format!("neigh replace {other} lladdr {NOBODY} dev {LINK} nud permanent"))?;
    Ok(())
}

/// Bytes this rank has sent over the link.
pub fn sent() -> Result<u64> {
    // (Of this process's network; /sys shows that of who mounted it.)
    let table = std::fs::read_to_string("/proc/self/net/dev").map_err(|e| e.to_string())?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(LINK)?.strip_prefix(':'));
    let word = line.and_then(|line| line.split_whitespace().nth(8));
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("no {LINK} in\n{table}"))
}

/// A boot whose ranks seem to be on machines of their own: the control
/// channel then goes over the network's addresses and has no pidfds.
pub struct Far(pub Arc<dyn Boot>);

impl Boot for Far {
    fn launcher(&self) -> &'static str {
        self.0.launcher()
    }
    fn rank(&self) -> u32 {
        self.0.rank()
    }
    fn size(&self) -> u32 {
        self.0.size()
    }
    fn job(&self) -> u64 {
        self.0.job()
    }
    fn put(&self, key: &str, value: &[u8]) -> std::result::Result<(), BootError> {
        self.0.put(key, value)
    }
    fn fence(&self, idle: &mut dyn FnMut()) -> std::result::Result<(), BootError> {
        self.0.fence(idle)
    }
    fn get(&self, rank: u32, key: &str) -> std::result::Result<Vec<u8>, BootError> {
        let bytes = self.0.get(rank, key)?;
        match ContactInfo::decode(&bytes) {
            Some(mut contact_info) if rank != self.rank() => {
                contact_info.process.machine = [rank as u8; 16];
                Ok(contact_info.encode())
            }
            _ => Ok(bytes),
        }
    }
    fn node_of(&self, rank: u32) -> std::result::Result<u32, BootError> {
        Ok(rank)
    }
    fn abort(&self, code: i32, reason: &str) -> ! {
        self.0.abort(code, reason)
    }
    fn finalize(&self) -> std::result::Result<(), BootError> {
        self.0.finalize()
    }
}
