//! The set-up channel of ranks that share a process: frames stay in memory.

use super::super::protocol::Frame;
use super::Mesh;
use crate::boot::contact_info::ContactInfo;
use crate::boot::{BootError, ProcessId, in_process};

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
    pub(in crate::boot::control) fn receive_in_process(&mut self) -> Result<bool, BootError> {
        let Some(channel) = self.boot.channel() else { return Ok(false) };
        for (rank, bytes) in channel.receive(self.boot.rank()) {
            let frame = match Frame::decode(&bytes) {
                Ok(Some((frame, length))) if length == bytes.len() => frame,
                _ => return Err(BootError::Protocol { rank, what: "it sent no frame".into() }),
            };
            self.received.push(rank, frame);
        }
        Ok(true)
    }

    /// How a rank of this process ended, if it did and all that it sent was received.
    pub(super) fn left_in_process(&self, rank: u32) -> Option<String> {
        let channel = self.boot.channel().filter(|channel| channel.has_left(rank))?;
        (!channel.has_arrived(rank, self.boot.rank())).then(|| in_process::LEFT.into())
    }
}
