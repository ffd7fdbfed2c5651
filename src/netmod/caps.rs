//! What a provider can do and what that costs, and what errors call its operations.

#[cfg(doc)]
use super::Netmod;
use crate::kept;
use std::sync::OnceLock;

/// What a provider can do, as far as the layers above must know.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The provider's name, e.g. `tcp;ofi_rxm`.
    pub provider: String,
    /// Longest put that may be copied at the call, bytes; 0 where a flush could
    /// not tell when it is done.
    pub inject_size: usize,
    /// Longest single operation, bytes.
    pub max_message: usize,
    /// How many peers one process can reach.
    pub max_peers: u32,
    /// Targets are addressed by virtual address instead of offset.
    pub virtual_addresses: bool,
    /// The provider chooses the keys of registered memory.
    pub provider_keys: bool,
    /// Bytes a remote key has; keys chosen here must fit.
    pub key_size: usize,
    /// Iov entries one noncontiguous write or read takes; at most 1 where each
    /// entry is a call.
    pub iov_limit: usize,
    /// Longest packet, head and body together, bytes; 0 where the provider has
    /// no messages.
    pub packet_size: usize,
    /// Packets up to this, head and body together, are copied at the call:
    /// their body is the caller's again at once.
    pub packet_inject: usize,
    /// Longest bulk message, bytes.
    pub max_bulk: usize,
    /// Longer writes and reads are over when the call returns, whose token comes back
    /// all the same.
    pub done_at_call: usize,
    /// A tracked write or read that completed is over at the target too, wherever it
    /// has its memory: no flush need ask for it.
    pub delivers: bool,
    /// The provider's atomics are those of the target's processor: they and
    /// processors that do the same to the memory do not disturb each other, and
    /// those of one endpoint to one peer take effect in the order of the calls.
    pub cpu_atomics: bool,
    /// An endpoint that closes ends its connections, and of one over which a peer's packet comes
    /// later what was handed over before may not arrive.
    pub lossy_close: bool,
    /// A connection that breaks may take packets with it of which nobody hears.
    pub silent_losses: bool,
    /// It reaches peers on the node through queues in shared memory that the
    /// death of one of them may stop.
    pub node_queues: bool,
    /// What its operations cost, once somebody asked: [`Netmod::operation_costs`].
    pub costs: OnceLock<Box<Costs>>,
}

/// What moving noncontiguous data costs, ns on one machine: a choice between
/// methods needs their proportions alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// An operation with one block.
    pub call: f64,
    /// Each further block in it of the origin's memory.
    pub origin_entry: f64,
    /// Each further block in it of the target's memory.
    pub target_entry: f64,
    /// Blocks that an operation takes; 1 where each is one of its own.
    pub entries: u64,
    /// A byte.
    pub byte: f64,
}

impl Costs {
    /// Those of a provider of which nothing is known.
    pub const ASSUMED: Costs =
        Costs { call: 2000.0, origin_entry: 300.0, target_entry: 300.0, entries: 1, byte: 0.30 };

    /// What is kept of them.
    const KEPT: [&str; 4] = ["call", "origin_entry", "target_entry", "byte"];

    /// Those that were measured of a provider on this host and kept, for `entries` that are
    /// the provider's; `assumed` where there are none.
    pub(super) fn kept_or(provider: &str, assumed: Costs) -> Costs {
        match kept::read(KIND, provider, Costs::KEPT) {
            Some([call, origin_entry, target_entry, byte]) => {
                Costs { call, origin_entry, target_entry, byte, ..assumed }
            }
            None => assumed,
        }
    }

    /// Returns true if those of a provider were measured on this host and kept.
    #[must_use]
    pub fn is_kept(provider: &str) -> bool {
        kept::read(KIND, provider, Costs::KEPT).is_some()
    }

    /// Keeps them as measured of a provider on this host, for the same user: in `rankway`
    /// under `XDG_CACHE_HOME`, else `HOME/.cache`. Who opens it from now on goes by them.
    /// Returns the file.
    ///
    /// # Errors
    /// Neither variable is set, or the file cannot be written.
    pub fn keep(&self, provider: &str) -> std::io::Result<std::path::PathBuf> {
        let values = [self.call, self.origin_entry, self.target_entry, self.byte];
        let all: Vec<_> = Costs::KEPT.into_iter().zip(values).collect();
        kept::write(KIND, provider, &all)
    }
}

/// What measurements of providers are called.
const KIND: &str = "provider";

impl Caps {
    /// Those of a provider called `provider` that can do nothing yet.
    #[must_use]
    pub fn none(provider: impl Into<String>) -> Caps {
        Caps {
            provider: provider.into(),
            inject_size: 0,
            max_message: usize::MAX,
            max_peers: u32::MAX,
            virtual_addresses: false,
            provider_keys: false,
            key_size: 8,
            iov_limit: 1,
            packet_size: 0,
            packet_inject: 0,
            max_bulk: 0,
            done_at_call: usize::MAX,
            delivers: false,
            cpu_atomics: false,
            lossy_close: false,
            silent_losses: false,
            node_queues: false,
            costs: OnceLock::new(),
        }
    }
}

/// What errors call a netmod's operations: the library's functions, which its
/// manual and its users know.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// [`Netmod::inject`].
    pub inject: &'static str,
    /// [`Netmod::write`] and [`Netmod::write_iov`].
    pub write: &'static str,
    /// [`Netmod::read`] and [`Netmod::read_iov`].
    pub read: &'static str,
    /// [`Netmod::atomic`].
    pub atomic: &'static str,
    /// [`Netmod::flush`].
    pub flush: &'static str,
    /// [`Netmod::send`].
    pub send: &'static str,
    /// [`Netmod::send_bulk`].
    pub send_bulk: &'static str,
    /// [`Netmod::recv_bulk`].
    pub recv_bulk: &'static str,
}

impl Calls {
    /// The names that the trait has for them.
    pub const GENERIC: Calls = Calls {
        inject: "inject",
        write: "write",
        read: "read",
        atomic: "atomic",
        flush: "flush",
        send: "send",
        send_bulk: "send_bulk",
        recv_bulk: "recv_bulk",
    };

    fn all(&self) -> [&'static str; 8] {
        let Calls { inject, write, read, atomic, flush, send, send_bulk, recv_bulk } = *self;
        [inject, write, read, atomic, flush, send, send_bulk, recv_bulk]
    }

    /// What the trait calls what is a `call` here.
    pub(super) fn generic(&self, call: &'static str) -> &'static str {
        let at = self.all().iter().position(|&own| own == call);
        at.map_or(call, |at| Calls::GENERIC.all()[at])
    }
}
