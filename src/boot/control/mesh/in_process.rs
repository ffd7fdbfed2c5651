//! The mesh of ranks that share a process, which connects nobody.

use super::Mesh;
use crate::boot::ProcessId;
use crate::boot::contact_info::ContactInfo;

/// Of a rank whose process is everybody's: nobody watches it.
pub(super) fn contact_info() -> ContactInfo {
    let process = ProcessId { pid_namespace: 0, ..ProcessId::current() };
    ContactInfo::of_silent(process)
}

impl Mesh {
    pub(in crate::boot::control) fn is_in_process(&self) -> bool {
        self.boot.channel().is_some()
    }

    /// Takes in what has arrived, where the ranks share a process. Returns true if they do.
    pub(in crate::boot::control) fn receive_in_process(&mut self) -> bool {
        let Some(channel) = self.boot.channel() else { return false };
        for (rank, frame) in channel.receive(self.boot.rank()) {
            self.received.push(rank, frame);
        }
        true
    }
}
