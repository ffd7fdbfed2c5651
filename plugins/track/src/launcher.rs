//! What a process knows of its job without a message: from who launched it.

use crate::agree::hash;
use std::ffi::OsStr;
use std::fs;

/// Returns false if a launcher says that this is not rank 0.
pub(crate) fn leads() -> bool {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|rank| rank == "0")
}

/// Returns true if no launcher is known to have started others.
pub(crate) fn is_alone() -> bool {
    let names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];
    names.iter().all(|name| std::env::var_os(name).is_none())
}

/// A number that all processes of the job have and no other job does; `None` where the
/// launcher is not known.
pub(crate) fn job() -> Option<u64> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let of_hydra = ancestors().find(|pid| words(*pid, "comm").starts_with(b"hydra_pmi_pro"));
    if let Some(proxy) = of_hydra {
        let count = |name| std::env::var(name).ok();
        if count("PMI_SIZE").is_some() && count("PMI_SIZE") == count("MPI_LOCALNRANKS") {
            // All have this proxy.
            let text = format!("{proxy} {}", started(proxy));
            return Some(hash(&[&boot, text.as_bytes()]));
        }
        // All proxies have their launcher's address.
        let line = words(proxy, "cmdline");
        let mut words = line.split(|&byte| byte == 0);
        return words
            .find(|word| *word == b"--control-port")
            .and_then(|_| words.next())
            .map(|address| hash(&[address]));
    }
    let names = ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "PALS_APID"];
    let set: Vec<_> = names.iter().filter_map(std::env::var_os).collect();
    let set: Vec<&[u8]> = set.iter().map(|value| bytes(value)).collect();
    (!set.is_empty()).then(|| hash(&set))
}

fn bytes(text: &OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(text)
}

fn words(pid: u32, file: &str) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// A field of a process's line, by its number in proc(5).
fn field(pid: u32, number: usize) -> String {
    let line = String::from_utf8_lossy(&words(pid, "stat")).into_owned();
    // (The name, the second, may have spaces.)
    let behind = line.rsplit(')').next().unwrap_or_default();
    behind.split_whitespace().nth(number - 3).unwrap_or_default().to_owned()
}

/// When a process began, in ticks since the machine did.
fn started(pid: u32) -> String {
    field(pid, 22)
}

/// The parent, its parent, and so on.
fn ancestors() -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| field(*pid, 4).parse().ok().filter(|&pid| pid > 1);
    std::iter::successors(parent(&std::process::id()), parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_parents_that_began_before() {
        let own: u64 = started(std::process::id()).parse().expect("a number");
        for pid in ancestors() {
            assert!(started(pid).parse::<u64>().is_ok_and(|began| began <= own), "{pid}");
        }
        assert_eq!(job(), job());
    }
}
