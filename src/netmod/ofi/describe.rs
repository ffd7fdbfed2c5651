//! What there is, for people who ask: the library, its providers and their
//! properties. Nothing is opened beyond the library.

use super::bindings as sys;
use super::constants::SHM_PEERS;
use super::select::{
    LOCAL_MR, NETWORK_MR, ONLY_BY_NAME, RMA, Request, delivers, entries, is_node_local, name_of,
    open_library, query, select,
};
use crate::netmod::NetError;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

/// A provider of reliable datagram endpoints and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, with the utility layer where there is one: `tcp;ofi_rxm`.
    pub name: String,
    /// Major and minor version, as the provider counts them.
    pub version: (u32, u32),
    /// Its domains: network interfaces, devices.
    pub domains: Vec<String>,
    /// Whether it has one-sided operations, which windows need.
    pub rma: bool,
    /// Reaches peers on this node only.
    pub node_local: bool,
    /// Taken only when it is named.
    pub only_by_name: bool,
    /// Longest put that may be copied at the call, bytes.
    pub inject_size: usize,
    /// A put that is not copied at the call is over at the target when it completes; a
    /// flush reads back from the others' targets alone, else from all.
    pub delivers: bool,
    /// Longest single operation, bytes.
    pub max_message: usize,
    /// Modes of memory registration that it asks for, without the `FI_MR_`
    /// before them.
    pub mr_mode: Vec<&'static str>,
    /// Bytes of a remote key.
    pub key_size: usize,
    /// Who drives data transfers: `auto` or `manual`.
    pub progress: &'static str,
    /// How many peers one process can reach, where there is a limit.
    pub max_peers: Option<u32>,
}

/// The file libfabric was opened from, and its version.
///
/// # Errors
/// [`NetError::Library`] when there is none, with what to install.
pub fn library() -> Result<(String, String), NetError> {
    let library = open_library()?;
    let (major, minor) = library.version();
    Ok((library.path().display().to_string(), format!("{major}.{minor}")))
}

/// All providers of reliable datagram endpoints, those with one-sided
/// operations first, else in the library's order.
///
/// # Errors
/// [`NetError::Library`].
pub fn describe() -> Result<Vec<Provider>, NetError> {
    let mut found: Vec<Provider> = Vec::new();
    for (caps, mr_mode) in [(RMA, NETWORK_MR), (RMA, LOCAL_MR), (0, NETWORK_MR), (0, LOCAL_MR)] {
        let Some(list) = query(caps, mr_mode, sys::FI_THREAD_UNSPEC, 0)? else { continue };
        for info in entries(list.head) {
            // SAFETY: an entry of the list just queried.
            let mut provider = unsafe { read(info, caps != 0) };
            if provider.node_local && mr_mode == NETWORK_MR {
                // Selection offers it other registration modes.
                continue;
            }
            match found.iter_mut().find(|known| known.name == provider.name) {
                None => found.push(provider),
                Some(known) => {
                    provider.domains.retain(|domain| !known.domains.contains(domain));
                    known.domains.append(&mut provider.domains);
                }
            }
        }
    }
    Ok(found)
}

/// The provider that opening with this request would take.
///
/// # Errors
/// [`NetError::Library`], [`NetError::NoProvider`], [`NetError::NoRma`].
pub fn would_select(request: &Request) -> Result<Provider, NetError> {
    let list = select(request)?;
    // SAFETY: `chosen` is an entry of the list, which lives to the end of this
    // function.
    Ok(unsafe { read(list.chosen, true) })
}

/// # Safety
/// `info` is an entry of a live `fi_getinfo` list.
unsafe fn read(info: NonNull<sys::fi_info>, rma: bool) -> Provider {
    // SAFETY: the caller's entry is live, and libfabric fills the attribute
    // pointers of all entries it answers (fi_getinfo(3)).
    let (name, fabric, domain, ep, tx) = unsafe {
        let i = &*info.as_ptr();
        (name_of(info), &*i.fabric_attr, &*i.domain_attr, &*i.ep_attr, &*i.tx_attr)
    };
    // SAFETY: null or a C string, as all names in an entry.
    let domain_name = unsafe { text(domain.name) };
    let core = name.split(';').next().unwrap_or(&name);
    Provider {
        version: (fabric.prov_version >> 16, fabric.prov_version & 0xffff),
        domains: domain_name.into_iter().collect(),
        rma,
        node_local: is_node_local(&name),
        only_by_name: ONLY_BY_NAME.contains(&core),
        inject_size: tx.inject_size,
        delivers: delivers(&name),
        max_message: ep.max_msg_size,
        mr_mode: mr_mode_names(domain.mr_mode),
        key_size: domain.mr_key_size,
        progress: match domain.data_progress {
            sys::FI_PROGRESS_AUTO => "auto",
            sys::FI_PROGRESS_MANUAL => "manual",
            _ => "unspecified",
        },
        max_peers: (name == "shm").then_some(SHM_PEERS),
        name,
    }
}

/// # Safety
/// `string` is null or a C string.
unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: not null, so a C string.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// The names of the bits of an `mr_mode`, fi_mr(3).
fn mr_mode_names(mr_mode: c_int) -> Vec<&'static str> {
    const NAMES: [(c_int, &str); 12] = [
        (sys::FI_MR_BASIC as c_int, "BASIC"),
        (sys::FI_MR_SCALABLE as c_int, "SCALABLE"),
        (sys::FI_MR_LOCAL, "LOCAL"),
        (sys::FI_MR_RAW, "RAW"),
        (sys::FI_MR_VIRT_ADDR, "VIRT_ADDR"),
        (sys::FI_MR_ALLOCATED, "ALLOCATED"),
        (sys::FI_MR_PROV_KEY, "PROV_KEY"),
        (sys::FI_MR_MMU_NOTIFY, "MMU_NOTIFY"),
        (sys::FI_MR_RMA_EVENT, "RMA_EVENT"),
        (sys::FI_MR_ENDPOINT, "ENDPOINT"),
        (sys::FI_MR_HMEM, "HMEM"),
        (sys::FI_MR_COLLECTIVE, "COLLECTIVE"),
    ];
    NAMES.iter().filter(|(bit, _)| mr_mode & bit != 0).map(|&(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_modes_have_names() {
        assert_eq!(mr_mode_names(0), Vec::<&str>::new());
        let verbs = sys::FI_MR_LOCAL | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED;
        assert_eq!(
            mr_mode_names(verbs | sys::FI_MR_PROV_KEY),
            ["LOCAL", "VIRT_ADDR", "ALLOCATED", "PROV_KEY"]
        );
    }

    /// Runs where libfabric is installed, and says so where it is not.
    #[test]
    fn what_would_be_selected_is_described() {
        if let Err(error) = library() {
            eprintln!("skipped: {error}");
            return;
        }
        let all = describe().expect("a library");
        let names = super::super::providers(true).expect("a library");
        assert!(all.iter().filter(|p| p.rma).all(|p| names.contains(&p.name)), "{all:?}");
        if let Ok(chosen) = would_select(&Request::default()) {
            let known = all.iter().find(|p| p.name == chosen.name).expect("described");
            assert!(known.rma && !known.node_local && !known.only_by_name, "{known:?}");
        }
    }
}
